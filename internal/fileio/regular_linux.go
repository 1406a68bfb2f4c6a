package fileio

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openRegular finds the file, without opening it, before it decides. Otherwise another file could be at path by then.
func openRegular(path string) (*os.File, error) {
	found, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	info, err := found.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	var fd int
	err = Uninterrupted(func() (err error) {
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", found.Fd()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT { // there is no /proc
			fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		}
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
