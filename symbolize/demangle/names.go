package demangle

// specials are the names of entities that compilers generate for a type, variable or function.
var specials = []struct {
	code, text string
	read       func(d *demangler)
}{
	{"TV", "vtable for ", func(d *demangler) { d.typ() }},
	{"TT", "VTT for ", func(d *demangler) { d.typ() }},
	{"TI", "typeinfo for ", func(d *demangler) { d.typ() }},
	{"TS", "typeinfo name for ", func(d *demangler) { d.typ() }},
	{"TW", "thread-local wrapper routine for ", func(d *demangler) { d.name(false) }},
	{"TH", "thread-local initialization routine for ", func(d *demangler) { d.name(false) }},
	{"GV", "guard variable for ", func(d *demangler) { d.name(false) }},
	{"GR", "reference temporary for ", (*demangler).temporary},
	{"GTt", "transaction clone for ", (*demangler).encoding},
	{"Th", "non-virtual thunk to ", func(d *demangler) { d.offsets(1); d.encoding() }},
	{"Tv", "virtual thunk to ", func(d *demangler) { d.offsets(2); d.encoding() }},
}

// mangledName reads a name after _Z.
func (d *demangler) mangledName() {
	for _, s := range specials {
		if d.accept(s.code) {
			d.text(s.text)
			s.read(d)
			return
		}
	}
	d.encoding()
}

// offsets reads the offsets of a thunk.
func (d *demangler) offsets(n int) {
	for range n {
		d.number()
		d.expect("_")
	}
}

// temporary reads the name of a variable and the number of its temporary.
func (d *demangler) temporary() {
	d.name(false)
	d.sequence(36)
}

// function has properties of a function name.
type function struct {
	template   bool   // ends in template arguments, so that a return type follows
	special    bool   // a constructor, destructor or conversion, which has none
	this       bool   // the first parameter is the object
	qualifiers string // of a member function
}

// ended reports whether an encoding is complete.
func (d *demangler) ended() bool {
	c := d.peek(0)
	return c == 0 || c == 'E' || c == '.'
}

// encoding reads <encoding>: a function with its parameters, or a variable.
func (d *demangler) encoding() {
	d.enter()
	defer d.leave()
	scope, params, id, lambda, declared := d.scope, len(d.params), d.scopeID, d.lambda, d.declared
	element, size := d.element, d.size
	d.scopes++
	d.scope, d.scopeID, d.lambda, d.declared, d.element = params, d.scopes, false, nil, -1
	defer func() {
		d.scope, d.scopeID, d.params, d.lambda, d.declared = scope, id, d.params[:params], lambda, declared
		d.element, d.size = element, size
	}()

	start := len(d.out)
	f := d.name(true)
	if d.ended() {
		d.text(f.qualifiers)
		return
	}
	after := "" // the part of the result type after the parameters
	if f.template && !f.special {
		name := string(d.out[start:])
		d.out = d.out[:start]
		s := d.typ()
		after = string(d.out[start+s.mid:])
		d.out = d.out[:start+s.mid]
		if after == "" {
			d.text(" ")
		}
		d.text(name)
	}
	d.text("(")
	if f.this {
		d.text("this ")
	}
	if !d.accept("v") {
		for first := true; !d.ended() && d.peek(0) != 'Q'; {
			d.listed(&first, func() { d.typ() })
		}
	}
	d.text(")")
	d.text(after)
	d.text(f.qualifiers)
	if d.accept("Q") {
		d.text(" requires ")
		d.expression(lowest)
	}
}

// name reads <name>. outer is true for the name of a function itself.
func (d *demangler) name(outer bool) function {
	d.enter()
	defer d.leave()
	begin := d.state()
	switch {
	case d.accept("N"):
		return d.nested(outer)
	case d.accept("Z"):
		return d.local(outer)
	}
	var f function
	known := false // a substitution is not recorded again
	switch {
	case d.accept("St"):
		d.text("std::")
		_, _, f.special = d.unqualified()
	case d.peek(0) == 'S':
		d.substitution(false)
		known = true
	default:
		_, _, f.special = d.unqualified()
	}
	if d.peek(0) == 'I' {
		if !known {
			d.record(begin, shape{mid: len(d.out) - begin.start}, source{})
		}
		d.templateArgs(outer)
		f.template = true
	} else if known {
		d.fail() // only a type can be a bare substitution, and typ reads those
	}
	return f
}

// local reads <local-name> after Z.
func (d *demangler) local(outer bool) function {
	d.encoding()
	d.expect("E")
	d.text("::")
	if d.accept("s") {
		d.text("string literal")
		d.discriminator()
		return function{}
	}
	if d.accept("d") { // of a default argument
		d.ordinal()
	}
	f := d.name(outer)
	d.discriminator()
	return f
}

