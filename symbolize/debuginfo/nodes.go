package debuginfo

import (
	"cmp"
	"slices"
)

// node is an entry with all of its attributes. Functions, parameters and types are read as nodes;
// everything else that is read of whole files uses die, which is faster.
type node struct {
	u        *unit
	at, next uint64 // offsets of the entry and of the next one
	tag      uint64
	children bool
	attrs    []attr
}

type attr struct {
	name uint16
	value
}

// get returns the value of an attribute; one of form 0 if the entry does not have it.
func (n *node) get(name uint16) value {
	for i := range n.attrs {
		if n.attrs[i].name == name {
			return n.attrs[i].value
		}
	}
	return value{}
}

func (n *node) has(name uint16) bool { return n.get(name).form != 0 }

// flag returns the value of an attribute that is a flag.
func (n *node) flag(name uint16) bool {
	v := n.get(name)
	return v.form == formFlagPresent || v.form == formFlag && v.n != 0
}

// text returns the value of an attribute that is a string.
func (n *node) text(name uint16) string { return n.u.text(n.get(name)) }

// number returns the value of an attribute that is a constant without sign.
func (n *node) number(name uint16) (uint64, bool) { return n.get(name).constant() }

// constant returns the value of a constant. It returns false for expressions and references.
func (v value) constant() (uint64, bool) {
	switch v.form {
	case formData1, formData2, formData4, formData8, formUdata, formSdata, formImplicitConst:
		return v.n, true
	}
	return 0, false
}

// tableOfAll returns the abbreviations of the unit with all attributes.
func (u *unit) tableOfAll() *abbrevTable {
	key := u.abbrevKey()
	key.all = true
	return u.d.abbreviations(key)
}

// node reads the entry at an offset, whose unit is in memory.
func (u *unit) node(at uint64) (*node, bool) {
	if u.load() != nil || at < u.first || at-u.first >= uint64(len(u.data)) {
		return nil, false
	}
	c := cursor{b: u.data[at-u.first:], order: u.d.o.f.ByteOrder}
	n := &node{u: u}
	ok := u.readNode(u.tableOfAll(), &c, at, n)
	return n, ok
}

func (u *unit) readNode(t *abbrevTable, c *cursor, at uint64, n *node) bool {
	before := len(c.b)
	n.at, n.tag, n.children, n.attrs = at, 0, false, nil
	if code := c.uleb(); code != 0 {
		a := t.at(code)
		if a == nil {
			return false
		}
		n.tag, n.children = a.tag, a.children
		fields := t.fields[a.field:][:a.fields]
		n.attrs = make([]attr, 0, len(fields))
		for i := range fields {
			f := &fields[i]
			v := value{form: uint64(f.form), n: uint64(f.implicit)}
			if v.form != formImplicitConst {
				v = c.form(v.form, u.unitKind)
			}
			n.attrs = append(n.attrs, attr{f.name, v})
			if c.bad {
				return false
			}
		}
	}
	n.next = at + uint64(before-len(c.b))
	return !c.bad
}

// maxChildren limits the entries that are read as children of one.
const maxChildren = 1 << 16

// eachChild calls f for the children of an entry, until f returns false. It stops at damage.
func (n *node) eachChild(f func(child *node) bool) {
	u := n.u
	if !n.children || u.load() != nil || n.next < u.first || n.next-u.first > uint64(len(u.data)) {
		return
	}
	data, t := u.data, u.tableOfAll()
	depth, entries := 0, 0
	for at := n.next; at < u.end; {
		c := cursor{b: data[at-u.first:], order: u.d.o.f.ByteOrder}
		if depth > 0 { // skip what is inside a child
			before := len(c.b)
			code := c.uleb()
			if code == 0 {
				depth--
			} else if a := t.at(code); a == nil {
				return
			} else {
				c.take(uint64(t.skip(a, c.b, 0, u.unitKind)))
				if a.children {
					depth++
				}
			}
			if at += uint64(before - len(c.b)); c.bad || depth > maxNesting {
				return
			}
			continue
		}
		child := node{u: u}
		if entries++; !u.readNode(t, &c, at, &child) || child.tag == 0 || entries > maxChildren || !f(&child) {
			return
		}
		at = child.next
		if child.children {
			if to, ok := child.sibling(); ok {
				at = to
			} else {
				depth = 1
			}
		}
	}
}

