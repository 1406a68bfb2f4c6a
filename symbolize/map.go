package symbolize

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// SledKind is what a patched sled records. The values are those of instrumentation maps.
type SledKind uint8

const (
	Entry        SledKind = iota // at the start of a function
	Exit                         // at a return
	TailExit                     // before a tail call
	LogArgsEntry                 // at the start of a function; also logs the first argument
	CustomEvent                  // __xray_customevent
	TypedEvent                   // __xray_typedevent
)

// String returns the name in YAML maps.
func (k SledKind) String() string {
	if int(k) < len(sledKindNames) {
		return sledKindNames[k]
	}
	return "unknown"
}

var sledKindNames = [...]string{
	"function-enter", "function-exit", "tail-exit", "log-args-enter", "custom-event", "typed-event",
}

func parseSledKind(s string) (SledKind, bool) {
	i := slices.Index(sledKindNames[:], s)
	return SledKind(max(i, 0)), i >= 0
}

// Sled is one entry of an instrumentation map. Addresses are link-time addresses. In object files
// they are offsets in the section.
type Sled struct {
	Address          uint64
	Function         uint64 // address of its function
	ID               reader.FuncID
	Kind             SledKind
	AlwaysInstrument bool
	Version          uint8
}

// Function is a function that has sleds.
type Function struct {
	ID      reader.FuncID
	Address uint64
	// Name is set for YAML maps only.
	Name string

	// key is a unique address. In object files, where every section starts at 0, it is the
	// address in the layout of package debuginfo. Elsewhere it is Address.
	key uint64
}

// Map is an instrumentation map. Callers must not change it.
type Map struct {
	Sleds     []Sled     // in the order of the map
	Functions []Function // sorted by ID, without duplicates
	// Machine, Class and ByteOrder are from the ELF file; zero for YAML.
	Machine   elf.Machine
	Class     elf.Class
	ByteOrder binary.ByteOrder
}

// function returns the function with the given id.
func (m *Map) function(id reader.FuncID) (Function, bool) {
	i, ok := m.index(id)
	if !ok {
		return Function{}, false
	}
	return m.Functions[i], true
}

func (m *Map) index(id reader.FuncID) (int, bool) {
	// Ids nearly always count from 1 without a gap.
	if i := int(id) - 1; i >= 0 && i < len(m.Functions) && m.Functions[i].ID == id {
		return i, true
	}
	return slices.BinarySearchFunc(m.Functions, id, func(f Function, id reader.FuncID) int {
		return int(f.ID) - int(id)
	})
}

// AlwaysInstrumented returns a function that reports whether a function of n is marked
// xray_always_instrument. It reports false for functions without an instrumentation map. The
// returned function is not safe for concurrent use.
func AlwaysInstrumented(n Names) func(reader.FuncID) bool {
	marked := make(map[*Table]map[reader.FuncID]bool)
	return func(id reader.FuncID) bool {
		f, ok := n.(finder)
		if !ok {
			return false
		}
		t, id := f.find(id)
		if t == nil || t.m == nil {
			return false
		}
		if marked[t] == nil {
			marked[t] = make(map[reader.FuncID]bool)
			for i := range t.m.Sleds {
				if s := &t.m.Sleds[i]; s.AlwaysInstrument {
					marked[t][s.ID] = true
				}
			}
		}
		return marked[t][id]
	}
}
