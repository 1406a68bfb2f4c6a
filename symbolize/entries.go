package symbolize

import (
	"cmp"
	"fmt"
	"slices"
)

// Tags and attributes, from the DWARF 5 standard, sections 7.5.3 and 7.5.4, and
// GNU's extensions for DWARF 4.
const (
	tagCompileUnit  = 0x11
	tagInlined      = 0x1d
	tagSubprogram   = 0x2e
	tagPartialUnit  = 0x3c
	tagCallSite     = 0x48
	tagSkeletonUnit = 0x4a
	tagGNUCallSite  = 0x4109

	atName           = 0x03
	atStmtList       = 0x10
	atLowPC          = 0x11
	atHighPC         = 0x12
	atCompDir        = 0x1b
	atAbstractOrigin = 0x31
	atSpecification  = 0x47
	atRanges         = 0x55
	atCallColumn     = 0x57
	atCallFile       = 0x58
	atCallLine       = 0x59
	atCallReturnPC   = 0x7d
	atCallOrigin     = 0x7f
	atDeclColumn     = 0x39
	atDeclFile       = 0x3a
	atDeclLine       = 0x3b
	atLinkageName    = 0x6e
	atStrBase        = 0x72
	atAddrBase       = 0x73
	atRnglistsBase   = 0x74
	atDwoName        = 0x76
	atMIPSLinkage    = 0x2007
	atGNUDwoName     = 0x2130
	atGNUDwoID       = 0x2131
	atGNURangesBase  = 0x2132
	atGNUAddrBase    = 0x2133
)

// die is a debugging information entry, with the attributes that matter here; the
// form of those that it does not have is 0.
type die struct {
	at, next uint64 // offset in .debug_info of the entry, and behind it
	tag      uint64 // 0 ends a list of children
	children bool

	name, linkage, origin, specification value
	low, high, ranges                    value
	callFile, callLine, callColumn       value
	declFile, declLine, declColumn       value
	compDir, stmtList, dwoName, dwoID    value
	strBase, addrBase, rnglistsBase      value
	rangesBase                           value
}

// abbrev says what an entry looks like.
type abbrev struct {
	tag      uint64
	children bool
	fields   []abbrevField
	role     role
	size     int // of the attributes, -1 where that is not always the same
	steps    []step
}

// step passes over attributes: over those of fixed size, and then over one of another
// form; 0 for none.
type step struct {
	size uint64
	form uint64
}

// role says what an entry is read for. Most are of variables and types, for nothing.
type role uint8

const (
	roleUnit role = 1 << iota
	roleFunction
	roleInlined
	roleCall
	roleDeclaration // of a function without code
	anyRole         = roleUnit | roleFunction | roleInlined | roleCall | roleDeclaration
)

type abbrevField struct {
	name, form uint64
	implicit   int64
	size       int // in bytes, -1 where it is not always the same
}

// prepare says what is known of all entries in units of a kind.
func (a *abbrev) prepare(k unitKind) {
	switch a.tag {
	case tagCompileUnit, tagPartialUnit, tagSkeletonUnit:
		a.role = roleUnit
	case tagSubprogram:
		a.role = roleDeclaration
		if slices.ContainsFunc(a.fields, func(f abbrevField) bool { return f.name == atLowPC || f.name == atRanges }) {
			a.role = roleFunction
		}
	case tagInlined:
		a.role = roleInlined
	case tagCallSite, tagGNUCallSite:
		a.role = roleCall
	}
	variable := false
	for i := range a.fields {
		f := &a.fields[i]
		f.size = formSize(f.form, k)
		a.size += f.size
		variable = variable || f.size < 0
	}
	if !variable {
		return
	}
	a.size = -1
	next := step{}
	for i := range a.fields {
		if f := &a.fields[i]; f.size >= 0 {
			next.size += uint64(f.size)
		} else {
			next.form = f.form
			a.steps = append(a.steps, next)
			next = step{}
		}
	}
	if next.size > 0 {
		a.steps = append(a.steps, next)
	}
}

// abbrevTable holds abbreviations by code. Codes nearly always count from 1.
type abbrevTable struct {
	dense []*abbrev // from code 1 on
	rest  map[uint64]*abbrev
	bytes int // that it was read from
}

func (t *abbrevTable) add(code uint64, a *abbrev) {
	switch {
	case code == uint64(len(t.dense)+1):
		t.dense = append(t.dense, a)
	case t.rest == nil:
		t.rest = map[uint64]*abbrev{code: a}
	default:
		t.rest[code] = a
	}
}

// at is nil for a code that the table does not have.
func (t *abbrevTable) at(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return t.dense[code-1]
	}
	return t.rest[code]
}

// abbrevLimit bounds a table of abbreviations; the largest of linked programs have
// some thousands of entries. Tables hardly overlap, so that together they are read a
// few times at most.
const abbrevLimit = 1 << 20

// abbrevCache is how many bytes of abbreviations are kept as tables, which take some 16
// times as much.
const abbrevCache = 2 << 20