// discriminator skips the number that distinguishes entities with the same name.
func (d *demangler) discriminator() {
	switch {
	case d.peek(0) != '_':
	case isDigit(d.peek(1)):
		d.in = d.in[2:]
	case d.peek(1) == '_':
		n := 2
		for isDigit(d.peek(n)) {
			n++
		}
		if n > 2 && d.peek(n) == '_' {
			d.in = d.in[n+1:]
		}
	}
}

// nested reads <nested-name> after N.
func (d *demangler) nested(outer bool) function {
	this := d.accept("H")
	isVolatile, isConst := d.accept("V"), d.accept("K")
	qualifiers := ""
	if isConst {
		qualifiers = " const"
	}
	if isVolatile {
		qualifiers += " volatile"
	}
	if d.accept("R") {
		qualifiers += " &"
	} else if d.accept("O") {
		qualifiers += " &&"
	}
	if (qualifiers != "" || this) && !outer {
		d.fail()
	}
	f, _, _ := d.components(outer, source{at: d.position()})
	f.qualifiers, f.this = qualifiers, this
	return f
}

// components reads the components of a <nested-name>, up to E or the end of from. It also
// returns the offset of the last one, without template arguments.
func (d *demangler) components(outer bool, from source) (f function, base, last int) {
	begin := d.state()
	start := begin.start
	for first := true; d.position() != from.stop && !d.accept("E"); first = false {
		known := false
		switch c := d.peek(0); {
		case c == 'I':
			if first || f.template {
				d.fail()
				break
			}
			d.templateArgs(outer)
			f.template = true
		case c == 'S' && first:
			known = true
			if d.accept("St") {
				d.text("std")
				break
			}
			t := d.substitution(true)
			base, last = start+t.base, start+t.last
		case c == 'T' && first:
			d.templateParam()
		case c == 'D' && first && (d.peek(1) == 't' || d.peek(1) == 'T'):
			d.decltype()
		case (c == 'C' || c == 'D' && d.peek(1) != 'C') && last > base:
			d.structor(string(d.out[base:last]))
			f.special, f.template = true, false
		default:
			if !first {
				d.text("::")
			}
			base, last, f.special = d.unqualified()
			f.template = false
		}
		d.accept("M") // of a member's initializer
		if !known && d.peek(0) != 'E' {
			t := d.record(begin, shape{mid: len(d.out) - start}, source{at: from.at, stop: d.position()})
			t.base, t.last = base-start, last-start
		}
		if d.in == "" {
			d.fail()
		}
	}
	return f, base - start, last - start
}

// structor reads the code of a constructor or destructor: C1, D1, ....
func (d *demangler) structor(class string) {
	destructor := d.in[0] == 'D'
	d.in = d.in[1:]
	inherited := !destructor && d.accept("I")
	if c := d.peek(0); c < '0' || c > '5' || c == '0' && !destructor || c == '3' && destructor {
		d.fail()
	}
	d.in = d.in[1:]
	d.text("::")
	if destructor {
		d.text("~")
	}
	d.text(class)
	if inherited { // the base class that declares it
		end := len(d.out)
		d.name(false)
		d.out = d.out[:end]
	}
}

// unqualified reads <unqualified-name>. It returns the range of the name without tags, and
// whether it is a conversion.
func (d *demangler) unqualified() (start, end int, conversion bool) {
	start = len(d.out)
	d.accept("L") // internal linkage
	switch {
	case isDigit(d.peek(0)):
		d.text(d.identifier())
	case d.accept("DC"):
		d.text("[")
		d.list(func() { d.text(d.identifier()) })
		d.text("]")
	case d.accept("Ut"):
		d.text("'unnamed" + d.ordinal() + "'")
	case d.accept("Ul"):
		d.lambdaName()
	case d.accept("cv"):
		d.text("operator ")
		d.bare = true
		d.typ()
		conversion = true
	default:
		d.operatorName()
	}
	end = len(d.out)
	for d.accept("B") {
		d.text("[abi:")
		d.text(d.identifier())
		d.text("]")
	}
	return start, end, conversion
}

// operatorName reads <operator-name>.
func (d *demangler) operatorName() {
	switch {
	case d.accept("li"):
		d.text(`operator"" `)
		d.text(d.identifier())
	case d.accept("aw"):
		d.text("operator co_await")
	default:
		op, ok := operators[d.in[:min(2, len(d.in))]]
		if !ok || op.member {
			d.fail()
		}
		d.in = d.in[2:]
		d.text("operator")
		if c := op.text[0]; c >= 'a' && c <= 'z' {
			d.text(" ")
		}
		d.text(op.text)
	}
}
