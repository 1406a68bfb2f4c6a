package requests

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Trees is the second pass. It finds the calls made in the segments of some requests. It is an
// analysis, and needs calls.Options.Paths and no filter. Memory grows with the segments and
// the different paths in each.
type Trees struct {
	threads map[int][]*tree
	trees   map[place]*tree
	sleeps  *Sleeps
}

// place identifies a segment.
type place struct {
	index      int
	start, end uint64
}

// tree has the calls made in a segment.
type tree struct {
	place
	paths *calls.Paths
	sums  map[calls.PathID]*Call
}

// Call sums up the calls of one path in a segment.
type Call struct {
	Func               reader.FuncID
	Depth              int // in the segment
	First              uint64
	Calls, Total, Self uint64
	// Off is the part of Self in which the thread was off CPU, if
	// calls.Options.OffCPU was set.
	Off calls.Off
}

// NewTrees returns an empty pass over the segments of requests. sleeps has their sleep times, or is
// nil.
func NewTrees(shown []*Request, sleeps *Sleeps) *Trees {
	t := &Trees{threads: make(map[int][]*tree), trees: make(map[place]*tree), sleeps: sleeps}
	for _, r := range shown {
		for i := range r.Segments {
			s := &r.Segments[i]
			p := place{s.Index, s.Start, s.End}
			if t.trees[p] == nil {
				t.trees[p] = &tree{place: p, sums: make(map[calls.PathID]*Call)}
				t.threads[s.Index] = append(t.threads[s.Index], t.trees[p])
			}
		}
	}
	return t
}

// Calls takes the next calls of a thread.
func (t *Trees) Calls(b *calls.Batch) error {
	t.sleeps.find(b)
	list := t.threads[b.Index]
	if len(list) == 0 || len(b.Calls) == 0 {
		return nil
	}
	// Calls arrive in the order in which they end.
	from := b.Calls[0].Start + b.Calls[0].Duration
	for _, tr := range list {
		if tr.end < from {
			continue
		}
		waits := b.Waits
		for i := range b.Calls {
			c := &b.Calls[i]
			var off calls.Off
			for ; len(waits) > 0 && waits[0].Call <= i; waits = waits[1:] {
				if waits[0].Call == i {
					off = waits[0].Self
				}
			}
			if end := c.Start + c.Duration; end > tr.end {
				break
			}
			if c.Start >= tr.start {
				tr.paths = b.Paths
				tr.add(c, off)
			}
		}
	}
	return nil
}

func (t *tree) add(c *calls.Call, off calls.Off) {
	s := t.sums[c.Path]
	if s == nil {
		s = &Call{Func: t.paths.Func(c.Path), First: c.Start}
		t.sums[c.Path] = s
	}
	s.Calls++
	s.Self += c.Self
	s.Off.Add(off)
	if s.Func == reader.Folded {
		s.Total += c.Self // some of the calls were made by others of them
	} else {
		s.Total += c.Duration
	}
	s.First = min(s.First, c.Start)
}

// Merge implements calls.Analysis.
func (t *Trees) Merge(o *Trees) {
	for p, tr := range o.trees {
		if tr.paths != nil {
			t.trees[p] = tr // each thread belongs to one shard
		}
	}
}

// Of lists the calls made in a segment, callees after their callers, in the order in which they
// were first called.
func (t *Trees) Of(s *Segment) []Call {
	tr := t.trees[place{s.Index, s.Start, s.End}]
	if tr == nil || tr.paths == nil {
		return nil
	}
	children := make(map[calls.PathID][]calls.PathID)
	for id := range tr.sums {
		parent := tr.paths.Parent(id)
		if tr.sums[parent] == nil {
			parent = 0
		}
		children[parent] = append(children[parent], id)
	}
	var rows []Call
	var add func(parent calls.PathID, depth int)
	add = func(parent calls.PathID, depth int) {
		list := children[parent]
		slices.SortFunc(list, func(a, b calls.PathID) int {
			x, y := tr.sums[a], tr.sums[b]
			return cmp.Or(cmp.Compare(x.First, y.First), cmp.Compare(x.Func, y.Func))
		})
		for _, id := range list {
			row := *tr.sums[id]
			row.Depth = depth
			rows = append(rows, row)
			add(id, depth+1)
		}
	}
	add(0, 0)
	return rows
}

var _ calls.Analysis[*Trees] = (*Trees)(nil)
