package allocations

import (
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Copies reports whether a function copies an object, by its complete demangled name: a copy constructor
// or a copy assignment of C++, or an implementation of Clone in Rust.
func Copies(name string) bool {
	if strings.Contains(name, " as core::clone::Clone>::clone") {
		return true
	}
	function, params, ok := splitParameters(name)
	if !ok {
		return false
	}
	class, last := splitScope(function)
	if class == "" || params != class+" const&" && !strings.HasPrefix(params, class+" const&, ") {
		return false
	}
	_, base := splitScope(class)
	base, _, _ = strings.Cut(base, "<")
	base, _, _ = strings.Cut(base, "[") // ABI tags
	return last == "operator=" || last == base
}

// splitParameters splits a name into the function and the contents of its parameter list.
func splitParameters(name string) (function, params string, ok bool) {
	end := strings.LastIndexByte(name, ')')
	for i, depth := end, 0; i > 0; i-- {
		switch name[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth == 0 {
				return name[:i], name[i+1 : end], true
			}
		}
	}
	return "", "", false
}

// splitScope splits the name of a class or function from its scope. The scope is "" if there is none.
func splitScope(name string) (scope, last string) {
	depth := 0
	for i := len(name) - 1; i > 0; i-- {
		switch name[i] {
		case '>', ')':
			depth++
		case '<', '(':
			depth--
		case ':':
			if depth == 0 && name[i-1] == ':' {
				return name[:i-1], name[i+1:]
			}
		}
	}
	return "", name
}

// copying is what a thread copies.
type copying struct {
	depth            int // open calls of functions that copy objects
	bytes, allocated uint64
}

// thread returns what a thread copies.
func (a *Analysis) thread(t reader.Thread) *copying {
	c := a.copying[t]
	if c == nil {
		c = new(copying)
		a.copying[t] = c
	}
	return c
}

// begin begins a call of a function that copies objects.
func (c *copying) begin() {
	if c.depth == 0 {
		*c = copying{}
	}
	c.depth++
}

// end ends such a call, and reports whether it was not inside another one.
func (c *copying) end() bool {
	c.depth--
	return c.depth == 0
}

// copied adds a call that has copied.
func (a *Analysis) copied(sums map[calls.PathID]*CopySums, t reader.Thread, c *calls.Call, bytes, allocated uint64) {
	if !a.selected(t, c.Start) {
		return
	}
	s := sums[c.Path]
	if s == nil {
		s = new(CopySums)
		sums[c.Path] = s
	}
	s.Calls++
	s.Bytes += bytes
	s.Allocated += allocated
	s.Ticks += c.Duration
	s.Longest = max(s.Longest, c.Duration)
}
