package why_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/sched"
)

// Tasks of the scheduler's events: the program's first two threads, and another program.
const (
	firstTask uint32 = iota + 1
	secondTask
	hogTask
	thirdTask
)

// scheduled are options with scheduler events.
func scheduled(events []reader.SchedEvent) why.Options {
	r := &reader.Recording{Process: reader.Process{PID: 7}, Threads: []reader.ThreadInfo{{PID: 7, TID: 100}, {PID: 7, TID: 101}, {PID: 7, TID: 102}}}
	r.Sched.Tasks = []reader.Task{{PID: 7, TID: 100, Name: "server"}, {PID: 7, TID: 101, Name: "flusher"}, {PID: 30, TID: 31, Name: "compile"}, {PID: 7, TID: 102, Name: "query"}}
	r.Sched.Parts = []reader.SchedPart{{From: 1, To: 1 << 50, Events: events}}
	o := known()
	o.Sched = []*sched.Log{sched.New(r)}
	return o
}

// away returns the events of an off-CPU time. woken is 0 if the thread was preempted.
func away(out, woken, in uint64, by uint32, flags reader.SchedFlags) []reader.SchedEvent {
	state := byte('R')
	if woken != 0 {
		state = 'S'
	}
	list := []reader.SchedEvent{{TSC: out, Task: firstTask, Other: hogTask, Kind: reader.Switched, State: state}}
	if woken != 0 {
		list = append(list, reader.SchedEvent{TSC: woken, Task: by, Other: firstTask, Kind: reader.Waking, Flags: flags})
	}
	return append(list, reader.SchedEvent{TSC: in, Task: hogTask, Other: firstTask, Kind: reader.Switched, State: 'R'})
}

// A blocked thread waits for what its waker had open, except functions that release locks, even
// if that was open for only a small part of the time. Nobody waits for interrupts or other
// programs.
func TestWaitsForWaker(t *testing.T) {
	for _, c := range []struct {
		name  string
		by    uint32
		flags reader.SchedFlags
		want  bool
	}{
		{"a thread", secondTask, 0, true},
		{"an interrupt", secondTask, reader.WokenByInterrupt, false},
		{"another program", hogTask, 0, false},
	} {
		p := newProgram(2)
		var events []reader.SchedEvent
		var wakes []uint64
		first, second := &program{p.threads[:1]}, p.threads[1]
		first.requests(6000, func(t *thread, i int) {
			t.call(row, 1000)
			t.call(work, 2000, func() {
				if i%150 == 60 {
					out := t.now
					t.switched(90_000, 1000)
					wakes = append(wakes, t.now-1000)
					events = append(events, away(out, t.now-1000, t.now, c.by, c.flags)...)
				}
			})
		})
		for i, at := range wakes {
			second.now = at - 1000
			second.call(flush, 1500, func() {
				second.now = at - 100
				second.call(unlock, 100, func() { second.now = at + 50 })
			})
			for second.now += 2000; i+1 < len(wakes) && second.now+20_000 < wakes[i+1]; {
				second.call(sort, 5000)
			}
		}
		cause := only(t, explain(t, p, scheduled(events)))
		if cause.Func != work || cause.Blocked < 0.9 {
			t.Errorf("%s: %+v", c.name, cause)
		}
		h := cause.Holder
		if got := h != nil && h.Evidence == why.ByWaking; got != c.want {
			t.Errorf("%s: waits for %+v", c.name, h)
		}
		if c.want && (h.Self != flush || h.Covered < 0.95 || cause.Kind != why.Wait) {
			t.Errorf("%s: kind %v, %+v", c.name, cause.Kind, h)
		}
	}
}

