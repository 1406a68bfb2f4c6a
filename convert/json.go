package convert

import (
	"unicode/utf8"
)

// appendJSON appends a string as a JSON string. Bytes that are not UTF-8 become U+FFFD, because JSON
// cannot contain them.
func appendJSON(dst []byte, s string) []byte {
	const hexDigits = "0123456789ABCDEF"
	dst = append(dst, '"')
	clean := 0 // start of the part that needs no escape
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[clean:i]...), "\uFFFD"...)
				clean = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			dst = append(dst, s[clean:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, `\n`...)
			case '\t':
				dst = append(dst, `\t`...)
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			clean = i + 1
		}
		i++
	}
	return append(append(dst, s[clean:]...), '"')
}
