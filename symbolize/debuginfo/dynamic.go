package debuginfo

import (
	"bytes"
	"debug/elf"
	"slices"
)

// Dynamic calls f for each entry of the dynamic section, and stops at an error of f. text
// returns the string that a value refers to.
func (o *ELF) Dynamic(f func(tag elf.DynTag, text func() string, value uint64) error) error {
	table := o.f.SectionByType(elf.SHT_DYNAMIC)
	if table == nil {
		return nil
	}
	if err := o.check(table); err != nil {
		return err
	}
	var names *Section
	if i := int(table.Link); i < len(o.f.Sections) {
		names = &Section{o: o, s: o.f.Sections[i], index: i}
	}
	return o.eachEntry(table, 2*o.word, func(_ int, b []byte) error {
		tag, value := o.uint(b, o.word), o.uint(b[o.word:], o.word)
		return f(elf.DynTag(tag), func() string { return names.cstring(value) }, value)
	})
}

// Imports reports whether the file has an undefined dynamic symbol with a name.
func (o *ELF) Imports(name string) bool {
	table := o.f.SectionByType(elf.SHT_DYNSYM)
	if table == nil || int(table.Link) >= len(o.f.Sections) {
		return false
	}
	names, err := (&Section{o: o, s: o.f.Sections[table.Link], index: int(table.Link)}).Bytes()
	if err != nil {
		return false
	}
	at := make(map[uint32]bool) // offsets of the name
	for from := 0; ; {
		i := bytes.Index(names[from:], append([]byte(name), 0))
		if i < 0 {
			break
		}
		at[uint32(from+i)] = true
		from += i + 1
	}
	found := false
	err = o.symbols(table, func(s symbol) { found = found || s.section == 0 && at[s.name] })
	return err == nil && found
}

// IsProgram reports whether the file is a program, not a shared object.
func (o *ELF) IsProgram() bool {
	if o.f.Type == elf.ET_EXEC || slices.ContainsFunc(o.f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return true
	}
	position := false
	err := o.Dynamic(func(tag elf.DynTag, _ func() string, value uint64) error {
		position = position || tag == elf.DT_FLAGS_1 && elf.DynFlag1(value)&elf.DF_1_PIE != 0
		return nil
	})
	return err == nil && position
}
