// Package demangle demangles C++ and Rust linkage names in the form of LLVM and those of D in the form
// of GNU, and shortens demangled names. It takes bounded time and memory for any input. It returns other names
// unchanged and has no errors. All functions are safe for concurrent use.
package demangle

import (
	"strings"

	library "github.com/ianlancetaylor/demangle"
)

// Name demangles a linkage name of C++, Rust or D. It returns other names unchanged.
func Name(linkage string) string {
	if strings.HasPrefix(linkage, "_D") {
		if name, ok := demangleD(linkage); ok {
			return name
		}
		return linkage
	}
	if !strings.HasPrefix(linkage, "_R") && !strings.HasPrefix(strings.TrimLeft(linkage, "_"), "Z") || linkage[0] != '_' {
		return linkage
	}
	return byLibrary(linkage)
}

// operatorSpace removes the space between an operator and template arguments, as LLVM does
// since version 15.
var operatorSpace = strings.NewReplacer("operator<< <", "operator<<<", "operator< <", "operator<<")

const (
	// longest limits the length of names that are demangled. The library's time is quadratic for deeply
	// nested names.
	longest = 1 << 12
	// longestDemangled limits the length of demangled names, as a power of 2.
	longestDemangled = 16
)

// byLibrary demangles names of C++ and Rust. testdata/library.txt lists what the library gets wrong.
func byLibrary(linkage string) (name string) {
	name = linkage
	if len(name) > longest {
		return name
	}
	base, unique := linkage, ""
	if i := strings.Index(linkage, ".llvm."); i > 0 { // of ThinLTO; the library refuses it after some names
		base, unique = linkage[:i], " ("+linkage[i:]+")"
	}
	// Show names unchanged if they do not demangle.
	defer func() { _ = recover() }() // hostile names can make the library panic
	if s, err := library.ToString(base, library.LLVMStyle, library.MaxLength(longestDemangled)); err == nil {
		name = operatorSpace.Replace(s) + unique
	}
	return name
}
