package observe

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder/proc"
)

// While a process ends, /proc says one after the other that its stack and its file are gone. That is no other
// program.
func TestEndIsNoExecution(t *testing.T) {
	t.Parallel()
	a := &arenaObserver{}
	for range 50 {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		handle, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.began, a.execution = proc.StartTime(pid), executionOf(pid)
		p := &observedProcess{host: pid, handle: handle}
		_ = cmd.Process.Kill()
		for !hasEnded(handle) {
			p.compared = time.Time{}
			p.watchExecution(a)
		}
		if p.executes != "" {
			t.Errorf("a process that was killed executes %s", p.executes)
		}
		_ = cmd.Wait()
		unix.Close(handle)
	}
}
