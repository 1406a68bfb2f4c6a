package why_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// Functions in the programs below.
const (
	main reader.FuncID = iota + 1
	handle
	parse
	query
	row
	rebuild
	sort
	lock
	unlock
	flush
	work
)

var names = testnames.Names{main: "main", handle: "handle(int)", parse: "parse()", query: "query()", row: "row()",
	rebuild: "rebuild()", sort: "sort()", lock: "Mutex::lock()", unlock: "Mutex::unlock()", flush: "flush()", work: "work()"}

// program is a generated trace. It implements calls.Source.
type program struct{ threads []*thread }

type thread struct {
	now      uint64
	events   []reader.Event
	args     []reader.Arg
	payloads []reader.Payload
	rng      *rand.Rand
}

func newProgram(threads int) *program {
	p := &program{}
	for i := range threads {
		p.threads = append(p.threads, &thread{now: 1000, rng: rand.New(rand.NewPCG(1, uint64(i)))})
	}
	return p
}

// Each implements calls.Source.
func (p *program) Each(n int, fn func(int, *reader.Block) error) error {
	for i, t := range p.threads {
		args, payloads := t.args, t.payloads
		for from := 0; from < len(t.events); from += 100 {
			b := reader.Block{Thread: reader.Thread{Process: 7, Thread: int32(100 + i)}, Index: i}
			b.Events = t.events[from:min(from+100, len(t.events))]
			for len(args) > 0 && args[0].Event < from+100 {
				b.Args = append(b.Args, reader.Arg{Event: args[0].Event - from, Value: args[0].Value})
				args = args[1:]
			}
			for len(payloads) > 0 && payloads[0].Event < from+100 {
				b.Payloads = append(b.Payloads, reader.Payload{Event: payloads[0].Event - from, Data: payloads[0].Data})
				payloads = payloads[1:]
			}
			if err := fn(i%n, &b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *thread) event(k reader.Kind, fn reader.FuncID) {
	t.events = append(t.events, reader.Event{TSC: t.now, Func: fn, Kind: k})
}

// self advances the thread's clock by about this many ticks.
func (t *thread) self(ticks uint64) { t.now += ticks + t.rng.Uint64N(ticks/4+1) }

// call adds a call with this self time and runs body in the middle.
func (t *thread) call(fn reader.FuncID, ticks uint64, body ...func()) {
	t.event(reader.Enter, fn)
	t.finish(fn, ticks, body)
}

func (t *thread) callArg(fn reader.FuncID, arg, ticks uint64, body ...func()) {
	t.event(reader.EnterArg, fn)
	t.events[len(t.events)-1].Side = true
	t.args = append(t.args, reader.Arg{Event: len(t.events) - 1, Value: arg})
	t.finish(fn, ticks, body)
}

func (t *thread) finish(fn reader.FuncID, ticks uint64, body []func()) {
	t.self(ticks / 2)
	for _, f := range body {
		f()
	}
	t.self(ticks / 2)
	t.event(reader.Exit, fn)
}

// requests adds n requests to every thread. inner fills each of them.
func (p *program) requests(n int, inner func(t *thread, i int)) {
	for _, t := range p.threads {
		for i := range n {
			t.callArg(handle, uint64(i), 2000, func() {
				t.call(parse, 500)
				inner(t, i)
			})
			t.self(5000)
		}
	}
}

func options() why.Options {
	return why.Options{
		Root:  func(fn reader.FuncID) bool { return fn == handle },
		Clock: reader.Clock{Frequency: 1_000_000_000},
		Role: func(fn reader.FuncID) why.Role {
			return map[reader.FuncID]why.Role{lock: why.Locks, unlock: why.Unlocks}[fn]
		},
	}
}

func explain(t testing.TB, p calls.Source, o why.Options) *why.Report {
	t.Helper()
	r, _, err := why.Explain(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only returns the one cause of a report.
func only(t *testing.T, r *why.Report) why.Cause {
	t.Helper()
	if len(r.Causes) != 1 {
		t.Fatalf("got %d causes, want 1: %+v", len(r.Causes), r.Causes)
	}
	return r.Causes[0]
}

func slowAt(i int) bool { return i%90 == 60 }

func TestMoreCalls(t *testing.T) {
	p := newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 300, func() {
			n := 2
			if slowAt(i) {
				n = 200
			}
			for range n {
				t.call(row, 100, func() { t.call(work, 50) })
			}
		})
	})
	c := only(t, explain(t, p, options()))
	if c.Kind != why.MoreCalls || c.Func != row || c.Share < 0.9 {
		t.Errorf("got %+v", c)
	}
	if a := c.Paths[0].Affected.Calls; a != 200 {
		t.Errorf("got %v calls in slow requests", a)
	}
}

func TestNewPath(t *testing.T) {
	p := newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 300, func() {
			if slowAt(i) {
				t.call(rebuild, 100, func() { t.call(sort, 90_000) })
			}
		})
	})
	c := only(t, explain(t, p, options()))
	if c.Kind != why.NewPath || c.Func != rebuild || c.Most != sort || c.Share < 0.95 {
		t.Errorf("got %+v", c)
	}
}

