package convert

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/stack"
)

// everything lists all that package calls tells about calls, and runs other analyses.
type everything struct {
	lines   []string
	account *account.Analysis
	graph   *graph.Analysis
	stack   *stack.Analysis
}

func newEverything() *everything {
	return &everything{
		account: account.New(account.Options{OffCPU: true}), graph: graph.New(graph.Options{Quantiles: true}), stack: stack.New(stack.Options{OffCPU: true}),
	}
}

func (l *everything) Calls(b *calls.Batch) error {
	waits := b.Waits
	for i, c := range b.Calls {
		line := fmt.Sprintf("%d: call of %d from %d for %d, self %d, depth %d, %v", b.Thread.Thread, c.Func, c.Start, c.Duration, c.Self, c.Depth, c.End)
		if c.Earlier {
			line += ", earlier"
		}
		for _, a := range b.Args {
			if a.Call == i {
				line += fmt.Sprint(", ", a.Value)
			}
		}
		if len(waits) > 0 && waits[0].Call == i {
			line += fmt.Sprint(", off ", waits[0].Self, waits[0].Total)
			waits = waits[1:]
		}
		l.lines = append(l.lines, line)
	}
	for _, g := range b.Gaps {
		l.lines = append(l.lines, fmt.Sprintf("%d: off in %d from %d to %d, %v", b.Thread.Thread, g.Func, g.From, g.To, g.Off))
	}
	for _, e := range b.Events {
		l.lines = append(l.lines, fmt.Sprintf("%d: event in %d at %d", b.Thread.Thread, e.Func, e.TSC))
	}
	_, _, _ = l.account.Calls(b), l.graph.Calls(b), l.stack.Calls(b)
	return nil
}

func (l *everything) Merge(*everything) {}

// reports returns the results of the analyses in a form that can be compared.
func (l *everything) reports() []string {
	slices.Sort(l.lines)
	lines := l.lines
	r := l.account.Report(1e9)
	r.Sort(account.ByID, false, nil)
	for _, row := range r.Rows {
		lines = append(lines, fmt.Sprintf("account %+v", row))
	}
	for _, e := range l.graph.Report(reader.Clock{Frequency: 1e9}).Edges {
		lines = append(lines, fmt.Sprintf("graph %+v", e))
	}
	for t := range l.stack.Report(reader.Clock{Frequency: 1e9}).Trees() {
		// The whole trace has more paths: those of earlier times.
		var paths []string
		for i, f := range t.Frames {
			path := fmt.Sprint(f.Func)
			if f.Parent >= 0 {
				path = paths[f.Parent] + " " + path
			}
			paths = append(paths, path)
			if f.Parent = 0; f.Count+f.Open > 0 {
				lines = append(lines, fmt.Sprintf("stack %s %+v", paths[i], f))
			}
		}
	}
	return lines
}

// drawTrace draws a trace with tail calls, arguments, events and off-CPU times.
func drawTrace(t *rapid.T) []*reader.Block {
	var blocks []*reader.Block
	for i := range rapid.IntRange(1, 3).Draw(t, "threads") {
		b := &reader.Block{Thread: reader.Thread{Process: 9, Thread: int32(10 + i)}, Index: i}
		tsc, last := rapid.Uint64Range(1, 60).Draw(t, "start"), uint64(0)
		var open []reader.FuncID
		add := func(kind reader.Kind, fn reader.FuncID, payload []byte) {
			e := reader.Event{TSC: tsc, Kind: kind, Func: fn}
			if payload != nil {
				b.Payloads = append(b.Payloads, reader.Payload{Event: len(b.Events), Data: payload})
				e.Side = true
			}
			b.Events, last = append(b.Events, e), tsc
		}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			tsc += rapid.Uint64Range(0, 9).Draw(t, "delta")
			switch op := rapid.IntRange(0, 12).Draw(t, "op"); {
			case op < 5:
				fn := reader.FuncID(rapid.IntRange(1, 5).Draw(t, "func"))
				kind := reader.Enter
				if op == 0 {
					kind = reader.EnterArg
				}
				add(kind, fn, nil)
				if op == 0 {
					b.Events[len(b.Events)-1].Side = true
					b.Args = append(b.Args, reader.Arg{Event: len(b.Events) - 1, Value: tsc})
				}
				open = append(open, fn)
			case op < 10 && len(open) > 0:
				kind := reader.Exit
				if op == 9 {
					kind = reader.TailExit
				}
				add(kind, open[len(open)-1], nil)
				open = open[:len(open)-1]
			case op == 10:
				add(reader.Custom, 0, []byte("event"))
			case op > 10 && last > 0:
				tsc += rapid.Uint64Range(0, 90).Draw(t, "off")
				// Parts of other times are rounded twice if a slice is cut again.
				off := rapid.SampledFrom([]uint64{0, tsc - last}).Draw(t, "part")
				queued := rapid.SampledFrom([]uint64{0, off}).Draw(t, "queued")
				add(reader.Custom, 0, reader.AppendSwitch(nil, reader.Switch{OffNS: off, QueuedNS: queued, Voluntary: 1}))
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// The analyses of a slice equal those of the trace with a filter of the same time: durations and
// off-CPU times of calls that are cut included.
func TestAnalysesOfSlice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var log bytes.Buffer
		w := tracewrite.NewFDR(&log, reader.Header{CycleFrequency: 1e9}, tracewrite.Options{})
		for _, b := range drawTrace(t) {
			if err := w.Block(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		trace := opened(t, log.Bytes())
		span := Span{From: rapid.Uint64Range(1, 200).Draw(t, "from")}
		if rapid.Bool().Draw(t, "ends") {
			span.To = span.From + rapid.Uint64Range(1, 200).Draw(t, "length")
		}
		var code calls.Code
		if rapid.Bool().Draw(t, "tail calls") {
			code.Continue = func(from, to reader.FuncID) bool { return from < to }
		}
		run := func(trace *reader.Trace, f calls.Filter) []string {
			opts := calls.Options{Shards: 1, Nested: true, Paths: true, OffCPU: &reader.Clock{Frequency: 1e9}, Code: code, Filter: f}
			l, _, err := calls.Run(trace, opts, newEverything)
			if err != nil {
				t.Fatal(err)
			}
			return l.reports()
		}
		want := run(trace, calls.Filter{From: span.From, To: span.To})
		part := cutOut(t, trace, SliceOptions{Spans: []Span{span}})
		if diff := cmp.Diff(want, run(part, calls.Filter{})); diff != "" {
			t.Errorf("%+v (-trace +slice):\n%s", span, diff)
		}
		// A part of a slice is that part of the trace.
		inner := Span{From: span.From + rapid.Uint64Range(0, 50).Draw(t, "later"), To: span.To}
		if inner.To > 0 && inner.From >= inner.To {
			return
		}
		want = run(trace, calls.Filter{From: inner.From, To: inner.To})
		if diff := cmp.Diff(want, run(part, calls.Filter{From: inner.From})); diff != "" {
			t.Errorf("%+v of %+v (-trace +slice):\n%s", inner, span, diff)
		}
		again := cutOut(t, part, SliceOptions{Spans: []Span{{From: inner.From}}})
		if diff := cmp.Diff(want, run(again, calls.Filter{})); diff != "" {
			t.Errorf("%+v of %+v (-trace +slice of slice):\n%s", inner, span, diff)
		}
	})
}
