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

// A loop of calls takes its caller's time, too. If that time is about the same for each call, the loop is the reason,
// and else what the caller itself does.
func TestLoopTakesCallersTime(t *testing.T) {
	for _, repeats := range []bool{true, false} {
		p := newProgram(2)
		p.requests(6000, func(t *thread, i int) {
			t.call(work, 1000, func() {
				n, between := 1, uint64(100)
				if slowAt(i) {
					n, between = 100+i%700, 2000
					if !repeats {
						between = uint64(n) * uint64(n) / 50
					}
				}
				for range n {
					t.call(row, 300)
					t.self(between)
				}
			})
		})
		c := only(t, explain(t, p, options()))
		if want := map[bool]reader.FuncID{true: row, false: work}[repeats]; c.Func != want || (c.Kind == why.MoreCalls) != repeats {
			t.Errorf("repeats %v: got %+v", repeats, c)
		}
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

// Threads that wait for others are active when these are, but are not what these wait for. What waits for nobody of
// the program by its name, as poll does, can keep others waiting, although it loses time to a cause of its own.
func TestHolderIsNotAWaiter(t *testing.T) {
	const poll = reader.FuncID(55)
	for _, byName := range []bool{false, true} {
		p := newProgram(4)
		p.requests(4000, func(th *thread, _ int) {
			at := th.now % burst
			switch waits := th.now > burst && at < lasts; {
			case waits && th == p.threads[0]:
				th.call(rebuild, 500, func() {
					if byName {
						th.event(reader.Enter, poll)
						defer th.event(reader.Exit, poll)
					}
					th.switched(lasts-at, 0)
				})
			case waits:
				th.call(query, 500, func() {
					if byName {
						th.event(reader.Enter, condWait)
						defer th.event(reader.Exit, condWait)
					}
					th.switched(lasts-at+1500, 0)
				})
			}
			th.call(row, 2000)
		})
		o := known()
		if byName {
			o.Role = func(fn reader.FuncID) why.Role {
				return map[reader.FuncID]why.Role{poll: why.Waits, condWait: why.WaitsUnlocked}[fn]
			}
		}
		r := explain(t, p, o)
		if len(r.Causes) != 2 {
			t.Fatalf("by name %v: got %+v", byName, r.Causes)
		}
		for _, c := range r.Causes {
			switch h := c.Holder; {
			case c.Func == query && (h == nil || h.Self != rebuild || !h.Ends || h.Evidence != why.ByCoincidence):
				t.Errorf("by name %v: query waits for %+v", byName, h)
			case c.Func == rebuild && h != nil:
				t.Errorf("by name %v: rebuild waits for %+v", byName, h)
			}
		}
	}
}

// A function that is often open is the holder if all waits end soon after it, but not if it often ends at other times.
func TestHolderIsOftenOpen(t *testing.T) {
	const period, open = 200_000, 90_000
	for _, often := range []bool{false, true} {
		p := newProgram(4)
		p.requests(4000, func(th *thread, _ int) {
			at := th.now % period
			th.call(work, 1000, func() {
				if th.now/period%8 == 7 && at < 20_000 {
					th.switched(open+3000-at, 0)
				}
			})
		})
		end := p.threads[0].now
		worker := &thread{rng: rand.New(rand.NewPCG(5, 5))}
		for from := uint64(period); from < end; from += period {
			worker.now = from
			worker.event(reader.Enter, flush)
			worker.now += open
			worker.event(reader.Exit, flush)
			for often && worker.now+6000 < from+period {
				worker.event(reader.Enter, flush)
				worker.now += 5000
				worker.event(reader.Exit, flush)
			}
		}
		p.threads = append(p.threads, worker)
		c := only(t, explain(t, p, known()))
		if h := c.Holder; c.Func != work || (h == nil) != often || h != nil && (h.Self != flush || !h.Ends) {
			t.Errorf("often %v: %v waits for %+v", often, c.Func, h)
		}
	}
}
