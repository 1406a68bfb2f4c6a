package html

import (
	"strings"

	"github.com/xray-tools/xray/symbolize/source"
)

// sources extracts passages from source files.
type sources struct {
	read  func(path string) ([]byte, error)
	files map[string][]string
	left  int
}

func newSources(read func(string) ([]byte, error)) *sources {
	return &sources{read: read, files: map[string][]string{}, left: source.MaxBytes}
}

// at returns the source lines of a function that begins at a line, each with its number, or "" if
// the file is not available.
func (s *sources) at(path string, line int) string {
	if s.read == nil || path == "" || line <= 0 || s.left <= 0 {
		return ""
	}
	lines, ok := s.files[path]
	if !ok {
		if text, err := s.read(path); err == nil {
			lines = source.Lines(text)
		}
		s.files[path] = lines
	}
	var b strings.Builder
	first, last := source.Passage(lines, line)
	for n := first; n <= last; n++ {
		writeLine(&b, n, lines[n-1])
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
