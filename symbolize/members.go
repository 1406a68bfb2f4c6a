package symbolize

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/arch/x86/x86asm"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Members finds out which members of which classes functions pass to others, from the machine code of a
// binary for x86-64 and its debug information. It is safe for concurrent use.
type Members struct {
	takes func(name string) int
	open  sync.Mutex
	of    map[*Table]*memberFile
}

// NewMembers returns members that are passed to some functions. takes returns by the name of a function which
// of its arguments counts, 1 or 2, or 0 for none.
func NewMembers(takes func(name string) int) *Members {
	return &Members{takes: takes, of: make(map[*Table]*memberFile)}
}

// Passed returns the class and the member whose address a function passes, as in "conn::lock". It returns ""
// if that is unknown, or if it passes several.
func (m *Members) Passed(n Names, id reader.FuncID) string {
	in, ok := n.(finder)
	if !ok {
		return ""
	}
	t, own := in.find(id)
	if !t.isX86() {
		return ""
	}
	fn, ok := t.m.function(own)
	if !ok {
		return ""
	}
	m.open.Lock()
	defer m.open.Unlock()
	f := m.of[t]
	if f == nil {
		f = &memberFile{table: t, takes: m.takes, known: make(map[uint64]string)}
		m.of[t] = f
		f.failed = debuginfo.Guard(f.read)
	}
	if f.failed != nil {
		return ""
	}
	name, ok := f.known[fn.Address]
	if !ok {
		_ = debuginfo.Guard(func() error { name = f.passed(fn.Address); return nil })
		f.known[fn.Address] = name
	}
	return name
}

// memberFile has what is known of a binary.
type memberFile struct {
	table  *Table
	takes  func(name string) int
	failed error
	code   *debuginfo.Code
	slots  map[uint64]string // names of the functions whose addresses words hold
	named  map[uint64]string // names of functions of the binary
	known  map[uint64]string // by address of a function
	steps  int               // members of classes read for a function
}

func (f *memberFile) read() (err error) {
	f.code, f.slots, f.named = debuginfo.NewCode(f.table.debug.ELF()), make(map[uint64]string), make(map[uint64]string)
	for i := range f.table.m.Functions {
		if fn := &f.table.m.Functions[i]; i < len(f.table.linkage) {
			s, _ := f.table.Func(fn.ID)
			f.named[fn.Address] = Shorten(s.Name)
		}
	}
	return f.table.debug.ELF().Pointers(func(at uint64, p debuginfo.Pointer) {
		if p.Symbol != "" {
			f.slots[at] = p.Symbol
		}
	})
}

// passed returns the member that the function at an address passes.
func (f *memberFile) passed(address uint64) string {
	f.steps = 0
	s, err := f.table.debug.FunctionAt(address)
	if err != nil || isClass(s.Result.Resolve()) { // the address of a result may be a hidden argument
		return ""
	}
	const most = 1 << 16
	code := f.code.At(address, int(min(s.Size, most)))
	params, found := inRegisters(s), ""
	for _, v := range (&passing{file: f, start: address, code: code}).run() {
		name := f.member(address, params, v)
		if name == "" || found != "" && name != found {
			return ""
		}
		found = name
	}
	return found
}

// inRegisters returns the types of the parameters that are in general registers.
func inRegisters(s *debuginfo.Function) (params []*debuginfo.Type) {
	for _, p := range s.Parameters {
		t := p.Type.Resolve()
		switch {
		case t == nil || isClass(t) || t.Kind == debuginfo.KindArray:
			return params
		case t.Kind == debuginfo.KindBase && isFloat(t.Encoding):
		default:
			params = append(params, t)
		}
	}
	return params
}

func isClass(t *debuginfo.Type) bool {
	return t != nil && (t.Kind == debuginfo.KindStruct || t.Kind == debuginfo.KindUnion)
}

func isFloat(e debuginfo.Encoding) bool {
	const imaginary = 9
	return e == debuginfo.EncodingFloat || e == debuginfo.EncodingComplex || e == imaginary
}

// mostSteps limits what damaged classes can cost, which contain themselves.
const mostSteps = 100_000

// pointee returns the class that a pointer or reference refers to, and its name, or nil.
func pointee(t *debuginfo.Type) (class *debuginfo.Type, name string) {
	if t = t.Resolve(); t == nil || t.Kind != debuginfo.KindPointer && t.Kind != debuginfo.KindReference {
		return nil, ""
	}
	to := t.Elem()
	if class = to.Resolve(); !isClass(class) || class.Declaration {
		return nil, ""
	}
	for name = to.Name; name == "" && to != class; name = to.Name {
		to = to.Elem()
	}
	return class, strings.ReplaceAll(name, "(anonymous)::", "(anonymous namespace)::")
}

