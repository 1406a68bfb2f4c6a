package debuginfo

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// debugData has the debug sections of a file: a program, a .dwo or .dwp file, or a file of dwz.
type debugData struct {
	o                                      *ELF
	info, abbrev, str, lineStr, strOffsets *Section
	addr, ranges, rnglists, line, index    *Section
	loc, loclists                          *Section
	alt                                    *debugData // file of dwz; nil if there is none
	abbrevBytes                            uint64     // bytes of abbreviations that were read as tables
	abbrevCached                           int        // bytes of abbreviations in abbrevs
	abbrevHeld                             int        // bytes of abbreviations that units keep
	subprograms                            int        // number in all units
	abbrevs                                map[abbrevKey]*abbrevTable
	scratch                                abbrevTable // table that is being read
	once                                   sync.Once
	list                                   []*unit // by offset
	err                                    error

	files       lineFiles // of the line table that was read last
	tableOffset int64

	loaded      []*unit // whose entries were read; see debugInfo.release
	loadedBytes int

	typePlaces map[uint64]typePlace // type units by signature; nil while unused
	typeRead   map[uint64]*unit     // type units that were read
}

func newDebugData(o *ELF) *debugData {
	d := &debugData{o: o, abbrevs: make(map[abbrevKey]*abbrevTable)}
	for name, p := range map[string]**Section{
		"info": &d.info, "abbrev": &d.abbrev, "str": &d.str, "line_str": &d.lineStr, "str_offsets": &d.strOffsets,
		"addr": &d.addr, "ranges": &d.ranges, "rnglists": &d.rnglists, "line": &d.line,
		"loc": &d.loc, "loclists": &d.loclists,
	} {
		if *p = o.section(".debug_" + name); *p == nil {
			*p = o.section(".debug_" + name + ".dwo")
		}
	}
	d.index = o.section(".debug_cu_index")
	return d
}

// forget drops the memory that sections keep for small reads.
func (d *debugData) forget() {
	for _, s := range []*Section{d.info, d.abbrev, d.str, d.lineStr, d.strOffsets, d.addr, d.ranges, d.rnglists, d.line, d.loc, d.loclists} {
		s.forget()
	}
}

func (d *debugData) lineString(offset uint64) string  { return d.lineStr.cstring(offset) }
func (d *debugData) debugString(offset uint64) string { return d.str.cstring(offset) }

// Kinds of units, from the DWARF 5 standard, section 7.5.1.
const (
	unitType      = 2
	unitSkeleton  = 4
	unitSplit     = 5
	unitSplitType = 6
)

// unitKind has the properties of a unit that forms depend on: 64-bit DWARF, and the size of
// addresses.
type unitKind struct {
	wide        bool
	addressSize int
}

// unit is a compilation unit. Strings, addresses and ranges can be given by index, relative to
// bases in the unit.
type unit struct {
	d              *debugData
	at, first, end uint64 // in .debug_info: the unit, its first entry, and its end
	version        uint64
	unitKind
	kind                  uint64
	abbrevAt              uint64
	abbrevs               *abbrevTable // nil while unused
	id                    uint64       // of split units and their skeletons; 0 for none
	data                  []byte       // of the unit; nil while unused
	strBase, rnglistsBase uint64
	addrBase, rangesBase  uint64
	loclistsBase, locBase uint64 // of .debug_loclists; of .debug_loc in a package
	typeAt                uint64 // offset of the type in a type unit
	scopes                *scopeIndex
	addresses             *debugData // file with .debug_addr and .debug_ranges
	low                   uint64     // the address that ranges are relative to
	dir                   *unitText  // compilation directory; nil for none
	dwo                   string     // name of the split unit's file
	table                 int64      // offset of the line table; -1 for none
	lines                 *debugData // file with the line table
	root                  die

	listed      int          // entries of lists of ranges that were read
	subprograms []subprogram // by address; nil while unused
	indexed     bool
}

// maxUnits limits the units of a file. Each takes some 1,500 bytes of memory.
const maxUnits = 1 << 17

// units returns the units of the file.
func (d *debugData) units() ([]*unit, error) {
	d.once.Do(func() {
		if d.info == nil || d.abbrev == nil {
			return
		}
		var count unitCount
		for at := uint64(0); at+4 <= d.info.s.Size; {
			// The header of a unit fits into this.
			b, err := d.info.at(at, 64)
			if err != nil {
				d.err = fmt.Errorf("section %s: %w", d.info.s.Name, err)
				return
			}
			u := unit{d: d, at: at, addresses: d, lines: d, table: -1}
			c := cursor{b: b, order: d.o.f.ByteOrder}
			length := c.uint(4)
			if length == 0xFFFFFFFF {
				length, u.wide = c.uint(8), true
			}
			head := at + uint64(len(b)-len(c.b))
			if c.bad || length > d.info.s.Size-min(head, d.info.s.Size) {
				d.err = fmt.Errorf("section %s: unit at %#x: its %d bytes exceed the section", d.info.s.Name, at, length)
				return
			}
			if err := count.add(length); err != nil {
				d.err = fmt.Errorf("section %s: %w", d.info.s.Name, err)
				return
			}
			u.end = head + length
			ok := u.header(&c)
			if u.first = at + uint64(len(b)-len(c.b)); ok && u.first < u.end {
				if len(d.list) == maxUnits {
					d.err = fmt.Errorf("section %s: more than %d units", d.info.s.Name, maxUnits)
					return
				}
				kept := u
				d.list = append(d.list, &kept)
			}
			at = u.end
		}
	})
	return d.list, d.err
}

