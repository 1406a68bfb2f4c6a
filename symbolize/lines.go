package symbolize

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

// location is where a function is in the source. The zero value is nowhere.
type location struct {
	file         string
	line, column int32
}

// hit is a row that was found for an address.
type hit struct {
	unit int64 // offset of the line table
	row  row
	file string
	rel  bool // file is relative to the unit's directory of compilation
}

// lineReader runs all line tables of a file.
type lineReader struct {
	o     *object
	want  wanted
	names lineStrings

	mu   sync.Mutex
	md5  map[string][16]byte // of files of source code, by path
	hits []hit               // by index in want; unit is -1 where nothing was found

	// definitions need the names of files, by line table, and get them as paths. What is
	// done need not be run.
	definitions []definition
	files       map[int64][]int // indexes of definitions
	done        map[int64]bool
	err         error
}

// lineUnit is a line table on its way to a worker.
type lineUnit struct {
	offset int64
	wide   bool
	run    bool // for rows, and not only for files
	body   []byte
}

// locate finds where the functions that start at the given addresses, which must be
// sorted and distinct, are defined. What .debug_info does not know is taken from the line
// tables, as by findLines.
func (i *debugInfo) locate(starts, ends []uint64) ([]location, map[string][16]byte, error) {
	s := i.findDefinitions(starts)
	var rest []int // what the line tables have to say
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
	result := make([]location, len(starts))
	for j, k := range rest {
		result[k] = found[j]
	}
	for k, def := range s.found {
		if def.line != 0 && def.line>>31 == 0 && def.column>>31 == 0 && def.path != "" {
			result[k] = location{def.path, int32(def.line), int32(def.column)}
		}
	}
	return result, l.md5, errors.Join(s.err, err)
}

// findLines finds the source of the code at the given addresses: that of the functions that start at the given addresses,
// which must be sorted and distinct. Where line tables are damaged it returns
// what the others say, and an error. Where tables are of DWARF 5, it returns the MD5 of files,
// by path.
func (d *debugData) findLines(starts, ends []uint64) ([]location, map[string][16]byte, error) {
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
	if !o.relocatable() {
		// Linkers set the addresses of dropped functions to 0. Real ones are there
		// only when the text section is.
		if text := o.f.Section(".text"); text == nil || text.Addr != 0 {
			l.want.first = 1
		}
	}
	for i := range l.hits {
		l.hits[i].unit = -1
	}
	return l
}

// read runs the line tables. dirs are the directories of compilation by line table; nil
// if they are to be found.
func (l *lineReader) read(d *debugData, dirs map[int64]string) ([]location, error) {
	result := make([]location, len(l.hits))
	if d.line == nil || len(l.hits)+len(l.files) == 0 {
		return result, nil
	}
	err := l.run(d.line)
	var dirErr error
	if dirs == nil {
		dirs, dirErr = l.compilationDirs(d)
	}
	for i, h := range l.hits {
		if h.unit < 0 {
			continue
		}
		if h.rel {
			h.file = joinPath(dirs[h.unit], h.file)
		}
		// Lines and columns beyond 31 bits are damage.
		if h.row.line>>31 == 0 && h.row.column>>31 == 0 {
			result[i] = location{h.file, int32(h.row.line), int32(h.row.column)}
		}
	}
	return result, errors.Join(err, l.err, dirErr)
}

// run hands the line tables of a section to workers.
func (l *lineReader) run(s *section) error {
	r, err := s.open()
	if err != nil {
		return err
	}
	workers := min(runtime.GOMAXPROCS(0), 8)
	units := make(chan lineUnit, workers)
	free := make(chan []byte, 3*workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { l.work(units, free) })
	}
	err = l.dispatch(bufio.NewReaderSize(r, 64<<10), s.s.Size, units, free)
	close(units)
	wg.Wait()
	if err != nil {
		return fmt.Errorf("section .debug_line: %w", err)
	}
	return nil
}

