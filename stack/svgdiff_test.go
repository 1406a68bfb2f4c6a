package stack

import (
	"slices"
	"strings"
	"testing"
)

// Frames show the difference from the same path of the base, whatever the IDs of functions.
func TestWriteSVGOfDifference(t *testing.T) {
	now := collect(t, Options{}, "1 +10 2 +70 . 3 +10 . 4 +10 . .").Report(gigahertz)
	then := collect(t, Options{}, "6 +10 7 +10 . 8 +80 . 9 +100 . .").Report(gigahertz)
	n, base := names{1: "main", 2: "grows", 3: "shrinks", 4: "new"}, names{6: "main", 7: "grows", 8: "shrinks", 9: "gone"}
	view := SVGView{Base: then, BaseNames: base}
	svg := string(writeSVG(t, now, n, view))
	frames, texts := parseSVG(t, []byte(svg))
	var titles []string
	for _, f := range frames {
		titles = append(titles, f.title[strings.LastIndexByte(f.title, '\n')+1:])
	}
	want := []string{
		"100ns (100.00%)",
		"in the base 200ns (100.00%): +0.00 points",
		"in the base 10ns (5.00%): +65.00 points",
		"in the base 80ns (40.00%): -30.00 points",
		"not in the base",
	}
	if !slices.Equal(titles, want) {
		t.Errorf("got titles %q", titles)
	}
	if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "Red: larger share") }) {
		t.Errorf("got texts %q", texts)
	}
	for _, class := range []string{"f same", "f more4", "f less4"} {
		if !strings.Contains(svg, `class="`+class+`"`) {
			t.Errorf("no frame has class %q", class)
		}
	}
	// A report does not differ from itself.
	svg = string(writeSVG(t, now, n, SVGView{Base: now, BaseNames: n}))
	if strings.Contains(svg, `class="f more`) || strings.Contains(svg, `class="f less`) {
		t.Error("got differences of a report from itself")
	}
	if svg := string(writeSVG(t, now, n, SVGView{})); strings.Contains(svg, "more4") {
		t.Error("got differences in a plain flame graph")
	}
}
