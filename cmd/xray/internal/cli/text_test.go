package cli

import (
	"strings"
	"testing"
)

// Characters that are split over writes stay intact.
func TestEscaperPieces(t *testing.T) {
	text := "a▂█\x1bé\u009b\xff\xe2\x96 \u202e\r\n\tz\xe2\x96"
	want := `a▂█\x1bé\u009b\xff\xe2\x96 \u202e\r` + "\n\t" + `z\xe2\x96`
	for size := 1; size <= len(text); size++ {
		var b strings.Builder
		e := escaper{w: &b}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if k, err := e.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
		}
		if err := e.flush(); err != nil || b.String() != want {
			t.Fatalf("in pieces of %d: got %q, error %v", size, b.String(), err)
		}
	}
}
