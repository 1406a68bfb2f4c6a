package sched_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xray-tools/xray/internal/test/schedtrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// collecting collects wakes. It merges shards as an analysis with paths does.
type collecting struct {
	*sched.Collector
	paths *calls.Paths
}

func (c *collecting) Calls(b *calls.Batch) error {
	c.paths = b.Paths
	return c.Collector.Calls(b)
}

func (c *collecting) Merge(o *collecting) {
	if c.paths == nil {
		c.paths = calls.NewPaths()
	}
	c.Collector.Merge(o.Collector, c.paths.Remap(o.paths))
}

// Blocked time is divided by what ended it, and goes to the path in which the waker was.
func TestWakes(t *testing.T) {
	t.Parallel()
	trace := schedtrace.Open(t, []string{
		// Thread 1 is in 10>11 at 300, when it wakes thread 2, and in 10 at 700, when it wakes it again.
		"100 +10 200 +11 400 -11 900 -10",
		// Thread 2 waits in 20 until 300, 700, for another process until 1200, and for an interrupt until 1600.
		"110 +20 310 !150/10 710 !250/10 1210 !100/10 1610 !60/10 2000 -20",
	}, []schedtrace.Sleep{
		{Thread: 2, Out: 160, Woken: 300, In: 310, By: 1},
		{Thread: 2, Out: 460, Woken: 700, In: 710, By: 1},
		{Thread: 2, Out: 1110, Woken: 1200, In: 1210},
		{Thread: 2, Out: 1550, Woken: 1600, In: 1610, By: 1, Flags: reader.WokenByInterrupt},
	})
	clock := reader.Clock{Frequency: 1e9}
	type wake struct {
		Path, Waker string
		By          sched.By
		Ticks       uint64
	}
	want := []wake{
		{">k", ">a", sched.ByThread, 240}, {">k", ">a>b", sched.ByThread, 140},
		{">k", "", sched.ByProcess, 90}, {">k", "", sched.ByInterrupt, 50},
	}
	for shards := 1; shards <= 2; shards++ {
		sink, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: shards, Paths: true, OffCPU: &clock}, func() *collecting {
			return &collecting{sched.NewCollector(sched.NewLogs(trace)), nil}
		})
		if err != nil {
			t.Fatal(err)
		}
		pathOf := func(id calls.PathID) (text string) {
			for ; id != 0; id = sink.paths.Parent(id) {
				text = ">" + string('a'+rune(sink.paths.Func(id))-10) + text
			}
			return text
		}
		var got []wake
		for _, w := range sink.Wakes() {
			got = append(got, wake{pathOf(w.Path), pathOf(w.Waker), w.By, w.Ticks})
		}
		order := cmpopts.SortSlices(func(a, b wake) bool { return a.Ticks > b.Ticks })
		if diff := cmp.Diff(want, got, order); diff != "" {
			t.Errorf("%d shards: %s", shards, diff)
		}
	}
}

// Threads of other processes have no events, and nil logs have none.
func TestWakersOfOthers(t *testing.T) {
	t.Parallel()
	trace := schedtrace.Open(t, []string{"100 +10 900 -10", "100 +20 900 -20"}, []schedtrace.Sleep{{Thread: 2, Out: 200, Woken: 300, In: 310, By: 1}})
	logs, own := sched.NewLogs(trace), reader.Thread{Process: 7, Thread: 2}
	off := logs.Off(own, 0, 1000)
	if len(off) != 1 {
		t.Fatalf("got %v", off)
	}
	if waker, by := logs.Waker(own, &off[0]); by != sched.ByThread || waker.Thread != 1 || waker.Process != 7 {
		t.Errorf("got waker %v, %v", waker, by)
	}
	if got := logs.Wakeups(reader.Thread{Process: 7, Thread: 1}); len(got) != 1 || got[0] != 300 {
		t.Errorf("got wake-ups %v", got)
	}
	for _, l := range []*sched.Logs{nil, logs} {
		other := reader.Thread{Process: 8, Thread: 2}
		if waker, by := l.Waker(other, &off[0]); by != sched.ByUnknown || waker != (reader.Thread{}) || l.Off(other, 0, 1000) != nil || l.Wakeups(other) != nil {
			t.Errorf("another process: %v, %v", waker, by)
		}
	}
	if sched.NewLogs(schedtrace.Open(t, []string{"100 +10 900 -10"}, nil)) != nil {
		t.Error("a trace without events has logs")
	}
}
