package debuginfo

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"strings"
)

// symbol is an entry of a symbol table.
type symbol struct {
	name    uint32 // offset in the string table
	kind    elf.SymType
	bind    elf.SymBind
	section uint32 // index; 0 when undefined
	address uint64
	size    uint64
}

// symbols calls f for each entry of a symbol table, in order.
func (o *ELF) symbols(table *elf.Section, f func(symbol)) error {
	if err := o.check(table); err != nil {
		return err
	}
	// Section indexes beyond 16 bits are in a table of their own.
	var wide []byte
	if o.Relocatable() {
		for i, s := range o.f.Sections {
			if s.Type == elf.SHT_SYMTAB_SHNDX {
				var err error
				if wide, err = (&Section{o: o, s: s, index: i}).Bytes(); err != nil {
					return err
				}
			}
		}
	}
	size := elf.Sym64Size
	if o.word == 4 {
		size = elf.Sym32Size
	}
	order := o.f.ByteOrder
	return o.eachEntry(table, size, func(i int, b []byte) error {
		s := symbol{name: order.Uint32(b)}
		if o.word == 4 {
			s.address, s.size = uint64(order.Uint32(b[4:])), uint64(order.Uint32(b[8:]))
			s.kind, s.bind, s.section = elf.SymType(b[12]&0xF), elf.SymBind(b[12]>>4), uint32(order.Uint16(b[14:]))
		} else {
			s.kind, s.bind, s.section = elf.SymType(b[4]&0xF), elf.SymBind(b[4]>>4), uint32(order.Uint16(b[6:]))
			s.address, s.size = order.Uint64(b[8:]), order.Uint64(b[16:])
		}
		switch {
		case s.section == uint32(elf.SHN_XINDEX) && 4*i+4 <= len(wide):
			s.section = order.Uint32(wide[4*i:])
		case s.section >= uint32(elf.SHN_LORESERVE):
			s.section = 0
		}
		if o.Relocatable() && uint64(s.section) < uint64(len(o.base)) {
			s.address += o.base[s.section]
		}
		f(s)
		return nil
	})
}

// candidate is the best symbol of an address so far.
type candidate struct {
	symbol
	ok bool
}

// better reports whether s is better than c. LLVM's symbolizer chooses in the same way: the
// largest symbol of an address, and the last of these in the table. Symbols without a type come
// last, since mapping symbols are among them.
func (c candidate) better(s symbol) bool {
	if !c.ok {
		return true
	}
	if (c.kind == elf.STT_NOTYPE) != (s.kind == elf.STT_NOTYPE) {
		return c.kind == elf.STT_NOTYPE
	}
	return s.size >= c.size
}

// found is the symbol of an address.
type found struct {
	name  string
	start uint64 // of the symbol
	end   uint64 // of the function; 0 if unknown
	// others are the names of the other functions at the address: the linker folds equal functions.
	others []string
}

// findSymbols finds the symbols of addresses, which must be sorted and distinct: the symbol at
// the address, or the last one before it if its size reaches that far. It keeps names that
// result has from another file.
func (o *ELF) findSymbols(addresses []uint64, result []found) error {
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		table := o.f.SectionByType(kind)
		if !slices.ContainsFunc(result, func(f found) bool { return f.name == "" }) {
			return nil
		}
		if table == nil || uint64(table.Link) >= uint64(len(o.f.Sections)) {
			continue
		}
		if err := o.findIn(table, addresses, result); err != nil {
			return err
		}
	}
	return nil
}

