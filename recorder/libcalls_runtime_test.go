//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/symbolize"
)

// libcall has the contents of a trace about calls of a libc function.
type libcall struct {
	calls, left int
	args        []string // small arguments of each call
	results     []int64  // results of the calls that have one
}

func (c *libcall) sum() (sum int64) {
	for _, r := range c.results {
		sum += max(r, 0)
	}
	return sum
}

// libcalls holds the calls of all functions of some traces, and the names of descriptors.
type libcalls struct {
	names symbolize.Names
	by    map[string]*libcall
	files []reader.Descriptor
	// unmatched is the number of exits without an entry.
	unmatched int64
}

func (l *libcalls) Calls(b *calls.Batch) error {
	results := b.Results
	for i := range b.Calls {
		c := &b.Calls[i]
		name := symbolize.Label(l.names, c.Func)
		f := l.by[name]
		if f == nil {
			f = new(libcall)
			l.by[name] = f
		}
		f.calls++
		if c.End == calls.Left {
			f.left++
		}
		var args []string
		for _, a := range b.ArgsOf(i) {
			if a.Value < 1<<32 {
				args = append(args, fmt.Sprint(a.Value))
			}
		}
		f.args = append(f.args, strings.Join(args, " "))
		for ; len(results) > 0 && results[0].Call == i; results = results[1:] {
			f.results = append(f.results, int64(results[0].Value))
		}
	}
	for i := range b.Events {
		if d, ok := reader.ParseDescriptor(b.Events[i].Data); ok {
			l.files = append(l.files, d)
		}
	}
	return nil
}

func (l *libcalls) Merge(*libcalls) {}

// readLibcalls reads the calls of all traces.
func readLibcalls(t *testing.T, traces ...string) *libcalls {
	t.Helper()
	l := &libcalls{by: make(map[string]*libcall)}
	for _, path := range traces {
		trace, err := reader.Open(reader.Options{}, path)
		if err != nil {
			t.Fatal(err)
		}
		defer trace.Close()
		opened, err := symbolize.Open(trace, nil, symbolize.Search{})
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		l.names = opened.Names
		if _, stats, err := calls.Run(calls.Source(trace), calls.Options{Shards: 1}, func() *libcalls { return l }); err != nil {
			t.Fatal(err)
		} else {
			l.unmatched += int64(stats.Unmatched)
		}
	}
	return l
}

// callRun is a program that calls libc, and the libraries to preload for recording these calls.
type callRun struct {
	program string
	preload []string
}

// callRuns are the ways to record calls of libc: preloaded, or linked into a dynamic or static
// program.
func callRuns(t *testing.T) map[string]callRun {
	l := library(t)
	var preloads []string
	for _, s := range build.CallSets {
		preloads = append(preloads, l.PreloadCalls(s)...)
	}
	linked := []string{"-O1", "-Wl,--whole-archive", l.Archive(), "-Wl,--no-whole-archive", "-ldl"}
	wrapped := append(slices.Clone(linked), l.LinkCalls(build.CallSets...)...)
	return map[string]callRun{
		"preloaded": {buildProgram(t, "clang-19", "libcalls.c", "-O1"), append([]string{l.Preload()}, preloads...)},
		"linked":    {buildProgram(t, "clang-19", "libcalls.c", linked...), preloads},
		"wrapped":   {buildProgram(t, "clang-19", "libcalls.c", wrapped...), nil},
		"static":    {buildProgram(t, "clang-19", "libcalls.c", append(wrapped, "-static")...), nil},
	}
}

// run runs the program with and without the recorder, checks that it prints the same, and returns
// the calls.
func (r callRun) run(t *testing.T, options string, args ...string) *libcalls {
	t.Helper()
	work := t.TempDir()
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "DIR", work)
	}
	plain, err := exec.Command(r.program, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(r.program, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.Env = append(os.Environ(), recorder.EnvVar+"=output="+recorder.EscapeOption(dir)+"/%25p,"+options, "LD_PRELOAD="+strings.Join(r.preload, ":"))
	recorded, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("%v\n%s%s", err, recorded, &errs)
	}
	if string(recorded) != string(plain) {
		t.Errorf("the program printed\n%s\nwithout the recorder\n%s", recorded, plain)
	}
	traces, err := filepath.Glob(dir + "/*")
	if err != nil || len(traces) == 0 {
		t.Fatalf("no trace: %v", err)
	}
	found := readLibcalls(t, traces...)
	if found.unmatched > 0 {
		t.Errorf("%d exits without an entry", found.unmatched)
	}
	return found
}

