//go:build linux && amd64

package recorder_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/attach"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/proc"
)

// attached is a program that was not prepared to be recorded.
type attached struct {
	*exec.Cmd
	out    *bufio.Reader
	stderr bytes.Buffer
	end    func()
}

// startUnprepared starts a program and waits until it prints that it is ready.
func startUnprepared(t *testing.T, command ...string) *attached {
	t.Helper()
	a := &attached{Cmd: exec.Command(command[0], command[1:]...)}
	a.WaitDelay = time.Minute // a process that it has started may keep its standard error open
	a.Cmd.Stderr = &a.stderr
	r := startPiped(t, a.Cmd)
	a.out, a.end = r.lines, func() { r.stdin.Close() }
	t.Cleanup(func() { _ = a.Process.Kill(); _ = a.Wait() })
	if line, err := a.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v; %s", line, err, &a.stderr)
	}
	return a
}

// pid returns the process ID of the program, which a tool may have started.
func (a *attached) pid(t *testing.T, name string) int {
	t.Helper()
	for pid := a.Process.Pid; ; {
		if exe, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); filepath.Base(exe) == name {
			return pid
		}
		children, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(pid) + "/children")
		if err != nil || len(bytes.Fields(children)) == 0 {
			t.Fatalf("no process %s: %v", name, err)
		}
		pid, _ = strconv.Atoi(string(bytes.Fields(children)[0]))
	}
}

func entriesIn(t *testing.T, dir string, pid int) int {
	t.Helper()
	list, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/" + dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// recordAttached attaches to a process and records it for a moment.
func recordAttached(t *testing.T, l build.Library, pid int) found {
	t.Helper()
	ctx := context.Background()
	p, err := client.Attach(ctx, strconv.Itoa(pid), l, 1<<20, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trace")
	file, err := client.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, held, err := p.Hold(ctx, (&recorder.Settings{Mode: recorder.Record}).StartCommand(true), file)
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine, its threads may not run for long.
	var s client.Status
	for end := time.Now().Add(2 * time.Minute); s.Threads.Live == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := p.Do(ctx, &s, "status"); err != nil {
			t.Fatal(err)
		}
	}
	if s.Memory == nil || s.Memory.Limit != 64<<20 {
		t.Errorf("the limit of memory is %v", s.Memory)
	}
	time.Sleep(40 * time.Millisecond)
	if _, err := p.Do(ctx, nil, "stop"); err != nil {
		t.Error(err)
	}
	held.Close()
	verify(t, path)
	return readTrace(t, path)
}

// A program that was not prepared can be recorded repeatedly. No thread sees its system calls
// interrupted, and in the end only memory is left.
func TestAttach(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildProgram(t, "clang-22", "attached.c", "-O1")
	times := 4
	if testenv.Soak() {
		times = 200
	}
	a := startUnprepared(t, program, "20")
	pid := a.Process.Pid
	files, threads := entriesIn(t, "fd", pid), entriesIn(t, "task", pid)
	for range times {
		if got := recordAttached(t, l, pid); got.calls[1] == 0 {
			t.Fatalf("calls %v", got.calls)
		}
	}
	for end := time.Now().Add(2 * time.Minute); entriesIn(t, "task", pid) > threads && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	if f, n := entriesIn(t, "fd", pid), entriesIn(t, "task", pid); f != files || n != threads {
		t.Errorf("%d descriptors and %d threads, before %d and %d", f, n, files, threads)
	}
	a.end()
	line, _ := a.out.ReadString('\n')
	if err := a.Wait(); err != nil || !strings.HasPrefix(line, "interrupted=0 wrong=0 ") || !strings.Contains(line, " threads=1 variables=0") || a.stderr.Len() > 0 {
		t.Errorf("%v: %s%s", err, line, &a.stderr)
	}
}

// A program that never waits can be stopped in its own functions.
func TestAttachToComputation(t *testing.T) {
	l := library(t)
	a := startUnprepared(t, buildProgram(t, "clang-22", "attached.c", "-O1"), "compute")
	if got := recordAttached(t, l, a.Process.Pid); got.calls[1] == 0 {
		t.Errorf("calls %v", got.calls)
	}
	if err := a.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if line, err := a.out.ReadString('\n'); line != "ended\n" || a.Wait() != nil || a.stderr.Len() > 0 {
		t.Errorf("%q, %v; %s", line, err, &a.stderr)
	}
}

// Processes may be in other mount and user namespaces, and have the same ID in PID namespaces of their own.
func TestAttachToContainer(t *testing.T) {
	testenv.Need(t, "unshare")
	l := library(t)
	program := buildProgram(t, "clang-22", "attached.c", "-O1")
	if out, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces: %v %s", err, out)
	}
	var both [2]*attached
	var pids [2]int
	for i := range both {
		// The recorder's folder does not exist there.
		both[i] = startUnprepared(t, "unshare", "-rmpf", "--kill-child", "--mount-proc", "sh", "-c", `mount -t tmpfs none "$1" && shift && "$@"; true`, "sh", filepath.Dir(filepath.Dir(l.Include())), program, "9")
		pids[i] = both[i].pid(t, "attached")
	}
	for _, pid := range pids {
		if got := recordAttached(t, l, pid); got.calls[1] == 0 {
			t.Errorf("calls %v", got.calls)
		}
	}
	list, err := client.List(t.Context())
	for _, pid := range pids {
		if !slices.ContainsFunc(list, func(l client.Listening) bool { return l.PID == pid && l.Status != nil }) {
			t.Errorf("process %d is not in %+v, %v", pid, list, err)
		}
	}
	for _, a := range both {
		a.end()
		if line, _ := a.out.ReadString('\n'); a.Wait() != nil || !strings.HasPrefix(line, "interrupted=0 wrong=0 ") {
			t.Errorf("%s%s", line, &a.stderr)
		}
	}
}

// Attaching fails before anything is changed if it cannot work.
func TestAttachRefuses(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "attached.c", "-O1")
	static := buildProgram(t, "clang-22", "attached.c", "-O1", "-static")
	plain := filepath.Join(t.TempDir(), "plain")
	if out, err := exec.Command("gcc", "testdata/attached.c", "-pthread", "-o", plain).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	stop := func(t *testing.T, pid int) {
		p, _ := os.FindProcess(pid)
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if status, _ := proc.StatusFields(pid); len(status["State"]) > 0 && status["State"][0] == "T" {
				return
			}
		}
		t.Fatal("it does not stop")
	}
	for _, c := range []struct {
		name, program, says string
		before              func(*testing.T, int)
	}{
		{"static", static, "linked statically", nil},
		{"no sleds", plain, "no function is instrumented", nil},
		{"stopped", program, "is stopped", stop},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := startUnprepared(t, c.program, "1")
			if c.before != nil {
				c.before(t, a.Process.Pid)
			}
			_, err := client.Attach(context.Background(), strconv.Itoa(a.Process.Pid), l, 0, 0)
			var failed *attach.FailedError
			if err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, &failed) {
				t.Errorf("%v", err)
			}
			if maps, _ := os.ReadFile("/proc/" + strconv.Itoa(a.Process.Pid) + "/maps"); bytes.Contains(maps, []byte("xray-recorder")) {
				t.Error("the recorder is in it")
			}
		})
	}
}
