package why_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
)

// switched takes the thread off CPU: first blocked, then in the run queue.
func (t *thread) switched(blocked, queued uint64) {
	t.now += blocked + queued
	t.event(reader.Custom, 0)
	t.events[len(t.events)-1].Side = true
	sw := reader.Switch{OffNS: blocked + queued, QueuedNS: queued, Involuntary: 1}
	if blocked > 0 {
		sw.Voluntary, sw.Involuntary = 1, 0
	}
	t.payloads = append(t.payloads, reader.Payload{Event: len(t.events) - 1, Data: reader.AppendSwitch(nil, sw)})
}

// waitsForRecorder makes the thread wait for the recorder.
func (t *thread) waitsForRecorder(ticks uint64) {
	t.now += ticks
	t.event(reader.Custom, 0)
	t.events[len(t.events)-1].Side = true
	sw := reader.Switch{OffNS: ticks, RecorderNS: ticks, Voluntary: 1}
	t.payloads = append(t.payloads, reader.Payload{Event: len(t.events) - 1, Data: reader.AppendSwitch(nil, sw)})
}

// known are options for a trace with off-CPU times.
func known() why.Options {
	o := options()
	o.Calls.OffCPU = &reader.Clock{Frequency: 1_000_000_000}
	return o
}

// A function in which threads are often preempted is not a cause. Without off-CPU times it looks
// like one.
func TestPreemptedIsNotNamed(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(t *thread, i int) {
		t.call(row, 1000, func() {
			if slowAt(i) {
				t.switched(0, 300_000+t.rng.Uint64N(300_000))
			}
		})
		t.call(work, 2000)
	})
	if c := only(t, explain(t, p, options())); c.Func != row {
		t.Errorf("without off-CPU times: got %+v", c)
	}
	r := explain(t, p, known())
	if len(r.Causes) != 0 || len(r.Suspects) != 0 {
		t.Errorf("got %+v, %+v", r.Causes, r.Suspects)
	}
	if r.Preempted == nil || r.Preempted.Share < 0.99 || r.Preempted.Dominates != 120 {
		t.Errorf("%+v of %d", r.Preempted, r.Slow.Count)
	}
}

// Time that threads wait for the recorder is not a cause and does not hide one, even if it is
// always in the same function.
func TestRecorderIsNotNamed(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(t *thread, i int) {
		t.call(row, 1000, func() {
			if slowAt(i) {
				t.waitsForRecorder(300_000 + t.rng.Uint64N(300_000))
			}
		})
		t.call(work, 2000, func() {
			if i%150 == 60 {
				t.self(90_000)
			}
		})
	})
	r := explain(t, p, known())
	if c := only(t, r); c.Func != work || len(r.Suspects) != 0 {
		t.Errorf("got %+v, %+v", r.Causes, r.Suspects)
	}
	if p := r.Preempted; p == nil || p.Share > 0.01 || p.Dominates != 0 || p.Recorder < 0.8 || math.Abs(p.Recorder+r.Causes[0].Share+r.Rest-1) > 0.01 {
		t.Errorf("got %+v, rest %v", p, r.Rest)
	}
}

// Causes on CPU or by blocking are found even if preemption costs slow calls far more.
func TestCauseAmongPreempted(t *testing.T) {
	for _, blocked := range []bool{false, true} {
		p := newProgram(4)
		p.requests(3000, func(t *thread, i int) {
			for _, fn := range []reader.FuncID{row, work, sort} {
				t.call(fn, 1000, func() {
					if t.rng.IntN(60) == 0 {
						t.switched(0, 1_000_000+t.rng.Uint64N(3_000_000))
					}
					switch {
					case fn != work || i%150 != 60:
					case blocked:
						t.switched(90_000, 2000)
					default:
						t.self(90_000)
					}
				})
			}
		})
		c := only(t, explain(t, p, known()))
		if c.Func != work || c.Kind.String() != "slower" || (c.Blocked > 0.9) != blocked || c.ByChance == blocked {
			t.Errorf("blocked %v: got %+v", blocked, c)
		}
		self := c.Paths[0].Affected.Ticks
		if self < 89_000 || self > 120_000 {
			t.Errorf("blocked %v: got %v ticks in affected calls", blocked, self)
		}
	}
}

