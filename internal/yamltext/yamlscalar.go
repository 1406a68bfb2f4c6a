package yamltext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// AppendScalar appends a string as LLVM's YAML writer does (needsQuotes in
// YAMLTraits.h, yaml::escape), except where that could not be read back:
//
//   - LLVM leaves commas unquoted. But records of traces and sleds are flow maps,
//     in which a comma ends a plain scalar, so LLVM cannot load its own output.
//   - LLVM cuts a string off at the first byte that is not UTF-8. Here, such a
//     byte is written \xNN, which package reader reads as the byte. Other programs
//     read it as the character U+00NN, because they cannot represent the byte.
//   - So U+0080 and similar characters, which LLVM writes as \x80, are written
//     \u0080.
func AppendScalar(dst []byte, s string) []byte {
	switch styleOf(s) {
	case plain:
		return append(dst, s...)
	case double:
		return appendDoubleQuoted(dst, s)
	}
	dst = append(dst, '\'')
	for {
		before, after, found := strings.Cut(s, "'")
		dst = append(dst, before...)
		if !found {
			return append(dst, '\'')
		}
		dst = append(dst, "''"...)
		s = after
	}
}

type style uint8

const (
	plain style = iota
	single
	double
)

func styleOf(s string) style {
	if s == "" {
		return single
	}
	found := plain
	if isSpace(s[0]) || isSpace(s[len(s)-1]) || isConstant(s) || isNumber(s) ||
		strings.IndexByte("-?:\\,[]{}#&*!|>'\"%@`", s[0]) >= 0 {
		found = single
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
		case c == '_' || c == '-' || c == '^' || c == '.' || c == ' ' || c == '\t':
		case c < ' ' || c >= 0x7F:
			return double
		default:
			found = single
		}
	}
	return found
}

// isSpace is true for white space; other kinds than these two need double
// quotes anyway.
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func isConstant(s string) bool {
	switch s {
	case "null", "Null", "NULL", "~", "true", "True", "TRUE", "false", "False", "FALSE":
		return true
	}
	return false
}

// isNumber reports whether a plain scalar would be taken for a number: by
// YAML 1.2, and by LLVM, which takes "5." and "1.e5" too.
func isNumber(s string) bool {
	switch s {
	case ".nan", ".NaN", ".NAN":
		return true
	}
	if octal, ok := strings.CutPrefix(s, "0o"); ok {
		return octal != "" && strings.Trim(octal, "01234567") == ""
	}
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		return hex != "" && strings.Trim(hex, "0123456789abcdefABCDEF") == ""
	}
	if s[0] == '-' || s[0] == '+' {
		s = s[1:]
	}
	switch s {
	case ".inf", ".Inf", ".INF":
		return true
	}
	rest := skipDigits(s)
	digits := len(rest) < len(s)
	if fraction, ok := strings.CutPrefix(rest, "."); ok {
		rest = skipDigits(fraction)
		digits = digits || len(rest) < len(fraction)
	}
	if !digits || rest == "" {
		return digits
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	exponent := rest[1:]
	if exponent != "" && (exponent[0] == '-' || exponent[0] == '+') {
		exponent = exponent[1:]
	}
	return exponent != "" && skipDigits(exponent) == ""
}

func skipDigits(s string) string { return strings.TrimLeft(s, "0123456789") }

// appendDoubleQuoted appends a string in double quotes.
func appendDoubleQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = appendHex(append(dst, `\x`...), rune(s[0]), 2)
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			if c := "0......abtnvfr.............e...."[r]; c != '.' {
				dst = append(dst, '\\', c)
			} else {
				dst = appendHex(append(dst, `\x`...), r, 2)
			}
		case r <= 0x7F:
			dst = append(dst, byte(r))
		case r == 0x85:
			dst = append(dst, `\N`...)
		case r == 0xA0:
			dst = append(dst, `\_`...)
		case r == 0x2028:
			dst = append(dst, `\L`...)
		case r == 0x2029:
			dst = append(dst, `\P`...)
		case unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) || r == 0xAD:
			dst = append(dst, s[:size]...)
		case r <= 0xFFFF:
			dst = appendHex(append(dst, `\u`...), r, 4)
		default:
			dst = appendHex(append(dst, `\U`...), r, 8)
		}
		s = s[size:]
	}
	return append(dst, '"')
}

func appendHex(dst []byte, r rune, digits int) []byte {
	const hexDigits = "0123456789ABCDEF"
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[r>>shift&15])
	}
	return dst
}