// A thread that was itself blocked until shortly before it woke the waiting thread is not what that waited for. The
// one that woke it is: it was blocked in a function for most of the time, which nobody of the program ended.
func TestWaitsBehindChain(t *testing.T) {
	p := newProgram(3)
	var events []reader.SchedEvent
	var ends []uint64
	first, second, third := &program{p.threads[:1]}, p.threads[1], p.threads[2]
	first.requests(6000, func(t *thread, i int) {
		t.call(row, 1000)
		t.call(work, 2000, func() {
			if i%150 == 60 {
				out := t.now
				t.switched(90_000, 1000)
				woken := t.now - 1000
				ends = append(ends, woken)
				// The second thread waits nearly as long, and the third wakes it.
				events = append(events,
					reader.SchedEvent{TSC: out + 500, Task: secondTask, Other: hogTask, Kind: reader.Switched, State: 'S'},
					reader.SchedEvent{TSC: out + 600, Task: thirdTask, Other: hogTask, Kind: reader.Switched, State: 'S'},
					reader.SchedEvent{TSC: woken - 5200, Task: hogTask, Other: thirdTask, Kind: reader.Waking, Flags: reader.WokenByInterrupt},
					reader.SchedEvent{TSC: woken - 5100, Task: hogTask, Other: thirdTask, Kind: reader.Switched, State: 'R'},
					reader.SchedEvent{TSC: woken - 5000, Task: thirdTask, Other: secondTask, Kind: reader.Waking},
					reader.SchedEvent{TSC: woken - 4900, Task: hogTask, Other: secondTask, Kind: reader.Switched, State: 'R'},
				)
				events = append(events, away(out, woken, t.now, secondTask, 0)...)
			}
		})
	})
	slices.SortStableFunc(events, func(a, b reader.SchedEvent) int { return cmp.Compare(a.TSC, b.TSC) })
	for i, end := range ends {
		second.now, third.now = end-95_000, end-95_000
		second.event(reader.Enter, query)
		third.event(reader.Enter, rebuild)
		third.event(reader.Enter, flush)
		third.now = end - 5000
		third.event(reader.Exit, flush)
		third.now = end - 4000
		third.event(reader.Exit, rebuild)
		second.now = end + 50
		second.event(reader.Exit, query)
		for second.now += 2000; i+1 < len(ends) && second.now+120_000 < ends[i+1]; {
			second.call(sort, 5000)
		}
	}
	cause := only(t, explain(t, p, scheduled(events)))
	h := cause.Holder
	if h == nil || h.Evidence != why.ByWaking || h.Self != flush || h.Scope != rebuild || h.Covered < 0.95 || h.Blocked < 0.9 || h.Queued > 0.1 {
		t.Errorf("%v waits for %+v", cause.Func, h)
	}
}

// The thread that is waited for may be in the function in which the others wait, as one that is blocked in a write
// while it holds the lock that they take there.
func TestWaitsForSameFunction(t *testing.T) {
	p := newProgram(2)
	var events []reader.SchedEvent
	var wakes []uint64
	first, second := &program{p.threads[:1]}, p.threads[1]
	first.requests(6000, func(t *thread, i int) {
		t.call(work, 2000, func() {
			if i%150 == 60 {
				out := t.now
				t.switched(90_000, 1000)
				wakes = append(wakes, t.now-1000)
				events = append(events, away(out, t.now-1000, t.now, secondTask, 0)...)
			}
		})
	})
	for _, at := range wakes {
		second.now = at - 100_000
		second.event(reader.Enter, query)
		second.now += 1000
		second.event(reader.Enter, work)
		second.now = at
		second.event(reader.Exit, work)
		second.now += 1000
		second.event(reader.Exit, query)
	}
	r := explain(t, p, scheduled(events))
	cause := only(t, r)
	if h := cause.Holder; cause.Func != work || h == nil || h.Self != work || h.Scope != work || h.Evidence != why.ByWaking {
		t.Errorf("%v waits for %+v", cause.Func, h)
	}
	if said := strings.Join(strings.Fields(written(r, names, why.View{}, report.Text)), " "); !strings.Contains(said, "for another thread in work()") {
		t.Errorf("the report says %q", said)
	}
}

