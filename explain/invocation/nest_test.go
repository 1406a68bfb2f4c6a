package invocation

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// oneThread is a source of the events of a thread.
type oneThread []reader.Event

func (o oneThread) Each(_ int, fn func(int, *reader.Block) error) error {
	return fn(0, &reader.Block{Events: o})
}

// seen collects invocations as text.
type seen struct {
	*Tracker
	list []string
}

func (s *seen) Merge(o *seen) { s.list = append(s.list, o.list...) }

// found returns the invocations of function 1 at a depth.
func found(t *rapid.T, events []reader.Event, depth int) []string {
	root := func(fn reader.FuncID) bool { return fn == 1 }
	s, _, err := calls.Run(oneThread(events), calls.Options{Shards: 1, Paths: true, Roots: root, RootDepth: depth}, func() *seen {
		s := new(seen)
		s.Tracker = NewTracker(Options{Root: root, Paths: true, Nested: depth == calls.EveryRoot}, func(v *Invocation, _ bool) {
			var paths []string
			for _, p := range v.Paths {
				paths = append(paths, fmt.Sprint(s.Tree.Frames(nil, p.ID), p.Calls, p.Self, p.First))
			}
			slices.Sort(paths)
			s.list = append(s.list, fmt.Sprint(v.Start, v.Duration, paths))
		})
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.list
}

// Each call of a root has what it has among those of its depth.
func TestEveryRoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var events []reader.Event
		var open []reader.FuncID
		tsc := uint64(0)
		for range rapid.IntRange(0, 80).Draw(t, "events") {
			tsc += rapid.Uint64Range(0, 5).Draw(t, "delta")
			if n := len(open); n > 0 && rapid.Bool().Draw(t, "exit") {
				events = append(events, reader.Event{TSC: tsc, Kind: reader.Exit, Func: open[n-1]})
				open = open[:n-1]
				continue
			}
			fn := reader.FuncID(rapid.IntRange(1, 3).Draw(t, "func"))
			events = append(events, reader.Event{TSC: tsc, Kind: reader.Enter, Func: fn})
			open = append(open, fn)
		}
		var want []string
		for depth := 1; depth <= 80; depth++ {
			want = append(want, found(t, events, depth)...)
		}
		got := found(t, events, calls.EveryRoot)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}
