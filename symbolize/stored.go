package symbolize

import (
	"slices"
	"sync/atomic"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Stored has the names that are packed into a trace. It implements [Names] and is safe for
// concurrent use.
type Stored struct {
	tables []*Table // one per object, with the ids of the trace
	of     map[reader.FuncID]*Table
	tails  *TailCalls
}

// NewStored returns names for the result of [reader.Trace.Functions].
func NewStored(functions []reader.NamedFunction, style Style) *Stored {
	s := &Stored{of: make(map[reader.FuncID]*Table, len(functions)), tails: &TailCalls{to: make(map[reader.FuncID][]reader.FuncID)}}
	objects := make(map[Object]*Table)
	for _, f := range functions {
		o := Object{Path: f.Object, BuildID: f.BuildID}
		t := objects[o]
		if t == nil {
			t = &Table{object: o, opts: Options{Style: style}, m: &Map{}, linked: true, folded: map[int][]string{}}
			objects[o] = t
			s.tables = append(s.tables, t)
		}
		t.m.Functions = append(t.m.Functions, Function{ID: f.ID, Address: uint64(f.Address)})
		if len(f.Others) > 0 {
			t.folded[len(t.linkage)] = f.Others
		}
		t.linkage = append(t.linkage, f.Name)
		t.stored = append(t.stored, debuginfo.Location{File: f.File, Line: f.Line, Column: f.Column})
		s.of[f.ID] = t
		if len(f.Continues) > 0 {
			s.tails.to[f.ID] = slices.Clone(f.Continues)
		}
	}
	s.tails.settle()
	for _, t := range s.tables {
		t.names = make([]atomic.Pointer[string], len(t.linkage))
	}
	return s
}

// storedNames returns a table of the names that a trace has for an object.
func storedNames(o *reader.Object, opts Options) *Table {
	t := &Table{object: Object{Path: o.Path, BuildID: o.BuildID}, opts: opts, m: &Map{}, linked: true, linkage: o.Names}
	for i := range o.Names {
		t.m.Functions = append(t.m.Functions, Function{ID: reader.FuncID(i + 1)})
	}
	t.names = make([]atomic.Pointer[string], len(o.Names))
	t.stored = make([]debuginfo.Location, len(o.Names))
	return t
}

// exported reports whether a table has the names of an object whose functions all are exported: of
// objects, traces name only the functions of those that replace the C library's.
func (t *Table) exported() bool { return t.debug == nil && t.stored != nil }

func (s *Stored) find(id reader.FuncID) (*Table, reader.FuncID) { return s.of[id], id }

// Func implements [Names].
func (s *Stored) Func(id reader.FuncID) (Symbol, bool) { return s.of[id].Func(id) }
