package html

import "strings"

// Lines of source that are shown of a function, and bytes of all of them.
const (
	linesBefore, linesAfter = 3, 60
	maxSource               = 8 << 20
)

// sources takes passages out of files of source code.
type sources struct {
	read  func(path string) ([]byte, error)
	files map[string][]string
	left  int
}

func newSources(read func(string) ([]byte, error)) *sources {
	return &sources{read: read, files: map[string][]string{}, left: maxSource}
}

// at returns the lines around the first line of a function, each with its number; ""
// where the file is not to be had.
func (s *sources) at(path string, line int) string {
	if s.read == nil || path == "" || line <= 0 || s.left <= 0 {
		return ""
	}
	lines, ok := s.files[path]
	if !ok {
		if text, err := s.read(path); err == nil {
			lines = strings.Split(strings.ToValidUTF8(string(text), "\uFFFD"), "\n")
		}
		s.files[path] = lines
	}
	if line > len(lines) {
		return ""
	}
	var b strings.Builder
	for n := max(1, line-linesBefore); n <= min(len(lines), line+linesAfter); n++ {
		writeLine(&b, n, strings.TrimSuffix(lines[n-1], "\r"))
		// A closing brace in the first column ends most functions.
		if n > line && strings.HasPrefix(lines[n-1], "}") {
			break
		}
	}
	s.left -= b.Len()
	return b.String()
}

func writeLine(b *strings.Builder, n int, text string) {
	const width = 5
	number := []byte("     ")
	for i := width - 1; i >= 0 && n > 0; i, n = i-1, n/10 {
		number[i] = byte('0' + n%10)
	}
	b.Write(number)
	b.WriteString("  " + text + "\n")
}