// header reads the header of a unit. It returns false for units without code.
func (u *unit) header(c *cursor) bool {
	u.version = c.uint(2)
	switch {
	case u.version >= 5:
		u.kind = c.uint(1)
		u.addressSize = int(c.uint(1))
		u.abbrevAt = c.offset(u.wide)
		switch u.kind {
		case unitSkeleton, unitSplit:
			u.id = c.uint(8)
		case unitType, unitSplitType:
			u.id, u.typeAt = c.uint(8), c.offset(u.wide)
			return false // has no code
		}
	default:
		u.abbrevAt = c.offset(u.wide)
		u.addressSize = int(c.uint(1))
	}
	return !c.bad && u.version >= 2 && u.version <= lastStandardVersion &&
		(u.addressSize == 4 || u.addressSize == 8)
}

// offsetSize returns the size of offsets into sections.
func (k unitKind) offsetSize() uint64 {
	if k.wide {
		return 8
	}
	return 4
}

// readRoot reads the first entry, which has the bases for the others.
func (u *unit) readRoot() bool {
	if u.root.tag != 0 {
		return true
	}
	for size := 512; ; size *= 16 {
		n := int(min(uint64(size), u.end-u.first))
		b, err := u.d.info.at(u.first, n)
		if err != nil {
			return false
		}
		c := cursor{b: b, order: u.d.o.f.ByteOrder}
		code := c.uleb()
		var e die
		if t, a := u.d.abbreviation(u.abbrevKey(), code); a != nil && u.fields(&c, u.first, n, t, a, &e) {
			u.setRoot(&e)
			return true
		}
		if uint64(n) == u.end-u.first || size > 1<<20 {
			return false
		}
	}
}

func (u *unit) setRoot(e *die) {
	u.root = *e
	if e.strBase.form != 0 {
		u.strBase = e.strBase.n
	}
	if e.rnglistsBase.form != 0 {
		u.rnglistsBase = e.rnglistsBase.n
	}
	if e.loclistsBase.form != 0 {
		u.loclistsBase = e.loclistsBase.n
	}
	if e.addrBase.form != 0 {
		u.addrBase = e.addrBase.n
	}
	if e.rangesBase.form != 0 {
		u.rangesBase = e.rangesBase.n
	}
	if e.dwoID.form != 0 {
		u.id = e.dwoID.n
	}
	if e.stmtList.form != 0 {
		u.table = int64(e.stmtList.n)
	}
	if u.dir = nil; e.compDir.form != 0 {
		u.dir = &unitText{u.d, u.strBase, u.unitKind, e.compDir}
		u.dir.value.inline = bytes.Clone(e.compDir.inline) // the data of the unit may go
	}
	u.dwo = u.text(e.dwoName)
	u.low, _ = u.address(e.low)
}

// load reads the entries of the unit.
func (u *unit) load() error {
	if u.data != nil {
		return nil
	}
	b, err := u.d.info.at(u.first, int(u.end-u.first))
	u.data = b
	u.d.loaded, u.d.loadedBytes = append(u.d.loaded, u), u.d.loadedBytes+len(b)
	return err
}

// unitAt returns the unit that contains an offset.
func (d *debugData) unitAt(offset uint64) *unit {
	list, _ := d.units()
	i, ok := slices.BinarySearchFunc(list, offset, func(u *unit, at uint64) int { return cmp.Compare(u.at, at) })
	if !ok {
		i--
	}
	if i < 0 || offset >= list[i].end || offset < list[i].first || !list[i].readRoot() {
		return nil
	}
	return list[i]
}

// text resolves a string.
func (u *unit) text(v value) string {
	t := unitText{u.d, u.strBase, u.unitKind, v}
	return t.String()
}

// unitText is a string of a unit that is resolved on use.
type unitText struct {
	d       *debugData
	strBase uint64
	kind    unitKind
	value   value
}

