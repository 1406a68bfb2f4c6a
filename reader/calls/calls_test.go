package calls_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// blocks is a Source that distributes its threads round robin.
type blocks []*reader.Block

func (bs blocks) Each(n int, fn func(int, *reader.Block) error) error {
	for _, b := range bs {
		if err := fn(b.Index%n, b); err != nil {
			return err
		}
	}
	return nil
}

// packed is a Source that packs what can be packed, as records of a basic log or of an FDR log.
type packed struct {
	blocks
	basic bool
}

func (p packed) EachPacked(n int, fn func(int, *reader.Block) error) error {
	for _, b := range p.blocks {
		for _, piece := range p.pack(b) {
			if err := fn(b.Index%n, piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack cuts b into packed blocks and blocks of what cannot be packed.
func (p packed) pack(b *reader.Block) []*reader.Block {
	var pieces []*reader.Block
	var last uint64 // time of the latest record in a packed piece
	for i, e := range b.Events {
		at := reader.Block{Thread: b.Thread, Index: b.Index}
		if e.Side || e.Kind > reader.TailExit || !p.basic && (e.Func < 0 || e.Func >= 1<<28) {
			at.Events = b.Events[i : i+1]
			for _, a := range b.Args {
				if a.Event == i {
					at.Args = append(at.Args, reader.Arg{Value: a.Value})
				}
			}
			pieces = append(pieces, &at)
			continue
		}
		n := len(pieces)
		if n == 0 || pieces[n-1].Packed.Len() == 0 || !p.basic && e.TSC < last {
			at.Packed = reader.Packed{Basic: p.basic, TSC: e.TSC}
			pieces, last = append(pieces, &at), e.TSC
			n++
		}
		r := &pieces[n-1].Packed.Records
		if p.basic {
			rec := make([]byte, 32)
			rec[3] = byte(e.Kind)
			binary.LittleEndian.PutUint32(rec[4:], uint32(e.Func))
			binary.LittleEndian.PutUint64(rec[8:], e.TSC)
			*r = append(*r, rec...)
		} else {
			w := uint64(e.Kind)<<1 | uint64(e.Func)<<4 | (e.TSC-last)<<32
			*r = binary.LittleEndian.AppendUint64(*r, w)
		}
		last = e.TSC
	}
	return pieces
}

// split divides events into blocks of at most size events, taking turns among threads.
func split(threads [][]reader.Event, size int) blocks {
	var bs blocks
	threads = slices.Clone(threads)
	for more := true; more; {
		more = false
		for i, events := range threads {
			if len(events) == 0 {
				continue
			}
			n := min(size, len(events))
			b := &reader.Block{Thread: thread(i), Index: i, Events: events[:n]}
			for j, e := range b.Events {
				if e.Side {
					b.Args = append(b.Args, reader.Arg{Event: j, Value: e.TSC})
				}
			}
			bs = append(bs, b)
			threads[i] = events[n:]
			more = true
		}
	}
	return bs
}

func thread(i int) reader.Thread { return reader.Thread{Process: int32(i / 2), Thread: int32(i)} }

// collected is a call in a form that is comparable between runs.
type collected struct {
	Thread reader.Thread
	Call   calls.Call
	Path   string
	Args   []uint64
}

type collector struct{ got []collected }

func (c *collector) Calls(b *calls.Batch) error {
	for i, call := range b.Calls {
		col := collected{Thread: b.Thread, Call: call}
		if b.Paths != nil {
			col.Path = fmt.Sprint(b.Paths.Frames(nil, call.Path))
		}
		for _, a := range b.Args {
			if a.Call == i {
				col.Args = append(col.Args, a.Value)
			}
		}
		col.Call.Path = 0 // numbers differ between shards
		c.got = append(c.got, col)
	}
	return nil
}

func (c *collector) Merge(o *collector) { c.got = append(c.got, o.got...) }

// byThread sorts calls by thread and keeps each thread's order.
func byThread(cs []collected) []collected {
	slices.SortStableFunc(cs, func(a, b collected) int { return cmp.Compare(a.Thread.Thread, b.Thread.Thread) })
	return cs
}

func run(t interface{ Fatal(...any) }, src calls.Source, opts calls.Options) ([]collected, *calls.Stats) {
	c, stats, err := calls.Run(src, opts, func() *collector { return &collector{} })
	if err != nil {
		t.Fatal(err)
	}
	return byThread(c.got), stats
}

// model rebuilds the calls of one thread in the simplest way, within the time of a filter.
func model(events []reader.Event, policy calls.Policy, tails func(from, to reader.FuncID) bool, f calls.Filter) (got []collected, unmatched int) {
	type open struct {
		gone  bool
		i     int // event
		begin uint64
		call  collected
	}
	var stack []open
	// Thread time: the first timestamp plus all forward steps.
	var now, last uint64
	path := func() string {
		fns := []reader.FuncID(nil)
		for _, o := range stack {
			fns = append(fns, o.call.Call.Func)
		}
		return fmt.Sprint(fns)
	}
	end := func(how calls.End) {
		o := stack[len(stack)-1]
		o.call.Path = path()
		stack = stack[:len(stack)-1]
		c := &o.call.Call
		c.End = how
		c.Duration = now - o.begin
		c.Self += c.Duration
		c.Start = o.begin
		if n := len(stack); n > 0 {
			stack[n-1].call.Call.Self -= c.Duration
		}
		got = append(got, o.call)
	}
	inside := f.From == 0
	for i, e := range events {
		before := now
		if i == 0 {
			now = e.TSC
		} else if e.TSC > last {
			now += e.TSC - last
		}
		last = e.TSC
		arrives := !inside && now >= f.From && (now > f.From || !e.Kind.IsExit())
		if arrives {
			inside = true
			got, unmatched = nil, 0
			for i := range stack {
				stack[i].begin, stack[i].call.Call.Self, stack[i].call.Call.Earlier = f.From, 0, true
			}
		}
		if inside && f.To > 0 && now >= f.To {
			if i > 0 && events[i-1].Kind == reader.TailExit && len(stack) > 0 && stack[len(stack)-1].gone {
				now = before // its continuation is not known
				for n := len(stack); n > 0 && stack[n-1].gone; n = len(stack) {
					if arrives { // it ended before the time of the filter
						stack = stack[:n-1]
						continue
					}
					end(calls.TailExited)
				}
			}
			now = f.To
			for len(stack) > 0 {
				end(calls.Truncated)
			}
			return got, unmatched
		}
		if e.Kind.IsEnter() {
			o := open{i: i, begin: now}
			o.call.Call = calls.Call{Func: e.Func, Depth: uint32(len(stack))}
			for _, s := range stack {
				o.call.Call.Caller = s.call.Call.Func
				o.call.Call.Nested = o.call.Call.Nested || s.call.Call.Func == e.Func
			}
			if e.Side {
				o.call.Args, o.call.Call.Args = []uint64{e.TSC}, true
			}
			stack = append(stack, o)
			continue
		}
		if !e.Kind.IsExit() {
			continue
		}
		at := len(stack) - 1
		is := func(o open) bool { return o.call.Call.Func == e.Func && !o.gone }
		for policy != calls.Exact && at >= 0 && !is(stack[at]) {
			at--
		}
		if at < 0 || !is(stack[at]) {
			unmatched++
			for policy == calls.DeduceOrClear && len(stack) > 0 {
				end(calls.Inferred)
			}
			continue
		}
		for len(stack) > at+1 {
			end(calls.Inferred)
		}
		how := calls.Exited
		if e.Kind == reader.TailExit {
			how = calls.TailExited
			if i++; tails != nil && i < len(events) && events[i].Kind.IsEnter() && tails(e.Func, events[i].Func) {
				stack[at].gone = true
				continue
			}
		}
		end(how)
		for len(stack) > 0 && stack[len(stack)-1].gone {
			if how == calls.Exited {
				how = calls.Continued
			}
			end(how)
		}
	}
	for len(stack) > 0 {
		end(calls.Truncated)
	}
	if !inside {
		return nil, 0
	}
	return got, unmatched
}

// drawEvents draws the events of a thread. They are mostly balanced, with few functions so that
// recursion and wrong matches are common, and a clock that may step back.
func drawEvents(t *rapid.T) []reader.Event {
	var events []reader.Event
	var open []reader.FuncID
	tsc := rapid.Uint64Range(0, 50).Draw(t, "start")
	for range rapid.IntRange(0, 60).Draw(t, "events") {
		if rapid.IntRange(0, 20).Draw(t, "back") == 0 {
			tsc -= min(tsc, rapid.Uint64Range(0, 40).Draw(t, "step"))
		} else {
			tsc += rapid.Uint64Range(0, 9).Draw(t, "delta")
		}
		e := reader.Event{TSC: tsc, Func: reader.FuncID(rapid.SampledFrom([]int{1, 2, 3, 4, 1 << 24, -7}).Draw(t, "func"))}
		switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
		case op < 4:
			e.Kind = reader.Enter
			if op == 0 {
				e.Kind, e.Side = reader.EnterArg, true
			}
			open = append(open, e.Func)
		case op < 8 && len(open) > 0: // a proper exit
			e.Kind = reader.Kind(rapid.IntRange(1, 2).Draw(t, "exit"))
			e.Func = open[len(open)-1]
			open = open[:len(open)-1]
		case op == 8:
			e.Kind = reader.Custom
		default:
			e.Kind = reader.Exit
		}
		events = append(events, e)
	}
	return events
}

// The calls equal those of the model, however the trace is cut into blocks and distributed over
// shards.
func TestRunMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var threads [][]reader.Event
		for range rapid.IntRange(1, 4).Draw(t, "threads") {
			threads = append(threads, drawEvents(t))
		}
		policy := calls.Policy(rapid.IntRange(0, 2).Draw(t, "policy"))
		var tails func(from, to reader.FuncID) bool
		if rapid.Bool().Draw(t, "tails") {
			tails = func(from, to reader.FuncID) bool { return from != to && (from < 3 || to == 4) }
		}
		var filter calls.Filter
		if rapid.Bool().Draw(t, "time") {
			filter.From, filter.To = rapid.Uint64Range(0, 150).Draw(t, "from"), rapid.Uint64Range(0, 300).Draw(t, "to")
			if filter.To > 0 {
				filter.To = max(filter.To, filter.From+1)
			}
		}
		var want []collected
		unmatched, entries, events := 0, 0, 0
		first, last := uint64(math.MaxUint64), uint64(0)
		for i, ev := range threads {
			if len(ev) > 0 {
				first = min(first, ev[0].TSC)
				last = max(last, ev[0].TSC+forward(ev))
			}
			got, n := model(ev, policy, tails, filter)
			unmatched += n
			events += len(ev)
			for _, c := range got {
				c.Thread = thread(i)
				want = append(want, c)
				entries++
			}
		}
		for _, shards := range []int{1, 2, 3} {
			for _, size := range []int{1, 7, 1000} {
				bs := split(threads, size)
				for _, src := range []calls.Source{bs, packed{bs, false}, packed{bs, true}} {
					opts := calls.Options{Shards: shards, Paths: true, Nested: true, Policy: policy, Code: calls.Code{Continue: tails}, Filter: filter}
					got, stats := run(t, src, opts)
					if diff := gocmp.Diff(want, got); diff != "" {
						t.Fatalf("shards %d, blocks of %d, %T (-want +got):\n%s", shards, size, src, diff)
					}
					if filter.From+filter.To > 0 {
						if int(stats.Unmatched) != unmatched || int(stats.Calls) != entries {
							t.Fatalf("shards %d, blocks of %d, %T: stats %+v; want %d unmatched, %d calls", shards, size, src, *stats, unmatched, entries)
						}
						continue
					}
					if int(stats.Unmatched) != unmatched || int(stats.Entries) != entries || int(stats.Events) != events ||
						stats.Events != stats.Entries+stats.Exits+stats.Custom {
						t.Fatalf("shards %d, blocks of %d, %T: stats %+v; want %d unmatched, %d entries, %d events",
							shards, size, src, *stats, unmatched, entries, events)
					}
					if events > 0 && (stats.First != first || stats.Last != last) {
						t.Fatalf("shards %d, blocks of %d, %T: from %d to %d, want %d to %d", shards, size, src, stats.First, stats.Last, first, last)
					}
				}
			}
		}
	})
}

