package debuginfo

import (
	"bytes"
	"debug/elf"
	"errors"
	"slices"
	"strings"
)

// maxScan limits the bytes of code and data that are searched in a file.
const maxScan = 1 << 30

// scanSize is the size of the pieces that are read, and scanMore is how far they overlap, in bytes.
const (
	scanSize = 1 << 20
	scanMore = 8
)

// EachCode calls f for the machine code of a linked file in pieces. A piece begins at an address
// and has n bytes. data also has up to 8 bytes after the piece. f must not keep data.
func (o *ELF) EachCode(f func(address uint64, n int, data []byte)) error {
	return o.scan(isCode, f)
}

// EachData is like EachCode, for the initial data of a program. It skips tables that only unwinders,
// the dynamic loader and XRay read.
func (o *ELF) EachData(f func(address uint64, n int, data []byte)) error {
	return o.scan(func(s *elf.Section) bool {
		switch s.Type {
		case elf.SHT_PROGBITS, elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY, elf.SHT_PREINIT_ARRAY:
		default:
			return false
		}
		const flags = elf.SHF_ALLOC | elf.SHF_EXECINSTR
		return s.Flags&flags == elf.SHF_ALLOC && !slices.ContainsFunc([]string{"xray_", ".eh_frame", ".gcc_except_table"},
			func(prefix string) bool { return strings.HasPrefix(s.Name, prefix) })
	}, f)
}

func (o *ELF) scan(want func(*elf.Section) bool, f func(address uint64, n int, data []byte)) error {
	left := uint64(maxScan)
	for i, s := range o.f.Sections {
		if o.Relocatable() || !want(s) {
			continue
		}
		if s.Size > left {
			return errors.New("too much code and data to search")
		}
		left -= s.Size
		section := &Section{o: o, s: s, index: i}
		for offset := uint64(0); offset < s.Size; offset += scanSize {
			data, err := section.at(offset, scanSize+scanMore)
			if err != nil {
				return err
			}
			f(s.Addr+offset, min(len(data), scanSize), data)
		}
	}
	return nil
}

// CodeStart is the kind of code that begins at an address.
type CodeStart uint8

const (
	FunctionStart CodeStart = iota
	LabelStart              // a label, which need not be a function
	MainStart               // the function main
)

// CodeStarts calls f for each address at which code begins, according to the symbol table of the
// binary or its debug file. The starts of code sections also count. It returns an error if there is
// no symbol table.
func (b *Binary) CodeStarts(f func(address uint64, what CodeStart)) error {
	var found bool
	for _, o := range b.symbols {
		table := o.f.SectionByType(elf.SHT_SYMTAB)
		if table == nil {
			continue
		}
		found = true
		names := o.symbolNames(table)
		err := o.symbols(table, func(s symbol) {
			switch {
			case s.section == 0 || uint64(s.section) >= uint64(len(o.f.Sections)) || o.f.Sections[s.section].Flags&elf.SHF_EXECINSTR == 0:
			case s.kind == elf.STT_FUNC && uint64(s.name) < uint64(len(names)) && bytes.HasPrefix(names[s.name:], []byte("main\x00")):
				f(s.address, MainStart)
			case s.kind == elf.STT_FUNC, s.kind == elf.STT_GNU_IFUNC:
				f(s.address, FunctionStart)
			case s.kind == elf.STT_NOTYPE:
				f(s.address, LabelStart)
			}
		})
		if err != nil {
			return err
		}
		break
	}
	if !found {
		return errors.New("no symbol table")
	}
	for _, s := range b.elf.f.Sections {
		if isCode(s) {
			f(s.Addr, FunctionStart)
		}
	}
	return nil
}

// symbolNames returns the string table of a symbol table; nil if it is damaged.
func (o *ELF) symbolNames(table *elf.Section) []byte {
	link := int(table.Link)
	if uint64(table.Link) >= uint64(len(o.f.Sections)) {
		return nil
	}
	names, err := (&Section{o: o, s: o.f.Sections[link], index: link}).Bytes()
	if err != nil {
		return nil
	}
	return names
}
