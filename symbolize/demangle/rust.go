package demangle

import (
	"strconv"
	"strings"
)

// demangleRust demangles names of Rust's v0 scheme in the form of LLVM's demangler. It fails on
// identifiers that are not ASCII.
func demangleRust(linkage string) (string, bool) {
	rest, ok := strings.CutPrefix(linkage, "_R")
	if !ok {
		return "", false
	}
	rest, suffix, cloned := strings.Cut(rest, ".")
	d := &rustDemangler{demangler: demangler{input: rest, in: rest}}
	ok = attempt(func() {
		d.path(false)
		if d.in != "" { // the crate that instantiated it
			d.silent = true
			d.path(false)
			d.silent = false
		}
		if d.in != "" {
			d.fail()
		}
		if cloned {
			d.text(" (." + suffix + ")")
		}
	})
	if !ok {
		return "", false
	}
	return string(d.out), true
}

// rustDemangler implements the grammar in
// https://doc.rust-lang.org/rustc/symbol-mangling/v0.html.
type rustDemangler struct {
	demangler
	silent bool   // input is read but not written
	bound  uint64 // lifetimes in scope
}

func (d *rustDemangler) write(s string) {
	if !d.silent {
		d.text(s)
	}
}

// again reads a back reference.
func (d *rustDemangler) again(read func()) {
	at := d.base62()
	if at >= uint64(d.position()) {
		d.fail()
	}
	if d.silent {
		return
	}
	rest := d.in
	d.in = d.input[at:]
	read()
	d.in = rest
}

// path reads <path>. In types, there is no :: before arguments.
func (d *rustDemangler) path(inType bool) { d.openPath(inType, false) }

// openPath reads <path>. If open is true, it can leave the list of arguments open, and reports
// this.
func (d *rustDemangler) openPath(inType, open bool) bool {
	d.enter()
	defer d.leave()
	switch {
	case d.accept("C"):
		d.disambiguator()
		d.write(d.ident())
	case d.accept("M"):
		d.impl(inType)
		d.write("<")
		d.typ()
		d.write(">")
	case d.accept("X"):
		d.impl(inType)
		d.as()
	case d.accept("Y"):
		d.as()
	case d.accept("N"):
		space := d.peek(0)
		if !(space >= 'a' && space <= 'z' || space >= 'A' && space <= 'Z') {
			d.fail()
		}
		d.in = d.in[1:]
		d.path(inType)
		n, name := d.disambiguator(), d.ident()
		switch {
		case space >= 'a':
			if name != "" {
				d.write("::" + name)
			}
		default:
			what := map[byte]string{'C': "closure", 'S': "shim"}[space]
			if what == "" {
				what = string(space)
			}
			if name != "" {
				what += ":" + name
			}
			d.write("::{" + what + "#" + strconv.FormatUint(n, 10) + "}")
		}
	case d.accept("I"):
		d.path(inType)
		if !inType {
			d.write("::")
		}
		d.write("<")
		d.elements(", ", d.genericArg)
		if open {
			return true
		}
		d.write(">")
	case d.accept("B"):
		isOpen := false
		d.again(func() { isOpen = d.openPath(inType, open) })
		return isOpen
	default:
		d.fail()
	}
	return false
}

// impl reads the path of an implementation, which is not written.
func (d *rustDemangler) impl(inType bool) {
	silent := d.silent
	d.silent = true
	d.disambiguator()
	d.path(inType)
	d.silent = silent
}

// as reads a type and its trait.
func (d *rustDemangler) as() {
	d.write("<")
	d.typ()
	d.write(" as ")
	d.path(true)
	d.write(">")
}

// elements reads up to E. It returns the number of elements.
func (d *rustDemangler) elements(separator string, read func()) int {
	n := 0
	for ; !d.accept("E"); n++ {
		if n > 0 {
			d.write(separator)
		}
		read()
	}
	return n
}

func (d *rustDemangler) genericArg() {
	switch {
	case d.accept("L"):
		d.lifetime(d.base62())
	case d.accept("K"):
		d.constant()
	default:
		d.typ()
	}
}

var rustTypes = [26]string{
	"i8", "bool", "char", "f64", "str", "f32", "", "u8", "isize", "usize", "", "i32", "u32", "i128", "u128", "_",
	"", "", "i16", "u16", "()", "...", "", "i64", "u64", "!",
}

// typ reads <type>.
func (d *rustDemangler) typ() {
	d.enter()
	defer d.leave()
	c := d.peek(0)
	if c >= 'a' && c <= 'z' && rustTypes[c-'a'] != "" {
		d.in = d.in[1:]
		d.write(rustTypes[c-'a'])
		return
	}
	switch {
	case d.accept("A"):
		d.write("[")
		d.typ()
		d.write("; ")
		d.constant()
		d.write("]")
	case d.accept("S"):
		d.write("[")
		d.typ()
		d.write("]")
	case d.accept("T"):
		d.write("(")
		if d.elements(", ", d.typ) == 1 {
			d.write(",")
		}
		d.write(")")
	case d.accept("R"), d.accept("Q"):
		d.write("&")
		if d.accept("L") {
			if n := d.base62(); n > 0 {
				d.lifetime(n)
				d.write(" ")
			}
		}
		if c == 'Q' {
			d.write("mut ")
		}
		d.typ()
	case d.accept("P"):
		d.write("*const ")
		d.typ()
	case d.accept("O"):
		d.write("*mut ")
		d.typ()
	case d.accept("F"):
		d.function()
	case d.accept("D"):
		d.dyn()
	case d.accept("B"):
		d.again(d.typ)
	default:
		d.path(true)
	}
}

