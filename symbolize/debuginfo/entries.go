package debuginfo

import (
	"cmp"
	"fmt"
	"slices"
)

// Tags and attributes, from the DWARF 5 standard, sections 7.5.3 and 7.5.4, and GNU extensions
// for DWARF 4.
const (
	tagCompileUnit  = 0x11
	tagInlined      = 0x1d
	tagSubprogram   = 0x2e
	tagPartialUnit  = 0x3c
	tagTypeUnit     = 0x41
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
	atLoclistsBase   = 0x8c
	atDwoName        = 0x76
	atMIPSLinkage    = 0x2007
	atGNUDwoName     = 0x2130
	atGNUDwoID       = 0x2131
	atGNURangesBase  = 0x2132
	atGNUAddrBase    = 0x2133
	atUnknown        = 0xffff // stands for all larger attributes
)

// Tags and attributes of types, parameters and scopes, from the same sections.
const (
	tagArray             = 0x01
	tagClass             = 0x02
	tagEnum              = 0x04
	tagParameter         = 0x05
	tagMember            = 0x0d
	tagPointer           = 0x0f
	tagReference         = 0x10
	tagStruct            = 0x13
	tagSubroutineType    = 0x15
	tagTypedef           = 0x16
	tagUnion             = 0x17
	tagUnspecifiedParams = 0x18
	tagInheritance       = 0x1c
	tagModule            = 0x1e
	tagMemberPointer     = 0x1f
	tagSubrange          = 0x21
	tagBase              = 0x24
	tagConst             = 0x26
	tagEnumerator        = 0x28
	tagTemplateType      = 0x2f
	tagTemplateValue     = 0x30
	tagVariantPart       = 0x33
	tagVariable          = 0x34
	tagVolatile          = 0x35
	tagRestrict          = 0x37
	tagNamespace         = 0x39
	tagUnspecifiedType   = 0x3b
	tagRvalueReference   = 0x42
	tagTemplateAlias     = 0x43
	tagAtomic            = 0x47

	atSibling       = 0x01
	atLocation      = 0x02
	atByteSize      = 0x0b
	atBitOffset     = 0x0c
	atBitSize       = 0x0d
	atConstValue    = 0x1c
	atUpperBound    = 0x2f
	atProducer      = 0x25
	atLanguage      = 0x13
	atArtificial    = 0x34
	atConvention    = 0x36
	atCount         = 0x37
	atMemberAt      = 0x38
	atDeclaration   = 0x3c
	atEncoding      = 0x3e
	atExternal      = 0x3f
	atFrameBase     = 0x40
	atType          = 0x49
	atVirtuality    = 0x4c
	atSignature     = 0x69
	atDataBitOffset = 0x6b
	atEnumClass     = 0x6d
	atAlignment     = 0x88
	atDeleted       = 0x8a
	atDefaulted     = 0x8b
	atGNUVector     = 0x2107
)

// die is a debugging information entry with the attributes that matter here. Attributes that it
// does not have are of form 0.
type die struct {
	at, next uint64 // offsets of the entry and of the next one in .debug_info
	tag      uint64 // 0 ends a list of children
	children bool

	name, linkage, origin, specification value
	low, high, ranges                    value
	callFile, callLine, callColumn       value
	declFile, declLine, declColumn       value
	compDir, stmtList, dwoName, dwoID    value
	strBase, addrBase, rnglistsBase      value
	rangesBase, loclistsBase             value
}

// role is the purpose of an entry. Most entries describe variables and types and have none.
type role uint8

const (
	roleUnit role = 1 << iota
	roleFunction
	roleInlined
	roleCall
	roleDeclaration // of a function without code
	anyRole         = roleUnit | roleFunction | roleInlined | roleCall | roleDeclaration
)

// entry reads the next entry. at is its offset in .debug_info. It returns false if the data
// ends before the entry does.
func (u *unit) entry(c *cursor, at uint64, e *die) bool { return u.entryFor(anyRole, c, at, e) }

// entryFor is entry that skips the attributes of entries without role r. For these, only the
// fields about code are valid.
func (u *unit) entryFor(r role, c *cursor, at uint64, e *die) bool {
	before := len(c.b)
	code := c.uleb()
	if code == 0 {
		e.at, e.next, e.tag, e.children = at, at+uint64(before-len(c.b)), 0, false
		return !c.bad
	}
	t := u.abbreviations()
	a := t.at(code)
	if a == nil {
		return false
	}
	if a.role&r != 0 {
		return u.fields(c, at, before, t, a, e)
	}
	c.take(uint64(t.skip(a, c.b, 0, u.unitKind)))
	e.at, e.next, e.tag, e.children = at, at+uint64(before-len(c.b)), a.tag, a.children
	e.low.form, e.high.form, e.ranges.form = 0, 0, 0 // declarations have no code
	return !c.bad
}

