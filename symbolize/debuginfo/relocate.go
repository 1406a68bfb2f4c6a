package debuginfo

import (
	"debug/elf"
	"fmt"
	"io"
)

// relocOp is the operation of a relocation on its field. S is the value of its symbol, A its
// addend, P the address of the field.
type relocOp uint8

const (
	relocNone relocOp = iota // nothing, or only a hint to the linker
	relocAbs                 // S + A
	relocPC                  // S + A - P
	relocAdd                 // the field + S + A
	relocSub                 // the field - S - A
)

type relocType struct {
	op   relocOp
	size int // bytes of the field
}

// relocTypes has the relocation types of instrumentation maps and debug sections in object
// files, by machine. The numbers are from the psABI documents.
var relocTypes = map[elf.Machine]map[uint32]relocType{
	elf.EM_X86_64:  {1: {relocAbs, 8}, 2: {relocPC, 4}, 10: {relocAbs, 4}, 11: {relocAbs, 4}, 24: {relocPC, 8}},
	elf.EM_AARCH64: {257: {relocAbs, 8}, 258: {relocAbs, 4}, 260: {relocPC, 8}, 261: {relocPC, 4}},
	elf.EM_ARM:     {2: {relocAbs, 4}, 3: {relocPC, 4}},
	elf.EM_PPC64:   {1: {relocAbs, 4}, 26: {relocPC, 4}, 38: {relocAbs, 8}, 44: {relocPC, 8}},
	elf.EM_MIPS:    {2: {relocAbs, 4}, 18: {relocAbs, 8}, 248: {relocPC, 4}},
	elf.EM_RISCV: {1: {relocAbs, 4}, 2: {relocAbs, 8},
		33: {relocAdd, 1}, 34: {relocAdd, 2}, 35: {relocAdd, 4}, 36: {relocAdd, 8},
		37: {relocSub, 1}, 38: {relocSub, 2}, 39: {relocSub, 4}, 40: {relocSub, 8},
		43: {}, 51: {}, // R_RISCV_ALIGN, R_RISCV_RELAX
		54: {relocAbs, 1}, 55: {relocAbs, 2}, 56: {relocAbs, 4}, 57: {relocPC, 4}},
	elf.EM_LOONGARCH: {1: {relocAbs, 4}, 2: {relocAbs, 8},
		47: {relocAdd, 1}, 48: {relocAdd, 2}, 50: {relocAdd, 4}, 51: {relocAdd, 8},
		52: {relocSub, 1}, 53: {relocSub, 2}, 55: {relocSub, 4}, 56: {relocSub, 8},
		99: {relocPC, 4}, 100: {}, 102: {}, 109: {relocPC, 8}}, // 100, 102: R_LARCH_RELAX, R_LARCH_ALIGN
	elf.EM_QDSP6: {6: {relocAbs, 4}, 7: {relocAbs, 2}, 8: {relocAbs, 1}, 31: {relocPC, 4}},
	elf.EM_S390:  {4: {relocAbs, 4}, 5: {relocPC, 4}, 22: {relocAbs, 8}, 23: {relocPC, 8}},
}

// relativeTypes has the dynamic relocation that adds the load address to its addend, by
// machine.
var relativeTypes = map[elf.Machine]uint32{
	elf.EM_X86_64: 8, elf.EM_AARCH64: 1027, elf.EM_ARM: 23, elf.EM_PPC64: 22, elf.EM_MIPS: 3,
	elf.EM_RISCV: 3, elf.EM_LOONGARCH: 3, elf.EM_QDSP6: 35, elf.EM_S390: 12,
}

// relocEntry is an entry of a relocation section.
type relocEntry struct {
	offset uint64
	addend uint64
	symbol uint32
	// kinds are types to apply one after the other. Only 64-bit MIPS has more than one.
	kinds [3]uint8
	kind  uint32
	// inPlace means that the field holds the addend (SHT_REL).
	inPlace bool
}

// eachRelocation calls f for the entries of a relocation section.
func (o *ELF) eachRelocation(s *elf.Section, f func(relocEntry) error) error {
	if err := o.check(s); err != nil {
		return err
	}
	size := 2 * o.word
	if s.Type == elf.SHT_RELA {
		size = 3 * o.word
	}
	order := o.f.ByteOrder
	return o.eachEntry(s, size, func(_ int, b []byte) error {
		e := relocEntry{offset: o.uint(b, o.word), inPlace: s.Type == elf.SHT_REL}
		info := b[o.word:]
		switch {
		case o.word == 4:
			e.symbol, e.kind = order.Uint32(info)>>8, order.Uint32(info)&0xFF
		case o.f.Machine == elf.EM_MIPS:
			// These are fields: a symbol, a special symbol, and three types, the first of them
			// last.
			e.symbol = order.Uint32(info)
			e.kinds = [3]uint8{info[7], info[6], info[5]}
			e.kind = uint32(info[7])
		default:
			e.symbol, e.kind = uint32(order.Uint64(info)>>32), uint32(order.Uint64(info))
		}
		if !e.inPlace {
			e.addend = o.signed(o.uint(b[2*o.word:], o.word), o.word)
		}
		return f(e)
	})
}