// Off-CPU time shows that a function waits although its name does not say so, and timing alone
// shows for what.
func TestBlockedForHolder(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(t *thread, _ int) {
		t.call(row, 2000)
		t.call(query, 500, func() {
			t.call(work, 1000, func() {
				if at := t.now % burst; t.now > burst && at < lasts {
					t.switched(lasts-at, 0)
				}
			})
		})
	})
	p.bursts(flush)
	c := only(t, explain(t, p, known()))
	if h := c.Holder; c.Func != work || c.Kind != why.Wait || h == nil || h.Self != flush || c.Blocked < 0.9 {
		t.Errorf("got %+v, %+v", c, h)
	}
}

// A thread that takes the CPU until another one's call ends spins. Otherwise, CPU time is not waiting, whatever
// other threads do at the time.
func TestComputing(t *testing.T) {
	for spins, slow := range map[bool]func(*thread){
		true: (*thread).outlast,
		false: func(t *thread) {
			if at := t.now % burst; t.now > burst && at < lasts {
				t.self(10_000 + t.rng.Uint64N(lasts))
			}
		},
	} {
		p := newProgram(4)
		p.requests(3000, func(t *thread, _ int) { t.call(row, 2000); t.call(work, 1000, func() { slow(t) }) })
		p.bursts(flush)
		c := only(t, explain(t, p, known()))
		if c.Func != work || c.Spins != spins || (c.Kind == why.Wait) != spins || (c.Holder != nil) != spins || spins && c.Holder.Self != flush {
			t.Errorf("spins %v: got %+v, %+v", spins, c, c.Holder)
		}
	}
}

// Calls that are blocked at the same time and end together wait behind the first of them. They do not if each is
// blocked for a time of its own, or always for the same time.
func TestQueue(t *testing.T) {
	at := func(t *thread) uint64 { return t.now % burst }
	for name, ends := range map[string]func(*thread) uint64{
		"queue": func(t *thread) uint64 { return 30_000 + at(t)/100 + t.now/burst*7919%60_000 },
		"apart": func(t *thread) uint64 { return at(t) + 20_000 + t.rng.Uint64N(60_000) },
		"equal": func(t *thread) uint64 { return at(t) + 40_000 },
	} {
		p := newProgram(4)
		p.requests(3000, func(t *thread, _ int) {
			t.call(work, 1000, func() {
				if at := at(t); t.now > burst && at < lasts/3 {
					t.switched(max(at, ends(t))-at, 0)
				}
			})
		})
		if c := only(t, explain(t, p, known())); c.Func != work || (c.Queue != nil) != (name == "queue") || c.Queue != nil && c.Queue.Behind < 2*c.Queue.First {
			t.Errorf("%s: got %+v, %+v", name, c, c.Queue)
		}
	}
}

// If the recorder kept a call only because it was preempted, the call does not count as an extra
// one, and its time belongs to its caller.
func TestKeptByPreemption(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 20_000, func() {
			if t.rng.IntN(40) == 0 {
				t.call(row, 100, func() { t.switched(0, 500_000) })
			}
			if slowAt(i) {
				t.call(sort, 90_000)
			} else {
				t.call(sort, 9000)
			}
		})
	})
	o := known()
	o.Pruned = 5000
	r := explain(t, p, o)
	if c := only(t, r); c.Func != sort || c.Kind != why.Slower {
		t.Errorf("got %+v", c)
	}
	for _, d := range r.Decomposition {
		if d.Path[len(d.Path)-1] == row {
			t.Errorf("row has its own part: %+v", d)
		}
	}
}

