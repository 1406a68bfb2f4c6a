//go:build linux && amd64

package recorder

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
)

// noticing builds testdata/noticed.c for the preloaded recorder, which is the one that
// notices calls of libc.
func noticing(t *testing.T, flags ...string) variant {
	l := library(t)
	return variant{buildProgram(t, "clang-19", "noticed.c", append([]string{"-O2"}, flags...)...), &l}
}

// What the kernel denies processes with several threads, it allows a program of one thread
// that is recorded; and still denies one with threads of its own.
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
				t.Skipf("unrecorded, the program says %q", plain)
			}
			r := f.run(t, "control=1,stream=0", f.program, "namespaces", how)
			if line := r.line(t); line != want {
				t.Errorf("the program says %q, want %q", line, want)
			}
			// The recorder is there again. Its user may be another by now, so only root is sure.
			if os.Geteuid() == 0 && how == "setns" || how == "threads" {
				reach(t, r.cmd.Process.Pid)
			}
		})
	}
}

// tasks is how many threads a process has.
func tasks(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A program that a filter would kill for any system call of the recorder's runs to its end.
func TestSystemCallFilter(t *testing.T) {
	f := noticing(t)
	for _, options := range []string{"control=1,start=0"} {
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
					t.Fatalf("the program says %q", line)
				}
				reach(t, pid)
				before := tasks(t, pid)
				r.stdin.Close()
				if line := r.line(t); line != "sealed" {
					t.Fatalf("the program says %q", line)
				}
				if how != "threads" {
					if after := tasks(t, pid); before != 2 || after != 1 {
						t.Errorf("%d threads, and %d under the filter", before, after)
					}
					p, err := Dial(strconv.Itoa(pid))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := p.Do(t.Context(), nil, "status"); err == nil || !strings.Contains(err.Error(), "seccomp") {
						t.Errorf("error is %v", err)
					}
				} else if s := mustAsk(t, pid, "status"); s["sealed"] != true {
					t.Errorf("status is %v", s)
				}
				input.Close()
				r.end(t)
			})
		}
	}
}

// An object that the program opens is recorded from its first call on, and found where it
// is found without the recorder.
func TestOpenedObject(t *testing.T) {
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
					t.Fatalf("%d traces; %s", len(traces), stderr)
				}
				got := readTrace(t, traces[0])
				if n := got.callsOf("plugin.so") + got.callsOf("libplug.so"); n != 60 {
					t.Errorf("%d calls, want 60", n)
				}
				i := slices.IndexFunc(got.recording.Objects, func(o reader.Object) bool { return filepath.Ext(o.Path) == ".so" })
				if o := got.recording.Objects[i]; o.Opened != 3 || o.Recorded <= o.Absent || o.Missed < o.Recorded-o.Absent {
					t.Errorf("object %+v", o)
				}
			})
		}
	}
}

// Threads have the names that they had at their ends, and the trace has all that they had
// meanwhile.
func TestThreadNames(t *testing.T) {
	f := noticing(t)
	_, stderr, traces := recordProgram(t, f.library, "control=1", f.program, "names")
	if stderr != "" || len(traces) != 1 {
		t.Fatalf("%d traces; %s", len(traces), stderr)
	}
	var last []string
	for _, thread := range readTrace(t, traces[0]).recording.Threads {
		last = append(last, thread.Name)
	}
	slices.Sort(last)
	if want := []string{"by-another", "io-reader", "io-writer, long", "the-first"}; !slices.Equal(last, want) {
		t.Errorf("threads %q, want %q", last, want)
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
		t.Errorf("changes %q, want %q", changes, want)
	}
}

// A process ends with its last thread, which the recorder's is not.
func TestFirstThreadEnds(t *testing.T) {
	f := noticing(t)
	for range 20 {
		out, stderr, traces := recordProgram(t, f.library, "control=1", f.program, "leave")
		if out != "buffered\n" || stderr != "" {
			t.Fatalf("the program says %q, %q", out, stderr)
		}
		if got := entries(t, f.program, traces); got["work"] != 2 {
			t.Errorf("calls %v", got)
		}
	}
}

// Options that are wrong are named, and where they are.
func TestWrongOptions(t *testing.T) {
	f := noticing(t)
	for options, want := range map[string]string{
		"start=0,mod=record":    "character 9: mod is no option",
		"start=0,ring=1M":       "character 14: ring=1M is not a number",
		"start=0,quiet":         "character 9: quiet has no value",
		"start=0,stream=2":      "character 16: stream=2 is neither 0 nor 1",
		"start=0,output=a%2g":   "character 17: output has a % without two hexadecimal digits",
		"start=0,mode=fast":     "character 14: mode=fast is none of record, prune, count, profile, depth and off",
		"start=0,,control=0,=5": "character 20:  is no option",
	} {
		cmd := exec.Command(f.program, "nothing")
		cmd.Env = append(os.Environ(), EnvVar+"="+options, "LD_PRELOAD="+f.library.Preload())
		out, _ := cmd.CombinedOutput()
		if want = "xray recorder: XRAY_RECORDER has an option that is not understood: " + want + "\n"; string(out) != want {
			t.Errorf("%s: %q, want %q", options, out, want)
		}
	}
}

// A signal has the rings written, to a file each time, and is never taken from the program.
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
				mustAsk(t, pid, "status") // it is written while nobody else may ask
				if got := readTrace(t, path); got.calls[1] != 1 {
					t.Errorf("%d calls", got.calls[1])
				}
			}
			r.end(t)
		})
	}
	f := variants(t, "workers.c")["Preloaded"]
	for options, want := range map[string]string{
		"dump=SIGWHAT": "dump= names no signal",
		"dump=9":       "cannot be handled",
	} {
		cmd := exec.Command(f.program, "workers")
		cmd.Env = append(os.Environ(), EnvVar+"=start=0,"+options, "LD_PRELOAD="+f.library.Preload())
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%s: %q", options, out)
		}
	}
	// nohup has it ignored.
	cmd := exec.Command("sh", "-c", `trap "" USR2; LD_PRELOAD=`+f.library.Preload()+` `+EnvVar+`=start=0,dump=USR2 exec `+f.program+` workers`)
	if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "handled or ignored by the program") {
		t.Errorf("an ignored signal: %q", out)
	}
}