// function reads <fn-sig>.
func (d *rustDemangler) function() {
	bound := d.bound
	d.binder()
	if d.accept("U") {
		d.write("unsafe ")
	}
	if d.accept("K") {
		abi := "C"
		if !d.accept("C") {
			abi = strings.ReplaceAll(d.ident(), "_", "-")
		}
		d.write(`extern "` + abi + `" `)
	}
	d.write("fn(")
	d.elements(", ", d.typ)
	d.write(")")
	if !d.accept("u") {
		d.write(" -> ")
		d.typ()
	}
	d.bound = bound
}

// dyn reads <dyn-bounds> and a lifetime.
func (d *rustDemangler) dyn() {
	bound := d.bound
	d.write("dyn ")
	d.binder()
	d.elements(" + ", func() {
		open := d.openPath(true, true)
		for d.accept("p") {
			if open {
				d.write(", ")
			} else {
				d.write("<")
			}
			open = true
			d.write(d.ident() + " = ")
			d.typ()
		}
		if open {
			d.write(">")
		}
	})
	d.bound = bound
	d.expect("L")
	if n := d.base62(); n > 0 {
		d.write(" + ")
		d.lifetime(n)
	}
}

// binder reads the lifetimes that a type is generic over.
func (d *rustDemangler) binder() {
	if !d.accept("G") {
		return
	}
	n := d.base62() + 1
	if n > 64 {
		d.fail()
	}
	d.write("for<")
	for i := range n {
		if i > 0 {
			d.write(", ")
		}
		d.bound++
		d.lifetime(1)
	}
	d.write("> ")
}

// lifetime writes a lifetime. Indexes count from the innermost.
func (d *rustDemangler) lifetime(n uint64) {
	switch {
	case n == 0:
		d.write("'_")
	case n > d.bound:
		d.fail()
	default:
		depth := d.bound - n
		if depth < 26 {
			d.write("'" + string(rune('a'+depth)))
		} else {
			d.write("'z" + strconv.FormatUint(depth-26+1, 10))
		}
	}
}

// constant reads <const>.
func (d *rustDemangler) constant() {
	d.enter()
	defer d.leave()
	c := d.peek(0)
	switch {
	case d.accept("B"):
		d.again(d.constant)
	case d.accept("p"):
		d.write("_")
	case d.accept("b0_"):
		d.write("false")
	case d.accept("b1_"):
		d.write("true")
	case c != 0 && strings.IndexByte("ahijlmnostxy", c) >= 0:
		d.in = d.in[1:]
		if strings.IndexByte("ailnsx", c) >= 0 && d.accept("n") {
			d.write("-")
		}
		digits, rest, ok := strings.Cut(d.in, "_")
		if !ok || digits == "" || strings.Trim(digits, "0123456789abcdef") != "" {
			d.fail()
		}
		d.in = rest
		if v, err := strconv.ParseUint(digits, 16, 64); err == nil {
			digits = strconv.FormatUint(v, 10)
		} else {
			digits = "0x" + digits
		}
		d.write(digits)
	default:
		d.fail()
	}
}

// disambiguator reads an optional s and number. The default is 0.
func (d *rustDemangler) disambiguator() uint64 {
	if !d.accept("s") {
		return 0
	}
	return d.base62() + 1
}

// base62 reads "_", "0_", "1_" and so on as 0, 1, 2.
func (d *rustDemangler) base62() uint64 {
	digits, rest, ok := strings.Cut(d.in, "_")
	if !ok || len(digits) > 11 {
		d.fail()
	}
	d.in = rest
	if digits == "" {
		return 0
	}
	var n uint64
	for _, c := range []byte(digits) {
		switch {
		case isDigit(c):
			n = 62*n + uint64(c-'0')
		case c >= 'a' && c <= 'z':
			n = 62*n + uint64(c-'a') + 10
		case c >= 'A' && c <= 'Z':
			n = 62*n + uint64(c-'A') + 36
		default:
			d.fail()
		}
	}
	return n + 1
}

// ident reads <undisambiguated-identifier>, which can be empty.
func (d *rustDemangler) ident() string {
	if d.accept("0") {
		d.accept("_")
		return ""
	}
	if !isDigit(d.peek(0)) {
		d.fail() // Punycode
	}
	n, err := strconv.Atoi(d.number())
	if err != nil {
		d.fail()
	}
	d.accept("_")
	if n > len(d.in) {
		d.fail()
	}
	id := d.in[:n]
	d.in = d.in[n:]
	return id
}
