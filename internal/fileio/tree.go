package fileio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Tree is a set of files that [WriteTree] writes below a directory.
type Tree struct {
	dir, temp string
	folders   []string // that have files, in the order of their first
}

// WriteTree calls fill to create files below dir, which it makes if it does not exist. They
// appear only if fill succeeds: they are written in a temporary directory in dir, and then
// the folders that have files take the place of those of the same name. The folder whose first
// file was created last disappears first and appears last. So if it exists, the others are
// complete. If fill fails, dir is as before.
func WriteTree(dir string, fill func(*Tree) error) error {
	made, err := makeDir(dir)
	if err != nil {
		return err
	}
	t := &Tree{dir: dir, temp: filepath.Join(dir, tempName())}
	_, done, err := createGuarded(t.temp, func(path string) (*os.File, error) { return nil, os.Mkdir(path, 0o777) })
	if err != nil {
		return cannot(dir, err)
	}
	defer done()
	if err = fill(t); err == nil {
		err = t.move()
	}
	if gone := os.RemoveAll(t.temp); err == nil && gone != nil {
		err = cannot(dir, gone)
	}
	if err != nil && made {
		os.Remove(dir) // if it is empty
	}
	return err
}

// makeDir makes a directory, and reports whether it did not exist.
func makeDir(dir string) (made bool, err error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = os.MkdirAll(dir, 0o777); err != nil {
			return false, cannot(dir, err)
		}
		return true, nil
	case err != nil:
		return false, cannot(dir, err)
	case !info.IsDir():
		return false, fmt.Errorf("cannot write %s: it is a file, not a directory", dir)
	}
	return false, nil
}

// Create creates a file by its path below the directory, with slashes, in place of the one
// that was created before. All files are in folders. Errors name the directory.
func (t *Tree) Create(path string) (*TreeFile, error) {
	name := filepath.FromSlash(path)
	folder := filepath.Dir(name)
	if !slices.Contains(t.folders, folder) {
		if err := os.MkdirAll(filepath.Join(t.temp, folder), 0o777); err != nil {
			return nil, cannot(t.dir, err)
		}
		t.folders = append(t.folders, folder)
	}
	file, err := os.Create(filepath.Join(t.temp, name))
	if err != nil {
		return nil, cannot(t.dir, err)
	}
	return &TreeFile{file, t.dir}, nil
}

// TreeFile is a file of a Tree.
type TreeFile struct {
	file *os.File
	dir  string
}

// Write implements io.Writer.
func (f *TreeFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	if err != nil {
		err = cannot(f.dir, err)
	}
	return n, err
}

// Close closes the file.
func (f *TreeFile) Close() error {
	if err := f.file.Close(); err != nil {
		return cannot(f.dir, err)
	}
	return nil
}

// move puts the folders into their places, and those that were there into the temporary
// directory.
func (t *Tree) move() error {
	for _, folder := range t.folders {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(t.dir, folder)), 0o777); err != nil {
			return cannot(t.dir, err)
		}
	}
	for i, folder := range slices.Backward(t.folders) {
		old := filepath.Join(t.temp, fmt.Sprintf("old-%d", i))
		if err := os.Rename(filepath.Join(t.dir, folder), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cannot(t.dir, err)
		}
	}
	for _, folder := range t.folders {
		if err := os.Rename(filepath.Join(t.temp, folder), filepath.Join(t.dir, folder)); err != nil {
			return cannot(t.dir, err)
		}
	}
	return nil
}
