//go:build linux && amd64

package recorder_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
)

// noticing builds testdata/noticed.c for the preloaded recorder, because only that intercepts these
// functions of libc.
func noticing(t *testing.T, flags ...string) variant {
	l := library(t)
	return variant{buildProgram(t, "clang-19", "noticed.c", append([]string{"-O2"}, flags...)...), &l}
}

// The kernel denies some namespace calls to processes with several threads. A single-threaded
// program can make them while recorded, and one with threads of its own still cannot.
func TestNamespaces(t *testing.T) {
	f := noticing(t)
	for _, how := range []string{"unshare", "syscall", "setns", "threads"} {
		t.Run(how, func(t *testing.T) {
			plain, err := exec.Command(f.program, "namespaces", how).Output()
			if err != nil {
				t.Fatal(err)
			}
			want := "entered"
			if how == "threads" {
				want = "Invalid argument"
			}
			if string(plain) != want+"\n" {
				t.Skipf("without the recorder, the program printed %q", plain)
			}
			r := f.run(t, "control=1,stream=0", f.program, "namespaces", how)
			if line := r.line(t); line != want {
				t.Errorf("the program printed %q, want %q", line, want)
			}
			// The recorder is reachable again. In a new user namespace only root can be
			// sure to reach it.
			if os.Geteuid() == 0 && how == "setns" || how == "threads" {
				reach(t, r.cmd.Process.Pid)
			}
		})
	}
}

// tasks returns the number of threads of a process.
func tasks(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A program runs to its end even if its seccomp filter would kill it for any system call of the
// recorder.
func TestSystemCallFilter(t *testing.T) {
	f := noticing(t)
	for _, options := range []string{"control=1,start=0", "control=1,stream=0,window=1000000,every=2000000"} {
		for _, how := range []string{"prctl", "one", "all", "strict", "threads"} {
			t.Run(how+"/"+options, func(t *testing.T) {
				output, input, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(f.program, "filter", how)
				cmd.ExtraFiles = []*os.File{output}
				r := f.start(t, options, cmd)
				output.Close()
				t.Cleanup(func() { input.Close() })
				pid := cmd.Process.Pid
				if line := r.line(t); line != "refused" {
					t.Fatalf("the program printed %q", line)
				}
				reach(t, pid)
				before := tasks(t, pid)
				r.stdin.Close()
				if line := r.line(t); line != "sealed" {
					t.Fatalf("the program printed %q", line)
				}
				if how != "threads" {
					if after := tasks(t, pid); before != 2 || after != 1 {
						t.Errorf("got %d threads, and %d under the filter, want 2 and 1", before, after)
					}
					p, err := client.Dial(strconv.Itoa(pid))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := p.Do(t.Context(), nil, "status"); err == nil || !strings.Contains(err.Error(), "seccomp") {
						t.Errorf("got error %v", err)
					}
				} else if s := mustAsk(t, pid, "status"); s["sealed"] != true {
					t.Errorf("wrong status: %v", s)
				}
				input.Close()
				r.end(t)
			})
		}
	}
}

// An object that the program opens is recorded from its first call on. dlopen searches for the object
// as it does without the recorder.
func TestOpenedObject(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-22")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lib"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"lib/libplug.so", "plugin.so"} {
		data, err := os.ReadFile(buildPlugins(t, 1)[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), data, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for way, flags := range map[string][]string{
		"Plain":   nil,
		"Runpath": {"-Wl,-rpath," + dir + "/lib", "-Wl,--enable-new-dtags"},
		"Rpath":   {"-Wl,-rpath," + dir + "/lib", "-Wl,--disable-new-dtags"},
		"Origin":  {"-Wl,-rpath,$ORIGIN/lib", "-Wl,--enable-new-dtags"},
	} {
		names := []string{dir + "/plugin.so", "$ORIGIN/plugin.so"}
		if way != "Plain" {
			names = append(names, "libplug.so")
		}
		f := noticing(t, flags...)
		program := filepath.Join(dir, "program"+way)
		if err := os.Rename(f.program, program); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			t.Run(way+"/"+filepath.Base(name), func(t *testing.T) {
				_, stderr, traces := recordProgram(t, f.library, "", program, "open", name)
				if stderr != "" || len(traces) != 1 {
					t.Fatalf("got %d traces; stderr: %s", len(traces), stderr)
				}
				got := readTrace(t, traces[0])
				if n := got.callsOf("plugin.so") + got.callsOf("libplug.so"); n != 60 {
					t.Errorf("got %d calls, want 60", n)
				}
				i := slices.IndexFunc(got.recording.Objects, func(o reader.Object) bool { return filepath.Ext(o.Path) == ".so" })
				if o := got.recording.Objects[i]; o.Opened != 3 || o.Recorded <= o.Absent || o.Missed < o.Recorded-o.Absent {
					t.Errorf("wrong object: %+v", o)
				}
			})
		}
	}
}

// libc does not know the recorder's thread, so it believes that the program has one thread. Even so,
// the thread switches sleds, also those of objects that are opened later.
func TestOneThread(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "clang-22")
	plugin := buildPlugins(t, 1)[0]
	f := noticing(t)
	r := f.run(t, "control=1,start=0", f.program, "serve", plugin)
	pid := r.cmd.Process.Pid
	if line := r.line(t); line != "one thread" {
		t.Errorf("libc believes that there are %s", line)
	}
	reach(t, pid)
	if n := tasks(t, pid); n != 2 {
		t.Errorf("got %d threads, want 2", n)
	}
	var paths []string
	// Before the object is opened, after that, and again.
	for i := range 3 {
		stream, path := createFile(t)
		paths = append(paths, path)
		mustAsk(t, pid, "start mode=record stream=1", stream)
		r.call(t)
		mustAsk(t, pid, "stop")
		if i > 0 {
			r.call(t) // not recorded
		}
	}
	r.stdin.Close()
	for i, path := range paths {
		got := readTrace(t, path)
		if n := got.callsOf("noticed"); n != 1 {
			t.Errorf("recording %d: got %d calls of the program, want 1", i, n)
		}
		if n := got.callsOf(filepath.Base(plugin)); n != 20 {
			t.Errorf("recording %d: got %d calls of the object, want 20", i, n)
		}
	}
	r.end(t)
}

