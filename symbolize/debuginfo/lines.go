package debuginfo

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
)

// hit is the row of an address.
type hit struct {
	unit int64 // offset of the line table
	row  row
	file string
	rel  bool // file is relative to the compilation directory
}

// lineReader runs all line tables of a file.
type lineReader struct {
	o     *ELF
	want  wanted
	names lineStrings

	mu   sync.Mutex
	md5  map[string][16]byte // of files of source code, by path
	hits []hit               // by index in want; unit is -1 where nothing was found

	// definitions need file names from line tables. Tables in done need not be run.
	definitions []definition
	files       map[int64][]int // indexes of definitions
	done        map[int64]bool
	err         error
}

// locate returns the definitions of the functions at the given addresses, which must be sorted
// and distinct. For functions without a definition in .debug_info, it uses line tables as
// findLines does.
func (i *debugInfo) locate(starts, ends []uint64) ([]Location, map[string][16]byte, error) {
	s := i.findDefinitions(starts)
	var rest []int // functions to look up in line tables
	want := wanted{}
	files := make(map[int64][]int)
	for k, def := range s.found {
		switch {
		case def.line == 0:
			rest = append(rest, k)
			want.starts, want.ends = append(want.starts, starts[k]), append(want.ends, ends[k])
		case def.table >= 0 && def.path == "":
			files[def.table] = append(files[def.table], k)
		}
	}
	l := i.main.newLineReader(want)
	l.definitions, l.files, l.done = s.found, files, s.done
	found, err := l.read(i.main, s.dirs)
	result := make([]Location, len(starts))
	for j, k := range rest {
		result[k] = found[j]
	}
	for k, def := range s.found {
		if def.line != 0 && def.line>>31 == 0 && def.column>>31 == 0 && def.path != "" {
			result[k] = Location{def.path, int32(def.line), int32(def.column)}
		}
	}
	return result, l.md5, errors.Join(s.err, err)
}

// findLines returns the locations of the code at the starts of functions, which must be sorted
// and distinct. If line tables are damaged, it returns the locations of the others, and an
// error. It also returns the MD5 of source files by path, which DWARF 5 has.
func (d *debugData) findLines(starts, ends []uint64) ([]Location, map[string][16]byte, error) {
	l := d.newLineReader(wanted{starts: starts, ends: ends})
	result, err := l.read(d, nil)
	return result, l.md5, err
}

func (d *debugData) newLineReader(want wanted) *lineReader {
	o := d.o
	l := &lineReader{
		o:     o,
		want:  want,
		names: d,
		hits:  make([]hit, len(want.starts)),
		md5:   make(map[string][16]byte),
	}
	if !o.Relocatable() {
		// Linkers set the addresses of dropped functions to 0. Real functions are there only if
		// the text section is.
		if text := o.f.Section(".text"); text == nil || text.Addr != 0 {
			l.want.first = 1
		}
	}
	for i := range l.hits {
		l.hits[i].unit = -1
	}
	return l
}

// read runs the line tables. dirs has the compilation directories by line table. If it is nil,
// read finds them.
func (l *lineReader) read(d *debugData, dirs map[int64]*unitText) ([]Location, error) {
	defer d.forget()
	result := make([]Location, len(l.hits))
	if d.line == nil || len(l.hits)+len(l.files) == 0 {
		return result, nil
	}
	err := d.line.eachUnit(l.wants, l.newWorker)
	var dirErr error
	if dirs == nil {
		dirs, dirErr = l.compilationDirs(d)
	}
	for i, h := range l.hits {
		if h.unit < 0 {
			continue
		}
		if h.rel {
			h.file = joinPath(dirs[h.unit].String(), h.file)
		}
		// Lines and columns beyond 31 bits are damage.
		if h.row.line>>31 == 0 && h.row.column>>31 == 0 {
			result[i] = Location{h.file, int32(h.row.line), int32(h.row.column)}
		}
	}
	return result, errors.Join(err, l.err, dirErr)
}

// runs reports whether to run the line table at an offset.
func (l *lineReader) runs(at uint64) bool { return len(l.want.starts) > 0 && !l.done[int64(at)] }

// wants reports whether to read the line table at an offset.
func (l *lineReader) wants(at uint64) bool { return l.runs(at) || l.files[int64(at)] != nil }

// newWorker returns a function that reads a line table.
func (l *lineReader) newWorker() func(*sectionUnit) {
	var found []hit
	var index []int
	var files lineFiles
	s := seeker{wanted: l.want}
	return func(u *sectionUnit) {
		offset := int64(u.at)
		found, index = found[:0], index[:0]
		t, err := parseLineTable(u.body, l.o.f.ByteOrder, u.wide(), l.o.word)
		if err == nil {
			files.read(t)
			l.define(&files, l.files[offset])
		}
		if err == nil && l.runs(u.at) {
			s.report = func(i int, r row) {
				found = append(found, hit{unit: offset, row: r})
				index = append(index, i)
			}
			t.run(&s)
			l.resolve(&files, found)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil && l.err == nil {
			l.err = fmt.Errorf("section .debug_line: table at %#x: %w", offset, err)
		}
		for j, i := range index {
			// If several tables describe a function, because the linker merged copies of it,
			// the first table wins.
			if old := &l.hits[i]; old.unit < 0 || offset < old.unit {
				*old = found[j]
			}
		}
	}
}

// resolve sets the files of the rows of a table.
func (l *lineReader) resolve(files *lineFiles, found []hit) {
	paths := make(map[uint64]string)
	for i := range found {
		h := &found[i]
		h.file = l.path(files, h.row.file, paths)
		h.rel = files.t.version < 5 && h.file != "" && !isAbsolute(h.file)
	}
}

// define sets the files of the definitions of a table.
func (l *lineReader) define(files *lineFiles, list []int) {
	paths := make(map[uint64]string)
	var of *unitText // mostly the same
	dir := ""
	for _, k := range list {
		def := &l.definitions[k]
		def.path = l.path(files, def.file, paths)
		if files.t.version < 5 && def.path != "" {
			if of != def.dir {
				of, dir = def.dir, def.dir.String()
			}
			def.path = joinPath(dir, def.path)
		}
	}
}

// path returns the path of a file of a table. paths caches paths.
func (l *lineReader) path(files *lineFiles, file uint64, paths map[uint64]string) string {
	p, ok := paths[file]
	if ok {
		return p
	}
	p, sum := files.file(file, l.names)
	paths[file] = p
	if sum != nil {
		l.mu.Lock()
		// A file that changed between two compilations has several. The choice must not depend
		// on the order of workers.
		if old, ok := l.md5[p]; !ok || bytes.Compare(sum, old[:]) < 0 {
			l.md5[p] = [16]byte(sum)
		}
		l.mu.Unlock()
	}
	return p
}

// compilationDirs returns the compilation directories of units with relative paths, by offset
// of their line tables.
func (l *lineReader) compilationDirs(d *debugData) (map[int64]*unitText, error) {
	need := false
	for _, h := range l.hits {
		need = need || h.unit >= 0 && h.rel
	}
	if !need {
		return nil, nil
	}
	dirs := make(map[int64]*unitText)
	units, err := d.units()
	for _, u := range units {
		if !u.readRoot() || u.table < 0 || u.dir == nil {
			continue
		}
		if _, seen := dirs[u.table]; !seen {
			dirs[u.table] = u.dir
		}
	}
	return dirs, err
}
