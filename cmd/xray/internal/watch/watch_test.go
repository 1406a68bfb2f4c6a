package watch

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/live"
)

// script is a process whose clock ticks once a microsecond. Each Read takes one round.
type script struct {
	rounds  [][]live.RootCall
	now     []uint64 // Newest after each round
	oldest  []uint64 // open calls after each round; may be nil
	round   int
	written []string
}

func (s *script) Read(_ context.Context, each func(live.RootCall)) (live.State, error) {
	for _, c := range s.rounds[s.round] {
		each(c)
	}
	s.round++
	state := live.State{}
	if s.oldest != nil {
		state.Oldest = s.oldest[s.round-1]
	}
	return state, nil
}

func (s *script) NoteWaits() int { return 0 }

func (s *script) Newest() uint64 { return s.now[s.round-1] }

func (s *script) Recording() *reader.Recording {
	return &reader.Recording{Process: reader.Process{PID: 7}, Clock: reader.RecordedClock{Frequency: 1e6, Anchors: []reader.Anchor{{TSC: 0, Real: uint64(noon.UnixNano())}}}}
}

func (s *script) WriteTrace(_ io.Writer, from, to uint64, edit func(*reader.Recording)) error {
	r := s.Recording()
	edit(r)
	s.written = append(s.written, fmt.Sprintf("%d to %d: %+v", from, to, *r.Process.Watched))
	return nil
}

