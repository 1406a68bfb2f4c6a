//go:build unix

package reader

import (
	"os"

	"golang.org/x/sys/unix"
)

// mmap maps a file, or returns nil if that is not possible. The file is then read.
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

// duplicate returns a file of its own for an open file, or nil if that is not possible.
func duplicate(f *os.File) *os.File {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), f.Name())
}

func munmap(b []byte) error { return unix.Munmap(b) }

// release removes the pages of a mapping from the process's memory. They return when they
// are read. It is only advice, so errors do not matter.
func release(b []byte) { unix.Madvise(b, unix.MADV_DONTNEED) }