// A difference within the usual variation is at most a suspect.
func TestVariationIsNotNamed(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(t *thread, i int) {
		n := uint64(1000)
		if slowAt(i) {
			n = 14_000
		}
		t.call(row, 8000+t.rng.Uint64N(20_000))
		t.call(work, n)
	})
	r := explain(t, p, known())
	if len(r.Causes) != 0 {
		t.Errorf("got %+v", r.Causes)
	}
}

// Parts of the decomposition add up with off-CPU time, too.
func TestPartsSumOffCPU(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newProgram(rapid.IntRange(1, 3).Draw(rt, "threads"))
		funcs := []reader.FuncID{query, row, work, sort, lock, unlock}
		p.requests(rapid.IntRange(20, 300).Draw(rt, "requests"), func(t *thread, _ int) {
			for range 1 + t.rng.IntN(4) {
				t.callArg(funcs[t.rng.IntN(len(funcs))], t.rng.Uint64N(3), 1+t.rng.Uint64N(300), func() {
					if t.rng.IntN(3) == 0 {
						t.call(funcs[t.rng.IntN(len(funcs))], 100, func() { t.switched(t.rng.Uint64N(2000), t.rng.Uint64N(2000)) })
					}
					if t.rng.IntN(5) == 0 {
						t.switched(t.rng.Uint64N(2)*t.rng.Uint64N(9000), t.rng.Uint64N(9000))
					}
				})
			}
		})
		o := known()
		o.Slow = why.Rule{Quantile: rapid.SampledFrom([]float64{0.8, 0.95, 0.99}).Draw(rt, "slow")}
		if rapid.Bool().Draw(rt, "top") {
			o.Slow = why.Rule{Top: uint64(rapid.IntRange(1, 20).Draw(rt, "top"))}
		}
		o.Pruned = rapid.SampledFrom([]uint64{0, 200}).Draw(rt, "pruned")
		r := explain(t, p, o)
		if r.Usual.Count == 0 || r.Kept == 0 {
			return
		}
		all, preempted, blocked := 0.0, 0.0, 0.0
		for _, d := range r.Decomposition {
			all += d.Slower + d.More + d.New + d.Blocked + d.Preempted
			preempted += d.Preempted
			blocked += d.Blocked
		}
		want := r.Slow.Mean - r.Usual.Mean
		if math.Abs(all-want) > 1e-6 || math.Abs(r.Excess-want) > 1e-6 {
			rt.Fatalf("got a sum of parts %v and excess %v, want the difference of means %v", all, r.Excess, want)
		}
		if queued := r.Preempted.Slow - r.Preempted.Usual; math.Abs(preempted-queued) > 1e-6*(1+math.Abs(r.Excess)) {
			rt.Fatalf("got %v of %v preempted, but paths sum to %v", queued, r.Excess, preempted)
		}
		checkShares(rt, r)
	})
}

// A few calls are enough evidence if they lose far more time than anything else and scheduling
// cannot be the reason.
func TestMagnitudeCounts(t *testing.T) {
	explained := func(elsewhere uint64) *why.Report {
		p := newProgram(2)
		p.requests(300, func(t *thread, i int) {
			late := i == 60 || i == 250
			for _, fn := range []reader.FuncID{row, query, work, sort, flush} {
				t.call(fn, 1500, func() {
					switch {
					case late && fn == work:
						t.self(900_000)
					case fn == row && i%97 == 5:
						t.self(elsewhere)
					}
				})
			}
		})
		return explain(t, p, known())
	}
	if c := only(t, explained(10_000)); c.Func != work || c.Dominates != 4 || c.Chance < 1e-4 {
		t.Errorf("got %+v", c)
	}
	r := explained(600_000)
	if len(r.Causes) != 0 {
		t.Errorf("got %+v", r.Causes)
	}
}

