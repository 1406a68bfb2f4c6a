package kernel

import "golang.org/x/sys/unix"

// Check returns why [Open] would fail, or nil. It changes nothing.
func Check() error {
	if !initialPIDs() {
		return errInnerPIDs
	}
	root, err := openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	return explain(unix.Faccessat(int(root.Fd()), "instances", unix.W_OK, unix.AT_EACCESS))
}
