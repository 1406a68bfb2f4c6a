package symbolize

import (
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/xray-tools/xray/reader"
)

// Objects has the tables of a program and its shared objects by object number, the top 8 bits
// of an id. The program is 0. A program without shared objects can also be used as its [Table]
// alone.
type Objects map[uint8]*Table

// Func looks up the low 24 bits of the id in the table of its object.
func (o Objects) Func(id reader.FuncID) (Symbol, bool) {
	t, id := o.find(id)
	return t.Func(id)
}

func (o Objects) find(id reader.FuncID) (*Table, reader.FuncID) {
	object, function := Unpack(id)
	return o[object], function
}

// Unpack splits an id into the object number, 0 for the program, and the id in the map of the
// object.
func Unpack(id reader.FuncID) (object uint8, function reader.FuncID) {
	return uint8(uint32(id) >> 24), id & 0xFFFFFF
}

// Packed is Objects that remember the largest ids they were asked for. It is safe for
// concurrent use.
type Packed struct {
	tables  [256][]*Table // candidates, by the number in the trace
	cut     bool
	largest [256]atomic.Uint32         // largest id looked up, by object
	sleds   func() map[*Table][]uint32 // kinds of sleds of each function, as bits
}

// NewPacked returns Names for objects. cut is for traces that keep only 4 bits of an object
// number, as FDR logs do. There, objects whose numbers differ by 16 look alike. An id that
// could belong to several of them has no name.
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

// kinds returns the kinds of the sleds of each function as bits.
func (m *Map) kinds() []uint32 {
	kinds := make([]uint32, len(m.Functions))
	for _, s := range m.Sleds {
		if i, ok := m.index(s.ID); ok {
			kinds[i] |= 1 << s.Kind
		}
	}
	return kinds
}

// contradicts finds an event that no sled of its function can have caused, which means that the
// file is not the traced one. Tail exits and logged arguments have their own kinds of sleds.
// Functions without an exit sled prove nothing: hand-written maps have none.
func (p *Packed) contradicts(events []reader.Event) (reader.Event, bool) {
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

// Cut reports whether the trace keeps only 4 bits of an object's number.
func (p *Packed) Cut() bool { return p.cut }

// Largest returns the largest id of an object that was looked up; 0 if there was none.
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

// ObjectName returns the base name of the file of a function, or the object number if the file
// is unknown.
func ObjectName(n Names, id reader.FuncID) string {
	if t := TableOf(n, id); t != nil {
		return filepath.Base(t.object.Path)
	}
	n = inner(n)
	if o, ok := n.(interface{ ObjectName(reader.FuncID) string }); ok {
		return o.ObjectName(id)
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
