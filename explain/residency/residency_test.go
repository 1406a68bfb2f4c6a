package residency_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/explain/residency"
	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

var names = testnames.Names{1: "main", 2: "serve", 3: "lock", 4: "work", 5: "idle"}

const (
	span = 500
	gap  = 7
)

func waits(fn reader.FuncID) bool { return fn == 3 }

// program is the events of threads. It implements calls.Source.
type program [][]reader.Event

// Each implements calls.Source.
func (p program) Each(n int, fn func(int, *reader.Block) error) error {
	for i, events := range p {
		for from := 0; from < len(events); from += 7 {
			b := reader.Block{Thread: reader.Thread{Process: 7, Thread: int32(i + 1)}, Index: i, Events: events[from:min(from+7, len(events))]}
			if err := fn(i%n, &b); err != nil {
				return err
			}
		}
	}
	return nil
}

// random generates threads whose calls all return. Events have distinct times, so each tick has one
// state.
func random(rng *rand.Rand, threads int) program {
	p := make(program, threads)
	for i := range p {
		var open []reader.FuncID
		now := uint64(1 + rng.IntN(50))
		for now < span-60 {
			if len(open) > 0 && rng.IntN(2) == 0 {
				p[i] = append(p[i], reader.Event{TSC: now, Func: open[len(open)-1], Kind: reader.Exit})
				open = open[:len(open)-1]
			} else if len(open) < 6 {
				fn := reader.FuncID(1 + rng.IntN(5))
				p[i] = append(p[i], reader.Event{TSC: now, Func: fn})
				open = append(open, fn)
			}
			now += 1 + uint64(rng.IntN(1+rng.IntN(40)))
		}
		for ; len(open) > 0; open = open[:len(open)-1] {
			p[i] = append(p[i], reader.Event{TSC: now, Func: open[len(open)-1], Kind: reader.Exit})
			now++
		}
	}
	return p
}

// sums counts a thread's states tick by tick.
func (p program) sums(i int, from, to uint64, looked func(reader.FuncID) bool) (ticks map[residency.State]uint64) {
	ticks = make(map[residency.State]uint64)
	var open []reader.FuncID
	last := p[i][0].TSC
	for _, e := range p[i] {
		state := residency.Absent
		inside := false
		for _, fn := range open {
			if state != residency.Waiting && state != residency.Busy {
				state = residency.Other
			}
			inside = inside || looked(fn)
			switch {
			case waits(fn):
				state = residency.Waiting
			case inside && state != residency.Waiting:
				state = residency.Busy
			}
			if state == residency.Waiting {
				break
			}
		}
		start, end := min(max(last, from), to), max(from, min(e.TSC, to))
		if state != residency.Absent && state != residency.Waiting && end > start+gap {
			state = residency.Silent
		}
		ticks[state] += end - min(start, end)
		last = e.TSC
		if e.Kind == reader.Enter {
			open = append(open, e.Func)
		} else {
			open = open[:len(open)-1]
		}
	}
	return ticks
}

func analyze(t testing.TB, src calls.Source, shards int, opts residency.Options) *residency.Report {
	sink, _, err := calls.Run(src, calls.Options{Shards: shards, Paths: true}, func() *residency.Analysis { return residency.New(opts) })
	if err != nil {
		t.Fatal(err)
	}
	return sink.Report(reader.Clock{Frequency: 1_000_000_000})
}

// Every tick has the state that sums finds, the cells cover all of the time, and sharding changes
// nothing.
func TestTimesAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := random(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)), rapid.IntRange(1, 6).Draw(rt, "threads"))
		opts := residency.Options{To: span, Wait: waits, Gap: gap, Cells: rapid.IntRange(1, 600).Draw(rt, "cells"), Top: 5}
		looked := func(reader.FuncID) bool { return true }
		if rapid.Bool().Draw(rt, "some") {
			looked = func(fn reader.FuncID) bool { return fn == 2 || fn == 4 }
			opts.Func = looked
		}
		if rapid.Bool().Draw(rt, "cut") {
			opts.From = rapid.Uint64Range(0, 200).Draw(rt, "from")
			opts.To = rapid.Uint64Range(opts.From+1, span).Draw(rt, "to")
		}
		r := analyze(t, p, 1, opts)
		for _, th := range r.Threads {
			got := make(map[residency.State]uint64)
			for s, ticks := range th.Ticks {
				if ticks > 0 {
					got[residency.State(s)] = ticks
				}
			}
			want := p.sums(int(th.Thread.Thread)-1, opts.From, opts.To, looked)
			for s, ticks := range want {
				if ticks == 0 {
					delete(want, s)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Errorf("thread %d (-want +got):\n%s", th.Thread.Thread, diff)
			}
			at := opts.From
			for _, run := range th.Runs() {
				if run.Start != at {
					rt.Errorf("a run begins at %d, but the one before ends at %d", run.Start, at)
				}
				at += run.Ticks
			}
			if at != opts.To {
				rt.Errorf("runs end at %d, want %d", at, opts.To)
			}
		}
		if got, want := written(t, p, 3, opts), written(t, p, 1, opts); got != want {
			rt.Errorf("(-1 shard +3):\n%s", cmp.Diff(want, got))
		}
	})
}

