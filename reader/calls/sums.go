package calls

import (
	"errors"
	"iter"
	"math"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
)

// Sums has the calls of a thread whose recorder kept only sums, so they are in no [Batch]. A sink
// must not retain it.
type Sums struct {
	Thread      reader.Thread
	Index       int    // like Batch.Index, but distinct from those of all batches
	First, Last uint64 // TSC of the first and the latest entry or exit
	// Paths come before the paths below them. A path of the function [reader.Folded] has the calls
	// below its parent that have no path of their own.
	Paths []Sum
	// Folds are the calls of folded paths, by function and caller. They have no Depth and
	// no Parent.
	Folds []Sum
}

// Sum has the sums of the calls of one path. If the filter dropped them, or if the path is only the
// caller of others, Count and Open are 0. Times are in ticks.
type Sum struct {
	Func, Caller reader.FuncID // Caller is 0 for outermost calls, and [reader.Folded] if it is unknown
	Parent       int           // position in Sums.Paths; -1 for outermost calls
	Depth        uint32        // number of functions before it in the path
	Leaf         bool          // it made no calls
	// Count is the number of calls that ended, which took Total. Self is Total without the
	// time of the calls made directly.
	Count, Total, Self uint64
	Min, Max           uint64
	// Octaves are the calls that ended, by the length of their ticks in bits. Or Bins are
	// these calls by bin of their duration, but for those in Coarse, whose bins represent
	// octaves.
	Octaves      []uint64
	Bins, Coarse []quantile.BinCount
	// Of Count: how calls ended.
	Inferred, Left, TailExited, Continued uint64
	// Open is the number of calls that had not ended. They last until Sums.Last.
	Open, OpenTotal, OpenSelf uint64
	// SelfOff is the part of Self and OpenSelf off CPU, with Options.OffCPU. TotalOff adds the
	// off-CPU time of the paths below, and is 0 in folds.
	SelfOff, TotalOff Off
	// Nested is the part of Total in calls made while another call of Func was open, and
	// OpenNested that of OpenTotal.
	Nested, OpenNested uint64
}

// AddDurations adds the durations of the calls that ended.
func (s *Sum) AddDurations(to *quantile.Sample) {
	sum := quantile.NewSum(s.Total)
	to.AddOctaves(s.Octaves, s.Min, s.Max, sum)
	if len(s.Coarse) > 0 {
		to.AddBins(s.Coarse, true, s.Min, s.Max, sum)
		sum = quantile.Sum{}
	}
	to.AddBins(s.Bins, false, s.Min, s.Max, sum)
}

// Spread returns the number of ended calls whose durations are known individually or by bin. Min,
// Max and AddDurations cover these calls.
func (s *Sum) Spread() (n uint64) {
	for _, calls := range s.Octaves {
		n += calls
	}
	for _, bins := range [][]quantile.BinCount{s.Bins, s.Coarse} {
		for _, b := range bins {
			n += b.Count
		}
	}
	return min(n, s.Count)
}

