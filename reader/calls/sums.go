package calls

import (
	"errors"
	"iter"
	"math"

	"github.com/xray-tools/xray/reader"
)

// Sums are the calls of a thread that were added up while they were made, so that
// there is no [Batch] of them. A sink must not retain it.
type Sums struct {
	Thread      reader.Thread
	Index       int    // as Batch.Index; other than those of all batches
	First, Last uint64 // TSC of the first and the latest entry or exit
	// Paths come before those that lead on from them. A path of the function
	// [reader.Folded] has the calls made from there that have no path of their own.
	Paths []Sum
	// Folds are the calls of folded paths, by function and caller. They have no Depth and
	// no Parent.
	Folds []Sum
}

// Sum is the calls of one path. What a filter leaves out, or was on the way only,
// has neither Count nor Open. Times are in ticks.
type Sum struct {
	Func, Caller reader.FuncID // Caller is 0 for outermost calls; [reader.Folded] if it is not known
	Parent       int           // position in Sums.Paths; -1 for outermost calls
	Depth        uint32        // number of functions before it in the path
	Leaf         bool          // no call was made from there
	// Count calls ended, which took Total; Self is that less the time of the calls
	// made directly.
	Count, Total, Self uint64
	Min, Max           uint64
	Octaves            []uint64 // calls that ended, by the length of their ticks in bits
	// Open calls had not ended, and are charged up to Sums.Last.
	Open, OpenTotal, OpenSelf uint64
	// Nested is the part of Total of calls that were made while another call of Func was
	// open, and OpenNested that of OpenTotal.
	Nested, OpenNested uint64
}

// Functions goes through the sums that have a function: all of a thread's calls.
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

// SumSink is a sink that takes sums too.
type SumSink interface {
	Sink
	Sums(*Sums) error
}

// ErrSumsFilter means that calls that were added up were to be chosen by what only
// single calls have.
var ErrSumsFilter = errors.New("a profile does not contain the times and durations of single calls: " +
	"select by thread, function or depth, or record without --profile")

// ErrFoldedDepth means that calls were to be chosen by how deep they are, and the recorder
// did not keep the paths of all.
var ErrFoldedDepth = errors.New("a profile does not know how deep calls of folded paths were: choose by thread or function, " +
	"or record fewer functions (--func, --exclude)")

// RunSums feeds what the trace knows only sums of to a sink, and adds it to the
// statistics of a [Run] before. Each thread of a profile is one more thread.
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
			s := sumsOf(p, f, opts.Alias)
			s.Thread, s.Index = thread, stats.Threads
			stats.addSums(s)
			if err := sink.Sums(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func sumsOf(p *reader.Profile, f *filter, alias func(reader.FuncID) reader.FuncID) *Sums {
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
		parent := &s.Paths[from.Parent]
		parent.Leaf = false
		to.Caller, to.Depth = parent.Func, parent.Depth+1
		if s.isNested(i) {
			to.Nested, to.OpenNested = to.Total, to.OpenTotal
		}
		parent.take(addSaturating(from.Total, from.OpenTotal))
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
	s.apply(f)
	return s
}

// isNested reports whether the function of a path is on the path before.
func (s *Sums) isNested(i int) bool {
	for a := s.Paths[i].Parent; a >= 0; a = s.Paths[a].Parent {
		if s.Paths[a].Func == s.Paths[i].Func {
			return true
		}
	}
	return false
}

// apply drops what a filter leaves out. A folded path does not say whose calls it has, so
// where functions are chosen, those of all folded paths are in one.
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

// PathsIn returns the paths in a tree, to which they are added.
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

// take moves the time of a call from there out of the self time, first that of the
// calls that ended: a path does not say whose of them it was. A profile that was
// read while its thread was running, or a signal handler that interrupted an exit,
// may charge a little more to calls than to their callers.
func (s *Sum) take(ticks uint64) {
	own := min(ticks, s.Self)
	s.Self -= own
	s.OpenSelf -= min(ticks-own, s.OpenSelf)
}

func (s *Sum) drop() {
	s.Count, s.Total, s.Self, s.Min, s.Max, s.Octaves = 0, 0, 0, 0, 0, nil
	s.Open, s.OpenTotal, s.OpenSelf = 0, 0, 0
	s.Nested, s.OpenNested = 0, 0
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
