// Package regular opens files whose names come from somebody else.
package regular

import (
	"errors"
	"os"
)

// ErrKind means that a file is no regular file. Opening a pipe could block forever, and opening a device can
// have side effects.
var ErrKind = errors.New("not a regular file")

// Open opens a regular file to read it, and returns its size. It never blocks, whatever others put at path in
// the meantime.
func Open(path string) (*os.File, int64, error) {
	file, err := open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: ErrKind}
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}
