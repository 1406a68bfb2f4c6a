package texttab

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text, first, rest string
		width             int
		want              []string
	}{
		{"", "", "", 10, []string{""}},
		{"one two", "", "", 7, []string{"one two"}},
		{"one two", "", "", 6, []string{"one", "two"}},
		{"one  two\nthree", "- ", "  ", 9, []string{"- one two", "  three"}},
		{"a longword b", "    ", "    ", 8, []string{"    a", "    longword", "    b"}},
		{"日本 ab", "", "", 6, []string{"日本", "ab"}},
	} {
		if diff := cmp.Diff(c.want, Wrap(c.text, c.first, c.rest, c.width)); diff != "" {
			t.Errorf("%q at width %d (-want +got):\n%s", c.text, c.width, diff)
		}
	}
}
