package args

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// ins is a step of a value that is being compiled. A JZ with a reason jumps to a NONE behind all others.
type ins struct {
	Step
	none uint8
}

// operand is a part of a value that a path leads to, as an expression is compiled.
type operand struct {
	t *debuginfo.Type
	// memory means that code puts an address into A, and the operand is in memory offset bytes behind
	// it. Otherwise it is in the pieces, from offset on.
	memory bool
	code   []ins
	offset int64
	pieces []piece
	// bit field: size 0 for other operands. from is the lowest bit from the beginning of offset.
	bits, from uint64
	text       string // the part of the expression that leads here
	rust       bool   // the function is of Rust, whose references are pointers in the debug information
}

func (f *fn) operand(l place, t *debuginfo.Type, text string) (operand, error) {
	if l.why != "" {
		return operand{}, fmt.Errorf("%s: %s", text, l.why)
	}
	o := operand{t: t, memory: l.memory != nil, pieces: l.pieces, text: text, rust: f.Language == languageRust}
	for _, s := range l.memory {
		o.code = append(o.code, ins{Step: s})
	}
	return o.through()
}

func step(op Op, a uint8, k int64) ins { return ins{Step: Step{Op: op, A: a, K: int32(k)}} }

func (o *operand) emit(list ...ins) { o.code = append(slices.Clip(o.code), list...) }

// through follows references, and removes typedefs and qualifiers from the type.
func (o operand) through() (operand, error) {
	for range maxNesting {
		t := o.t.Resolve()
		reference := t != nil && (t.Kind == debuginfo.KindReference || t.Kind == debuginfo.KindPointer && o.rust && !strings.HasPrefix(t.Name, "*"))
		if !reference || t.Elem() == nil || t.Elem().Resolve() != nil && t.Elem().Resolve().Kind == debuginfo.KindFunction {
			o.t = t
			return o, nil
		}
		o.t = t
		var err error
		if o, err = o.pointee(t.Elem()); err != nil {
			return o, err
		}
	}
	return o, errors.New("too many references")
}

// pointee returns what an operand that is a pointer points to.
func (o operand) pointee(t *debuginfo.Type) (operand, error) {
	if err := o.load(0, 8); err != nil {
		return o, err
	}
	o.emit(ins{Step: Step{Op: JZ}, none: NullPointer})
	return operand{t: t, memory: true, code: o.code, text: o.text, rust: o.rust}, nil
}

// at returns the part of an operand at an offset.
func (o operand) at(offset uint64, t *debuginfo.Type) operand {
	o.t = t
	o.offset += int64(offset)
	return o
}

// load appends code that puts size bytes at an offset of the operand into A, zero-extended. The code
// keeps B if the operand is in registers.
func (o *operand) load(offset uint64, size uint64) error {
	if size == 0 || size > 8 {
		return fmt.Errorf("%s has %d bytes", o.text, size)
	}
	if o.memory {
		k := o.offset + int64(offset)
		if k != int64(int32(k)) {
			return fmt.Errorf("%s is too far from the beginning of its class", o.text)
		}
		if !slices.Contains([]uint64{1, 2, 4, 8}, size) {
			return o.loadOdd(k, size)
		}
		o.emit(ins{Step: Step{Op: LOAD, A: uint8(size), K: int32(k)}})
		return nil
	}
	at := uint64(o.offset) + offset
	first := o.pieceAt(at)
	if first == nil {
		return o.missing()
	}
	if err := o.loadPiece(first, at, min(size, first.offset+first.size-at)); err != nil {
		return err
	}
	got := first.offset + first.size - at
	if got >= size {
		return nil
	}
	second := o.pieceAt(at + got)
	if second == nil || second.offset+second.size < at+size {
		return o.missing()
	}
	rest := *o
	rest.code = nil
	if err := rest.loadPiece(second, at+got, size-got); err != nil {
		return err
	}
	// A = first + second << bits
	o.emit(step(MOVE, 0, 0))
	o.emit(rest.code...)
	o.emit(step(SHL, 0, int64(8*got)), step(INDEX, 0, 1))
	return nil
}

// loadOdd loads a size that the machine does not have from memory, by two loads.
func (o *operand) loadOdd(k int64, size uint64) error {
	low := uint64(1) << (bits.Len64(size) - 1)
	high := uint64(1)
	for low+high < size {
		high *= 2
	}
	// The second load overlaps the first one at its end.
	over := low + high - size
	o.emit(step(MOVE, 0, 0), step(LOAD, uint8(high), k+int64(size-high)))
	if over > 0 {
		o.emit(step(SHR, 0, int64(8*over)))
	}
	o.emit(step(SHL, 0, int64(8*low)), step(SWAP, 0, 0), step(LOAD, uint8(low), k), step(INDEX, 0, 1))
	return nil
}

func (o *operand) missing() error {
	return fmt.Errorf("%s: %s", o.text, ignored)
}

func (o *operand) pieceAt(at uint64) *piece {
	for i := range o.pieces {
		if p := &o.pieces[i]; p.offset <= at && at < p.offset+p.size {
			return p
		}
	}
	return nil
}

// loadPiece loads a part of a piece.
func (o *operand) loadPiece(p *piece, at, size uint64) error {
	skip := at - p.offset
	if p.step.Op == 0 {
		return o.missing()
	}
	o.emit(ins{Step: p.step})
	if up := 64 - 8*(skip+size); up > 0 {
		o.emit(step(SHL, 0, int64(up)))
	}
	if size < 8 {
		o.emit(step(SHR, 0, int64(64-8*size)))
	}
	return nil
}

