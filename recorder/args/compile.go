package args

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/recorder/args/value"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Value is a value that the recorder can read: its steps, and what they give.
type Value struct {
	Program     Program
	Description value.Description
}

// Refused is an expression that cannot be read, and why.
type Refused struct {
	Expression string
	Why        string
}

// Function compiles expressions for a function of a binary.
type Function struct{ f fn }

// NewFunction returns the function whose code begins at an address, one of those that the binary was made
// with. symbol is its name in the symbol table. The result is valid until the binary is closed, and not
// safe for concurrent use.
func NewFunction(b *debuginfo.Binary, address uint64, symbol string) (*Function, error) {
	described, err := b.FunctionAt(address)
	if err != nil {
		return nil, err
	}
	f := &Function{fn{Function: described, symbol: symbol, exported: b.Exported(address)}}
	f.f.uses = usesOf(debuginfo.NewCode(b.ELF()).At(address, maxUsesCode), described.EntryCode)
	f.f.locate()
	return f, nil
}

// Entry compiles expressions that are read at the entry of the function: paths from its parameters. Without
// expressions, it compiles all parameters. It leaves out what it refuses, and returns at most [MaxValues]
// values.
func (f *Function) Entry(list []*Expression) (values []Value, refused []Refused) {
	if len(list) == 0 {
		return f.all()
	}
	return compile(list, f.f.parameter)
}

// Exit compiles expressions that are read when the function returns: "result" and paths from it. Without
// expressions, it compiles the result.
func (f *Function) Exit(list []*Expression) (values []Value, refused []Refused) {
	if len(list) == 0 {
		list = []*Expression{{Text: resultName, root: resultName, Limit: DefaultLimit}}
	}
	return compile(list, func(e *Expression) (operand, []op, error) {
		if e.root != resultName {
			return operand{}, nil, fmt.Errorf("%s: only %s can be read when a function returns: use --args for parameters", e.root, resultName)
		}
		o, err := f.f.operand(f.f.result(), f.f.Result, resultName)
		return o, e.ops, err
	})
}

const resultName = "result"

func compile(list []*Expression, root func(e *Expression) (operand, []op, error)) (values []Value, refused []Refused) {
	for _, e := range list {
		o, ops, err := root(e)
		var v Value
		if err == nil {
			v, err = follow(o, ops, e.Limit)
		}
		if err == nil && len(values) == MaxValues {
			err = fmt.Errorf("a function has at most %d values", MaxValues)
		}
		if err != nil {
			refused = append(refused, Refused{e.Text, err.Error()})
			continue
		}
		v.Description.Expression = e.Text
		values = append(values, v)
	}
	return values, refused
}

// follow compiles a path from an operand.
func follow(o operand, ops []op, limit int) (v Value, err error) {
	for i, op := range ops {
		if op.kind == opChars {
			if i < len(ops)-1 {
				return v, fmt.Errorf("(char *)%s is a string, which has no members", o.text)
			}
			return characters(o, limit)
		}
		var end *Value
		if o, end, err = apply(o, op); err != nil {
			return v, err
		}
		if end != nil && i < len(ops)-1 {
			return v, fmt.Errorf("%s is a number, which has no members", o.text)
		}
		if end != nil {
			return *end, nil
		}
	}
	return finish(o, limit)
}

