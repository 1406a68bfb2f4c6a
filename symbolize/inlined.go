package symbolize

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
	"github.com/xray-tools/xray/symbolize/demangle"
)

// Inlined is a call that the compiler replaced by the code of the function called.
type Inlined struct {
	Depth   int    // 1 for calls in the function itself, 2 for those in one inlined into it
	Name    string // demangled, unless the table keeps names as they are linked
	Linkage string // as it would be linked; in C, and where that is not known, its name
	// File, Line and Column are where it is called.
	File         string
	Line, Column int
}

// Inlined returns the calls that were inlined into a function, in the order of the
// debug information, callees right behind their callers. Without debug information
// there are none.
func (t *Table) Inlined(id reader.FuncID) []Inlined {
	if t == nil || t.debug == nil {
		return nil
	}
	i, ok := t.m.index(id)
	if !ok {
		return nil
	}
	return t.inlined(t.debug.InlinedCalls(i))
}

// inlined are inlined calls as the table shows their names.
func (t *Table) inlined(calls []debuginfo.InlinedCall) []Inlined {
	var list []Inlined
	for _, c := range calls {
		list = append(list, Inlined{
			Depth: c.Depth, Name: t.shown(c.Linkage), Linkage: c.Linkage,
			File: c.At.File, Line: int(c.At.Line), Column: int(c.At.Column),
		})
	}
	return list
}

// shown is a linkage name as the table shows names.
func (t *Table) shown(linkage string) string {
	switch t.opts.Style {
	case Mangled:
		return linkage
	case Short:
		return demangle.Short(demangle.Name(linkage))
	}
	return demangle.Name(linkage)
}

// Frames returns what a function's address stands for in the source: the function
// of the code that is there, then the one that it was inlined into, and so on up to
// the function itself. Locations are those of the code, and of the calls. It is
// empty for an id that is not in the map.
func (t *Table) Frames(id reader.FuncID) []Symbol {
	s, ok := t.Func(id)
	if !ok {
		return nil
	}
	if t.debug == nil {
		return []Symbol{s}
	}
	i, _ := t.m.index(id)
	if l, ok := t.debug.CodeLocation(i); ok {
		s.locate(l)
	}
	return unwind(s, t.inlined(t.debug.InlinedAt(i, []uint64{t.m.Functions[i].key})[0]))
}

// unwind is what a place of a function stands for that is inside of inlined calls, of
// which the outermost is the first. The location of s is that of the code; those of the
// frames are of the code, and of the calls.
func unwind(s Symbol, calls []Inlined) []Symbol {
	frames := make([]Symbol, 0, len(calls)+1)
	for _, c := range slices.Backward(calls) {
		frames = append(frames, Symbol{Name: c.Name, Linkage: c.Linkage, File: s.File, Line: s.Line, Column: s.Column, Address: s.Address})
		s.File, s.Line, s.Column = c.File, c.Line, c.Column
	}
	return append(frames, s)
}