// eachEntry reads a table of fixed-size entries in pieces. It ignores a partial entry at the end.
func (o *ELF) eachEntry(s *elf.Section, size int, f func(i int, b []byte) error) error {
	const chunk = 1 << 12
	n := s.FileSize / uint64(size)
	buf := make([]byte, min(n, chunk)*uint64(size))
	for i := uint64(0); i < n; {
		k := min(n-i, chunk)
		b := buf[:k*uint64(size)]
		if _, err := o.r.ReadAt(b, int64(s.Offset+i*uint64(size))); err != nil && err != io.EOF {
			return fmt.Errorf("section %s: %w", s.Name, err)
		}
		for j := range k {
			if err := f(int(i+j), b[j*uint64(size):][:size]); err != nil {
				return err
			}
		}
		i += k
	}
	return nil
}

// signed extends an integer of the given size to 64 bits.
func (o *ELF) signed(v uint64, size int) uint64 {
	shift := 64 - 8*size
	return uint64(int64(v<<shift) >> shift)
}

// relocate applies the relocations of an object file to a section. It skips unknown types in
// debug sections: they are about fields that are not read.
func (o *ELF) relocate(s *Section) error {
	needed := s.s.Flags&elf.SHF_ALLOC != 0
	for _, rs := range o.relocations[s.index] {
		err := o.eachRelocation(rs, func(e relocEntry) error {
			t, ok := relocTypes[o.f.Machine][e.kind]
			if !ok && needed {
				return fmt.Errorf("section %s: offset %#x: unknown relocation type %d of %v",
					rs.Name, e.offset, e.kind, o.f.Machine)
			}
			for _, k := range e.kinds[1:] {
				if k != 0 {
					t.size = relocTypes[o.f.Machine][uint32(k)].size
				}
			}
			if t.op == relocNone || t.size == 0 {
				return nil
			}
			if e.offset > uint64(len(s.data)) || uint64(len(s.data))-e.offset < uint64(t.size) {
				return fmt.Errorf("section %s: relocation at %#x is outside of %s", rs.Name, e.offset, s.s.Name)
			}
			var value uint64
			if uint64(e.symbol) < uint64(len(o.values)) {
				value = o.values[e.symbol]
			}
			field := s.data[e.offset:]
			stored := o.signed(o.uint(field, t.size), t.size)
			if e.inPlace {
				e.addend = stored
			}
			value += e.addend
			switch t.op {
			case relocPC:
				value -= o.base[s.index] + e.offset
			case relocAdd:
				value = stored + value
			case relocSub:
				value = stored - value
			}
			o.putUint(field, t.size, value)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RelocateDynamic applies dynamic relocations to the bytes of a section of a linked file, as
// the loader does, at load address 0. Position-independent instrumentation maps of versions 0
// and 1 need it. Call it once, and not concurrently with other methods of the section.
func (s *Section) RelocateDynamic() error {
	o := s.o
	values := make(map[*elf.Section][]uint64)
	for _, rs := range o.f.Sections {
		if rs.Type != elf.SHT_REL && rs.Type != elf.SHT_RELA || rs.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		err := o.eachRelocation(rs, func(e relocEntry) error {
			at := e.offset - s.s.Addr
			if e.offset < s.s.Addr || at >= uint64(len(s.data)) || uint64(len(s.data))-at < uint64(o.word) {
				return nil
			}
			field := s.data[at:]
			if e.inPlace {
				e.addend = o.uint(field, o.word)
			}
			value := e.addend
			if t := relocTypes[o.f.Machine][e.kind]; t.op == relocAbs && t.size == o.word {
				table, ok := values[rs]
				if !ok {
					table = o.linkedSymbols(rs)
					values[rs] = table
				}
				if uint64(e.symbol) >= uint64(len(table)) {
					return fmt.Errorf("section %s: relocation at %#x: no symbol %d", rs.Name, e.offset, e.symbol)
				}
				value += table[e.symbol]
			} else if e.kind != relativeTypes[o.f.Machine] {
				return fmt.Errorf("section %s: relocation at %#x: unknown type %d of %v", rs.Name, e.offset, e.kind, o.f.Machine)
			}
			o.putUint(field, o.word, value)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// linkedSymbols returns the addresses of the symbols of a relocation section.
func (o *ELF) linkedSymbols(rs *elf.Section) []uint64 {
	if uint64(rs.Link) >= uint64(len(o.f.Sections)) {
		return nil
	}
	var values []uint64
	// If the table cannot be read, a missing symbol is reported on use.
	_ = o.symbols(o.f.Sections[rs.Link], func(s symbol) { values = append(values, s.address) })
	return values
}
