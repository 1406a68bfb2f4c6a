package why

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// oneThread is a source of the events of a thread.
type oneThread reader.Block

func (o *oneThread) Each(_ int, fn func(int, *reader.Block) error) error {
	return fn(0, (*reader.Block)(o))
}

// drawThread draws a thread that calls functions 1 to 4, of which 3 logs its argument. With off, it is off CPU at times.
func drawThread(t *rapid.T, off bool) *oneThread {
	b := new(oneThread)
	var open []reader.FuncID
	tsc := uint64(0)
	for i := range rapid.IntRange(0, 80).Draw(t, "events") {
		tsc += rapid.Uint64Range(0, 5).Draw(t, "delta")
		if off && rapid.IntRange(0, 4).Draw(t, "off") == 0 {
			sw := reader.Switch{OffNS: rapid.Uint64Range(1, 5).Draw(t, "ticks"), Voluntary: 1}
			sw.QueuedNS = rapid.Uint64Range(0, sw.OffNS).Draw(t, "queued")
			tsc += sw.OffNS
			b.Payloads = append(b.Payloads, reader.Payload{Event: len(b.Events), Data: reader.AppendSwitch(nil, sw)})
			b.Events = append(b.Events, reader.Event{TSC: tsc, Kind: reader.Custom, Side: true})
			tsc++
		}
		if n := len(open); n > 0 && rapid.Bool().Draw(t, "exit") {
			b.Events = append(b.Events, reader.Event{TSC: tsc, Kind: reader.Exit, Func: open[n-1]})
			open = open[:n-1]
			continue
		}
		e := reader.Event{TSC: tsc, Kind: reader.Enter, Func: reader.FuncID(rapid.IntRange(1, 4).Draw(t, "func"))}
		if e.Func == 3 {
			e.Kind, e.Side = reader.EnterArg, true
			b.Args = append(b.Args, reader.Arg{Event: len(b.Events), Value: uint64(i)})
		}
		b.Events = append(b.Events, e)
		open = append(open, e.Func)
	}
	return b
}

// slowOf returns the calls of function 1 at a depth with what they did, all as slow calls. Function 3 may be a
// lock.
func slowOf(t *rapid.T, b *oneThread, depth int, lock bool) (list []string) {
	root := func(fn reader.FuncID) bool { return fn == 1 }
	p := &plan{root: root, rootFunc: 1, keep: math.MaxUint64, nested: depth == calls.EveryRoot}
	if lock {
		p.locks = map[reader.FuncID]bool{3: true}
	}
	c, _, err := calls.Run(b, calls.Options{Shards: 1, Paths: true, Roots: root, RootDepth: depth}, func() *cohorts { return newCohorts(p) })
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.slow {
		list = append(list, c.text(&c.slow[i]))
	}
	return list
}

// text returns what an invocation did.
func (c *cohorts) text(v *rootCall) string {
	var did []string
	for _, w := range v.visits {
		did = append(did, fmt.Sprint(c.places.tree.functions(w.node), w.calls, w.self, w.hole.ticks(), w.off, w.block, w.faulted))
	}
	for _, a := range v.args {
		did = append(did, fmt.Sprint(a))
	}
	slices.Sort(did)
	return fmt.Sprint(v.start, v.duration, did)
}

// With each call of the root, what a call did is the same as with those of its depth.
func TestEveryRoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawThread(t, false)
		lock := rapid.Bool().Draw(t, "lock")
		var want []string
		for depth := 1; depth <= 80; depth++ {
			want = append(want, slowOf(t, b, depth, lock)...)
		}
		got := slowOf(t, b, calls.EveryRoot, lock)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// inBlocks is a source of the events of a thread in blocks of a size.
type inBlocks struct {
	*oneThread
	size int
}

func (s inBlocks) Each(_ int, fn func(int, *reader.Block) error) error {
	args, payloads := s.Args, s.Payloads
	for from := 0; from < len(s.Events); from += s.size {
		b := reader.Block{Events: slices.Clone(s.Events[from:min(from+s.size, len(s.Events))])}
		for ; len(args) > 0 && args[0].Event < from+s.size; args = args[1:] {
			b.Args = append(b.Args, reader.Arg{Event: args[0].Event - from, Value: args[0].Value})
		}
		for ; len(payloads) > 0 && payloads[0].Event < from+s.size; payloads = payloads[1:] {
			b.Payloads = append(b.Payloads, reader.Payload{Event: payloads[0].Event - from, Data: payloads[0].Data})
		}
		if err := fn(0, &b); err != nil {
			return err
		}
	}
	return nil
}

// Invocations that are neither slow nor usual are not examined. What the others did does not depend on that, however
// the calls come.
func TestIgnoredInvocations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawThread(t, true)
		low := rapid.Uint64Range(0, 20).Draw(t, "low")
		high := low + rapid.Uint64Range(0, 20).Draw(t, "usual")
		slow := high + 1 + rapid.Uint64Range(0, 20).Draw(t, "gap")
		lock := rapid.Bool().Draw(t, "lock")
		find := func(size int, p plan) *cohorts {
			p.root, p.rootFunc, p.keep, p.offCPU = func(fn reader.FuncID) bool { return fn == 1 }, 1, math.MaxUint64, true
			if lock {
				p.locks = map[reader.FuncID]bool{3: true}
			}
			o := calls.Options{Shards: 1, Paths: true, Roots: p.root, OffCPU: &reader.Clock{Frequency: 1_000_000_000}}
			c, _, err := calls.Run(inBlocks{b, size}, o, func() *cohorts { return newCohorts(&p) })
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		all := find(80, plan{}) // all are slow
		var wantSlow []string
		self, count := uint64(0), uint64(0) // of the usual ones
		for i := range all.slow {
			switch v := &all.slow[i]; {
			case v.own() >= slow || v.duration >= slow:
				wantSlow = append(wantSlow, fmt.Sprint(v.index, all.text(v)))
			case v.own() >= low && v.own() <= high:
				count++
				for _, w := range v.visits {
					self += w.self
				}
			}
		}
		for _, size := range []int{1, 2, 3, 7, 80} {
			c := find(size, plan{low: low, median: high, high: high, slow: slow, ownSlow: slow})
			var gotSlow []string
			for i := range c.slow {
				gotSlow = append(gotSlow, fmt.Sprint(c.slow[i].index, c.text(&c.slow[i])))
			}
			if diff := cmp.Diff(wantSlow, gotSlow); diff != "" {
				t.Fatalf("blocks of %d (-want +got):\n%s", size, diff)
			}
			got := uint64(0)
			for _, p := range c.usual.paths {
				got += p.self
			}
			if c.usual.count != count || got != self {
				t.Fatalf("blocks of %d: got %d usual calls with %d ticks, want %d with %d", size, c.usual.count, got, count, self)
			}
		}
	})
}
