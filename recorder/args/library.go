package args

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// library is a kind of class of the standard libraries of C++ and Rust whose contents can be read.
type library uint8

const (
	libNone     library = iota
	libString           // std::basic_string
	libView             // a pointer and a number of elements: string_view, span, &str and slices
	libVector           // pointers to the begin and the end of the elements
	libRustVec          // Vec, and String as a Vec
	libArray            // std::array
	libOptional         //
	libPointer          // unique_ptr, shared_ptr
	libDuration         //
	libTime             // time_point
	libAtomic           //
	libSized            // containers of which only the size can be read
)

// libraries has the kinds by the name of the class without inline namespaces and arguments.
var libraries = map[string]library{
	"std::basic_string": libString, "std::basic_string_view": libView, "std::span": libView,
	"std::vector": libVector, "std::array": libArray, "std::optional": libOptional,
	"std::unique_ptr": libPointer, "std::shared_ptr": libPointer,
	"std::chrono::duration": libDuration, "std::chrono::time_point": libTime, "std::atomic": libAtomic,
	"std::map": libSized, "std::set": libSized, "std::multimap": libSized, "std::multiset": libSized, "std::list": libSized,
	"std::unordered_map": libSized, "std::unordered_set": libSized, "std::unordered_multimap": libSized, "std::unordered_multiset": libSized,
	"alloc::vec::Vec": libRustVec, "alloc::string::String": libRustVec,
}

// libraryOf returns the kind of a class.
func libraryOf(t *debuginfo.Type) library {
	if t == nil || t.Kind != debuginfo.KindStruct {
		return libNone
	}
	if strings.HasPrefix(t.Name, "&") { // of Rust
		if _, ok := find(t, notAny, "data_ptr"); ok && strings.Contains(t.Name, "str") || ok && strings.Contains(t.Name, "[") {
			return libView
		}
		return libNone
	}
	base, _, _ := strings.Cut(t.Name, "<")
	parts := strings.Split(base, "::")
	if len(parts) < 2 || parts[0] != "std" && parts[0] != "alloc" {
		return libNone
	}
	plain := parts[:1]
	for _, p := range parts[1:] {
		if !strings.HasPrefix(p, "__") {
			plain = append(plain[:len(plain):len(plain)], p)
		}
	}
	return libraries[strings.Join(plain, "::")]
}

// found is a member that find found.
type found struct {
	t      *debuginfo.Type
	offset uint64
}

func notAny(*debuginfo.Type) bool      { return true }
func isPointer(t *debuginfo.Type) bool { return t != nil && t.Kind == debuginfo.KindPointer }
func isInteger(t *debuginfo.Type) bool { return t != nil && t.Kind == debuginfo.KindBase && isInt(t) }
func isNumber(t *debuginfo.Type) bool  { return t != nil && t.Kind == debuginfo.KindBase }
func isInt(t *debuginfo.Type) bool {
	switch t.Encoding {
	case debuginfo.EncodingSigned, debuginfo.EncodingUnsigned, debuginfo.EncodingSignedChar, debuginfo.EncodingUnsignedChar:
		return true
	}
	return false
}

// find looks for a member with one of the names and a fitting type in a class, its bases and its members,
// those that are nearest first. Virtual bases are left out.
func find(t *debuginfo.Type, fits func(*debuginfo.Type) bool, names ...string) (found, bool) {
	const deepest = 8
	level := []found{{t: t.Resolve()}}
	budget := maxFields
	for range deepest {
		var next []found
		for _, f := range level {
			if f.t == nil || f.t.Kind != debuginfo.KindStruct && f.t.Kind != debuginfo.KindUnion {
				continue
			}
			members, _ := f.t.Members()
			for _, m := range members {
				if budget--; budget < 0 {
					return found{}, false
				}
				if m.Virtual || m.BitSize > 0 {
					continue
				}
				in := found{m.Type.Resolve(), f.offset + m.Offset}
				for _, name := range names {
					if m.Name == name && fits(in.t) {
						return in, true
					}
				}
				next = append(next, in)
			}
		}
		level = next
	}
	return found{}, false
}

// argument returns the type of a template argument; nil if there is none.
func argument(t *debuginfo.Type, i int) *debuginfo.Type {
	if list := t.TemplateArguments(); i < len(list) {
		return list[i].Type
	}
	return nil
}

