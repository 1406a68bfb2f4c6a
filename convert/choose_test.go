package convert

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// chosen is a trace of which only some records are read.
type chosen struct {
	*reader.Trace
	filter calls.Filter
}

func (c chosen) Each(_ int, fn func(int, *reader.Block) error) error {
	choose := ChooseRecords(c.filter)
	return c.Trace.Each(1, func(_ int, b *reader.Block) error { return fn(0, choose(b)) })
}

func (c chosen) EachPacked(n int, fn func(int, *reader.Block) error) error { return c.Each(n, fn) }

// callList lists calls. It omits the durations of calls without an exit, because they depend on
// other calls.
type callList []string

func (l *callList) Calls(b *calls.Batch) error {
	for _, c := range b.Calls {
		duration := c.Duration
		if c.End == calls.Truncated {
			duration = 0
		}
		*l = append(*l, fmt.Sprint(b.Thread, c.Start, duration, c.Func, c.End, c.Args))
	}
	return nil
}

func (l *callList) Merge(*callList) {}

// The chosen records contain exactly the calls that the filter chooses.
func TestChosenRecordsMakeChosenCalls(t *testing.T) {
	var log bytes.Buffer
	if _, err := tracegen.Generate(&log, tracegen.Options{Format: tracegen.FDR, Records: 50_000, Threads: 3, Functions: 100, Open: true}); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(log.Bytes()), int64(log.Len()), "trace")
	if err != nil {
		t.Fatal(err)
	}
	run := func(src calls.Source, f calls.Filter) (list callList, stats *calls.Stats) {
		_, stats, err := calls.Run(src, calls.Options{Shards: 1, Filter: f}, func() *callList { return &list })
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(list)
		return list, stats
	}
	all, _ := run(trace, calls.Filter{})
	odd := func(id reader.FuncID) bool { return id%2 == 1 }
	for name, filter := range map[string]calls.Filter{
		"func": {Func: odd}, "depth": {MaxDepth: 3},
		"thread": {Thread: func(t reader.Thread) bool { return t.Thread%2 == 0 }},
		"all":    {Func: odd, MaxDepth: 6},
	} {
		want, _ := run(trace, filter)
		if len(want) == 0 || len(want) == len(all) {
			t.Fatalf("%s: %d of %d calls are chosen, so the test checks nothing", name, len(want), len(all))
		}
		got, stats := run(chosen{trace, filter}, calls.Filter{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-chosen calls +calls of chosen records):\n%.2000s", name, diff)
		}
		if stats.Unmatched > 0 {
			t.Errorf("%s: got %d exits without entry, want none", name, stats.Unmatched)
		}
	}
	if ChooseRecords(calls.Filter{MinDuration: 5}) != nil {
		t.Error("a filter without criteria chooses records")
	}
}

// An exit without an entry belongs to a call that began before the trace. The search for it is
// short even in deep stacks.
func TestChooseRecordsOddly(t *testing.T) {
	deep := &reader.Block{Events: []reader.Event{{TSC: 5, Func: 9, Kind: reader.Exit}}}
	for range 100_000 {
		deep.Events = append(deep.Events, reader.Event{TSC: 10, Func: 1})
	}
	for range 100_000 {
		deep.Events = append(deep.Events, reader.Event{TSC: 10, Func: 9, Kind: reader.Exit})
	}
	for range 2 {
		deep.Events = append(deep.Events, reader.Event{TSC: 10, Func: 1, Kind: reader.TailExit})
	}
	for _, test := range []struct {
		filter calls.Filter
		want   int
	}{
		{calls.Filter{Func: func(id reader.FuncID) bool { return id == 1 }}, 100_002},
		{calls.Filter{Func: func(id reader.FuncID) bool { return id == 9 }}, 100_001},
		{calls.Filter{MaxDepth: 1}, 2},
	} {
		if got := ChooseRecords(test.filter)(deep); len(got.Events) != test.want {
			t.Errorf("%+v: got %d events, want %d", test.filter, len(got.Events), test.want)
		}
	}
}
