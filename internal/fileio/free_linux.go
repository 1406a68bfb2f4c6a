package fileio

import (
	"os"

	"golang.org/x/sys/unix"
)

// FreeSpace returns the number of free bytes in the file system of a file.
func FreeSpace(f *os.File) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}
