package args

import (
	"golang.org/x/arch/x86/x86asm"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// uses are the registers and the memory of arguments that a function reads before it writes them, on the
// way that it takes if it takes no branch. What is in them is an argument: the caller must have passed it.
type uses struct {
	general, vectors [16]bool // by their numbers: of DWARF, and of xmm
	stack            map[int64]bool
	// kept has how far each register keeps its value, in bytes from the entry: general ones, and vectors.
	kept [2][16]uint64
	// stores has the registers that were copied to memory before they were written, by the place
	// relative to the arguments in memory. Only the first write of a place counts.
	stores map[int64]stored
	// body is how far the stack pointer is below the arguments in memory behind the prologue, and frame
	// the same of the frame pointer; -1 if not known.
	body, frame int64
}

// stored is a register that was copied to memory.
type stored struct {
	register Step
	size     int // bytes that were copied
}

// keeps reports whether a register has its value up to an offset from the entry.
func (u *uses) keeps(s Step, from uint64) bool {
	if s.Op == XMM {
		return u.kept[1][s.A] >= from
	}
	return u.kept[0][s.A] >= from
}

// slot returns the place of a variable of the function relative to the arguments in memory.
func (u *uses) slot(e *debuginfo.EntryLocation) (int64, bool) {
	switch {
	case e.Base == debuginfo.SlotCFA:
		return e.Offset, true
	case e.Base == debuginfo.SlotFrame && u.frame >= 0:
		return e.Offset - u.frame, true
	case e.Base == debuginfo.SlotStack && u.body >= 0:
		return e.Offset - u.body, true
	}
	return 0, false
}

// memory reports whether the function reads one of the bytes of an argument in memory.
func (u *uses) memory(at, size int64) bool {
	for i := at; i < at+size && i < at+1<<12; i++ {
		if u.stack[i] {
			return true
		}
	}
	return false
}

// maxUsesCode limits the bytes of code that are read for the uses of a function.
const maxUsesCode = 1 << 12

// dwarfNumber has the numbers of DWARF by those of the processor.
var dwarfNumber = [16]uint8{0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}

// register returns the number of a general register, of any size, or of a vector register.
func register(r x86asm.Reg) (n uint8, vector, ok bool) {
	switch {
	case r >= x86asm.AL && r <= x86asm.BL:
		return dwarfNumber[r-x86asm.AL], false, true
	case r >= x86asm.AH && r <= x86asm.BH:
		return dwarfNumber[r-x86asm.AH], false, true
	case r >= x86asm.SPB && r <= x86asm.R15B:
		return dwarfNumber[r-x86asm.SPB+4], false, true
	case r >= x86asm.AX && r <= x86asm.R15W:
		return dwarfNumber[r-x86asm.AX], false, true
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return dwarfNumber[r-x86asm.EAX], false, true
	case r >= x86asm.RAX && r <= x86asm.R15:
		return dwarfNumber[r-x86asm.RAX], false, true
	case r >= x86asm.X0 && r <= x86asm.X15:
		return uint8(r - x86asm.X0), true, true
	}
	return 0, false, false
}

const dwarfStack, dwarfFrame = 7, 6

// usesOf reads the code of a function. The first skip bytes do nothing. It counts only what certainly is a use.
// It knows that pushes save registers, and follows the stack pointer to recognize arguments in memory.
func usesOf(code []byte, skip uint64) *uses {
	u := &uses{stack: map[int64]bool{}, stores: map[int64]stored{}, body: -1, frame: -1}
	s := scan{uses: u, stack: 8, frame: -1, at: skip}
	code = code[min(skip, uint64(len(code))):]
	for len(code) > 0 {
		i, err := x86asm.Decode(code, 64)
		if v, ok := vexOf(code); ok {
			s.wide = v.wide
			if i = v.Inst; !s.vector(&v) {
				break
			}
			code, s.at = code[i.Len:], s.at+uint64(i.Len)
			continue
		}
		s.wide = false
		if err == nil && i.Op == x86asm.CALL && u.body < 0 {
			u.body, u.frame = s.stack, s.frame
		}
		if err != nil || !s.instruction(&i) {
			break
		}
		code, s.at = code[i.Len:], s.at+uint64(i.Len)
	}
	if u.body < 0 && !s.epilogue {
		u.body, u.frame = s.stack, s.frame
	}
	for k := range u.kept {
		for r := range u.kept[k] {
			if !s.written[k][r] {
				u.kept[k][r] = s.at
			}
		}
	}
	return u
}

// scan is the state of a walk through code.
type scan struct {
	*uses
	written [2][16]bool // general registers, and vector registers
	slots   map[int64]bool
	at      uint64 // of the instruction, in bytes from the entry
	wide    bool   // the instruction has operands of 32 bytes
	// epilogue means that the function has begun to remove its frame.
	epilogue bool
	// stack is how far the stack pointer is below the arguments in memory, in bytes. frame is the same of
	// the frame pointer; -1 if that is not known.
	stack, frame int64
}

// vex is an instruction of AVX: the one of SSE with the same code and, if second is not 0, another operand that it reads.
// Len is that of the instruction of AVX.
type vex struct {
	x86asm.Inst
	second x86asm.Reg
	wide   bool // its operands have 32 bytes
}

// vexOf decodes an instruction with a VEX prefix, which the decoder does not know, as the one of SSE that it extends.
func vexOf(code []byte) (v vex, ok bool) {
	if len(code) < 4 || code[0] != 0xC4 && code[0] != 0xC5 {
		return v, false
	}
	// In the prefix, the bits R, X, B and the register are inverted.
	long, last := 2, code[1]
	rex := byte(0x40) | ^code[1]>>5&4
	if code[0] == 0xC4 {
		if code[1]&31 != 1 { // other maps than 0F
			return v, false
		}
		long, last = 3, code[2]
		rex = 0x40 | ^code[1]>>5&7 | code[2]>>4&8
	}
	var sse []byte
	if p := [4]byte{0, 0x66, 0xF3, 0xF2}[last&3]; p != 0 {
		sse = append(sse, p)
	}
	sse = append(sse, rex, 0x0F)
	before := len(sse)
	i, err := x86asm.Decode(append(sse, code[long:min(len(code), long+12)]...), 64)
	if err != nil {
		return v, false
	}
	i.Len += long - before
	v.Inst, v.wide = i, last&4 != 0
	if r := ^last >> 3 & 15; r != 0 {
		v.second = x86asm.X0 + x86asm.Reg(r)
	}
	return v, true
}

// vector adds an instruction of AVX. It returns false where the walk ends.
func (s *scan) vector(v *vex) bool {
	switch v.Op {
	case x86asm.EMMS: // vzeroupper and vzeroall have its code
		if v.wide {
			return false
		}
		return true
	case x86asm.MOVAPS, x86asm.MOVUPS, x86asm.MOVAPD, x86asm.MOVUPD, x86asm.MOVDQA, x86asm.MOVDQU, x86asm.MOVD, x86asm.MOVQ,
		x86asm.MOVSS, x86asm.MOVSD_XMM, x86asm.CVTTSD2SI, x86asm.CVTTSS2SI, x86asm.UCOMISD, x86asm.UCOMISS, x86asm.COMISD,
		x86asm.COMISS, x86asm.CVTSD2SS, x86asm.CVTSS2SD, x86asm.CVTSI2SD, x86asm.CVTSI2SS:
		// Of the second operand, those that have one keep only the upper part, which may be anything.
		return s.instruction(&v.Inst)
	case x86asm.ADDSD, x86asm.ADDSS, x86asm.MULSD, x86asm.MULSS, x86asm.SUBSD, x86asm.SUBSS, x86asm.DIVSD, x86asm.DIVSS,
		x86asm.XORPS, x86asm.XORPD, x86asm.PXOR, x86asm.ADDPS, x86asm.ADDPD, x86asm.PADDD, x86asm.PADDQ, x86asm.UNPCKLPS,
		x86asm.UNPCKLPD:
	default:
		return false
	}
	if m, ok := v.Args[1].(x86asm.Mem); ok {
		s.read(m.Base)
		s.read(m.Index)
	}
	if second := max(v.second, x86asm.X0); v.Args[1] != x86asm.Arg(second) { // with itself, it may set zero
		s.read(second)
		s.source(v.Args[1], v.MemBytes)
	}
	s.target(v.Args[0])
	return true
}

func (s *scan) read(r x86asm.Reg) {
	if n, vector, ok := register(r); ok && vector && !s.written[1][n] {
		s.vectors[n] = true
	} else if ok && !vector && !s.written[0][n] {
		s.general[n] = true
	}
}

func (s *scan) write(r x86asm.Reg) {
	n, vector, ok := register(r)
	switch {
	case ok && vector:
		s.overwrite(1, int(n))
	case ok:
		s.overwrite(0, int(n))
		if n == dwarfFrame {
			s.frame = -1
		}
	}
}

// overwrite notes that a register gets another value: general ones are of kind 0.
func (s *scan) overwrite(kind, n int) {
	if !s.written[kind][n] {
		s.written[kind][n], s.kept[kind][n] = true, s.at
	}
}

// argument returns the place of a memory operand among the arguments in memory.
func (s *scan) argument(m x86asm.Mem) (at int64, ok bool) {
	at, ok = s.place(m)
	return at, ok && at >= 0
}

// place returns the place of a memory operand on the stack, relative to the arguments in memory.
func (s *scan) place(m x86asm.Mem) (at int64, ok bool) {
	n, vector, known := register(m.Base)
	if !known || vector || m.Index != 0 || m.Segment == x86asm.FS || m.Segment == x86asm.GS {
		return 0, false
	}
	switch {
	case n == dwarfStack:
		at = m.Disp - s.stack
	case n == dwarfFrame && s.frame >= 0:
		at = m.Disp - s.frame
	default:
		return 0, false
	}
	return at, at > -1<<30
}

// instruction adds what an instruction uses. It returns false where the walk ends.
func (s *scan) instruction(i *x86asm.Inst) bool {
	for _, a := range i.Args {
		if m, ok := a.(x86asm.Mem); ok && m.Base != 0 && i.Op != x86asm.NOP {
			s.read(m.Base)
			s.read(m.Index)
		}
	}
	first := i.Args[0]
	switch i.Op {
	case x86asm.NOP, x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JE, x86asm.JNE, x86asm.JG, x86asm.JGE,
		x86asm.JL, x86asm.JLE, x86asm.JS, x86asm.JNS, x86asm.JO, x86asm.JNO, x86asm.JP, x86asm.JNP:
		return true
	case x86asm.PUSH:
		s.stack += 8
		return true
	case x86asm.POP:
		s.stack -= 8
		s.leave()
		if r, ok := first.(x86asm.Reg); ok {
			s.write(r)
		}
		return true
	case x86asm.CALL:
		for _, n := range []int{0, 1, 2, 4, 5, 8, 9, 10, 11} {
			s.overwrite(0, n)
		}
		for n := range s.written[1] {
			s.overwrite(1, n)
		}
		return true
	case x86asm.CDQ, x86asm.CQO:
		s.read(x86asm.RAX)
		s.write(x86asm.RDX)
		return true
	case x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.LEA, x86asm.MOVAPS, x86asm.MOVUPS, x86asm.MOVAPD,
		x86asm.MOVUPD, x86asm.MOVDQA, x86asm.MOVDQU, x86asm.MOVSS, x86asm.MOVSD_XMM, x86asm.MOVD, x86asm.MOVQ, x86asm.MOVLPS,
		x86asm.MOVLPD, x86asm.CVTTSD2SI, x86asm.CVTTSS2SI, x86asm.CVTSD2SS, x86asm.CVTSS2SD, x86asm.CVTSI2SD, x86asm.CVTSI2SS, x86asm.PSHUFD:
		return s.move(i)
	case x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.ADC, x86asm.SBB, x86asm.SHL, x86asm.SHR, x86asm.SAR,
		x86asm.INC, x86asm.DEC, x86asm.NEG, x86asm.NOT, x86asm.IMUL, x86asm.ADDSD, x86asm.ADDSS, x86asm.MULSD, x86asm.MULSS,
		x86asm.SUBSD, x86asm.SUBSS, x86asm.DIVSD, x86asm.DIVSS, x86asm.XORPS, x86asm.XORPD, x86asm.PXOR, x86asm.ADDPS, x86asm.ADDPD,
		x86asm.PADDD, x86asm.PADDQ, x86asm.UNPCKLPS, x86asm.UNPCKLPD:
		return s.modify(i)
	case x86asm.CMP, x86asm.TEST, x86asm.UCOMISD, x86asm.UCOMISS, x86asm.COMISD, x86asm.COMISS, x86asm.BT:
		for _, a := range i.Args {
			s.source(a, i.MemBytes)
		}
		return true
	case x86asm.FLD, x86asm.FILD:
		s.source(first, i.MemBytes)
		return true
	case x86asm.FSTP:
		s.target(first)
		return true
	}
	return false // it may use registers that it does not name, or leave the function
}

// leave notes that the frame is being removed.
func (s *scan) leave() {
	if s.uses.body < 0 {
		s.epilogue = true
	}
}

// source adds an operand that is read.
func (s *scan) source(a x86asm.Arg, size int) {
	switch a := a.(type) {
	case x86asm.Reg:
		s.read(a)
	case x86asm.Mem:
		at, ok := s.argument(a)
		for b := at; ok && b < at+int64(max(size, 1)); b++ {
			if !s.slots[b] {
				s.uses.stack[b] = true
			}
		}
	}
}

// target notes an operand that is written.
func (s *scan) target(a x86asm.Arg) {
	switch a := a.(type) {
	case x86asm.Reg:
		s.write(a)
	case x86asm.Mem:
		if at, ok := s.place(a); ok {
			if s.slots == nil {
				s.slots = map[int64]bool{}
			}
			size := int64(16)
			if s.wide {
				size = 32
			}
			for b := at; b < at+size; b++ {
				s.slots[b] = true
			}
		}
	}
}

// move adds an instruction that reads its second operand and writes its first one.
func (s *scan) move(i *x86asm.Inst) bool {
	to, _ := i.Args[0].(x86asm.Reg)
	from, _ := i.Args[1].(x86asm.Reg)
	if i.Op == x86asm.LEA {
		m, _ := i.Args[1].(x86asm.Mem)
		if n, _, ok := register(to); ok && n == dwarfStack {
			if base, _, ok := register(m.Base); !ok || base != dwarfStack || m.Index != 0 {
				return false
			}
			s.stack -= m.Disp
			return true
		}
		s.write(to)
		return true
	}
	if n, _, ok := register(to); ok && n == dwarfStack {
		return false // the stack is another one
	}
	s.source(i.Args[1], i.MemBytes)
	if m, ok := i.Args[0].(x86asm.Mem); ok {
		s.store(m, from, i.MemBytes)
	}
	s.target(i.Args[0])
	if a, _, ok := register(to); ok && a == dwarfFrame {
		if b, vector, ok := register(from); ok && !vector && b == dwarfStack {
			s.frame = s.stack
		}
	}
	return true
}

// store notes a register that is copied to the stack.
func (s *scan) store(m x86asm.Mem, from x86asm.Reg, size int) {
	at, ok := s.place(m)
	n, vector, known := register(from)
	if !ok || !known || s.slots[at] {
		return
	}
	switch {
	case vector && !s.written[1][n]:
		s.stores[at] = stored{Step{Op: XMM, A: n}, size}
	case !vector && !s.written[0][n]:
		s.stores[at] = stored{Step{Op: REG, A: n}, size}
	}
}

// modify adds an instruction that reads and writes its first operand.
func (s *scan) modify(i *x86asm.Inst) bool {
	first, _ := i.Args[0].(x86asm.Reg)
	if n, vector, ok := register(first); ok && !vector && n == dwarfStack {
		by, ok := i.Args[1].(x86asm.Imm)
		switch {
		case ok && i.Op == x86asm.SUB:
			s.stack += int64(by)
		case ok && i.Op == x86asm.ADD:
			s.stack -= int64(by)
			s.leave()
		case i.Op == x86asm.AND: // aligned: only the frame pointer finds the arguments from here on
			s.stack = 1 << 40
		default:
			return false
		}
		return true
	}
	if i.Op == x86asm.IMUL {
		switch {
		case i.Args[1] == nil:
			return false // writes registers that it does not name
		case i.Args[2] != nil:
			s.source(i.Args[1], i.MemBytes)
			s.target(first)
			return true
		}
	}
	same := i.Args[1] != nil && i.Args[0] == i.Args[1]
	switch i.Op {
	case x86asm.XOR, x86asm.SUB, x86asm.SBB, x86asm.XORPS, x86asm.XORPD, x86asm.PXOR:
		if same { // sets zero
			s.target(i.Args[0])
			return true
		}
	}
	for _, a := range i.Args {
		s.source(a, i.MemBytes)
	}
	s.target(i.Args[0])
	return true
}