// expect checks the number of calls of each function.
func (l *libcalls) expect(t *testing.T, want map[string]int) {
	t.Helper()
	for name, n := range want {
		got := 0
		if f := l.by[name]; f != nil {
			got = f.calls
		}
		if got != n {
			t.Errorf("got %d calls of %s, want %d; functions: %v", got, name, n, slices.Sorted(maps.Keys(l.by)))
		}
	}
}

func TestLibcalls(t *testing.T) {
	t.Parallel()
	for name, r := range callRuns(t) {
		t.Run(name, func(t *testing.T) {
			for what, check := range map[string]func(*testing.T, string, callRun){
				"locks": checkLocks, "io": checkIO, "cancel": checkCancelled, "forks": checkForks, "memory": checkMemory,
			} {
				t.Run(what, func(t *testing.T) { check(t, name, r) })
			}
			if name == "preloaded" {
				t.Run("modes", func(t *testing.T) { checkModes(t, r) })
				t.Run("pruned", func(t *testing.T) { checkPrunedCalls(t, r) })
			}
		})
	}
}

func checkLocks(t *testing.T, name string, r callRun) {
	l := r.run(t, "mode=record", "locks")
	waits := 1
	if f := l.by["pthread_cond_wait"]; f != nil {
		waits = max(1, f.calls)
	}
	locks := 1003
	if name == "static" { // includes the unwinder's own lock
		locks = l.by["pthread_mutex_unlock"].calls
		if locks < 1003 || locks > 1013 {
			t.Errorf("got %d unlocks", locks)
		}
	}
	l.expect(t, map[string]int{
		"pthread_mutex_lock": locks, "pthread_mutex_unlock": locks, "pthread_mutex_trylock": 1,
		"pthread_cond_wait": waits, "pthread_cond_timedwait": 1, "pthread_cond_signal": 1,
		"pthread_rwlock_rdlock": 1, "pthread_rwlock_trywrlock": 1, "pthread_rwlock_unlock": 1,
		"pthread_spin_lock": 1, "pthread_spin_trylock": 1, "pthread_spin_unlock": 1,
		"pthread_barrier_wait": 2, "sem_wait": 1, "sem_post": 1, "pthread_join": 3, "contend": 2,
	})
	const busy, timedOut = 16, 110
	for name, want := range map[string]int64{
		"pthread_mutex_trylock": busy, "pthread_spin_trylock": busy, "pthread_rwlock_trywrlock": busy, "pthread_cond_timedwait": timedOut,
	} {
		if f := l.by[name]; f == nil || !slices.Equal(f.results, []int64{want}) {
			t.Errorf("%s: got %+v, want result %d", name, f, want)
		}
	}
}

func checkIO(t *testing.T, name string, r callRun) {
	l := r.run(t, "mode=record", "io", "DIR/a file")
	l.expect(t, map[string]int{
		"write": 10, "writev": 1, "pwrite": 1, "pread": 1, "fsync": 1, "open": 2, "dup": 1, "send": 1, "recv": 1,
		"poll": 1, "epoll_wait": 1, "read": 4, "close": 7,
	})
	for name, want := range map[string]int64{"write": 100, "writev": 7, "pwrite": 5, "pread": 55, "read": 50, "send": 5, "recv": 5, "poll": 1} {
		if f := l.by[name]; f == nil || f.sum() != want {
			t.Errorf("%s: got %+v, want a sum of results of %d", name, f, want)
		}
	}
	// One read failed, one was interrupted, and one was left by a jump. Only the recorder as a shared
	// object notices the jump.
	if f := l.by["read"]; f != nil && (len(f.results) != 3 || f.results[1] != -int64(syscall.EBADF) || f.results[2] != -int64(syscall.EINTR)) {
		t.Errorf("read: wrong results: %+v", f)
	}
	if f := l.by["write"]; f != nil && (f.args[0] == "" || f.args[0] != l.by["fsync"].args[0]) {
		t.Errorf("descriptors differ: write %v, fsync %v", f.args, l.by["fsync"].args)
	}
	named := map[string]int{}
	for _, d := range l.files {
		what := filepath.Base(d.String())
		if strings.HasPrefix(d.Path, "anon_inode") {
			what = "anon_inode"
		}
		named[what]++
	}
	// Two descriptors of the file, both ends of the unnamed socket pair, and the pipe.
	for what, n := range map[string]int{"a file": 2, "socket": 2, "anon_inode": 1, "pipe": 2} {
		if named[what] != n {
			t.Errorf("got descriptors %v, want %d of %s", named, n, what)
		}
	}
}

// Threads that are cancelled inside a recorded call clean up and break nothing.
func checkCancelled(t *testing.T, name string, r callRun) {
	if name == "static" {
		return // glibc does not load its unwinder in static programs
	}
	l := r.run(t, "mode=record", "cancel")
	l.expect(t, map[string]int{"pthread_mutex_lock": 2, "pthread_mutex_unlock": 2, "usleep": 3, "sleep": 1, "read": 1, "pthread_cond_wait": 1})
}