// constant appends code that sets A. Any register gives the zero to add to.
func (o *operand) constant(v uint64) {
	o.emit(step(REG, 0, 0), step(AND, 0, 0))
	if high := v >> 31; high != 0 && int64(v) != int64(int32(v)) {
		// 31 bits a time, which ADD does not sign-extend
		if top := v >> 62; top != 0 {
			o.emit(step(ADD, 0, int64(top)), step(SHL, 0, 31))
		}
		o.emit(step(ADD, 0, int64(high&(1<<31-1))), step(SHL, 0, 31), step(ADD, 0, int64(v&(1<<31-1))))
		return
	}
	if v != 0 {
		o.emit(step(ADD, 0, int64(int32(v))))
	}
}

// number appends code that puts a number or pointer into A: the whole operand, extended to 64 bits.
func (o *operand) number(size uint64, signed bool) error {
	if o.bits > 0 {
		return o.bitField(signed)
	}
	if err := o.load(0, size); err != nil {
		return err
	}
	if signed && size < 8 {
		o.emit(step(SHL, 0, int64(64-8*size)), step(SAR, 0, int64(64-8*size)))
	}
	return nil
}

// bitField loads a bit field: the bytes that it is in, shifted.
func (o *operand) bitField(signed bool) error {
	end := (o.from + o.bits + 7) / 8
	if end > 8 || o.bits > 64 {
		return fmt.Errorf("%s: the bit field is in %d bytes", o.text, end)
	}
	if err := o.load(0, end); err != nil {
		return err
	}
	if up := 64 - o.from - o.bits; up > 0 {
		o.emit(step(SHL, 0, int64(up)))
	}
	if o.bits < 64 {
		op := SHR
		if signed {
			op = SAR
		}
		o.emit(step(op, 0, int64(64-o.bits)))
	}
	return nil
}

// address appends code that puts the address of the operand into A.
func (o *operand) address() error {
	if !o.memory || o.bits > 0 {
		return fmt.Errorf("%s is in a register, and has no address", o.text)
	}
	if o.offset != int64(int32(o.offset)) {
		return fmt.Errorf("%s is too far from the beginning of its class", o.text)
	}
	if o.offset != 0 {
		o.emit(step(ADD, 0, o.offset))
		o.offset = 0
	}
	return nil
}

// pair appends code that puts the eight bytes at one offset of the operand into B, and those at another
// into A.
func (o *operand) pair(toB, toA uint64) error { return o.pairOf(toB, toA, 8) }

// pairOf is pair with fewer bytes for A: 1, 2, 4 or 8.
func (o *operand) pairOf(toB, toA, size uint64) error {
	if !o.memory {
		if err := o.load(toB, 8); err != nil {
			return err
		}
		o.emit(step(MOVE, 0, 0))
		if p := o.pieceAt(uint64(o.offset) + toA); p != nil && p.offset+p.size < uint64(o.offset)+toA+size {
			return fmt.Errorf("%s is spread over too many registers", o.text)
		}
		return o.load(toA, size)
	}
	if err := o.address(); err != nil {
		return err
	}
	o.emit(step(MOVE, 0, 0), step(LOAD, 8, int64(toB)), step(SWAP, 0, 0), step(LOAD, uint8(size), int64(toA)))
	return nil
}

// unlessNegative appends code that ends the value if the number at an offset of the operand, of 4 or 8 bytes, is less
// than 0. An operand in memory then begins at A.
func (o *operand) unlessNegative(offset, size uint64) error {
	negative := []ins{step(SHR, 0, int64(8*size-1)), step(JZ, 0, 1), step(NONE, BeyondEnd, 0)}
	if !o.memory {
		if err := o.load(offset, size); err != nil {
			return err
		}
		o.emit(negative...)
		return nil
	}
	if err := o.address(); err != nil {
		return err
	}
	o.emit(step(MOVE, 0, 0), step(LOAD, uint8(size), int64(offset)))
	o.emit(negative...)
	o.emit(step(INDEX, 0, 0))
	return nil
}

// unless appends code that ends the value for a reason if A is 0.
func (o *operand) unless(reason uint8) { o.emit(ins{Step: Step{Op: JZ}, none: reason}) }

// divide appends code that divides A by a number that it is a multiple of.
func (o *operand) divide(n uint64) {
	if shift := bits.TrailingZeros64(n); shift > 0 {
		o.emit(step(SHR, 0, int64(shift)))
		n >>= shift
	}
	if n == 1 {
		return
	}
	// Multiply by the inverse modulo 2^64, in two halves.
	inverse := n // correct to 3 bits; each round doubles them
	for range 5 {
		inverse *= 2 - n*inverse
	}
	low := int32(uint32(inverse))
	high := int32(uint32(inverse >> 32))
	if low < 0 {
		high++ // low is sign-extended
	}
	o.emit(step(MOVE, 0, 0), step(INDEX, 0, int64(high-1)), step(SHL, 0, 32), step(SWAP, 0, 0), step(INDEX, 0, int64(low)))
}

// program returns the steps of the operand's code and the end.
func (o *operand) program(end ...ins) (Program, error) {
	code := append(slices.Clone(o.code), end...)
	var steps Program
	var reasons []uint8
	for _, c := range code {
		if c.none != 0 && !slices.Contains(reasons, c.none) {
			reasons = append(reasons, c.none)
		}
	}
	for at, c := range code {
		if c.none != 0 {
			c.K = int32(len(code) + slices.Index(reasons, c.none) - at - 1)
		}
		steps = append(steps, c.Step)
	}
	for _, r := range reasons {
		steps = append(steps, Step{Op: NONE, A: r})
	}
	if len(steps) > maxSteps {
		return nil, fmt.Errorf("%s takes %d steps to read, of at most %d: write a shorter path", o.text, len(steps), maxSteps)
	}
	return steps, Validate(steps)
}
