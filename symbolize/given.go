package symbolize

import (
	"debug/elf"
	"os"
	"path/filepath"
	"sync"

	"github.com/xray-tools/xray/reader"
)

// Traces of LLVM's runtimes do not say which files their IDs belong to. The functions below detect files that
// cannot be the right ones.

// Mismatch is an object of a trace, of which the trace has functions.
type Mismatch struct {
	Object uint8
	// Function is the largest ID that the trace has of the object.
	Function reader.FuncID
	// File is the file with the most functions among those that the object can be, or nil if there is none.
	// Function is larger than its last ID.
	File *Table
}

// mismatches finds objects without a file, or with a file that is too small, by the largest ID of each.
func (p *Packed) mismatches(largest func(object uint8) reader.FuncID) (list []Mismatch) {
	for object := range p.tables {
		function := largest(uint8(object))
		var file *Table
		for _, t := range p.tables[object] {
			if file == nil || t.LastID() > file.LastID() {
				file = t
			}
		}
		if function > 0 && (file == nil || function > file.LastID()) {
			list = append(list, Mismatch{uint8(object), function, file})
		}
	}
	return list
}

// Mismatches finds objects without a file, or with a file that is too small, among the IDs that were looked
// up.
func (p *Packed) Mismatches() []Mismatch { return p.mismatches(p.Largest) }

// MismatchesIn finds objects without a file, or with a file that is too small, in a pass over a trace.
func (p *Packed) MismatchesIn(t *reader.Trace) ([]Mismatch, error) {
	var mu sync.Mutex
	var largest [256]reader.FuncID
	err := t.Each(0, func(_ int, b *reader.Block) error {
		var seen [256]reader.FuncID
		for i := range b.Events {
			object, function := Unpack(b.Events[i].Func)
			seen[object] = max(seen[object], function)
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range largest {
			largest[i] = max(largest[i], seen[i])
		}
		return nil
	})
	return p.mismatches(func(object uint8) reader.FuncID { return largest[object] }), err
}

// LastID returns the largest ID of the map, or 0 if it has no functions.
func (t *Table) LastID() reader.FuncID {
	functions := t.m.Functions
	if len(functions) == 0 {
		return 0
	}
	return functions[len(functions)-1].ID
}

// ContradictedBy finds one of the first records of a trace that no sled of its function can have caused.
// Nothing else in a trace reveals that the program was rebuilt.
func (p *Packed) ContradictedBy(t *reader.Trace) (e reader.Event, ok bool, err error) {
	left := 1 << 16
	for b, err := range t.Blocks(reader.FileOrder) {
		if err != nil {
			return e, false, err
		}
		if e, ok := p.contradicts(b.Events); ok {
			return e, true, nil
		}
		if left -= len(b.Events); left < 0 {
			break
		}
	}
	return e, false, nil
}

// OutOfOrder compares the files of shared objects with the order in which the program's loader runs
// constructors. It returns the files that should be at other numbers: by number, the file that the order
// has there. tables are by number, and tables[0] is the program.
func OutOfOrder(tables []*Table, s Search) map[int]string {
	if len(tables) < 2 || tables[0] == nil {
		return nil
	}
	linked, _, err := LinkedObjects(tables[0].object.Path, s)
	if err != nil {
		return nil // a map, or a program whose objects are elsewhere
	}
	wrong := make(map[int]string)
	for i, path := range linked[:min(len(linked), len(tables)-1)] {
		if t := tables[i+1]; t != nil && t.m.Class != elf.ELFCLASSNONE && !sameFile(t.object.Path, path) {
			wrong[i+1] = path
		}
	}
	return wrong
}

// sameFile reports whether two paths name the same file, or copies with the same name.
func sameFile(a, b string) bool {
	if filepath.Base(a) == filepath.Base(b) {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// DataAt returns the name of the variable at an address in the memory of a recorded process, or "" if it is
// not known. tables are by the number of the trace's objects.
func DataAt(t *reader.Trace, tables []*Table, file int32, address uint64) string {
	objects, _, err := t.Objects()
	if err != nil || file < 0 || int(file) >= len(t.Files()) {
		return ""
	}
	r := t.Recording(int(file))
	if r == nil {
		return ""
	}
	for _, own := range r.Objects {
		for i, table := range tables[:min(len(tables), len(objects))] {
			if own.Count == 0 || objects[i].First != own.First || objects[i].Count == 0 {
				continue
			}
			if name := table.dataAt(address - uint64(own.Bias)); name != "" {
				return name
			}
		}
	}
	return ""
}
