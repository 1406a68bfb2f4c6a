package main

import (
	"bytes"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/stack"
)

// summing generates the events of a thread and also sums its calls by path, as the recorder does.
type summing struct {
	rng    *rand.Rand
	tsc    uint64
	block  reader.Block
	thread reader.Profile
	paths  map[[2]int]int // by parent and function
	most   int            // the most paths to keep; calls on others are folded
	folds  map[[2]int]int // by caller and function
	stack  []int          // open functions
}

func (s *summing) event(fn int, kind reader.Kind) {
	s.tsc += s.rng.Uint64N(1 << s.rng.IntN(20))
	s.block.Events = append(s.block.Events, reader.Event{TSC: s.tsc, Func: reader.FuncID(fn), Kind: kind})
}

// path returns the index of a call's path, or that of the folded path which contains it.
func (s *summing) path(parent, fn int) int {
	if parent >= 0 && s.thread.Paths[parent].Func == reader.Folded {
		return parent
	}
	at, ok := s.paths[[2]int{parent, fn}]
	if !ok && fn != 0 && len(s.paths) >= s.most {
		return s.path(parent, 0)
	}
	if !ok {
		at = len(s.thread.Paths)
		s.paths[[2]int{parent, fn}] = at
		s.thread.Paths = append(s.thread.Paths, reader.ProfilePath{Func: reader.FuncID(fn), Parent: parent})
		if fn == 0 {
			s.thread.Paths[at].Func = reader.Folded
		} else {
			s.thread.Paths[at].Octaves = make([]uint64, reader.ProfileOctaves)
		}
	}
	return at
}

// fold returns the sums of a function's calls that have no path.
func (s *summing) fold(caller, fn int) *reader.ProfileFold {
	at, ok := s.folds[[2]int{caller, fn}]
	if !ok {
		at = len(s.thread.Folds)
		s.folds[[2]int{caller, fn}] = at
		s.thread.Folds = append(s.thread.Folds, reader.ProfileFold{
			Func: reader.FuncID(fn), Caller: reader.FuncID(caller), Octaves: make([]uint64, reader.ProfileOctaves),
		})
	}
	return &s.thread.Folds[at]
}

// call generates a call with nested calls. An open call is the last of its caller, which stays
// open, too. call returns the duration.
func (s *summing) call(parent, depth int, open bool) uint64 {
	fn, caller := 1+s.rng.IntN(6), 0
	if len(s.stack) > 0 {
		caller = s.stack[len(s.stack)-1]
	}
	at, nested := s.path(parent, fn), slices.Contains(s.stack, fn)
	s.stack = append(s.stack, fn)
	s.event(fn, reader.Enter)
	start, inside := s.tsc, uint64(0)
	for range s.rng.IntN(4) {
		if depth < 6 {
			inside += s.call(at, depth+1, false)
		}
	}
	if open {
		if depth < 3 {
			inside += s.call(at, depth+1, true)
		}
	} else {
		s.event(fn, reader.Exit)
	}
	s.stack = s.stack[:len(s.stack)-1]
	ticks := s.tsc - start // no event follows an open call
	p := &s.thread.Paths[at]
	if p.Func != reader.Folded {
		add(&p.Count, &p.Total, &p.Min, &p.Max, &p.Open, &p.OpenTotal, p.Octaves, ticks, open)
		return ticks
	}
	f := s.fold(caller, fn)
	add(&f.Count, &f.Total, &f.Min, &f.Max, &f.Open, &f.OpenTotal, f.Octaves, ticks, open)
	f.Inside += inside
	switch {
	case nested && open:
		f.OpenNested += ticks
	case nested:
		f.Nested += ticks
	}
	own := ticks // time of the folded path, if its parent made the call
	if at == parent {
		own = 0
	}
	if open {
		p.Open++
		p.OpenTotal += own
	} else {
		p.Count++
		p.Total += own
	}
	return ticks
}

// add adds a call to the sums.
func add(count, total, least, most, open, openTotal *uint64, octaves []uint64, ticks uint64, isOpen bool) {
	if isOpen {
		*open++
		*openTotal += ticks
		return
	}
	if *count == 0 || ticks < *least {
		*least = ticks
	}
	*most = max(*most, ticks)
	*count++
	*total += ticks
	octaves[bits.Len64(ticks)]++
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

// analyzed runs an analysis over a trace's calls and recorded sums.
func analyzed[S interface {
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

// Analyses give the same results for a profile as for the calls themselves, except quantiles.
func TestProfilesAgreeWithCalls(t *testing.T) {
	for seed := range uint64(30) {
		compareSums(t, seed, math.MaxInt)
	}
}

// For profiles with folded paths, results by function and caller are the same.
func TestFoldedProfilesAgreeWithCalls(t *testing.T) {
	for seed := range uint64(30) {
		compareSums(t, seed, int(seed)*4)
	}
}

func compareSums(t *testing.T, seed uint64, most int) {
	t.Helper()
	var profiles []reader.Profile
	var blocks []reader.Block
	for thread := range 3 {
		s := &summing{rng: rand.New(rand.NewPCG(seed, uint64(thread))), tsc: 10, paths: map[[2]int]int{}, most: most, folds: map[[2]int]int{}}
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
		a := analyzed(t, trace, func() *account.Analysis { return account.New(account.Options{PerThread: true}) })
		for _, r := range a.Report(1e9).Rows {
			list = append(list, row{r.Func, r.Count, r.Open, r.Self.Lo, r.Total.Lo, r.Sum.Lo, r.Min, r.Max})
		}
		return list
	}
	if diff := cmp.Diff(rows(full), rows(sums), cmp.AllowUnexported(row{})); diff != "" {
		t.Fatalf("seed %d: account (-calls +profile):\n%s", seed, diff)
	}
	edges := func(trace *reader.Trace) []graph.Edge {
		return analyzed(t, trace, func() *graph.Analysis { return graph.New(graph.Options{}) }).Report(reader.Clock{}).Edges
	}
	if diff := cmp.Diff(edges(full), edges(sums)); diff != "" {
		t.Fatalf("seed %d: graph (-calls +profile):\n%s", seed, diff)
	}
	folded := func(trace *reader.Trace) string {
		a := analyzed(t, trace, func() *stack.Analysis { return stack.New(stack.Options{PerThread: true}) })
		var out bytes.Buffer
		if err := a.Report(reader.Clock{}).WriteFolded(&out, nil, stack.FoldedView{}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if most < math.MaxInt {
		if a, b := added(folded(full)), added(folded(sums)); a != b {
			t.Fatalf("seed %d: folded stacks: %d ticks from calls, %d from the profile", seed, a, b)
		}
	} else if diff := cmp.Diff(folded(full), folded(sums)); diff != "" {
		t.Fatalf("seed %d: stack (-calls +profile):\n%s", seed, diff)
	}
}

// added returns the sum of the values of folded stacks.
func added(stacks string) (sum int) {
	for line := range strings.Lines(stacks) {
		n, _ := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]))
		sum += n
	}
	return sum
}
