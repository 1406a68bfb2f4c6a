package label

import (
	"strings"
	"testing"
)

func TestIndent(t *testing.T) {
	for level, want := range map[int]string{0: "", 2: "    ", 100: strings.Repeat(" ", 200), 101: strings.Repeat(" ", 200) + "[101] ", 300_000: strings.Repeat(" ", 200) + "[300000] "} {
		if got := Indent(level); got != want {
			t.Errorf("level %d: got %q", level, got)
		}
	}
}
