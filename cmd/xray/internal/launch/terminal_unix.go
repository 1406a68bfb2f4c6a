//go:build unix

package launch

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// inForeground reports whether the keys of a terminal send signals to xray's
// process group.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}

// newSession keeps the signals of a terminal from a process.
func newSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
