package symbolize

import (
	"strings"
	"sync"
)

// demangleFast demangles C++ names that use only the common part of the Itanium
// ABI's grammar, ten times as fast as a full demangler, and gives up on others.
//
// What makes it fast is that all text of this part is written in the order of
// the mangled name: what a qualifier, a pointer or a template argument list adds
// comes behind what it is about. (Pointers to functions and arrays, which wrap
// around, are not part of it.) So every component is a piece of one buffer, and
// a substitution copies such a piece.
func demangleFast(linkage string) (string, bool) {
	rest, ok := strings.CutPrefix(linkage, "_Z")
	if !ok || strings.HasPrefix(linkage, "_ZN") && strings.Contains(linkage, "17h") {
		return "", false // perhaps Rust
	}
	d := fastDemanglers.Get().(*fastDemangler)
	defer fastDemanglers.Put(d)
	*d = fastDemangler{in: rest, out: d.out[:0], subs: d.subs[:0], params: d.params[:0]}
	name, f := d.name(true)
	if d.failed || len(d.in) == 0 {
		// Data have no parameters. They have no sleds either, and are left to the
		// full demangler, which tells them from damaged names.
		return "", false
	}
	var result span
	if f.template && !f.special {
		d.named = true
		result = d.typ()
	}
	d.named = true
	params := span{len(d.out), len(d.out)}
	if d.in == "v" {
		d.in = ""
	}
	for first := true; len(d.in) > 0 && !d.failed; first = false {
		if !first {
			d.text(", ")
		}
		if d.failed || d.in[0] == 'v' {
			return "", false
		}
		d.typ()
	}
	params.end = len(d.out)
	if d.failed {
		return "", false
	}
	var sb strings.Builder
	sb.Grow(len(d.out) + 16)
	if result.end > 0 {
		sb.Write(d.out[result.start:result.end])
		sb.WriteByte(' ')
	}
	sb.Write(d.out[name.start:name.end])
	sb.WriteByte('(')
	sb.Write(d.out[params.start:params.end])
	sb.WriteByte(')')
	sb.WriteString(f.qualifiers)
	return sb.String(), true
}

// span is a piece of the output.
type span struct{ start, end int }

// function is what the name of a function says beyond its text.
type function struct {
	template   bool   // ends in template arguments, so that a return type follows
	special    bool   // a constructor or destructor, which has none
	qualifiers string // of a member function
}

// fastDemanglers keeps the memory of demanglers that are done.
var fastDemanglers = sync.Pool{New: func() any { return new(fastDemangler) }}

type fastDemangler struct {
	in     string // what is still to be read
	out    []byte
	subs   []span // what S_, S0_, ... stand for
	params []span // what T_, T0_, ... stand for
	named  bool   // the name is complete, and T_ may be used
	depth  int
	failed bool
}

const (
	fastMaxDepth  = 64
	fastMaxOutput = 1 << 14
)

func (d *fastDemangler) fail() span {
	d.failed = true
	d.in = ""
	return span{}
}

func (d *fastDemangler) text(s string) {
	if len(d.out)+len(s) > fastMaxOutput {
		d.fail()
		return
	}
	d.out = append(d.out, s...)
}

func (d *fastDemangler) copy(s span) {
	if len(d.out)+s.end-s.start > fastMaxOutput {
		d.fail()
		return
	}
	d.out = append(d.out, d.out[s.start:s.end]...)
}

// endsIn reports whether the text from start on ends so.
func (d *fastDemangler) endsIn(start int, suffix string) bool {
	at := len(d.out) - len(suffix)
	return at >= start && string(d.out[at:]) == suffix
}

// accept skips a prefix of the input.
func (d *fastDemangler) accept(prefix string) bool {
	rest, ok := strings.CutPrefix(d.in, prefix)
	if ok {
		d.in = rest
	}
	return ok
}

