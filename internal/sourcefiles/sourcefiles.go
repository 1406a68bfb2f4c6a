// Package sourcefiles finds files of source code for traces that strangers may have sent:
// it reads no file because a trace names it.
//
// A file is read if the debug information of a trusted binary places a function in it, it is
// below a directory that the user chose or that the binary was compiled in, and it is
// what was compiled, as far as an MD5 in the debug information tells.
package sourcefiles

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/xray-tools/xray/symbolize"
)

// maxSize is more than any file of source code has.
const maxSize = 16 << 20

// Reasons why there is no source code of a file.
var (
	ErrUnknown = errors.New("no trusted binary names it")
	ErrOutside = errors.New("outside the compilation directory")
	ErrChanged = errors.New("has changed since it was compiled")
	ErrKind    = errors.New("not a text file of at most 16 MB")
)

// Files reads files of source code, and remembers what could not be read and why. It
// must not be used concurrently.
type Files struct {
	roots    []string // that the user chose
	binaries []*binary
	results  map[string]result
	newer    []string
}

// binary is one that is trusted.
type binary struct {
	table *symbolize.Table
	files []string // that it names, sorted
	dirs  []string // that it was compiled in; nil before they are needed
}

type result struct {
	file File
	err  error
}

// File is a file of source code.
type File struct {
	Text []byte
	// MD5 is that of the text, in hex, where debug information has the same; "" where it
	// has none.
	MD5 string
}

// New returns the files that debug information of the trusted tables names, and that are
// below the roots or the compilation directories of the tables. Files with a relative path
// are looked for below the roots alone.
func New(roots []string, trusted []*symbolize.Table) (*Files, error) {
	f := &Files{results: make(map[string]result)}
	for _, root := range roots {
		given, err := filepath.Abs(root)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(given)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a directory", root)
		}
		f.roots = append(f.roots, given)
		// Debug information may have the path with or without links in it.
		if real, err := filepath.EvalSymlinks(given); err == nil && real != given {
			f.roots = append(f.roots, real)
		}
	}
	for _, t := range trusted {
		f.binaries = append(f.binaries, &binary{table: t, files: t.SourceFiles()})
	}
	return f, nil
}

// Read returns a file by its path as in [symbolize.Symbol]. Errors are [fs.ErrNotExist] and those
// above, among others.
func (f *Files) Read(path string) (File, error) {
	r, known := f.results[path]
	if !known {
		r.file, r.err = f.find(path)
		f.results[path] = r
	}
	return r.file, r.err
}

// find asks one binary after the other. The first error says most.
func (f *Files) find(path string) (File, error) {
	first := ErrUnknown
	for _, b := range f.binaries {
		if _, ok := slices.BinarySearch(b.files, path); !ok {
			continue
		}
		file, err := f.read(b, path)
		if err == nil {
			return file, nil
		}
		if first == ErrUnknown {
			first = err
		}
	}
	return File{}, first
}

func (f *Files) read(b *binary, path string) (File, error) {
	sum, known := b.table.SourceMD5(path)
	text, info, err := f.open(b, path, known)
	if err != nil {
		return File{}, err
	}
	if !known {
		if binary, err := os.Stat(b.table.Object().Path); err == nil && info.ModTime().After(binary.ModTime()) {
			f.newer = append(f.newer, path)
		}
		return File{Text: text}, nil
	}
	if md5.Sum(text) != sum {
		return File{}, ErrChanged
	}
	return File{text, hex.EncodeToString(sum[:])}, nil
}

// open reads a file below the first directory that has it.
func (f *Files) open(b *binary, path string, checked bool) ([]byte, fs.FileInfo, error) {
	failure := ErrOutside
	for _, root := range f.roots {
		name, ok := below(root, path)
		if !ok {
			continue
		}
		text, info, err := readBelow(root, name, true)
		if err == nil {
			return text, info, nil
		}
		failure = err
	}
	if b.dirs == nil {
		b.dirs = compilationDirs(b.table.CompilationDirs())
	}
	for _, dir := range b.dirs {
		name, ok := below(dir, path)
		if !ok || !filepath.IsAbs(path) {
			continue
		}
		// What is hidden is rather a secret than source code.
		text, info, err := readBelow(dir, name, checked)
		if err == nil {
			return text, info, nil
		}
		failure = err
	}
	return nil, nil, failure
}

// below returns a path relative to a directory that it is below, going by the names alone.
func below(dir, path string) (string, bool) {
	name := filepath.Clean(path)
	if filepath.IsAbs(name) {
		var err error
		if name, err = filepath.Rel(dir, name); err != nil {
			return "", false
		}
	}
	return name, filepath.IsLocal(name)
}

func hidden(name string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(name), "/"), func(s string) bool { return strings.HasPrefix(s, ".") })
}

// compilationDirs are the directories in which programs are compiled. A binary can claim
// to have been compiled anywhere.
func compilationDirs(dirs []string) []string {
	sources := []string{}
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && filepath.IsAbs(dir) && !system(dir) && !system(real) {
			sources = append(sources, filepath.Clean(dir))
		}
	}
	return sources
}

// system reports whether a directory holds no source code, or everything.
func system(dir string) bool {
	dir = filepath.Clean(dir)
	if filepath.Dir(dir) == dir {
		return true
	}
	for _, no := range []string{"/boot", "/dev", "/etc", "/proc", "/run", "/sys"} {
		if dir == no || strings.HasPrefix(dir, no+"/") {
			return true
		}
	}
	return false
}

// readBelow reads a text file below a directory. It reads nothing that links lead to
// outside of the directory, opens nothing but regular files, and does not wait for anything.
func readBelow(dir, name string, hiddenToo bool) ([]byte, fs.FileInfo, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil, err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
	if err != nil {
		return nil, nil, err
	}
	name, ok := below(dir, path)
	if !ok || !hiddenToo && hidden(name) {
		return nil, nil, ErrOutside
	}
	// Links that appear from now on cannot lead outside, either.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	// To open a device may have effects of its own.
	info, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !regular(info) {
		return nil, nil, ErrKind
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, nil, err
	}
	if !regular(info) {
		return nil, nil, ErrKind
	}
	// Files of /proc have no size.
	text, err := io.ReadAll(io.LimitReader(file, info.Size()))
	if err != nil {
		return nil, nil, err
	}
	if len(text) == 0 || bytes.IndexByte(text, 0) >= 0 {
		return nil, nil, ErrKind
	}
	return text, info, nil
}

func regular(info fs.FileInfo) bool { return info.Mode().IsRegular() && info.Size() <= maxSize }

// Failed are the files that Read was asked for in vain for a reason, sorted.
func (f *Files) Failed(reason error) []string {
	return f.failed(func(err error) bool { return errors.Is(err, reason) })
}

// Unread are the files that are not there or could not be read, sorted.
func (f *Files) Unread() []string {
	return f.failed(func(err error) bool {
		return err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrOutside) && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrKind)
	})
}

func (f *Files) failed(is func(error) bool) []string {
	var paths []string
	for path, r := range f.results {
		if r.err != nil && is(r.err) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Newer are the files that were read, and that are newer than the binary whose debug
// information has no MD5 of them, sorted.
func (f *Files) Newer() []string { return slices.Sorted(slices.Values(f.newer)) }
