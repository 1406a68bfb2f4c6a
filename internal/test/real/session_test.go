//go:build linux && amd64

package real

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// patience is how long to wait for a program, even on a busy machine.
const patience = 5 * time.Minute

// A session is one run of a load. Sessions run one at a time, because all descendants of the test
// count as the session's processes.
type session struct {
	dir    string // working directory of the load
	traces string // directory of the traces
	src    string // where the program was built
	port   int    // free on loopback when the session started
	times  int    // length of the load as a multiple of a short one
	stdin  io.WriteCloser
	stdout *bufio.Reader // of driven loads; others write to a file
	tally  tally
	cmd    *exec.Cmd
	ended  chan *os.ProcessState
}

// A run says how to run a load: with which build of the program, and under which command, if any.
type run struct {
	src    string
	record []string // flags of xray record; nil runs the program unrecorded
	timed  string   // file for the CPU time of the program, or ""
	kept   string   // directory in which the traces stay, or ""
	env    []string
	times  int  // 0 is once
	tells  bool // xray record prints its summary
}

// startSession runs the script of a load. In it, "$@" is the command that precedes the program.
func startSession(t *testing.T, l load, r run) *session {
	t.Helper()
	s := &session{dir: t.TempDir(), traces: t.TempDir(), src: r.src, port: freePort(t), times: max(1, r.times), ended: make(chan *os.ProcessState, 1)}
	s.tally.asked, s.tally.answered = map[string]int64{}, map[string]int64{}
	for _, dir := range []string{s.dir, filepath.Dir(s.dir)} { // for the users that servers switch to
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if r.kept != "" {
		s.traces = r.kept
	}
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-euo", "pipefail", "-c", l.script, l.name}
	if r.record != nil {
		args = append(args, elftest.Xray(t), "record", "-o", filepath.Join(s.traces, "%e.%p.xray"))
		if !r.tells {
			args = append(args, "-q")
		}
		args = append(append(args, r.record...), "--")
	}
	if r.timed != "" {
		args = append(args, "bash", filepath.Join(data, "timed"), r.timed)
	}
	s.cmd = exec.Command("bash", args...)
	s.cmd.Dir = s.dir
	s.cmd.Env = append(os.Environ(), "SRC="+s.src, "DATA="+data, "PORT="+strconv.Itoa(s.port), "TIMES="+strconv.Itoa(s.times), "LC_ALL=C", "TZ=UTC")
	s.cmd.Env = append(s.cmd.Env, r.env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.cmd.Stderr, err = os.Create(s.stderrPath()); err != nil {
		t.Fatal(err)
	}
	var stdout io.ReadCloser
	if l.drive == nil {
		s.cmd.Stdout, err = os.Create(s.stdoutPath())
	} else if stdout, err = s.cmd.StdoutPipe(); err == nil {
		s.stdout = bufio.NewReader(stdout)
		s.stdin, err = s.cmd.StdinPipe()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		state, _ := s.cmd.Process.Wait() // not of cmd, which would close the pipes
		s.ended <- state
	}()
	t.Cleanup(func() {
		s.killDescendants()
		for _, c := range []any{s.cmd.Stdout, s.cmd.Stderr, stdout, s.stdin} {
			if c, ok := c.(io.Closer); ok {
				c.Close()
			}
		}
	})
	return s
}

func (s *session) stdoutPath() string { return filepath.Join(s.dir, ".stdout") }
func (s *session) stderrPath() string { return filepath.Join(s.dir, ".stderr") }

// said returns the load's output, for messages.
func (s *session) said() string {
	out, _ := os.ReadFile(s.stdoutPath())
	errs, _ := os.ReadFile(s.stderrPath())
	both := append(out, errs...)
	return string(both[max(0, len(both)-3000):])
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// dial connects to the program's port as soon as it listens.
func (s *session) dial() (net.Conn, error) {
	gone := 0 // how many times in a row there was no program; a fork can make it look so
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
		if err == nil {
			c.SetDeadline(time.Now().Add(patience))
			return c, nil
		}
		if gone++; len(s.programs()) > 0 || len(s.ended) == 0 {
			gone = 0
		}
		if time.Now().After(end) || gone > 50 {
			return nil, fmt.Errorf("the program does not listen: %w\n%s", err, s.said())
		}
	}
}

// wait waits until the load's script and all processes that it started have ended.
func (s *session) wait() error {
	if s.stdin != nil {
		s.stdin.Close()
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s.reap()
		if len(s.ended) > 0 && len(descendants()) == 0 {
			return nil
		}
		if time.Now().After(end) {
			var left []string
			for _, p := range descendants() {
				left = append(left, fmt.Sprintf("%d %s", p.pid, p.exe))
			}
			return fmt.Errorf("still running after %v: %s\n%s", patience, strings.Join(left, ", "), s.said())
		}
	}
}

// programs are the load's processes that run a program of the build, outermost first. They do not
// include clients that the test started itself.
func (s *session) programs() []process {
	var found []process
	for _, p := range descendants() {
		group, _ := syscall.Getpgid(p.pid)
		if strings.HasPrefix(p.exe, s.src+"/") && group != syscall.Getpgrp() {
			found = append(found, p)
		}
	}
	return found
}

// An ending is a way to end a server.
type ending struct {
	name string
	end  func(*session) error
}

var endings = []ending{
	{"TERM", func(s *session) error {
		for _, p := range s.programs() {
			return syscall.Kill(p.pid, syscall.SIGTERM) // the outermost
		}
		return errors.New("the program is gone")
	}},
	// A terminal interrupts all processes of the group, including xray record. Daemons have
	// left the group.
	{"Ctrl-C", func(s *session) error {
		interrupt := func(pid int) error {
			if err := syscall.Kill(pid, syscall.SIGINT); !errors.Is(err, syscall.ESRCH) {
				return err
			}
			return nil // a daemon's starter, and a child that has ended, are gone
		}
		err := interrupt(-s.cmd.Process.Pid)
		for _, p := range s.programs() {
			if p.parent == os.Getpid() {
				err = errors.Join(err, interrupt(p.pid))
			}
		}
		return err
	}},
	{"KILL", func(s *session) error {
		// The outermost may be about to fork another one when it is killed.
		for all := s.programs(); len(all) > 0; all = s.programs() {
			for _, p := range all {
				syscall.Kill(p.pid, syscall.SIGKILL) // some end by themselves when the outermost does
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	}},
}

// A process is a descendant of the test.
type process struct {
	pid, parent int
	exe         string
}

// descendants returns all processes below the test, parents before children, including orphans: see
// TestMain.
func descendants() []process {
	entries, _ := os.ReadDir("/proc")
	children := map[int][]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		fields := bytes.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		children[parent] = append(children[parent], process{pid, parent, exe})
	}
	var all []process
	var walk func(int)
	walk = func(pid int) {
		for _, p := range children[pid] {
			all = append(all, p)
			walk(p.pid)
		}
	}
	walk(os.Getpid())
	return all
}

// reap collects orphans that have ended. The script itself is waited for elsewhere.
func (s *session) reap() {
	for _, p := range descendants() {
		if p.parent == os.Getpid() && p.exe == "" && p.pid != s.cmd.Process.Pid {
			syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// killDescendants kills all processes that are left.
func (s *session) killDescendants() {
	for range 100 {
		if !killAll() {
			return
		}
		time.Sleep(10 * time.Millisecond)
		s.reap()
	}
}

// killAll kills all descendants and reports whether there were any.
func killAll() bool {
	all := descendants()
	for _, p := range all {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	return len(all) > 0
}
