package debuginfo

import (
	"debug/elf"
	"strings"
)

// Code reads the machine code of a linked file. It is safe for concurrent use.
type Code struct{ sections []*Section }

// maxCodeSections limits the sections of a file that have code. Linked files have a few.
const maxCodeSections = 256

// NewCode returns the code of a file. A relocatable file has none, because its jumps have no
// targets yet.
func NewCode(o *ELF) *Code {
	c := &Code{}
	for i, s := range o.f.Sections {
		if isCode(s) && !o.Relocatable() && len(c.sections) < maxCodeSections {
			c.sections = append(c.sections, &Section{o: o, s: s, index: i})
		}
	}
	return c
}

// At returns up to n bytes from an address; fewer at the end of a section. It returns nil if the
// file has no code there. The caller must not change the bytes.
func (c *Code) At(address uint64, n int) []byte {
	for _, s := range c.sections {
		if address < s.s.Addr || address-s.s.Addr >= s.s.Size {
			continue
		}
		offset := address - s.s.Addr
		code, err := s.near(offset, int(min(uint64(n), s.s.Size-offset)))
		if err != nil {
			return nil
		}
		return code
	}
	return nil
}

// isCode reports whether a section has machine code that is not compressed.
func isCode(s *elf.Section) bool {
	const flags = elf.SHF_ALLOC | elf.SHF_EXECINSTR
	return s.Type == elf.SHT_PROGBITS && s.Flags&flags == flags && s.Flags&elf.SHF_COMPRESSED == 0
}

// Pointer is the value that the loader writes into a word of a linked file: the address of a
// symbol, or an address in the file itself.
type Pointer struct {
	Symbol  string // "" for an address in the file
	Address uint64 // link-time address; 0 if the file does not define the symbol
}

// pointerTypes has the dynamic relocations that write addresses of symbols, by machine: ABS64,
// GLOB_DAT and JUMP_SLOT.
var pointerTypes = map[elf.Machine][]uint32{
	elf.EM_X86_64:  {1, 6, 7},
	elf.EM_AARCH64: {257, 1025, 1026},
}

// Pointers calls f for each word that the loader fills with a pointer. at is the address of the
// word. Pointers supports x86-64 and AArch64, and finds nothing for other machines.
func (o *ELF) Pointers(f func(at uint64, p Pointer)) error {
	types := pointerTypes[o.f.Machine]
	if types == nil || o.Relocatable() {
		return nil
	}
	tables := make(map[uint32][]DynamicSymbol)
	for _, rs := range o.f.Sections {
		if rs.Type != elf.SHT_RELA || rs.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		table, ok := tables[rs.Link]
		if !ok {
			table = o.dynamicSymbols(rs.Link)
			tables[rs.Link] = table
		}
		err := o.eachRelocation(rs, func(e relocEntry) error {
			if e.kind == relativeTypes[o.f.Machine] {
				f(e.offset, Pointer{Address: e.addend})
				return nil
			}
			for _, kind := range types {
				if e.kind == kind && uint64(e.symbol) < uint64(len(table)) {
					s := table[e.symbol]
					p := Pointer{Symbol: s.Name}
					if s.Address != 0 {
						p.Address = s.Address + e.addend
					}
					f(e.offset, p)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// DynamicSymbol is a symbol that a file imports or exports.
type DynamicSymbol struct {
	Name    string
	Address uint64 // 0 if the file does not define it
}

// DynamicSymbols returns the dynamic symbols of a linked file.
func (o *ELF) DynamicSymbols() []DynamicSymbol {
	for i, s := range o.f.Sections {
		if s.Type == elf.SHT_DYNSYM {
			return o.dynamicSymbols(uint32(i))
		}
	}
	return nil
}

// dynamicSymbols reads the symbol table in a section; nothing if it is damaged.
func (o *ELF) dynamicSymbols(section uint32) []DynamicSymbol {
	if uint64(section) >= uint64(len(o.f.Sections)) || o.f.Sections[section].Type != elf.SHT_DYNSYM {
		return nil
	}
	table := o.f.Sections[section]
	names := o.symbolNames(table)
	if names == nil {
		return nil
	}
	text := string(names) // the names share its memory
	var list []DynamicSymbol
	err := o.symbols(table, func(s symbol) {
		d := DynamicSymbol{Name: cstring(text, uint64(s.name))}
		if s.section != 0 {
			d.Address = s.address
		}
		list = append(list, d)
	})
	if err != nil {
		return nil
	}
	return list
}

// cstring returns the zero-terminated string at an offset; "" if there is none, or if it is
// longer than any name.
func cstring(text string, offset uint64) string {
	const longest = 1 << 13
	if offset >= uint64(len(text)) {
		return ""
	}
	text = text[offset:min(uint64(len(text)), offset+longest)]
	end := strings.IndexByte(text, 0)
	return text[:max(end, 0)]
}
