package convert

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// sliced lists the calls of a trace that a slice must have, in the form they have there.
type sliced struct {
	opts SliceOptions
	need map[int]map[uint32]bool // by thread and depth: a call of the slice was made there
	list []string
	// times are those at which calls begin and end.
	times []uint64
}

func (s *sliced) Calls(b *calls.Batch) error {
	span := s.opts.Spans[0]
	need := s.need[b.Index]
	if need == nil {
		need = make(map[uint32]bool)
		s.need[b.Index] = need
	}
	for _, c := range b.Calls {
		end := c.Start + c.Duration
		s.times = append(s.times, c.Start, end)
		within := c.Start < span.To && (end > span.From || c.Start == span.From)
		f := s.opts.Filter
		wanted := (f.Func == nil || f.Func(c.Func)) && (f.MaxDepth == 0 || c.Depth < f.MaxDepth)
		if within && (wanted || need[c.Depth] && !s.opts.Bare) {
			start, end := max(c.Start, span.From), min(end, span.To)
			s.list = append(s.list, fmt.Sprint(b.Thread.Thread, c.Func, start, end))
			if c.Depth > 0 {
				need[c.Depth-1] = true
			}
		}
		delete(need, c.Depth)
	}
	return nil
}

// A slice has the part of the trace in its time span, cut off at both ends, and every entry in it
// has an exit.
func TestSliceIsPartOfTheTrace(t *testing.T) {
	trace := generated(t, tracegen.Options{Format: tracegen.FDR, Records: 20_000, Threads: 3, Functions: 100, Open: true})
	all, stats := callsOf(t, trace, new(sliced))
	rapid.Check(t, func(t *rapid.T) {
		// Prefer the times of records: calls at the slice's very ends are the hardest.
		moment := rapid.OneOf(rapid.Uint64Range(stats.First, stats.Last), rapid.SampledFrom(all.times))
		span := Span{moment.Draw(t, "from"), moment.Draw(t, "to")}
		if span.From > span.To {
			span.From, span.To = span.To, span.From
		}
		span.To = max(span.To, span.From+1)
		opts := SliceOptions{Spans: []Span{span}}
		opts.Filter.MaxDepth = rapid.Uint32Range(0, 6).Draw(t, "depth")
		if n := reader.FuncID(rapid.Int32Range(0, 10).Draw(t, "modulus")); n > 0 {
			opts.Filter.Func = func(id reader.FuncID) bool { return id%n == 0 }
			opts.Bare = rapid.Bool().Draw(t, "bare")
		}
		want := &sliced{opts: opts, need: make(map[int]map[uint32]bool)}
		callsOf(t, trace, want)

		part := cutOut(t, trace, opts)
		got := &sliced{opts: SliceOptions{Spans: []Span{{0, 1 << 63}}}, need: make(map[int]map[uint32]bool)}
		_, stats := callsOf(t, part, got)
		if stats.Unmatched+stats.Inferred+stats.Truncated-stats.Cut != 0 {
			t.Errorf("not balanced: %+v", stats)
		}
		slices.Sort(want.list)
		slices.Sort(got.list)
		if diff := cmp.Diff(want.list, got.list); diff != "" {
			t.Errorf("(-trace +slice):\n%s", diff)
		}
	})
}

// accounted sums the calls that begin after from and end before to.
type accounted struct {
	*account.Analysis
	from, to uint64
}

func (a accounted) Calls(b *calls.Batch) error {
	b.Calls = slices.DeleteFunc(b.Calls, func(c calls.Call) bool {
		return c.Start <= a.from || c.Start+c.Duration >= a.to
	})
	return a.Analysis.Calls(b)
}

func (a accounted) Merge(accounted) {}

// account of a slice equals account of that part of the trace: for all calls if none is open at the
// ends, and otherwise for those that are not cut.
func TestAccountOfSlice(t *testing.T) {
	trace := generated(t, tracegen.Options{Format: tracegen.FDR, Records: 20_000, Threads: 1, Functions: 100})
	all, stats := callsOf(t, trace, new(sliced))
	outermost := &outermostCalls{}
	if _, _, err := calls.Run(trace, calls.Options{Shards: 1}, func() *outermostCalls { return outermost }); err != nil {
		t.Fatal(err)
	}
	if len(outermost.starts) < 10 {
		t.Fatalf("got only %d outermost calls", len(outermost.starts))
	}
	rapid.Check(t, func(t *rapid.T) {
		quiet := rapid.Bool().Draw(t, "quiet")
		var span Span
		if quiet {
			span.From, span.To = rapid.SampledFrom(outermost.ends).Draw(t, "from"), rapid.SampledFrom(outermost.starts).Draw(t, "to")
		} else {
			moment := rapid.OneOf(rapid.Uint64Range(stats.First, stats.Last), rapid.SampledFrom(all.times))
			span.From, span.To = moment.Draw(t, "from"), moment.Draw(t, "to")
		}
		if span.From >= span.To {
			t.Skip("no calls between these times")
		}
		report := func(trace *reader.Trace, filter calls.Filter) *account.Report {
			a := accounted{account.New(account.Options{}), span.From, span.To}
			if quiet {
				a.from, a.to = 0, 1<<63
			}
			_, _, err := calls.Run(trace, calls.Options{Shards: 1, Nested: true, Filter: filter}, func() accounted { return a })
			if err != nil {
				t.Fatal(err)
			}
			r := a.Report(tracegen.Frequency)
			r.Sort(account.ByID, false, nil)
			return r
		}
		want := report(trace, calls.Filter{From: span.From, To: span.To})
		got := report(cutOut(t, trace, SliceOptions{Spans: []Span{span}}), calls.Filter{})
		if diff := cmp.Diff(want.Rows, got.Rows); diff != "" {
			t.Errorf("quiet %v (-trace +slice):\n%s", quiet, diff)
		}
	})
}

