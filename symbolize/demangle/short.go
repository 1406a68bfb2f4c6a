package demangle

import (
	"bytes"
	"regexp"
	"strings"
)

var (
	// suffixPart matches the suffix that compilers add to the names of parts of functions.
	suffixPart = regexp.MustCompile(` \(\.[^()]*\)$`)
	// uniqueSuffix matches what LLVM adds to the names of local functions to make them unique.
	uniqueSuffix = regexp.MustCompile(`\.(llvm|__uniq)\.\d+`)
	abiTag       = regexp.MustCompile(`\[abi:[^\]]*\]`)
	thunkTo      = regexp.MustCompile(`^(non-virtual thunk|virtual thunk|covariant return thunk) to `)
	qualifiers   = regexp.MustCompile(`^( const| volatile| restrict| ?&&?)*`)
	symbolOps    = regexp.MustCompile(`^operator(\(\)|\[\]|->\*|->|<=>|<<=|>>=|<<|>>|<=|>=|<|>|[-+*/%^&|~!=,]+)`)
	unnamed      = regexp.MustCompile(`^(\(anonymous [a-z]+\)|'[^']*'|\{[^{}]*\})`)
)

// Short removes parameters, template arguments, the result, qualifiers and suffixes that only make
// names unique from a demangled name. It keeps scopes. Names that differ only in what it removes become equal. It returns
// labels that are not names, and names that it does not understand, unchanged.
func Short(name string) string { return Template(name, "") }

// Template is Short with a replacement for template arguments.
func Template(name, arguments string) string {
	if strings.Contains(name, ".llvm.") || strings.Contains(name, ".__uniq.") {
		name = strings.TrimSuffix(uniqueSuffix.ReplaceAllString(name, ""), " ()")
	}
	part := suffixPart.FindString(name)
	thunk := thunkTo.FindString(name)
	body := abiTag.ReplaceAllString(name[len(thunk):len(name)-len(part)], "")
	if short, ok := shortened(body, arguments); ok && short != "@" {
		return thunk + short + part
	}
	return name
}

func shortened(name, arguments string) (string, bool) {
	var out []byte
	scope := []byte("::")
	for name != "" {
		if len(out) == 0 || bytes.HasSuffix(out, scope) {
			if op := symbolOps.FindString(name); op != "" {
				if rest := name[len(op):]; op == "operator<<" && rest != "" && strings.IndexByte("(< ", rest[0]) < 0 {
					op = "operator<" // and template arguments
				}
				out = append(out, op...)
				name = strings.TrimPrefix(name[len(op):], " ")
				continue
			}
			if rest, ok := strings.CutPrefix(name, "operator"); ok && rest != "" && (rest[0] == ' ' || rest[0] == '"') {
				// This is a conversion to a type of several words, new, delete, or a literal.
				n := strings.IndexByte(name, '(')
				if n < 0 {
					return "", false
				}
				return string(out) + name[:n], true
			}
		}
		if u := unnamed.FindString(name); u != "" {
			out, name = append(out, u...), name[len(u):]
			continue
		}
		if strings.HasPrefix(name, "!(") { // template arguments of D
			n := group(name[1:])
			if n < 0 {
				return "", false
			}
			out, name = append(out, arguments...), name[1+n:]
			continue
		}
		switch c := name[0]; c {
		case ' ':
			out, name = out[:0], name[1:] // that was the result
		case '<', '(':
			n := group(name)
			if n < 0 {
				return "", false
			}
			if c == '<' {
				if len(out) == 0 {
					out = append(out, name[:n]...) // <Type as Trait>::function of Rust
				} else if bytes.HasSuffix(out, scope) {
					out = append(out[:len(out)-2], arguments...) // function::<Type> of Rust
				} else {
					out = append(out, arguments...)
				}
				name = name[n:]
				continue
			}
			name = name[n:]
			rest := name[len(qualifiers.FindString(name)):]
			switch {
			case rest == "":
				return string(out), len(out) > 0
			case strings.HasPrefix(rest, "::"), strings.HasPrefix(rest, "."): // D's scopes have dots
				name = rest
			case string(out) != "decltype":
				return "", false
			}
		default:
			out, name = append(out, c), name[1:]
		}
	}
	return string(out), len(out) > 0
}

// group returns the length of the brackets at the start of a text. It returns -1 if the closing
// bracket is missing, or unclear because of operators.
func group(s string) int {
	var open []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '(', '<', '[', '{':
			open = append(open, c)
		case ')', '>', ']', '}':
			if c == '>' && i > 0 && (s[i-1] == '-' || s[i-1] == '=') {
				continue // an arrow
			}
			want := map[byte]byte{')': '(', '>': '<', ']': '[', '}': '{'}[c]
			// Operators like < extend to the end of the enclosing bracket.
			for len(open) > 0 && open[len(open)-1] == '<' && c != '>' {
				open = open[:len(open)-1]
			}
			if len(open) == 0 || open[len(open)-1] != want {
				return -1
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return i + 1
			}
		}
	}
	return -1
}
