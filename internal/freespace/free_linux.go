// Package freespace tells how much space a file system has.
package freespace

import (
	"os"

	"golang.org/x/sys/unix"
)

// Of returns the number of free bytes in the file system of a file.
func Of(f *os.File) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}
