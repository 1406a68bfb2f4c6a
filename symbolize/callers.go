package symbolize

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Callers records which functions can call which others, according to the machine code of their
// binaries. It is immutable and safe for concurrent use.
type Callers struct {
	// of has, for each function whose callers are all known, the functions with sleds that can be
	// the innermost open ones when it is entered, sorted.
	of map[reader.FuncID][]reader.FuncID
	// reach caches the results of reaching, by function.
	reach sync.Map
}

// findCallers searches the binaries of n for calls and jumps. It skips maps, binaries in except,
// binaries that cannot be read or have no symbol table, and machines other than x86-64.
//
// All callers of a function are known if its address appears only in calls and jumps to it: not in
// other instructions, not in data, and not as an exported symbol. The C library calls main while no
// call is open. If a caller has no sleds, or reaches the function by a jump, its own callers count
// too: a jump is a tail call, which ends the call of the caller.
func findCallers(n Names, except ...*Table) *Callers {
	c := &Callers{of: make(map[reader.FuncID][]reader.FuncID)}
	eachTable(n, func(table *Table, offset reader.FuncID) {
		if !table.isX86() || slices.Contains(except, table) {
			return
		}
		f := &callerFile{table: table, offset: offset}
		if debuginfo.Guard(f.read) == nil {
			f.resolve(c.of)
		}
	})
	return c
}

// CanCall reports whether a call of to can begin while the innermost open call is one of from. It
// returns true if that is unknown.
func (c *Callers) CanCall(from, to reader.FuncID) bool {
	callers, known := c.of[to]
	if !known {
		return true
	}
	_, ok := slices.BinarySearch(callers, from)
	return ok
}

// maxReach limits the direct and indirect callers of a function.
const maxReach = 1 << 12

// CanReach reports whether a call of to can begin while a call of from is open. Calls between them
// may be missing from the trace. It returns true if that is unknown.
func (c *Callers) CanReach(from, to reader.FuncID) bool {
	known, ok := c.reach.Load(to)
	if !ok {
		known, _ = c.reach.LoadOrStore(to, c.reaching(to))
	}
	all := known.([]reader.FuncID)
	_, ok = slices.BinarySearch(all, from)
	return ok || all == nil
}

// reaching returns the functions that can be open when a function is entered, sorted. It returns nil
// if they are unknown.
func (c *Callers) reaching(to reader.FuncID) []reader.FuncID {
	seen := make(map[reader.FuncID]bool)
	for list := []reader.FuncID{to}; len(list) > 0; {
		callers, known := c.of[list[0]]
		if !known || len(seen) > maxReach {
			return nil
		}
		list = list[1:]
		for _, fn := range callers {
			if !seen[fn] {
				seen[fn] = true
				list = append(list, fn)
			}
		}
	}
	all := make([]reader.FuncID, 0, len(seen)) // not nil
	for fn := range seen {
		all = append(all, fn)
	}
	slices.Sort(all)
	return all
}

// callerFile has the calls and jumps of one file.
type callerFile struct {
	table   *Table
	offset  reader.FuncID // from IDs in the table to IDs in the trace
	regions []region      // by address
	fixed   bool          // the file is loaded at its link-time addresses
	at      int           // region of the previous instruction
	edges   int
}

// region is the code from one known code start to the next.
type region struct {
	start   uint64
	ids     []reader.FuncID // of the functions with sleds that begin here
	label   bool            // the region before it may continue here
	main    bool            // the C library calls it while no call is open
	exposed bool            // its address appears outside of calls and jumps
	from    []edge
}

// edge is a call or jump from a region.
type edge struct {
	region int32
	jump   bool
}

// Limits of a file.
const (
	maxRegions = 1 << 23
	maxEdges   = 1 << 25
)

func (f *callerFile) read() error {
	o := f.table.debug.ELF()
	f.fixed = o.Header().Type == elf.ET_EXEC
	if err := f.divide(); err != nil {
		return err
	}
	if err := o.EachCode(f.scanCode); err != nil {
		return err
	}
	if f.edges > maxEdges {
		return errors.New("too many calls")
	}
	if err := o.EachData(f.scanData); err != nil {
		return err
	}
	if err := o.Pointers(func(_ uint64, p debuginfo.Pointer) { f.expose(p.Address) }); err != nil {
		return err
	}
	for _, s := range o.DynamicSymbols() {
		f.expose(s.Address)
	}
	f.expose(o.Header().Entry)
	return nil
}

