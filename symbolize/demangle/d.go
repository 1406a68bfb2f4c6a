package demangle

import (
	"fmt"
	"strconv"
	"strings"
)

// demangleD demangles names of D in the form of GNU's demangler, which omits results. It fails on the
// names of compilers before 2017, which have no back references. Unlike GNU's, it knows "return scope"
// parameters in that order.
func demangleD(linkage string) (string, bool) {
	if linkage == "_Dmain" {
		return "D main", true
	}
	rest, ok := strings.CutPrefix(linkage, "_D")
	if !ok {
		return "", false
	}
	d := &dDemangler{input: rest, in: rest}
	if !attempt(d.mangled) || d.in != "" {
		return "", false
	}
	return string(d.out), true
}

// dDemangler implements the grammar in https://dlang.org/spec/abi.html#name_mangling.
type dDemangler struct {
	input string // the name after _D
	in    string // the rest to read
	out   []byte
	depth int
	steps int
}

const (
	maxDDepth     = 128
	maxDSteps     = 1 << 14
	maxDDemangled = 1 << longestDemangled
)

// bailout is the panic value of fail.
type bailout struct{}

func (d *dDemangler) fail() { panic(bailout{}) }

// attempt calls read and returns false if it fails.
func attempt(read func()) (ok bool) {
	defer func() {
		if e := recover(); e != nil {
			if _, expected := e.(bailout); !expected {
				panic(e)
			}
			ok = false
		}
	}()
	read()
	return true
}

// enter counts the nesting depth and the total steps.
func (d *dDemangler) enter() {
	d.depth++
	d.steps++
	if d.depth > maxDDepth || d.steps > maxDSteps {
		d.fail()
	}
}

func (d *dDemangler) leave() { d.depth-- }

func (d *dDemangler) text(s string) {
	if len(d.out)+len(s) > maxDDemangled {
		d.fail()
	}
	d.out = append(d.out, s...)
}

func (d *dDemangler) accept(prefix string) bool {
	rest, ok := strings.CutPrefix(d.in, prefix)
	if ok {
		d.in = rest
	}
	return ok
}

func (d *dDemangler) expect(prefix string) {
	if !d.accept(prefix) {
		d.fail()
	}
}

// peek returns a byte of the rest, or 0 behind it.
func (d *dDemangler) peek(i int) byte {
	if i < len(d.in) {
		return d.in[i]
	}
	return 0
}

