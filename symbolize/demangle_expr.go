package symbolize

// Precedences of expressions, from the tightest on.
const (
	primary = iota
	unary
	conjunction
	disjunction
)

// expression reads <expression> of the conditions that templates are enabled by:
// members of templates, and what makes conditions of these. It returns the
// precedence.
func (d *fastDemangler) expression() int {
	if d.depth++; d.depth > fastMaxDepth {
		d.fail()
	}
	defer func() { d.depth-- }()
	switch {
	case d.accept("nt"):
		d.text("!")
		d.operand(unary)
		return unary
	case d.accept("aa"):
		d.operand(conjunction)
		d.text(" && ")
		d.operand(conjunction - 1)
		return conjunction
	case d.accept("oo"):
		d.operand(disjunction)
		d.text(" || ")
		d.operand(disjunction - 1)
		return disjunction
	case d.peek(0) == 'L':
		d.literal()
	case d.accept("sr") && isDigit(d.peek(0)):
		// What clang mangles so are no candidates for substitutions.
		for !d.failed && !d.accept("E") {
			d.simpleID()
			d.text("::")
		}
		d.simpleID()
	default:
		d.fail()
	}
	return primary
}

// operand reads an expression, and puts parentheses around what binds less tightly
// than most.
func (d *fastDemangler) operand(most int) {
	start := len(d.out)
	if d.expression() <= most || d.failed {
		return
	}
	d.text("()")
	if !d.failed {
		copy(d.out[start+1:], d.out[start:len(d.out)-2])
		d.out[start], d.out[len(d.out)-1] = '(', ')'
		for i := range d.subs { // what was read inside has moved
			if s := &d.subs[i]; s.start >= start {
				s.start, s.end = s.start+1, s.end+1
			}
		}
	}
}

// simpleID reads <simple-id>.
func (d *fastDemangler) simpleID() {
	if !isDigit(d.peek(0)) {
		d.fail()
		return
	}
	d.text(d.identifier())
	if d.peek(0) == 'I' {
		d.templateArgs(false)
	}
}

// literal reads an integer: of a type that is written by suffix, or of another, as
// an enumeration, which is written as a cast.
func (d *fastDemangler) literal() {
	if d.accept("Lb0E") {
		d.text("false")
		return
	}
	if d.accept("Lb1E") {
		d.text("true")
		return
	}
	suffix := ""
	c := d.peek(1)
	switch c {
	case 'i':
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
	case 'a', 'c', 'h', 's', 't', 'w', 'N', 'S':
	default:
		if !isDigit(c) {
			d.fail()
			return
		}
	}
	d.in = d.in[1:]
	if suffix != "" || c == 'i' {
		d.in = d.in[1:]
	} else {
		d.text("(")
		d.typ()
		d.text(")")
	}
	if d.accept("n") {
		d.text("-")
	}
	n := 0
	for isDigit(d.peek(n)) {
		n++
	}
	if n == 0 || d.peek(n) != 'E' {
		d.fail()
		return
	}
	d.text(d.in[:n])
	d.in = d.in[n+1:]
	d.text(suffix)
}
