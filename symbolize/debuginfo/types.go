package debuginfo

import (
	"strings"
)

// TypeKind is the kind of a type.
type TypeKind uint8

const (
	KindOther         TypeKind = iota // a kind that this package does not read, or damage
	KindBase                          // integers, floating point, booleans and characters
	KindPointer                       // to Elem, nil for void
	KindReference                     // to Elem; also rvalue references
	KindStruct                        // also classes
	KindUnion                         //
	KindEnum                          // Elem is the underlying type, nil if unknown
	KindArray                         // of Elem
	KindAlias                         // typedefs and qualified types, of Elem
	KindFunction                      //
	KindMemberPointer                 // also of functions
)

// Encoding is the encoding of a base type (DW_ATE).
type Encoding uint8

// From the DWARF 5 standard, section 7.8.
const (
	EncodingBool         Encoding = 0x02
	EncodingComplex      Encoding = 0x03
	EncodingFloat        Encoding = 0x04
	EncodingSigned       Encoding = 0x05
	EncodingSignedChar   Encoding = 0x06
	EncodingUnsigned     Encoding = 0x07
	EncodingUnsignedChar Encoding = 0x08
	EncodingUTF          Encoding = 0x10
)

// Type is a type of a program. Types are equal if their pointers are; equal types of different units
// may have different pointers. A *Type that is nil stands for void. It is safe for concurrent use, and
// valid until [Binary.Close].
type Type struct {
	Kind      TypeKind
	Name      string   // with its scope; "" if it has none
	Qualifier string   // of an alias: "const", "volatile", "restrict" or "atomic"; "" for typedefs
	Encoding  Encoding // of base types
	Align     uint64   // alignment that the source asks for, in bytes; 0 for none
	// Declaration means that the members are unknown: no unit defines the type.
	Declaration bool
	// Call says how values are passed, if the compiler wrote that.
	Call PassBy
	// Vector is an array that is a SIMD vector.
	Vector bool
	// Rvalue is a reference that is an rvalue reference.
	Rvalue bool
	// Member of a function is a pointer to a member function.
	Function bool
	// Count is the number of elements of an array; -1 if unknown.
	Count int64

	i    *debugInfo
	n    *node
	size uint64
	dims []int64 // of an array of arrays: all but the first dimension
	elem *Type   // of an array of arrays
}

// PassBy is DW_AT_calling_convention of a class.
type PassBy uint8

const (
	PassUnknown   PassBy = 0
	PassReference PassBy = 4 // by the address of a copy that the caller made
	PassValue     PassBy = 5
)

type typeKey struct {
	u  *unit
	at uint64
}

// maxTypes limits the types that a binary keeps.
const maxTypes = 1 << 20

// typeOf returns the type that an attribute of an entry refers to; nil for void.
func (i *debugInfo) typeOf(n *node) *Type {
	v := n.get(atType)
	if v.form == 0 {
		return nil
	}
	to, at, ok := n.u.resolve(v)
	if !ok {
		return &Type{i: i}
	}
	return i.typeAt(to, at)
}

// typeAt returns the type of an entry. Declarations become the type that another unit defines.
func (i *debugInfo) typeAt(u *unit, at uint64) *Type {
	key := typeKey{u, at}
	if t, ok := i.types[key]; ok {
		return t
	}
	n, ok := u.node(at)
	if !ok || len(i.types) >= maxTypes {
		return &Type{i: i}
	}
	if d := n.follow(atSignature); d != nil {
		n = d
	}
	t := &Type{i: i, n: n}
	i.types[key] = t
	t.read()
	if t.Declaration && t.Name != "" && !strings.Contains(t.Name, "(anonymous)") {
		if d := i.definitionOf(t.Name); d != nil && d.tag != tagEnum == (t.Kind != KindEnum) {
			t.n, t.Declaration = d, false
			t.read()
		}
	}
	return t
}