func TestSlowerBetweenCalls(t *testing.T) {
	p := newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 300, func() {
			t.call(row, 100)
			if slowAt(i) {
				t.self(80_000)
			}
			t.call(work, 100)
		})
	})
	c := only(t, explain(t, p, options()))
	if c.Kind != why.Slower || c.Func != query || c.Between != [2]reader.FuncID{row, work} {
		t.Errorf("got %+v", c)
	}
	if c.Low > c.Share || c.High < c.Share || c.Chance > 1e-4 {
		t.Errorf("got share %v, interval %v to %v, p %v", c.Share, c.Low, c.High, c.Chance)
	}
}

// A thread that is stopped now and then, at random, is not a cause.
func TestNoiseIsNotNamed(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(t *thread, i int) {
		stop := func(ticks uint64) func() {
			return func() {
				if t.rng.Uint64N(200_000) < ticks {
					t.self(100_000)
				}
			}
		}
		t.call(query, 1000, stop(1000))
		t.call(row, 2000, stop(2000))
		t.call(work, 700, stop(700))
		stop(2500)()
	})
	if r := explain(t, p, options()); len(r.Causes) != 0 || r.Rest != 1 {
		t.Errorf("got %+v", r.Causes)
	}
}

// The argument says which lock it is. What another thread does during the wait says who holds it.
// A function is not suspected if threads that were preempted anywhere would look the same: here, in one of
// two functions that take the same time.
func TestChanceIsNotSuspected(t *testing.T) {
	p := newProgram(4)
	p.requests(6000, func(t *thread, i int) {
		lost := [2]uint64{}
		if slowAt(i) {
			lost[t.rng.IntN(2)] = 400_000
		}
		t.call(work, 20_000+lost[0])
		t.call(row, 20_000+lost[1])
	})
	r := explain(t, p, options())
	if slices.ContainsFunc(r.Suspects, func(s why.Suspect) bool { return s.Chance > 0.05 }) || len(r.Causes) != 0 {
		t.Errorf("got %+v, %+v", r.Causes, r.Suspects)
	}
}

func TestLockWait(t *testing.T) {
	p := newProgram(3)
	flusher := &thread{now: 1000, rng: rand.New(rand.NewPCG(2, 2))}
	const every, takes = 400_000, 100_000
	p.requests(3000, func(t *thread, i int) {
		t.callArg(lock, 0xaa, 60)
		t.call(row, 100)
		t.call(unlock, 50)
		wait := uint64(60)
		if at := t.now % every; at < takes {
			wait = takes - at
		}
		t.event(reader.EnterArg, lock)
		t.events[len(t.events)-1].Side = true
		t.args = append(t.args, reader.Arg{Event: len(t.events) - 1, Value: 0xbb})
		t.now += wait
		t.event(reader.Exit, lock)
		t.call(unlock, 50)
	})
	for k := uint64(1); k*every < p.threads[0].now; k++ {
		flusher.now = k * every
		flusher.event(reader.Enter, flush)
		flusher.event(reader.Enter, sort)
		flusher.now += takes
		flusher.event(reader.Exit, sort)
		flusher.event(reader.Exit, flush)
	}
	p.threads = append(p.threads, flusher)
	c := only(t, explain(t, p, options()))
	if c.Kind != why.LockWait || c.Func != lock || c.Lock != 0xbb {
		t.Fatalf("got %+v", c)
	}
	if h := c.Holder; h == nil || h.Self != sort || h.Scope != flush || h.Covered < 0.9 || !h.Ends {
		t.Errorf("wrong holder: %+v", h)
	}
}

func TestAssociations(t *testing.T) {
	p := newProgram(4)
	p.requests(3000, func(th *thread, i int) {
		if th == p.threads[2] && i%20 == 7 {
			th.callArg(work, 42, 50_000)
		} else {
			th.callArg(work, uint64(i%7), 500)
		}
	})
	c := only(t, explain(t, p, options()))
	kinds := make(map[string]why.Association)
	for _, a := range c.Associations {
		kinds[a.Kind] = a
	}
	if a, ok := kinds["thread"]; !ok || a.Thread.Thread != 102 || a.Count != a.Of {
		t.Errorf("wrong thread association: %+v", c.Associations)
	}
	if a, ok := kinds["argument"]; !ok || a.Func != work || a.Value != 42 {
		t.Errorf("wrong argument association: %+v", c.Associations)
	}
}

