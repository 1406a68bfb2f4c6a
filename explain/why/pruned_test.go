package why_test

import (
	"testing"

	"github.com/xray-tools/xray/explain/why"
)

// In a trace without short calls, a short function is recorded mostly when its thread was stopped
// in it. The rest of its time is part of its callers'. So it is not a cause, although its recorded
// calls have hardly any usual time.
func TestKeptByStops(t *testing.T) {
	for _, nested := range []bool{false, true} {
		p := newProgram(4)
		p.requests(3000, func(t *thread, i int) {
			t.call(row, 6000)
			inner := func(ticks uint64) { t.call(work, 4000, func() { t.self(ticks) }) }
			switch {
			case slowAt(i) && i%180 != 60: // threads are stopped in other functions, too
				t.call(row, 6000, func() { t.self(200_000 + t.rng.Uint64N(400_000)) })
			case slowAt(i), t.rng.IntN(30) == 0:
				ticks := uint64(5000)
				if slowAt(i) {
					ticks = 200_000 + t.rng.Uint64N(400_000)
				}
				if nested { // its caller is recorded for the same reason
					t.call(query, 1000, func() { inner(ticks) })
				} else {
					inner(ticks)
				}
			default:
				t.self(9000)
			}
		})
		o := options()
		o.Pruned, o.PrunedKnown = 5000, true
		if r := explain(t, p, o); len(r.Causes) != 0 {
			t.Errorf("nested %v: %+v", nested, r.Causes[0])
		}
	}
}

// A function that is always recorded and slow at times is a cause, with and without short calls.
func TestSlowerAmongLongCalls(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(t *thread, i int) {
		t.call(row, 9000)
		t.call(work, 12_000, func() {
			if slowAt(i) {
				t.self(200_000)
			}
		})
	})
	o := options()
	o.Pruned, o.PrunedKnown = 5000, true
	if c := only(t, explain(t, p, o)); c.Func != work || c.Kind != why.Slower {
		t.Errorf("got %+v", c)
	}
}