// member names the member that a value is the address of, in the function at an address.
func (f *memberFile) member(function uint64, params []*debuginfo.Type, v passedValue) string {
	var t *debuginfo.Type
	switch {
	case v.global != 0:
		if name, offset := f.table.debug.DataAt(v.global); name != "" && offset == 0 {
			t = f.table.debug.VariableType(function, name)
		}
	case v.param > 0 && v.param <= len(params):
		t = params[v.param-1]
	}
	for i := range v.n {
		class, name := pointee(t)
		if class == nil {
			return ""
		}
		var member string
		member, t = f.memberAt(class, v.path[i], 0)
		switch {
		case i == v.n-1 && name != "" && !isHidden(member):
			return name + "::" + member
		case member == "":
			return ""
		}
	}
	return ""
}

// isHidden reports whether a member is the library's: there is none that the program has named.
func isHidden(member string) bool {
	return member == "" || strings.HasPrefix(member, "__") || strings.HasPrefix(member, "_M_")
}

// memberAt returns the name and the type of the member at an offset in a class. Members of members have
// names like "stats.lock", without those that libraries hide.
func (f *memberFile) memberAt(class *debuginfo.Type, offset int64, depth int) (name string, typ *debuginfo.Type) {
	if depth > 8 {
		return "", nil
	}
	members, _ := class.Members()
	for _, m := range members {
		if f.steps++; f.steps > mostSteps {
			return "", nil
		}
		kind := m.Type.Resolve()
		size, ok := kind.Size()
		at := int64(m.Offset)
		if !ok || m.Virtual || offset < at || uint64(offset-at) >= size {
			continue
		}
		inner, innerType := "", m.Type
		if isClass(kind) {
			inner, innerType = f.memberAt(kind, offset-at, depth+1)
		} else if offset != at {
			return "", nil
		}
		switch {
		case m.Name == "":
			if inner != "" {
				return inner, innerType
			}
		case isHidden(inner):
			return m.Name, innerType
		default:
			return m.Name + "." + inner, innerType
		}
	}
	return "", nil
}

// passedValue is an address that a function computes from a parameter, from 1, or from a global pointer: the
// object at path[0] from it, the one at path[1] from what that points to, and so on.
type passedValue struct {
	param  int
	global uint64
	n      int
	path   [4]int64
}

func (v passedValue) known() bool { return v.n > 0 }

func (v passedValue) plus(offset int64) passedValue {
	if v.n > 0 {
		v.path[v.n-1] += offset
	}
	return v
}

// loaded returns the value at an address.
func (v passedValue) loaded() passedValue {
	if v.n == 0 || v.n == len(v.path) {
		return passedValue{}
	}
	v.n++
	return v
}

// passing follows values through the code of a function, once and in order. Where jumps meet, it keeps what
// all of those from before have in common, and after a jump from further on, only what no later code changes.
type passing struct {
	file    *memberFile
	start   uint64
	code    []byte
	jumps   map[uint64][]uint64 // sources by target
	writes  map[any]int         // number of writes, by register or by place in the frame
	state   *passingState       // nil if the code is not reached from before
	counted bool                // writes has those to the frame
	waiting map[uint64]*passingState
	found   []passedValue
}

// passingState are the values of registers and of places in the frame, which are relative to the stack pointer
// at the function's entry.
type passingState struct {
	regs   [16]passedValue
	frame  map[int64]passedValue
	sp, bp int64
	hasBP  bool
}

func (s *passingState) clone() *passingState {
	c := *s
	c.frame = make(map[int64]passedValue, len(s.frame))
	for k, v := range s.frame {
		c.frame[k] = v
	}
	return &c
}

// meet keeps what two states have in common.
func (s *passingState) meet(o *passingState) {
	for i := range s.regs {
		if s.regs[i] != o.regs[i] {
			s.regs[i] = passedValue{}
		}
	}
	for k, v := range s.frame {
		if o.frame[k] != v {
			delete(s.frame, k)
		}
	}
	s.hasBP = s.hasBP && o.hasBP && s.bp == o.bp
}

var argumentRegisters = []x86asm.Reg{x86asm.RDI, x86asm.RSI, x86asm.RDX, x86asm.RCX, x86asm.R8, x86asm.R9}

// calleeSaved are the registers that calls preserve.
var calleeSaved = []x86asm.Reg{x86asm.RBX, x86asm.RBP, x86asm.R12, x86asm.R13, x86asm.R14, x86asm.R15}

// register returns the 64-bit register that a register is part of.
func register(a x86asm.Arg) (x86asm.Reg, bool) {
	r, ok := a.(x86asm.Reg)
	switch {
	case !ok:
		return 0, false
	case r >= x86asm.RAX && r <= x86asm.R15:
		return r, true
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return r - x86asm.EAX + x86asm.RAX, true
	}
	return 0, false
}