// If the clock goes backwards where the time of a filter begins, no time passes: a call that begins there is in
// that time.
func TestClockStepsBackAtFilter(t *testing.T) {
	t.Parallel()
	threads := [][]reader.Event{{
		{TSC: 8, Kind: reader.Enter, Func: 1},
		{TSC: 9, Kind: reader.Enter, Func: 2},
		{TSC: 10, Kind: reader.Exit, Func: 2}, // the time begins
		{TSC: 9, Kind: reader.Enter, Func: 3},
		{TSC: 11, Kind: reader.Exit, Func: 3},
		{TSC: 12, Kind: reader.Exit, Func: 1},
	}}
	filter := calls.Filter{From: 10}
	want, _ := model(threads[0], calls.Deduce, nil, filter)
	if want[0].Call.Earlier || want[0].Call.Func != 3 || want[0].Call.Start != 10 {
		t.Fatalf("the model has %+v", want[0].Call)
	}
	for _, size := range []int{1, 1000} {
		bs := split(threads, size)
		for _, src := range []calls.Source{bs, packed{bs, false}, packed{bs, true}} {
			got, _ := run(t, src, calls.Options{Shards: 1, Paths: true, Nested: true, Filter: filter})
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("blocks of %d, %T (-want +got):\n%s", size, src, diff)
			}
		}
	}
}