// String resolves the string; "" for nil.
func (t *unitText) String() string {
	if t == nil {
		return ""
	}
	switch d := t.d; t.value.form {
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		size := t.kind.offsetSize()
		b, err := d.strOffsets.near(t.strBase+t.value.n*size, int(size))
		if err != nil || uint64(len(b)) < size {
			return ""
		}
		return d.str.cstring(d.o.uint(b, int(size)))
	case formGNUStrpAlt, formStrpSup:
		if d.alt == nil {
			return ""
		}
		return d.alt.str.cstring(t.value.n)
	}
	return t.value.text(t.d)
}

// address resolves an address.
func (u *unit) address(v value) (uint64, bool) {
	switch v.form {
	case formAddr:
		return v.n, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		b, err := u.addresses.addr.near(u.addrBase+v.n*uint64(u.addressSize), u.addressSize)
		if err != nil || len(b) < u.addressSize {
			return 0, false
		}
		return u.d.o.uint(b, u.addressSize), true
	}
	return 0, false
}

// addressRange is a range of addresses, not including high.
type addressRange struct{ low, high uint64 }

// pieces returns the address ranges of an entry.
func (u *unit) pieces(e *die) (list []addressRange) {
	if e.ranges.form != 0 {
		if u.version >= 5 {
			list = u.rangeList(e.ranges)
		} else if e.tag == tagCompileUnit {
			list = u.oldRanges(e.ranges.n)
		} else {
			list = u.oldRanges(u.rangesBase + e.ranges.n)
		}
		return list
	}
	low, ok := u.address(e.low)
	if !ok || e.high.form == 0 {
		return nil
	}
	high, absolute := u.address(e.high)
	if !absolute {
		high = low + e.high.n
	}
	if high <= low {
		return nil
	}
	return []addressRange{{low, high}}
}

// maxPieces limits the ranges in lists of a unit. In damaged files, lists can overlap.
const maxPieces = 1 << 20

// oldRanges reads a list of .debug_ranges.
func (u *unit) oldRanges(offset uint64) []addressRange {
	var list []addressRange
	base := u.low
	highest := ^uint64(0) >> (64 - 8*u.addressSize)
	for u.listed < maxPieces {
		b, err := u.addresses.ranges.near(offset, 2*u.addressSize)
		if err != nil || len(b) < 2*u.addressSize {
			break
		}
		offset += uint64(len(b))
		u.listed++
		low, high := u.d.o.uint(b, u.addressSize), u.d.o.uint(b[u.addressSize:], u.addressSize)
		switch {
		case low == 0 && high == 0:
			return list
		case low == highest:
			base = high
		case low < high:
			list = append(list, addressRange{base + low, base + high})
		}
	}
	return list
}

// Entries of range lists, from the DWARF 5 standard, section 7.25.
const (
	rleEnd           = 0
	rleBaseAddressx  = 1
	rleStartxEndx    = 2
	rleStartxLength  = 3
	rleOffsetPair    = 4
	rleBaseAddress   = 5
	rleStartEnd      = 6
	rleStartLength   = 7
	rangeListWindow  = 4 << 10
	rangeListsHeader = 12 // bytes of .debug_rnglists before its first offset; 20 in 64-bit DWARF
)

// rangeList reads a list of .debug_rnglists.
func (u *unit) rangeList(v value) []addressRange {
	offset := v.n
	if v.form == formRnglistx {
		size := u.offsetSize()
		b, err := u.d.rnglists.near(u.rnglistsBase+v.n*size, int(size))
		if err != nil || uint64(len(b)) < size {
			return nil
		}
		offset = u.rnglistsBase + u.d.o.uint(b, int(size))
	}
	var list []addressRange
	var base uint64
	indexed := func(n uint64) uint64 {
		a, _ := u.address(value{form: formAddrx, n: n})
		return a
	}
	for window := rangeListWindow; ; window *= 16 {
		b, err := u.d.rnglists.near(offset, window)
		if err != nil {
			return nil
		}
		c := cursor{b: b, order: u.d.o.f.ByteOrder}
		list, base = list[:0], u.low
		for !c.bad && u.listed < maxPieces {
			u.listed++
			var r addressRange
			switch c.uint8() {
			case rleEnd:
				if !c.bad {
					return list
				}
			case rleBaseAddressx:
				base = indexed(c.uleb())
			case rleStartxEndx:
				r.low = indexed(c.uleb())
				r.high = indexed(c.uleb())
			case rleStartxLength:
				r.low = indexed(c.uleb())
				r.high = r.low + c.uleb()
			case rleOffsetPair:
				r.low = base + c.uleb()
				r.high = base + c.uleb()
			case rleBaseAddress:
				base = c.uint(u.addressSize)
			case rleStartEnd:
				r.low = c.uint(u.addressSize)
				r.high = c.uint(u.addressSize)
			case rleStartLength:
				r.low = c.uint(u.addressSize)
				r.high = r.low + c.uleb()
			default:
				return list
			}
			if r.low < r.high && !c.bad {
				list = append(list, r)
			}
		}
		if len(b) < window || u.listed >= maxPieces {
			return list
		}
	}
}
