package coverage

import (
	"debug/elf"

	"golang.org/x/arch/x86/x86asm"

	"github.com/xray-tools/xray/symbolize"
)

// shape describes the code of a function.
type shape struct {
	instructions uint64 // without those of sleds; 0 if they are not counted
	loop         bool   // it jumps backwards inside itself
	ends         uint64 // returns, and jumps out of it
	sledBytes    uint64
}

// sledSize is the size of a sled that is switched off, in bytes.
func sledSize(machine elf.Machine) uint64 {
	switch machine {
	case elf.EM_X86_64:
		return 11
	case elf.EM_AARCH64:
		return 32
	}
	return 0
}

// shapeOf looks at the code of a function. Instructions are counted on x86-64 only.
func shapeOf(machine elf.Machine, code []byte, address uint64, sleds []symbolize.Sled) (s shape) {
	kinds := make(map[uint64]symbolize.SledKind, len(sleds))
	for _, sled := range sleds {
		if sled.Kind < symbolize.CustomEvent { // events replace instructions of the program
			kinds[sled.Address] = sled.Kind
		}
	}
	s.sledBytes = uint64(len(kinds)) * sledSize(machine)
	if machine != elf.EM_X86_64 {
		return s
	}
	for at := 0; at < len(code); {
		if kind, ok := kinds[address+uint64(at)]; ok {
			if kind == symbolize.Exit {
				s.instructions++ // its first instruction is the return
				s.ends++
			}
			at += int(sledSize(machine))
			continue
		}
		inst, err := x86asm.Decode(code[at:], 64)
		if err != nil || inst.Len == 0 {
			at++ // an instruction that the decoder does not know
			s.instructions++
			continue
		}
		if inst.Op != x86asm.NOP { // padding
			s.instructions++
		}
		s.flow(&inst, at, len(code))
		at += inst.Len
	}
	return s
}

// flow notes loops and ends.
func (s *shape) flow(inst *x86asm.Inst, at, size int) {
	switch inst.Op {
	case x86asm.RET:
		s.ends++
		return
	case x86asm.CALL:
		return
	}
	target, ok := inst.Args[0].(x86asm.Rel)
	if !ok {
		return
	}
	switch to := at + inst.Len + int(target); {
	case to >= 0 && to <= at:
		s.loop = true
	case to < 0 || to >= size:
		s.ends++
	}
}
