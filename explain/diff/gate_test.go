package diff_test

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/diff"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
)

func TestGates(t *testing.T) {
	slower := func(r *recorder, scaled func(uint64) uint64) {
		r.call(2, scaled(1300))
		r.call(3, scaled(200), func() {
			for range 3 {
				r.call(4, scaled(500))
			}
		})
	}
	tests := []struct {
		root func(reader.FuncID) bool
		runs int
		gate string
		want diff.Verdict
	}{
		{isHandle, 5, "p99:+5%", diff.Fail},
		{isHandle, 5, "p99:+20%", diff.Pass},
		{isHandle, 5, "p99:+10%", diff.Inconclusive},
		{isHandle, 5, "p90:+5%", diff.Fail},
		{isHandle, 5, "p42:+5%", diff.Fail},
		{isHandle, 5, "total:+5%", diff.Fail},
		{isHandle, 5, "self:+5%", diff.Pass},
		{isHandle, 5, "self:parse:+20%", diff.Fail},
		{isHandle, 5, "self:parse:+40%", diff.Pass},
		{isHandle, 5, "self:query|row:+5%", diff.Pass},
		{isHandle, 5, "total:handle|parse:+5%", diff.Fail},
		{isHandle, 5, "total:handle|parse:+15%", diff.Pass}, // selects parse only inside handle
		{isHandle, 5, "calls:^row:+0%", diff.Pass},
		{nil, 5, "p50:^parse:+20%", diff.Fail},
		{nil, 5, "p50:row:+20%", diff.Pass},
		{nil, 5, "self:+5%", diff.Fail},
		{nil, 5, "calls:+1%", diff.Pass},
		{nil, 4, "self:parse:+5%", diff.Fail},
		{nil, 3, "self:parse:+5%", diff.Undecided},
		{isHandle, 2, "p99:+5%", diff.Undecided},
	}
	for _, test := range tests {
		c := comparison{root: test.root, gates: []string{test.gate}}
		r := c.compare(t, side(1, test.runs, before), side(2, test.runs, slower))
		if g := r.Gates[0]; g.Verdict != test.want {
			t.Errorf("%d runs, rooted %v: got %+v, want %s", test.runs, test.root != nil, g, test.want)
		}
	}
	// With 4 runs a side, one of 70 divisions is the most extreme. That is significant enough
	// for one gate but not for two.
	c := comparison{root: isHandle, gates: []string{"p99:+5%", "p50:+5%"}}
	r := c.compare(t, side(1, 4, before), side(2, 4, slower))
	for _, g := range r.Gates {
		if g.Verdict != diff.Undecided {
			t.Errorf("got %+v", g)
		}
	}
}

// A new function's growth is infinite.
func TestGateOfANewFunction(t *testing.T) {
	c := comparison{root: isHandle, gates: []string{"self:flush:+5%"}}
	r := c.compare(t, side(1, 5, before), side(2, 5, func(r *recorder, scaled func(uint64) uint64) { r.call(6, scaled(500)) }))
	if g := r.Gates[0]; g.Verdict != diff.Fail || !math.IsInf(g.Change, 1) || !math.IsInf(g.Low, 1) || g.P > 0.025 {
		t.Errorf("got %+v", g)
	}
	if text := written(t, r); !strings.Contains(text, "fail         +∞      +∞ to +∞  +5.0%  self:flush:+5%") {
		t.Error(text)
	}
}

func FuzzParseGate(f *testing.F) {
	for _, s := range []string{"p99:+5%", "self:parse.*:+3%", "total:a:b:-1.5%", "calls:x:0%", "p99.9:y:+1%", "p:1%", ":%", "self:(:1%"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	shape := regexp.MustCompile(`(?s)^(calls|self|total|p[^:]+):(.*:)?[^:]+%$`)
	f.Fuzz(func(t *testing.T, text string, rooted bool) {
		g, err := diff.ParseGate(text, rooted)
		if err == nil && (!shape.MatchString(text) || g.Text != text) {
			t.Errorf("%q was accepted as %+v", text, g)
		}
	})
}

// The report names significant changes even if the total varies too much for a verdict.
func TestSureBesideAnUnsureWhole(t *testing.T) {
	waits := []uint64{1_000, 90_000, 20_000, 70_000, 5_000}
	noisy := func(parse uint64, calls *int) func(r *recorder, scaled func(uint64) uint64) {
		return func(r *recorder, scaled func(uint64) uint64) {
			r.call(2, scaled(parse))
			r.call(5, waits[*calls/50%len(waits)])
			*calls++
		}
	}
	c := comparison{root: isHandle}
	r := c.compare(t, side(1, 5, noisy(1000, new(int))), side(2, 5, noisy(1500, new(int))))
	head := string(r.Body(diff.View{})[0].(report.Paragraph))
	if !strings.Contains(head, "but the difference is not significant") || !strings.Contains(head, " significant: parse() itself is slower") &&
		!strings.Contains(head, ", parse() itself is slower") {
		t.Error(head)
	}
}