// eachFunction reads the entries of functions with code into e and calls f, until f returns
// false. It stops at damage.
func (u *unit) eachFunction(e *die, f func(e *die) bool) { u.eachWithRole(roleFunction, e, f) }

// eachWithRole is eachFunction for the entries that have one of the roles.
func (u *unit) eachWithRole(r role, e *die, f func(e *die) bool) {
	t := u.abbreviations()
	for at := 0; ; {
		start, ok := t.seek(r, u.data, at, u.unitKind)
		if !ok {
			return
		}
		c := cursor{b: u.data[start:], order: u.d.o.f.ByteOrder}
		if !u.entryFor(r, &c, u.first+uint64(start), e) || !f(e) {
			return
		}
		at = len(u.data) - len(c.b)
	}
}

// abbreviations returns the abbreviations of the unit. The unit keeps them unless there are too
// many.
func (u *unit) abbreviations() *abbrevTable {
	if u.abbrevs != nil {
		return u.abbrevs
	}
	t := u.d.abbreviations(u.abbrevKey())
	if u.d.abbrevHeld += t.bytes; u.d.abbrevHeld <= abbrevCache+int(u.d.o.size/4) {
		u.abbrevs = t
	}
	return t
}

func (u *unit) abbrevKey() abbrevKey { return abbrevKey{u.abbrevAt, u.unitKind, false} }

// fields reads the attributes of an entry. before is the number of bytes that were left to read
// before the entry.
func (u *unit) fields(c *cursor, at uint64, before int, t *abbrevTable, a *abbrev, e *die) bool {
	*e = die{at: at, tag: a.tag, children: a.children}
	fields := t.fields[a.field:][:a.fields]
	for i := range fields {
		f := &fields[i]
		p := e.attribute(f.name)
		switch {
		case p == nil && f.size >= 0:
			c.take(uint64(f.size))
		case p == nil:
			c.form(uint64(f.form), u.unitKind)
		case f.size == 0:
			p.form, p.n = uint64(f.form), uint64(f.implicit)
		case f.size == 1:
			p.form, p.n = uint64(f.form), uint64(c.uint8())
		case f.size == 2 || f.size == 4 || f.size == 8:
			p.form, p.n = uint64(f.form), c.uint(int(f.size))
		default:
			*p = c.form(uint64(f.form), u.unitKind)
		}
	}
	e.next = at + uint64(before-len(c.b))
	return !c.bad
}

// attribute returns the field for an attribute; nil if the attribute does not matter.
func (e *die) attribute(name uint16) *value {
	switch name {
	case atName:
		return &e.name
	case atLinkageName, atMIPSLinkage:
		return &e.linkage
	case atAbstractOrigin, atCallOrigin: // call sites have the second, and those of GNU the first
		return &e.origin
	case atSpecification:
		return &e.specification
	case atLowPC, atCallReturnPC: // like the previous case
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
	case atLoclistsBase:
		return &e.loclistsBase
	case atGNURangesBase:
		return &e.rangesBase
	}
	return nil
}

// refer returns the entry that a reference points to.
func (u *unit) refer(v value) (*unit, die, bool) {
	to, at, ok := u.resolve(v)
	if !ok {
		return nil, die{}, false
	}
	c := cursor{b: to.data[at-to.first:], order: to.d.o.f.ByteOrder}
	var e die
	ok = to.entry(&c, at, &e)
	return to, e, ok && e.tag != 0
}

// resolve returns the unit and the offset that a reference points to. The data of the unit is in
// memory then.
func (u *unit) resolve(v value) (*unit, uint64, bool) {
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
	case formRefSig8:
		if to = u.d.typeUnit(u, v.n); to != nil {
			at = to.at + to.typeAt
		}
	default:
		return nil, 0, false
	}
	if to == nil || at < to.first || at >= to.end || to.load() != nil {
		return nil, 0, false
	}
	return to, at, true
}

// function returns the linkage name of the function of an entry, or if there is none, its name
// without its scope.
func (u *unit) function(e die) string {
	name := ""
	for range 8 { // from inlined call to function to declaration
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

// subprogram is an address range of a function.
type subprogram struct {
	addressRange
	at uint64 // of its entry
}

// maxSubprograms limits the functions with code in the debug information of a file.
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
	many := false
	u.eachFunction(new(die), func(e *die) bool {
		for _, r := range u.pieces(e) {
			if u.d.subprograms++; u.d.subprograms > maxSubprograms {
				many = true
				return false
			}
			u.subprograms = append(u.subprograms, subprogram{r, e.at})
		}
		return true
	})
	if many {
		return fmt.Errorf("section %s: more than %d functions", u.d.info.s.Name, maxSubprograms)
	}
	slices.SortStableFunc(u.subprograms, func(a, b subprogram) int { return cmp.Compare(a.low, b.low) })
	return nil
}

// subprogramAt returns the function that contains an address.
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
