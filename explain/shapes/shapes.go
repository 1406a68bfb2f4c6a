// Package shapes sorts the invocations of root functions by the shape of their
// call tree, to show the rare shapes beside the commonest.
//
// The shape of an invocation is the set of the paths below its root with the number
// of calls of each, rounded down to a power of two. Two shapes are the same if
// their hashes of 64 bits are, which are sums over the paths and so need no order.
// Package internal/invocation says what an invocation is.
package shapes

import (
	"cmp"
	"container/heap"
	"maps"
	"math/bits"
	"slices"

	"github.com/xray-tools/xray/internal/invocation"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// DefaultLimit is how many shapes are kept apart.
const DefaultLimit = 100_000

// Options say which invocations are looked at.
type Options struct {
	// Root says which functions are roots. It is called concurrently.
	Root func(reader.FuncID) bool
	// Thread, and From and To if it is not 0, choose invocations by thread and by
	// start, in ticks. Thread is called concurrently; nil chooses all.
	Thread   func(reader.Thread) bool
	From, To uint64
	// ExactCounts keeps apart what differs in the number of any calls.
	ExactCounts bool
	// Limit bounds the shapes that are kept apart; DefaultLimit when 0. With more the
	// analysis is Full.
	Limit int
	// Replace has a new shape take the place of the rarest when there is no room for
	// it, as the Space-Saving algorithm does: see Shape.Error. What becomes of that
	// depends on the order of the invocations, so it needs a run with one shard.
	Replace bool
}

// Analysis counts shapes. It is a calls.Analysis, and needs calls.Options.Paths and
// no filter. Memory grows with distinct paths and with shapes.
type Analysis struct {
	*invocation.Tracker
	opts    Options
	hashes  []uint64 // of paths in Tree
	shapes  map[uint64]*shape
	rarest  rarest // all shapes; only with Options.Replace
	full    bool
	threads map[int]bool
}

// shape is all invocations of one shape, since it took the place of another.
type shape struct {
	hash      uint64
	before    uint64 // invocations of those whose place it took
	durations quantile.Sample
	steps     []step
	example   invocation.Invocation // the earliest
	place     int                   // in Analysis.rarest
}

// count is how many invocations there are, or more, by no more than before.
func (s *shape) count() uint64 { return s.before + s.durations.Count() }

// step is that a path was called so often, or so often that its number has count
// bits.
type step struct {
	path  calls.PathID
	count uint64
}

// New returns an analysis that has seen nothing.
func New(opts Options) *Analysis {
	if opts.Limit <= 0 {
		opts.Limit = DefaultLimit
	}
	a := &Analysis{opts: opts, hashes: make([]uint64, 1), shapes: make(map[uint64]*shape), threads: make(map[int]bool)}
	a.Tracker = invocation.NewTracker(invocation.Options{
		Root: opts.Root, Thread: opts.Thread, From: opts.From, To: opts.To, Paths: true,
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
		s.example.Paths = nil
		for i, p := range v.Paths {
			s.steps[i] = step{p.ID, a.count(p.Calls)}
		}
	}
	s.durations.Add(v.Duration)
	s.meet(v)
	if a.opts.Replace {
		heap.Fix(&a.rarest, s.place)
	}
}

// room makes a place for a new shape; nil when there is none.
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

// Full reports whether there were more shapes than the limit. Without
// Options.Replace the analysis then knows nothing of the others, and should be done
// again with it.
func (a *Analysis) Full() bool { return a.full }

// rarest has the shape with the fewest invocations on top.
type rarest []*shape

func (r rarest) Len() int           { return len(r) }
func (r rarest) Less(i, j int) bool { return r[i].count() < r[j].count() }
func (r rarest) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].place, r[j].place = i, j
}

// Push and Pop are not used: places are taken over.
func (r *rarest) Push(any) { panic("not used") }
func (r *rarest) Pop() any { panic("not used") }

// count is the part of a number of calls that tells shapes apart.
func (a *Analysis) count(n uint64) uint64 {
	if a.opts.ExactCounts {
		return n
	}
	return uint64(bits.Len64(n))
}

// meet makes an invocation the example if it is earlier.
func (s *shape) meet(v *invocation.Invocation) {
	if v.Compare(s.example.Key) < 0 {
		s.example = *v
		s.example.Paths = nil
	}
}

// hashPaths finds the hashes of paths that are new.
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
			s.meet(&theirs.example)
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