// divide finds the regions.
func (f *callerFile) divide() error {
	ids := make(map[uint64][]reader.FuncID)
	for i := range f.table.m.Functions {
		fn := &f.table.m.Functions[i]
		ids[fn.Address] = append(ids[fn.Address], fn.ID+f.offset)
	}
	starts := make(map[uint64]debuginfo.CodeStart)
	err := f.table.debug.CodeStarts(func(address uint64, what debuginfo.CodeStart) {
		if known, ok := starts[address]; !ok || known == debuginfo.LabelStart || what == debuginfo.MainStart {
			starts[address] = what
		}
	})
	if err != nil {
		return err
	}
	if len(starts) == 0 || len(starts) > maxRegions {
		return errors.New("no functions, or too many")
	}
	for address := range ids {
		if what, ok := starts[address]; !ok || what == debuginfo.LabelStart {
			return errors.New("the symbol table lacks functions with sleds")
		}
	}
	for address, what := range starts {
		f.regions = append(f.regions, region{start: address, ids: ids[address], label: what == debuginfo.LabelStart, main: what == debuginfo.MainStart})
	}
	slices.SortFunc(f.regions, func(a, b region) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	for i := range f.regions {
		if r := &f.regions[i]; r.label && i > 0 {
			r.from = append(r.from, edge{int32(i - 1), true})
		}
	}
	return nil
}

// find returns the index of the region that contains an address, or -1.
func (f *callerFile) find(address uint64) int {
	i, ok := slices.BinarySearchFunc(f.regions, address, func(r region, a uint64) int {
		switch {
		case r.start < a:
			return -1
		case r.start > a:
			return 1
		}
		return 0
	})
	if !ok {
		i--
	}
	return i
}

// expose marks the region that begins at an address as exposed.
func (f *callerFile) expose(address uint64) {
	if i := f.find(address); i >= 0 && f.regions[i].start == address {
		f.regions[i].exposed = true
	}
}

// branch records a call or jump from one address to another. A branch into the middle of a function
// with sleds does not count as a call of it.
func (f *callerFile) branch(from, to uint64, jump bool) {
	last := len(f.regions) - 1
	if to < f.regions[0].start || to > f.regions[last].start+1<<24 {
		return
	}
	for f.at < last && from >= f.regions[f.at+1].start {
		f.at++
	}
	i := f.find(to)
	if i < 0 || i == f.at && f.regions[i].start != to || len(f.regions[i].ids) > 0 && f.regions[i].start != to {
		return
	}
	r := &f.regions[i]
	if e := (edge{int32(f.at), jump}); (len(r.from) == 0 || r.from[len(r.from)-1] != e) && f.edges <= maxEdges {
		f.edges++
		r.from = append(r.from, e)
	}
}

// scanCode treats each byte as the start of an instruction. So it also finds a few calls that do not
// exist. They do no harm: they only add callers.
func (f *callerFile) scanCode(address uint64, n int, data []byte) {
	if f.at = f.find(address); f.at < 0 {
		return
	}
	low, high := f.regions[0].start, f.regions[len(f.regions)-1].start
	for i := range n {
		at := address + uint64(i)
		relative := func(offset int) uint64 {
			if i+offset+4 > len(data) {
				return 0
			}
			return at + uint64(offset) + 4 + uint64(int64(int32(binary.LittleEndian.Uint32(data[i+offset:]))))
		}
		switch b := data[i]; {
		case b == 0xe8:
			f.branch(at, relative(1), false)
		case b == 0xe9:
			f.branch(at, relative(1), true)
		case b == 0x0f && i+1 < len(data) && data[i+1]&0xf0 == 0x80:
			f.branch(at, relative(2), true)
		case (b == 0xeb || b&0xf0 == 0x70 || b&0xfc == 0xe0) && i+1 < len(data):
			f.branch(at, at+2+uint64(int64(int8(data[i+1]))), true)
		case b&0xc7 == 0x05: // an operand relative to the instruction's address
			if to := relative(1); to >= low && to <= high {
				f.expose(to)
			}
		}
		if f.fixed && i+4 <= len(data) {
			if to := uint64(binary.LittleEndian.Uint32(data[i:])); to >= low && to <= high {
				f.expose(to)
			}
		}
	}
}

// scanData looks for addresses of code, and for distances from the data to code.
func (f *callerFile) scanData(address uint64, n int, data []byte) {
	low, high := f.regions[0].start, f.regions[len(f.regions)-1].start
	take := func(to uint64) {
		if to >= low && to <= high {
			f.expose(to)
		}
	}
	for i := int(-address & 3); i < n && i+4 <= len(data); i += 4 {
		word := binary.LittleEndian.Uint32(data[i:])
		take(address + uint64(i) + uint64(int64(int32(word))))
		if f.fixed {
			take(uint64(word))
		}
		if i+8 <= len(data) {
			take(binary.LittleEndian.Uint64(data[i:]))
		}
	}
}

// resolve adds the functions with sleds whose callers are known.
func (f *callerFile) resolve(of map[reader.FuncID][]reader.FuncID) {
	unknown := f.unknown()
	seen := make([]int32, len(f.regions)) // 1 + the region whose search has seen a region last
	for i := range f.regions {
		r := &f.regions[i]
		if len(r.ids) == 0 || unknown[i] {
			continue
		}
		if callers, ok := f.callers(int32(i), seen); ok {
			for _, id := range r.ids {
				of[id] = callers
			}
		}
	}
}

// unknown marks the regions that may have unknown callers, directly or through code without sleds
// and jumps.
func (f *callerFile) unknown() []bool {
	next := make([][]edge, len(f.regions)) // branches by the region that they leave
	for i := range f.regions {
		for _, e := range f.regions[i].from {
			next[e.region] = append(next[e.region], edge{int32(i), e.jump})
		}
	}
	unknown := make([]bool, len(f.regions))
	var list []int32
	add := func(i int32) {
		if !unknown[i] {
			unknown[i] = true
			list = append(list, i)
		}
	}
	for i := range f.regions {
		if r := &f.regions[i]; !r.main && (r.exposed || len(r.from) == 0) {
			add(int32(i))
		}
	}
	for len(list) > 0 {
		i := list[len(list)-1]
		list = list[:len(list)-1]
		for _, e := range next[i] {
			if len(f.regions[i].ids) == 0 || e.jump {
				add(e.region)
			}
		}
	}
	return unknown
}

// maxSearch limits the regions between a function and its callers.
const maxSearch = 1 << 12

// callers returns the functions with sleds that can be open when a region is entered.
func (f *callerFile) callers(of int32, seen []int32) (callers []reader.FuncID, ok bool) {
	list := []int32{of}
	seen[of] = of + 1
	for k := 0; k < len(list); k++ {
		if k == maxSearch {
			return nil, false
		}
		for _, e := range f.regions[list[k]].from {
			r := &f.regions[e.region]
			callers = append(callers, r.ids...)
			if (len(r.ids) == 0 || e.jump) && seen[e.region] != of+1 {
				seen[e.region] = of + 1
				list = append(list, e.region)
			}
		}
	}
	slices.Sort(callers)
	return slices.Compact(callers), true
}

// landings are functions of the C and C++ libraries and of unwinders that a program needs to
// continue after an exception or longjmp has left calls.
var landings = map[string]bool{
	"__cxa_begin_catch": true, "_Unwind_RaiseException": true,
	"setjmp": true, "_setjmp": true, "sigsetjmp": true, "__sigsetjmp": true,
}

// canLand reports whether exceptions or longjmp may leave calls of the binary and continue in it.
// It assumes so for statically linked binaries.
func (t *Table) canLand() bool {
	var can bool
	err := debuginfo.Guard(func() error {
		symbols := t.debug.ELF().DynamicSymbols()
		can = len(symbols) == 0 || slices.ContainsFunc(symbols, func(s debuginfo.DynamicSymbol) bool { return landings[s.Name] })
		return nil
	})
	return err == nil && can
}
