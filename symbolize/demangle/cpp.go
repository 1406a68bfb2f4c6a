package demangle

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// demangleFast demangles C++ names of the Itanium ABI as LLVM's demangler writes
// them, but for rare parts of the grammar, where it gives up.
//
// What makes it fast is that there is no tree: text is written as the name is read.
// Most of what a qualifier, a pointer or template arguments add comes behind what it
// is about; what wraps around functions and arrays is put in at the middle of their
// text. A substitution copies the text of what it stands for, and the pattern of a
// pack expansion is read once for each element.
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

// attempt reports whether read did not give up.
func attempt(read func()) (ok bool) {
	defer func() {
		if e := recover(); e != nil {
			if _, expected := e.(givenUp); !expected {
				panic(e)
			}
			ok = false
		}
	}()
	read()
	return true
}

// legacyRust is the hash at the end of names of Rust's older scheme, which look like
// those of C++.
var legacyRust = regexp.MustCompile(`17h[0-9a-f]{16}E(\.|$)`)

// demanglers keeps the memory of demanglers that are done.
var demanglers = sync.Pool{New: func() any { return new(demangler) }}

type demangler struct {
	input string // all of the name behind _Z
	in    string // what is still to be read
	out   []byte
	store []byte // the texts of what follows
	subs  []text // what S_, S0_, ... stand for

	// What T_, T0_, ... stand for: params, from scope on, of the template arguments
	// of the innermost function that has been begun.
	params    []param
	arguments []text
	scope     int
	scopeID   int
	scopes    int // how many there were

	lambda   bool     // in the parameters of a lambda, where T_ is auto
	declared []string // or one of its template parameters

	uses    int // counts what depends on template arguments
	packs   int // and on element
	element int // of packs, -1 outside of expansions
	size    int // of the packs in an expansion, -1 while it is not known
	replay  int // above 0, what is read has been read before

	bare         bool // template arguments do not belong to the type that comes next
	plainGreater int  // above 0, > does not end template arguments
	depth        int
	steps        int
}

// text is a piece of demangled text that can be referred to.
type text struct {
	start, end int // in store
	shape      shape
	precedence precedence // of an expression
	base, last int        // of a name, its last component without template arguments

	// What depends on template arguments is read again where these are others.
	depends, packed bool
	scopeID         int
	source          source
}

// source says where a text comes from: a type, what N begins up to stop if that is not
// 0, or what bare says.
type source struct {
	at, stop int
	bare     bool
}

// state is what record wants to know of the time when a text was begun.
type state struct{ start, at, uses, packs int }

func (d *demangler) state() state { return state{len(d.out), d.position(), d.uses, d.packs} }

// shape says how the text of a type is composed.
type shape struct {
	mid  int  // where a declarator goes, behind the start of the text
	kind kind // what the declarator is wrapped for
}

type kind uint8

const (
	other kind = iota
	functionType
	arrayType
)

// param is a template argument, or a pack of them.
type param struct {
	first, n int
	pack     bool
}

const (
	maxDemangleDepth = 128
	maxDemangled     = 1 << 16
	maxDemangleSteps = 1 << 14
)

// givenUp is what fail panics with.
type givenUp struct{}

// fail gives up.
func (d *demangler) fail() { panic(givenUp{}) }

// enter counts what is read inside of each other, and all that is read.
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

// insert puts text in at a place of the output.
func (d *demangler) insert(at int, s string) {
	end := len(d.out)
	d.text(s)
	copy(d.out[at+len(s):], d.out[at:end])
	copy(d.out[at:], s)
}

// endsIn reports whether the output up to end, from start on, ends so.
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

// expect skips a prefix that must be there.
func (d *demangler) expect(prefix string) {
	if !d.accept(prefix) {
		d.fail()
	}
}

// peek returns a byte of the input, 0 behind its end.
func (d *demangler) peek(i int) byte {
	if i < len(d.in) {
		return d.in[i]
	}
	return 0
}

// position is where in the name the input is.
func (d *demangler) position() int { return len(d.input) - len(d.in) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// list reads elements up to E, and puts commas between those that are not empty.
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

// expand reads a pattern, and writes it for every element of the packs in it.
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

// number reads the digits of a number, after n if that is negative.
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

// ordinal is what tells the unnamed things of a function apart: "", "0", "1" and so on.
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