func written(t testing.TB, src calls.Source, shards int, opts residency.Options) string {
	r := analyze(t, src, shards, opts)
	var b bytes.Buffer
	doc := &report.Doc{Clock: r.Clock, Names: names, Body: r.Body(names, residency.View{})}
	for _, format := range report.Formats {
		if err := doc.Write(&b, report.Style{Format: format}); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// With cells of one tick, the report shows exactly what the thread did.
func TestFineCells(t *testing.T) {
	const enter, exit = reader.Enter, reader.Exit
	p := program{{
		{TSC: 10, Func: 1, Kind: enter}, {TSC: 12, Func: 2, Kind: enter}, {TSC: 30, Func: 2, Kind: exit}, {TSC: 31, Func: 3, Kind: enter},
		{TSC: 50, Func: 3, Kind: exit}, {TSC: 52, Func: 1, Kind: exit}, {TSC: 70, Func: 4, Kind: enter}, {TSC: 73, Func: 4, Kind: exit},
	}}
	r := analyze(t, p, 1, residency.Options{From: 10, To: 80, Wait: waits, Gap: 10, Cells: 70, Top: 3})
	want := []residency.Run{
		{State: residency.Busy, Func: 1, Start: 10, Ticks: 2, Cells: 2}, {State: residency.Silent, Func: 1, Start: 12, Ticks: 18, Cells: 18},
		{State: residency.Busy, Func: 1, Start: 30, Ticks: 1, Cells: 1}, {State: residency.Waiting, Func: 1, Start: 31, Ticks: 19, Cells: 19},
		{State: residency.Busy, Func: 1, Start: 50, Ticks: 2, Cells: 2}, {State: residency.Absent, Start: 52, Ticks: 18, Cells: 18},
		{State: residency.Busy, Func: 4, Start: 70, Ticks: 3, Cells: 3}, {Start: 73, Ticks: 7, Cells: 7},
	}
	if diff := cmp.Diff(want, r.Threads[0].Runs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	th := reader.Thread{Process: 7, Thread: 1}
	gaps := []residency.Gap{
		{Thread: th, State: residency.Silent, Start: 12, Ticks: 18, Func: 2}, {Thread: th, State: residency.Absent, Start: 52, Ticks: 18, Func: 1, Next: 4},
	}
	if diff := cmp.Diff(gaps, r.Gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
}

// A stall is a time in which at least half of the live threads, and at least two, record nothing.
func TestStalls(t *testing.T) {
	silent := func(from, to uint64) []reader.Event {
		events := []reader.Event{{TSC: 0, Func: 1}}
		for now := uint64(5); now < 1000; now += 5 {
			if now <= from || now >= to {
				events = append(events, reader.Event{TSC: now, Func: 4}, reader.Event{TSC: now + 1, Func: 4, Kind: reader.Exit})
			}
		}
		return append(events, reader.Event{TSC: 1000, Func: 1, Kind: reader.Exit})
	}
	p := program{silent(100, 200), silent(150, 300), silent(400, 500), silent(160, 180)}
	r := analyze(t, p, 2, residency.Options{To: 1000, Gap: 15, Cells: 10, Top: 3})
	// The silences begin after the exits, at 101, 151, 401 and 161.
	want := []residency.Stall{{Start: 151, Ticks: 49, Silent: 3, Alive: 4}}
	if diff := cmp.Diff(want, r.Stalls); diff != "" || r.Stalled.Count != 1 || r.Stalled.Ticks != 49 {
		t.Errorf("%+v (-want +got):\n%s", r.Stalled, diff)
	}
	if r := analyze(t, p[:1], 1, residency.Options{To: 1000, Gap: 15, Cells: 10, Top: 3}); len(r.Stalls) > 0 {
		t.Errorf("unexpected stalls of a single thread: %+v", r.Stalls)
	}
}

// Whatever the records are, the analysis ends and its sums stay within the threads' lifetimes.
func TestHostileEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		event := rapid.Custom(func(t *rapid.T) reader.Event {
			return reader.Event{
				TSC: rapid.OneOf(rapid.Uint64Range(0, 100), rapid.Uint64()).Draw(t, "tsc"), Func: reader.FuncID(rapid.IntRange(0, 5).Draw(t, "func")),
				Kind: reader.Kind(rapid.IntRange(0, 2).Draw(t, "kind")),
			}
		})
		p := program{rapid.SliceOfN(event, 1, 30).Draw(rt, "a"), rapid.SliceOfN(event, 1, 30).Draw(rt, "b")}
		from := rapid.OneOf(rapid.Uint64Range(0, 50), rapid.Uint64()).Draw(rt, "from")
		opts := residency.Options{
			From: from, To: rapid.Uint64Min(from).Draw(rt, "to"), Wait: waits, Gap: gap, Cells: rapid.IntRange(1, 100).Draw(rt, "cells"), Top: 2,
		}
		for _, th := range analyze(t, p, 1, opts).Threads {
			sum := uint64(0)
			for _, ticks := range th.Ticks {
				sum += ticks
			}
			if sum != th.Last-th.First {
				rt.Errorf("got states for %d of %d ticks: %v", sum, th.Last-th.First, th.Ticks)
			}
		}
		written(t, p, 2, opts)
	})
}