// isChar reports whether a type is char, or another one that strings of 8-bit characters consist of.
func isChar(t *debuginfo.Type) bool {
	t = t.Resolve()
	if t == nil || t.Kind != debuginfo.KindBase {
		return false
	}
	size, _ := t.Size()
	return size == 1 && (t.Name == "char" || t.Name == "char8_t" || t.Encoding == debuginfo.EncodingUTF)
}

// sequence is how to read a string or a container: code that puts the address of the elements into B and
// their number into A.
type sequence struct {
	elem *debuginfo.Type
	size uint64 // of an element in bytes; 0 if unknown
	text bool   // the elements are the bytes of a string
	// contents appends the code to an operand. Of a vector, it has the number of bytes, and B is not set.
	contents func(o *operand) error
	// data is where the pointer to the elements is; nil if it is not in a single place.
	data   *found
	vector bool
	end    found // of a vector, where the pointer to the end is
}

// asSequence returns how to read a class; nil if it has no elements that can be read.
func asSequence(t *debuginfo.Type) (*sequence, error) {
	switch libraryOf(t) {
	case libString:
		return stringSequence(t)
	case libView:
		return viewSequence(t)
	case libVector:
		begin, ok1 := find(t, isPointer, "_M_start", "__begin_")
		end, ok2 := find(t, isPointer, "_M_finish", "__end_")
		if !ok1 || !ok2 {
			return nil, layout(t)
		}
		s := &sequence{elem: begin.t.Elem(), data: &begin, end: end, vector: true}
		s.size, _ = s.elem.Size()
		s.contents = func(o *operand) error {
			if err := o.pair(begin.offset, end.offset); err != nil {
				return err
			}
			o.emit(step(SWAP, 0, 0), step(INDEX, 0, -1))
			return nil
		}
		return s, nil
	case libRustVec:
		length, ok1 := find(t, isInteger, "len")
		data, ok2 := find(t, isPointer, "pointer")
		if !ok1 || !ok2 {
			return nil, layout(t)
		}
		s := &sequence{data: &data, text: strings.HasPrefix(t.Name, "alloc::string::String")}
		if s.elem = argument(t, 0); s.text {
			s.elem = data.t.Elem()
		}
		s.size, _ = s.elem.Size()
		s.contents = func(o *operand) error { return o.pair(data.offset, length.offset) }
		return s, nil
	case libNone:
		return ownString(t), nil
	}
	return nil, nil
}

// Names of the members of strings that programs define themselves.
var (
	ownData   = regexp.MustCompile(`^(m?_)?(data|ptr|str|begin|start)_?$`)
	ownLength = regexp.MustCompile(`^(m?_)?(len|length|size)_?$`)
)

// ownString returns how to read a string that the program defines itself: a class that has nothing but numbers and
// one pointer to bytes, with one pair of members that are named as data and length. It returns nil for other classes.
// The bytes may be unsigned, as in many programs in C.
func ownString(t *debuginfo.Type) *sequence {
	const mostMembers = 4 // capacities, hashes and positions
	if t == nil || t.Kind != debuginfo.KindStruct {
		return nil
	}
	members, variants := t.Members()
	if variants || len(members) > mostMembers {
		return nil
	}
	var data, length found
	for _, m := range members {
		of := m.Type.Resolve()
		in := found{of, m.Offset}
		switch {
		case m.Virtual || m.BitSize > 0 || m.Name == "":
			return nil
		case isPointer(of) && isByte(of.Elem()) && ownData.MatchString(m.Name) && data.t == nil:
			data = in
		case !isInteger(of):
			return nil
		case ownLength.MatchString(m.Name):
			if size, _ := of.Size(); length.t != nil || size != 4 && size != 8 {
				return nil
			}
			length = in
		}
	}
	if data.t == nil || length.t == nil {
		return nil
	}
	size, _ := length.t.Size()
	s := &sequence{elem: data.t.Elem(), size: 1, data: &data, text: true}
	s.contents = func(o *operand) error {
		if isSigned(length.t) {
			if err := o.unlessNegative(length.offset, size); err != nil {
				return err
			}
		}
		return o.pairOf(data.offset, length.offset, size)
	}
	return s
}

// isByte reports whether a type is char, signed or unsigned.
func isByte(t *debuginfo.Type) bool {
	t = t.Resolve()
	size, _ := t.Size()
	return size == 1 && (isChar(t) || isNumber(t) && isInt(t))
}