// read sets the fields from the entry.
func (t *Type) read() {
	n := t.n
	t.size, _ = n.number(atByteSize)
	t.Align, _ = n.number(atAlignment)
	t.Declaration = n.flag(atDeclaration)
	switch n.tag {
	case tagBase:
		t.Kind = KindBase
		e, _ := n.number(atEncoding)
		t.Encoding = Encoding(e)
		if bits, ok := n.number(atBitSize); ok && t.size == 0 {
			t.size = (bits + 7) / 8
		}
	case tagPointer, tagReference, tagRvalueReference:
		t.Kind, t.Rvalue = KindReference, n.tag == tagRvalueReference
		if n.tag == tagPointer {
			t.Kind = KindPointer
		}
		if t.size == 0 {
			t.size = uint64(n.u.addressSize)
		}
	case tagStruct, tagClass:
		t.Kind = KindStruct
	case tagUnion:
		t.Kind = KindUnion
	case tagEnum:
		t.Kind = KindEnum
	case tagArray:
		t.Kind, t.Vector, t.Count = KindArray, n.flag(atGNUVector), -1
		t.readDimensions()
	case tagTypedef, tagTemplateAlias:
		t.Kind = KindAlias
	case tagConst:
		t.Kind, t.Qualifier = KindAlias, "const"
	case tagVolatile:
		t.Kind, t.Qualifier = KindAlias, "volatile"
	case tagRestrict:
		t.Kind, t.Qualifier = KindAlias, "restrict"
	case tagAtomic:
		t.Kind, t.Qualifier = KindAlias, "atomic"
	case tagSubroutineType:
		t.Kind = KindFunction
	case tagMemberPointer:
		t.Kind = KindMemberPointer
		if e := n.follow(atType); e != nil && e.tag == tagSubroutineType {
			t.Function = true
		}
		if t.size == 0 {
			t.size = uint64(n.u.addressSize)
			if t.Function {
				t.size *= 2
			}
		}
	case tagUnspecifiedType: // decltype(nullptr)
		t.Kind, t.size = KindPointer, uint64(n.u.addressSize)
	}
	if c, ok := n.number(atConvention); ok && (t.Kind == KindStruct || t.Kind == KindUnion) {
		t.Call = PassBy(c)
	}
	if t.Kind == KindBase || t.Kind == KindPointer {
		t.Name = n.text(atName)
	} else if name := n.qualifiedName(); name != "" {
		t.Name = name
	}
}

// qualifiedName returns the name of an entry with its scope; "" if it has none. An entry outside of its scope,
// as in type units of gcc, refers to a declaration in it.
func (n *node) qualifiedName() string {
	name := n.text(atName)
	for range 8 {
		declared := n.follow(atSpecification)
		if declared == nil {
			break
		}
		n = declared
		if name == "" {
			name = n.text(atName)
		}
	}
	if name == "" {
		return ""
	}
	return strings.Join(append(n.u.scopeNames(n.at), name), "::")
}

// readDimensions reads the dimensions of an array.
func (t *Type) readDimensions() {
	first := true
	t.n.eachChild(func(c *node) bool {
		if c.tag != tagSubrange {
			return true
		}
		count := int64(-1)
		if v, ok := c.number(atCount); ok && v < 1<<48 {
			count = int64(v)
		} else if v, ok := c.number(atUpperBound); ok && v+1 < 1<<48 {
			count = int64(v + 1)
		}
		if first {
			t.Count, first = count, false
		} else if t.dims = append(t.dims, count); len(t.dims) > maxDimensions {
			return false
		}
		return true
	})
}

const maxDimensions = 16

// Elem returns the type that a type consists of or refers to: what a pointer or reference points
// to, the element of an array, the type that has another name or a qualifier, or the underlying type of
// an enumeration. It returns nil for void.
func (t *Type) Elem() (elem *Type) {
	t.with(func() { elem = t.elemOf() })
	return elem
}

func (t *Type) elemOf() *Type {
	if len(t.dims) == 0 {
		return t.i.typeOf(t.n)
	}
	if t.elem == nil {
		t.elem = &Type{Kind: KindArray, i: t.i, n: t.n, Count: t.dims[0], dims: t.dims[1:]}
	}
	return t.elem
}

// with calls f if the type has an entry. Damage ends f.
func (t *Type) with(f func()) {
	if t == nil || t.n == nil {
		return
	}
	t.i.mu.Lock()
	defer t.i.mu.Unlock()
	t.i.release()
	_ = Guard(func() error { f(); return nil })
}

// Resolve returns the type behind typedefs and qualifiers. A class or an enumeration without a name has that of its
// typedef, as in C: typedef struct { ... } name.
func (t *Type) Resolve() *Type {
	name := ""
	for range maxAliases {
		if t != nil && t.Kind == KindAlias {
			if t.Qualifier == "" {
				name = t.Name
			}
			t = t.Elem()
			continue
		}
		if name != "" && t != nil && t.Name == "" && (t.Kind == KindStruct || t.Kind == KindUnion || t.Kind == KindEnum) {
			named := *t
			named.Name = name
			return &named
		}
		return t
	}
	return &Type{}
}

