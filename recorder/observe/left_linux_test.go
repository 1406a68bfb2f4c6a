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
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		// Start returns while the kernel still prepares the stack of the program.
		if _, err := in.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
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