// forward returns the sum of a thread's forward clock steps.
func forward(events []reader.Event) (ticks uint64) {
	for i := range events[1:] {
		ticks += max(events[i].TSC, events[i+1].TSC) - events[i].TSC
	}
	return ticks
}

// The self times of a thread's calls add up to the durations of its outermost calls.
func TestSelfTimesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got, _ := run(t, split([][]reader.Event{drawEvents(t)}, 10), calls.Options{Shards: 1})
		var self, outermost uint64
		for _, c := range got {
			self += c.Call.Self
			if c.Call.Depth == 0 {
				outermost += c.Call.Duration
			}
		}
		if self != outermost {
			t.Fatalf("got self times of %d, want %d as of outermost calls", self, outermost)
		}
	})
}

// A filter omits calls and does not change the others.
func TestFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threads := [][]reader.Event{drawEvents(t), drawEvents(t)}
		f := calls.Filter{
			MinDuration: rapid.Uint64Range(0, 10).Draw(t, "min"),
			MaxDepth:    uint32(rapid.IntRange(0, 3).Draw(t, "depth")),
			Thread:      func(th reader.Thread) bool { return th.Thread == 1 },
			Func:        func(id reader.FuncID) bool { return id != 2 },
		}
		all, _ := run(t, split(threads, 9), calls.Options{Shards: 1})
		got, _ := run(t, split(threads, 9), calls.Options{Shards: 2, Filter: f})
		var want []collected
		for _, c := range all {
			if c.Thread.Thread == 1 && c.Call.Func != 2 && c.Call.Duration >= f.MinDuration && (f.MaxDepth == 0 || c.Call.Depth < f.MaxDepth) {
				want = append(want, c)
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// replay follows entries and ends, like a sink that writes both.
type replay struct {
	t    *rapid.T
	open map[int][]calls.Open
}

func (r *replay) Calls(b *calls.Batch) error {
	b.Replay(func(o *calls.Open) {
		r.open[b.Index] = append(r.open[b.Index], *o)
	}, func(c *calls.Call, _ []calls.Arg) {
		stack := r.open[b.Index]
		if len(stack) == 0 {
			r.t.Fatalf("%+v ends but has not begun", *c)
		}
		if o := stack[len(stack)-1]; o.Start != c.Start || o.Func != c.Func || o.Depth != c.Depth {
			r.t.Fatalf("%+v ends, but the innermost call is %+v", *c, o)
		}
		r.open[b.Index] = stack[:len(stack)-1]
	}, func(*calls.Event) {})
	if b.Last && len(r.open[b.Index]) > 0 {
		r.t.Fatalf("%+v never ended", r.open[b.Index])
	}
	return nil
}

func (r *replay) Merge(*replay) {}

// Entries are in the right place between ends, with filters, too.
func TestOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bs := split([][]reader.Event{drawEvents(t), drawEvents(t)}, rapid.IntRange(1, 30).Draw(t, "size"))
		opts := calls.Options{Shards: 1, Opens: true, Policy: calls.Policy(rapid.IntRange(0, 2).Draw(t, "policy"))}
		if rapid.Bool().Draw(t, "filter") {
			opts.Filter = calls.Filter{
				From: rapid.Uint64Range(0, 60).Draw(t, "from"), MaxDepth: uint32(rapid.IntRange(0, 3).Draw(t, "depth")),
				Func: func(id reader.FuncID) bool { return id != 2 },
			}
		}
		for _, src := range []calls.Source{bs, packed{bs, false}, packed{bs, true}} {
			newReplay := func() *replay { return &replay{t: t, open: map[int][]calls.Open{}} }
			if _, _, err := calls.Run(src, opts, newReplay); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestUnmatchedStopsTheRun(t *testing.T) {
	threads := [][]reader.Event{{{TSC: 1, Func: 1}, {TSC: 2, Func: 2}, {TSC: 3, Func: 3, Kind: reader.Exit}}}
	stop := fmt.Errorf("stop")
	var seen calls.Unmatched
	var open []reader.FuncID
	_, _, err := calls.Run(split(threads, 10), calls.Options{Unmatched: func(u *calls.Unmatched) error {
		seen, open = *u, u.Open()
		return stop
	}}, func() *collector { return &collector{} })
	if err != stop {
		t.Errorf("got error %v, want that of Unmatched", err)
	}
	if seen.Thread != thread(0) || seen.Event != threads[0][2] || !slices.Equal(open, []reader.FuncID{1, 2}) {
		t.Errorf("unmatched exit %+v, open calls %v", seen, open)
	}
}

// Stacks deeper than the searched part: recursion, functions that occur once, exits of outer calls,
// and unmatched exits.
func TestDeepStacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var events []reader.Event
		tsc := uint64(0)
		add := func(fn int, kind reader.Kind) {
			tsc++
			events = append(events, reader.Event{TSC: tsc, Func: reader.FuncID(fn), Kind: kind})
		}
		depth := rapid.IntRange(250, 600).Draw(t, "depth")
		kinds := rapid.SampledFrom([]int{1, 3, 40, 1000}).Draw(t, "functions")
		for i := range depth {
			add(1+i%kinds, reader.Enter)
		}
		for range 20 {
			add(rapid.IntRange(1, kinds+2).Draw(t, "function"), reader.Kind(rapid.IntRange(0, 1).Draw(t, "kind")))
		}
		for i := depth - 1; i >= 0; i-- {
			add(1+i%kinds, reader.Exit)
		}
		// Two threads take turns, deep in their stacks.
		var want []collected
		for th := range 2 {
			got, _ := model(events, calls.Deduce, nil, calls.Filter{})
			for i := range got {
				got[i].Thread = thread(th)
				got[i].Path = ""
			}
			want = append(want, got...)
		}
		bs := split([][]reader.Event{events, events}, 100)
		for _, src := range []calls.Source{bs, packed{bs, false}} {
			got, _ := run(t, src, calls.Options{Shards: 1, Nested: true})
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("%T (-want +got):\n%s", src, diff)
			}
		}
	})
}