func checkForks(t *testing.T, name string, r callRun) {
	l := r.run(t, "mode=record", "fork", "DIR/file")
	want := map[string]int{"write": 2, "open": 2, "close": 2, "waitpid": 1}
	if f := l.by["write"]; f != nil && f.calls == 1 {
		t.Skip("the child's records are lost at _exit") // there is no observer to write them
	}
	l.expect(t, want)
}

func checkMemory(t *testing.T, name string, r callRun) {
	l := r.run(t, "mode=record", "alloc")
	// Libraries also allocate.
	least := map[string]int{"malloc": 108, "free": 104, "realloc": 2, "calloc": 1, "aligned_alloc": 1, "posix_memalign": 2, "mmap": 1, "munmap": 1}
	for name, n := range least {
		if f := l.by[name]; f == nil || f.calls < n || f.calls > n+10 {
			t.Errorf("%s: got %+v, want about %d calls", name, f, n)
		}
	}
	size := func(name, args string) (n int) {
		for _, a := range l.by[name].args {
			if a == args {
				n++
			}
		}
		return n
	}
	if a, b, c, d := size("malloc", "1000"), size("malloc", "5000"), size("calloc", "200"), size("posix_memalign", "700"); a != 100 || b != 7 || c != 1 || d != 2 {
		t.Errorf("got sizes: %d of 1000, %d of 5000, %d of 10 times 20, %d of 700", a, b, c, d)
	}
	if f := l.by["posix_memalign"]; f.results[0] == 0 || f.results[1] != 0 {
		t.Errorf("posix_memalign: %+v", f)
	}
}

// Modes treat calls of libc like others: prune mode sums up short ones, depth mode drops deep ones,
// and count mode counts all.
func checkModes(t *testing.T, r callRun) {
	l := r.run(t, "mode=prune,threshold=5000000", "io", "DIR/file")
	// On a busy machine some calls may take long, but not all.
	if f := l.by["read"]; f == nil || f.calls < 2 {
		t.Errorf("got reads of 5 ms: %+v, want at least 2", f)
	}
	if f := l.by["write"]; f != nil && f.calls == 10 {
		t.Error("no write was pruned")
	}
	l = r.run(t, "mode=depth,depth=2", "io", "DIR/file")
	l.expect(t, map[string]int{"write": 0, "files": 1})
	l = r.run(t, "mode=depth,depth=3", "io", "DIR/file")
	l.expect(t, map[string]int{"write": 10, "files": 1})
	l = r.run(t, "mode=depth,depth=3,threshold=5000000", "io", "DIR/file")
	if f := l.by["write"]; f != nil && f.calls == 10 {
		t.Error("no write was pruned")
	}
}

