// Package source finds source files for traces from untrusted sources, and takes passages out
// of them. A path in a trace is never a reason to read a file.
//
// A file is read only if all of these hold: the debug information of a trusted binary
// places a function in it; it is below a directory that the user chose or that the binary
// was compiled in; and its MD5 matches the debug information, if that has one.
package source

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

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// maxSize exceeds the size of any real source file.
const maxSize = 16 << 20

// Reasons why a source file is not available.
var (
	ErrUnknown = errors.New("no trusted binary names it")
	ErrOutside = errors.New("outside the compilation directory")
	ErrChanged = errors.New("has changed since it was compiled")
	ErrKind    = errors.New("not a text file of at most 16 MB")
)

// Files reads source files, and remembers which ones it could not read and why. It is not
// safe for concurrent use.
type Files struct {
	roots    []string // chosen by the user
	binaries []*binary
	results  map[string]result
	newer    []string
}

// binary is a trusted binary.
type binary struct {
	table *symbolize.Table
	files []string // source files that it names, sorted
	dirs  []string // directories that it was compiled in; nil until they are needed
}

type result struct {
	file File
	err  error
}

// File is a source file.
type File struct {
	Text []byte
	// MD5 is the MD5 of the text in hexadecimal if the debug information confirms it,
	// otherwise "".
	MD5 string
}

// Trusted returns the tables, by the number of the object, whose debug information may name files to read: those
// of files that the user gave, and those whose build ID is the one in the trace.
func Trusted(t *reader.Trace, tables []*symbolize.Table, given map[int]string) (trusted []*symbolize.Table, err error) {
	objects, _, err := t.Objects()
	for n, table := range tables {
		if table == nil {
			continue
		}
		_, named := given[n]
		if named || n < len(objects) && objects[n].BuildID != "" && objects[n].BuildID == table.Object().BuildID {
			trusted = append(trusted, table)
		}
	}
	return trusted, err
}

// New returns the source files that the debug information of the trusted tables names and
// that are below the roots or the compilation directories of the tables. Relative paths are
// looked up below the roots only.
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
		// Debug information may have the path with resolved links or without.
		if real, err := filepath.EvalSymlinks(given); err == nil && real != given {
			f.roots = append(f.roots, real)
		}
	}
	for _, t := range trusted {
		f.binaries = append(f.binaries, &binary{table: t, files: t.SourceFiles()})
	}
	return f, nil
}

// Read returns a file by its path as in [symbolize.Symbol]. Possible errors include
// [fs.ErrNotExist] and the reasons above.
func (f *Files) Read(path string) (File, error) {
	r, known := f.results[path]
	if !known {
		r.file, r.err = f.find(path)
		f.results[path] = r
	}
	return r.file, r.err
}

// find tries the binaries in turn. If none has the file, it returns the first error, which
// is the most specific.
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

// open reads a file below the first directory that contains it.
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
		// A hidden file is more likely a secret than source code.
		text, info, err := readBelow(dir, name, checked)
		if err == nil {
			return text, info, nil
		}
		failure = err
	}
	return nil, nil, failure
}

// below returns path relative to dir if it is below dir. It compares names only.
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

// compilationDirs returns those directories in which programs are compiled. A binary can
// claim any directory.
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

// system reports whether a directory contains no source code, or the whole system.
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

// readBelow reads a text file below a directory. It does not follow links that leave the
// directory, opens only regular files, and never blocks.
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
	// Links that are created after this cannot leave the directory either.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	// Opening a device can have side effects.
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
	// Files in /proc report size 0.
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

// Failed returns the files that Read refused for the given reason, sorted.
func (f *Files) Failed(reason error) []string {
	return f.failed(func(err error) bool { return errors.Is(err, reason) })
}

// Unread returns the files that do not exist or could not be read, sorted.
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

// Newer returns the files that were read, but are newer than the binary, and whose MD5 is
// not in its debug information. They are sorted.
func (f *Files) Newer() []string { return slices.Sorted(slices.Values(f.newer)) }