// parameter returns the parameter that an expression begins with, and the rest of the path. A name that no
// parameter has can be that of a member of the object, as in the source.
func (f *fn) parameter(e *Expression) (operand, []op, error) {
	for i := range f.Parameters {
		if p := &f.Parameters[i]; p.Name == e.root {
			o, err := f.operand(f.places[i], p.Type, e.root)
			return o, e.ops, err
		}
	}
	for i := range f.Parameters {
		if p := &f.Parameters[i]; p.Name == "this" && p.Artificial {
			member := op{kind: opMember, name: e.root, arrow: true}
			o, err := f.operand(f.places[i], p.Type, "this")
			if err == nil {
				if _, _, err := apply(o, member); err == nil {
					return o, slices.Concat([]op{member}, e.ops), nil
				}
			}
		}
	}
	names := make([]string, 0, len(f.Parameters))
	for _, p := range f.Parameters {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	switch {
	case e.root == resultName:
		return operand{}, nil, errors.New("the result is known when the function returns: use --results")
	case len(names) == 0:
		return operand{}, nil, fmt.Errorf("the function has no parameter %s: it has none with a name", e.root)
	}
	return operand{}, nil, fmt.Errorf("the function has no parameter %s: it has %s", e.root, some(names))
}

// some lists names, but not very many.
func some(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// apply follows an operator of a path. It returns a value if the path must end there.
func apply(o operand, op op) (operand, *Value, error) {
	var err error
	switch op.kind {
	case opDeref:
		o, err = dereference(o)
	case opIndex:
		o, err = element(o, op.index)
	default:
		if op.arrow || isPointer(o.t) {
			if !op.arrow && op.kind == opMember && !o.rust {
				return o, nil, fmt.Errorf("%s is a pointer: write %s->%s", o.text, o.text, op.name)
			}
			if o, err = dereference(o); err != nil {
				return o, nil, err
			}
		}
		if op.kind == opCall {
			return call(o, op.name)
		}
		o, err = member(o, op.name)
	}
	return o, nil, err
}

// dereference returns what a pointer, a smart pointer or an optional contains.
func dereference(o operand) (operand, error) {
	if o.rust && !isPointer(o.t) {
		return o, nil // it was a reference
	}
	switch libraryOf(o.t) {
	case libOptional:
		inner, err := optional(o)
		if err != nil {
			return o, err
		}
		inner.text = "*" + o.text
		return inner.through()
	case libPointer:
		var err error
		if o, err = smartPointer(o); err != nil {
			return o, err
		}
	}
	if !isPointer(o.t) {
		return o, fmt.Errorf("%s is not a pointer, but of type %s", o.text, typeName(o.t))
	}
	to := o.t.Elem()
	if to == nil {
		return o, fmt.Errorf("%s points to void: the type of what it points to is not known", o.text)
	}
	if to.Resolve() != nil && to.Resolve().Kind == debuginfo.KindFunction {
		return o, fmt.Errorf("%s points to a function", o.text)
	}
	inner, err := o.pointee(to)
	if err != nil {
		return o, err
	}
	inner.text = "*" + o.text
	return inner.through()
}

// element returns an element of a pointer, an array or a container.
func element(o operand, index int64) (operand, error) {
	text := fmt.Sprintf("%s[%d]", o.text, index)
	if libraryOf(o.t) == libArray {
		a, ok := find(o.t, func(t *debuginfo.Type) bool { return t != nil && t.Kind == debuginfo.KindArray }, "_M_elems", "__elems_")
		if !ok {
			return o, layout(o.t)
		}
		o = o.at(a.offset, a.t)
	}
	if isPointer(o.t) {
		to := o.t.Elem()
		size, ok := to.Size()
		if !ok {
			return o, fmt.Errorf("%s: the size of an element is not known", text)
		}
		inner, err := o.pointee(to)
		if err != nil {
			return o, err
		}
		inner.offset, inner.text = index*int64(size), text
		if size > 1<<31 {
			return o, fmt.Errorf("%s is too far from the beginning", text)
		}
		return inner.through()
	}
	if o.t != nil && o.t.Kind == debuginfo.KindArray {
		if o.t.Count >= 0 && index >= o.t.Count {
			return o, fmt.Errorf("%s: the array has %d elements", text, o.t.Count)
		}
		elem := o.t.Elem()
		size, ok := elem.Size()
		if !ok || size > 1<<31 {
			return o, fmt.Errorf("%s: the size of an element is not known", text)
		}
		o = o.at(uint64(index)*size, elem)
		o.text = text
		return o.through()
	}
	s, err := asSequence(o.t)
	if err != nil {
		return o, err
	}
	if s == nil {
		return o, fmt.Errorf("%s has no elements that can be read: it is of type %s", o.text, typeName(o.t))
	}
	inner, err := s.element(o, index)
	if err != nil {
		return o, err
	}
	return inner.through()
}

// member returns a member of a class, also of its bases and anonymous members.
func member(o operand, name string) (operand, error) {
	text := o.text + "." + name
	if pointed, ok := strings.CutPrefix(o.text, "*"); ok {
		text = pointed + "->" + name
	}
	if o.t == nil || o.t.Kind != debuginfo.KindStruct && o.t.Kind != debuginfo.KindUnion {
		return o, fmt.Errorf("%s has no members: it is of type %s", o.text, typeName(o.t))
	}
	if o.t.Declaration {
		return o, layout(o.t)
	}
	type level struct {
		t      *debuginfo.Type
		offset uint64
	}
	var names []string
	variants, virtual := false, false
	search := []level{{t: o.t}}
	for budget := maxFields; len(search) > 0 && budget > 0; {
		in := search[0]
		search = search[1:]
		members, sum := in.t.Members()
		variants = variants || sum
		for _, m := range members {
			if budget--; budget < 0 {
				break
			}
			if m.Virtual {
				virtual = true
				continue
			}
			of := m.Type.Resolve()
			if m.Name == "" {
				if of != nil && (of.Kind == debuginfo.KindStruct || of.Kind == debuginfo.KindUnion) {
					search = append(search, level{of, in.offset + m.Offset})
				}
				continue
			}
			if m.Name != name && m.Name != "__"+name {
				if !m.Artificial {
					names = append(names, m.Name)
				}
				continue
			}
			o = o.at(in.offset+m.Offset, m.Type)
			o.text = text
			if m.BitSize > 0 {
				o.bits, o.from = m.BitSize, m.BitOffset-m.Offset*8
			}
			return o.through()
		}
	}
	has := "it has no members that can be read"
	if len(names) > 0 {
		has = "it has " + some(names)
	}
	switch {
	case variants:
		has += "; the variants of a sum type cannot be read"
	case virtual:
		has += "; members of virtual bases cannot be read"
	}
	return o, fmt.Errorf("%s has no member %s: %s", shortType(o.t.Name), name, has)
}

// call applies a function of a library class.
func call(o operand, name string) (operand, *Value, error) {
	text := o.text + "." + name + "()"
	kind := libraryOf(o.t)
	unknown := func() error {
		return fmt.Errorf("%s: functions of the program cannot be called; known are size, length, empty, data and front of strings, views, vectors and spans, size of other containers, get, value, has_value, count and load", text)
	}
	next := func(o operand, err error) (operand, *Value, error) {
		if err == nil {
			o.text = text
			o, err = o.through()
		}
		return o, nil, err
	}
	switch {
	case name == "get" && kind == libPointer:
		return next(smartPointer(o))
	case name == "value" && kind == libOptional:
		return next(optional(o))
	case name == "load" && kind == libAtomic:
		return next(atomicValue(o))
	case name == "front":
		return next(element(o, 0))
	case name == "count" && (kind == libDuration || kind == libTime):
		o, _, err := ticks(o)
		return next(o, err)
	case name == "time_since_epoch" && kind == libTime, (name == "as_str" || name == "as_slice") && (kind == libRustVec || kind == libView):
		return next(o, nil)
	case name == "has_value" && kind == libOptional:
		engaged, ok := find(o.t, isNumber, "_M_engaged", "__engaged_")
		if !ok {
			return o, nil, layout(o.t)
		}
		return next(o.at(engaged.offset, engaged.t), nil)
	}
	size := name == "size" || name == "length" || name == "len"
	data := name == "data" || name == "c_str" || name == "as_ptr"
	if !size && !data && name != "empty" && name != "is_empty" {
		return o, nil, unknown()
	}
	d := value.Description{Type: "size_t", Kind: value.Scalar, Format: value.Uint, Size: 8}
	switch s, err := asSequence(o.t); {
	case err != nil:
		return o, nil, err
	case s != nil && data:
		d.Type, d.Format = typeName(s.elem)+" *", value.Pointer
		if s.data != nil {
			if err := o.load(s.data.offset, 8); err != nil {
				return o, nil, err
			}
			break
		}
		if err := s.contents(&o); err != nil {
			return o, nil, err
		}
		o.emit(step(SWAP, 0, 0))
	case s != nil:
		if err := s.count(&o); err != nil {
			return o, nil, err
		}
	case kind == libSized && !data:
		m, err := sizeMember(o.t)
		if err != nil {
			return o, nil, err
		}
		width, _ := m.t.Size()
		if err := o.load(m.offset, width); err != nil {
			return o, nil, err
		}
	case kind == libArray && size:
		a, ok := find(o.t, func(t *debuginfo.Type) bool { return t != nil && t.Kind == debuginfo.KindArray }, "_M_elems", "__elems_")
		if !ok || a.t.Count < 0 {
			return o, nil, layout(o.t)
		}
		o.code = nil
		o.constant(uint64(a.t.Count))
	default:
		return o, nil, unknown()
	}
	if name == "empty" || name == "is_empty" {
		d.Type, d.Format, d.Size = "bool", value.Bool, 1
		// A is 0 or not: make it 1 or 0.
		o.emit(step(JZ, 0, 2), step(AND, 0, 0), step(JUMP, 0, 1), step(ADD, 0, 1))
	}
	o.text = text
	program, err := o.program(step(SCALAR, 0, 0))
	return o, &Value{program, d}, err
}

// atomic returns the value in an atomic.
func atomicValue(o operand) (operand, error) {
	v, ok := find(o.t, func(t *debuginfo.Type) bool { return t != nil && t.Kind != debuginfo.KindStruct }, "_M_i", "_M_p", "__a_value")
	if !ok {
		return o, layout(o.t)
	}
	return o.at(v.offset, v.t), nil
}

// finish compiles the end of a path: how its value is read, and how it is shown.
func finish(o operand, limit int) (Value, error) {
	o, err := o.through()
	if err != nil {
		return Value{}, err
	}
	t := o.t
	if t == nil {
		return Value{}, fmt.Errorf("%s is void", o.text)
	}
	d := value.Description{Type: typeName(t), Kind: value.Scalar}
	if d.Size, _ = t.Size(); d.Size == 0 && t.Kind != debuginfo.KindArray && t.Kind != debuginfo.KindStruct {
		return Value{}, fmt.Errorf("%s: the debug information does not tell the size of its type", o.text)
	}
	switch t.Kind {
	case debuginfo.KindBase:
		return number(o, d)
	case debuginfo.KindPointer:
		if isChar(t.Elem()) && !o.rust {
			return characters(o, limit)
		}
		d.Format = value.Pointer
	case debuginfo.KindMemberPointer:
		if t.Function {
			return Value{}, fmt.Errorf("%s is a pointer to a member function, which is not a number", o.text)
		}
		d.Format = value.Int
	case debuginfo.KindEnum:
		d.Format = value.Enum
		if under := t.Elem().Resolve(); under != nil {
			d.Signed = isSigned(under)
		}
		d.Enumerators = make(map[string]string)
		for i, e := range t.Enumerators() {
			if i >= maxEnumerators {
				break
			}
			key := strconv.FormatUint(e.Value, 10)
			if shift := 64 - 8*min(d.Size, 8); d.Signed {
				key = strconv.FormatInt(int64(e.Value<<shift)>>shift, 10)
			}
			if _, ok := d.Enumerators[key]; !ok {
				d.Enumerators[key] = e.Name
			}
		}
	case debuginfo.KindArray:
		return array(o, d, limit)
	case debuginfo.KindStruct:
		return ofClass(o, d, limit)
	default:
		return Value{}, fmt.Errorf("%s is of type %s, which is not a value: choose a member", o.text, d.Type)
	}
	if err := o.number(min(d.Size, 8), d.Signed); err != nil {
		return Value{}, err
	}
	return o.end(d, step(SCALAR, 0, 0))
}

// characters ends a path at a pointer to a string.
func characters(o operand, limit int) (Value, error) {
	if !isPointer(o.t) {
		return Value{}, fmt.Errorf("%s is not a pointer, but of type %s", o.text, typeName(o.t))
	}
	d := value.Description{Type: typeName(o.t), Kind: value.Bytes, Format: value.String}
	if err := o.load(0, 8); err != nil {
		return Value{}, err
	}
	o.unless(NullPointer)
	return o.end(d, step(CSTRING, 0, int64(limit)))
}

// maxEnumerators limits the names of an enumeration that a trace has.
const maxEnumerators = 1024

func isSigned(t *debuginfo.Type) bool {
	return t.Encoding == debuginfo.EncodingSigned || t.Encoding == debuginfo.EncodingSignedChar
}

// end returns the value that a step ends.
func (o *operand) end(d value.Description, last ins) (Value, error) {
	program, err := o.program(last)
	return Value{program, d}, err
}

// number ends a path at a number.
func number(o operand, d value.Description) (Value, error) {
	t := o.t
	switch t.Encoding {
	case debuginfo.EncodingBool:
		d.Format = value.Bool
	case debuginfo.EncodingFloat:
		d.Format = value.Float
	case debuginfo.EncodingUTF:
		d.Format = value.Char
	case debuginfo.EncodingSigned:
		d.Format = value.Int
	case debuginfo.EncodingUnsigned:
		d.Format = value.Uint
	case debuginfo.EncodingSignedChar, debuginfo.EncodingUnsignedChar:
		switch {
		case t.Name == "char" || t.Name == "wchar_t":
			d.Format = value.Char
		case isSigned(t):
			d.Format = value.Int
		default:
			d.Format = value.Uint
		}
	default:
		return Value{}, fmt.Errorf("%s is of type %s, which cannot be shown", o.text, d.Type)
	}
	switch {
	case d.Size <= 8 && (d.Format != value.Float || d.Size == 4 || d.Size == 8):
		if err := o.number(d.Size, d.Format == value.Int); err != nil {
			return Value{}, err
		}
		return o.end(d, step(SCALAR, 0, 0))
	case d.Size != 16 || o.bits > 0 || d.Format == value.Char || d.Format == value.Bool:
		return Value{}, fmt.Errorf("%s is of type %s, which cannot be shown", o.text, d.Type)
	}
	d.Kind = value.Wide
	if d.Format == value.Float && strings.HasPrefix(t.Name, "long double") {
		d.Size = 10
	}
	if err := o.pair(8, 0); err != nil {
		return Value{}, err
	}
	return o.end(d, step(WIDE, 0, 0))
}

// array ends a path at an array, which must be one of characters.
func array(o operand, d value.Description, limit int) (Value, error) {
	if !isChar(o.t.Elem()) || o.t.Count == 0 {
		return Value{}, fmt.Errorf("%s is an array: choose an element, as %s[0]", o.text, o.text)
	}
	if err := o.address(); err != nil {
		return Value{}, err
	}
	d.Kind, d.Format, d.Size = value.Bytes, value.String, 0
	if o.t.Count < 0 || o.t.Count > 1<<30 {
		return o.end(d, step(CSTRING, 0, int64(limit)))
	}
	d.Size = uint64(o.t.Count)
	o.emit(step(MOVE, 0, 0))
	o.constant(d.Size)
	return o.end(d, step(BYTES, 0, int64(limit)))
}

// ofClass ends a path at a class, which must be one of a standard library that has a value.
func ofClass(o operand, d value.Description, limit int) (Value, error) {
	switch libraryOf(o.t) {
	case libOptional:
		inner, err := optional(o)
		if err != nil {
			return Value{}, err
		}
		return finish(inner, limit)
	case libPointer:
		inner, err := smartPointer(o)
		if err != nil {
			return Value{}, err
		}
		if err := inner.number(8, false); err != nil {
			return Value{}, err
		}
		d.Format, d.Size = value.Pointer, 8
		return inner.end(d, step(SCALAR, 0, 0))
	case libAtomic:
		inner, err := atomicValue(o)
		if err != nil {
			return Value{}, err
		}
		return finish(inner, limit)
	case libDuration, libTime:
		inner, unit, err := ticks(o)
		if err != nil {
			return Value{}, err
		}
		v, err := finish(inner, limit)
		if err == nil && v.Description.Kind == value.Scalar {
			v.Description.Signed = v.Description.Format == value.Int
			v.Description.Float = v.Description.Format == value.Float
			v.Description.Format, v.Description.Unit, v.Description.Type = value.Duration, unit, d.Type
		}
		return v, err
	}
	s, err := asSequence(o.t)
	if err != nil {
		return Value{}, err
	}
	if s != nil && s.text {
		if err := s.contents(&o); err != nil {
			return Value{}, err
		}
		d.Kind, d.Format, d.Size = value.Bytes, value.String, 0
		return o.end(d, step(BYTES, 0, int64(limit)))
	}
	if s != nil || libraryOf(o.t) != libNone {
		return Value{}, fmt.Errorf("%s is of type %s: choose its size or an element, as %s.size() or %s[0]", o.text, d.Type, o.text, o.text)
	}
	if o.t.Declaration {
		return Value{}, layout(o.t)
	}
	var names []string
	members, variants := o.t.Members()
	for _, m := range members {
		if m.Name != "" && !m.Artificial {
			names = append(names, m.Name)
		}
	}
	switch {
	case variants:
		return Value{}, fmt.Errorf("%s is of type %s, a sum type, whose variants cannot be read", o.text, d.Type)
	case len(names) == 0:
		return Value{}, fmt.Errorf("%s is of type %s, which has no members that can be read", o.text, d.Type)
	}
	return Value{}, fmt.Errorf("%s is of type %s: choose a member: %s", o.text, d.Type, some(names))
}

// all compiles all parameters. Of a class that is no value, it compiles the members that are.
func (f *Function) all() (values []Value, refused []Refused) {
	for i := range f.f.Parameters {
		p := &f.f.Parameters[i]
		switch {
		case p.Name == "__in_chrg":
			continue
		case p.Name == "":
			refused = append(refused, Refused{fmt.Sprintf("parameter %d", i+1), "it has no name"})
			continue
		}
		v, r := f.f.expand(f.f.places[i], p)
		values = append(values, v...)
		refused = append(refused, r...)
	}
	if len(values) > MaxValues {
		for _, v := range values[MaxValues:] {
			refused = append(refused, Refused{v.Description.Expression, fmt.Sprintf("a function has at most %d values", MaxValues)})
		}
		values = values[:MaxValues]
	}
	return values, refused
}

// expand compiles a parameter, or its parts.
func (f *fn) expand(l place, p *debuginfo.Parameter) (values []Value, refused []Refused) {
	o, err := f.operand(l, p.Type, p.Name)
	if err != nil {
		return nil, []Refused{{p.Name, strings.TrimPrefix(err.Error(), p.Name+": ")}}
	}
	add := func(text string, ops ...op) error {
		v, err := follow(o, ops, DefaultLimit)
		if err == nil {
			v.Description.Expression = text
			values = append(values, v)
		}
		return err
	}
	if err = add(p.Name); err == nil {
		return values, nil
	}
	if o.t != nil && (o.t.Kind == debuginfo.KindStruct || o.t.Kind == debuginfo.KindUnion) && !o.t.Declaration {
		if libraryOf(o.t) != libNone {
			if failed := add(p.Name+".size()", op{kind: opCall, name: "size"}); failed == nil {
				return values, nil
			}
		} else {
			members, _ := o.t.Members()
			for _, m := range members {
				if m.Name == "" || m.Artificial {
					continue
				}
				if failed := add(p.Name+"."+m.Name, op{kind: opMember, name: m.Name}); failed != nil {
					size := []op{{kind: opMember, name: m.Name}, {kind: opCall, name: "size"}}
					if sized := add(p.Name+"."+m.Name+".size()", size...); sized != nil {
						refused = append(refused, Refused{p.Name + "." + m.Name, failed.Error()})
					}
				}
			}
			if len(values) > 0 {
				return values, refused
			}
		}
	}
	return nil, []Refused{{p.Name, err.Error()}}
}