// layout is the error for a class whose members are not those of a known version of its library.
func layout(t *debuginfo.Type) error {
	if t.Declaration {
		return fmt.Errorf("no debug information describes the type %s: compile with -fstandalone-debug", t.Name)
	}
	return fmt.Errorf("the members of %s are not those of a known version of its library", shortType(t.Name))
}

// stringSequence reads std::basic_string. Compilers often only declare it, because the library has its code,
// so the layouts are known here: they are part of the binary interface of the libraries.
func stringSequence(t *debuginfo.Type) (*sequence, error) {
	s := &sequence{size: 1}
	if s.elem = argument(t, 0); s.elem != nil {
		s.size, _ = s.elem.Size()
		s.text = isChar(s.elem)
	} else {
		s.text = strings.Contains(t.Name, "basic_string<char,") || strings.Contains(t.Name, "basic_string<char>")
		if !s.text {
			return nil, layout(t)
		}
	}
	switch {
	case strings.HasPrefix(t.Name, "std::__cxx11::"):
		s.data = &found{}
		s.contents = func(o *operand) error { return o.pair(0, 8) }
	case strings.HasPrefix(t.Name, "std::__1::"):
		if !t.Declaration {
			long, ok := find(t, notAny, "__l")
			data, ok1 := find(long.t, isPointer, "__data_")
			size, ok2 := find(long.t, notAny, "__size_")
			if !ok || !ok1 || !ok2 || data.offset != 16 || size.offset != 8 {
				return nil, layout(t)
			}
		}
		if s.size != 1 {
			return nil, layout(t)
		}
		s.contents = libcxxString
	case strings.HasPrefix(t.Name, "std::basic_string<"): // libstdc++ before GCC 5
		s.data = &found{}
		s.contents = func(o *operand) error {
			if err := o.load(0, 8); err != nil {
				return err
			}
			o.emit(step(MOVE, 0, 0), step(LOAD, 8, -24))
			return nil
		}
	default:
		return nil, layout(t)
	}
	return s, nil
}

// libcxxString reads a string of libc++. The lowest bit of its first byte is set if the characters are
// elsewhere: then there is the size at 8 and the pointer at 16. Otherwise the other bits of the first byte
// are the size, and the characters follow.
func libcxxString(o *operand) error {
	if err := o.address(); err != nil {
		return err
	}
	o.emit(step(MOVE, 0, 0), step(LOAD, 1, 0), step(AND, 0, 1), step(JZ, 0, 5),
		step(INDEX, 0, 0), step(LOAD, 8, 16), step(SWAP, 0, 0), step(LOAD, 8, 8), step(JUMP, 0, 6), // INDEX 0 is A = B
		step(INDEX, 0, 0), step(LOAD, 1, 0), step(SHR, 0, 1), step(SWAP, 0, 0), step(ADD, 0, 1), step(SWAP, 0, 0))
	return nil
}

// viewSequence reads a pointer and a number of elements.
func viewSequence(t *debuginfo.Type) (*sequence, error) {
	data, ok := find(t, isPointer, "_M_str", "_M_ptr", "__data_", "__data", "data_ptr")
	if !ok {
		return nil, layout(t)
	}
	s := &sequence{elem: data.t.Elem(), data: &data}
	s.size, _ = s.elem.Size()
	s.text = isChar(s.elem) && strings.Contains(t.Name, "string_view") || strings.HasPrefix(t.Name, "&") && strings.HasSuffix(t.Name, "str")
	length, ok := find(t, isInteger, "_M_len", "_M_extent_value", "__size_", "__size", "length")
	if ok {
		s.contents = func(o *operand) error { return o.pair(data.offset, length.offset) }
		return s, nil
	}
	// A span of a fixed size has no member for it.
	for _, a := range t.TemplateArguments() {
		if a.IsValue && isInteger(a.Type.Resolve()) && a.Value >= 0 {
			s.contents = func(o *operand) error {
				if err := o.load(data.offset, 8); err != nil {
					return err
				}
				o.emit(step(MOVE, 0, 0))
				o.constant(uint64(a.Value))
				return nil
			}
			return s, nil
		}
	}
	return nil, layout(t)
}