// Pruned calls have sums, whether they have one argument, two, or a result.
func checkPrunedCalls(t *testing.T, r callRun) {
	dir := t.TempDir()
	cmd := exec.Command(r.program, "alloc")
	cmd.Env = append(os.Environ(), recorder.EnvVar+"=mode=prune,threshold=1000000000,output="+recorder.EscapeOption(dir)+"/trace", "LD_PRELOAD="+strings.Join(r.preload, ":"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	trace, err := reader.Open(reader.Options{}, filepath.Join(dir, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	opened, err := symbolize.Open(trace, nil, symbolize.Search{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	sums := map[string]uint64{}
	for _, f := range trace.Recording(0).Pruned.Functions {
		sums[symbolize.Label(opened.Names, f.Func)] = f.Calls
	}
	for name, n := range map[string]uint64{"malloc": 108, "free": 104, "realloc": 2, "posix_memalign": 2, "munmap": 1} {
		// A call is kept if its thread was switched out during it.
		if sums[name] < n/2 || sums[name] > n+10 {
			t.Errorf("got %d pruned calls of %s, want about %d", sums[name], name, n)
		}
	}
}

// Without --libcalls, the recorder replaces none of libc's functions.
func TestNoLibcalls(t *testing.T) {
	for _, name := range elftest.Exports(t, library(t).Preload()) {
		if slices.Contains([]string{"read", "write", "malloc", "free", "pthread_mutex_lock", "nanosleep"}, name) {
			t.Errorf("the recorder exports %s", name)
		}
	}
}

// The call sets export only functions of libc.
func TestLibcallExports(t *testing.T) {
	testenv.Need(t, "gcc")
	l := library(t)
	for _, s := range build.CallSets {
		names := elftest.Exports(t, l.PreloadCalls(s)[0])
		if len(names) < 6 || len(names) > 200 {
			t.Errorf("%s: wrong exports: %v", s, names)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "xr_") || strings.HasPrefix(name, "__start") {
				t.Errorf("%s exports %s", s, name)
			}
		}
	}
}

// While nothing is recorded, functions of the call sets jump to those of libc, whose calls then cost next to
// nothing.
func TestLibcallsThatAreOff(t *testing.T) {
	t.Parallel()
	path := library(t).PreloadCalls("locks")[0]
	cmd := exec.Command(buildProgram(t, "clang-22", "budget.c", "-O2", "-fxray-instruction-threshold=1"), "1000000000")
	startIdle(t, cmd, 1<<20, path)
	pid := cmd.Process.Pid
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	base := uint64(0)
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), path) && base == 0 {
			base, _ = strconv.ParseUint(line[:strings.IndexByte(line, '-')], 16, 64)
		}
	}
	library, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	heads := func(want byte) {
		t.Helper()
		n := 0
		for _, s := range symbols {
			if s.Section == elf.SHN_UNDEF || elf.ST_TYPE(s.Info) != elf.STT_FUNC {
				continue
			}
			n++
			code := make([]byte, 64)
			if _, err := mem.ReadAt(code, int64(base+s.Value)-1); err != nil {
				t.Fatal(err)
			}
			// The byte before a function is the distance to its sled.
			sled := code[1+code[0]:]
			if sled[0] != 0xeb || sled[1] != want || !bytes.Equal(sled[13:15], []byte{0xff, 0x25}) {
				t.Errorf("%s: the sled is % x", s.Name, sled[:15])
			}
		}
		if n < 20 {
			t.Errorf("%d functions", n)
		}
	}
	const off, on = 13 - 2, 4
	heads(off)
	mustAsk(t, pid, "start mode=record")
	heads(on)
	mustAsk(t, pid, "stop")
	heads(off)
}

func TestParseCallSets(t *testing.T) {
	for list, want := range map[string]string{
		build.DefaultCallSets: "[locks io sleep]", "alloc,locks": "[locks alloc]", "all": "[locks io sleep alloc copy]", "io,io": "[io]",
	} {
		if got, err := build.ParseCallSets(list); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, error %v", list, got, err)
		}
	}
	if _, err := build.ParseCallSets("locks,files"); err == nil || !strings.Contains(err.Error(), `"files"`) {
		t.Errorf("unknown set: got error %v", err)
	}
}

// A running process calls the replacements of libc's functions while it is recorded with them, and only
// then. Its own pointers to libc's functions stay what they were.
func TestLibcallsOfRunningProcess(t *testing.T) {
	t.Parallel()
	l := library(t)
	for name, flags := range map[string][]string{
		"lazy":   {"-Wl,-z,lazy"},
		"now":    {"-Wl,-z,now"},
		"no-plt": {"-fno-plt", "-Wl,-z,relro,-z,now"},
		"lld":    {"-fuse-ld=lld", "-Wl,-z,now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startUnprepared(t, buildProgram(t, "clang-22", "imported.c", append(flags, "-O1", "-fxray-instruction-threshold=1")...))
			p, err := client.Attach(t.Context(), strconv.Itoa(a.Process.Pid), l, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, sets := range [][]build.CallSet{nil, {"locks", "alloc"}, nil, build.CallSets, nil} {
				if len(sets) > 0 {
					if err := p.LoadCalls(t.Context(), l, sets); err != nil {
						t.Fatal(err)
					}
				}
				got := recordImported(t, p)
				for name, set := range map[string]build.CallSet{"pthread_mutex_lock": "locks", "pthread_mutex_unlock": "locks",
					"malloc": "alloc", "usleep": "sleep", "read": "io", "memcpy": "copy"} {
					if (got.by[name] != nil) != slices.Contains(sets, set) {
						t.Errorf("sets %v: calls of %s: %v", sets, name, got.by[name])
					}
				}
			}
			a.end()
			if line, err := a.out.ReadString('\n'); line != "0 wrong\n" {
				t.Errorf("the program printed %q, %v", line, err)
			}
			if err := a.Wait(); err != nil || a.stderr.Len() > 0 {
				t.Errorf("%v; %s", err, &a.stderr)
			}
		})
	}
}

// recordImported records a process until it has made some calls after those of libc are bound.
func recordImported(t *testing.T, p *client.Process) *libcalls {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	file, err := client.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, held, err := p.Hold(t.Context(), (&recorder.Settings{Mode: recorder.Record}).StartCommand(true), file)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if info, err := os.Stat(path); err != nil || info.Size() > 300<<10 {
			break
		}
	}
	if _, err := p.Do(t.Context(), nil, "stop"); err != nil {
		t.Error(err)
	}
	return readLibcalls(t, path)
}
