package symbolize

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Demangle turns a linkage name of C++ or Rust into the one of the source, in
// the style of LLVM. Other names stay as they are.
func Demangle(linkage string) string {
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

func demangleFully(linkage string) string {
	name := linkage
	if len(name) > maxDemangleFully {
		return name
	}
	// A name that does not demangle is best shown as it is.
	_ = guard(func() error {
		const maxLength = 16 // as a power of 2
		s, err := demangle.ToString(linkage, demangle.LLVMStyle, demangle.MaxLength(maxLength))
		if err == nil {
			name = operatorSpace.Replace(s)
		}
		return nil
	})
	return name
}