// A tail call belongs to the function that made it.
func TestTailCallsAreInside(t *testing.T) {
	p := newProgram(2)
	for _, th := range p.threads {
		for i := range 3000 {
			th.event(reader.Enter, handle)
			th.self(1000)
			th.event(reader.Enter, query)
			th.self(200)
			th.event(reader.TailExit, query)
			th.event(reader.TailExit, handle) // query's tail call has no sled
			th.now += 50
			th.event(reader.Enter, work)
			th.self(500)
			if slowAt(i) {
				th.self(90_000)
			}
			th.event(reader.Exit, work)
			th.self(4000)
		}
	}
	o := options()
	o.Calls.Continue = func(from, to reader.FuncID) bool { return from == handle && to == work }
	r := explain(t, p, o)
	c := only(t, r)
	if c.Func != work || c.Kind != why.Slower || r.Longest < 90_000 {
		t.Errorf("longest %d: got %+v", r.Longest, c)
	}
	if diff := cmp.Diff([]reader.FuncID{handle, work}, c.Paths[0].Path); diff != "" {
		t.Error(diff)
	}
}

// A root nested in a root belongs to the outer one, and recursion is one path.
func TestRecursionIsFolded(t *testing.T) {
	p := newProgram(1)
	p.requests(1000, func(t *thread, i int) {
		depth := 2
		if slowAt(i) {
			depth = 60
		}
		var again func()
		again = func() {
			if depth--; depth > 0 {
				t.call(query, 300, func() {
					t.call(row, 100, func() {
						if depth%2 == 0 {
							t.call(handle, 200, again)
						} else {
							again()
						}
					})
				})
			}
		}
		again()
	})
	r := explain(t, p, options())
	if r.Invocations != 1000 {
		t.Errorf("got %d invocations", r.Invocations)
	}
	if c := only(t, r); c.Kind != why.MoreCalls || c.Func != query {
		t.Errorf("got %+v", c)
	}
	var paths [][]reader.FuncID
	for _, d := range r.Decomposition {
		paths = append(paths, d.Path)
	}
	want := [][]reader.FuncID{{handle}, {handle, parse}, {handle, query}, {handle, query, row}}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
}

func TestRootIsProposed(t *testing.T) {
	p := newProgram(2)
	for _, th := range p.threads {
		th.event(reader.Enter, main)
	}
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 300, func() {
			if slowAt(i) {
				t.call(rebuild, 90_000)
			}
		})
	})
	for _, th := range p.threads {
		th.event(reader.Exit, main)
	}
	o := options()
	o.Root = nil
	r := explain(t, p, o)
	if r.Root != handle || len(r.Candidates) == 0 || r.Candidates[0].Func != handle {
		t.Errorf("got root %d among %+v", r.Root, r.Candidates)
	}
}