func TestPathsRemap(t *testing.T) {
	a, b := calls.NewPaths(), calls.NewPaths()
	a.Child(a.Child(0, 5), 6)
	leaf := b.Child(b.Child(b.Child(0, 5), 6), 7)
	other := b.Child(0, 6)
	ids := a.Remap(b)
	if got := a.Frames(nil, ids[leaf]); !slices.Equal(got, []reader.FuncID{5, 6, 7}) {
		t.Errorf("got path %v, want [5 6 7]", got)
	}
	if got := a.Frames(nil, ids[other]); !slices.Equal(got, []reader.FuncID{6}) {
		t.Errorf("got path %v, want [6]", got)
	}
	if a.Len() != 5 {
		t.Errorf("got %d nodes, want the root and 4 paths", a.Len())
	}
}

// A run with aliases equals a run over a trace whose IDs are replaced by their aliases.
func TestAlias(t *testing.T) {
	alias := func(id reader.FuncID) reader.FuncID {
		if id == 4 || id == -7 {
			return 2
		}
		return id
	}
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		var renamed []reader.Event
		for _, e := range events {
			e.Func = alias(e.Func)
			renamed = append(renamed, e)
		}
		plain, as := split([][]reader.Event{renamed}, 10), split([][]reader.Event{events}, 10)
		for _, srcs := range [][2]calls.Source{{plain, as}, {packed{plain, false}, packed{as, false}}, {packed{plain, true}, packed{as, true}}} {
			opts := calls.Options{Shards: 1, Paths: true, Nested: true}
			want, wantStats := run(t, srcs[0], opts)
			opts.Alias = alias
			got, stats := run(t, srcs[1], opts)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("%T (-want +got):\n%s", srcs[1], diff)
			}
			if diff := gocmp.Diff(wantStats, stats); diff != "" {
				t.Fatalf("%T: statistics (-want +got):\n%s", srcs[1], diff)
			}
		}
	})
}