// abbrevKey is where a table of abbreviations is, and for which kind of units.
type abbrevKey struct {
	offset uint64
	kind   unitKind
}

// abbreviations returns a table for units of a kind.
func (d *debugData) abbreviations(key abbrevKey) *abbrevTable {
	if t, ok := d.abbrevs[key]; ok {
		return t
	}
	if d.abbrevCached > abbrevCache {
		clear(d.abbrevs)
		d.abbrevCached = 0
	}
	t := new(abbrevTable)
	for size := 16 << 10; size <= abbrevLimit && d.abbrevBytes <= abbrevLimit+4*d.abbrev.s.Size; size *= 8 {
		b, err := d.abbrev.at(key.offset, size)
		if err != nil {
			break
		}
		t = new(abbrevTable)
		c := cursor{b: b, order: d.o.f.ByteOrder}
		done := parseAbbreviations(&c, func(code uint64, a *abbrev) bool {
			a.prepare(key.kind)
			t.add(code, a)
			return true
		})
		t.bytes = len(b) - len(c.b)
		d.abbrevBytes += uint64(t.bytes)
		if done || len(b) < size {
			break
		}
	}
	d.abbrevCached += t.bytes
	d.abbrevs[key] = t
	return t
}

// abbreviation finds one abbreviation of a table that is not wanted as a whole: that
// of a unit's first entry, which nearly always is the first.
func (d *debugData) abbreviation(key abbrevKey, code uint64) *abbrev {
	if t, ok := d.abbrevs[key]; ok {
		return t.at(code)
	}
	b, err := d.abbrev.at(key.offset, 512)
	if err != nil {
		return nil
	}
	var found *abbrev
	parseAbbreviations(&cursor{b: b, order: d.o.f.ByteOrder}, func(c uint64, a *abbrev) bool {
		if c == code {
			a.prepare(key.kind)
			found = a
		}
		return found == nil
	})
	if found == nil {
		found = d.abbreviations(key).at(code)
	}
	return found
}

// maxFields bounds the attributes of an entry, which may take no space in .debug_info.
const maxFields = 256

// parseAbbreviations calls f for the abbreviations of a table, until it says no. It
// reports false where the input ended before the table did.
func parseAbbreviations(c *cursor, f func(code uint64, a *abbrev) bool) bool {
	for {
		code := c.uleb()
		if c.bad {
			return false
		}
		if code == 0 {
			return true
		}
		a := &abbrev{tag: c.uleb()}
		a.children = c.uint8() != 0
		for {
			f := abbrevField{name: c.uleb(), form: c.uleb()}
			if f.form == formImplicitConst {
				f.implicit = c.sleb()
			}
			if c.bad || len(a.fields) > maxFields {
				return false
			}
			if f.name == 0 && f.form == 0 {
				break
			}
			a.fields = append(a.fields, f)
		}
		if !f(code, a) {
			return true
		}
	}
}

// entry reads the entry that is next; at is its offset in .debug_info. It reports
// false when the data end before the entry does.
func (u *unit) entry(c *cursor, at uint64, e *die) bool { return u.entryFor(anyRole, c, at, e) }

// entryFor is entry that does not look at the attributes of entries with other roles;
// what e has of these is left from before, but for the code.
func (u *unit) entryFor(r role, c *cursor, at uint64, e *die) bool {
	before := len(c.b)
	code := c.uleb()
	if code == 0 {
		e.at, e.next, e.tag, e.children = at, at+uint64(before-len(c.b)), 0, false
		return !c.bad
	}
	if u.abbrevs == nil {
		u.abbrevs = u.d.abbreviations(u.abbrevKey())
	}
	a := u.abbrevs.at(code)
	if a == nil || a.role&r != 0 {
		return u.fields(c, at, before, a, e)
	}
	if a.size >= 0 {
		c.take(uint64(a.size))
	} else {
		for _, s := range a.steps {
			c.take(s.size)
			switch s.form {
			case 0:
			case formExprloc, formBlock:
				c.take(c.uleb())
			case formUdata, formStrx, formRefUdata, formLoclistx, formRnglistx, formAddrx, formSdata:
				for len(c.b) > 0 && c.b[0] >= 0x80 {
					c.b = c.b[1:]
				}
				c.take(1)
			default:
				c.form(s.form, u.unitKind)
			}
		}
	}
	e.at, e.next, e.tag, e.children = at, at+uint64(before-len(c.b)), a.tag, a.children
	e.low.form, e.high.form, e.ranges.form = 0, 0, 0 // a declaration has no code
	return !c.bad
}

func (u *unit) abbrevKey() abbrevKey { return abbrevKey{u.abbrevAt, u.unitKind} }

// skip passes over an attribute.
func (c *cursor) skip(f *abbrevField, k unitKind) {
	if f.size >= 0 {
		c.take(uint64(f.size))
	} else {
		c.form(f.form, k)
	}
}