func TestNoInvocations(t *testing.T) {
	some, open := newProgram(1), newProgram(1)
	some.requests(3, func(*thread, int) {})
	open.threads[0].event(reader.Enter, handle)
	none := func(reader.FuncID) bool { return false }
	for _, c := range []struct {
		p    *program
		root func(reader.FuncID) bool
		from uint64
		want string
	}{
		{some, none, 0, "no call of the root ended in the trace"},
		{some, none, 1, "no call of the root ended in the selected part of the trace"},
		{some, nil, 0, "no function was called 200 times in the trace: name the function to explain with --root"},
		{some, nil, 1, "no function was called 200 times in the selected part of the trace: name the function to explain with --root"},
		{open, nil, 0, "no call ended in the trace"},
		{some, nil, math.MaxUint64, "no call ended in the selected part of the trace"},
	} {
		o := options()
		o.Root, o.From = c.root, c.from
		if _, _, err := why.Explain(c.p, o); !errors.Is(err, why.ErrNoInvocations) || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestTopIsExact(t *testing.T) {
	p := newProgram(2)
	p.requests(2000, func(t *thread, i int) { t.call(work, uint64(3000+i)) })
	o := options()
	for _, top := range []uint64{1, 2, 29, 30, 31, 37, 500} {
		o.Slow = why.Rule{Top: top, Text: "top"}
		if r := explain(t, p, o); r.Slow.Count != top || r.Kept != int(top) {
			t.Errorf("got %d slow calls of %d, %d kept", r.Slow.Count, top, r.Kept)
		}
	}
}

// fleet is a program whose threads ran on different machines.
type fleet struct{ *program }

func (f fleet) Each(n int, fn func(int, *reader.Block) error) error {
	return f.program.Each(n, func(shard int, b *reader.Block) error {
		b.Thread.File = int32(b.Index)
		return fn(shard, b)
	})
}

// Slow calls do not count as calls that are not slow, even if there are too many to keep.
func TestManySlowCallsOfAHost(t *testing.T) {
	p := newProgram(2)
	p.requests(16_000, func(t *thread, i int) {
		ticks := uint64(1000)
		if t == p.threads[0] && i%4 > 0 {
			ticks = 30_000
		}
		t.call(query, ticks)
	})
	o := options()
	o.Origins = []why.Origin{{File: "a", Host: "ha"}, {File: "b", Host: "hb"}}
	o.UsualLow, o.UsualHigh = 0.1, 0.5
	for _, c := range []struct {
		slow why.Rule
		want float64 // of the calls that are not slow, the share on the first host
	}{
		{why.Rule{Ticks: 20_000}, 4000. / 20_000},
		{why.Rule{Top: 1000}, 15_000. / 31_000},
	} {
		o.Slow = c.slow
		a := only(t, explain(t, fleet{p}, o)).Associations
		if len(a) == 0 || a[0].Kind != "host" || a[0].Text != "ha" || math.Abs(a[0].Elsewhere-c.want) > 1e-9 {
			t.Errorf("%+v: want host ha with %v of the others, got %+v", c.slow, c.want, a)
		}
	}
}

// Times are relative to the start of the trace, whatever threads are selected.
func TestStartIsThatOfTheTrace(t *testing.T) {
	p := newProgram(2)
	p.threads[1].now = 1_000_000
	p.requests(500, func(t *thread, i int) { t.call(work, uint64(300+i)) })
	o := options()
	o.Calls.Filter.Thread = func(t reader.Thread) bool { return t.Thread == 101 }
	if r := explain(t, p, o); r.Start != 1000 || r.Threads != 1 || r.Invocations != 500 {
		t.Errorf("got %d invocations on %d threads, starting at %d", r.Invocations, r.Threads, r.Start)
	}
}

// If all calls take the same time, none are slow.
func TestNothingToExplain(t *testing.T) {
	p := newProgram(1)
	for range 500 {
		p.threads[0].event(reader.Enter, handle)
		p.threads[0].now += 100
		p.threads[0].event(reader.Exit, handle)
	}
	r := explain(t, p, options())
	if r.Slow.Count != 0 || len(r.Causes) != 0 || len(r.Warnings) != 1 {
		t.Errorf("got %+v", r)
	}
	if got := written(r, names, why.View{Exemplars: 3, All: true}, report.Formats...); !strings.Contains(got, "The durations differ too little") {
		t.Error(got)
	}
}

// drawProgram draws threads with random calls, missing exits and unmatched events.
func drawProgram(rt *rapid.T) *program {
	p := newProgram(rapid.IntRange(1, 5).Draw(rt, "threads"))
	seed := rapid.Uint64().Draw(rt, "seed")
	damage := rapid.IntRange(0, 2).Draw(rt, "damage")
	for i, th := range p.threads {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		var open []reader.FuncID
		for range rapid.IntRange(0, 3000).Draw(rt, "events") {
			th.now += rng.Uint64N(300)
			if rng.IntN(100) == 0 {
				th.now += rng.Uint64N(100_000)
			}
			fn := main + reader.FuncID(rng.IntN(int(work)))
			switch k := rng.IntN(20); {
			case k < 9 && len(open) < 12:
				if fn == lock {
					th.event(reader.EnterArg, fn)
					th.events[len(th.events)-1].Side = true
					th.args = append(th.args, reader.Arg{Event: len(th.events) - 1, Value: rng.Uint64N(3)})
				} else {
					th.event(reader.Enter, fn)
				}
				open = append(open, fn)
			case k == 19 && damage > 0:
				th.event(reader.Exit, fn)
			case len(open) > 0:
				kind := reader.Exit
				if k%5 == 0 {
					kind = reader.TailExit
				}
				th.event(kind, open[len(open)-1])
				open = open[:len(open)-1]
				if damage > 1 && len(open) > 0 && k == 7 {
					open = open[:len(open)-1]
				}
			}
		}
	}
	return p
}

// Contributions of paths add up to the excess, to the nanosecond.
func TestPartsSumToTheExcess(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, o := drawProgram(rt), options()
		o.Slow = why.Rule{Quantile: rapid.SampledFrom([]float64{0.8, 0.95, 0.99}).Draw(rt, "slow")}
		r, _, err := why.Explain(p, o)
		if errors.Is(err, why.ErrNoInvocations) {
			return
		} else if err != nil {
			rt.Fatal(err)
		}
		if r.Usual.Count == 0 || r.Kept == 0 {
			return
		}
		all := 0.0
		for _, d := range r.Decomposition {
			all += d.Slower + d.More + d.New
		}
		want := r.Slow.Mean - r.Usual.Mean
		if math.Abs(all-want) > 1e-6 || math.Abs(r.Excess-want) > 1e-6 {
			rt.Fatalf("got a sum of parts %v and excess %v, want the difference of means %v", all, r.Excess, want)
		}
		checkShares(rt, r)
	})
}

