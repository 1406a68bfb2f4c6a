//go:build linux && amd64

package recorder_test

import (
	"bufio"
	"context"
	"errors"
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

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
)

// running is a running program of testdata with the recorder in it.
type running struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
	dir   string // holds the traces, named by process ID, if a variant has started it
}

// run starts a program with the recorder's options. The test ends by closing the program's standard
// input, and the program must exit normally.
func (f variant) run(t *testing.T, options string, args ...string) *running {
	t.Helper()
	return f.start(t, options, exec.Command(args[0], args[1:]...))
}

// start is run with a command.
func (f variant) start(t *testing.T, options string, cmd *exec.Cmd) *running {
	t.Helper()
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), recorder.EnvVar+"=output="+recorder.EscapeOption(dir)+"/%25p,"+options)
	if f.library != nil {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+f.library.Preload())
	}
	r := startPiped(t, cmd)
	r.dir = dir
	t.Cleanup(func() { r.end(t) })
	return r
}

// startPiped starts a command with pipes to its standard input and output.
func startPiped(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &running{cmd: cmd, stdin: stdin, lines: bufio.NewReader(stdout)}
}

// end closes the program's standard input and waits for it to end.
func (r *running) end(t *testing.T) {
	t.Helper()
	if r.cmd.ProcessState != nil {
		return
	}
	r.stdin.Close()
	io.Copy(io.Discard, r.lines)
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

func (r *running) line(t *testing.T) string {
	t.Helper()
	line, err := r.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("the program printed %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// reach waits until a process, which may have just started, can be controlled.
func reach(t *testing.T, pid int) {
	t.Helper()
	p, err := client.Dial(strconv.Itoa(pid))
	for end := time.Now().Add(2 * time.Minute); err == nil; time.Sleep(5 * time.Millisecond) {
		if _, err := p.Do(context.Background(), nil, "status"); err == nil {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	t.Fatalf("cannot reach process %d: %v", pid, err)
}

// callsOf returns the number of calls of an object's functions.
func (f *found) callsOf(object string) (n uint64) {
	for i := range f.recording.Objects {
		o := &f.recording.Objects[i]
		for id, calls := range f.calls {
			if filepath.Base(o.Path) == object && o.Holds(id) {
				n += calls
			}
		}
	}
	return n
}

// Forked children can be controlled like their parents and have their own rings, even if the parent has
// its own threads.
func TestWorkers(t *testing.T) {
	for name, f := range variants(t, "workers.c") {
		for how, n := range map[string]int{"workers": 3, "+workers": 3, "daemon": 1, "+daemon": 1} {
			t.Run(name+"/"+how, func(t *testing.T) {
				r := f.run(t, "control=1,stream=0", f.program, how)
				var pids []int
				for range n {
					pid, err := strconv.Atoi(r.line(t))
					if err != nil {
						t.Fatal(err)
					}
					pids = append(pids, pid)
				}
				for _, pid := range pids {
					reach(t, pid)
					file, path := createFile(t)
					mustAsk(t, pid, "snapshot", file)
					if got := readTrace(t, path); got.calls[1] != 10 || got.recording.Process.PID != int32(pid) {
						t.Errorf("got calls %v of process %d, want 10 of process %d", got.calls, got.recording.Process.PID, pid)
					}
					mustAsk(t, pid, "stop")
					mustAsk(t, pid, "start mode=count")
				}
				list, err := client.List(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				for _, pid := range append(pids, r.cmd.Process.Pid) {
					i := slices.IndexFunc(list, func(l client.Listening) bool { return l.PID == pid })
					if i < 0 || list[i].Status == nil || !strings.Contains(list[i].Command, "workers "+how) {
						t.Errorf("process %d is missing from the list or has errors: %+v", pid, list)
						continue
					}
					if n == 3 && pid != r.cmd.Process.Pid && list[i].Parent != r.cmd.Process.Pid {
						t.Errorf("parent of %d: got %d, want %d", pid, list[i].Parent, r.cmd.Process.Pid)
					}
				}
			})
		}
	}
}

// An object that a child opens is recorded.
func TestWorkerOpensObject(t *testing.T) {
	plugin := buildPlugins(t, 1)[0]
	for name, f := range variants(t, "workers.c") {
		for _, how := range []string{"plugin", "+plugin"} {
			t.Run(name+"/"+how, func(t *testing.T) { opensObject(t, f, how, plugin) })
		}
	}
}

func opensObject(t *testing.T, f variant, how, plugin string) {
	r := f.run(t, "control=1,stream=0", f.program, how, plugin)
	pid, err := strconv.Atoi(r.line(t))
	if err != nil {
		t.Fatal(err)
	}
	reach(t, pid)
	before := mustAsk(t, pid, "status")["patched"].(float64)
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if line := r.line(t); line != "plugged" {
		t.Fatalf("the program printed %q", line)
	}
	await(t, pid, "status", func(s map[string]any) bool { return s["patched"].(float64) > before })
	if f.library == nil {
		return // only the preloaded recorder notices dlopen
	}
	file, path := createFile(t)
	mustAsk(t, pid, "snapshot", file)
	got := readTrace(t, path)
	if n := got.callsOf("plugin.so"); n != 20 {
		t.Errorf("got %d calls of the plugin, want 20", n)
	}
}

// A thread of the parent may hold the loader's lock at fork, so a child of several threads must end
// without taking it.
func TestChildDoesNotAskTheLoader(t *testing.T) {
	for name, f := range variants(t, "workers.c") {
		for _, options := range []string{"stream=1", "stream=0"} {
			if line := f.run(t, options, f.program, "loader").line(t); line != "ended" {
				t.Errorf("%s, %s: %s", name, options, line)
			}
		}
		if out, _ := f.runObserved(t, "mode=record", "loader"); out != "ended\n" {
			t.Errorf("%s under an observer: %s", name, out)
		}
	}
}

// A child without the recorder's thread is not recorded in windows, because nothing would close them.
func TestChildWithoutLoaderHasNoWindows(t *testing.T) {
	for name, f := range variants(t, "workers.c") {
		t.Run(name, func(t *testing.T) {
			r := f.run(t, "control=1,window=3600000000000,every=7200000000000", f.program, "stuck")
			parent := r.cmd.Process.Pid
			r.line(t)
			if status := mustAsk(t, parent, "status"); status["windows"].(map[string]any)["open"] != true {
				t.Fatalf("got %v", status)
			}
			if _, err := r.stdin.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
			pid := r.line(t)
			r.end(t)
			if _, err := os.Stat(filepath.Join(r.dir, pid)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("process %s has a trace, or %v", pid, err)
			}
		})
	}
}

// If a thread of the parent holds the loader's lock at fork, it is never released in the child. So the
// recorder starts no thread there.
func TestChildWithoutLoader(t *testing.T) {
	for name, f := range variants(t, "workers.c") {
		t.Run(name, func(t *testing.T) {
			r := f.run(t, "control=1,stream=0", f.program, "stuck")
			parent := r.cmd.Process.Pid
			r.line(t)
			if _, err := r.stdin.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(r.line(t))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			if tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task"); err != nil || len(tasks) != 1 {
				t.Errorf("got %d threads, error %v", len(tasks), err)
			}
			list := client.Silent([]client.Listening{{PID: parent}}) // which does not ask the parent's recorder: that waits for the loader
			i := slices.IndexFunc(list, func(l client.Listening) bool { return l.PID == pid })
			if i < 0 || !errors.Is(list[i].Err, client.ErrForkedFromThreads) || list[i].Parent != parent {
				t.Errorf("process %d is not listed as uncontrollable: %+v", pid, list)
			}
			p, err := client.Dial(strconv.Itoa(pid))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Do(context.Background(), nil, "status"); !errors.Is(err, client.ErrForkedFromThreads) {
				t.Errorf("wrong error from a request: %v", err)
			}
			// It would wait for the loader when it ends, too.
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		})
	}
}