// fields reads the attributes of an entry; before is how much there was in front
// of it.
func (u *unit) fields(c *cursor, at uint64, before int, a *abbrev, e *die) bool {
	if a == nil {
		return false
	}
	*e = die{at: at, tag: a.tag, children: a.children}
	for i := range a.fields {
		f := &a.fields[i]
		p := e.attribute(f.name)
		if p == nil {
			c.skip(f, u.unitKind)
			continue
		}
		*p = c.form(f.form, u.unitKind)
		if f.form == formImplicitConst {
			p.n = uint64(f.implicit)
		}
	}
	e.next = at + uint64(before-len(c.b))
	return !c.bad
}

// attribute is where an attribute is kept; nil when it does not matter.
func (e *die) attribute(name uint64) *value {
	switch name {
	case atName:
		return &e.name
	case atLinkageName, atMIPSLinkage:
		return &e.linkage
	case atAbstractOrigin, atCallOrigin: // which GNU's calls have instead
		return &e.origin
	case atSpecification:
		return &e.specification
	case atLowPC, atCallReturnPC: // likewise
		return &e.low
	case atHighPC:
		return &e.high
	case atRanges:
		return &e.ranges
	case atCallFile:
		return &e.callFile
	case atCallLine:
		return &e.callLine
	case atCallColumn:
		return &e.callColumn
	case atDeclFile:
		return &e.declFile
	case atDeclLine:
		return &e.declLine
	case atDeclColumn:
		return &e.declColumn
	case atCompDir:
		return &e.compDir
	case atStmtList:
		return &e.stmtList
	case atDwoName, atGNUDwoName:
		return &e.dwoName
	case atGNUDwoID:
		return &e.dwoID
	case atStrBase:
		return &e.strBase
	case atAddrBase, atGNUAddrBase:
		return &e.addrBase
	case atRnglistsBase:
		return &e.rnglistsBase
	case atGNURangesBase:
		return &e.rangesBase
	}
	return nil
}

// refer finds the entry that a reference leads to.
func (u *unit) refer(v value) (*unit, die, bool) {
	to, at := u, v.n
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		at += u.at
	case formRefAddr:
		to = u.d.unitAt(at)
	case formGNURefAlt, formRefSup4, formRefSup8:
		if to = nil; u.d.alt != nil {
			to = u.d.alt.unitAt(at)
		}
	default:
		return nil, die{}, false
	}
	if to == nil || at < to.first || at >= to.end || to.load() != nil {
		return nil, die{}, false
	}
	c := cursor{b: to.data[at-to.first:], order: to.d.o.f.ByteOrder}
	var e die
	ok := to.entry(&c, at, &e)
	return to, e, ok && e.tag != 0
}

// function names the function that an entry is about, as it is linked if that is
// known, or else as in the source without its scope.
func (u *unit) function(e die) string {
	name := ""
	for range 8 { // from an inlined call to its function to its declaration
		if s := u.text(e.linkage); s != "" {
			return s
		}
		if name == "" {
			name = u.text(e.name)
		}
		v := e.origin
		if v.form == 0 {
			v = e.specification
		}
		to, next, ok := u.refer(v)
		if !ok {
			break
		}
		u, e = to, next
	}
	return name
}

// subprogram is a piece of a function.
type subprogram struct {
	addressRange
	at uint64 // of its entry
}

// maxSubprograms bounds the functions with code in the debug information of a file.
const maxSubprograms = 1 << 22

// index lists the functions of a unit by address.
func (u *unit) index() error {
	if u.indexed {
		return nil
	}
	u.indexed = true
	if err := u.load(); err != nil {
		return err
	}
	c := cursor{b: u.data, order: u.d.o.f.ByteOrder}
	var e die
	for at := u.first; len(c.b) > 0; {
		if !u.entryFor(roleFunction, &c, at, &e) {
			break // damage, or the padding at the end
		}
		at = e.next
		if e.tag == tagSubprogram {
			for _, r := range u.pieces(&e) {
				if u.d.subprograms++; u.d.subprograms > maxSubprograms {
					return fmt.Errorf("section %s: more than %d functions", u.d.info.s.Name, maxSubprograms)
				}
				u.subprograms = append(u.subprograms, subprogram{r, e.at})
			}
		}
	}
	slices.SortStableFunc(u.subprograms, func(a, b subprogram) int { return cmp.Compare(a.low, b.low) })
	return nil
}

// subprogramAt finds the function that an address is in.
func (u *unit) subprogramAt(address uint64) (die, bool) {
	if u.index() != nil || u.load() != nil {
		return die{}, false
	}
	i, _ := slices.BinarySearchFunc(u.subprograms, address, func(s subprogram, a uint64) int {
		if s.low <= a {
			return -1
		}
		return 1
	})
	if i == 0 || address >= u.subprograms[i-1].high {
		return die{}, false
	}
	at := u.subprograms[i-1].at
	c := cursor{b: u.data[at-u.first:], order: u.d.o.f.ByteOrder}
	var e die
	ok := u.entry(&c, at, &e)
	return e, ok
}
