package args

import (
	"strings"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// class is how the System V calling convention of x86-64 passes eight bytes of a value.
type class uint8

const (
	classNone class = iota
	classInteger
	classSSE
	classUpper  // the upper half of a vector register
	classMemory // in memory; of the whole value
	classX87    // in memory as an argument, and in a register of the x87 as a result; of the whole value
	classUnclear
)

// merge returns the class of eight bytes that have parts of two classes.
func merge(a, b class) class {
	switch {
	case a == b || b == classNone:
		return a
	case a == classNone:
		return b
	case a == classUnclear || b == classUnclear:
		return classUnclear
	case a == classMemory || b == classMemory:
		return classMemory
	case a == classInteger || b == classInteger:
		return classInteger
	case a == classX87 || b == classX87:
		return classMemory
	}
	return classSSE
}

// passing is how a type is passed.
type passing struct {
	size  uint64 // in bytes
	align uint64 // in memory
	// reference means that the caller passes the address of a copy. parts then has the pointer.
	reference bool
	parts     []class // by eight bytes; one for values of classMemory, classX87 and classUnclear
	why       string  // of classUnclear
}

func (p *passing) whole() class {
	if len(p.parts) == 1 {
		return p.parts[0]
	}
	return classNone
}

func unclear(why string) passing { return passing{parts: []class{classUnclear}, why: why} }

// maxFields limits the members of a class that are looked at.
const maxFields = 4096

// classify returns how C and C++ pass values of a type. Classes that are not trivial are passed by
// reference.
func classify(t *debuginfo.Type) passing {
	t = t.Resolve()
	size, ok := t.Size()
	if t != nil && (t.Kind == debuginfo.KindStruct || t.Kind == debuginfo.KindUnion) {
		budget := maxFields
		if byReference(t, &budget, 0) {
			return passing{size: 8, align: 8, reference: true, parts: []class{classInteger}}
		}
		if t.Declaration {
			return unclear("no debug information describes the type " + t.Name + ": compile with -fstandalone-debug")
		}
	}
	if !ok {
		return unclear("the debug information does not tell the size of its type")
	}
	p := passing{size: size, parts: make([]class, (min(size, 64)+7)/8)}
	c := classifier{parts: p.parts, left: maxFields}
	c.add(t, 0, 0)
	p.align = max(8, c.align)
	switch {
	case c.why != "":
		return unclear(c.why)
	case c.memory:
		p.parts = []class{classMemory}
	case len(p.parts) > 2 && !(p.parts[0] == classSSE && allUpper(p.parts[1:])):
		p.parts = []class{classMemory}
	case size > 16:
		return unclear("vectors of more than 16 bytes are passed in ways that depend on the processor")
	}
	for i, part := range p.parts {
		switch {
		case part == classMemory:
			p.parts = []class{classMemory}
			return p
		case part == classX87 && len(p.parts) > 1:
			// The second half is the exponent. It has no other class unless the type is a union.
			p.parts = []class{classX87}
			return p
		case part == classUpper && (i == 0 || p.parts[i-1] != classSSE && p.parts[i-1] != classUpper):
			p.parts[i] = classSSE
		}
	}
	return p
}

func allUpper(parts []class) bool {
	for _, p := range parts {
		if p != classUpper {
			return false
		}
	}
	return true
}

// classifier collects the classes of the parts of a value.
type classifier struct {
	parts  []class
	align  uint64
	memory bool
	why    string
	left   int
}

// maxNesting limits the depth of members of members.
const maxNesting = 64

// add adds a part of type t at an offset.
func (c *classifier) add(t *debuginfo.Type, offset uint64, depth int) {
	t = t.Resolve()
	if c.left--; c.left < 0 || depth > maxNesting || t == nil {
		c.why = "its type is too large to be looked at"
		return
	}
	size, ok := t.Size()
	if !ok {
		if t.Kind == debuginfo.KindArray && t.Count <= 0 {
			return // a flexible array
		}
		c.why = "the debug information does not describe a part of its type"
		return
	}
	switch t.Kind {
	case debuginfo.KindBase:
		c.base(t, offset, size)
	case debuginfo.KindPointer, debuginfo.KindReference, debuginfo.KindEnum, debuginfo.KindMemberPointer:
		c.scalar(classInteger, offset, size, min(size, 8))
	case debuginfo.KindArray:
		if t.Vector {
			c.put(offset, min(size, 8), classSSE)
			if size > 8 {
				c.put(offset+8, size-8, classUpper)
			}
			c.aligned(offset, size)
			return
		}
		elem := t.Elem()
		each, ok := elem.Size()
		if !ok || each == 0 || size == 0 {
			return
		}
		// Beyond 64 bytes the value is in memory, whatever its parts are.
		for at := uint64(0); at < size && offset+at < 64; at += each {
			c.add(elem, offset+at, depth+1)
		}
	case debuginfo.KindStruct, debuginfo.KindUnion:
		members, variants := t.Members()
		if variants {
			c.why = "it is a sum type"
			return
		}
		c.align = max(c.align, t.Align)
		for _, m := range members {
			c.align = max(c.align, m.Align)
			switch {
			case m.Virtual:
				c.memory = true
			case m.BitSize > 0:
				c.put(offset+m.BitOffset/8, (m.BitOffset%8+m.BitSize+7)/8, classInteger)
			default:
				c.add(m.Type, offset+m.Offset, depth+1)
			}
		}
	default:
		c.why = "the debug information does not describe a part of its type"
	}
}

func (c *classifier) base(t *debuginfo.Type, offset, size uint64) {
	switch t.Encoding {
	case debuginfo.EncodingFloat:
		switch {
		case size <= 8:
			c.scalar(classSSE, offset, size, size)
		case size == 16 && strings.HasPrefix(t.Name, "long double"):
			c.scalar(classX87, offset, size, 16)
		default: // __float128
			c.put(offset, 8, classSSE)
			c.put(offset+8, size-8, classUpper)
			c.aligned(offset, size)
		}
	case debuginfo.EncodingComplex:
		if size <= 16 {
			c.scalar(classSSE, offset, size, size/2)
			return
		}
		c.memory = true
		c.aligned(offset, 16)
	default:
		if size == 16 {
			c.aligned(offset, 16)
			c.scalar(classInteger, offset, size, 8)
			return
		}
		c.scalar(classInteger, offset, size, min(size, 8))
	}
}

// scalar adds a number. One that is not aligned is in memory.
func (c *classifier) scalar(of class, offset, size, align uint64) {
	c.aligned(offset, align)
	c.put(offset, size, of)
}

func (c *classifier) aligned(offset, align uint64) {
	if align > 0 && offset%align != 0 {
		c.memory = true
		return
	}
	c.align = max(c.align, align)
}

func (c *classifier) put(offset, size uint64, of class) {
	for i := offset / 8; size > 0 && i <= (offset+size-1)/8; i++ {
		if i >= uint64(len(c.parts)) {
			if i < 8 {
				c.memory = true // a member beyond the end
			}
			return
		}
		c.parts[i] = merge(c.parts[i], of)
	}
}

// byReference reports whether values of a class are passed by the address of a copy, because copying them
// or destroying them runs code. Compilers write that as DW_AT_calling_convention of the class. Where they
// do not, the declarations of the class decide, and those of its bases and members.
func byReference(t *debuginfo.Type, budget *int, depth int) bool {
	switch t.Call {
	case debuginfo.PassReference:
		return true
	case debuginfo.PassValue:
		return false
	}
	if t.Declaration {
		return libraryOf(t) == libString // of the standard libraries
	}
	if *budget--; *budget < 0 || depth > maxNesting {
		return false
	}
	if t.NonTrivial() {
		return true
	}
	members, _ := t.Members()
	for _, m := range members {
		if m.Virtual {
			return true
		}
		of := m.Type.Resolve()
		for range maxNesting {
			if of == nil || of.Kind != debuginfo.KindArray {
				break
			}
			of = of.Elem().Resolve()
		}
		if of != nil && (of.Kind == debuginfo.KindStruct || of.Kind == debuginfo.KindUnion) && byReference(of, budget, depth+1) {
			return true
		}
	}
	return false
}
