package symbolize

import (
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/xray-tools/xray/reader"
)

// Objects are the tables of a program and of its shared objects, by the number
// that the top 8 bits of an id hold. The program itself is number 0. A program
// that has no shared objects may also be given as its [Table] alone.
type Objects map[uint8]*Table

// Func looks the low 24 bits of the id up in the table of its object.
func (o Objects) Func(id reader.FuncID) (Symbol, bool) {
	t, id := o.find(id)
	return t.Func(id)
}

func (o Objects) find(id reader.FuncID) (*Table, reader.FuncID) {
	object, function := Unpack(id)
	return o[object], function
}

// Unpack returns the number of the object of an id, 0 for the program, and the id in
// the map of the object.
func Unpack(id reader.FuncID) (object uint8, function reader.FuncID) {
	return uint8(uint32(id) >> 24), id & 0xFFFFFF
}

// Packed are objects that remember which functions were asked for, so that one can
// tell afterwards what was missing. It may be used concurrently.
type Packed struct {
	tables  [256][]*Table // that may be meant, by number as the trace has it
	cut     bool
	largest [256]atomic.Uint32         // id that was asked for, by object
	sleds   func() map[*Table][]uint32 // kinds that functions have, as bits, by index of the map
}

// NewPacked makes Names of objects. cut is for traces that keep only 4 bits of an
// object's number, as FDR logs do: objects whose numbers differ by 16 look alike
// there. An id that may be of several of them has no name.
func NewPacked(objects Objects, cut bool) *Packed {
	p := &Packed{cut: cut}
	for object, t := range objects {
		if t == nil {
			continue
		}
		if cut {
			object &= 15
		}
		p.tables[object] = append(p.tables[object], t)
	}
	p.sleds = sync.OnceValue(func() map[*Table][]uint32 {
		all := make(map[*Table][]uint32)
		for _, t := range objects {
			if t != nil {
				all[t] = t.m.kinds()
			}
		}
		return all
	})
	return p
}

// kinds are the kinds of sleds that each function has, as bits.
func (m *Map) kinds() []uint32 {
	kinds := make([]uint32, len(m.Functions))
	for _, s := range m.Sleds {
		if i, ok := m.index(s.ID); ok {
			kinds[i] |= 1 << s.Kind
		}
	}
	return kinds
}

// Contradicts finds an event that no sled of its function can have caused, so that the
// file is not the one that was traced: tail exits and arguments that are logged have
// sleds of their own. Functions without a sled at an exit tell nothing: maps that
// people write have none.
func (p *Packed) Contradicts(events []reader.Event) (reader.Event, bool) {
	for i := range events {
		var needed uint32
		switch events[i].Kind {
		case reader.TailExit:
			needed = 1 << TailExit
		case reader.EnterArg:
			needed = 1 << LogArgsEntry
		default:
			continue
		}
		t, own := p.find(events[i].Func)
		if t == nil {
			continue
		}
		if k, ok := t.m.index(own); ok {
			if sleds := p.sleds()[t][k]; sleds&needed == 0 && sleds&(1<<Exit|1<<TailExit) != 0 {
				return events[i], true
			}
		}
	}
	return reader.Event{}, false
}

// Candidates are the tables that a number of an object in the trace may mean. The list must
// not be changed.
func (p *Packed) Candidates(object uint8) []*Table { return p.tables[object] }

// Cut reports whether the trace keeps only 4 bits of an object's number.
func (p *Packed) Cut() bool { return p.cut }

// Largest is the largest id in its object that was asked for; 0 when none was.
func (p *Packed) Largest(object uint8) reader.FuncID {
	return reader.FuncID(p.largest[object].Load())
}

// Func implements [Names].
func (p *Packed) Func(id reader.FuncID) (Symbol, bool) {
	t, id := p.find(id)
	return t.Func(id)
}

func (p *Packed) find(id reader.FuncID) (*Table, reader.FuncID) {
	object, function := Unpack(id)
	for seen := &p.largest[object]; ; {
		old := seen.Load()
		if uint32(function) <= old || seen.CompareAndSwap(old, uint32(function)) {
			break
		}
	}
	list := p.tables[object]
	if len(list) == 1 {
		return list[0], function
	}
	var found *Table
	for _, t := range list {
		if _, ok := t.m.index(function); ok {
			if found != nil {
				return nil, function
			}
			found = t
		}
	}
	return found, function
}

// ObjectName says which file a function is in: the base name of the file, or the
// number of the object where that is all that is known.
func ObjectName(n Names, id reader.FuncID) string {
	if t := TableOf(n, id); t != nil {
		return filepath.Base(t.object.Path)
	}
	if s, ok := n.(*shortNames); ok {
		n = s.Names
	}
	if t, ok := n.(*Templates); ok {
		n = t.Names
	}
	if r, ok := n.(*Recorded); ok {
		if i, ok := r.object(id); ok {
			return filepath.Base(r.objects[i].Path)
		}
		return ""
	}
	if object, _ := Unpack(id); object != 0 {
		return "object " + strconv.Itoa(int(object))
	}
	return ""
}
