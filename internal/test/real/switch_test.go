//go:build linux && amd64

package real

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// longer returns the factor by which the load is longer when recording is switched on and off, and
// how often to switch. make test switches less often.
func longer() (factor, switches int) {
	if thorough() {
		return 40, 50
	}
	return 6, 8
}

// Recording can be stopped and started repeatedly under load, in all processes of a program. The
// program's answers do not change.
func TestSwitched(t *testing.T) {
	driven := func(l load) bool { return l.drive != nil }
	eachLoad(t, driven, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		longer, switches := longer()
		want := driveUnrecorded(t, l, run{src: src, times: longer})
		for _, m := range modes[:3] {
			t.Run(m.name, func(t *testing.T) {
				s := startSession(t, l, run{src: src, record: m.flags, times: longer})
				driven := s.drive(l)
				switched := 0
				for i := 0; switched < switches && len(driven) == 0 || i < switches+10; i++ {
					programs := s.programs()
					if len(programs) == 0 && len(driven) == 0 {
						i = -1 // it is not there yet
						time.Sleep(time.Millisecond)
					}
					for _, p := range programs {
						if switchProcess(t, s, p, i) {
							switched++
						}
					}
				}
				if switched < switches {
					t.Errorf("switched only %d times", switched)
				}
				if len(driven) > 0 {
					t.Log("the load was over before the last time")
				}
				got := <-driven
				s.checkDriven(t, got, want)
				checkTraces(t, l, s)
				for f, n := range calls(t, s) {
					if most, ok := got.answer.calls[f]; ok && n > most {
						t.Errorf("%s: %d calls recorded, but only %d by the program's statistics", f, n, most)
					}
				}
				t.Logf("switched %d times", switched)
			})
		}
	})
}

// result is how the driving of a load ended.
type result struct {
	answer answer
	err    error
}

// drive drives a load while the test does something else.
func (s *session) drive(l load) <-chan result {
	driven := make(chan result, 1)
	go func() {
		a, err := l.drive(s)
		driven <- result{a, err}
	}()
	return driven
}

// driveUnrecorded drives a load of a program that is not recorded, to its end.
func driveUnrecorded(t *testing.T, l load, r run) answer {
	t.Helper()
	s := startSession(t, l, r)
	a, err := l.drive(s)
	if err := errors.Join(err, endings[0].end(s), s.wait()); err != nil {
		t.Fatal(err)
	}
	return a
}

// checkDriven checks that a load has the answers of the program when nothing is recorded, and ends
// the session.
func (s *session) checkDriven(t *testing.T, got result, want answer) {
	t.Helper()
	if got.err != nil {
		t.Fatalf("%v\n%s", got.err, s.said())
	}
	if got.answer.text != want.text {
		t.Error("answers differ from those of the program on its own:", difference(want.text, got.answer.text))
	}
	if err := errors.Join(endings[0].end(s), s.wait()); err != nil {
		t.Fatal(err)
	}
}

// switchProcess stops and starts the recording of a process and reports whether it did. Processes
// may end meanwhile, and new ones may not listen yet.
func switchProcess(t *testing.T, s *session, p process, i int) bool {
	t.Helper()
	pid := strconv.Itoa(p.pid)
	start := []string{"ctl", pid, "start"}
	if i%2 == 1 {
		start = append(start, "-o", filepath.Join(s.traces, "started."+pid+"."+strconv.Itoa(i)+".xray"))
	}
	for _, args := range [][]string{{"ctl", pid, "stop"}, start} {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			out, err := exec.Command(elftest.Xray(t), args...).CombinedOutput()
			if err == nil {
				break
			}
			if n := len(args); args[n-2] == "-o" && strings.Contains(string(out), "seccomp") {
				args = args[:n-2] // its threads write no file
				continue
			}
			if strings.Contains(string(out), "already recording") {
				return false // it has executed itself since it was stopped
			}
			if exe, _ := os.Readlink(filepath.Join("/proc", pid, "exe")); exe != p.exe {
				return false
			}
			if time.Now().After(end) {
				t.Errorf("%v: %v\n%s", args, err, out)
				return false
			}
		}
	}
	return true
}
