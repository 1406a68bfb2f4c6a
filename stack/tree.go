package stack

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Frame is a call path: its last function, called through the path of its
// parent. Times are in ticks.
type Frame struct {
	Func   reader.FuncID
	Parent int // position in Tree.Frames; -1 for an outermost function
	Depth  int // number of functions before it in the path
	Count  uint64
	Total  uint64 // durations of Count calls; equal to Self for folded paths
	Self   uint64 // Total without the durations of the calls that they made
	// Leaves counts the calls of Count that made no call, and LeafTotal is their duration.
	// Calls that were filtered out do not count as calls made.
	Leaves, LeafTotal uint64
	// Calls still open at the end, measured up to their thread's last record.
	Open, OpenTotal, OpenSelf uint64
	// Off is the part of Self and OpenSelf in which the thread was off CPU, with
	// calls.Options.OffCPU.
	Off calls.Off
	// Spread is the number of calls of Count whose durations were summed up by the recorder. Min to Max
	// are of these. P50 and P99 are approximate.
	Spread             uint64
	Min, P50, P99, Max uint64
}

// Tree is the call paths of one thread, or of all threads together.
type Tree struct {
	Thread reader.Thread // zero if Label is empty
	// Label identifies the thread among those of the trace: its ID, preceded by the process
	// and the file if they are needed, and its name if it has one. It is empty for all
	// threads together.
	Label string
	// Frames has parents before their children, and a frame's children after
	// one another, by function id, each followed by its own children.
	Frames []Frame
}

// Report is the result of an analysis.
type Report struct {
	Clock reader.Clock
	// OffCPU says that the report has off-CPU times.
	OffCPU bool
	// Spreads says that paths have the durations of their calls.
	Spreads bool

	threads []*thread // by file, process and ID; a single one without ID for all together
	labels  []string
	order   []calls.PathID // all paths but the root, in the order of Tree.Frames
	paths   *calls.Paths
	earlier uint64 // open calls that began before what was selected
}

// Report sums up the analysis, which must not be changed afterwards.
func (a *Analysis) Report(c reader.Clock) *Report {
	a.join()
	r := &Report{Clock: c, OffCPU: a.opts.OffCPU, paths: a.paths, earlier: a.earlier}
	if a.paths != nil {
		r.order = preorder(a.paths)
	}
	if a.all != nil {
		r.threads, r.labels = []*thread{{sums: a.all}}, []string{""}
		r.Spreads = len(a.all.spread) > 0
		return r
	}
	for _, th := range a.threads {
		if th != nil {
			r.threads = append(r.threads, th)
			r.Spreads = r.Spreads || len(th.sums.spread) > 0
		}
	}
	slices.SortFunc(r.threads, func(x, y *thread) int {
		return cmp.Or(cmp.Compare(x.id.File, y.id.File), cmp.Compare(x.id.Process, y.id.Process),
			cmp.Compare(x.id.Thread, y.id.Thread))
	})
	r.labels = threadLabels(r.threads)
	if name := a.opts.ThreadName; name != nil {
		for i, th := range r.threads {
			r.labels[i] = strings.TrimSuffix(r.labels[i]+" "+name(th.id), " ")
		}
	}
	return r
}

// preorder lists all paths but the root: parents first, children by function.
func preorder(p *calls.Paths) []calls.PathID {
	// A counting sort by parent, and then a sort of the children of each.
	n := p.Len()
	ends := make([]int, n) // where the children of a path end in children
	for id := 1; id < n; id++ {
		ends[p.Parent(calls.PathID(id))]++
	}
	for id := 1; id < n; id++ {
		ends[id] += ends[id-1]
	}
	children := make([]calls.PathID, n-1)
	starts := slices.Clone(ends)
	for id := n - 1; id > 0; id-- {
		parent := p.Parent(calls.PathID(id))
		starts[parent]--
		children[starts[parent]] = calls.PathID(id)
	}

	order := make([]calls.PathID, 0, n-1)
	// pending are paths to visit, the next one last.
	pending := []calls.PathID{0}
	for len(pending) > 0 {
		id := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if id != 0 {
			order = append(order, id)
		}
		family := children[starts[id]:ends[id]]
		slices.SortFunc(family, func(x, y calls.PathID) int { return cmp.Compare(p.Func(y), p.Func(x)) })
		pending = append(pending, family...)
	}
	return order
}