// fewLate is a program with few slow calls. Most of them were in the run queue for some ticks, and
// one of each thread computed for a millisecond in one function.
func fewLate(threads int, queued uint64) *program {
	p := newProgram(threads)
	p.requests(200, func(t *thread, i int) {
		for fn := range reader.FuncID(16) {
			fn += work
			t.call(fn, 1000, func() {
				switch {
				case fn == work && i == 20:
					t.now += 1_000_000 + t.rng.Uint64N(500_000)
				case fn == work+5 && i%97 == 5:
					t.switched(0, queued)
					t.self(20_000)
				}
			})
		}
	})
	return p
}

// Three calls are enough even if the interval of their share begins at 0, because there are few
// slow calls.
func TestThreeCallsAmongPreempted(t *testing.T) {
	r := explain(t, fewLate(3, 8_000_000), known())
	if c := only(t, r); c.Func != work || c.Dominates != 3 || c.Low > 0.02 || c.Share > 1./3 {
		t.Errorf("got %+v", c)
	}
}

// Much of the time that was not lost in the run queue makes a suspect, even if most time was lost
// there.
func TestSuspectAmongPreempted(t *testing.T) {
	r := explain(t, fewLate(2, 8_000_000), known())
	if len(r.Causes) != 0 || len(r.Suspects) != 1 || r.Suspects[0].Func != work || r.Suspects[0].Share > 1./3 || r.Suspects[0].Share < 0.05 {
		t.Errorf("got %+v, %+v", r.Causes, r.Suspects)
	}
}

// The headline omits causes of 0 % of the lost time.
func TestSmallCauseAmongPreempted(t *testing.T) {
	r := explain(t, fewLate(3, 400_000_000), known())
	only(t, r)
	text := written(r, names, why.View{}, report.Text)
	_, text, _ = strings.Cut(text, "\n")
	first, rest, _ := strings.Cut(text, ".")
	if !strings.HasPrefix(first, "CAUSE (100% of the lost time): it is preempted") || strings.Contains(rest, " 0%  ") || !strings.Contains(rest, "work() itself is slower") {
		t.Errorf("got %s", text)
	}
}

// faults blocks the thread until a page is there.
func (t *thread) faults(ticks uint64, major uint32) {
	t.now += ticks
	t.event(reader.Custom, 0)
	t.events[len(t.events)-1].Side = true
	sw := reader.Switch{OffNS: ticks, Voluntary: 1, MajorFaults: major, MinorFaults: 3}
	t.payloads = append(t.payloads, reader.Payload{Event: len(t.events) - 1, Data: reader.AppendSwitch(nil, sw)})
}

// Page faults are the reason of blocked time if most of it has major faults: in usual paths and in new ones.
func TestPageFaults(t *testing.T) {
	for _, test := range []struct {
		name     string
		usually  bool // usual calls call the function, too
		faulting int  // of 10 waits
		want     string
	}{
		{"all", true, 10, "it is blocked by page faults in work()"},
		{"most", true, 8, "it is blocked by page faults in work()"},
		{"few", true, 2, "it is blocked longer in work()"},
		{"new path", false, 10, "it takes the path work(), blocked by page faults for 9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProgram(4)
			p.requests(3000, func(t *thread, i int) {
				t.call(row, 1000)
				if !test.usually && !slowAt(i) {
					return
				}
				t.call(work, 2000, func() {
					if !slowAt(i) {
						return
					}
					for n := range 10 {
						major := uint32(0)
						if n < test.faulting {
							major = 1
						}
						t.faults(30_000+t.rng.Uint64N(3000), major)
					}
				})
			})
			r := explain(t, p, known())
			c := only(t, r)
			if want := float64(test.faulting) / 10; c.Func != work || math.Abs(c.Faulted-want) > 0.05 {
				t.Errorf("got %+v", c)
			}
			if text := written(r, names, why.View{}, report.Text); !strings.Contains(strings.Join(strings.Fields(text), " "), test.want) {
				t.Errorf("no %q in\n%s", test.want, text)
			}
		})
	}
}
