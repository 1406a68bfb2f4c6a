package attach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-delve/delve/pkg/dwarf/frame"
)

// registers are those of a frame, by their numbers in DWARF: the sixteen general ones, and the
// address of the instruction.
type registers struct {
	value [17]uint64
	known [17]bool
}

// Numbers of registers in DWARF.
const (
	dwarfRSP = 7
	dwarfRIP = 16
)

func (r *registers) set(i int, v uint64) { r.value[i], r.known[i] = v, true }

// pc is a place in a call stack.
type pc struct {
	address uint64
	// interrupted says that the instruction at the address comes next: the thread is there, or
	// a signal handler interrupted it there. Otherwise it is a return address.
	interrupted bool
	// inCall says that it was interrupted in a system call.
	inCall bool
	// handler says that it is where a signal handler returns to.
	handler bool
}

var (
	// errNoFrames says that the unwind information of an image has not been read yet.
	errNoFrames = errors.New("no unwind information")
	// errUnwind says that a stack cannot be unwound.
	errUnwind = errors.New("the stack cannot be unwound")
)

// maxFrames limits the depth of a stack.
const maxFrames = 4096

// unwind returns the places of a call stack, the innermost first, up to where the thread
// began. If it meets an image without frames, it returns that, with errNoFrames.
func (p *process) unwind(mem io.ReaderAt, r registers) (list []pc, missing *image, err error) {
	defer func() {
		if x := recover(); x != nil { // the library's: damaged information
			err = fmt.Errorf("%w: %v", errUnwind, x)
		}
	}()
	word := func(address uint64) (uint64, error) {
		var b [8]byte
		if _, err := mem.ReadAt(b[:], int64(address)); err != nil {
			return 0, errUnwind
		}
		return binary.LittleEndian.Uint64(b[:]), nil
	}
	for interrupted := true; len(list) < maxFrames; {
		at := r.value[dwarfRIP]
		list = append(list, pc{at, interrupted, interrupted && holds(mem, at-2, []byte{0x0f, 0x05}), false})
		if holds(mem, at, returnsFromSignal) {
			list[len(list)-1].handler = true
			// The stack pointer is above the return address of the handler.
			saved := r.value[dwarfRSP] + 40
			for i, n := range []int{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, dwarfRSP, dwarfRIP} {
				v, err := word(saved + 8*uint64(i))
				if err != nil {
					return nil, nil, err
				}
				r.set(n, v)
			}
			interrupted = true
			continue
		}
		img := p.imageAt(at)
		if img == nil {
			return nil, nil, errUnwind
		}
		if !img.read {
			return nil, img, errNoFrames
		}
		look := at
		if !interrupted {
			look--
		}
		fde, err := img.frames.FDEForPC(look)
		if err != nil {
			return nil, nil, errUnwind
		}
		next, err := caller(fde, look, &r, word)
		if err != nil {
			return nil, nil, err
		}
		if !next.known[dwarfRIP] || next.value[dwarfRIP] == 0 {
			return list, nil, nil
		}
		if next.value[dwarfRSP] <= r.value[dwarfRSP] {
			return nil, nil, errUnwind
		}
		r, interrupted = *next, false
	}
	return nil, nil, errUnwind
}

// holds reports whether the code at an address begins with some bytes.
func holds(mem io.ReaderAt, at uint64, code []byte) bool {
	b := make([]byte, len(code))
	_, err := mem.ReadAt(b, int64(at))
	return err == nil && bytes.Equal(b, code)
}

func (p *process) imageAt(address uint64) *image {
	for i := range p.images {
		if p.images[i].has(address) {
			return &p.images[i]
		}
	}
	return nil
}

// caller returns the registers of the calling frame. In the first frame of a thread, the
// instruction is unknown.
func caller(fde *frame.FrameDescriptionEntry, at uint64, r *registers, word func(uint64) (uint64, error)) (*registers, error) {
	c, err := fde.EstablishFrame(at)
	if err != nil || c.CFA.Rule != frame.RuleCFA || c.CFA.Reg > dwarfRIP || !r.known[c.CFA.Reg] {
		return nil, errUnwind
	}
	cfa := r.value[c.CFA.Reg] + uint64(c.CFA.Offset)
	next := *r
	next.known[dwarfRIP] = false
	next.set(dwarfRSP, cfa)
	for number, rule := range c.Regs {
		if number > dwarfRIP || number == dwarfRSP {
			continue
		}
		switch rule.Rule {
		case frame.RuleSameVal:
		case frame.RuleOffset:
			v, err := word(cfa + uint64(rule.Offset))
			if err != nil {
				return nil, err
			}
			next.set(int(number), v)
		case frame.RuleValOffset:
			next.set(int(number), cfa+uint64(rule.Offset))
		default:
			next.known[number] = false
		}
	}
	return &next, nil
}

// maxFrameBytes limits the unwind information of an image.
const maxFrameBytes = 128 << 20

// readFrames reads the unwind information of an image.
func (i *image) readFrames(mem io.ReaderAt) {
	i.read = true
	defer func() {
		if recover() != nil { // the library's: damaged information
			i.frames = nil
		}
	}()
	head := make([]byte, 8)
	// Version 1, and the address of the information relative to the field, in 4 bytes.
	if _, err := mem.ReadAt(head, int64(i.frameHeader)); i.frameHeader == 0 || err != nil || head[0] != 1 || head[1] != 0x1b {
		return
	}
	at := i.frameHeader + 4 + uint64(int64(int32(binary.LittleEndian.Uint32(head[4:]))))
	data := make([]byte, min(maxFrameBytes, max(at, i.end)-at))
	n, _ := mem.ReadAt(data, int64(at))
	frames, err := frame.Parse(terminated(data[:n]), binary.LittleEndian, 0, 8, at)
	if err == nil {
		i.frames = frame.FrameDescriptionEntries(nil).Append(frames)
	}
}

// terminated cuts unwind information off at its end, an entry without content.
func terminated(data []byte) []byte {
	for at := 0; at+4 <= len(data); {
		size := int(binary.LittleEndian.Uint32(data[at:]))
		if size == 0 || size > len(data)-at-4 {
			return data[:at]
		}
		at += 4 + size
	}
	return nil
}
