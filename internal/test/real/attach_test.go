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

// Unprepared servers are recorded again and again under load, in all of their processes. They
// still give the same answers.
func TestAttached(t *testing.T) {
	driven := func(l load) bool { return l.drive != nil }
	eachLoad(t, driven, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		longer, switches := longer()
		want := driveUnrecorded(t, l, run{src: src, times: longer})
		s := startSession(t, l, run{src: src, times: longer})
		driven := s.drive(l)
		attached, refused := 0, 0
		for i := 0; len(driven) == 0 && attached < switches; i++ {
			for _, p := range s.programs() {
				switch attachTo(t, s, p, i) {
				case nil:
					attached++
				case errRefused:
					refused++
				}
			}
		}
		s.checkDriven(t, <-driven, want)
		if attached == 0 && refused == 0 {
			t.Error("no process was recorded")
		}
		t.Logf("%d times, refused %d times because of seccomp", attached, refused)
	})
}

var (
	errRefused = errors.New("a seccomp filter is in place")
	errEnded   = errors.New("the process has ended")
)

// attachTo records a process for a moment.
func attachTo(t *testing.T, s *session, p process, i int) error {
	t.Helper()
	pid := strconv.Itoa(p.pid)
	path := filepath.Join(s.traces, "attached."+pid+"."+strconv.Itoa(i)+".xray")
	out, err := exec.Command(elftest.Xray(t), "record", "-q", "-p", pid, "--duration", "30ms", "-o", path).CombinedOutput()
	exe, _ := os.Readlink(filepath.Join("/proc", pid, "exe"))
	switch {
	case err == nil:
		// The trace can be read; the next one needs the room.
		if out, err := exec.Command(elftest.Xray(t), "info", path).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return os.Remove(path)
	case strings.Contains(string(out), "seccomp"):
		time.Sleep(50 * time.Millisecond)
		return errRefused
	case exe != p.exe:
		t.Logf("process %s has ended: %s", pid, out)
		return errEnded
	}
	t.Errorf("process %s: %v\n%s", pid, err, out)
	return err
}
