package symbolize

import (
	"debug/elf"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// TailCalls records which functions may end with a tail call of which others, according to the
// machine code of their binaries. It is immutable and safe for concurrent use.
type TailCalls struct {
	// to has the functions with sleds that a function may jump to, sorted.
	to    map[reader.FuncID][]reader.FuncID
	sleds [jumpKinds]int // number of sleds by kind of jump
}

// jumpKind is the kind of target of the jump after a tail-exit sled.
type jumpKind int

const (
	jumpUnknown    jumpKind = iota // through a register or memory, or the code cannot be read
	jumpRecorded                   // to a function of the same file that has sleds
	jumpUnrecorded                 // to a function of the same file that has none
	jumpImported                   // to a function of another file
	jumpKinds
)

// FindTailCalls decodes the jump after each tail-exit sled of the binaries of n. It skips maps,
// binaries in except, binaries that cannot be read, and machines other than x86-64. For a packed
// trace, it returns the tail calls that were known when the trace was packed.
//
// It finds a jump to a function of another file if n has that file and the file exports the
// function, or if the trace names the functions of that object, as it does for those that replace
// functions of the C library. Functions that can reach each other by tail calls alone form a loop. Jumps between
// them do not count as tail calls.
func FindTailCalls(n Names, except ...*Table) *TailCalls {
	if stored, ok := n.(*Stored); ok {
		return stored.tails
	}
	t := &TailCalls{to: make(map[reader.FuncID][]reader.FuncID)}
	var files, named []*tailFile
	imports := make(map[string][]reader.FuncID)
	eachTable(n, func(table *Table, offset reader.FuncID) {
		f := &tailFile{table: table, offset: offset}
		if table.exported() {
			named = append(named, f)
			return
		}
		// Skip damaged files.
		if table.isX86() && !slices.Contains(except, table) && debuginfo.Guard(f.read) == nil {
			files = append(files, f)
			f.wanted(imports)
		}
	})
	for _, f := range named {
		f.exportNames(imports)
	}
	for _, f := range files {
		if debuginfo.Guard(func() error { f.export(imports); return nil }) != nil {
			clear(imports)
		}
	}
	for _, f := range files {
		for _, j := range f.jumps {
			ids, kind := f.resolve(j, imports)
			t.sleds[kind]++
			if len(ids) > 0 {
				t.to[j.from] = append(t.to[j.from], ids...)
			}
		}
	}
	t.settle()
	return t
}

// settle sorts the functions that others may jump to.
func (t *TailCalls) settle() {
	for from, ids := range t.to {
		slices.Sort(ids)
		t.to[from] = slices.Compact(ids)
	}
	t.breakLoops()
}

// Continue reports whether from may end with a tail call of to, a function with sleds.
func (t *TailCalls) Continue(from, to reader.FuncID) bool {
	_, ok := slices.BinarySearch(t.Targets(from), to)
	return ok
}

// Targets returns the functions that from may tail-call, in ascending order. The caller must not
// change them.
func (t *TailCalls) Targets(from reader.FuncID) []reader.FuncID {
	if t == nil {
		return nil
	}
	return t.to[from]
}

// tailFile has the tail calls of one file.
type tailFile struct {
	table     *Table
	offset    reader.FuncID // from IDs in the table to IDs in the trace
	code      *debuginfo.Code
	functions map[uint64][]reader.FuncID // with sleds, by address
	jumps     []tailJump
	slots     map[uint64]debuginfo.Pointer // words that jumps read
}

// tailJump is the jump after a sled.
type tailJump struct {
	from    reader.FuncID
	address uint64 // the target, or 0
	slot    uint64 // the word that holds the target, or 0; both are 0 if the target is unknown
}

// isX86 reports whether a table is of a binary for x86-64.
func (t *Table) isX86() bool {
	return t != nil && t.debug != nil && t.m.Machine == elf.EM_X86_64 && t.m.Class == elf.ELFCLASS64
}

// hasTailCalls reports whether a table is of a binary with tail-exit sleds that can be read.
func (t *Table) hasTailCalls() bool {
	return t.isX86() && slices.ContainsFunc(t.m.Sleds, func(s Sled) bool { return s.Kind == TailExit })
}

// read decodes the jumps.
func (f *tailFile) read() error {
	t := f.table
	f.functions = make(map[uint64][]reader.FuncID)
	f.slots = make(map[uint64]debuginfo.Pointer)
	f.code = debuginfo.NewCode(t.debug.ELF())
	for i := range t.m.Functions {
		fn := &t.m.Functions[i]
		f.functions[fn.Address] = append(f.functions[fn.Address], fn.ID+f.offset)
	}
	for i := range t.m.Sleds {
		s := &t.m.Sleds[i]
		if s.Kind != TailExit {
			continue
		}
		j := f.jump(s.Address)
		j.from = s.ID + f.offset
		if j.slot != 0 {
			f.slots[j.slot] = debuginfo.Pointer{}
		}
		f.jumps = append(f.jumps, j)
	}
	if len(f.slots) == 0 {
		return nil
	}
	return t.debug.ELF().Pointers(func(at uint64, p debuginfo.Pointer) {
		if _, ok := f.slots[at]; ok {
			f.slots[at] = p
		}
	})
}

// sledSize is the size of a tail-exit sled on x86-64, in bytes. The sled begins with a jump over the
// rest of it.
const sledSize = 11

// jump decodes the instruction after a sled.
func (f *tailFile) jump(sled uint64) tailJump {
	code := f.code.At(sled, sledSize+maxInstruction)
	if len(code) < sledSize || code[0] != 0xeb || code[1] != sledSize-2 {
		return tailJump{}
	}
	address, slot := decodeJump(code[sledSize:], sled+sledSize)
	if slot != 0 || address == 0 || len(f.functions[address]) > 0 {
		return tailJump{address: address, slot: slot}
	}
	if _, slot := decodeJump(f.code.At(address, maxInstruction), address); slot != 0 {
		return tailJump{slot: slot} // through the procedure linkage table
	}
	return tailJump{address: address}
}

// maxInstruction is the maximum size of an instruction with an endbr64 before it, in bytes.
const maxInstruction = 4 + 15

// decodeJump decodes a jump. Clang before version 19 also makes tail calls of conditional jumps. It returns the address that the jump goes to, or
// the address of the word that it reads the target from. Both are 0 for other instructions.
func decodeJump(code []byte, at uint64) (address, slot uint64) {
	if len(code) > 4 && string(code[:4]) == "\xf3\x0f\x1e\xfa" { // endbr64
		code, at = code[4:], at+4
	}
	// The decoder panics on some truncated instructions.
	var whole [2 * maxInstruction]byte
	n := copy(whole[:], code)
	inst, err := x86asm.Decode(whole[:], 64)
	if err != nil || inst.Len > n {
		return 0, 0
	}
	next := at + uint64(inst.Len)
	if to, ok := inst.Args[0].(x86asm.Rel); ok && (inst.Opcode>>28 == 7 || inst.Opcode>>20 == 0x0f8) {
		return next + uint64(int64(to)), 0
	}
	if inst.Op != x86asm.JMP {
		return 0, 0
	}
	switch to := inst.Args[0].(type) {
	case x86asm.Rel:
		return next + uint64(int64(to)), 0
	case x86asm.Mem:
		if to.Base == x86asm.RIP && to.Index == 0 && to.Segment == 0 {
			return 0, next + uint64(int32(to.Disp)) // the decoder does not extend the sign
		}
	}
	return 0, 0
}

// wanted adds the names of imported functions.
func (f *tailFile) wanted(imports map[string][]reader.FuncID) {
	for _, p := range f.slots {
		if p.Symbol != "" {
			imports[p.Symbol] = nil
		}
	}
}

// export adds the functions that the file exports under names in imports.
func (f *tailFile) export(imports map[string][]reader.FuncID) {
	if len(imports) == 0 || len(f.functions) == 0 {
		return
	}
	for _, s := range f.table.debug.ELF().DynamicSymbols() {
		if ids, ok := imports[s.Name]; ok && s.Address != 0 {
			imports[s.Name] = append(ids, f.functions[s.Address]...)
		}
	}
}

// exportNames does the same for an object whose names are in the trace.
func (f *tailFile) exportNames(imports map[string][]reader.FuncID) {
	for i, name := range f.table.linkage {
		if ids, ok := imports[name]; ok {
			imports[name] = append(ids, f.table.m.Functions[i].ID+f.offset)
		}
	}
}

// resolve returns the functions with sleds that a jump may go to.
func (f *tailFile) resolve(j tailJump, imports map[string][]reader.FuncID) ([]reader.FuncID, jumpKind) {
	if j.slot != 0 {
		p := f.slots[j.slot]
		if p.Symbol != "" {
			return imports[p.Symbol], jumpImported
		}
		j.address = p.Address
	}
	if j.address == 0 {
		return nil, jumpUnknown
	}
	if ids := f.functions[j.address]; len(ids) > 0 {
		return ids, jumpRecorded
	}
	return nil, jumpUnrecorded
}