// openings collects the entries of all batches, and how calls ended.
type openings struct {
	list  []calls.Open
	ended []calls.End
}

func (o *openings) Calls(b *calls.Batch) error {
	for _, open := range b.Opens {
		open.Call += len(o.ended)
		o.list = append(o.list, open)
	}
	for i := range b.Calls {
		o.ended = append(o.ended, b.Calls[i].End)
	}
	return nil
}

func (o *openings) Merge(*openings) {}

// Only entries of functions that do not matter may be missing, and none that is next after a call that ended by its
// tail exit.
func TestUnopened(t *testing.T) {
	t.Parallel()
	unopened, left := []bool{false, true, false, true}, 0
	tails := func(from, to reader.FuncID) bool { return from != to && (from < 3 || to == 4) }
	check := func(t rapid.TB, ev []reader.Event, tails func(from, to reader.FuncID) bool) {
		for _, size := range []int{1, 7, 1000} {
			bs := split([][]reader.Event{ev}, size)
			for _, src := range []calls.Source{bs, packed{bs, false}, packed{bs, true}} {
				opens := func(unopened []bool) ([]calls.Open, []calls.End) {
					o, _, err := calls.Run(src, calls.Options{Shards: 1, Opens: true, Unopened: unopened, Code: calls.Code{Continue: tails}}, func() *openings { return new(openings) })
					if err != nil {
						t.Fatal(err)
					}
					return o.list, o.ended
				}
				all, ends := opens(nil)
				some, _ := opens(unopened)
				left += len(all) - len(some)
				ended := 0
				for _, o := range all {
					tail := o.Call > ended && ends[o.Call-1] == calls.TailExited
					ended = o.Call
					if len(some) > 0 && some[0] == o {
						some = some[1:]
						continue
					}
					if tail || o.Func < 0 || int(o.Func) >= len(unopened) || !unopened[o.Func] {
						t.Fatalf("blocks of %d, %T: no entry of #%d at %d, after a tail exit: %v", size, src, o.Func, o.Start, tail)
					}
				}
				if len(some) > 0 {
					t.Fatalf("blocks of %d, %T: entries in another order: %+v", size, src, some)
				}
			}
		}
	}
	// The second call goes on in another one, so it has not ended.
	check(t, []reader.Event{
		{TSC: 1, Func: 2, Kind: reader.Enter}, {TSC: 2, Func: 1, Kind: reader.Enter}, {TSC: 3, Func: 3, Kind: reader.Enter},
		{TSC: 4, Func: 3, Kind: reader.TailExit}, {TSC: 5, Func: 1, Kind: reader.TailExit}, {TSC: 6, Func: 3, Kind: reader.Enter},
		{TSC: 7, Func: 3, Kind: reader.Exit}, {TSC: 8, Func: 2, Kind: reader.Exit},
	}, tails)
	rapid.Check(t, func(t *rapid.T) {
		if ev := drawEvents(t); rapid.Bool().Draw(t, "tails") {
			check(t, ev, tails)
		} else {
			check(t, ev, nil)
		}
	})
	if left == 0 {
		t.Error("all entries came")
	}
}
