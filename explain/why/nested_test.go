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
	for _, v := range c.slow {
		var did []string
		for _, w := range v.visits {
			did = append(did, fmt.Sprint(c.places.tree.functions(w.node), w.calls, w.self, w.hole.ticks()))
		}
		for _, a := range v.args {
			did = append(did, fmt.Sprint(a))
		}
		slices.Sort(did)
		list = append(list, fmt.Sprint(v.start, v.duration, did))
	}
	return list
}

// With each call of the root, what a call did is the same as with those of its depth.
func TestEveryRoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := new(oneThread)
		var open []reader.FuncID
		tsc := uint64(0)
		for i := range rapid.IntRange(0, 80).Draw(t, "events") {
			tsc += rapid.Uint64Range(0, 5).Draw(t, "delta")
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