// threadLabels returns the thread IDs, with the process and the file if thread IDs are ambiguous.
func threadLabels(threads []*thread) []string {
	forms := []func(reader.Thread) string{
		func(t reader.Thread) string { return strconv.Itoa(int(t.Thread)) },
		func(t reader.Thread) string { return fmt.Sprintf("%d/%d", t.Process, t.Thread) },
		func(t reader.Thread) string { return fmt.Sprintf("%d/%d/%d", t.File+1, t.Process, t.Thread) },
	}
	labels := make([]string, len(threads))
	for _, form := range forms {
		seen := make(map[string]bool)
		for i, th := range threads {
			labels[i] = form(th.id)
			seen[labels[i]] = true
		}
		if len(seen) == len(threads) {
			break
		}
	}
	return labels
}

// Trees yields the tree of every thread that made calls, or one tree for all threads
// together. A tree is valid until the next one is yielded.
func (r *Report) Trees() iter.Seq[*Tree] {
	return func(yield func(*Tree) bool) {
		var position []int // of a path in the tree of one thread, plus 1
		if r.paths != nil {
			position = make([]int, r.paths.Len())
		}
		t := &Tree{}
		for i := range r.threads {
			r.load(t, i, position)
			if !yield(t) {
				return
			}
		}
	}
}

// load fills t with the tree of a number. position has an element for each path.
func (r *Report) load(t *Tree, number int, position []int) {
	t.Thread, t.Label = r.threads[number].id, r.labels[number]
	r.frames(t, r.threads[number].sums, position)
}

// perThread reports whether threads are kept apart.
func (r *Report) perThread() bool { return len(r.threads) > 0 && r.labels[0] != "" }

// frames fills the frames of t with the paths of s, and their callers.
func (r *Report) frames(t *Tree, s *sums, position []int) {
	t.Frames = t.Frames[:0]
	clear(position)
	// Callers have smaller IDs, so a loop in descending order marks whole paths.
	n := 0
	for id := len(position) - 1; id > 0; id-- {
		if position[id] != 0 || s.known(calls.PathID(id)) {
			position[id] = 1
			position[r.paths.Parent(calls.PathID(id))] = 1
			n++
		}
	}
	t.Frames = slices.Grow(t.Frames, n)
	for _, id := range r.order {
		if position[id] == 0 {
			continue
		}
		f := Frame{Func: r.paths.Func(id), Parent: -1}
		if parent := r.paths.Parent(id); parent != 0 {
			f.Parent = position[parent] - 1
			f.Depth = t.Frames[f.Parent].Depth + 1
		}
		if p := s.page(id); p != nil {
			sum := &p[id&pageMask]
			f.Count, f.Total, f.Self = sum.count, sum.total, sum.self
			f.Leaves, f.LeafTotal = sum.leaves, sum.leafTicks
		}
		if open, ok := s.open[id]; ok {
			f.Open, f.OpenTotal, f.OpenSelf = open.count, open.total, open.self
		}
		f.Off = s.off[id]
		if spread := s.spread[id]; spread != nil {
			var q [2]uint64
			spread.Quantiles(q[:], 0.5, 0.99)
			f.Spread, f.Min, f.P50, f.P99, f.Max = spread.Count(), spread.Min(), q[0], q[1], spread.Max()
		}
		if f.Func == reader.Folded {
			// The calls of a folded path may contain each other, so their durations
			// overlap.
			f.Total, f.OpenTotal = f.Self, f.OpenSelf
		}
		t.Frames = append(t.Frames, f)
		position[id] = len(t.Frames)
	}
}

// known reports whether any call had the path.
func (s *sums) known(id calls.PathID) bool {
	if p := s.page(id); p != nil && p[id&pageMask].count > 0 {
		return true
	}
	if _, ok := s.open[id]; ok {
		return true
	}
	_, ok := s.off[id]
	return ok
}

// page returns the page of a path; nil if there is none.
func (s *sums) page(id calls.PathID) *page {
	if p := int(id >> pageBits); p < len(s.pages) {
		return s.pages[p]
	}
	return nil
}
