// Package demangle turns linkage names of C++ and Rust into those of the source, as LLVM
// writes them, and shortens these. It is fast, takes bounded time and memory whatever a
// name is, and never fails: what is no such name stays as it is. All functions may be
// called concurrently.
package demangle

import (
	"strings"

	library "github.com/ianlancetaylor/demangle"
)

// Name turns a linkage name of C++ or Rust into the one of the source, in
// the style of LLVM. Other names stay as they are.
func Name(linkage string) string {
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

// operatorSpace leaves out the space between an operator and template arguments, as
// LLVM has done since version 15.
var operatorSpace = strings.NewReplacer("operator<< <", "operator<<<", "operator< <", "operator<<")

// maxDemangleFully bounds what is given to the library, whose time grows with the square
// of the length for names that nest deeply.
const maxDemangleFully = 1 << 12

func demangleFully(linkage string) (name string) {
	name = linkage
	if len(name) > maxDemangleFully {
		return name
	}
	// A name that does not demangle is best shown as it is.
	defer func() { _ = recover() }() // the library is given whatever strangers send
	const maxLength = 16             // as a power of 2
	if s, err := library.ToString(linkage, library.LLVMStyle, library.MaxLength(maxLength)); err == nil {
		name = operatorSpace.Replace(s)
	}
	return name
}
