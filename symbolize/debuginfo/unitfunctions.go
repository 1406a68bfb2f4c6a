package debuginfo

import (
	"cmp"
	"debug/elf"
	"slices"
)

// CodeSymbol is a function in a symbol table.
type CodeSymbol struct {
	Linkage       string
	Address, Size uint64
}

// CodeSymbols returns the functions that have a size and machine code, by address. If several have an
// address, it returns the first one in the table. It reads the symbol table of the binary or its debug
// file, or if there is none, the dynamic one. found is false if the file has neither.
func (b *Binary) CodeSymbols() (list []CodeSymbol, found bool, err error) {
	err = Guard(func() error {
		for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
			for _, o := range b.symbols {
				if table := o.f.SectionByType(kind); table != nil && uint64(table.Link) < uint64(len(o.f.Sections)) {
					found = true
					list, err = o.codeSymbols(table)
					return err
				}
			}
		}
		return nil
	})
	return list, found, err
}

func (o *ELF) codeSymbols(table *elf.Section) ([]CodeSymbol, error) {
	var all []symbol
	err := o.symbols(table, func(s symbol) {
		if s.kind == elf.STT_FUNC && s.size > 0 && s.section > 0 && uint64(s.section) < uint64(len(o.f.Sections)) &&
			o.f.Sections[s.section].Flags&elf.SHF_EXECINSTR != 0 {
			all = append(all, s)
		}
	})
	slices.SortStableFunc(all, func(x, y symbol) int { return cmp.Compare(x.address, y.address) })
	all = slices.CompactFunc(all, func(x, y symbol) bool { return x.address == y.address })
	// The string table is read in its own order.
	slices.SortFunc(all, func(x, y symbol) int { return cmp.Compare(x.name, y.name) })
	names := stringTable{o: o, s: o.f.Sections[table.Link]}
	list := make([]CodeSymbol, len(all))
	for i, s := range all {
		name, failed := names.at(uint64(s.name))
		err = cmp.Or(err, failed)
		list[i] = CodeSymbol{name, s.address, s.size}
	}
	slices.SortFunc(list, func(x, y CodeSymbol) int { return cmp.Compare(x.Address, y.Address) })
	return list, err
}

// UnitFunction is a function in the debug information: one that has code of its own, or one that exists
// only inside others.
type UnitFunction struct {
	Unit    string // name of its compilation unit, which is a source file
	Address uint64 // of each range of its code; 0 if it exists only inside others
	Inlined string // linkage name of a function that exists only inside others
}

// UnitFunctions calls f for the functions in the debug information, in the order of the file. It does
// not hold more than one compilation unit in memory. Damaged units lack functions. A function that other
// units have inlined, too, is passed for each of them.
func (b *Binary) UnitFunctions(f func(UnitFunction)) error {
	i := b.info()
	i.mu.Lock()
	defer i.mu.Unlock()
	return Guard(func() error {
		i.prepare() // to find packages
		units, err := i.main.units()
		for _, u := range units {
			if !u.readRoot() {
				continue
			}
			if u.kind == unitSkeleton || u.dwo != "" {
				u = i.split(u)
			}
			if u != nil && u.load() == nil {
				u.functions(f)
				u.data = nil
			}
		}
		return err
	})
}

// functions is [Binary.UnitFunctions] for a unit.
func (u *unit) functions(f func(UnitFunction)) {
	type entry struct {
		u  *unit
		at uint64
	}
	name := u.text(u.root.name)
	var inlined []value
	seen, own := make(map[entry]bool), make(map[entry]bool)
	u.eachWithRole(roleFunction|roleInlined, new(die), func(e *die) bool {
		of, at, _ := u.resolve(e.origin)
		origin := entry{of, at}
		if e.tag == tagSubprogram {
			own[origin] = true
			for _, p := range u.pieces(e) {
				f(UnitFunction{Unit: name, Address: p.low})
			}
		} else if !seen[origin] {
			seen[origin] = true
			inlined = append(inlined, e.origin)
		}
		return true
	})
	for _, v := range inlined {
		of, at, ok := u.resolve(v)
		if !ok || own[entry{of, at}] {
			continue
		}
		if of, e, ok := u.refer(v); ok {
			f(UnitFunction{Unit: name, Inlined: of.function(e)})
		}
		if of != u {
			of.data = nil
		}
	}
}
