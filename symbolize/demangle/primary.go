package demangle

import (
	"math"
	"strconv"
)

// unresolvedName reads <unresolved-name>.
func (d *demangler) unresolvedName() {
	switch {
	case d.accept("srN"):
		d.unresolvedType()
		if d.peek(0) == 'I' {
			d.templateArgs(false)
		}
		for !d.accept("E") {
			d.text("::")
			d.simpleID()
		}
		d.text("::")
	case d.accept("sr"):
		if !isDigit(d.peek(0)) {
			d.unresolvedType()
			if d.peek(0) == 'I' {
				d.templateArgs(false)
			}
			d.text("::")
			break
		}
		// Names that clang mangles in this way are no candidates for substitutions.
		for !d.accept("E") {
			d.simpleID()
			d.text("::")
		}
	}
	switch {
	case d.accept("on"):
		d.operatorName()
		if d.peek(0) == 'I' {
			d.templateArgs(false)
		}
	case d.accept("dn"):
		d.text("~")
		if isDigit(d.peek(0)) {
			d.simpleID()
		} else {
			d.unresolvedType()
		}
	default:
		d.simpleID()
	}
}

// unresolvedType reads <unresolved-type>.
func (d *demangler) unresolvedType() {
	begin := d.state()
	switch c, next := d.peek(0), d.peek(1); {
	case c == 'T':
		d.templateParam()
	case c == 'D' && (next == 't' || next == 'T'):
		d.decltype()
	case c == 'S' && next != 't':
		d.substitution(false)
		return
	default:
		d.fail()
	}
	d.record(begin, shape{mid: len(d.out) - begin.start}, source{at: begin.at, bare: true})
}

// simpleID reads <simple-id>.
func (d *demangler) simpleID() {
	if !isDigit(d.peek(0)) {
		d.fail()
	}
	d.text(d.identifier())
	if d.peek(0) == 'I' {
		d.templateArgs(false)
	}
}

// literal reads <expr-primary>: an integer with a suffix for its type, an integer as a cast to
// another type such as an enumeration, or the name of a function or variable.
func (d *demangler) literal() {
	switch {
	case d.accept("Lb0E"):
		d.text("false")
		return
	case d.accept("Lb1E"):
		d.text("true")
		return
	case d.accept("LDnE"), d.accept("LDn0E"):
		d.text("nullptr")
		return
	case d.accept("L_Z"):
		d.encoding()
		d.expect("E")
		return
	}
	suffix := ""
	c := d.peek(1)
	switch c {
	case 'j':
		suffix = "u"
	case 'l':
		suffix = "l"
	case 'm':
		suffix = "ul"
	case 'x':
		suffix = "ll"
	case 'y':
		suffix = "ull"
	case 'd', 'f':
		d.in = d.in[2:]
		d.float(c)
		return
	case 'e', 'g', 'D', 'A', 'U', 0:
		d.fail() // other floating-point numbers, strings and lambdas
	}
	d.in = d.in[1:]
	if suffix != "" || c == 'i' {
		d.in = d.in[1:]
	} else {
		d.parenthesized(func() { d.typ() })
	}
	number := d.number()
	if number != "" && number[0] == 'n' {
		number = "-" + number[1:]
	}
	d.text(number)
	d.expect("E")
	d.text(suffix)
}

// float reads the bits of a float or double, and writes them like %a in C.
func (d *demangler) float(c byte) {
	size := 16
	if c == 'f' {
		size = 8
	}
	if len(d.in) < size {
		d.fail()
	}
	bits, err := strconv.ParseUint(d.in[:size], 16, 64)
	if err != nil {
		d.fail()
	}
	d.in = d.in[size:]
	d.expect("E")
	v, suffix := math.Float64frombits(bits), ""
	if c == 'f' {
		v, suffix = float64(math.Float32frombits(uint32(bits))), "f"
	}
	text := strconv.FormatFloat(v, 'x', -1, 64)
	if n := len(text); n > 3 && text[n-2] == '0' && (text[n-3] == '+' || text[n-3] == '-') {
		text = text[:n-2] + text[n-1:] // C writes no exponent of two digits with a zero
	}
	d.text(text + suffix)
}