// A wait is no cause if the thread that is waited for waits for a CPU nearly all that time, but one if it computes.
func TestWaitsForPreempted(t *testing.T) {
	for _, preempted := range []bool{true, false} {
		p := newProgram(2)
		var events []reader.SchedEvent
		var wakes []uint64
		first, second := &program{p.threads[:1]}, p.threads[1]
		first.requests(6000, func(t *thread, i int) {
			t.call(work, 2000, func() {
				if i%150 == 60 {
					out := t.now
					t.switched(90_000, 1000)
					wakes = append(wakes, t.now-1000)
					if preempted {
						events = append(events, reader.SchedEvent{TSC: out + 100, Task: secondTask, Other: hogTask, Kind: reader.Switched, State: 'R'},
							reader.SchedEvent{TSC: t.now - 1200, Task: hogTask, Other: secondTask, Kind: reader.Switched, State: 'R'})
					}
					events = append(events, away(out, t.now-1000, t.now, secondTask, 0)...)
				}
			})
		})
		slices.SortStableFunc(events, func(a, b reader.SchedEvent) int { return cmp.Compare(a.TSC, b.TSC) })
		for _, at := range wakes {
			second.now = at - 95_000
			second.event(reader.Enter, flush)
			second.now = at + 50
			second.event(reader.Exit, flush)
		}
		r := explain(t, p, scheduled(events))
		if !preempted {
			if c := only(t, r); c.Holder == nil || c.Holder.Self != flush || len(r.Suspects) != 0 {
				t.Errorf("got %+v, %+v", c.Holder, r.Suspects)
			}
			continue
		}
		if len(r.Causes) != 0 || len(r.Suspects) != 1 || r.Suspects[0].Doubt != why.Behind || r.Suspects[0].Share < 0.9 {
			t.Errorf("got %+v, %+v", r.Causes, r.Suspects)
		}
		if said := strings.Join(strings.Fields(written(r, names, why.View{}, report.Text)), " "); !strings.Contains(said, "it waits in work(), probably for a thread that is preempted") {
			t.Errorf("the report says %q", said)
		}
	}
}

// Without scheduler events, a wait is no cause if a thread waits for a CPU meanwhile, and hardly ever at other times.
func TestWaitsWhilePreempted(t *testing.T) {
	for _, preempted := range []bool{true, false} {
		p := newProgram(2)
		first, second := &program{p.threads[:1]}, p.threads[1]
		first.requests(6000, func(t *thread, i int) {
			t.call(work, 2000, func() {
				if i%150 == 60 {
					t.switched(90_000, 0)
					second.now = t.now - 89_000
					if preempted {
						second.switched(0, 88_000)
					} else {
						second.switched(88_000, 0)
					}
				}
			})
		})
		r := explain(t, p, known())
		if !preempted {
			if c := only(t, r); c.Func != work || len(r.Suspects) != 0 {
				t.Errorf("got %+v, %+v", c, r.Suspects)
			}
		} else if len(r.Causes) != 0 || len(r.Suspects) != 1 || r.Suspects[0].Doubt != why.Behind || r.Suspects[0].Func != work {
			t.Errorf("got %+v, %+v", r.Causes, r.Suspects)
		}
	}
}

// Without scheduler events, a wait for a thread that the trace does not show is no cause if other slow calls are preempted
// about as often as calls wait, and for about as long: the thread may be, too.
func TestWaitsAsIfPreempted(t *testing.T) {
	for _, preempted := range []int{0, 1, 8} { // for each 8 waits
		p := newProgram(2)
		number := 0
		p.requests(6000, func(t *thread, i int) {
			t.call(row, 1000, func() {
				if i%150 == 10 && number%8 < preempted {
					t.switched(0, 60_000+t.rng.Uint64N(60_000))
				}
			})
			t.call(work, 2000, func() {
				if i%150 == 60 {
					number++
					t.switched(60_000+t.rng.Uint64N(60_000), 0)
				}
			})
		})
		r := explain(t, p, known())
		if preempted < 8 {
			if c := only(t, r); c.Func != work || len(r.Suspects) != 0 {
				t.Errorf("%d of 8: got %+v, %+v", preempted, c, r.Suspects)
			}
		} else if len(r.Causes) != 0 || len(r.Suspects) != 1 || r.Suspects[0].Doubt != why.Unheld || r.Suspects[0].Func != work {
			t.Errorf("%d of 8: got %+v, %+v", preempted, r.Causes, r.Suspects)
		}
	}
}

// The report names what ran while slow calls were preempted.
func TestRanInstead(t *testing.T) {
	p := newProgram(1)
	var events []reader.SchedEvent
	p.requests(6000, func(t *thread, i int) {
		t.call(work, 2000, func() {
			if i%150 == 60 {
				out := t.now
				t.switched(0, 90_000)
				events = append(events, away(out, 0, t.now, 0, 0)...)
			}
		})
	})
	r := explain(t, p, scheduled(events))
	if len(r.Causes) != 0 || r.Preempted == nil || len(r.Preempted.Instead) != 1 {
		t.Fatalf("%+v, %+v", r.Causes, r.Preempted)
	}
	if i := r.Preempted.Instead[0]; i.Task != (reader.Task{PID: 30, TID: 31, Name: "compile"}) || i.Share != 1 {
		t.Errorf("%+v", i)
	}
	if said := strings.Join(strings.Fields(written(r, names, why.View{}, report.Text)), " "); !strings.Contains(said, "it is preempted, mostly behind compile (pid 30)") {
		t.Errorf("the report says %q", said)
	}
}

