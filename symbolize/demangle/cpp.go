package demangle

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// demangleFast demangles C++ names of the Itanium ABI in the form of LLVM's demangler. It fails
// on rare parts of the grammar.
//
// It is fast because it builds no tree: it writes text while it reads the name. Most of the
// text of a qualifier, a pointer or template arguments comes after the text of its operand.
// Text around functions and arrays is inserted in the middle of their text. A substitution
// copies text. The pattern of a pack expansion is read once for each element.
func demangleFast(linkage string) (string, bool) {
	rest, ok := strings.CutPrefix(linkage, "_Z")
	if !ok || legacyRust.MatchString(rest) {
		return "", false
	}
	d := demanglers.Get().(*demangler)
	defer demanglers.Put(d)
	*d = demangler{
		input: rest, in: rest, element: -1, plainGreater: 1,
		out: d.out[:0], store: d.store[:0], subs: d.subs[:0], arguments: d.arguments[:0], params: d.params[:0],
	}
	ok = attempt(func() {
		d.mangledName()
		if d.peek(0) == '.' {
			d.text(" (" + d.in + ")")
		} else if d.in != "" {
			d.fail()
		}
	})
	if !ok {
		return "", false
	}
	return string(d.out), true
}

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

// legacyRust matches the hash at the end of legacy Rust names, which look like C++ names.
var legacyRust = regexp.MustCompile(`17h[0-9a-f]{16}E(\.|$)`)

// demanglers pools demanglers.
var demanglers = sync.Pool{New: func() any { return new(demangler) }}

type demangler struct {
	input string // the name after _Z
	in    string // the rest to read
	out   []byte
	store []byte // texts of subs and params
	subs  []text // values of S_, S0_, ...

	// The values of T_, T0_, ...: params from scope on, which are the template arguments of the
	// innermost function.
	params    []param
	arguments []text
	scope     int
	scopeID   int
	scopes    int // number of scopes so far

	lambda   bool     // in the parameters of a lambda, where T_ is auto
	declared []string // names of its template parameters

	uses    int // number of uses of template arguments
	packs   int // number of uses of element
	element int // index in packs; -1 outside of expansions
	size    int // of the packs in an expansion; -1 if unknown
	replay  int // greater than 0 while text is read again

	bare         bool // the next type has no template arguments
	plainGreater int  // if greater than 0, > does not end template arguments
	depth        int
	steps        int
}

// text is a part of the output that can be referred to.
type text struct {
	start, end int // in store
	shape      shape
	precedence precedence // of an expression
	base, last int        // of a name, its last component without template arguments

	// If text depends on template arguments, it is read again when these differ.
	depends, packed bool
	scopeID         int
	source          source
}

// source is the origin of a text: a type, the rest of a nested name up to stop if that is not
// 0, or the case in bare.
type source struct {
	at, stop int
	bare     bool
}

// state is the state that record needs from the start of a text.
type state struct{ start, at, uses, packs int }

func (d *demangler) state() state { return state{len(d.out), d.position(), d.uses, d.packs} }

// shape is the structure of the text of a type.
type shape struct {
	mid  int  // offset of a declarator from the start of the text
	kind kind // determines the parentheses around a declarator
}

type kind uint8

const (
	other kind = iota
	functionType
	arrayType
)

// param is a template argument or a pack of them.
type param struct {
	first, n int
	pack     bool
}

const (
	maxDemangleDepth = 128
	maxDemangled     = 1 << 16
	maxDemangleSteps = 1 << 14
)

// bailout is the panic value of fail.
type bailout struct{}

// fail stops demangling.
func (d *demangler) fail() { panic(bailout{}) }

// enter counts the nesting depth and the total steps.
func (d *demangler) enter() {
	d.depth++
	d.steps++
	if d.depth > maxDemangleDepth || d.steps > maxDemangleSteps {
		d.fail()
	}
}

func (d *demangler) leave() { d.depth-- }

func (d *demangler) text(s string) {
	if len(d.out)+len(s) > maxDemangled {
		d.fail()
	}
	d.out = append(d.out, s...)
}

// insert inserts text into the output.
func (d *demangler) insert(at int, s string) {
	end := len(d.out)
	d.text(s)
	copy(d.out[at+len(s):], d.out[at:end])
	copy(d.out[at:], s)
}

// endsIn reports whether the output from start to end ends in a suffix.
func (d *demangler) endsIn(start, end int, suffix string) bool {
	at := end - len(suffix)
	return at >= start && string(d.out[at:end]) == suffix
}

// accept skips a prefix of the input.
func (d *demangler) accept(prefix string) bool {
	rest, ok := strings.CutPrefix(d.in, prefix)
	if ok {
		d.in = rest
	}
	return ok
}

// expect skips a prefix and fails if it is missing.
func (d *demangler) expect(prefix string) {
	if !d.accept(prefix) {
		d.fail()
	}
}

// peek returns a byte of the input, or 0 after its end.
func (d *demangler) peek(i int) byte {
	if i < len(d.in) {
		return d.in[i]
	}
	return 0
}

// position returns the offset of the input in the name.
func (d *demangler) position() int { return len(d.input) - len(d.in) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// list reads elements up to E, and writes commas between those that are not empty.
func (d *demangler) list(read func()) { d.listTo("E", read) }

func (d *demangler) listTo(end string, read func()) {
	for first := true; !d.accept(end); {
		d.listed(&first, read)
		if d.in == "" {
			d.fail()
		}
	}
}

// listed reads one element of a list.
func (d *demangler) listed(first *bool, read func()) {
	start := len(d.out)
	if !*first {
		d.text(", ")
	}
	from := len(d.out)
	read()
	if len(d.out) > from {
		*first = false
	} else {
		d.out = d.out[:start]
	}
}

// expand reads a pattern and writes it for every element of its packs.
func (d *demangler) expand(read func()) {
	element, size, packs := d.element, d.size, d.packs
	defer func() { d.element, d.size, d.packs = element, size, packs }()
	start, from := len(d.out), d.in
	d.element, d.size = 0, -1
	read()
	switch {
	case d.size < 0:
		d.text("...")
	case d.size == 0:
		d.out = d.out[:start]
	}
	d.replay++
	for d.element = 1; d.element < d.size; d.element++ {
		d.in = from
		d.text(", ")
		read()
	}
	d.replay--
}

// sequence reads "_", "0_", "1_" and so on as 0, 1, 2.
func (d *demangler) sequence(base int) int {
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

// number reads a number, which is negative after n.
func (d *demangler) number() string {
	n := 0
	if d.peek(0) == 'n' {
		n = 1
	}
	from := n
	for isDigit(d.peek(n)) {
		n++
	}
	if n == from {
		d.fail()
	}
	s := d.in[:n]
	d.in = d.in[n:]
	return s
}

func (d *demangler) identifier() string {
	n := 0
	for isDigit(d.peek(0)) && n < 1<<16 {
		n = 10*n + int(d.in[0]-'0')
		d.in = d.in[1:]
	}
	if n == 0 || n > len(d.in) {
		d.fail()
	}
	id := d.in[:n]
	d.in = d.in[n:]
	if strings.HasPrefix(id, "_GLOBAL__N") {
		return "(anonymous namespace)"
	}
	return id
}

// ordinal reads the number of an unnamed entity in a function: "", "0", "1" and so on.
func (d *demangler) ordinal() string {
	i := d.sequence(10)
	if i < 0 {
		d.fail()
	}
	if i <= 0 {
		return ""
	}
	return strconv.Itoa(i - 1)
}
