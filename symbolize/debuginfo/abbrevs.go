package debuginfo

import (
	"encoding/binary"
	"slices"
)

// abbrev is an abbreviation for units of a kind.
type abbrev struct {
	tag   uint64
	size  uint32 // bytes of the attributes before the first one of varying size
	step  uint32 // index of the first step after these
	field uint32 // index of the first attribute
	steps uint16
	// fields is the number of attributes. Only those of entries with a role are kept, unless all
	// are wanted.
	fields   uint16
	role     role
	children bool
}

// step skips an attribute of varying size, and then size bytes of other attributes.
type step struct {
	form uint32
	size uint32
}

// abbrevField is an attribute of an entry.
type abbrevField struct {
	name, form uint16
	size       int32 // in bytes; -1 if it varies
	implicit   int64 // value in all entries
}

// abbrevTable has abbreviations by code. Codes nearly always count from 1. Its lists have no
// pointers, because many tables are used for a short time only.
type abbrevTable struct {
	dense  []abbrev // from code 1 on
	rest   map[uint64]abbrev
	steps  []step
	fields []abbrevField
	bytes  int              // size in the file
	order  binary.ByteOrder // of the entries
}

// at returns the abbreviation with a code; nil if there is none.
func (t *abbrevTable) at(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1]
	}
	if a, ok := t.rest[code]; ok {
		return &a
	}
	return nil
}

func (t *abbrevTable) add(code uint64, a abbrev) {
	switch {
	case code == uint64(len(t.dense)+1):
		t.dense = append(t.dense, a)
	case t.rest == nil:
		t.rest = map[uint64]abbrev{code: a}
	default:
		t.rest[code] = a
	}
}

// seek finds the next entry with one of the roles, starting at an offset in the data of a unit.
// It returns false at the end and at damage.
func (t *abbrevTable) seek(r role, b []byte, at int, k unitKind) (int, bool) {
	for uint(at) < uint(len(b)) {
		code := uint(b[at])
		if code == 0 { // ends a list, or is padding
			at++
			continue
		}
		start := at
		at++
		if code >= 0x80 && at < len(b) && b[at] < 0x80 {
			code = code&0x7F | uint(b[at])<<7
			at++
		} else if code >= 0x80 {
			c := cursor{b: b[start:]}
			if code = uint(c.uleb()); c.bad {
				return 0, false
			}
			at = len(b) - len(c.b)
		}
		var a *abbrev
		if code-1 < uint(len(t.dense)) {
			a = &t.dense[code-1]
		} else if a = t.at(uint64(code)); a == nil {
			if code == 0 { // a zero in several bytes
				continue
			}
			return 0, false
		}
		if a.role&r != 0 {
			return start, true
		}
		if a.steps == 0 {
			at += int(a.size)
			continue
		}
		at += t.skip(a, b, at, k)
	}
	return 0, false
}

// skip returns the size of the attributes of an entry at an offset in the data of a unit. If
// they are damaged, the result is larger than the data.
func (t *abbrevTable) skip(a *abbrev, b []byte, at int, k unitKind) int {
	start := at
	at += int(a.size)
	for _, s := range t.steps[a.step:][:a.steps] {
		if uint(at) >= uint(len(b)) {
			return len(b) + 1 - start
		}
		switch s.form {
		case formUdata, formStrx, formRefUdata, formLoclistx, formRnglistx, formAddrx, formSdata:
			for at < len(b) && b[at] >= 0x80 {
				at++
			}
			at++
		case formExprloc, formBlock:
			if n := b[at]; n < 0x80 { // nearly all
				at += 1 + int(n)
				break
			}
			fallthrough
		default:
			c := cursor{b: b[at:], order: t.order}
			c.form(uint64(s.form), k)
			if c.bad {
				return len(b) + 1 - start
			}
			at = len(b) - len(c.b)
		}
		at += int(s.size)
	}
	return at - start
}

// abbrevLimit limits the bytes of an abbreviation table. The largest tables of linked programs
// have some thousand entries. Tables hardly overlap, so each byte is read a few times at most.
const abbrevLimit = 1 << 20

// abbrevCache limits the bytes of abbreviations that are kept as tables. Tables take up to 16
// times as much.
const abbrevCache = 2 << 20

// abbrevKey is the offset of an abbreviation table and the kind of its units. With all, the table
// keeps the attributes of all entries, not only of those with a role.
type abbrevKey struct {
	offset uint64
	kind   unitKind
	all    bool
}

// abbreviations returns the table for units of a kind.
func (d *debugData) abbreviations(key abbrevKey) *abbrevTable {
	if t, ok := d.abbrevs[key]; ok {
		return t
	}
	if d.abbrevCached > abbrevCache {
		clear(d.abbrevs)
		d.abbrevCached = 0
	}
	d.readAbbreviations(key, &d.scratch)
	t := d.scratch.clone()
	d.abbrevCached += t.bytes
	d.abbrevs[key] = t
	return t
}

