package debuginfo

// typePlace is the place of a type unit: in .debug_info, or in .debug_types of DWARF 4.
type typePlace struct {
	d          *debugData // whose info section has the unit
	at, length uint64     // of the unit
}

// typeUnit returns the type unit with a signature that a unit refers to; nil if there is none.
func (d *debugData) typeUnit(from *unit, signature uint64) *unit {
	if u, ok := d.typeRead[signature]; ok {
		return u
	}
	if d.typePlaces == nil {
		d.findTypeUnits()
	}
	var found *unit
	if p, ok := d.typePlaces[signature]; ok {
		found = p.d.readTypeUnit(p, from)
	}
	d.typeRead[signature] = found
	return found
}

// findTypeUnits lists the type units of the file. Of equal units, the first one counts.
func (d *debugData) findTypeUnits() {
	d.typePlaces, d.typeRead = make(map[uint64]typePlace), make(map[uint64]*unit)
	for _, name := range []string{"", ".debug_types", ".debug_types.dwo"} {
		in := d
		if name != "" {
			s := d.o.section(name)
			if s == nil {
				continue
			}
			in = newDebugData(d.o)
			in.info, in.alt = s, d.alt
		}
		if in.info == nil {
			continue
		}
		in.eachTypeUnit(func(u *unit) {
			if _, ok := d.typePlaces[u.id]; !ok {
				d.typePlaces[u.id] = typePlace{in, u.at, u.end - u.at}
			}
		})
	}
}

// eachTypeUnit calls f with the headers of the type units of the info section. It stops at damage.
func (d *debugData) eachTypeUnit(f func(u *unit)) {
	var count unitCount
	for at := uint64(0); at+4 <= d.info.s.Size; {
		b, err := d.info.near(at, 64)
		if err != nil {
			return
		}
		u := unit{d: d, at: at, table: -1}
		if !u.typeHeader(b) || count.add(u.end-at) != nil {
			return
		}
		if u.id != 0 && (u.kind == unitType || u.kind == unitSplitType) {
			f(&u)
		}
		at = u.end
	}
}

// typeHeader reads the header of a unit that may be a type unit. It returns false if the section is
// damaged there.
func (u *unit) typeHeader(b []byte) bool {
	c := cursor{b: b, order: u.d.o.f.ByteOrder}
	length := c.uint(4)
	if length == 0xFFFFFFFF {
		length, u.wide = c.uint(8), true
	}
	head := u.at + uint64(len(b)-len(c.b))
	if c.bad || head > u.d.info.s.Size || length > u.d.info.s.Size-head || length == 0 {
		return false
	}
	u.end = head + length
	u.header(&c)
	if u.version == 4 && (u.d.info.s.Name == ".debug_types" || u.d.info.s.Name == ".debug_types.dwo") {
		u.kind, u.id, u.typeAt = unitType, c.uint(8), c.offset(u.wide)
	}
	u.first = u.at + uint64(len(b)-len(c.b))
	return true
}

// readTypeUnit reads a type unit for a unit of the same file. A split type unit has no bases of its
// own for strings and addresses: it has those of the unit.
func (d *debugData) readTypeUnit(p typePlace, from *unit) *unit {
	b, err := d.info.near(p.at, 64)
	if err != nil {
		return nil
	}
	u := &unit{d: d, at: p.at, addresses: from.addresses, lines: from.lines, table: -1}
	if !u.typeHeader(b) || u.first >= u.end || u.addressSize != 4 && u.addressSize != 8 {
		return nil
	}
	if u.kind == unitSplitType || from.kind == unitSplit || from.dwo != "" {
		u.strBase, u.addrBase = from.strBase, from.addrBase
	}
	if !u.readRoot() {
		return nil
	}
	return u
}
