package fileio

import (
	"errors"
	"os"
)

// ErrNotRegular means that a file is no regular file. Opening a pipe could block forever, and opening a device can
// have side effects.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file to read it, and returns its size. It never blocks, whatever others put at path in
// the meantime.
func OpenRegular(path string) (*os.File, int64, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}
