// Package slowest finds the slowest invocations of root functions and shows what each of
// them called, next to the mean of the usual ones.
//
// It takes two passes over the calls of a trace:
//
//  1. Search keeps the slowest invocations, and the durations of all.
//  2. Trees, made from the result of Found, keeps the call trees of the slowest
//     invocations, numbers them, and averages over the usual ones: those with
//     durations from the first to the third quartile, without the slowest one.
//
// Package locks finds the holders of the locks that the slowest invocations waited for, in a
// further pass: see Report.FindWaits.
//
// Both are analyses of package calls, and need calls.Options.Paths and no filter. Memory
// grows with different paths and with the number of invocations wanted, not with the length
// of the trace. Package invocation defines invocations.
package slowest

import (
	"container/heap"
	"slices"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Options select invocations.
type Options struct {
	// Root selects roots. It is called concurrently.
	Root func(reader.FuncID) bool
	// RootDepth is calls.Options.RootDepth.
	RootDepth int
	// Thread, and From and To if it is not 0, select invocations by thread and by start, in
	// ticks. Thread is called concurrently. nil selects all threads.
	Thread   func(reader.Thread) bool
	From, To uint64
	// Top is the number of invocations wanted, at least 1. With PerThread, it is per
	// thread.
	Top       int
	PerThread bool
	// Values are arguments and results to show, or nil.
	Values *calls.Expressions
}

func (o *Options) tracker(paths bool, visit func(*invocation.Invocation, bool)) *invocation.Tracker {
	return invocation.NewTracker(invocation.Options{
		Root: o.Root, Thread: o.Thread, From: o.From, To: o.To, Paths: paths, Nested: o.RootDepth == calls.EveryRoot,
		Values: o.Values,
	}, visit)
}

// Search is the first pass.
type Search struct {
	*invocation.Tracker
	opts      Options
	heaps     map[int]*slowHeap // by thread; a single one unless Options.PerThread
	durations quantile.Sample
	threads   map[int]bool
}

// NewSearch returns an empty search.
func NewSearch(opts Options) *Search {
	s := &Search{opts: opts, heaps: make(map[int]*slowHeap), threads: make(map[int]bool)}
	s.Tracker = opts.tracker(false, func(v *invocation.Invocation, chosen bool) {
		if chosen {
			s.durations.Add(v.Duration)
			s.threads[v.Index] = true
			s.keep(v)
		}
	})
	return s
}

// keep adds an invocation if it is among the slowest so far.
func (s *Search) keep(v *invocation.Invocation) {
	group := 0
	if s.opts.PerThread {
		group = v.Index
	}
	h := s.heaps[group]
	if h == nil {
		h = new(slowHeap)
		s.heaps[group] = h
	}
	switch {
	case h.Len() < s.opts.Top:
		heap.Push(h, v.Clone())
	case invocation.Slower(v, (*h)[0]) < 0:
		(*h)[0] = v.Clone()
		heap.Fix(h, 0)
	}
}

// Merge implements calls.Analysis.
func (s *Search) Merge(o *Search) {
	s.durations.Merge(&o.durations)
	for index := range o.threads {
		s.threads[index] = true
	}
	for _, h := range o.heaps {
		for _, v := range *h {
			s.keep(v)
		}
	}
}

// Found ends the search.
func (s *Search) Found() *Found {
	f := &Found{opts: s.opts, threads: len(s.threads), durations: &s.durations}
	for _, h := range s.heaps {
		f.Slowest = append(f.Slowest, *h...)
	}
	slices.SortFunc(f.Slowest, invocation.Slower)
	return f
}

// Found is the result of a search.
type Found struct {
	// Slowest are the slowest invocations, the slowest first, and of equally slow ones the
	// earlier first. They have no paths.
	Slowest []*invocation.Invocation

	opts      Options
	threads   int
	durations *quantile.Sample
}

// NewFound returns what a [Search] would find that another pass found.
func NewFound(opts Options, of *invocation.Slowest) *Found {
	return &Found{Slowest: of.List, opts: opts, threads: of.Threads, durations: of.Durations}
}

// ByTime returns the n-th of Slowest by start, from 1, or the last one.
func (f *Found) ByTime(n uint64) *invocation.Invocation {
	list := slices.SortedFunc(slices.Values(f.Slowest), func(a, b *invocation.Invocation) int { return a.Compare(b.Key) })
	return list[min(n, uint64(len(list)))-1]
}

// slowHeap has the least slow invocation on top.
type slowHeap []*invocation.Invocation

func (h slowHeap) Len() int           { return len(h) }
func (h slowHeap) Less(i, j int) bool { return invocation.Slower(h[i], h[j]) > 0 }
func (h slowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *slowHeap) Push(x any)        { *h = append(*h, x.(*invocation.Invocation)) }

func (h *slowHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Trees is the second pass.
type Trees struct {
	*invocation.Tracker
	found      *Found
	numbering  *invocation.Numbering                     // of the slowest of found
	trees      map[invocation.Key]*invocation.Invocation // the slowest of found, with their paths
	low, top   uint64                                    // durations of the usual invocations
	usual      Usual
	usualPaths []pathSum // of the usual invocations, by path
}

// pathSum is the calls of a path in many invocations.
type pathSum struct{ calls, self uint64 }

// Usual is the sum over all usual invocations.
type Usual struct {
	Count, Duration uint64
}

// NewTrees returns an empty second pass. A Found may be used for any number of them.
func NewTrees(f *Found) *Trees {
	keys := make([]invocation.Key, len(f.Slowest))
	for i, v := range f.Slowest {
		keys[i] = v.Key
	}
	t := &Trees{
		found: f, numbering: invocation.NewNumbering(keys), trees: make(map[invocation.Key]*invocation.Invocation),
	}
	if f.durations.Count() > 0 {
		t.low, t.top = f.durations.Quantile(0.25), f.durations.Quantile(0.75)
	}
	t.Tracker = f.opts.tracker(true, t.see)
	return t
}

func (t *Trees) see(v *invocation.Invocation, chosen bool) {
	if t.numbering.See(v.Key) {
		t.trees[v.Key] = v.Clone()
	}
	if !chosen || v.Duration < t.low || v.Duration > t.top || t.slowest(v) {
		return
	}
	t.usual.Count++
	t.usual.Duration += v.Duration
	t.grow()
	for _, p := range v.Paths {
		t.usualPaths[p.ID].calls += p.Calls
		t.usualPaths[p.ID].self += p.Self
	}
}

// slowest reports whether an invocation is the slowest of several. If there are fewer than five,
// their third quartile is its duration.
func (t *Trees) slowest(v *invocation.Invocation) bool {
	return t.found.durations.Count() > 1 && v.Key == t.found.Slowest[0].Key
}

func (t *Trees) grow() {
	t.usualPaths = append(t.usualPaths, make([]pathSum, t.Tree.Len()-len(t.usualPaths))...)
}

// Merge implements calls.Analysis.
func (t *Trees) Merge(o *Trees) {
	ids := t.Tree.Remap(o.Tree)
	t.grow()
	for id, sum := range o.usualPaths {
		t.usualPaths[ids[id]].calls += sum.calls
		t.usualPaths[ids[id]].self += sum.self
	}
	t.usual.Count += o.usual.Count
	t.usual.Duration += o.usual.Duration
	t.numbering.Merge(o.numbering)
	for key, v := range o.trees {
		for i := range v.Paths {
			v.Paths[i].ID = ids[v.Paths[i].ID]
		}
		t.trees[key] = v
	}
}

var (
	_ calls.Analysis[*Search] = (*Search)(nil)
	_ calls.Analysis[*Trees]  = (*Trees)(nil)
)
