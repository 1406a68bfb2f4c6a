package build

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/fileio"
)

// lockFolder waits for the lock of a folder, takes it, and returns a function that releases it. The
// kernel releases it when the process ends. If the file system has no locks, lockFolder does nothing.
func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		lock := func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
		switch fileio.Uninterrupted(lock) {
		case syscall.EWOULDBLOCK:
		default:
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ownAlone makes sure that no other process has a file open or mapped, whatever its user and its container, and
// until release is called, that none opens it. The kernel gives such a lease to nobody else.
func ownAlone(path string) (release func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