func (d *dDemangler) position() int { return len(d.input) - len(d.in) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// mangled reads a qualified name and its type, which is not written.
func (d *dDemangler) mangled() {
	d.qualified(true)
	if !d.accept("Z") {
		end := len(d.out)
		d.typ()
		d.out = d.out[:end]
	}
}

// qualified reads a name with its scopes. Functions among them have parameters and, with suffix,
// modifiers of this.
func (d *dDemangler) qualified(suffix bool) {
	d.enter()
	defer d.leave()
	for first := true; ; {
		if d.accept("0") { // anonymous
			continue
		}
		if !d.named() {
			break
		}
		if !first {
			d.text(".")
		}
		first = false
		d.symbol()
		if c := d.peek(0); c != 'M' && !isConvention(c) {
			continue
		}
		// Or else this is what follows a type.
		before, end := d.in, len(d.out)
		if !attempt(func() {
			modifiers := ""
			if d.accept("M") {
				modifiers = d.modifiers()
			}
			if !isConvention(d.peek(0)) {
				d.fail()
			}
			d.in = d.in[1:]
			d.attributes()
			d.parameters()
			if suffix {
				d.text(modifiers)
			}
			if d.in == "" {
				d.fail()
			}
		}) {
			d.in, d.out = before, d.out[:end]
		}
	}
}

func isConvention(c byte) bool { return c != 0 && strings.IndexByte("FUVWRY", c) >= 0 }

// named reports whether a name follows.
func (d *dDemangler) named() bool {
	if d.peek(0) == 'Q' {
		at, _, ok := d.reference()
		return ok && isDigit(d.input[at])
	}
	return isDigit(d.peek(0)) || strings.HasPrefix(d.in, "__T") || strings.HasPrefix(d.in, "__U")
}

// reference looks at a back reference: the position to which it leads, and its own length.
func (d *dDemangler) reference() (at, size int, ok bool) {
	n := 0
	for i := 1; i < min(len(d.in), 6); i++ {
		switch c := d.in[i]; {
		case c >= 'a' && c <= 'z':
			at = d.position() - (n*26 + int(c-'a'))
			return at, i + 1, at >= 0 && at < d.position()
		case c >= 'A' && c <= 'Z':
			n = n*26 + int(c-'A')
		default:
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// again reads what a back reference leads to.
func (d *dDemangler) again(read func()) {
	d.enter()
	defer d.leave()
	at, size, ok := d.reference()
	if !ok {
		d.fail()
	}
	rest := d.in[size:]
	d.in = d.input[at:]
	read()
	d.in = rest
}

func (d *dDemangler) count() int {
	i := 0
	for i < len(d.in) && isDigit(d.in[i]) {
		i++
	}
	n, err := strconv.Atoi(d.in[:i])
	if err != nil {
		d.fail()
	}
	d.in = d.in[i:]
	return n
}

// dNames are names that the compiler gives to functions.
var dNames = map[string]string{"__ctor": "this", "__dtor": "~this", "__postblit": "this(this)"}

func (d *dDemangler) symbol() {
	d.enter()
	defer d.leave()
	switch {
	case d.peek(0) == 'Q':
		d.again(d.symbol)
		return
	case d.accept("__T"), d.accept("__U"):
		d.instance()
		return
	}
	n := d.count()
	if n == 0 || n > len(d.in) {
		d.fail()
	}
	name := d.in[:n]
	d.in = d.in[n:]
	if number, ok := strings.CutPrefix(name, "__S"); ok && number != "" && strings.Trim(number, "0123456789") == "" {
		d.symbol() // that only made names in a function differ
		return
	}
	if special, ok := dNames[name]; ok {
		name = special
		if name == "this(this)" && !d.accept("MFZ") {
			name = "__postblit"
		}
	}
	d.text(name)
}

// instance reads an instance of a template.
func (d *dDemangler) instance() {
	d.enter()
	defer d.leave()
	d.symbol()
	d.text("!(")
	for first := true; !d.accept("Z"); first = false {
		if !first {
			d.text(", ")
		}
		d.accept("H") // specialized
		switch {
		case d.accept("S"):
			if d.accept("_D") {
				d.mangled()
			} else {
				d.qualified(false)
			}
		case d.accept("T"):
			d.typ()
		case d.accept("V"):
			kind := d.peek(0)
			if at, _, ok := d.reference(); kind == 'Q' && ok {
				kind = d.input[at]
			}
			start := len(d.out)
			d.typ()
			name := string(d.out[start:])
			d.out = d.out[:start]
			d.value(kind, name)
		case d.accept("X"):
			n := d.count()
			if n > len(d.in) {
				d.fail()
			}
			d.text(d.in[:n])
			d.in = d.in[n:]
		default:
			d.fail()
		}
	}
	d.text(")")
}

// dTypes are the types of one letter.
var dTypes = map[byte]string{
	'v': "void", 'g': "byte", 'h': "ubyte", 's': "short", 't': "ushort", 'i': "int", 'k': "uint", 'l': "long", 'm': "ulong",
	'f': "float", 'd': "double", 'e': "real", 'o': "ifloat", 'p': "idouble", 'j': "ireal", 'q': "cfloat", 'r': "cdouble", 'c': "creal",
	'b': "bool", 'a': "char", 'u': "wchar", 'w': "dchar", 'n': "typeof(null)",
}

func (d *dDemangler) typ() {
	d.enter()
	defer d.leave()
	within := func(open string) {
		d.text(open)
		d.typ()
		d.text(")")
	}
	switch c := d.peek(0); {
	case c == 'Q':
		d.again(d.typ)
	case dTypes[c] != "":
		d.in = d.in[1:]
		d.text(dTypes[c])
	case d.accept("O"):
		within("shared(")
	case d.accept("x"):
		within("const(")
	case d.accept("y"):
		within("immutable(")
	case d.accept("Ng"):
		within("inout(")
	case d.accept("Nh"):
		within("__vector(")
	case d.accept("Nn"):
		d.text("noreturn")
	case d.accept("zi"):
		d.text("cent")
	case d.accept("zk"):
		d.text("ucent")
	case d.accept("A"):
		d.typ()
		d.text("[]")
	case d.accept("G"):
		n := d.count()
		d.typ()
		d.text(fmt.Sprintf("[%d]", n))
	case d.accept("H"):
		start := len(d.out)
		d.typ()
		key := string(d.out[start:])
		d.out = d.out[:start]
		d.typ()
		d.text("[" + key + "]")
	case isConvention(c), c == 'P' && isConvention(d.peek(1)):
		d.accept("P")
		d.function()
		d.text("function")
	case d.accept("P"):
		d.typ()
		d.text("*")
	case d.accept("D"):
		modifiers := d.modifiers()
		if d.peek(0) == 'Q' {
			d.again(d.function)
		} else {
			d.function()
		}
		d.text("delegate" + modifiers)
	case d.accept("C"), d.accept("S"), d.accept("E"), d.accept("T"):
		d.qualified(false)
	case d.accept("B"):
		d.text("Tuple!(")
		for i, n := 0, d.count(); i < n; i++ {
			if i > 0 {
				d.text(", ")
			}
			d.typ()
		}
		d.text(")")
	default:
		d.fail()
	}
}

// dConventions are the linkages of functions. D's own has no name.
var dConventions = map[byte]string{
	'F': "", 'U': "extern(C) ", 'W': "extern(Windows) ", 'V': "extern(Pascal) ", 'R': "extern(C++) ", 'Y': "extern(Objective-C) ",
}

// function reads the type of a function. It writes the result, the parameters and the attributes.
func (d *dDemangler) function() {
	convention, ok := dConventions[d.peek(0)]
	if !ok {
		d.fail()
	}
	d.in = d.in[1:]
	attributes := d.attributes()
	start := len(d.out)
	d.parameters()
	parameters := string(d.out[start:])
	d.out = d.out[:start]
	d.text(convention)
	d.typ()
	d.text(parameters + " " + attributes)
}

// modifiers reads those of this.
func (d *dDemangler) modifiers() string {
	s := ""
	for {
		switch {
		case d.accept("x"):
			return s + " const"
		case d.accept("y"):
			return s + " immutable"
		case d.accept("O"):
			s += " shared"
		case d.accept("Ng"):
			s += " inout"
		default:
			return s
		}
	}
}

var dAttributes = map[byte]string{
	'a': "pure ", 'b': "nothrow ", 'c': "ref ", 'd': "@property ", 'e': "@trusted ", 'f': "@safe ", 'i': "@nogc ", 'j': "return ",
	'l': "scope ", 'm': "@live ",
}

func (d *dDemangler) attributes() string {
	s := ""
	for d.peek(0) == 'N' && dAttributes[d.peek(1)] != "" {
		s += dAttributes[d.peek(1)]
		d.in = d.in[2:]
	}
	return s
}

// parameters reads parameters up to their end.
func (d *dDemangler) parameters() {
	d.text("(")
	for first := true; ; first = false {
		switch {
		case d.accept("Z"):
			d.text(")")
			return
		case d.accept("X"):
			d.text("...)")
			return
		}
		if !first {
			d.text(", ")
		}
		if d.accept("Y") {
			d.text("...)")
			return
		}
		for _, s := range []struct{ code, name string }{
			{"Nk", "return "}, {"M", "scope "}, {"Nk", "return "}, {"I", "in "}, {"J", "out "}, {"K", "ref "}, {"L", "lazy "},
		} {
			if d.accept(s.code) {
				d.text(s.name)
			}
		}
		d.typ()
	}
}

// value reads a value of a type, of which kind is the first letter.
func (d *dDemangler) value(kind byte, name string) {
	d.enter()
	defer d.leave()
	values := func(open, end string, n int, read func()) {
		d.text(open)
		for i := range n {
			if i > 0 {
				d.text(", ")
			}
			read()
		}
		d.text(end)
	}
	any := func() { d.value(0, "") }
	switch c := d.peek(0); {
	case d.accept("n"):
		d.text("null")
	case d.accept("N"):
		d.text("-")
		d.integer(kind)
	case d.accept("i"), isDigit(c):
		d.integer(kind)
	case d.accept("e"):
		d.real()
	case d.accept("c"):
		d.real()
		d.text("+")
		if !d.accept("c") {
			d.fail()
		}
		d.real()
		d.text("i")
	case d.accept("a"), d.accept("w"), d.accept("d"):
		d.str(c)
	case d.accept("A"):
		if n := d.count(); kind == 'H' {
			values("[", "]", n, func() {
				any()
				d.text(":")
				any()
			})
		} else {
			values("[", "]", n, any)
		}
	case d.accept("S"):
		values(name+"(", ")", d.count(), any)
	case d.accept("f"):
		d.expect("_D")
		d.mangled()
	default:
		d.fail()
	}
}

func (d *dDemangler) integer(kind byte) {
	start := d.in
	n := d.count()
	switch {
	case kind == 'b':
		d.text(strconv.FormatBool(n != 0))
	case kind == 'a' && n >= ' ' && n < 0x7F:
		d.text("'" + string(rune(n)) + "'")
	case kind == 'a':
		d.text(fmt.Sprintf(`'\x%02x'`, n))
	case kind == 'u':
		d.text(fmt.Sprintf(`'\u%04x'`, n))
	case kind == 'w':
		d.text(fmt.Sprintf(`'\U%08x'`, n))
	default:
		d.text(start[:len(start)-len(d.in)])
		d.text(map[byte]string{'h': "u", 't': "u", 'k': "u", 'l': "L", 'm': "uL"}[kind])
	}
}

// real reads a number with hexadecimal digits.
func (d *dDemangler) real() {
	for _, s := range []struct{ code, name string }{{"NAN", "NaN"}, {"INF", "Inf"}, {"NINF", "-Inf"}} {
		if d.accept(s.code) {
			d.text(s.name)
			return
		}
	}
	if d.accept("N") {
		d.text("-")
	}
	mantissa, _, ok := strings.Cut(d.in, "P")
	if !ok || mantissa == "" || strings.Trim(mantissa, "0123456789ABCDEF") != "" {
		d.fail()
	}
	d.in = d.in[len(mantissa)+1:]
	d.text("0x" + mantissa[:1] + "." + mantissa[1:] + "p")
	if d.accept("N") {
		d.text("-")
	}
	d.text(strconv.Itoa(d.count()))
}

// str reads a string as hexadecimal digits.
func (d *dDemangler) str(kind byte) {
	n := d.count()
	if !d.accept("_") || 2*n > len(d.in) {
		d.fail()
	}
	d.text(`"`)
	for range n {
		c, err := strconv.ParseUint(d.in[:2], 16, 8)
		if err != nil {
			d.fail()
		}
		d.in = d.in[2:]
		switch i := strings.IndexByte("\t\n\r\f\v", byte(c)); {
		case i >= 0:
			d.text(`\` + "tnrfv"[i:i+1])
		case c >= ' ' && c < 0x7F:
			d.text(string(rune(c)))
		default:
			d.text(fmt.Sprintf(`\x%02x`, c))
		}
	}
	d.text(`"`)
	if kind != 'a' {
		d.text(string(kind))
	}
}
