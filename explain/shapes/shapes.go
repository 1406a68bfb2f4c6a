// Package shapes groups the invocations of root functions by the shape of their call tree,
// to show the rare shapes next to the most common one.
//
// The shape of an invocation is the set of the paths below its root with the number of
// calls of each, rounded down to a power of two. Two shapes are the same if their 64-bit
// hashes are equal. The hashes are sums over the paths, independent of order. Package
// invocation defines invocations.
package shapes

import (
	"cmp"
	"container/heap"
	"maps"
	"math/bits"
	"slices"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// DefaultLimit is the number of shapes that are kept by default.
const DefaultLimit = 100_000

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
	// ExactCounts distinguishes shapes by the exact numbers of calls.
	ExactCounts bool
	// Limit is the maximum number of shapes that are kept. 0 means DefaultLimit. With more,
	// the analysis is Full.
	Limit int
	// Values are arguments and results of roots to sum up, or nil.
	Values *calls.Expressions
	// Replace lets a new shape replace the rarest if there is no room, as in the
	// Space-Saving algorithm: see Shape.Error. The result depends on the order of the
	// invocations, so use one shard.
	Replace bool
}

// Analysis counts shapes. It is a calls.Analysis, and needs calls.Options.Paths and no
// filter. Memory grows with the number of different paths and shapes.
type Analysis struct {
	*invocation.Tracker
	opts    Options
	hashes  []uint64 // of paths in Tree
	shapes  map[uint64]*shape
	rarest  rarest // all shapes; only with Options.Replace
	full    bool
	threads map[int]bool
}

// shape holds the invocations of a shape since it replaced another.
type shape struct {
	hash      uint64
	before    uint64 // invocations of the shapes that it replaced
	durations quantile.Sample
	steps     []step
	example   invocation.Invocation // the earliest
	values    map[int]*valueCounts  // of the roots, by calls.Expression.ID
	place     int                   // in Analysis.rarest
}

// count is an upper bound of the number of invocations, too high by up to before.
func (s *shape) count() uint64 { return s.before + s.durations.Count() }

// step is a path with its number of calls, or the length of that number in bits.
type step struct {
	path  calls.PathID
	count uint64
}

// New returns an empty analysis.
func New(opts Options) *Analysis {
	if opts.Limit <= 0 {
		opts.Limit = DefaultLimit
	}
	a := &Analysis{opts: opts, hashes: make([]uint64, 1), shapes: make(map[uint64]*shape), threads: make(map[int]bool)}
	a.Tracker = invocation.NewTracker(invocation.Options{
		Root: opts.Root, Thread: opts.Thread, From: opts.From, To: opts.To, Paths: true, Nested: opts.RootDepth == calls.EveryRoot,
		Values: opts.Values,
	}, a.see)
	return a
}

func (a *Analysis) see(v *invocation.Invocation, chosen bool) {
	if !chosen {
		return
	}
	a.threads[v.Index] = true
	a.hashPaths()
	var hash uint64
	for _, p := range v.Paths {
		hash += mix(a.hashes[p.ID] ^ mix(a.count(p.Calls)))
	}
	s := a.shapes[hash]
	if s == nil {
		if s = a.room(hash); s == nil {
			return
		}
		s.example, s.steps = *v, make([]step, len(v.Paths))
		s.example.Paths, s.example.Values = nil, nil
		for i, p := range v.Paths {
			s.steps[i] = step{p.ID, a.count(p.Calls)}
		}
	}
	s.durations.Add(v.Duration)
	s.updateExample(v)
	s.addValues(v.Values)
	if a.opts.Replace {
		heap.Fix(&a.rarest, s.place)
	}
}

// room makes room for a new shape, or returns nil.
func (a *Analysis) room(hash uint64) *shape {
	s := &shape{hash: hash}
	if len(a.shapes) >= a.opts.Limit {
		a.full = true
		if !a.opts.Replace {
			return nil
		}
		old := a.rarest[0]
		delete(a.shapes, old.hash)
		s.before, s.place, a.rarest[0] = old.count(), 0, s
	} else if a.opts.Replace {
		s.place = len(a.rarest)
		a.rarest = append(a.rarest, s)
	}
	a.shapes[hash] = s
	return s
}

// Full reports whether there were more shapes than the limit. Without Options.Replace, the
// analysis omits the others: repeat it with Options.Replace.
func (a *Analysis) Full() bool { return a.full }

// rarest is a heap with the shape with the fewest invocations on top.
type rarest []*shape

func (r rarest) Len() int           { return len(r) }
func (r rarest) Less(i, j int) bool { return r[i].count() < r[j].count() }
func (r rarest) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

// Push and Pop are not used: elements are replaced in place.
func (r *rarest) Push(any) { panic("not used") }
func (r *rarest) Pop() any { panic("not used") }

// count reduces a number of calls to what distinguishes shapes.
func (a *Analysis) count(n uint64) uint64 {
	if a.opts.ExactCounts {
		return n
	}
	return uint64(bits.Len64(n))
}

// updateExample makes an invocation the example if it is earlier.
func (s *shape) updateExample(v *invocation.Invocation) {
	if v.Compare(s.example.Key) < 0 {
		s.example = *v
		s.example.Paths, s.example.Values = nil, nil
	}
}

// hashPaths computes the hashes of new paths.
func (a *Analysis) hashPaths() {
	for id := calls.PathID(len(a.hashes)); int(id) < a.Tree.Len(); id++ {
		a.hashes = append(a.hashes, mix(a.hashes[a.Tree.Parent(id)]^uint64(uint32(a.Tree.Func(id)))))
	}
}

// mix spreads every bit over all others; it is the end of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Merge implements calls.Analysis.
func (a *Analysis) Merge(o *Analysis) {
	ids := a.Tree.Remap(o.Tree)
	for index := range o.threads {
		a.threads[index] = true
	}
	a.full = a.full || o.full
	for _, hash := range o.byTime() {
		theirs := o.shapes[hash]
		s := a.shapes[hash]
		switch {
		case s != nil:
			s.durations.Merge(&theirs.durations)
			s.updateExample(&theirs.example)
			s.mergeValues(theirs.values)
		case len(a.shapes) >= a.opts.Limit:
			a.full = true
		default:
			for i := range theirs.steps {
				theirs.steps[i].path = ids[theirs.steps[i].path]
			}
			a.shapes[hash] = theirs
		}
	}
}

// byTime lists the shapes by their earliest invocation.
func (a *Analysis) byTime() []uint64 {
	return slices.SortedFunc(maps.Keys(a.shapes), func(x, y uint64) int {
		return cmp.Or(a.shapes[x].example.Compare(a.shapes[y].example.Key), cmp.Compare(x, y))
	})
}

var _ calls.Analysis[*Analysis] = (*Analysis)(nil)
