package source

import "strings"

// MaxBytes is how much source code is shown or packed with a trace.
const MaxBytes = 8 << 20

// linesBefore and linesAfter the first line of a function belong to it.
const linesBefore, linesAfter = 3, 60

// Lines cuts a file into its lines, without their ends. It replaces text that is not UTF-8.
func Lines(text []byte) []string {
	lines := strings.Split(strings.ToValidUTF8(string(text), "\uFFFD"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return lines
}

// Passage returns the lines to show for a function whose first line is given, from first to
// last, counted from 1. If the file does not have the line, last is less than first.
func Passage(lines []string, line int) (first, last int) {
	first = max(1, line-linesBefore)
	if line < 1 || line > len(lines) {
		return first, first - 1
	}
	for last = first; last < min(len(lines), line+linesAfter); last++ {
		// A closing brace in the first column ends most functions.
		if last > line && strings.HasPrefix(lines[last-1], "}") {
			break
		}
	}
	return first, last
}
