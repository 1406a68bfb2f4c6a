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
	if name, ok := demangleFast(linkage); ok {
		return name
	}
	if name, ok := demangleRust(linkage); ok {
		return name
	}
	return demangleFully(linkage)
}

// operatorSpace removes the space between an operator and template arguments, as LLVM does
// since version 15.
var operatorSpace = strings.NewReplacer("operator<< <", "operator<<<", "operator< <", "operator<<")

// maxDemangleFully limits the length of names that are passed to the library. Its time is
// quadratic for deeply nested names.
const maxDemangleFully = 1 << 12

func demangleFully(linkage string) (name string) {
	name = linkage
	if len(name) > maxDemangleFully {
		return name
	}
	// Show names unchanged if they do not demangle.
	defer func() { _ = recover() }() // hostile names can make the library panic
	const maxLength = 16             // as a power of 2
	if s, err := library.ToString(linkage, library.LLVMStyle, library.MaxLength(maxLength)); err == nil {
		name = operatorSpace.Replace(s)
	}
	return name
}
