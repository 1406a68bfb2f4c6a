package symbolize

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
	"github.com/xray-tools/xray/symbolize/demangle"
)

// Inlined is a call that the compiler replaced by the code of the callee.
type Inlined struct {
	Depth   int    // 1 for calls in the function itself, 2 for those in one inlined into it
	Name    string // in the style of the table
	Linkage string // linkage name; the plain name in C, or if there is none
	// File, Line and Column are the location of the call.
	File         string
	Line, Column int
}

// Inlined returns the calls that were inlined into a function, callees after their callers. It
// returns nil without debug information.
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

// inlined converts inlined calls and demangles their names.
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

// shown returns a linkage name in the style of the table.
func (t *Table) shown(linkage string) string {
	switch t.opts.Style {
	case Mangled:
		return linkage
	case Short:
		return demangle.Short(demangle.Name(linkage))
	}
	return demangle.Name(linkage)
}

// Frames returns the inlined frames at the start of a function, innermost first. The last frame
// is the function itself. Locations are those of the code, and then of the calls. The result is
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

// unwind returns the frames of code inside inlined calls. calls has the outermost call first. s is
// the function, with the location of the code.
func unwind(s Symbol, calls []Inlined) []Symbol {
	frames := make([]Symbol, 0, len(calls)+1)
	for _, c := range slices.Backward(calls) {
		frames = append(frames, Symbol{Name: c.Name, Linkage: c.Linkage, File: s.File, Line: s.Line, Column: s.Column, Address: s.Address})
		s.File, s.Line, s.Column = c.File, c.Line, c.Column
	}
	return append(frames, s)
}