// sibling returns the offset of the next entry of the same list, if the entry says where it is.
func (n *node) sibling() (uint64, bool) {
	v := n.get(atSibling)
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		at := n.u.at + v.n
		return at, at >= n.next && at < n.u.end
	}
	return 0, false
}

// follow returns the entry that an attribute refers to; nil if there is none.
func (n *node) follow(name uint16) *node {
	to, at, ok := n.u.resolve(n.get(name))
	if !ok {
		return nil
	}
	next, ok := to.node(at)
	if !ok || next.tag == 0 {
		return nil
	}
	return next
}

// scopeIndex has the entries of a unit that give others a scope, by offset: namespaces, classes and
// functions.
type scopeIndex struct{ list []scope }

// scope is an entry that contains others. begin and end are offsets from the first entry of the unit.
type scope struct {
	begin, end uint32
	parent     int32 // index in the list; -1 for none
}

// maxScopes limits the scopes of a unit.
const maxScopes = 1 << 20

// isScope reports whether the names of entries are part of the names inside them.
func isScope(tag uint64) bool {
	switch tag {
	case tagNamespace, tagStruct, tagClass, tagUnion, tagEnum, tagSubprogram, tagModule:
		return true
	}
	return false
}

// scopesOf returns the scopes of a unit. It reads the unit once.
func (u *unit) scopesOf() *scopeIndex {
	if u.scopes != nil {
		return u.scopes
	}
	u.scopes = &scopeIndex{}
	u.walk(func(tag, at uint64, parents []int32) int32 {
		if !isScope(tag) || len(u.scopes.list) >= maxScopes || at-u.first > 1<<32-1 {
			return -1
		}
		parent := int32(-1)
		for i := len(parents) - 1; i >= 0 && parent < 0; i-- {
			parent = parents[i]
		}
		u.scopes.list = append(u.scopes.list, scope{begin: uint32(at - u.first), parent: parent})
		return int32(len(u.scopes.list) - 1)
	}, func(index int32, end uint64) { u.scopes.list[index].end = uint32(min(end-u.first, 1<<32-1)) })
	return u.scopes
}

// walk calls enter for each entry with children of a unit, in order, and leave with the offset behind
// its last child. enter returns an index, which enter has among the parents of entries inside and leave
// gets; leave is not called for negative ones. walk stops at damage.
func (u *unit) walk(enter func(tag, at uint64, parents []int32) int32, leave func(index int32, end uint64)) {
	if u.load() != nil {
		return
	}
	var open []int32
	t := u.abbreviations()
	at := 0
	for at < len(u.data) && len(open) < maxNesting {
		start := at
		c := cursor{b: u.data[at:], order: u.d.o.f.ByteOrder}
		code := c.uleb()
		at = len(u.data) - len(c.b)
		if code == 0 {
			if len(open) > 0 {
				if last := open[len(open)-1]; last >= 0 {
					leave(last, u.first+uint64(at))
				}
				open = open[:len(open)-1]
			}
			continue
		}
		a := t.at(code)
		if a == nil || c.bad {
			break
		}
		at += t.skip(a, u.data, at, u.unitKind)
		if a.children {
			open = append(open, enter(a.tag, u.first+uint64(start), open))
		}
	}
	for _, index := range open { // damage
		if index >= 0 {
			leave(index, u.first+uint64(len(u.data)))
		}
	}
}

// scopeNames returns the names of the scopes around an offset, outermost first.
func (u *unit) scopeNames(at uint64) (names []string) {
	list := u.scopesOf().list
	offset := at - u.first
	i, _ := slices.BinarySearchFunc(list, offset, func(s scope, at uint64) int { return cmp.Compare(uint64(s.begin), at) })
	i-- // the last one that begins before
	for range maxNesting {
		if i < 0 {
			break
		}
		if s := list[i]; uint64(s.end) > offset {
			if n, ok := u.node(u.first + uint64(s.begin)); ok && n.tag != 0 {
				names = append(names, n.scopeName())
			}
		}
		i = int(list[i].parent)
	}
	slices.Reverse(names)
	return names
}

// scopeName returns the name of a scope for the names of what is inside.
func (n *node) scopeName() string {
	name := n.text(atName)
	for range 8 {
		if name != "" {
			return name
		}
		if n = cmp.Or(n.follow(atSpecification), n.follow(atAbstractOrigin)); n == nil {
			break
		}
		name = n.text(atName)
	}
	return "(anonymous)"
}