func number(r x86asm.Reg) int { return int(r - x86asm.RAX) }

// decoded calls each for every instruction. It returns false if one cannot be decoded.
func (p *passing) decoded(each func(at uint64, i *x86asm.Inst)) bool {
	for offset := 0; offset < len(p.code); {
		inst, err := x86asm.Decode(p.code[offset:], 64)
		if err != nil {
			if string(p.code[offset:min(offset+4, len(p.code))]) == "\xf3\x0f\x1e\xfa" { // endbr64
				offset += 4
				continue
			}
			return offset > 0 && p.code[offset-1] == 0xcc
		}
		each(p.start+uint64(offset), &inst)
		offset += inst.Len
	}
	return true
}

func (p *passing) run() []passedValue {
	p.jumps, p.writes, p.waiting = make(map[uint64][]uint64), make(map[any]int), make(map[uint64]*passingState)
	fresh := func() {
		p.state = &passingState{frame: make(map[int64]passedValue)}
		for i, r := range argumentRegisters {
			p.state.regs[number(r)] = passedValue{param: i + 1, n: 1}
		}
	}
	p.decoded(func(at uint64, i *x86asm.Inst) {
		if to, ok := i.Args[0].(x86asm.Rel); ok && i.Op != x86asm.CALL {
			target := at + uint64(i.Len) + uint64(int64(to))
			p.jumps[target] = append(p.jumps[target], at)
		}
		if r, ok := register(i.Args[0]); ok && writesFirst(i.Op) && i.Op != x86asm.POP {
			p.writes[r]++
		}
	})
	fresh()
	p.decoded(p.step) // counts the writes to the frame
	p.found, p.counted = nil, true
	clear(p.waiting)
	fresh()
	if !p.decoded(p.step) {
		return nil
	}
	return p.found
}

// step follows an instruction.
func (p *passing) step(at uint64, i *x86asm.Inst) {
	if sources := p.jumps[at]; len(sources) > 0 {
		p.arrive(at, slices.ContainsFunc(sources, func(from uint64) bool { return from >= at }))
	}
	s := p.state
	if s == nil {
		return
	}
	next := at + uint64(i.Len)
	switch i.Op {
	case x86asm.CALL, x86asm.JMP:
		if n := p.file.takes(p.target(i, next)); n > 0 {
			p.found = append(p.found, s.regs[number(argumentRegisters[n-1])])
		}
		if i.Op == x86asm.JMP {
			p.leave(i, next)
			p.state = nil
			return
		}
		for r := range s.regs {
			if !slices.Contains(calleeSaved, x86asm.RAX+x86asm.Reg(r)) {
				s.regs[r] = passedValue{}
			}
		}
		return
	case x86asm.RET, x86asm.UD2, x86asm.HLT:
		p.state = nil
		return
	case x86asm.PUSH:
		s.sp -= 8
		return
	case x86asm.POP:
		s.sp += 8
	}
	if _, ok := i.Args[0].(x86asm.Rel); ok {
		p.leave(i, next)
		return
	}
	if place, ok := s.place(i.Args[0]); ok {
		p.store(place, i)
		return
	}
	to, ok := register(i.Args[0])
	if !ok || !writesFirst(i.Op) {
		return
	}
	if to == x86asm.RSP {
		p.adjust(i)
		return
	}
	value := p.value(i, next)
	if to == x86asm.RBP {
		from, _ := i.Args[1].(x86asm.Reg)
		s.hasBP, s.bp = i.Op == x86asm.MOV && from == x86asm.RSP, s.sp
	}
	s.regs[number(to)] = value
}

// arrive takes the state of jumps from before. again says that there are jumps from further on, too.
func (p *passing) arrive(at uint64, again bool) {
	if w := p.waiting[at]; w != nil {
		if p.state == nil {
			p.state = w
		} else {
			p.state.meet(w)
		}
	}
	if p.state == nil || !again {
		return
	}
	for r := range p.state.regs {
		reg := x86asm.RAX + x86asm.Reg(r)
		if !slices.Contains(calleeSaved, reg) || p.writes[reg] > 1 {
			p.state.regs[r] = passedValue{}
		}
	}
	for place := range p.state.frame {
		if p.writes[place] > 1 {
			delete(p.state.frame, place)
		}
	}
}

// leave keeps the state for the target of a jump.
func (p *passing) leave(i *x86asm.Inst, next uint64) {
	to, ok := i.Args[0].(x86asm.Rel)
	if !ok {
		return
	}
	target := next + uint64(int64(to))
	if w := p.waiting[target]; w != nil {
		w.meet(p.state)
	} else {
		p.waiting[target] = p.state.clone()
	}
}