// peek returns a byte of the input, 0 behind its end.
func (d *fastDemangler) peek(i int) byte {
	if i < len(d.in) {
		return d.in[i]
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// name reads <name>. outer is set for the name of the function itself.
func (d *fastDemangler) name(outer bool) (span, function) {
	if d.depth++; d.depth > fastMaxDepth {
		return d.fail(), function{}
	}
	defer func() { d.depth-- }()
	start := len(d.out)
	if d.accept("N") {
		return d.nested(start, outer)
	}
	var f function
	known := false // a substitution is not recorded again
	switch {
	case d.accept("St"):
		d.text("std::")
		d.unqualified()
	case d.peek(0) == 'S':
		d.substitution()
		known = true
	default:
		d.unqualified()
	}
	if d.peek(0) == 'I' {
		if !known {
			d.subs = append(d.subs, span{start, len(d.out)})
		}
		d.templateArgs(outer)
		f.template = true
	} else if known {
		return d.fail(), f // only types are a substitution alone, and typ sees to these
	}
	return span{start, len(d.out)}, f
}

// nested reads what follows the N of <nested-name>.
func (d *fastDemangler) nested(start int, outer bool) (span, function) {
	var f function
	isVolatile, isConst := d.accept("V"), d.accept("K")
	if isConst {
		f.qualifiers += " const"
	}
	if isVolatile {
		f.qualifiers += " volatile"
	}
	if d.accept("R") {
		f.qualifiers += " &"
	} else if d.accept("O") {
		f.qualifiers += " &&"
	}
	if f.qualifiers != "" && !outer {
		return d.fail(), f
	}
	var last span // the component before, without its scope
	for first := true; !d.accept("E"); first = false {
		if d.failed {
			return span{}, f
		}
		known := false
		switch c := d.peek(0); {
		case c == 'I':
			if first || f.template {
				return d.fail(), f
			}
			d.templateArgs(outer)
			f.template = true
		case c == 'S' && first:
			if d.accept("St") {
				d.text("std")
			} else {
				d.substitution()
				// Constructors would need the name without scope and arguments.
				if d.peek(0) == 'C' || d.peek(0) == 'D' {
					return d.fail(), f
				}
			}
			known = true
		case (c == 'C' || c == 'D') && !first && last.end > 0:
			kinds := "12"
			if c == 'D' {
				kinds = "012"
			}
			if !strings.Contains(kinds, d.in[1:min(2, len(d.in))]) || len(d.in) < 2 {
				return d.fail(), f
			}
			d.in = d.in[2:]
			d.text("::")
			if c == 'D' {
				d.text("~")
			}
			d.copy(last)
			f.special, f.template = true, false
		default:
			if !first {
				d.text("::")
			}
			last = d.unqualified()
			f.special, f.template = false, false
		}
		if !known && d.peek(0) != 'E' {
			d.subs = append(d.subs, span{start, len(d.out)})
		}
		if len(d.in) == 0 {
			return d.fail(), f
		}
	}
	return span{start, len(d.out)}, f
}

// unqualified reads <unqualified-name>: an identifier or an operator.
func (d *fastDemangler) unqualified() span {
	start := len(d.out)
	d.accept("L") // internal linkage
	if !isDigit(d.peek(0)) {
		if len(d.in) < 2 {
			return d.fail()
		}
		op, ok := operators[d.in[:2]]
		if !ok {
			return d.fail()
		}
		d.in = d.in[2:]
		d.text("operator")
		d.text(op)
	} else {
		id := d.identifier()
		if strings.HasPrefix(id, "_GLOBAL__N") {
			id = "(anonymous namespace)"
		}
		d.text(id)
	}
	end := len(d.out) // constructors go without tags
	for d.accept("B") {
		d.text("[abi:")
		d.text(d.identifier())
		d.text("]")
	}
	return span{start, end}
}

func (d *fastDemangler) identifier() string {
	n := 0
	for isDigit(d.peek(0)) && n < 1<<16 {
		n = 10*n + int(d.in[0]-'0')
		d.in = d.in[1:]
	}
	if n == 0 || n > len(d.in) {
		d.fail()
		return ""
	}
	id := d.in[:n]
	d.in = d.in[n:]
	return id
}

// operators are the operators that are not conversions or literals.
var operators = map[string]string{
	"nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]",
	"co": "~", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^",
	"aS": "=", "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=",
	"ls": "<<", "rs": ">>", "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "ss": "<=>",
	"nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",", "pm": "->*", "pt": "->", "cl": "()", "ix": "[]",
	"ps": "+", "ng": "-", "ad": "&", "de": "*",
}

// substitution reads S_, S0_ and so on, and the abbreviations of the standard
// library other than St.
func (d *fastDemangler) substitution() {
	standard := ""
	switch d.peek(1) {
	case 'a':
		standard = "std::allocator"
	case 'b':
		standard = "std::basic_string"
	case 's':
		standard = "std::string"
	case 'i':
		standard = "std::istream"
	case 'o':
		standard = "std::ostream"
	case 'd':
		standard = "std::iostream"
	}
	if standard != "" {
		d.in = d.in[2:]
		if d.peek(0) == 'B' {
			d.fail()
		}
		d.text(standard)
		return
	}
	d.in = d.in[1:]
	i := d.sequence(36)
	if i < 0 || i >= len(d.subs) {
		d.fail()
		return
	}
	d.copy(d.subs[i])
}

// sequence reads "_", "0_", "1_" and so on as 0, 1, 2.
func (d *fastDemangler) sequence(base int) int {
	n := 0
	for i := 0; i < 4; i++ {
		c := d.peek(i)
		switch {
		case c == '_':
			d.in = d.in[i+1:]
			if i == 0 {
				return 0
			}
			return n + 1
		case isDigit(c):
			n = n*base + int(c-'0')
		case c >= 'A' && c <= 'Z' && base == 36:
			n = n*base + int(c-'A') + 10
		default:
			return -1
		}
	}
	return -1
}

// templateArgs reads <template-args>. Those of the function itself are what its
// parameters refer to.
func (d *fastDemangler) templateArgs(outer bool) {
	d.in = d.in[1:] // I
	d.text("<")
	if outer {
		d.params = d.params[:0]
	}
	for first := true; !d.accept("E"); first = false {
		if d.failed || len(d.in) == 0 {
			d.fail()
			return
		}
		if !first {
			d.text(", ")
		}
		start := len(d.out)
		switch {
		case d.peek(0) == 'L':
			d.literal()
		case d.accept("X"):
			d.expression()
			if !d.accept("E") {
				d.fail()
			}
		default:
			d.typ()
		}
		if outer {
			d.params = append(d.params, span{start, len(d.out)})
		}
	}
	d.text(">")
}

// builtins are the types of one letter, from 'a' on.
var builtins = [26]string{
	0: "signed char", 'b' - 'a': "bool", 'c' - 'a': "char", 'd' - 'a': "double", 'e' - 'a': "long double",
	'f' - 'a': "float", 'g' - 'a': "__float128", 'h' - 'a': "unsigned char", 'i' - 'a': "int",
	'j' - 'a': "unsigned int", 'l' - 'a': "long", 'm' - 'a': "unsigned long", 'n' - 'a': "__int128",
	'o' - 'a': "unsigned __int128", 's' - 'a': "short", 't' - 'a': "unsigned short", 'v' - 'a': "void",
	'w' - 'a': "wchar_t", 'x' - 'a': "long long", 'y' - 'a': "unsigned long long", 'z' - 'a': "...",
}

// typ reads <type>.
func (d *fastDemangler) typ() span {
	if d.depth++; d.depth > fastMaxDepth {
		return d.fail()
	}
	defer func() { d.depth-- }()
	start := len(d.out)
	c := d.peek(0)
	if c >= 'a' && c <= 'z' && c != 'r' && builtins[c-'a'] != "" {
		d.in = d.in[1:]
		d.text(builtins[c-'a'])
		return span{start, len(d.out)}
	}
	switch {
	case c == 'P' || c == 'R' || c == 'O':
		d.in = d.in[1:]
		d.typ()
		if c == 'P' {
			d.text("*")
			break
		}
		// A reference to a reference is one, to an rvalue only if both are.
		both := d.endsIn(start, "&&")
		one := d.endsIn(start, "&")
		switch {
		case both && c == 'R':
			d.out = d.out[:len(d.out)-1]
		case one:
		case c == 'R':
			d.text("&")
		default:
			d.text("&&")
		}
	case c == 'r' || c == 'V' || c == 'K':
		isRestrict, isVolatile, isConst := d.accept("r"), d.accept("V"), d.accept("K")
		d.typ()
		for _, end := range []string{"&", " const", " volatile", " restrict"} {
			if d.endsIn(start, end) {
				return d.fail() // a template parameter that absorbs the qualifier
			}
		}
		if isConst {
			d.text(" const")
		}
		if isVolatile {
			d.text(" volatile")
		}
		if isRestrict {
			d.text(" restrict")
		}
	case c == 'T':
		d.in = d.in[1:]
		i := d.sequence(10)
		if !d.named || i < 0 || i >= len(d.params) || d.peek(0) == 'I' {
			return d.fail()
		}
		d.copy(d.params[i])
	case c == 'S' && d.peek(1) != 't':
		d.substitution()
		if d.peek(0) != 'I' {
			return span{start, len(d.out)} // on record already
		}
		d.templateArgs(false)
	case c == 'N' || c == 'S' || isDigit(c):
		d.name(false)
	default:
		return d.fail()
	}
	s := span{start, len(d.out)}
	d.subs = append(d.subs, s)
	return s
}
