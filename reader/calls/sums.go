package calls

import (
	"errors"
	"math"

	"github.com/xray-tools/xray/reader"
)

// Sums are the calls of a thread that were added up while they were made, so that
// there is no [Batch] of them. A sink must not retain it.
type Sums struct {
	Thread      reader.Thread
	Index       int    // as Batch.Index; other than those of all batches
	First, Last uint64 // TSC of the first and the latest entry or exit
	Paths       []Sum  // parents come before their children
}

// Sum is the calls of one path. What a filter leaves out, or was on the way only,
// has neither Count nor Open. Times are in ticks.
type Sum struct {
	Func, Caller reader.FuncID // Caller is 0 for outermost calls
	Parent       int           // position in Sums.Paths; -1 for outermost calls
	Depth        uint32        // number of functions before it in the path
	Nested       bool          // Func is on the path before
	Leaf         bool          // no call was made from there
	// Count calls ended, which took Total; Self is that less the time of the calls
	// made directly.
	Count, Total, Self uint64
	Min, Max           uint64
	Octaves            []uint64 // calls that ended, by the length of their ticks in bits
	// Open calls had not ended, and are charged up to Sums.Last.
	Open, OpenTotal, OpenSelf uint64
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
	s := &Sums{First: p.First, Last: p.Last, Paths: make([]Sum, len(p.Paths))}
	for i := range p.Paths {
		from, to := &p.Paths[i], &s.Paths[i]
		*to = Sum{
			Func: from.Func, Parent: from.Parent, Leaf: true, Count: from.Count, Total: from.Total, Self: from.Total,
			Min: from.Min, Max: from.Max, Octaves: from.Octaves,
			Open: from.Open, OpenTotal: from.OpenTotal, OpenSelf: from.OpenTotal,
		}
		if alias != nil {
			to.Func = alias(from.Func)
		}
		if from.Parent < 0 {
			continue
		}
		parent := &s.Paths[from.Parent]
		parent.Leaf = false
		to.Caller, to.Depth = parent.Func, parent.Depth+1
		for a := from.Parent; a >= 0 && !to.Nested; a = p.Paths[a].Parent {
			to.Nested = s.Paths[a].Func == to.Func
		}
		parent.take(addSaturating(from.Total, from.OpenTotal))
	}
	for i := range s.Paths {
		if !f.keepSum(&s.Paths[i]) {
			s.Paths[i].drop()
		}
	}
	return s
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
}

// keepSum is keep for a path.
func (f *filter) keepSum(s *Sum) bool {
	return f.keep(&Call{Func: s.Func, Depth: s.Depth, Duration: math.MaxUint64})
}

func (s *Stats) addSums(sums *Sums) {
	s.Threads++
	for i := range sums.Paths {
		p := &sums.Paths[i]
		s.Calls += p.Count + p.Open
		s.Truncated += p.Open
		s.MaxDepth = max(s.MaxDepth, p.Depth+1)
	}
}

func addSaturating(a, b uint64) uint64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxUint64
}
