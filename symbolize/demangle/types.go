package demangle

// builtins are the types with one-letter codes, from 'a' on.
var builtins = [26]string{
	0: "signed char", 'b' - 'a': "bool", 'c' - 'a': "char", 'd' - 'a': "double", 'e' - 'a': "long double",
	'f' - 'a': "float", 'g' - 'a': "__float128", 'h' - 'a': "unsigned char", 'i' - 'a': "int",
	'j' - 'a': "unsigned int", 'l' - 'a': "long", 'm' - 'a': "unsigned long", 'n' - 'a': "__int128",
	'o' - 'a': "unsigned __int128", 's' - 'a': "short", 't' - 'a': "unsigned short", 'v' - 'a': "void",
	'w' - 'a': "wchar_t", 'x' - 'a': "long long", 'y' - 'a': "unsigned long long", 'z' - 'a': "...",
}

// laterBuiltins are the types with codes that begin with D.
var laterBuiltins = [26]string{
	0: "auto", 'c' - 'a': "decltype(auto)", 'h' - 'a': "half", 'i' - 'a': "char32_t", 'n' - 'a': "std::nullptr_t",
	's' - 'a': "char16_t", 'u' - 'a': "char8_t",
}

// typ reads <type>.
func (d *demangler) typ() shape {
	d.enter()
	defer d.leave()
	bare := d.bare
	d.bare = false
	begin := d.state()
	start := begin.start
	c := d.peek(0)
	if c >= 'a' && c <= 'z' && c != 'r' && builtins[c-'a'] != "" {
		d.in = d.in[1:]
		d.text(builtins[c-'a'])
		return shape{mid: len(d.out) - start}
	}
	if c == 'D' && d.laterBuiltin() {
		return shape{mid: len(d.out) - start}
	}
	var s shape
	switch c {
	case 'P', 'R', 'O':
		d.in = d.in[1:]
		s = d.declarator(start, d.typ(), c)
	case 'r', 'V', 'K':
		s = d.qualified(start)
	case 'F':
		s = d.function("")
	case 'A':
		s = d.array()
	case 'M':
		s = d.memberPointer()
	case 'T':
		s, _ = d.templateParam()
		if d.peek(0) == 'I' && !bare {
			d.record(begin, s, source{at: begin.at, bare: true})
			d.templateArgs(false)
			s = shape{mid: len(d.out) - start}
		}
	case 'D':
		s = d.later()
	case 'C', 'G':
		d.in = d.in[1:]
		d.typ()
		if c == 'C' {
			d.text(" complex")
		} else {
			d.text(" imaginary")
		}
		s = shape{mid: len(d.out) - start}
	case 'U':
		if next := d.peek(1); next == 'l' || next == 't' {
			d.name(false)
		} else {
			d.in = d.in[1:]
			qualifier := d.identifier()
			d.typ()
			d.text(" " + qualifier)
		}
		s = shape{mid: len(d.out) - start}
	case 'u':
		d.in = d.in[1:]
		d.text(d.identifier())
		s = shape{mid: len(d.out) - start}
	default:
		if c == 'S' && d.peek(1) != 't' {
			t := d.substitution(false)
			if d.peek(0) != 'I' || bare {
				return t.shape // already recorded
			}
			d.templateArgs(false)
		} else if c == 'N' || c == 'S' || c == 'Z' || isDigit(c) {
			d.name(false)
		} else {
			d.fail()
		}
		s = shape{mid: len(d.out) - start}
	}
	d.record(begin, s, source{at: begin.at, bare: bare})
	return s
}

// laterBuiltin reads a type that begins with D and is not a candidate for substitutions.
func (d *demangler) laterBuiltin() bool {
	c := d.peek(1)
	switch {
	case c == 'F' && isDigit(d.peek(2)):
		d.in = d.in[2:]
		d.text("_Float" + d.number())
		if d.accept("b") || d.accept("x") {
			d.fail()
		} else {
			d.expect("_")
		}
	case (c == 'B' || c == 'U') && isDigit(d.peek(2)):
		d.in = d.in[2:]
		if c == 'U' {
			d.text("unsigned ")
		}
		d.text("_BitInt(" + d.number() + ")")
		d.expect("_")
	case c >= 'a' && c <= 'z' && laterBuiltins[c-'a'] != "":
		d.in = d.in[2:]
		d.text(laterBuiltins[c-'a'])
	default:
		return false
	}
	return true
}

// later reads the other types that begin with D.
func (d *demangler) later() shape {
	start := len(d.out)
	switch d.peek(1) {
	case 't', 'T':
		d.decltype()
	case 'p':
		d.in = d.in[2:]
		one, expanded := shape{}, false
		d.expand(func() {
			expanded = len(d.out) > start
			one = d.typ()
		})
		if !expanded && len(d.out) > start {
			return one
		}
	case 'v':
		d.in = d.in[2:]
		if !isDigit(d.peek(0)) {
			d.fail()
			break
		}
		size := d.number()
		d.expect("_")
		d.typ()
		d.text(" vector[" + size + "]")
	case 'o', 'O', 'x':
		return d.function("")
	default:
		d.fail()
	}
	return shape{mid: len(d.out) - start}
}