// Time in which interrupts ran is no function's, although it is always in the same one, and the
// interrupts are named. Without the events, the function looks slower.
func TestInterruptsAreNotNamed(t *testing.T) {
	p := newProgram(1)
	var events []reader.SchedEvent
	var stretches []calls.Stretch
	const network, timer = 4, 5
	interrupt := func(t *thread, ticks uint64, what uint32) {
		from := t.now
		t.self(ticks)
		events = append(events, reader.SchedEvent{TSC: from, Task: firstTask, Other: what, Kind: reader.Interrupted},
			reader.SchedEvent{TSC: t.now, Task: firstTask, Other: what, Kind: reader.Resumed})
		stretches = append(stretches, calls.Stretch{From: from, To: t.now})
	}
	p.requests(3000, func(t *thread, i int) {
		t.call(row, 1000, func() {
			interrupt(t, 100, timer)
			if slowAt(i) {
				interrupt(t, 300_000+t.rng.Uint64N(300_000), network)
			}
		})
		t.call(work, 2000, func() {
			if i%150 == 60 {
				t.self(90_000)
			}
		})
	})
	if c := explain(t, p, known()).Causes; len(c) == 0 || c[0].Func != row {
		t.Errorf("without interrupts: got %+v", c)
	}
	o := known()
	r := &reader.Recording{Process: reader.Process{PID: 7}, Threads: []reader.ThreadInfo{{PID: 7, TID: 100}}}
	r.Sched.Tasks = []reader.Task{{PID: 7, TID: 100}, {}, {}, {TID: reader.InterruptTID(reader.SoftIRQ, 3), Name: "NET_RX"}, {TID: reader.InterruptTID(reader.SystemInterrupt, 236), Name: "local_timer"}}
	r.Sched.Parts = []reader.SchedPart{{From: 1, To: 1 << 50, Events: events}}
	o.Sched = []*sched.Log{sched.New(r)}
	o.Calls.Interrupts = func(reader.Thread) []calls.Stretch { return stretches }
	found := explain(t, p, o)
	if c := only(t, found); c.Func != work || len(found.Suspects) != 0 {
		t.Errorf("got %+v, %+v", found.Causes, found.Suspects)
	}
	in := found.Interrupted
	if in == nil || in.Share < 0.8 || in.Dominates < 20 || in.Usual < 100 || in.Usual > 2000 || math.Abs(in.Share+found.Preempted.Share+found.Causes[0].Share+found.Rest-1) > 0.01 {
		t.Errorf("got %+v, preempted %+v, rest %v", in, found.Preempted, found.Rest)
	}
	text := written(found, names, why.View{}, report.Text)
	if want := "it is interrupted, mostly by softirq NET_RX"; !strings.Contains(strings.ReplaceAll(text, "\n", " "), want) {
		t.Errorf("no %q in:\n%s", want, text)
	}
}

// With few slow calls, what other threads did at the same time proves nothing.
func TestFewCoincidences(t *testing.T) {
	p := newProgram(2)
	first, second := &program{p.threads[:1]}, p.threads[1]
	planted := 0
	first.requests(600, func(t *thread, i int) {
		t.call(row, 1000)
		t.call(work, 2000, func() {
			if i%100 == 60 {
				planted++
				t.switched(90_000, 0)
				// In half of these times, the other thread is in a function, as in a tenth of all
				// times.
				if planted%2 == 0 {
					second.now = t.now - 88_000
					second.call(flush, 80_000)
				}
			}
			if i%100 == 10 {
				second.now = t.now
				second.call(flush, 60_000)
			}
		})
	})
	for seed := range uint64(10) {
		o := known()
		o.Seed = seed
		if c := only(t, explain(t, p, o)); c.Func != work || c.Holder != nil {
			t.Errorf("seed %d: got %+v, holder %+v", seed, c, c.Holder)
		}
	}
}
