package args

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Step is an instruction of the machine in the recorder that reads a value. The machine has the registers
// A and B, of 64 bits.
type Step struct {
	Op Op
	A  uint8
	B  uint16
	K  int32
}

// Op is what a step does.
type Op uint8

const (
	REG   Op = 1  // A = the general register Step.A, in the numbering of DWARF; 7 is the stack pointer at the first instruction
	XMM   Op = 2  // A = the eight bytes Step.B (0 or 1) of the vector register Step.A
	CFA   Op = 3  // A = the address of the arguments in memory + K
	ADD   Op = 4  // A += K
	LOAD  Op = 5  // A = Step.A (1, 2, 4 or 8) bytes in memory at A + K, zero-extended
	SHL   Op = 6  // A <<= K
	SHR   Op = 7  // A >>= K
	SAR   Op = 8  // A >>= K, with the sign
	MOVE  Op = 9  // B = A
	SWAP  Op = 10 // exchanges A and B
	JZ    Op = 11 // skips K steps if A is 0
	JUMP  Op = 12 // skips K steps
	INDEX Op = 13 // A = B + A * K
	AND   Op = 14 // A &= K, zero-extended

	SCALAR  Op = 20 // the value is A
	WIDE    Op = 21 // the value is A and B, of which A is low
	BYTES   Op = 22 // the value is the A bytes in memory at B, of which at most K are read
	CSTRING Op = 23 // the value is the string in memory at A up to its NUL, of which at most K bytes are read
	NONE    Op = 24 // there is no value, for the reason Step.A
)

// Reasons of NONE.
const (
	NullPointer   = 1
	EmptyOptional = 2
	BeyondEnd     = 3 // an index is not less than the size
)

// maxSteps is the most steps of a value.
const maxSteps = 32

// Validate returns an error unless the machine can run steps: it knows them, they jump forwards, and each
// way ends in a step that says what the value is. The recorder refuses others, too.
func Validate(steps []Step) error {
	if len(steps) == 0 || len(steps) > maxSteps {
		return fmt.Errorf("%d steps: must be 1 to %d", len(steps), maxSteps)
	}
	for i, s := range steps {
		ok := true
		switch s.Op {
		case REG:
			ok = s.A < 16
		case XMM:
			ok = s.A < 16 && s.B < 2
		case LOAD:
			ok = s.A == 1 || s.A == 2 || s.A == 4 || s.A == 8
		case SHL, SHR, SAR:
			ok = s.K >= 0 && s.K < 64
		case JZ, JUMP:
			ok = s.K >= 0 && int(s.K) < len(steps)-i-1
		case BYTES, CSTRING:
			ok = s.K > 0 && s.K <= MaxLimit
		case CFA, ADD, MOVE, SWAP, INDEX, AND, SCALAR, WIDE, NONE:
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("step %d is not valid: %+v", i, s)
		}
	}
	if last := steps[len(steps)-1].Op; last < SCALAR {
		return errors.New("the last step does not say what the value is")
	}
	return nil
}

// Program is the steps of a value.
type Program []Step

// FunctionPrograms are the values of a function: at its entry and at its exit, at most [MaxValues] each.
type FunctionPrograms struct {
	ID    uint32 // in its object, from 1
	Entry []Program
	Exit  []Program
}

// Append appends the form in which the recorder receives the values of a function.
func (f *FunctionPrograms) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, f.ID)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(f.Entry)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(f.Exit)))
	for _, list := range [][]Program{f.Entry, f.Exit} {
		for _, p := range list {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(p)))
			b = append(b, 0, 0, 0, 0, 0, 0)
			for _, s := range p {
				b = append(b, byte(s.Op), s.A)
				b = binary.LittleEndian.AppendUint16(b, s.B)
				b = binary.LittleEndian.AppendUint32(b, uint32(s.K))
			}
		}
	}
	return b
}
