//go:build !unix

package launch

import "syscall"

// inForeground reports whether the keys of a terminal send signals to xray's
// process group.
func inForeground() bool { return true }

// newSession keeps the signals of a terminal from a process.
func newSession() *syscall.SysProcAttr { return nil }