// call has the program call its object.
func (r *running) call(t *testing.T) {
	t.Helper()
	if _, err := r.stdin.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if line := r.line(t); line != "called" {
		t.Fatalf("the program printed %q", line)
	}
}

// Threads have their final names, and the trace records all earlier ones.
func TestThreadNames(t *testing.T) {
	f := noticing(t)
	_, stderr, traces := recordProgram(t, f.library, "control=1", f.program, "names")
	if stderr != "" || len(traces) != 1 {
		t.Fatalf("got %d traces; stderr: %s", len(traces), stderr)
	}
	var last []string
	for _, thread := range readTrace(t, traces[0]).recording.Threads {
		last = append(last, thread.Name)
	}
	slices.Sort(last)
	if want := []string{"by-another", "io-reader", "io-writer, long", "the-first"}; !slices.Equal(last, want) {
		t.Errorf("got threads %q, want %q", last, want)
	}
	trace, err := reader.Open(reader.Options{}, traces[0])
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	var changes []string
	for b, err := range trace.Blocks(reader.TimeOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Payloads {
			if m, ok := reader.ParseMark(b.Payloads[i].Data); ok && m.Named && m.ID != 0 {
				changes = append(changes, m.Text)
			}
		}
	}
	if want := []string{"io-writer", "io-writer, long", "by-another", "the-first"}; !slices.Equal(changes, want) {
		t.Errorf("got changes %q, want %q", changes, want)
	}
}

// A process ends with its last thread. The recorder's thread does not keep it alive.
func TestFirstThreadEnds(t *testing.T) {
	f := noticing(t)
	for range 20 {
		out, stderr, traces := recordProgram(t, f.library, "control=1", f.program, "leave")
		if out != "buffered\n" || stderr != "" {
			t.Fatalf("the program printed %q, %q", out, stderr)
		}
		if got := entries(t, f.program, traces); got["work"] != 2 {
			t.Errorf("wrong calls: %v", got)
		}
	}
}

// A warning names wrong options and their positions.
func TestWrongOptions(t *testing.T) {
	f := noticing(t)
	for options, want := range map[string]string{
		"start=0,mod=record":    "character 9: mod is not an option",
		"start=0,ring=1M":       "character 14: ring=1M is not a number",
		"start=0,quiet":         "character 9: quiet has no value",
		"start=0,stream=2":      "character 16: stream=2 must be 0 or 1",
		"start=0,output=a%2g":   "character 17: output has a % without two hexadecimal digits",
		"start=0,mode=fast":     "character 14: mode=fast is not record, prune, count, profile, depth or off",
		"start=0,,control=0,=5": "character 20:  is not an option",
	} {
		cmd := exec.Command(f.program, "nothing")
		cmd.Env = append(os.Environ(), recorder.EnvVar+"="+options, "LD_PRELOAD="+f.library.Preload())
		out, _ := cmd.CombinedOutput()
		if want = "xray recorder: XRAY_RECORDER has an invalid option: " + want + "\n"; string(out) != want {
			t.Errorf("%s: got %q, want %q", options, out, want)
		}
	}
}

// Each signal writes the rings to a new file. The recorder does not use a signal that the program
// uses.
func TestDumpAtSignal(t *testing.T) {
	for name, f := range variants(t, "workers.c") {
		t.Run(name, func(t *testing.T) {
			r := f.run(t, "stream=0,dump=SIGUSR2", f.program, "workers")
			for range 3 {
				r.line(t)
			}
			pid := r.cmd.Process.Pid
			for i := 1; i <= 2; i++ {
				if err := syscall.Kill(pid, syscall.SIGUSR2); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(r.dir, strconv.Itoa(pid)+".dump-"+strconv.Itoa(i))
				await(t, pid, "status", func(map[string]any) bool { _, err := os.Stat(path); return err == nil })
				mustAsk(t, pid, "status") // the signal works when control is off
				if got := readTrace(t, path); got.calls[1] != 1 {
					t.Errorf("wrong number of calls: %d", got.calls[1])
				}
			}
			r.end(t)
		})
	}
	f := variants(t, "workers.c")["Preloaded"]
	for options, want := range map[string]string{
		"dump=SIGWHAT": "dump= does not name a signal",
		"dump=9":       "cannot be handled",
	} {
		cmd := exec.Command(f.program, "workers")
		cmd.Env = append(os.Environ(), recorder.EnvVar+"=start=0,"+options, "LD_PRELOAD="+f.library.Preload())
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%s: got %q, want a warning with %q", options, out, want)
		}
	}
	// nohup makes the program ignore SIGHUP.
	cmd := exec.Command("sh", "-c", `trap "" USR2; LD_PRELOAD=`+f.library.Preload()+` `+recorder.EnvVar+`=start=0,dump=USR2 exec `+f.program+` workers`)
	if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "handled or ignored by the program") {
		t.Errorf("ignored signal: got %q", out)
	}
}
