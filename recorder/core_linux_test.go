//go:build linux && amd64

package recorder_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/core"
	"github.com/xray-tools/xray/recorder/ring"
)

// crash runs a program that aborts and dumps core. It returns the path of the core and the program's
// output.
func crash(t *testing.T, env []string, program string, args ...string) (core, said string) {
	t.Helper()
	return crashBy(t, syscall.SIGABRT, env, program, args...)
}

// crashBy runs a program that dumps core because of a signal, as crash does.
func crashBy(t *testing.T, signal syscall.Signal, env []string, program string, args ...string) (core, said string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -c unlimited; exec "$0" "$@"`, program}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != signal {
		t.Fatalf("%v: %v", cmd, err)
	}
	cores, _ := filepath.Glob(filepath.Join(dir, "core*"))
	if len(cores) == 0 {
		pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
		if os.Getenv("CI") == "true" {
			t.Fatalf("no core file; core_pattern is %q, and CI=true requires \"core\"", pattern)
		}
		t.Skipf("the system writes no core files into the working directory: core_pattern is %q", pattern)
	}
	return cores[0], string(out)
}

// recordBlocks returns the header of a trace and its blocks except those of metadata.
func recordBlocks(t *testing.T, trace []byte) (header, blocks []byte) {
	t.Helper()
	for rest := trace[32:]; len(rest) > 0; {
		size := 16 + binary.LittleEndian.Uint64(rest[1:])
		if rest[0] != 0x0f || rest[48] != 0x13 || size > uint64(len(rest)) {
			t.Fatalf("no block at offset %d", len(trace)-len(rest))
		}
		if binary.LittleEndian.Uint32(rest[49:]) != 0 {
			blocks = append(blocks, rest[:size]...)
		}
		rest = rest[size:]
	}
	return trace[:32], blocks
}

// From the same rings, the runtime and the core reader write the same trace, byte for byte.
func TestCoreIsWhatASnapshotIs(t *testing.T) {
	t.Parallel()
	rings := buildRings(t)
	for _, test := range []struct {
		name string
		args []string // seed, threads, calls, chunks and since
	}{
		{"one thread", []string{"1", "1", "20000", "64"}},
		{"threads", []string{"2", "7", "20000", "64"}},
		{"wrapped", []string{"3", "3", "60000", "3"}},
		{"since", []string{"4", "3", "20000", "64", "60"}},
		{"since, wrapped", []string{"5", "5", "40000", "4", "30"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := filepath.Join(t.TempDir(), "snapshot.xray")
			path, said := crash(t, nil, rings, append([]string{"core", snapshot}, test.args...)...)
			c, err := core.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var since uint64
			for line := range strings.Lines(said) {
				if text, ok := strings.CutPrefix(line, "since "); ok {
					since, _ = strconv.ParseUint(strings.TrimSpace(text), 10, 64)
				}
			}
			var got bytes.Buffer
			if err := c.Rings()[0].WriteSince(&got, since); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(snapshot)
			if err != nil {
				t.Fatal(err)
			}
			wantHeader, wantBlocks := recordBlocks(t, want)
			gotHeader, gotBlocks := recordBlocks(t, got.Bytes())
			// The stand-in for the runtime does not set the invariant TSC flag. The
			// frequency is measured again after it wrote its header.
			if !bytes.Equal(wantHeader[:4], gotHeader[:4]) || !bytes.Equal(wantHeader[16:], gotHeader[16:]) {
				t.Errorf("got header\n%x, want\n%x", gotHeader, wantHeader)
			}
			if i := firstDifference(wantBlocks, gotBlocks); i >= 0 {
				t.Errorf("got %d bytes of blocks, want %d; they differ at %#x", len(gotBlocks), len(wantBlocks), i)
			}
			if len(gotBlocks) < 10000 {
				t.Errorf("got only %d bytes of blocks", len(gotBlocks))
			}
		})
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

// crashProgram compiles testdata/crash.c and returns the environment for running it with the
// recorder preloaded and recording to rings.
func crashProgram(t *testing.T, options string, flags ...string) (program string, env []string) {
	t.Helper()
	testenv.Need(t, "clang-14")
	library, err := build.Runtime(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	program = elftest.Build(t, "clang-14", "out", append([]string{
		"testdata/crash.c", "-O1", "-pthread", "-fxray-instrument", "-fxray-instruction-threshold=1", "-fnoxray-link-deps",
	}, flags...)...)
	output := recorder.EscapeTemplate(filepath.Join(t.TempDir(), "x.xray"))
	return program, []string{"LD_PRELOAD=" + library.Preload(), recorder.EnvVar + "=quiet=1,stream=0," + options + ",output=" + recorder.EscapeOption(output)}
}

// IDs of the functions in testdata/crash.c.
const (
	idLeaf   = 1
	idBranch = 2
)

// checkCrash checks that a trace has all calls of crash.c. calls is the number that its thread
// makes.
func checkCrash(t *testing.T, path string, calls uint64) found {
	t.Helper()
	verify(t, path)
	got := readTrace(t, path)
	if got.calls[idLeaf] != 2*(calls+100) || got.calls[idBranch] != calls+100 || got.unmatched+got.orphan+got.backwards != 0 {
		t.Errorf("got calls %v, want %d of branch; %d exits without entry, %d calls without exit, %d backward time steps",
			got.calls, calls+100, got.unmatched, got.orphan, got.backwards)
	}
	var names []string
	for _, th := range got.recording.Threads {
		names = append(names, th.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"out", "worker"}) || len(got.recording.Losses) > 0 {
		t.Errorf("got threads %q, losses %v", names, got.recording.Losses)
	}
	if p := got.recording.Process; p.PID == 0 || p.PPID == 0 || filepath.Base(p.Exe) != "out" || len(p.Argv) == 0 {
		t.Errorf("wrong process metadata: %+v", p)
	}
	// Clocks run at about 1 GHz.
	if f := got.recording.Clock.Frequency; f < 100e6 || f > 10e9 {
		t.Errorf("got a clock of %d Hz", f)
	}
	return got
}

func openCore(t *testing.T, path string) *core.Core {
	t.Helper()
	c, err := core.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestCoreOfAStrippedProgram(t *testing.T) {
	t.Parallel()
	program, env := crashProgram(t, "ring=4194304", "-s")
	path, _ := crash(t, env, program, "a", "30000")
	c := openCore(t, path)
	if got := c.Ending(); !strings.HasPrefix(got, "SIGABRT in thread ") {
		t.Errorf("wrong signal: %q", got)
	}
	checkCrash(t, traceFile(t, c, 0), 30000)

	// The last records include the crash.
	last := readTrace(t, traceFile(t, c, time.Microsecond))
	if n := last.calls[idBranch]; last.records == 0 || n > 100 {
		t.Errorf("got %d records and %d calls of branch in the last microsecond", last.records, n)
	}
	for _, tool := range []string{"gzip", "zstd"} {
		t.Run(tool, func(t *testing.T) {
			testenv.Need(t, tool)
			packed := filepath.Join(t.TempDir(), "core.packed")
			out, err := os.Create(packed)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(tool, "-c", path)
			cmd.Stdout = out
			if err := errors.Join(cmd.Run(), out.Close()); err != nil {
				t.Fatal(err)
			}
			checkCrash(t, traceFile(t, openCore(t, packed), 0), 30000)
		})
	}
}

func TestCoreOfALinkedProgram(t *testing.T) {
	t.Parallel()
	library, err := build.Runtime(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"-static"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			flags := append(slices.Clone(flags), "-Wl,--whole-archive", library.Archive(), "-Wl,--no-whole-archive", "-ldl")
			program, env := crashProgram(t, "ring=1048576", flags...)
			path, _ := crash(t, env[1:], program, "a", "5000")
			checkCrash(t, traceFile(t, openCore(t, path), 0), 5000)
		})
	}
}

func TestCoreWithoutRings(t *testing.T) {
	program, env := crashProgram(t, "dontdump=1")
	path, _ := crash(t, env, program, "a", "100")
	if _, err := core.Open(path, nil); err == nil || !strings.Contains(err.Error(), "dontdump=1") {
		t.Errorf("got error %v", err)
	}
}

func TestCoreOfCounts(t *testing.T) {
	program, env := crashProgram(t, "mode=count")
	path, _ := crash(t, env, program, "a", "700")
	r := readTrace(t, traceFile(t, openCore(t, path), 0)).recording
	calls := map[uint32]uint64{}
	for _, c := range r.Counters {
		calls[uint32(c.Func)] = c.Calls
	}
	if calls[idLeaf] != 1600 || calls[idBranch] != 800 {
		t.Errorf("wrong counters: %v", calls)
	}
}

// Functions without sleds are identified by their addresses, which are in core dumps and ring
// files.
func TestCoreOfHookedFunctions(t *testing.T) {
	t.Parallel()
	dir := shmFolder(t)
	_, env := crashProgram(t, "ring=1048576")
	program := buildHooked(t, "crash.c", hooks["functions"])
	core, _ := crash(t, env, program, "a", "5000")
	env[1] += ",shm=" + dir
	runToEnd(t, env, program, "k", "5000")
	for _, path := range []string{core, ringFiles(t, dir)[0]} {
		path := traceFile(t, openCore(t, path), 0)
		verify(t, path)
		got := readTrace(t, path)
		// IDs are in the order of the first calls.
		const branch, leaf = 1, 2
		if got.calls[branch] != 5100 || got.calls[leaf] != 10200 || got.unmatched+got.orphan != 0 {
			t.Errorf("got calls %v, %d exits without entry, %d calls without exit", got.calls, got.unmatched, got.orphan)
		}
		a := got.recording.Addresses
		if len(a) != 2 || a[0] <= a[1] || a[0]-a[1] > 1000 {
			t.Errorf("wrong addresses of branch and leaf: %#x", a)
		}
	}
}

// waiting runs crash.c and returns after it has made its calls.
func waiting(t *testing.T, env []string, program, calls string) *exec.Cmd {
	t.Helper()
	return startReady(t, env, program, "w", calls)
}

// startReady runs a program and returns when it prints that it is ready. It ends with the test.
func startReady(t *testing.T, env []string, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	r := startPiped(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line := r.line(t); line != "ready" {
		t.Fatalf("the program printed %q", line)
	}
	return cmd
}

func TestCoreOfARunningProgram(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "gcore", "gdb")
	program, env := crashProgram(t, "ring=1048576")
	cmd := waiting(t, env, program, "5000")
	prefix := filepath.Join(t.TempDir(), "core")
	out, err := exec.Command("gcore", "-o", prefix, strconv.Itoa(cmd.Process.Pid)).CombinedOutput()
	if strings.Contains(string(out), "ptrace: Operation not permitted") {
		t.Skipf("debugging is not permitted here: %s", out)
	}
	if err != nil {
		t.Fatalf("gcore: %v\n%s", err, out)
	}
	checkCrash(t, traceFile(t, openCore(t, fmt.Sprint(prefix, ".", cmd.Process.Pid)), 0), 5000)
}

// shmFolder returns a folder in shared memory if that has enough room.
func shmFolder(t *testing.T) string {
	t.Helper()
	const enough = 64 << 20
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || int64(fs.Bavail)*fs.Bsize < enough {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "xray-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func ringFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// runToEnd runs crash.c until it ends, which may be by a signal.
func runToEnd(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	killed := cmd.ProcessState != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if err != nil && !killed {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	return stderr.String()
}

func TestRingsOutliveAKill(t *testing.T) {
	dir := shmFolder(t)
	program, env := crashProgram(t, "ring=1048576,shm="+dir)
	runToEnd(t, env, program, "k", "5000")
	files := ringFiles(t, dir)
	if len(files) != 1 {
		t.Fatalf("wrong number of files: %q", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, error %v", info.Mode(), err)
	}
	checkCrash(t, traceFile(t, openCore(t, files[0]), 0), 5000)
}

// The rings of a running program can be read.
func TestRingsOfARunningProgram(t *testing.T) {
	dir := shmFolder(t)
	program, env := crashProgram(t, "ring=1048576,shm="+dir)
	waiting(t, env, program, "5000")
	checkCrash(t, traceFile(t, openCore(t, ringFiles(t, dir)[0]), 0), 5000)
}

// Rings that wrapped hold the latest chunks.
func TestRingsThatWentRound(t *testing.T) {
	dir := shmFolder(t)
	program, env := crashProgram(t, "ring=262144,shm="+dir)
	runToEnd(t, env, program, "k", "50000")
	path := traceFile(t, openCore(t, ringFiles(t, dir)[0]), 0)
	verify(t, path)
	got := readTrace(t, path)
	// There are at least three chunks of the thread and all of the main thread.
	if n := got.calls[idLeaf]; n < 8000 || n > 12000 || got.unmatched > 2 || got.orphan > 0 || got.backwards > 0 {
		t.Errorf("got calls %v; %d exits without entry, %d calls without exit, %d backward time steps", got.calls, got.unmatched, got.orphan, got.backwards)
	}
}

// A forked child has its own ring file and does not change its parent's.
func TestRingsOfAForkedChild(t *testing.T) {
	dir := shmFolder(t)
	program, env := crashProgram(t, "ring=1048576,shm="+dir)
	runToEnd(t, env, program, "f", "5000")
	files := ringFiles(t, dir)
	if len(files) != 2 {
		t.Fatalf("wrong number of files: %q", files)
	}
	var branches []uint64
	for _, f := range files {
		path := traceFile(t, openCore(t, f), 0)
		verify(t, path)
		got := readTrace(t, path)
		branches = append(branches, got.calls[idBranch])
		if pid := got.recording.Process.PID; !strings.Contains(f, fmt.Sprint(".", pid, ".ring")) || got.unmatched+got.orphan != 0 {
			t.Errorf("%s: got process %d, %d exits without entry, %d calls without exit", f, pid, got.unmatched, got.orphan)
		}
	}
	slices.Sort(branches)
	if !slices.Equal(branches, []uint64{1, 5100}) {
		t.Errorf("got calls of branch %d, want 1 and 5100", branches)
	}
}

// When many threads come and go, the latest ones keep their rings and the file stays within its
// budget.
func TestRingsOfManyThreads(t *testing.T) {
	const size, budget = 128 << 10, 1 << 20
	dir := shmFolder(t)
	program, env := crashProgram(t, fmt.Sprintf("ring=%d,budget=%d,shm=%s", size, budget, dir))
	runToEnd(t, env, program, "t", "300")
	file := ringFiles(t, dir)[0]
	path := traceFile(t, openCore(t, file), 0)
	verify(t, path)
	got := readTrace(t, path)
	threads := uint64(len(got.recording.Threads))
	if threads < budget/ring.ChunkSize || got.calls[idBranch] != 10*threads || got.unmatched+got.orphan != 0 || len(got.recording.Losses) > 0 {
		t.Errorf("got %d threads, calls %v, %d exits without entry, %d calls without exit, losses %v",
			threads, got.calls, got.unmatched, got.orphan, got.recording.Losses)
	}
	if size := fileSize(t, file); size > 100*(size+4096)+2<<20 {
		t.Errorf("got %d bytes", size)
	}
}

// A forked child without room for a ring file still does not change its parent's.
func TestRingsOfAForkedChildWithoutRoom(t *testing.T) {
	dir := shmFolder(t)
	program, env := crashProgram(t, "ring=1048576,shm="+dir)
	runToEnd(t, env, program, "g", "5000")
	files := ringFiles(t, dir)
	if len(files) != 1 {
		t.Fatalf("wrong number of files: %q", files)
	}
	got := readTrace(t, traceFile(t, openCore(t, files[0]), 0))
	if records := got.records - got.events; got.calls[idBranch] != 1 || records != 6 || len(got.recording.Losses) > 0 {
		t.Errorf("got %d records, calls %v, losses %v", records, got.calls, got.recording.Losses)
	}
}

// A full file system must not kill the program. Writing to a mapped page that has no storage would.
func TestRingsInAFullFolder(t *testing.T) {
	testenv.Need(t, "unshare", "mount")
	dir := t.TempDir()
	inside := func(script string, args ...string) *exec.Cmd {
		script = `mount -t tmpfs -o size=1500k none "$0" && ` + script
		return exec.Command("unshare", append([]string{"-rm", "sh", "-c", script, dir}, args...)...)
	}
	if out, err := inside("true").CombinedOutput(); err != nil {
		t.Skipf("cannot mount a file system: %v %s", err, out)
	}
	program, env := crashProgram(t, "ring=1048576,shm="+dir)
	env[1] = strings.Replace(env[1], "quiet=1", "quiet=0", 1)
	var stderr bytes.Buffer
	cmd := inside(`exec env "$@"`, append(env, program, "x", "5000")...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if !strings.Contains(stderr.String(), "cannot keep more rings in a file") {
		t.Errorf("the program printed %q", &stderr)
	}
	traces, _ := filepath.Glob(filepath.Join(filepath.Dir(outputOf(env)), "*"))
	if len(traces) != 1 {
		t.Fatalf("got traces %q, want one", traces)
	}
	if got := readTrace(t, traces[0]); got.calls[idBranch] != 5100 {
		t.Errorf("wrong calls: %v", got.calls)
	}
}

// A program that ends normally writes its trace and removes its ring file.
func TestRingsGoWithTheProgram(t *testing.T) {
	dir := shmFolder(t)
	program, env := crashProgram(t, "ring=1048576,shm="+dir)
	runToEnd(t, env, program, "x", "5000")
	if files := ringFiles(t, dir); len(files) > 0 {
		t.Errorf("files left behind: %q", files)
	}
	traces, _ := filepath.Glob(filepath.Join(filepath.Dir(outputOf(env)), "*"))
	if len(traces) != 1 {
		t.Fatalf("got traces %q, want one", traces)
	}
	if got := readTrace(t, traces[0]); got.calls[idBranch] != 5100 {
		t.Errorf("wrong calls: %v", got.calls)
	}
}

func outputOf(env []string) string {
	_, output, _ := strings.Cut(env[1], ",output=")
	return output
}

// Without room for a ring file, rings stay in memory as without the option.
func TestRingsWithoutRoom(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "prlimit")
	for _, test := range []struct{ name, dir, limit string }{
		{"limit of file sizes", shmFolder(t), "--fsize=1200000"}, // enough for the trace and the tables
		{"no folder", "/nowhere", "--fsize=unlimited"},
		{"relative path", "nowhere", "--fsize=unlimited"},
	} {
		t.Run(test.name, func(t *testing.T) {
			program, env := crashProgram(t, "ring=1048576,shm="+test.dir)
			env[1] = strings.Replace(env[1], "quiet=1", "quiet=0", 1)
			said := runToEnd(t, env, "prlimit", test.limit, program, "x", "5000")
			if !strings.Contains(said, "xray recorder: ") || !strings.Contains(said, "rings") {
				t.Errorf("the program printed %q", said)
			}
			traces, _ := filepath.Glob(filepath.Join(filepath.Dir(outputOf(env)), "*"))
			if len(traces) != 1 {
				t.Fatalf("got traces %q, want one", traces)
			}
			if got := readTrace(t, traces[0]); got.calls[idBranch] != 5100 {
				t.Errorf("wrong calls: %v", got.calls)
			}
			if files := ringFiles(t, test.dir); len(files) > 0 {
				t.Errorf("files left behind: %q", files)
			}
		})
	}
}

// A trace from the core of a process that recorded within a budget says that calls are missing.
func TestCoreOfBudget(t *testing.T) {
	program := buildProgram(t, "clang-22", "budget.c", "-O2", "-fxray-instruction-threshold=1")
	cmd := exec.Command(program, "1000000000")
	cmd.Dir = t.TempDir()
	startIdle(t, cmd, 1<<20)
	var limit unix.Rlimit
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CORE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CORE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	mustAsk(t, cmd.Process.Pid, "start mode=record limited=30000")
	for recorded := false; !recorded; {
		snapshot, _ := createFile(t)
		recorded = mustAsk(t, cmd.Process.Pid, "snapshot", snapshot)["records"] != 0.0
	}
	_ = cmd.Process.Signal(syscall.SIGABRT)
	_ = cmd.Wait()
	cores, _ := filepath.Glob(filepath.Join(cmd.Dir, "core*"))
	if len(cores) == 0 {
		t.Skip("no core file")
	}
	f := readTrace(t, traceFile(t, openCore(t, cores[0]), 0))
	if b := &f.recording.Budget; b.Share != 30000 || b.Known() {
		t.Errorf("got the budget %+v", b)
	}
}

// traceOf writes the trace of the core's only runtime.
func traceFile(t *testing.T, c *core.Core, last time.Duration) string {
	t.Helper()
	if n := len(c.Rings()); n != 1 {
		t.Fatalf("got %d runtimes, want 1", n)
	}
	return testenv.WriteFile(t, "core.xray", func(w io.Writer) error { return c.Rings()[0].WriteTrace(w, last) })
}