// Functions yields the sums that have a function: all calls of a thread.
func (s *Sums) Functions() iter.Seq[*Sum] {
	return func(yield func(*Sum) bool) {
		for _, list := range [][]Sum{s.Paths, s.Folds} {
			for i := range list {
				if list[i].Func != reader.Folded && !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// SumSink is a sink that also takes sums.
type SumSink interface {
	Sink
	Sums(*Sums) error
}

// ErrSumsFilter means that the filter needs properties of single calls, and there are only
// sums.
var ErrSumsFilter = errors.New("a profile does not contain the times and durations of single calls: " +
	"select by thread, function or depth, or record calls instead of a profile")

// ErrFoldedDepth means that the filter selects by depth, and the recorder did not keep the
// paths of all calls.
var ErrFoldedDepth = errors.New("a profile does not record the depth of calls with folded paths: select by thread or function, " +
	"or record fewer functions (--func, --exclude)")

// RunSums feeds the sums of the trace to a sink, and adds them to the statistics of a
// previous [Run]. Each thread of a profile counts as another thread.
func RunSums(t *reader.Trace, opts Options, sink SumSink, stats *Stats) error {
	f := newFilter(&opts.Filter)
	for file := range t.Files() {
		r := t.Recording(file)
		if r == nil {
			continue
		}
		for i := range r.Profiles {
			if f.From > 0 || f.To > 0 || f.MinDuration > 0 {
				return ErrSumsFilter
			}
			p := &r.Profiles[i]
			if f.MaxDepth > 0 && len(p.Folds) > 0 {
				return ErrFoldedDepth
			}
			thread := reader.Thread{File: int32(file), Process: p.Process, Thread: p.Thread}
			if f.Thread != nil && !f.Thread(thread) {
				continue
			}
			s := sumsOf(p, &opts)
			s.Thread = thread
			if err := feedSums(s, f, sink, stats); err != nil {
				return err
			}
			if err := CheckMemory(sink, opts.Memory); err != nil {
				return err
			}
		}
	}
	return nil
}

// FeedSums feeds sums that are not of a trace to a sink, and adds them to the statistics of
// a previous [Run]. They count as another thread. It drops sums that the filter excludes, which
// must select by function and depth alone. It sets the fields that depend on the callers of a
// path: Caller, Depth, Leaf, Nested, OpenNested and TotalOff.
func FeedSums(s *Sums, filter *Filter, sink SumSink, stats *Stats) error {
	f := newFilter(filter)
	if f.From > 0 || f.To > 0 || f.MinDuration > 0 || f.Thread != nil {
		return errors.New("a summary contains neither individual calls nor threads: select by function or depth")
	}
	if f.MaxDepth > 0 && len(s.Folds) > 0 {
		return ErrFoldedDepth
	}
	for i := range s.Paths {
		s.Paths[i].Leaf = s.Paths[i].Func != reader.Folded
		s.place(i)
	}
	s.addTotalOff()
	return feedSums(s, f, sink, stats)
}

func feedSums(s *Sums, f *filter, sink SumSink, stats *Stats) error {
	s.apply(f)
	s.Index = stats.Threads
	stats.addSums(s)
	return sink.Sums(s)
}

// place sets the fields that depend on the caller of a path.
func (s *Sums) place(i int) {
	p := &s.Paths[i]
	if p.Parent < 0 {
		return
	}
	parent := &s.Paths[p.Parent]
	parent.Leaf = false
	p.Caller, p.Depth = parent.Func, parent.Depth+1
	if s.isNested(i) {
		p.Nested, p.OpenNested = p.Total, p.OpenTotal
	}
}

func sumsOf(p *reader.Profile, opts *Options) *Sums {
	alias := opts.Alias
	if alias == nil {
		alias = func(fn reader.FuncID) reader.FuncID { return fn }
	}
	s := &Sums{First: p.First, Last: p.Last, Paths: make([]Sum, len(p.Paths))}
	for i := range p.Paths {
		from, to := &p.Paths[i], &s.Paths[i]
		*to = Sum{
			Func: from.Func, Parent: from.Parent, Leaf: true, Count: from.Count, Total: from.Total, Self: from.Total,
			Min: from.Min, Max: from.Max, Octaves: from.Octaves,
			Open: from.Open, OpenTotal: from.OpenTotal, OpenSelf: from.OpenTotal,
		}
		if from.Func == reader.Folded {
			to.Leaf = false
		} else {
			to.Func = alias(from.Func)
		}
		if from.Parent < 0 {
			continue
		}
		s.place(i)
		s.Paths[from.Parent].take(addSaturating(from.Total, from.OpenTotal))
	}
	for i := range p.Folds {
		from := &p.Folds[i]
		fold := Sum{
			Func: alias(from.Func), Caller: from.Caller, Parent: -1, Count: from.Count, Total: from.Total, Self: from.Total,
			Min: from.Min, Max: from.Max, Octaves: from.Octaves,
			Open: from.Open, OpenTotal: from.OpenTotal, OpenSelf: from.OpenTotal, Nested: from.Nested, OpenNested: from.OpenNested,
		}
		if from.Caller > 0 {
			fold.Caller = alias(from.Caller)
		}
		fold.take(from.Inside)
		s.Folds = append(s.Folds, fold)
	}
	if opts.OffCPU != nil {
		s.addOff(p, opts.OffCPU)
	}
	return s
}

// addOff adds the off-CPU times. The kernel's clocks and the TSC may differ by a
// little, so a time is at most the self time.
func (s *Sums) addOff(p *reader.Profile, clock *reader.Clock) {
	off := func(from *reader.ProfileOff, to *Sum) Off {
		self := addSaturating(to.Self, to.OpenSelf)
		queued := min(clock.Ticks(from.Queued), self)
		return Off{Blocked: min(clock.Ticks(from.Blocked), self-queued), Queued: queued}
	}
	for i := range s.Folds {
		s.Folds[i].SelfOff = off(&p.Folds[i].Off, &s.Folds[i])
	}
	for i := range s.Paths {
		s.Paths[i].SelfOff = off(&p.Paths[i].Off, &s.Paths[i])
	}
	s.addTotalOff()
}

// addTotalOff adds the off-CPU times to those of callers.
func (s *Sums) addTotalOff() {
	for i := len(s.Paths) - 1; i >= 0; i-- { // callers come first
		to := &s.Paths[i]
		to.TotalOff.Add(to.SelfOff)
		if to.Parent >= 0 {
			s.Paths[to.Parent].TotalOff.Add(to.TotalOff)
		}
	}
}

// isNested reports whether the function of a path also occurs earlier on it.
func (s *Sums) isNested(i int) bool {
	for a := s.Paths[i].Parent; a >= 0; a = s.Paths[a].Parent {
		if s.Paths[a].Func == s.Paths[i].Func {
			return true
		}
	}
	return false
}

// apply drops sums that the filter excludes. A folded path does not say which functions its calls
// are of, so if functions are selected, all folded paths become one.
func (s *Sums) apply(f *filter) {
	for i := range s.Paths {
		if p := &s.Paths[i]; p.Func == reader.Folded && f.Func != nil || p.Func != reader.Folded && !f.keepSum(p) {
			p.drop()
		}
	}
	all := Sum{Func: reader.Folded, Parent: -1}
	for i := range s.Folds {
		p := &s.Folds[i]
		if !f.keepSum(p) {
			p.drop()
		}
		all.Count += p.Count
		all.Open += p.Open
		all.Self = addSaturating(all.Self, p.Self)
		all.OpenSelf = addSaturating(all.OpenSelf, p.OpenSelf)
	}
	if all.Total, all.OpenTotal = all.Self, all.OpenSelf; f.Func != nil && all.Count+all.Open > 0 {
		s.Paths = append(s.Paths, all)
	}
}

// PathsIn adds the paths to a tree and returns them.
func (s *Sums) PathsIn(tree *Paths) []PathID {
	ids := make([]PathID, len(s.Paths))
	for i := range s.Paths {
		p := &s.Paths[i]
		parent := PathID(0)
		if p.Parent >= 0 {
			parent = ids[p.Parent]
		}
		ids[i] = tree.Child(parent, p.Func)
	}
	return ids
}

// take subtracts the time of a call from the self time, first from that of the calls that
// ended: a path does not say which of its calls made it. If the profile was read while its
// thread was running, or a signal handler interrupted an exit, calls may have slightly more
// time than their callers.
func (s *Sum) take(ticks uint64) {
	own := min(ticks, s.Self)
	s.Self -= own
	s.OpenSelf -= min(ticks-own, s.OpenSelf)
}

func (s *Sum) drop() {
	s.Count, s.Total, s.Self, s.Min, s.Max, s.Octaves, s.Bins, s.Coarse = 0, 0, 0, 0, 0, nil, nil, nil
	s.Inferred, s.Left, s.TailExited, s.Continued = 0, 0, 0, 0
	s.Open, s.OpenTotal, s.OpenSelf = 0, 0, 0
	s.Nested, s.OpenNested = 0, 0
	s.SelfOff, s.TotalOff = Off{}, Off{}
}

// keepSum is keep for a path.
func (f *filter) keepSum(s *Sum) bool {
	return f.keep(&Call{Func: s.Func, Depth: s.Depth, Duration: math.MaxUint64})
}

func (s *Stats) addSums(sums *Sums) {
	s.Threads++
	for p := range sums.Functions() {
		s.Calls += p.Count + p.Open
		s.Truncated += p.Open
		s.Inferred += p.Inferred
		s.Left += p.Left
		s.MaxDepth = max(s.MaxDepth, p.Depth+1)
	}
	for i := range sums.Folds {
		p := &sums.Folds[i]
		s.Folded += p.Count + p.Open
		s.FoldedInProfile += p.Count + p.Open
		s.FoldedSelf = addSaturating(s.FoldedSelf, addSaturating(p.Self, p.OpenSelf))
	}
}

func addSaturating(a, b uint64) uint64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxUint64
}
