package testenv

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody is a user other than the one who runs the tests.
const Nobody = 65534

// NeedOtherUsers skips the test unless it can change the owner of files and processes. That requires
// root and, in a container, a mapping for other users.
func NeedOtherUsers(t testing.TB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "given away")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, Nobody, Nobody)); err != nil {
		t.Skipf("no other user: %v", err)
	}
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Nobody, Gid: Nobody}}
	if err := cmd.Run(); err != nil {
		t.Skipf("no other user: %v", err)
	}
}

// AsNobody runs f in a thread of another user. Only root can.
func AsNobody(t testing.TB, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		_, _, err := unix.RawSyscall(unix.SYS_SETRESUID, Nobody, Nobody, Nobody)
		if err == 0 {
			f()
			close(done)
			return
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
