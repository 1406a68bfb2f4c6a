// Package fileio writes files, and knows sizes and free space. A regular file appears at its path
// only when it is complete: it is written under a temporary name in the same directory and renamed.
// Devices, FIFOs and open descriptors are written to directly and never replaced.
package fileio

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Write creates the file at path and calls fill to write its contents. It follows links. If
// fill fails, an existing regular file does not change, and a new one does not appear.
// Write closes the file.
func Write(path string, fill func(*os.File) error) error {
	target, descriptor, err := resolve(path)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	if descriptor >= 0 {
		return writeDescriptor(descriptor, path, fill)
	}
	info, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replace(path, target, newFile, fill)
	case err != nil:
		return cannot(path, err)
	case info.Mode().IsRegular():
		return replace(path, target, Mode(info.Mode().Perm()), fill)
	case info.IsDir():
		return fmt.Errorf("cannot write %s: it is a directory", path)
	}
	if err := isPlanted(target); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return writeDirectly(path, target, fill)
}

// Replace works like [Write], but fails if [Replaceable] reports an error. It is for files
// that only their user may read, and for files that another process writes. create must
// create a file that does not exist yet.
func Replace(path string, create func(path string) (*os.File, error), fill func(*os.File) error) error {
	if err := Replaceable(path); err != nil {
		return err
	}
	return replace(path, path, create, fill)
}

// Replaceable returns an error if a new file cannot take the place of path, because path
// exists and is not a regular file. A symbolic link is not a regular file.
func Replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file, and xray does not replace it", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return cannot(path, err)
	}
	return nil
}

// Mode returns a function that creates files with these permissions, regardless of the
// umask.
func Mode(mode fs.FileMode) func(path string) (*os.File, error) {
	return func(path string) (*os.File, error) {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err == nil {
			_ = file.Chmod(mode) // some file systems have no permissions
		}
		return file, err
	}
}

// newFile creates a file with the default permissions of the umask.
func newFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// replace calls fill to write a temporary file beside target, and renames it on success.
// Errors name path.
func replace(path, target string, create func(path string) (*os.File, error), fill func(*os.File) error) error {
	temp := filepath.Join(filepath.Dir(target), tempName())
	file, done, err := createGuarded(temp, create)
	if err != nil {
		return cannot(path, err)
	}
	defer done()
	if err = errors.Join(fill(file), closed(file)); err == nil {
		if err = os.Rename(temp, target); err != nil {
			err = cannot(path, err)
		}
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}

// closed closes a file that fill may have closed already.
func closed(file *os.File) error {
	if err := file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// tempName returns an unpredictable name. It is short enough for every file system, however
// long the name of the file is.
func tempName() string { return ".xray-" + strings.ToLower(rand.Text()[:16]) }

// writeDirectly writes to a device or a FIFO.
func writeDirectly(path, target string, fill func(*os.File) error) error {
	file, err := os.OpenFile(target, os.O_WRONLY, 0)
	if err != nil {
		return cannot(path, err)
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = fmt.Errorf("cannot write %s: it was replaced by a regular file just now", path)
	}
	if err == nil {
		err = fill(file)
	}
	return errors.Join(err, closed(file))
}

// writeDescriptor writes to an inherited descriptor. Opening its path instead would
// overwrite a file that the descriptor appends to.
func writeDescriptor(n int, path string, fill func(*os.File) error) error {
	if standard := []*os.File{os.Stdin, os.Stdout, os.Stderr}; n < len(standard) {
		return fill(standard[n])
	}
	file := os.NewFile(uintptr(n), path)
	return errors.Join(fill(file), closed(file))
}

// resolve follows links, so that the file they point to is replaced and not the link. That
// file need not exist yet. If path names a descriptor of this process, as /dev/stdout does,
// resolve returns its number, otherwise -1. It does not follow links that another user has planted.
func resolve(path string) (target string, descriptor int, err error) {
	// The kernel follows at most 40 links, too.
	for range 40 {
		if n, ok := ownDescriptor(path); ok {
			return path, n, nil
		}
		link, err := os.Readlink(path)
		if err != nil {
			break
		}
		if err := isPlanted(path); err != nil {
			return path, -1, err
		}
		if !filepath.IsAbs(link) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				break
			}
			link = filepath.Join(dir, link)
		}
		path = link
	}
	return path, -1, nil
}

// ownDescriptor returns the descriptor of this process that a path names, if it names one.
func ownDescriptor(path string) (int, bool) {
	n, err := strconv.Atoi(filepath.Base(path))
	if err != nil || n < 0 {
		return 0, false
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return 0, false
	}
	if dir == "/dev/fd" {
		return n, true
	}
	own, err := filepath.EvalSymlinks("/proc/self/fd")
	return n, err == nil && dir == own
}

// cannot returns an error with the name that the user knows instead of the temporary one.
func cannot(path string, err error) error {
	if e := new(fs.PathError); errors.As(err, &e) {
		err = e.Err
	} else if e := new(os.LinkError); errors.As(err, &e) {
		err = e.Err
	}
	return fmt.Errorf("cannot write %s: %w", path, err)
}