// dispatch cuts the section into line tables.
func (l *lineReader) dispatch(r *bufio.Reader, size uint64, units chan<- lineUnit, free <-chan []byte) error {
	for at := uint64(0); at+4 <= size; {
		u := lineUnit{offset: int64(at)}
		length, wide, err := readUnitLength(r, l.o)
		if err != nil {
			return err
		}
		at += 4
		if wide {
			at += 8
		}
		if at > size || length > size-at {
			return fmt.Errorf("table at %#x: %d bytes go beyond the section", u.offset, length)
		}
		at += length
		u.wide = wide
		u.run = len(l.want.starts) > 0 && !l.done[u.offset]
		if !u.run && l.files[u.offset] == nil {
			if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
				return fmt.Errorf("table at %#x: %w", u.offset, noEOF(err))
			}
			continue
		}
		select {
		case u.body = <-free:
		default:
		}
		if u.body, err = readN(u.body, r, length); err != nil {
			return fmt.Errorf("table at %#x: %w", u.offset, noEOF(err))
		}
		if length > 0 {
			units <- u
		}
	}
	return nil
}

// readUnitLength reads the initial length of a DWARF unit.
func readUnitLength(r io.Reader, o *object) (length uint64, wide bool, err error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:4]); err != nil {
		return 0, false, noEOF(err)
	}
	length = o.uint(b[:], 4)
	if length != 0xFFFFFFFF {
		return length, false, nil
	}
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, false, noEOF(err)
	}
	return o.uint(b[:], 8), true, nil
}

// work runs line tables until there are no more.
func (l *lineReader) work(units <-chan lineUnit, free chan<- []byte) {
	var found []hit
	var index []int
	s := seeker{wanted: l.want}
	for u := range units {
		found, index = found[:0], index[:0]
		t, err := parseLineTable(u.body, l.o.f.ByteOrder, u.wide, l.o.word)
		if err == nil {
			l.define(t, l.files[u.offset])
		}
		if err == nil && u.run {
			s.report = func(i int, r row) {
				found = append(found, hit{unit: u.offset, row: r})
				index = append(index, i)
			}
			t.run(&s)
			l.resolve(t, found)
		}
		l.mu.Lock()
		if err != nil && l.err == nil {
			l.err = fmt.Errorf("section .debug_line: table at %#x: %w", u.offset, err)
		}
		for j, i := range index {
			// Several tables describe a function that the linker found to be the
			// same in several units; the first one wins, whoever ran it.
			if old := &l.hits[i]; old.unit < 0 || u.offset < old.unit {
				*old = found[j]
			}
		}
		l.mu.Unlock()
		select {
		case free <- u.body:
		default:
		}
	}
}

// resolve fills in the files of the rows that one table gave.
func (l *lineReader) resolve(t *lineTable, found []hit) {
	paths := make(map[uint64]string)
	for i := range found {
		h := &found[i]
		h.file = l.path(t, h.row.file, paths)
		h.rel = t.version < 5 && h.file != "" && !isAbsolute(h.file)
	}
}

// define fills in the files of the definitions that one table has the files of.
func (l *lineReader) define(t *lineTable, list []int) {
	paths := make(map[uint64]string)
	for _, k := range list {
		def := &l.definitions[k]
		def.path = l.path(t, def.file, paths)
		if t.version < 5 && def.path != "" {
			def.path = joinPath(def.dir, def.path)
		}
	}
}

// path is the path of a file of a table. paths are those that were asked for before.
func (l *lineReader) path(t *lineTable, file uint64, paths map[uint64]string) string {
	p, ok := paths[file]
	if ok {
		return p
	}
	p = t.path(file, l.names)
	paths[file] = p
	if sum := t.md5(file, l.names); sum != nil {
		l.mu.Lock()
		// A file that changed between two compilations has several; whoever
		// ran their tables, it is the same that counts.
		if old, ok := l.md5[p]; !ok || bytes.Compare(sum, old[:]) < 0 {
			l.md5[p] = [16]byte(sum)
		}
		l.mu.Unlock()
	}
	return p
}

// compilationDirs returns, by offset of their line tables, the directories that
// units with relative paths were compiled in.
func (l *lineReader) compilationDirs(d *debugData) (map[int64]string, error) {
	need := false
	for _, h := range l.hits {
		need = need || h.unit >= 0 && h.rel
	}
	if !need {
		return nil, nil
	}
	dirs := make(map[int64]string)
	units, err := d.units()
	for _, u := range units {
		if !u.readRoot() || u.table < 0 || u.dir == "" {
			continue
		}
		if _, seen := dirs[u.table]; !seen {
			dirs[u.table] = u.dir
		}
	}
	return dirs, err
}