// checkShares fails unless all shares are between 0 and 1 and add up to 1 with the rest, and so does JSON.
func checkShares(t interface{ Fatalf(string, ...any) }, r *why.Report) {
	all := 0.0
	add := func(what string, x float64) {
		if !(x >= 0 && x <= 1+1e-9) {
			t.Fatalf("%s has a share of %v", what, x)
		}
		all += x
	}
	for i := range r.Causes {
		c := &r.Causes[i]
		add(fmt.Sprintf("cause %d", i+1), c.Share)
		if c.Low < 0 || c.Low > c.Share || c.High < c.Share || c.High > 1 {
			t.Fatalf("cause %d has an interval from %v to %v, and a share of %v", i+1, c.Low, c.High, c.Share)
		}
		if c.Incident < 1 || c.Incident > len(r.Causes) {
			t.Fatalf("cause %d is of incident %d", i+1, c.Incident)
		}
		if h := c.Holder; h != nil && !(h.Covered >= 0 && h.Covered <= 1 && h.SelfShare >= 0 && h.SelfShare <= 1) {
			t.Fatalf("cause %d has a holder with shares beyond 1: %+v", i+1, h)
		}
	}
	if p := r.Preempted; p != nil {
		add("preempted", p.Share)
		add("the recorder", p.Recorder)
	}
	if in := r.Interrupted; in != nil {
		add("interrupted", in.Share)
	}
	suspected := 0.0
	for i := range r.Suspects {
		suspected += r.Suspects[i].Share
	}
	if suspected > r.Rest+1e-9 {
		t.Fatalf("suspects have %v of a rest of %v", suspected, r.Rest)
	}
	add("the rest", r.Rest)
	if math.Abs(all-1) > 1e-9 {
		t.Fatalf("shares add up to %v: %+v", all, r)
	}
}

// A retry that fails at once does not cost what a usual call costs.
func TestCheapRetries(t *testing.T) {
	p := newProgram(2)
	p.requests(3000, func(t *thread, i int) {
		t.call(query, 300, func() { t.call(row, 6700) })
		if !slowAt(i) {
			return
		}
		t.call(query, 300, func() {
			for range 100 {
				t.call(row, 400)
			}
			t.call(rebuild, 60_000)
		})
	})
	r := explain(t, p, options())
	checkShares(t, r)
	more := 0.0
	for _, d := range r.Decomposition {
		if d.Path[len(d.Path)-1] == row {
			more += d.More
		}
	}
	if more < 35_000 || more > 60_000 {
		t.Errorf("100 more calls of about 0.45 us cost %.0f ns", more)
	}
}

func TestShardingChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawProgram(rt)
		explained := func(shards int) string {
			o := options()
			o.Calls.Shards = shards
			r, _, err := why.Explain(p, o)
			if err != nil {
				return err.Error()
			}
			return written(r, names, why.View{Exemplars: 2, All: true, Files: "trace"}, report.Text, report.JSON)
		}
		one := explained(1)
		for _, shards := range []int{2, 3, 5} {
			if diff := cmp.Diff(one, explained(shards)); diff != "" {
				rt.Fatalf("with %d shards:\n%s", shards, diff)
			}
		}
	})
}

// written returns the report in some formats.
func written(r *why.Report, names symbolize.Names, view why.View, formats ...report.Format) string {
	var b strings.Builder
	doc := report.Doc{Kind: "why", Clock: r.Clock, Names: names, Start: r.Start, Body: r.Body(names, view)}
	for _, f := range formats {
		if err := doc.Write(&b, report.Style{Format: f}); err != nil {
			return err.Error()
		}
	}
	return b.String()
}
