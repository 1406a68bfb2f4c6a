package symbolize

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// ErrNoObject means that the caller passed a file for an object that the trace cannot have.
var ErrNoObject = errors.New("there is no object")

// Opened holds the names of the functions of a trace.
type Opened struct {
	// Names is nil if neither the trace nor a file has names. It may be used concurrently
	// until Close.
	Names Names
	// Missing lists the recorded objects without a file, or with a file of another build.
	Missing []Missing

	tables []*Table
}

// Open finds the names for a trace. Names that are packed into the trace come first. A
// trace of this project's recorder identifies its program and shared objects, which Open
// searches for with s. For other traces, and for objects elsewhere, pass files by object number.
// The program is object 0. A file is a binary, or a map of `xray extract`; Open returns an
// error if it cannot use one of them. If t is nil, Open uses the files alone. The files stay
// open until [Opened.Close].
func Open(t *reader.Trace, files map[int]string, s Search) (*Opened, error) {
	s.Limit = new(debuginfo.UnpackLimit)
	if t == nil {
		return openGiven(nil, files, s)
	}
	functions, err := t.Functions()
	if err != nil {
		return nil, err
	}
	if len(functions) > 0 && len(files) == 0 {
		return &Opened{Names: NewStored(functions, s.Style)}, nil
	}
	objects, addresses, err := t.Objects()
	if err != nil {
		return nil, err
	}
	if len(objects) > 0 {
		return openRecorded(objects, addresses, files, s)
	}
	return openGiven(t, files, s)
}

func openRecorded(objects []reader.Object, addresses []uint64, files map[int]string, s Search) (*Opened, error) {
	for _, n := range slices.Sorted(maps.Keys(files)) {
		if n < 0 || n >= len(objects) {
			return nil, fmt.Errorf("%s: %w %d: `xray info` lists the recorded objects, 0 to %d",
				files[n], ErrNoObject, n, len(objects)-1)
		}
	}
	names, missing, err := LoadRecorded(objects, addresses, files, s)
	if err != nil {
		return nil, err
	}
	return &Opened{Names: names, Missing: missing, tables: names.Tables()}, nil
}

func openGiven(t *reader.Trace, files map[int]string, s Search) (*Opened, error) {
	o := &Opened{}
	if len(files) == 0 {
		return o, nil
	}
	objects := make(Objects)
	for _, n := range slices.Sorted(maps.Keys(files)) {
		if n < 0 || n > 255 {
			return nil, errors.Join(fmt.Errorf("%s: %w %d: object numbers are 0 to 255", files[n], ErrNoObject, n), o.Close())
		}
		table, err := Load(files[n], s.Options)
		if err != nil {
			return nil, errors.Join(err, o.Close())
		}
		objects[uint8(n)] = table
		o.tables = append(slices.Grow(o.tables, n+1)[:n], table)
	}
	cut := false
	if t != nil {
		for i := range t.Files() {
			cut = cut || t.Header(i).Type == reader.FDR
		}
	}
	o.Names = NewPacked(objects, cut)
	return o, nil
}

// Tables returns the tables of the files by object number, nil for objects without one. The
// caller must not change the list.
func (o *Opened) Tables() []*Table { return o.tables }

// TailCalls returns a function that calls [FindTailCalls] on its first call. It ignores binaries
// that are known to be of another build. The function is nil if there is nothing to find. It is
// safe for concurrent use.
func (o *Opened) TailCalls() func() *TailCalls {
	if stored, ok := o.Names.(*Stored); ok {
		if len(stored.tails.to) == 0 {
			return nil
		}
		return func() *TailCalls { return stored.tails }
	}
	wrong := o.wrong()
	if !slices.ContainsFunc(o.tables, func(t *Table) bool { return t.hasTailCalls() && !slices.Contains(wrong, t) }) {
		return nil
	}
	return sync.OnceValue(func() *TailCalls { return FindTailCalls(o.Names, wrong...) })
}

// Callers returns a function that calls [findCallers] on its first call. It ignores binaries that
// are known to be of another build. The function is nil if no binary can catch exceptions or be the
// target of longjmp. It is safe for concurrent use.
func (o *Opened) Callers() func() *Callers {
	wrong := o.wrong()
	if _, ok := o.Names.(*Stored); ok || !slices.ContainsFunc(o.tables, func(t *Table) bool { return t.isX86() && !slices.Contains(wrong, t) && t.canLand() }) {
		return nil
	}
	return sync.OnceValue(func() *Callers { return findCallers(o.Names, wrong...) })
}

// wrong returns the tables of binaries that are known to be of another build.
func (o *Opened) wrong() (list []*Table) {
	for _, m := range o.Missing {
		if m.Given {
			list = append(list, o.tables[m.Number])
		}
	}
	return list
}

// Close closes the files. After Close, only locations that were read before are known.
func (o *Opened) Close() error {
	var err error
	for _, t := range o.tables {
		if t != nil {
			err = errors.Join(err, t.Close())
		}
	}
	return err
}