// maxAliases limits the typedefs and qualifiers of a type, which form a loop in damaged files.
const maxAliases = 64

// Size returns the size of a value in bytes. It returns false if that is unknown.
func (t *Type) Size() (uint64, bool) {
	n := uint64(1)
	for range maxAliases {
		if t == nil || t.n == nil {
			return 0, false
		}
		switch t.Kind {
		case KindAlias:
			t = t.Elem()
			continue
		case KindArray:
			if t.Count < 0 || t.size != 0 && t.Vector {
				return t.size, t.size != 0
			}
			if t.Count > 0 && n > maxSize/uint64(t.Count) {
				return 0, false
			}
			n *= uint64(t.Count)
			t = t.Elem()
			continue
		case KindEnum:
			if t.size == 0 {
				t = t.Elem()
				continue
			}
		case KindOther, KindFunction:
			return 0, false
		}
		if t.Declaration || t.size > maxSize || n > 0 && t.size > maxSize/n {
			return 0, false
		}
		return n * t.size, true
	}
	return 0, false
}

// maxSize limits the size of types, in bytes.
const maxSize = 1 << 47

// Member is a member or a base of a class.
type Member struct {
	Name   string // "" for bases and anonymous members
	Type   *Type
	Offset uint64 // in bytes
	// BitSize is the size of a bit field in bits; 0 for other members. BitOffset is the place of its
	// lowest bit from the beginning of the class, in bits, on little-endian machines.
	BitSize, BitOffset uint64
	// Align is the alignment that the source asks for, in bytes; 0 for none.
	Align uint64
	Base  bool
	// Virtual is a virtual base, whose offset is unknown.
	Virtual bool
	// Artificial members are the compiler's: pointers to virtual tables.
	Artificial bool
}

// Members are the members of a class, bases first as the compiler lists them. variants reports that
// the class is a sum type, as an enumeration of Rust, whose variants are not among the members.
func (t *Type) Members() (list []Member, variants bool) {
	t.with(func() {
		if t.Kind != KindStruct && t.Kind != KindUnion {
			return
		}
		t.n.eachChild(func(c *node) bool {
			switch c.tag {
			case tagVariantPart:
				variants = true
			case tagMember, tagInheritance:
				if c.flag(atExternal) || c.flag(atDeclaration) {
					break // static
				}
				m := Member{Name: c.text(atName), Base: c.tag == tagInheritance, Type: t.i.typeOf(c), Artificial: c.flag(atArtificial)}
				m.Align, _ = c.number(atAlignment)
				m.place(c)
				list = append(list, m)
			}
			return true
		})
	})
	return list, variants
}

// place sets the offset of a member.
func (m *Member) place(c *node) {
	at := c.get(atMemberAt)
	offset, ok := at.constant()
	if !ok && at.form != 0 {
		e := cursor{b: at.inline, order: c.u.d.o.f.ByteOrder}
		if e.uint8() == opPlusUconst {
			offset, ok = e.uleb(), true
		}
		m.Virtual = !ok || e.bad || len(e.b) > 0
	}
	if v, _ := c.number(atVirtuality); v != 0 && m.Base {
		m.Virtual = true
	}
	m.Offset = offset
	m.BitSize, _ = c.number(atBitSize)
	if m.BitSize == 0 {
		return
	}
	if bit, ok := c.number(atDataBitOffset); ok {
		m.BitOffset = bit
	} else if from, ok := c.number(atBitOffset); ok { // from the highest bit of a unit of storage
		storage, ok := c.number(atByteSize)
		if !ok {
			if t := m.Type; t != nil {
				for range maxAliases {
					if t == nil || t.Kind != KindAlias {
						break
					}
					t = t.elemOf()
				}
				if t != nil {
					storage = t.size
				}
			}
		}
		m.BitOffset = offset*8 + storage*8 - from - m.BitSize
	} else {
		m.BitOffset = offset * 8
	}
	m.Offset = m.BitOffset / 8
}

// Enumerator is a named value of an enumeration.
type Enumerator struct {
	Name  string
	Value uint64 // as many of its low bytes as the enumeration has
}

// Enumerators returns the named values of an enumeration in the order of the source.
func (t *Type) Enumerators() (list []Enumerator) {
	size, _ := t.Size()
	t.with(func() {
		if t.Kind != KindEnum {
			return
		}
		t.n.eachChild(func(c *node) bool {
			if c.tag == tagEnumerator {
				v := c.get(atConstValue)
				if n, ok := v.constant(); ok {
					if size < 8 {
						n &= 1<<(8*size) - 1
					}
					list = append(list, Enumerator{c.text(atName), n})
				}
			}
			return true
		})
	})
	return list
}