// outermostCalls lists when outermost calls begin and end.
type outermostCalls struct{ starts, ends []uint64 }

func (o *outermostCalls) Calls(b *calls.Batch) error {
	for _, c := range b.Calls {
		if c.Depth == 0 {
			o.starts, o.ends = append(o.starts, c.Start), append(o.ends, c.Start+c.Duration)
		}
	}
	return nil
}

func (o *outermostCalls) Merge(*outermostCalls) {}

// A slice has the same calls in order of time as thread by thread.
func TestSliceInOrderOfTime(t *testing.T) {
	trace := generated(t, tracegen.Options{Format: tracegen.FDR, Records: 20_000, Threads: 4, Functions: 100, Open: true})
	all, _ := callsOf(t, trace, new(sliced))
	rapid.Check(t, func(t *rapid.T) {
		opts := SliceOptions{NoMarks: true}
		times := rapid.SliceOfNDistinct(rapid.SampledFrom(all.times), 2, 6, rapid.ID).Draw(t, "times")
		slices.Sort(times)
		for ; len(times) > 1; times = times[2:] {
			opts.Spans = append(opts.Spans, Span{times[0], times[1]})
		}
		if rapid.Bool().Draw(t, "open end") {
			opts.Spans[len(opts.Spans)-1].To = 0
		}
		one, two := cutInOrder(t, trace, 1, opts), cutInOrder(t, trace, 2, opts)
		if !bytes.Equal(one, two) {
			t.Error("output of two goroutines differs from that of one")
		}
		var lists [2][]string
		for i, part := range []*reader.Trace{cutOut(t, trace, opts), opened(t, one)} {
			got, stats := callsOf(t, part, new(sliced))
			if stats.Unmatched+stats.Inferred+stats.Truncated != 0 {
				t.Errorf("%d: not balanced: %+v", i, stats)
			}
			lists[i] = got.list
			slices.Sort(lists[i])
		}
		if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
			t.Errorf("(-by thread +by time):\n%s", diff)
		}
	})
}

// cutInOrder writes a slice as a basic log and checks that its records are in order of time.
func cutInOrder(t failer, trace *reader.Trace, goroutines int, opts SliceOptions) []byte {
	var log bytes.Buffer
	w := tracewrite.NewBasic(&log, trace.Header(0))
	s := NewSlicer(opts)
	if err := w.Sorted(trace, goroutines, s.Edit); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for r, err := range opened(t, log.Bytes()).Records(0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == reader.BasicFunction {
			if r.TSC < last {
				t.Fatal("a record at", r.TSC, "follows one at", last)
			}
			last = r.TSC
		}
	}
	return log.Bytes()
}

// A slice of several spans omits everything between them.
func TestSliceOfSeveralSpans(t *testing.T) {
	trace := generated(t, tracegen.Options{Format: tracegen.FDR, Records: 5_000, Threads: 2, Functions: 100})
	_, all := callsOf(t, trace, new(sliced))
	third := (all.Last - all.First) / 3
	one, two := Span{all.First, all.First + third}, Span{all.First + 2*third, all.Last + 1}
	var want []string
	for _, span := range []Span{one, two} {
		part := &sliced{opts: SliceOptions{Spans: []Span{span}}, need: make(map[int]map[uint32]bool)}
		callsOf(t, trace, part)
		want = append(want, part.list...)
	}
	got := &sliced{opts: SliceOptions{Spans: []Span{{0, 1 << 63}}}, need: make(map[int]map[uint32]bool)}
	callsOf(t, cutOut(t, trace, SliceOptions{Spans: []Span{one, two}}), got)
	slices.Sort(want)
	slices.Sort(got.list)
	if diff := cmp.Diff(want, got.list); diff != "" {
		t.Errorf("(-trace +slice):\n%s", diff)
	}
}

func (s *sliced) Merge(*sliced) {}

type failer interface{ Fatal(...any) }

func callsOf(t failer, trace *reader.Trace, sink *sliced) (*sliced, *calls.Stats) {
	if len(sink.opts.Spans) == 0 {
		*sink = sliced{opts: SliceOptions{Spans: []Span{{}}}, need: make(map[int]map[uint32]bool)}
	}
	sink, stats, err := calls.Run(trace, calls.Options{Shards: 1}, func() *sliced { return sink })
	if err != nil {
		t.Fatal(err)
	}
	return sink, stats
}

func cutOut(t failer, trace *reader.Trace, opts SliceOptions) *reader.Trace {
	var log bytes.Buffer
	w := tracewrite.NewFDR(&log, trace.Header(0), tracewrite.Options{})
	s := NewSlicer(opts)
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err == nil {
			err = w.Block(s.Block(b))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(w.Block); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return opened(t, log.Bytes())
}

func generated(t failer, opts tracegen.Options) *reader.Trace {
	var log bytes.Buffer
	if _, err := tracegen.Generate(&log, opts); err != nil {
		t.Fatal(err)
	}
	return opened(t, log.Bytes())
}

func opened(t failer, log []byte) *reader.Trace {
	trace, err := reader.OpenReaderAt(bytes.NewReader(log), int64(len(log)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	return trace
}
