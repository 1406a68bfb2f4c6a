package main

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/stack"
)

// summing makes the events of a thread, and adds its calls up by path as the recorder
// does.
type summing struct {
	rng    *rand.Rand
	tsc    uint64
	block  reader.Block
	thread reader.Profile
	paths  map[[2]int]int // by parent and function
}

func (s *summing) event(fn int, kind reader.Kind) {
	s.tsc += s.rng.Uint64N(1 << s.rng.IntN(20))
	s.block.Events = append(s.block.Events, reader.Event{TSC: s.tsc, Func: reader.FuncID(fn), Kind: kind})
}

// call makes a call with some inside. One that stays open is the last of its caller's,
// which stays open too.
func (s *summing) call(parent, depth int, open bool) {
	fn := 1 + s.rng.IntN(6)
	at, ok := s.paths[[2]int{parent, fn}]
	if !ok {
		at = len(s.thread.Paths)
		s.paths[[2]int{parent, fn}] = at
		s.thread.Paths = append(s.thread.Paths, reader.ProfilePath{Func: reader.FuncID(fn), Parent: parent, Octaves: make([]uint64, reader.ProfileOctaves)})
	}
	s.event(fn, reader.Enter)
	start := s.tsc
	for range s.rng.IntN(4) {
		if depth < 6 {
			s.call(at, depth+1, false)
		}
	}
	if open {
		if depth < 3 {
			s.call(at, depth+1, true)
		}
		p := &s.thread.Paths[at]
		p.Open++
		p.OpenTotal += s.tsc - start // nothing comes behind
		return
	}
	s.event(fn, reader.Exit)
	p, ticks := &s.thread.Paths[at], s.tsc-start
	if p.Count == 0 || ticks < p.Min {
		p.Min = ticks
	}
	p.Max = max(p.Max, ticks)
	p.Count++
	p.Total += ticks
	p.Octaves[bits.Len64(ticks)]++
}

func writeTrace(t *testing.T, name string, recording *reader.Recording, blocks ...reader.Block) *reader.Trace {
	t.Helper()
	var out bytes.Buffer
	w := tracewrite.NewFDR(&out, reader.Header{CycleFrequency: 1e9, ConstantTSC: true, NonstopTSC: true},
		tracewrite.Options{Recording: recording, First: 1})
	for i := range blocks {
		if err := w.Block(&blocks[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trace.Close() })
	return trace
}

// analysed runs an analysis over the calls of a trace and what it knows the sums of.
func analysed[S interface {
	calls.Analysis[S]
	calls.SumSink
}](t *testing.T, trace *reader.Trace, newSink func() S) S {
	t.Helper()
	opts := calls.Options{Paths: true, Nested: true}
	sink, stats, err := calls.Run(calls.Source(trace), opts, newSink)
	if err == nil {
		err = calls.RunSums(trace, opts, sink, stats)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

// What a profile says is what the calls themselves say, but for quantiles.
func TestProfilesAgreeWithCalls(t *testing.T) {
	for seed := range uint64(30) {
		var profiles []reader.Profile
		var blocks []reader.Block
		for thread := range 3 {
			s := &summing{rng: rand.New(rand.NewPCG(seed, uint64(thread))), tsc: 10, paths: map[[2]int]int{}}
			s.block.Thread = reader.Thread{Process: 7, Thread: int32(100 + thread)}
			for range 20 {
				s.call(-1, 0, false)
			}
			s.call(-1, 0, true)
			s.thread.Process, s.thread.Thread, s.thread.First, s.thread.Last = 7, int32(100+thread), 10, s.tsc
			profiles, blocks = append(profiles, s.thread), append(blocks, s.block)
		}
		process := reader.Process{PID: 7, Mode: "record", Complete: true}
		full := writeTrace(t, "calls", &reader.Recording{Process: process}, blocks...)
		sums := writeTrace(t, "sums", &reader.Recording{Process: process, Profiles: profiles})

		type row struct {
			id                     reader.FuncID
			count, open            uint64
			self, total, sum, a, z uint64
		}
		rows := func(trace *reader.Trace) (list []row) {
			a := analysed(t, trace, func() *account.Analysis { return account.New(account.Options{PerThread: true}) })
			for _, r := range a.Report(1e9).Rows {
				list = append(list, row{r.Func, r.Count, r.Open, r.Self.Lo, r.Total.Lo, r.Sum.Lo, r.Min, r.Max})
			}
			return list
		}
		if diff := cmp.Diff(rows(full), rows(sums), cmp.AllowUnexported(row{})); diff != "" {
			t.Fatalf("seed %d: account, - of calls, + of the profile:\n%s", seed, diff)
		}
		edges := func(trace *reader.Trace) []graph.Edge {
			return analysed(t, trace, func() *graph.Analysis { return graph.New(graph.Options{}) }).Report(reader.Clock{}).Edges
		}
		if diff := cmp.Diff(edges(full), edges(sums)); diff != "" {
			t.Fatalf("seed %d: graph, - of calls, + of the profile:\n%s", seed, diff)
		}
		folded := func(trace *reader.Trace) string {
			a := analysed(t, trace, func() *stack.Analysis { return stack.New(stack.Options{PerThread: true}) })
			var out bytes.Buffer
			if err := a.Report(reader.Clock{}).WriteFolded(&out, nil, stack.FoldedView{}); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		if diff := cmp.Diff(folded(full), folded(sums)); diff != "" {
			t.Fatalf("seed %d: stack, - of calls, + of the profile:\n%s", seed, diff)
		}
	}
}
