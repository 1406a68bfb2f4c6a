package why_test

import (
	"math/rand/v2"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
)

const (
	burst = 1_000_000 // from the start of one burst to the next
	lasts = 60_000
)

// bursts adds a thread that works in bursts, in nested functions.
func (p *program) bursts(funcs ...reader.FuncID) {
	end := p.threads[0].now
	t := &thread{rng: rand.New(rand.NewPCG(5, 5))}
	for t.now = burst; t.now < end; t.now += burst - lasts {
		for _, fn := range funcs {
			t.event(reader.Enter, fn)
		}
		t.now += lasts
		for i := range funcs {
			t.event(reader.Exit, funcs[len(funcs)-1-i])
		}
	}
	p.threads = append(p.threads, t)
}

// outlast makes a thread wait until a burst is over.
func (t *thread) outlast() {
	if at := t.now % burst; t.now > burst && at < lasts {
		t.now += lasts - at
	}
}

// Functions on the waiter's own path are open at any time, so they are not holders.
func TestHolderIsNotOnThePath(t *testing.T) {
	for _, funcs := range [][]reader.FuncID{{query}, {flush, query}} {
		p := newProgram(4)
		p.requests(4000, func(t *thread, _ int) {
			t.call(row, 2000)
			t.call(query, 500, func() { t.call(work, 1000, t.outlast) })
			t.call(sort, 2000)
		})
		p.bursts(funcs...)
		c := only(t, explain(t, p, options()))
		switch h := c.Holder; {
		case c.Func != work:
			t.Errorf("got %+v", c)
		case len(funcs) == 1 && (h != nil || c.Kind != why.Slower):
			t.Errorf("got %v, holder %+v", c.Kind, h)
		case len(funcs) == 2 && (h == nil || h.Self != flush || h.Scope != flush || !h.Ends):
			t.Errorf("got %v, holder %+v", c.Kind, h)
		}
	}
}

// A thread that waits for the same thing in another function is not the holder.
func TestHolderDoesNotWait(t *testing.T) {
	p := newProgram(4)
	p.requests(4000, func(th *thread, _ int) {
		for range 6 {
			th.call(row, 2000)
		}
		if th != p.threads[0] {
			th.call(query, 500, func() { th.call(work, 1000, th.outlast) })
		} else {
			th.call(rebuild, 500, func() { th.call(sort, 1000, th.outlast) })
		}
	})
	p.bursts(flush)
	r := explain(t, p, options())
	if len(r.Causes) != 2 {
		t.Fatalf("got %+v", r.Causes)
	}
	for _, c := range r.Causes {
		if h := c.Holder; h == nil || h.Self != flush || c.Func != work && c.Func != sort {
			t.Errorf("unexpected holder for %v: %+v", c.Func, h)
		}
	}
}

// On a busy machine, threads are stopped in most of many calls. The scheduler did not cause the
// extra calls.
func TestMoreCallsAreSlower(t *testing.T) {
	p := newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		n, each := 1, uint64(10_000)
		if slowAt(i) {
			n, each = 40, 150_000
		}
		for range n {
			t.call(row, each)
		}
	})
	if c := only(t, explain(t, p, options())); c.Func != row || c.Kind != why.MoreCalls || c.Share < 0.9 {
		t.Errorf("got %+v", c)
	}
	// If a few extra calls take far longer, the cause is slowness, not the number of calls.
	p = newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		t.call(work, 10_000)
		n, each := 2, uint64(1000)
		if slowAt(i) {
			n, each = 4, 6000
		}
		for range n {
			t.call(row, each)
		}
	})
	if c := only(t, explain(t, p, options())); c.Func != row || c.Kind != why.Slower {
		t.Errorf("got %+v", c)
	}
}

// If all calls are long but none were dropped, the number of calls counts as a cause.
func TestNotPruned(t *testing.T) {
	for _, test := range []struct {
		shortest uint64
		known    bool
	}{{1250, false}, {5500, false}, {5000, true}} {
		p := newProgram(2)
		for _, t := range p.threads {
			for i := range 3000 {
				t.call(handle, 10_000, func() {
					n := 1
					if slowAt(i) {
						n = 60
					}
					t.call(query, 20_000, func() {
						for range n {
							t.call(row, test.shortest)
						}
					})
				})
			}
		}
		o := options()
		o.PrunedKnown = test.known
		r := explain(t, p, o)
		if c := only(t, r); c.Func != row || c.Kind != why.MoreCalls {
			t.Errorf("%v: got %+v", test, c)
		}
		if test.known != (len(r.Warnings) == 0) {
			t.Errorf("%v: wrong warnings: %q", test, r.Warnings)
		}
	}
}

// It is not a cause if slow calls make as many calls as the largest usual ones.
func TestCallsVary(t *testing.T) {
	p := newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		n := 2 + t.rng.IntN(4)
		late := t.rng.IntN(200) == 0
		at := t.rng.IntN(n)
		for k := range n {
			t.call(row, 3000, func() {
				if late && k == at {
					t.now += 50_000 + t.rng.Uint64N(50_000)
				}
			})
		}
	})
	for _, c := range explain(t, p, options()).Causes {
		if c.Kind == why.MoreCalls {
			t.Errorf("got %+v", c)
		}
	}
}

// Calls of nearly equal duration are usual ones, even though quantiles are rounded.
func TestAlike(t *testing.T) {
	p := newProgram(2)
	for _, t := range p.threads {
		for i := range 3000 {
			t.call(handle, 0, func() {
				t.call(row, 100)
				t.now += 3_000_000 + t.rng.Uint64N(5000)
				if slowAt(i) {
					t.call(work, 3_000_000)
				}
			})
		}
	}
	r := explain(t, p, options())
	if c := only(t, r); c.Func != work || r.Usual.Count < 1000 {
		t.Errorf("got %+v, %d usual calls", c, r.Usual.Count)
	}
}
