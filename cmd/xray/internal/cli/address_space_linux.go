package cli

import "golang.org/x/sys/unix"

// addressLimit returns the limit for the address space in bytes.
func addressLimit() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &l); err != nil {
		return unix.RLIM_INFINITY
	}
	return l.Cur
}
