package symbolize

import (
	"regexp"
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
	name := demangleFully(linkage)
	if name == linkage && strings.HasPrefix(linkage, "_R") {
		if apart, ok := apartNumbers(linkage); ok {
			if again := demangleFully(apart); again != apart {
				return again
			}
		}
	}
	return name
}

// backReference is how Rust's v0 scheme refers to what was at an offset.
var backReference = regexp.MustCompile(`B([0-9a-zA-Z]*)_`)

// apartNumbers puts an underscore, which may come between, behind lengths of 0 that
// other digits follow. Closures of Rust have such empty names, which the library
// reads as one number with the length of the name behind. It reports false where
// that moves what is referred to.
func apartNumbers(linkage string) (string, bool) {
	var b strings.Builder
	first := 0
	for i := 0; i < len(linkage); i++ {
		b.WriteByte(linkage[i])
		if i > 0 && i+1 < len(linkage) && linkage[i] == '0' && isDigit(linkage[i+1]) &&
			(!isDigit(linkage[i-1]) || strings.HasSuffix(b.String(), "_0")) {
			b.WriteByte('_')
			if first == 0 {
				first = i
			}
		}
	}
	if first == 0 {
		return "", false
	}
	for _, ref := range backReference.FindAllStringSubmatch(linkage[first:], -1) {
		const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		at := 0
		for _, c := range ref[1] {
			at = min(at*len(digits)+strings.IndexRune(digits, c), len(linkage))
		}
		if at+len("_R")+1 >= first {
			return "", false
		}
	}
	return b.String(), true
}

// operatorSpace leaves out the space between an operator and template arguments, as
// LLVM has done since version 15.
var operatorSpace = strings.NewReplacer("operator<< <", "operator<<<", "operator< <", "operator<<")

func demangleFully(linkage string) string {
	name := linkage
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
