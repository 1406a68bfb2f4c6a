package build

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// privileged returns how a program gets privileges that its user does not have, or "".
func privileged(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	owner := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&fs.ModeSetuid != 0 && int(owner.Uid) != os.Getuid():
		return "is set-user-id"
	case info.Mode()&fs.ModeSetgid != 0 && int(owner.Gid) != os.Getgid():
		return "is set-group-id"
	}
	if n, err := unix.Getxattr(path, "security.capability", nil); err == nil && n > 0 && os.Getuid() != 0 {
		return "has file capabilities"
	}
	return ""
}