func run(t *testing.T, s *script, limits Limits, o Options) (*watcher, []Entry) {
	t.Helper()
	var entries []Entry
	o.Root, o.Name = "root", func(reader.FuncID) string { return "root" }
	o.Written = func(_ string, e *Entry) { entries = append(entries, *e) }
	o.Failed = func(err error) { t.Error(err) }
	w := newWatcher(s, open(t, t.TempDir(), limits), o)
	for range s.rounds {
		if _, err := w.round(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return w, entries
}

func call(start, end uint64) live.RootCall {
	return live.RootCall{Func: 1, TID: 3, Start: start, End: end}
}

func TestWatcher(t *testing.T) {
	s := &script{
		rounds: [][]live.RootCall{
			{call(100, 200)},          // not slow
			{call(5000, 6001)},        // slow; its margin has not passed
			{call(6300, 6400)},        //
			{call(5500, 7000)},        // slow, and open when the first one ended
			{},                        // the margin of both has passed
			{call(20000, 25000)},      // slow; its margin has passed already
			{call(7100, 9000)},        // began before the end of the first trace
			{},                        //
			{call(25100, 26000+1000)}, // begins right after the previous trace
			{},
		},
		now: []uint64{210, 6100, 6450, 7100, 7500, 26000, 26100, 26200, 27000, 27500},
	}
	w, entries := run(t, s, Limits{}, Options{Over: time.Millisecond, Margin: 500 * time.Microsecond})
	want := []string{
		"4500 to 7500: {Root:root OverNS:1000000 UsualFromNS:0 UsualToNS:0}",
		"19500 to 25500: {Root:root OverNS:1000000 UsualFromNS:0 UsualToNS:0}",
		"7100 to 9500: {Root:root OverNS:1000000 UsualFromNS:0 UsualToNS:0}",
		"25100 to 27500: {Root:root OverNS:1000000 UsualFromNS:0 UsualToNS:0}",
	}
	if diff := cmp.Diff(want, s.written); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(stats{Calls: 7, Slow: 5, Traces: 4}, w.Stats); diff != "" {
		t.Error(diff)
	}
	if len(entries) != 4 {
		t.Fatalf("%d entries", len(entries))
	}
	first := Entry{
		File: "20260102T120000.005500-slow-1.5ms.xray", Time: noon.Add(5500 * time.Microsecond), Slow: true, Function: "root",
		DurationNS: 1500000, Process: 7, Thread: 3, Calls: 2, FromNS: -1000000, ToNS: 2000000,
	}
	if diff := cmp.Diff(first, entries[0], cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Error(diff)
	}
}

// With a percentile, calls count as slow once there are enough calls to estimate it. Traces state the
// usual durations.
func TestWatcherQuantile(t *testing.T) {
	s := &script{}
	at := uint64(0)
	round := func(duration uint64) {
		s.rounds = append(s.rounds, []live.RootCall{call(at+1, at+1+duration)})
		at += 2 + duration
		s.now = append(s.now, at)
	}
	round(10_000) // nothing is known yet
	for i := range 2000 {
		round(100 + uint64(i%100))
	}
	round(9_000)
	round(120)
	w, entries := run(t, s, Limits{}, Options{Quantile: 0.99})
	if w.Stats.Traces == 0 || entries[len(entries)-1].DurationNS != 9_000_000 {
		t.Fatalf("%d traces, want the last for the call of 9 ms", w.Stats.Traces)
	}
	if n := len(entries); n > 40 {
		t.Errorf("%d traces of 2003 calls, want about 1 in 100 at most", n)
	}
	var over, from, to uint64
	if _, err := fmt.Sscanf(s.written[len(s.written)-1][len("xxxxxx to xxxxxx: "):], "{Root:root OverNS:%d UsualFromNS:%d UsualToNS:%d}", &over, &from, &to); err != nil {
		t.Fatal(s.written[len(s.written)-1], err)
	}
	if over < 195_000 || over > 200_000 || from < 120_000 || from > 130_000 || to < 170_000 || to > 180_000 {
		t.Errorf("slow from %d ns, usual %d to %d ns; want about 198, 125 and 175 us", over, from, to)
	}
}

// A slow call that is still open belongs in the same trace, unless that takes too long.
func TestWatcherWaitsForOpenCalls(t *testing.T) {
	s := &script{
		rounds: [][]live.RootCall{{call(2000, 5000)}, {}, {call(1000, 9000)}, {call(10_000, 15_000)}, {}},
		now:    []uint64{6000, 7000, 9500, 16_000, 1_015_000},
		oldest: []uint64{1000, 1000, 0, 500, 500},
	}
	_, entries := run(t, s, Limits{}, Options{Over: time.Millisecond})
	want := []string{
		"1000 to 9000: {Root:root OverNS:1000000 UsualFromNS:0 UsualToNS:0}",
		"10000 to 15000: {Root:root OverNS:1000000 UsualFromNS:0 UsualToNS:0}",
	}
	if diff := cmp.Diff(want, s.written); diff != "" {
		t.Error(diff)
	}
	if entries[0].Calls != 2 {
		t.Errorf("%d calls in the first trace, want 2", entries[0].Calls)
	}
}

// --every limits traces, and slow calls without one are counted.
func TestWatcherEvery(t *testing.T) {
	s := &script{
		rounds: [][]live.RootCall{{call(1, 5000)}, {call(6000, 9000), call(9100, 9200)}, {}},
		now:    []uint64{5100, 9300, 9400},
	}
	w, _ := run(t, s, Limits{}, Options{Over: time.Millisecond, Every: time.Hour})
	if diff := cmp.Diff(stats{Calls: 3, Slow: 2, Traces: 1, Skipped: 1}, w.Stats); diff != "" {
		t.Error(diff)
	}
}

// Traces of usual calls include earlier calls, but none that are in another trace.
// A trace of a call may begin after it, because the one before has its beginning. Durations in names are
// short, whatever a process claims.
func TestTimesOfEntries(t *testing.T) {
	w := &watcher{source: &script{}, options: Options{Name: func(reader.FuncID) string { return "root" }}}
	if e := w.entry(&live.RootCall{Start: 100, End: 300}, 250, 90); e.FromNS != 150_000 || e.ToNS != -10_000 {
		t.Errorf("from %d to %d ns", e.FromNS, e.ToNS)
	}
	if e := w.after(0, math.MaxUint64); e != math.MaxInt64 {
		t.Errorf("got %d ns", e)
	}
	for ns, want := range map[uint64]string{0: "0s", 1234567: "1.23ms", math.MaxUint64: "2561111h6m40s"} {
		if got := shortDuration(ns); got != want {
			t.Errorf("%d ns: got %s, want %s", ns, got, want)
		}
	}
}

func TestWatcherUsual(t *testing.T) {
	s := &script{
		rounds: [][]live.RootCall{{call(1, 5000)}, {call(4900, 5200)}, {call(5300, 5400)}},
		now:    []uint64{5001, 5250, 5500},
	}
	_, entries := run(t, s, Limits{Usual: 5}, Options{Over: time.Millisecond})
	want := []string{
		"1 to 5000: {Root:root OverNS:1000000 UsualFromNS:0 UsualToNS:0}",
		"5300 to 5400: {Root:root OverNS:1000000 UsualFromNS:0 UsualToNS:0}",
	}
	if diff := cmp.Diff(want, s.written); diff != "" {
		t.Error(diff)
	}
	if len(entries) != 2 || !entries[0].Slow || entries[1].Slow {
		t.Errorf("%+v", entries)
	}
}

// By default, the longest calls of each minute are slow, at any frequency and whatever their durations.
func TestWatcherLongest(t *testing.T) {
	for _, perSecond := range []uint64{1, 10, 300} {
		s := &script{}
		random := rand.New(rand.NewPCG(1, 2))
		round := func(at, duration uint64) {
			s.rounds = append(s.rounds, []live.RootCall{call(at, at+duration)})
			s.now = append(s.now, at+duration)
		}
		const minutes = 5
		for i := range minutes * 60 * perSecond {
			at := 1 + i*1e6/perSecond
			round(at, 60+uint64(40*random.ExpFloat64()))
			if i == minutes*60*perSecond/2 {
				round(at+250, 100_000)
			}
		}
		w, entries := run(t, s, Limits{}, Options{Quantile: 0.99, Longest: true})
		if n := w.Stats.Traces; n > minutes*perMinute*3/2 || perSecond > 1 && n < minutes*perMinute/2 {
			t.Errorf("%d calls per second: %d traces in %d minutes", perSecond, n, minutes)
		}
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.DurationNS == 100_000_000 }) {
			t.Errorf("%d calls per second: no trace of the longest call", perSecond)
		}
	}
}
