package texttab

import "strings"

// Wrap breaks text between words into lines of at most width columns, except for longer
// words. The first line begins with first, and the others with rest. There is at least
// one line.
func Wrap(text, first, rest string, width int) []string {
	var lines []string
	line, columns, empty := first, Width(first), true
	for _, word := range strings.Fields(text) {
		n := Width(word)
		switch {
		case empty:
		case columns+1+n > width:
			lines = append(lines, line)
			line, columns = rest, Width(rest)
		default:
			line += " "
			columns++
		}
		line, columns, empty = line+word, columns+n, false
	}
	return append(lines, line)
}
