package fileio

import "syscall"

// Uninterrupted calls a function that makes a system call until no signal interrupts it. Go's runtime
// preempts threads by signals, so any call that blocks may end early.
func Uninterrupted(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}