// findIn sets results without a name.
func (o *ELF) findIn(table *elf.Section, addresses []uint64, result []found) error {
	// exact[i] is the symbol at addresses[i]. before[i] is the last symbol that starts between
	// the previous address and this one.
	exact := make([]candidate, len(addresses))
	before := make([]candidate, len(addresses))
	var functions []uint64 // offsets of names of functions at an address, above indexes
	index := indexAddresses(addresses)
	evenCode := o.f.Machine == elf.EM_ARM || o.f.Machine == elf.EM_MIPS
	err := o.symbols(table, func(s symbol) {
		if s.section == 0 || uint64(s.section) >= uint64(len(o.base)) ||
			o.f.Sections[s.section].Flags&elf.SHF_ALLOC == 0 {
			return
		}
		switch s.kind {
		case elf.STT_FUNC, elf.STT_GNU_IFUNC:
			if evenCode {
				s.address &^= 1 // bit 0 marks Thumb and microMIPS code
			}
		case elf.STT_NOTYPE, elf.STT_OBJECT:
		default:
			return
		}
		i, ok := index.search(s.address)
		switch {
		case ok:
			if exact[i].better(s) {
				exact[i] = candidate{s, true}
			}
			if s.kind != elf.STT_NOTYPE && s.kind != elf.STT_OBJECT && result[i].name == "" {
				functions = append(functions, uint64(s.name)<<32|uint64(i))
			}
		case i < len(addresses) && s.size != 0:
			c := &before[i]
			if !c.ok || s.address > c.address || s.address == c.address && c.better(s) {
				*c = candidate{s, true}
			}
		}
	})
	if err != nil {
		return err
	}
	chosen := make([]uint64, 0, len(addresses)) // offsets of names, above indexes
	var last candidate
	for i, a := range addresses {
		if before[i].ok {
			last = before[i]
		}
		c := exact[i]
		if !c.ok && last.ok && a-last.address < last.size {
			c = last
		}
		if exact[i].ok && exact[i].size != 0 {
			last = exact[i]
		}
		if c.ok && result[i].name == "" {
			exact[i] = c
			result[i].start = c.address
			chosen = append(chosen, uint64(c.name)<<32|uint64(i))
			if c.size != 0 {
				result[i].end = c.address + c.size
			}
		}
	}
	slices.Sort(chosen)
	names := stringTable{o: o, s: o.f.Sections[table.Link]}
	for _, packed := range chosen {
		i := uint32(packed)
		name, err := names.at(packed >> 32)
		if err != nil {
			return err
		}
		if exact[i].kind == elf.STT_NOTYPE && (strings.HasPrefix(name, "$") || strings.HasPrefix(name, ".L")) {
			continue // a mapping symbol or a compiler label
		}
		result[i].name = name
	}
	return o.findOthers(table, functions, exact, result)
}

// findOthers sets the names of the functions at an address that findIn did not choose. functions has
// the offsets of the names of all functions above indexes.
func (o *ELF) findOthers(table *elf.Section, functions []uint64, chosen []candidate, result []found) error {
	slices.Sort(functions)
	names := stringTable{o: o, s: o.f.Sections[table.Link]}
	for _, packed := range slices.Compact(functions) {
		i := uint32(packed)
		if f := &result[i]; uint32(packed>>32) != chosen[i].name && f.name != "" && len(f.others) < maxOthers {
			name, err := names.at(packed >> 32)
			if err != nil {
				return err
			}
			if name != "" && name != f.name {
				f.others = append(f.others, name)
			}
		}
	}
	return nil
}

// maxOthers limits the names that are kept for an address.
const maxOthers = 10_000

// stringTable reads strings at ascending offsets through a small window. String tables are much
// larger than the strings that are read.
type stringTable struct {
	o      *ELF
	s      *elf.Section
	window []byte
	start  uint64 // offset of the window in the section

	last   string // previous string and its offset
	lastAt uint64
}

const (
	stringWindow = 64 << 10
	stringLimit  = 1 << 20 // bytes to read for one name; longer names are damage
)

func (t *stringTable) at(offset uint64) (string, error) {
	// Strings can overlap. They share memory, so a file with a million suffixes of one long
	// string does not need memory for each.
	if offset >= t.lastAt && offset-t.lastAt < uint64(len(t.last)) {
		return t.last[offset-t.lastAt:], nil
	}
	for size := uint64(stringWindow); ; size *= 4 {
		if offset >= t.start && offset-t.start < uint64(len(t.window)) {
			b := t.window[offset-t.start:]
			if i := bytes.IndexByte(b, 0); i >= 0 {
				t.last, t.lastAt = string(b[:i]), offset
				return t.last, nil
			}
		}
		if offset >= t.s.FileSize || size > stringLimit {
			return "", nil
		}
		if err := t.o.check(t.s); err != nil {
			return "", err
		}
		n := int(min(size, t.s.FileSize-offset))
		t.window = slices.Grow(t.window[:0], n)[:n]
		t.start = offset
		if _, err := t.o.r.ReadAt(t.window, int64(t.s.Offset+offset)); err != nil && err != io.EOF {
			return "", fmt.Errorf("section %s: %w", t.s.Name, err)
		}
	}
}
