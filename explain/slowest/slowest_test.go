package slowest_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/internal/test/texttrace"
	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

func generated(t *testing.T) *reader.Trace {
	t.Helper()
	var log bytes.Buffer
	opts := tracegen.Options{Format: tracegen.FDR, Records: 60_000, Threads: 5, Functions: 100, Open: true}
	if _, err := tracegen.Generate(&log, opts); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(log.Bytes()), int64(log.Len()), "trace")
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// outermost lists the calls of functions that fn divides, without calls nested in another one, by
// brute force.
type outermost struct {
	fn   reader.FuncID
	list []slowest.Slow
}

func (o *outermost) Calls(b *calls.Batch) error {
	for _, c := range b.Calls {
		inside := false
		for _, fn := range b.Paths.Frames(nil, b.Paths.Parent(c.Path)) {
			inside = inside || fn%o.fn == 0
		}
		if c.Func%o.fn == 0 && !inside && c.End != calls.Truncated {
			o.list = append(o.list, slowest.Slow{Thread: b.Thread, Root: c.Func, Start: c.Start, Duration: c.Duration})
		}
	}
	return nil
}

func (o *outermost) Merge(*outermost) {}

func run[S calls.Analysis[S]](t *testing.T, trace *reader.Trace, shards int, newSink func() S) S {
	t.Helper()
	sink, _, err := calls.Run(trace, calls.Options{Shards: shards, Paths: true}, newSink)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func report(t *testing.T, trace *reader.Trace, shards int, opts slowest.Options) *slowest.Report {
	found := run(t, trace, shards, func() *slowest.Search { return slowest.NewSearch(opts) }).Found()
	return run(t, trace, shards, func() *slowest.Trees { return slowest.NewTrees(found) }).Report(reader.Clock{Frequency: tracegen.Frequency})
}

// The slowest calls and their numbers match a brute-force search, and their trees account for all
// of their time.
func TestSlowest(t *testing.T) {
	trace := generated(t)
	all := run(t, trace, 1, func() *outermost { return &outermost{fn: 3} }).list
	slices.SortFunc(all, func(a, b slowest.Slow) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Thread.Thread, b.Thread.Thread))
	})
	for i := range all {
		all[i].Number = uint64(i + 1)
	}
	opts := slowest.Options{Root: func(id reader.FuncID) bool { return id%3 == 0 }, Top: 20}
	got := report(t, trace, 2, opts)
	if got.Invocations != uint64(len(all)) {
		t.Errorf("got %d invocations, want %d", got.Invocations, len(all))
	}
	want := slices.Clone(all)
	slices.SortStableFunc(want, func(a, b slowest.Slow) int { return cmp.Compare(b.Duration, a.Duration) })
	for i, s := range got.Slowest {
		sum := uint64(0)
		for _, row := range s.Rows {
			sum += row.Self
		}
		if sum != s.Duration || s.Rows[0].Total != s.Duration || len(s.Rows) < 2 {
			t.Errorf("%d: got %d rows with self times of %d of %d ticks, root total %d", i, len(s.Rows), sum, s.Duration, s.Rows[0].Total)
		}
		s.Rows = nil
		if diff := gocmp.Diff(want[i], s); diff != "" {
			t.Errorf("%d (-want +got):\n%s", i, diff)
		}
	}
	if len(got.Slowest) != opts.Top {
		t.Errorf("got %d slowest calls", len(got.Slowest))
	}
}

// Usual values are means over the usual invocations: the roots' values add up to the mean duration.
func TestUsualTimesAddUp(t *testing.T) {
	trace := generated(t)
	r := report(t, trace, 1, slowest.Options{Root: matchRoot(t, trace), Top: 1})
	row := r.Slowest[0].Rows[0]
	mean := float64(r.Usual.Duration) / float64(r.Usual.Count)
	if row.UsualCalls != 1 || row.UsualTotal != mean || row.UsualSelf > row.UsualTotal || r.Usual.Count < r.Invocations/2 {
		t.Errorf("got root %+v, mean %g, %d of %d usual", row, mean, r.Usual.Count, r.Invocations)
	}
}

// Of several calls, the slowest is not usual.
func TestSlowestIsNotUsual(t *testing.T) {
	for _, c := range []struct {
		durations   []int
		count, mean uint64
	}{
		{[]int{70}, 1, 70},
		{[]int{10, 70}, 1, 10},
		{[]int{70, 10, 20}, 2, 15},
		{[]int{10, 20, 70, 30}, 2, 25},
		{[]int{10, 70, 20, 30, 40}, 3, 30},
		{[]int{10, 10, 10}, 2, 10},
	} {
		var text strings.Builder
		text.WriteString("xray fdr frequency=1000000000\nthread 7 tsc=1000\n")
		for _, d := range c.durations {
			fmt.Fprintf(&text, "enter 1 +0\nexit 1 +%d\n", d)
		}
		trace := texttrace.Open(t, text.String())
		got := report(t, trace, 1, slowest.Options{Root: func(reader.FuncID) bool { return true }, Top: 1}).Usual
		if got.Count != c.count || got.Duration != c.count*c.mean {
			t.Errorf("%v: got %+v, want %d calls with a mean of %d", c.durations, got, c.count, c.mean)
		}
	}
}

// matchRoot selects a function that has no caller.
func matchRoot(t *testing.T, trace *reader.Trace) func(reader.FuncID) bool {
	list := run(t, trace, 1, func() *outermost { return &outermost{fn: 1} }).list
	return func(id reader.FuncID) bool { return id == list[0].Root }
}

func TestShardingChangesNothing(t *testing.T) {
	trace := generated(t)
	for _, perThread := range []bool{false, true} {
		opts := slowest.Options{Root: matchRoot(t, trace), Top: 2, PerThread: perThread}
		one := report(t, trace, 1, opts)
		if diff := gocmp.Diff(one, report(t, trace, 4, opts)); diff != "" {
			t.Errorf("(-1 shard +4):\n%s", diff)
		}
		if want := 2; !perThread && len(one.Slowest) != want || perThread && len(one.Slowest) != want*one.Threads {
			t.Errorf("got %d calls of %d threads", len(one.Slowest), one.Threads)
		}
	}
}

// A census finds the time of an invocation by its number.
func TestCensusFindsNumbers(t *testing.T) {
	trace := generated(t)
	opts := slowest.Options{Root: func(id reader.FuncID) bool { return id%3 == 0 }, Top: 10}
	for _, s := range report(t, trace, 1, opts).Slowest {
		part := slowest.Part{To: 0}
		n, passes := s.Number, 0
		for ; part.To != part.From+1 && passes < 5; passes++ {
			census := slowest.Options{Root: opts.Root, From: part.From, To: part.To}
			c := run(t, trace, 2, func() *slowest.Census { return slowest.NewCensus(census, 1<<62) })
			part = c.Part(n)
			n -= part.Before
			if part.Count == 0 || n == 0 || n > part.Count || s.Start < part.From || part.To != 0 && s.Start >= part.To {
				t.Fatalf("number %d at %d: got number %d of %+v", s.Number, s.Start, n, part)
			}
		}
		if part.From != s.Start {
			t.Errorf("number %d: want start %d, got %d after %d passes", s.Number, s.Start, part.From, passes)
		}
	}
}
