//go:build unix

package reader

import (
	"os"

	"golang.org/x/sys/unix"
)

// mmap maps a file, or returns nil where that cannot be done; it is then read.
func mmap(f *os.File, size int64) []byte {
	if size <= 0 || int64(int(size)) != size {
		return nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return b
}

func munmap(b []byte) error { return unix.Munmap(b) }

// release takes the pages of a mapping out of the process's memory. They come
// back when they are looked at. It is advice: that it may fail does not matter.
func release(b []byte) { unix.Madvise(b, unix.MADV_DONTNEED) }