// adjust follows a change of the stack pointer.
func (p *passing) adjust(i *x86asm.Inst) {
	by, isNumber := i.Args[1].(x86asm.Imm)
	memory, isMemory := i.Args[1].(x86asm.Mem)
	from, _ := i.Args[1].(x86asm.Reg)
	switch s := p.state; {
	case i.Op == x86asm.SUB && isNumber:
		s.sp -= int64(by)
	case i.Op == x86asm.ADD && isNumber:
		s.sp += int64(by)
	case i.Op == x86asm.LEA && isMemory && memory.Base == x86asm.RSP && memory.Index == 0:
		s.sp += int64(int32(memory.Disp))
	case i.Op == x86asm.MOV && from == x86asm.RBP && s.hasBP:
		s.sp = s.bp
	default:
		clear(s.frame)
		s.hasBP = false
	}
}

// place returns the place in the frame that an operand refers to.
func (s *passingState) place(a x86asm.Arg) (int64, bool) {
	m, ok := a.(x86asm.Mem)
	switch {
	case !ok || m.Index != 0 || m.Segment != 0:
		return 0, false
	case m.Base == x86asm.RSP:
		return s.sp + int64(int32(m.Disp)), true
	case m.Base == x86asm.RBP && s.hasBP:
		return s.bp + int64(int32(m.Disp)), true
	}
	return 0, false
}

// store follows a write to the frame.
func (p *passing) store(place int64, i *x86asm.Inst) {
	if !writesFirst(i.Op) {
		return
	}
	if !p.counted {
		p.writes[place]++
	}
	from, ok := i.Args[1].(x86asm.Reg)
	if i.Op == x86asm.MOV && ok && from >= x86asm.RAX && from <= x86asm.R15 && p.state.regs[number(from)].known() {
		p.state.frame[place] = p.state.regs[number(from)]
		return
	}
	size := int64(i.MemBytes)
	if size == 0 {
		size = 64 // unknown
	}
	for k := range p.state.frame {
		if k > place-8 && k < place+size {
			delete(p.state.frame, k)
		}
	}
}

// value returns the value that an instruction writes into its first operand.
func (p *passing) value(i *x86asm.Inst, next uint64) passedValue {
	s := p.state
	to, _ := i.Args[0].(x86asm.Reg)
	if to < x86asm.RAX || to > x86asm.R15 {
		return passedValue{} // a part of a register
	}
	by, isNumber := i.Args[1].(x86asm.Imm)
	switch {
	case i.Op == x86asm.ADD && isNumber:
		return s.regs[number(to)].plus(int64(by))
	case i.Op == x86asm.SUB && isNumber:
		return s.regs[number(to)].plus(-int64(by))
	case i.Op != x86asm.MOV && i.Op != x86asm.LEA:
		return passedValue{}
	}
	if from, ok := i.Args[1].(x86asm.Reg); ok && from >= x86asm.RAX && from <= x86asm.R15 {
		return s.regs[number(from)]
	}
	if place, ok := s.place(i.Args[1]); ok {
		if i.Op == x86asm.LEA {
			return passedValue{}
		}
		return s.frame[place]
	}
	m, ok := i.Args[1].(x86asm.Mem)
	if !ok || m.Index != 0 || m.Segment != 0 {
		return passedValue{}
	}
	offset := int64(int32(m.Disp))
	if m.Base == x86asm.RIP && i.Op == x86asm.MOV {
		return passedValue{global: next + uint64(offset), n: 1}
	}
	if m.Base < x86asm.RAX || m.Base > x86asm.R15 {
		return passedValue{}
	}
	v := s.regs[number(m.Base)].plus(offset)
	if i.Op == x86asm.MOV {
		return v.loaded()
	}
	return v
}

// target returns the name of the function that a call or a jump goes to, or "".
func (p *passing) target(i *x86asm.Inst, next uint64) string {
	switch to := i.Args[0].(type) {
	case x86asm.Rel:
		address := next + uint64(int64(to))
		if name := p.file.named[address]; name != "" {
			return name
		}
		if _, slot := decodeJump(p.file.code.At(address, maxInstruction), address); slot != 0 {
			return p.file.slots[slot]
		}
	case x86asm.Mem:
		if to.Base == x86asm.RIP && to.Index == 0 && to.Segment == 0 {
			return p.file.slots[next+uint64(int32(to.Disp))]
		}
	}
	return ""
}

func writesFirst(op x86asm.Op) bool {
	switch op {
	case x86asm.CMP, x86asm.TEST, x86asm.PUSH, x86asm.CALL, x86asm.JMP, x86asm.NOP, x86asm.BT, x86asm.UCOMISD, x86asm.UCOMISS:
		return false
	}
	return true
}