// count appends code that puts the number of elements into A.
func (s *sequence) count(o *operand) error {
	if s.vector && s.size == 0 {
		return fmt.Errorf("%s: the size of an element is not known", o.text)
	}
	if err := s.contents(o); err != nil {
		return err
	}
	if s.vector {
		o.divide(s.size)
	}
	return nil
}

// element returns an element, after a check that there are so many.
func (s *sequence) element(o operand, index int64) (operand, error) {
	if s.size == 0 || s.elem == nil || index > (1<<31-1)/int64(s.size)-1 {
		return o, fmt.Errorf("%s[%d]: the place of the element is not known", o.text, index)
	}
	if s.vector {
		// The sign of begin - end + the bytes up to the end of the element - 1 decides.
		if err := o.pair(s.data.offset, s.end.offset); err != nil {
			return o, err
		}
		o.emit(step(INDEX, 0, -1), step(ADD, 0, (index+1)*int64(s.size)-1), step(SHR, 0, 63))
		o.unless(BeyondEnd)
	} else {
		if err := s.contents(&o); err != nil {
			return o, err
		}
		o.emit(step(ADD, 0, -(index+1)), step(SHR, 0, 63), step(JZ, 0, 1), ins{Step: Step{Op: NONE, A: BeyondEnd}})
	}
	o.emit(step(SWAP, 0, 0))
	return operand{t: s.elem, memory: true, code: o.code, offset: index * int64(s.size), text: fmt.Sprintf("%s[%d]", o.text, index), rust: o.rust}, nil
}

// optional returns the value in an optional, after a check that there is one.
func optional(o operand) (operand, error) {
	engaged, ok1 := find(o.t, isNumber, "_M_engaged", "__engaged_")
	value, ok2 := find(o.t, notAny, "_M_value", "__val_")
	if !ok1 || !ok2 {
		return o, layout(o.t)
	}
	inner := o.at(value.offset, value.t)
	if o.memory {
		if err := o.address(); err != nil {
			return o, err
		}
		o.emit(step(MOVE, 0, 0), step(LOAD, 1, int64(engaged.offset)))
		o.unless(EmptyOptional)
		o.emit(step(SWAP, 0, 0))
		inner.code, inner.offset = o.code, int64(value.offset)
		return inner, nil
	}
	if err := o.load(engaged.offset, 1); err != nil {
		return o, err
	}
	o.unless(EmptyOptional)
	inner.code = o.code
	return inner, nil
}

// smartPointer returns the pointer in a unique_ptr or shared_ptr.
func smartPointer(o operand) (operand, error) {
	p, ok := find(o.t, isPointer, "_M_head_impl", "_M_ptr", "__ptr_", "__value_")
	if !ok {
		return o, layout(o.t)
	}
	return o.at(p.offset, p.t), nil
}

// sizeMember returns the member of a container that has its size.
func sizeMember(t *debuginfo.Type) (found, error) {
	size, ok := find(t, isInteger, "_M_node_count", "_M_element_count", "_M_size", "__size_")
	if !ok {
		// A pair of libc++ whose other half is empty.
		if pair, in := find(t, notAny, "__pair3_", "__p2_", "__size_alloc_", "__size_"); in {
			if size, ok = find(pair.t, isInteger, "__value_"); ok {
				size.offset += pair.offset
			}
		}
	}
	if !ok {
		return size, layout(t)
	}
	return size, nil
}

// ticks returns the number of ticks of a duration and the length of one in nanoseconds.
func ticks(o operand) (operand, string, error) {
	if libraryOf(o.t) == libTime {
		d, ok := find(o.t, notAny, "__d", "__d_")
		if !ok {
			return o, "", layout(o.t)
		}
		o = o.at(d.offset, d.t)
	}
	rep, ok := find(o.t, isNumber, "__r", "__rep_")
	period := argument(o.t, 1).Resolve()
	if !ok || period == nil {
		return o, "", layout(o.t)
	}
	values := period.TemplateArguments()
	if len(values) != 2 || values[0].Value <= 0 || values[1].Value <= 0 {
		return o, "", layout(o.t)
	}
	num, den := uint64(values[0].Value), uint64(values[1].Value)
	g := gcd(1e9, den)
	high, num := bits.Mul64(num, 1e9/g)
	if high != 0 {
		return o, "", layout(o.t)
	}
	den /= g
	g = gcd(num, den)
	return o.at(rep.offset, rep.t), fmt.Sprintf("%d/%d", num/g, den/g), nil
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
