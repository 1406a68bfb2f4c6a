package symbolize

import (
	"sync/atomic"

	"github.com/xray-tools/xray/reader"
)

// Stored are the names that are in the trace itself. It implements [Names] and may be
// used concurrently.
type Stored struct {
	tables []*Table // one for each object, with the ids of the trace
	of     map[reader.FuncID]*Table
}

// NewStored makes names of what [reader.Trace.Functions] says.
func NewStored(functions []reader.NamedFunction, style Style) *Stored {
	s := &Stored{of: make(map[reader.FuncID]*Table, len(functions))}
	objects := make(map[Object]*Table)
	for _, f := range functions {
		o := Object{Path: f.Object, BuildID: f.BuildID}
		t := objects[o]
		if t == nil {
			t = &Table{object: o, opts: Options{Style: style}, m: &Map{}, linked: true}
			objects[o] = t
			s.tables = append(s.tables, t)
		}
		// Addresses need not be distinct; places in the list are.
		key := uint64(len(t.keys))
		t.m.Functions = append(t.m.Functions, Function{ID: f.ID, Address: uint64(f.Address), key: key})
		t.keys = append(t.keys, key)
		t.linkage = append(t.linkage, f.Name)
		t.locations = append(t.locations, location{f.File, f.Line, f.Column})
		s.of[f.ID] = t
	}
	for _, t := range s.tables {
		t.names = make([]atomic.Pointer[string], len(t.linkage))
	}
	return s
}

func (s *Stored) find(id reader.FuncID) (*Table, reader.FuncID) { return s.of[id], id }

// Func implements [Names].
func (s *Stored) Func(id reader.FuncID) (Symbol, bool) { return s.of[id].Func(id) }