// TemplateArgument is an argument of a class template.
type TemplateArgument struct {
	Name    string
	Type    *Type // the argument, or the type of the value
	Value   int64 // of an argument that is a value
	IsValue bool
}

// TemplateArguments returns the arguments of a class that a template was instantiated with, in order.
// Arguments of parameter packs are missing.
func (t *Type) TemplateArguments() (list []TemplateArgument) {
	t.with(func() {
		t.n.eachChild(func(c *node) bool {
			if c.tag == tagTemplateType || c.tag == tagTemplateValue {
				v := c.get(atConstValue)
				a := TemplateArgument{Name: c.text(atName), Type: t.i.typeOf(c), IsValue: c.tag == tagTemplateValue}
				if n, ok := v.constant(); ok {
					a.Value = int64(n)
				}
				list = append(list, a)
			}
			return true
		})
	})
	return list
}

// NonTrivial reports whether the class itself declares what makes its values be passed by reference: a
// destructor, or a constructor that copies or moves, that is not defaulted in the class, or virtual
// functions. The answer does not include members and bases. It is for compilers that do not set
// [Type.Call].
func (t *Type) NonTrivial() (yes bool) {
	t.with(func() {
		base, _, _ := strings.Cut(t.n.text(atName), "<")
		t.n.eachChild(func(c *node) bool {
			if strings.HasPrefix(c.text(atName), "_vptr") && c.tag == tagMember {
				yes = true
			}
			if c.tag != tagSubprogram || c.flag(atArtificial) {
				return !yes
			}
			name, _, _ := strings.Cut(c.text(atName), "<")
			defaulted, _ := c.number(atDefaulted)
			switch {
			case defaulted == 1 && !c.flag(atDeleted):
			case strings.HasPrefix(name, "~"), name == base && t.copies(c):
				yes = true
			}
			return !yes
		})
	})
	return yes
}

// copies reports whether a constructor takes a reference to its own class, and nothing else.
func (t *Type) copies(constructor *node) bool {
	count, same := 0, false
	constructor.eachChild(func(c *node) bool {
		if c.tag != tagParameter || c.flag(atArtificial) {
			return true
		}
		count++
		of := t.i.typeOf(c)
		if of == nil || of.Kind != KindReference || of.n == nil {
			return true
		}
		for range maxAliases {
			if of = of.elemOf(); of == nil || of.Kind != KindAlias {
				break
			}
		}
		same = of != nil && of.n != nil && of.n.at == t.n.at && of.n.u == t.n.u
		return true
	})
	return count == 1 && same
}

// definitionOf returns the entry that defines a class or enumeration with a name; nil if no unit does.
func (i *debugInfo) definitionOf(name string) *node {
	if i.defined == nil {
		i.findDefined()
	}
	key, ok := i.defined[name]
	if !ok {
		return nil
	}
	n, ok := key.u.node(key.at)
	if !ok {
		return nil
	}
	return n
}

// maxDefined limits the bytes of names of classes that are kept to complete declarations.
const (
	maxDefined     = 64 << 20
	maxSearchedDwo = 256 // .dwo files that are searched for them
)

// findDefined lists the classes and enumerations that the units of the binary define, by name.
func (i *debugInfo) findDefined() {
	i.prepare()
	i.defined = make(map[string]typeKey)
	size := 0
	units, _ := i.main.units()
	for _, u := range units {
		if !u.readRoot() {
			continue
		}
		if u.kind == unitSkeleton || u.dwo != "" {
			// The units of a package are in one file; each .dwo file takes memory of its own.
			if len(i.packages) == 0 && len(i.splits) >= maxSearchedDwo {
				continue
			}
			if u = i.splitOf(u); u == nil {
				continue
			}
		}
		for _, s := range u.scopesOf().list {
			n, ok := u.node(u.first + uint64(s.begin))
			if !ok || n.tag != tagStruct && n.tag != tagClass && n.tag != tagUnion && n.tag != tagEnum || n.flag(atDeclaration) {
				continue
			}
			name := n.qualifiedName()
			if name == "" {
				continue
			}
			if size += len(name); size > maxDefined {
				return
			}
			if _, ok := i.defined[name]; !ok {
				i.defined[name] = typeKey{u, n.at}
			}
		}
		i.release()
	}
}
