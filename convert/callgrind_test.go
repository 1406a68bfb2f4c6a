package convert

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// totals are the times in which at least one call of a function was open.
type totals map[reader.FuncID]uint64

func (s totals) Calls(b *calls.Batch) error {
	for _, c := range b.Calls {
		if !c.Nested {
			s[c.Func] += c.Duration
		}
	}
	return nil
}

func (s totals) Merge(totals) {}

// A function's self time and the times of its callees add up to its total time, even with
// recursion.
func TestCallgrindTotals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var source oneThread
		tsc := uint64(1000)
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			tsc += rapid.Uint64Range(0, 50).Draw(t, "delta")
			source = append(source, reader.Event{
				TSC: tsc, Func: reader.FuncID(rapid.IntRange(1, 4).Draw(t, "func")),
				Kind: rapid.SampledFrom([]reader.Kind{reader.Enter, reader.Enter, reader.Exit}).Draw(t, "kind"),
			})
		}
		got, _, err := calls.Run(source, calls.Options{Shards: 1, Opens: true}, func() *Callgrind { return NewCallgrind(Options{}) })
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := calls.Run(source, calls.Options{Shards: 1, Nested: true}, func() totals { return totals{} })
		if err != nil {
			t.Fatal(err)
		}
		for fn, self := range got.self {
			inclusive := *self
			for e, edge := range got.edges {
				if e.caller == fn {
					inclusive += edge.ticks
				}
			}
			if inclusive != want[fn] {
				t.Fatalf("function %d: got inclusive time %d, want %d, in %v", fn, inclusive, want[fn], source)
			}
		}
		for e, edge := range got.edges {
			if e.caller == e.callee && edge.ticks != 0 || edge.ticks > tsc-1000 || edge.calls == 0 {
				t.Fatalf("%+v: got %+v", e, *edge)
			}
		}
		// Sums by path give the same result.
		sums := &calls.Sums{}
		tree := map[[2]int]int{} // by parent and function
		var addUp collectSums = func(depth uint32, c calls.Call, stack []reader.FuncID) {
			parent := -1
			for k, fn := range append(stack[:depth:depth], c.Func) {
				at, known := tree[[2]int{parent, int(fn)}]
				if !known {
					at = len(sums.Paths)
					tree[[2]int{parent, int(fn)}] = at
					sum := calls.Sum{Func: fn, Parent: parent, Depth: uint32(k)}
					if parent >= 0 {
						sum.Caller = sums.Paths[parent].Func
					}
					sums.Paths = append(sums.Paths, sum)
				}
				parent = at
			}
			sums.Paths[parent].Count++
			sums.Paths[parent].Total += c.Duration
			sums.Paths[parent].Self += c.Self
			if slices.Contains(stack[:depth], c.Func) {
				sums.Paths[parent].Nested += c.Duration
			}
		}
		if _, _, err := calls.Run(source, calls.Options{Shards: 1, Opens: true}, func() *stackedCalls { return &stackedCalls{call: addUp} }); err != nil {
			t.Fatal(err)
		}
		again := NewCallgrind(Options{})
		if err := again.Sums(sums); err != nil {
			t.Fatal(err)
		}
		for e, edge := range got.edges {
			if other := again.edges[e]; other == nil || *other != *edge {
				t.Fatalf("%+v: got %+v by call, %+v by path", e, *edge, other)
			}
		}
	})
}

// oneThread is a calls.Source with one thread.
type oneThread []reader.Event

func (s oneThread) Each(_ int, fn func(int, *reader.Block) error) error {
	return fn(0, &reader.Block{Thread: reader.Thread{Process: 1, Thread: 2}, Events: s})
}

type collectSums func(depth uint32, c calls.Call, stack []reader.FuncID)

// stackedCalls passes on each call with the functions of its callers.
type stackedCalls struct {
	stack []reader.FuncID
	call  collectSums
}

func (s *stackedCalls) Calls(b *calls.Batch) error {
	b.Replay(
		func(o *calls.Open) { s.stack = append(s.stack[:o.Depth], o.Func) },
		func(c *calls.Call, _ []calls.Arg) { s.call(c.Depth, *c, s.stack) },
		func(*calls.Event) {})
	return nil
}

func (s *stackedCalls) Merge(*stackedCalls) {}