// decltype reads Dt or DT, an expression and E.
func (d *demangler) decltype() {
	d.in = d.in[2:]
	d.text("decltype")
	d.parenthesized(func() { d.expression(lowest) })
	d.expect("E")
}

// declarator inserts the * or & of a pointer or reference into a type that begins at start.
func (d *demangler) declarator(start int, s shape, c byte) shape {
	at := start + s.mid
	sign := "*"
	switch {
	case c == 'P':
	case d.endsIn(start, at, "&&") && c == 'O', d.endsIn(start, at, "&") && !d.endsIn(start, at, "&&"):
		return s // references collapse: only && to && stays &&
	case d.endsIn(start, at, "&&"):
		d.out = append(d.out[:at-1], d.out[at:]...)
		return shape{mid: s.mid - 1}
	case c == 'R':
		sign = "&"
	default:
		sign = "&&"
	}
	return d.wrap(start, s, sign)
}

// wrap inserts a declarator into a type that begins at start. It adds parentheses for functions
// and arrays.
func (d *demangler) wrap(start int, s shape, sign string) shape {
	after := ""
	switch s.kind {
	case functionType:
		sign, after = "("+sign, ")"
	case arrayType:
		sign, after = " ("+sign, ")"
	}
	d.insert(start+s.mid, sign+after)
	return shape{mid: s.mid + len(sign)}
}

// qualified reads qualifiers and a type.
func (d *demangler) qualified(start int) shape {
	isRestrict, isVolatile, isConst := d.accept("r"), d.accept("V"), d.accept("K")
	qualifiers := ""
	if isConst {
		qualifiers = " const"
	}
	if isVolatile {
		qualifiers += " volatile"
	}
	if isRestrict {
		qualifiers += " restrict"
	}
	switch c, next := d.peek(0), d.peek(1); {
	case c == 'F', c == 'D' && (next == 'o' || next == 'O' || next == 'x'):
		return d.function(qualifiers)
	}
	s := d.typ()
	at := start + s.mid
	if s.kind == functionType || d.endsIn(start, at, "&") {
		d.fail() // a template argument that takes no qualifiers
	}
	for _, has := range []string{" const", " volatile", " restrict"} {
		if d.endsIn(start, at, has) {
			if has != qualifiers {
				d.fail()
			}
			return s // a template argument that already has them
		}
	}
	d.insert(at, qualifiers)
	s.mid += len(qualifiers)
	return s
}

// function reads <function-type>.
func (d *demangler) function(qualifiers string) shape {
	exceptions := ""
	switch {
	case d.accept("Do"):
		exceptions = " noexcept"
	case d.accept("Dx"), d.peek(0) == 'D':
		d.fail()
	}
	d.expect("F")
	d.accept("Y") // extern "C"
	start := len(d.out)
	s := d.typ()
	behind := string(d.out[start+s.mid:])
	d.out = d.out[:start+s.mid]
	d.text(" ")
	mid := len(d.out) - start
	d.text("(")
	reference := ""
	d.accept("v")
	d.list(func() {
		switch {
		case d.peek(1) == 'E' && d.accept("R"):
			reference = " &"
		case d.peek(1) == 'E' && d.accept("O"):
			reference = " &&"
		default:
			d.typ()
		}
	})
	d.text(")")
	d.text(behind)
	d.text(qualifiers + reference + exceptions)
	return shape{mid, functionType}
}

// array reads <array-type>.
func (d *demangler) array() shape {
	d.expect("A")
	start := len(d.out)
	size := ""
	switch {
	case d.peek(0) == '_':
	case isDigit(d.peek(0)):
		size = d.number()
	default:
		d.expression(lowest)
		size = string(d.out[start:])
		d.out = d.out[:start]
	}
	d.expect("_")
	s := d.typ()
	at := start + s.mid
	if s.kind == arrayType { // the space before its brackets
		d.out = append(d.out[:at], d.out[at+1:]...)
	}
	d.insert(at, " ["+size+"]")
	return shape{s.mid, arrayType}
}

// memberPointer reads <pointer-to-member-type>.
func (d *demangler) memberPointer() shape {
	d.expect("M")
	start := len(d.out)
	d.typ()
	class := string(d.out[start:])
	d.out = d.out[:start]
	s := d.typ()
	if s.kind == other {
		class = " " + class
	}
	if s.kind == arrayType {
		// This omits the space before an array's parentheses.
		s.kind = functionType
	}
	return d.wrap(start, s, class+"::*")
}
