package symbolize

import (
	"slices"

	"github.com/xray-tools/xray/reader"
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
	if t == nil || t.elf == nil {
		return nil
	}
	i, ok := t.m.index(id)
	if !ok {
		return nil
	}
	var list []Inlined
	_ = guard(func() error {
		t.eachInlined(t.m.Functions[i].key, func(depth int, u *unit, e *die) bool {
			list = append(list, t.inlined(depth, u, e))
			return true
		})
		return nil
	})
	return list
}

// eachInlined calls f for the calls inlined into the function at an address; where f
// says no, those in them are left out.
func (t *Table) eachInlined(address uint64, f func(depth int, u *unit, e *die) bool) {
	t.eachCall(address, roleInlined, f)
}

// eachCall calls f for the calls of the function at an address that have one of the
// roles: for those inlined into it, where f may say that what is in them is to be left
// out, and for the others that the debug information tells of.
func (t *Table) eachCall(address uint64, roles role, f func(depth int, u *unit, e *die) bool) {
	i := t.debugInfo()
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.unitAt(address)
	if u == nil {
		return
	}
	if root, ok := u.subprogramAt(address); ok {
		u.eachCall(&root, roles, f)
	}
}

// eachCall is that of a table, for a function of the unit.
func (u *unit) eachCall(function *die, roles role, f func(depth int, u *unit, e *die) bool) {
	if !function.children || function.next < u.first || function.next-u.first > uint64(len(u.data)) {
		return
	}
	// depth is that of inlined calls, whose entries may be in those of blocks, by
	// level of nesting; -1 below what is left out.
	depth := []int{0}
	c := cursor{b: u.data[function.next-u.first:], order: u.d.o.f.ByteOrder}
	var e die
	for at := function.next; len(depth) > 0 && len(depth) < maxNesting; {
		inside := depth[len(depth)-1]
		wanted := roles
		if inside < 0 {
			wanted = 0
		}
		if !u.entryFor(wanted, &c, at, &e) {
			return
		}
		at = e.next
		switch {
		case e.tag == 0:
			depth = depth[:len(depth)-1]
			continue
		case inside < 0 || e.tag == tagSubprogram:
			inside = -1
		case e.tag == tagInlined:
			if inside++; !f(inside, u, &e) {
				inside = -1
			}
		case roles&roleCall != 0 && (e.tag == tagCallSite || e.tag == tagGNUCallSite):
			f(inside+1, u, &e)
		}
		if e.children {
			depth = append(depth, inside)
		}
	}
}

// maxNesting bounds how deep entries are in each other.
const maxNesting = 1000

func (t *Table) inlined(depth int, u *unit, e *die) Inlined {
	call := Inlined{Depth: depth, Linkage: u.function(*e), Line: int(e.callLine.n), Column: int(e.callColumn.n)}
	call.Name = t.shown(call.Linkage)
	if e.callFile.form != 0 {
		call.File = u.file(e.callFile.n)
	}
	return call
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

// file is the path of a file of the unit's line table.
func (u *unit) file(n uint64) string {
	if u.table < 0 {
		return ""
	}
	t := u.lines.tableAt(u.table)
	if t == nil {
		return ""
	}
	path, _ := t.file(n, u.lines)
	if t.t.version < 5 && path != "" {
		path = joinPath(u.dir.String(), path)
	}
	return path
}

// tableAt are the files of the line table at an offset; nil where there is none.
func (d *debugData) tableAt(offset int64) *lineFiles {
	if d.files.t != nil && d.tableOffset == offset {
		return &d.files
	}
	b, err := d.line.at(uint64(offset), 12)
	if err != nil || len(b) < 12 {
		return nil
	}
	c := cursor{b: b, order: d.o.f.ByteOrder}
	length, wide := c.uint(4), false
	if length == 0xFFFFFFFF {
		length, wide = c.uint(8), true
	}
	start := uint64(offset) + uint64(len(b)-len(c.b))
	if length > d.line.s.Size-start {
		return nil
	}
	body, err := d.line.at(start, int(length))
	if err != nil {
		return nil
	}
	t, err := parseLineTable(body, d.o.f.ByteOrder, wide, d.o.word)
	if err != nil {
		return nil
	}
	d.files.read(t)
	d.tableOffset = offset
	return &d.files
}

// nameFromDebug names the function at an address that has no symbol, as the debug
// information has it.
func (t *Table) nameFromDebug(address uint64) string {
	i := t.debugInfo()
	if i == nil {
		return ""
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.unitAt(address)
	if u == nil {
		return ""
	}
	e, ok := u.subprogramAt(address)
	if !ok {
		return ""
	}
	return u.function(e)
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
	if t.elf == nil {
		return []Symbol{s}
	}
	i, _ := t.m.index(id)
	if code := t.code(); code != nil && len(t.keys) > 0 {
		l := code[t.keyIndex(i)]
		s.File, s.Line, s.Column = l.file, int(l.line), int(l.column)
	}
	var calls []Inlined // from the outermost one
	_ = guard(func() error {
		key := t.m.Functions[i].key
		t.eachInlined(key, func(depth int, u *unit, e *die) bool {
			inside := u.contains(e, key)
			if inside && depth == len(calls)+1 {
				calls = append(calls, t.inlined(depth, u, e))
			}
			return inside
		})
		return nil
	})
	return unwind(s, calls)
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