// readAbbreviations reads a table into the memory of t. If tables overlap too much, t stays
// empty.
func (d *debugData) readAbbreviations(key abbrevKey, t *abbrevTable) {
	t.reset(d.o.f.ByteOrder)
	for size := 4 << 10; size <= abbrevLimit && d.abbrevBytes <= abbrevLimit+4*d.abbrev.s.Size; size *= 4 {
		b, err := d.abbrev.near(key.offset, size)
		if err != nil {
			break
		}
		t.reset(d.o.f.ByteOrder)
		c := cursor{b: b, order: d.o.f.ByteOrder}
		done := t.parse(&c, key, 0)
		t.bytes = len(b) - len(c.b)
		d.abbrevBytes += uint64(t.bytes)
		if done || len(b) < size {
			break
		}
	}
}

// abbreviation returns the abbreviation of the first entry of a unit. It is nearly always the first
// of its table, so abbreviation usually does not read the whole table. It returns nil if there is
// none. The result is valid until the next call.
func (d *debugData) abbreviation(key abbrevKey, code uint64) (*abbrevTable, *abbrev) {
	if t, ok := d.abbrevs[key]; ok {
		return t, t.at(code)
	}
	b, err := d.abbrev.near(key.offset, 512)
	if err != nil {
		return nil, nil
	}
	t := &d.scratch
	t.reset(d.o.f.ByteOrder)
	t.parse(&cursor{b: b, order: d.o.f.ByteOrder}, key, code)
	if a := t.at(code); a != nil {
		return t, a
	}
	t = d.abbreviations(key)
	return t, t.at(code)
}

func (t *abbrevTable) reset(order binary.ByteOrder) {
	*t = abbrevTable{dense: t.dense[:0], steps: t.steps[:0], fields: t.fields[:0], order: order}
}

func (t *abbrevTable) clone() *abbrevTable {
	c := *t
	c.dense, c.steps, c.fields = slices.Clone(t.dense), slices.Clone(t.steps), slices.Clone(t.fields)
	return &c
}

// maxFields limits the attributes of an entry, which may take no space in .debug_info.
const maxFields = 256

// parse reads abbreviations up to the end of the table, or up to the code wanted if it is not
// 0. It returns false if the input ends first.
func (t *abbrevTable) parse(c *cursor, key abbrevKey, wanted uint64) bool {
	k := key.kind
	for {
		code := c.uleb()
		if c.bad {
			return false
		}
		if code == 0 {
			return true
		}
		a := abbrev{tag: c.uleb(), children: c.uint8() != 0, step: uint32(len(t.steps)), field: uint32(len(t.fields))}
		first := len(t.fields)
		hasCode := false
		for {
			var name, form uint64
			var implicit int64
			if b := c.b; len(b) > 1 && b[0]|b[1] < 0x80 { // nearly all
				name, form, c.b = uint64(b[0]), uint64(b[1]), b[2:]
			} else {
				name, form = c.uleb(), c.uleb()
			}
			if form == formImplicitConst {
				implicit = c.sleb()
			}
			if c.bad || len(t.fields)-first > maxFields {
				return false
			}
			if name == 0 && form == 0 {
				break
			}
			name, form = min(name, atUnknown), min(form, formUnknown)
			size := formSize(form, k)
			t.fields = append(t.fields, abbrevField{uint16(name), uint16(form), int32(size), implicit})
			hasCode = hasCode || name == atLowPC || name == atRanges
			t.pass(&a, form, size)
		}
		if a.role = roleOf(a.tag, hasCode); a.role == 0 && !key.all {
			t.fields = t.fields[:first]
		}
		a.fields = uint16(len(t.fields) - first)
		t.add(code, a)
		if code == wanted {
			return true
		}
	}
}

// pass adds an attribute to those that an abbreviation skips.
func (t *abbrevTable) pass(a *abbrev, form uint64, size int) {
	switch {
	case size < 0:
		t.steps = append(t.steps, step{form: uint32(form)})
		a.steps++
	case a.steps == 0:
		a.size += uint32(size)
	default:
		t.steps[len(t.steps)-1].size += uint32(size)
	}
}

func roleOf(tag uint64, hasCode bool) role {
	switch tag {
	case tagCompileUnit, tagPartialUnit, tagSkeletonUnit, tagTypeUnit:
		return roleUnit
	case tagSubprogram:
		if hasCode {
			return roleFunction
		}
		return roleDeclaration
	case tagInlined:
		return roleInlined
	case tagCallSite, tagGNUCallSite:
		return roleCall
	}
	return 0
}
