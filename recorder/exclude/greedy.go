package exclude

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/ranking"
)

// node is a function with the data to choose it.
type node struct {
	Function
	keep     bool
	always   bool
	excluded bool
	callees  int // number of other functions that it calls and that are still recorded
	callers  []*node
	place    int // index in the heap, if it is in one
}

// excludedBefore orders functions as [ranking.Compare] does.
func excludedBefore(a, b *node) bool {
	c := ranking.Compare(a.rank(), b.rank())
	return c < 0 || c == 0 && a.ID < b.ID
}

func (n *node) rank() ranking.Function {
	return ranking.Function{Cost: float64(n.Cost), Value: float64(n.Self)}
}

// greedy yields functions in the order in which they are left out.
type greedy struct {
	nodes  []*node
	leaves nodeHeap // functions that may be left out and call none that is still recorded
	others nodeHeap // functions that may be left out and call others that are still recorded
	self   uint64   // self time of all functions
}

func newGreedy(a *Analysis, opts *Options) *greedy {
	g := &greedy{}
	byID := make(map[reader.FuncID]*node, len(a.functions))
	for id, f := range a.functions {
		n := &node{Function: Function{ID: id, Calls: f.calls + f.pruned, Cost: ticks(f.calls+f.pruned, opts.Cost.Mean())}}
		n.Bytes = f.calls*opts.Sizes.Call + f.args*opts.Sizes.Arg
		n.always = opts.Always != nil && opts.Always(id)
		n.keep = n.always || opts.Keep != nil && opts.Keep(id)
		byID[id] = n
		g.nodes = append(g.nodes, n)
	}
	direct := make(map[reader.FuncID]uint64)
	most := make(map[reader.FuncID]uint64)
	for e, calls := range a.edges {
		direct[e.caller] += calls
		callee, caller := byID[e.callee], byID[e.caller]
		if e.caller == e.callee || caller == nil {
			continue // a caller may have been filtered out
		}
		callee.Callers++
		callee.callers = append(callee.callers, caller)
		caller.callees++
		if m := most[e.callee]; calls > m || calls == m && e.caller < callee.Caller {
			most[e.callee], callee.Caller = calls, e.caller
		}
	}
	split := opts.Cost.Half(math.MaxUint64)
	for _, n := range g.nodes {
		f := a.functions[n.ID]
		cost := calls.ProbeTicks(f.calls, split.Inside)
		cost.AddSum(calls.ProbeTicks(direct[n.ID], split.Outside))
		if cost.Compare(f.self) < 0 {
			n.Self = saturate(f.self.Minus(cost))
		}
		g.self += n.Self
		if n.keep {
			continue
		}
		if n.callees == 0 {
			g.leaves = append(g.leaves, n)
		} else {
			g.others = append(g.others, n)
		}
	}
	slices.SortFunc(g.nodes, func(x, y *node) int { return cmp.Compare(x.ID, y.ID) })
	g.leaves.init()
	g.others.init()
	return g
}

// next removes and returns a function, or returns nil if none may be left out.
func (g *greedy) next() *node {
	from := &g.leaves
	if from.Len() == 0 {
		from = &g.others
	}
	if from.Len() == 0 {
		return nil
	}
	n := heap.Pop(from).(*node)
	n.excluded = true
	for _, caller := range n.callers {
		if caller.callees--; caller.callees == 0 && !caller.keep && !caller.excluded {
			heap.Remove(&g.others, caller.place)
			heap.Push(&g.leaves, caller)
		}
	}
	return n
}

// nodeHeap is a heap of functions. The one to leave out first is on top.
type nodeHeap []*node

func (h nodeHeap) Len() int           { return len(h) }
func (h nodeHeap) Less(i, j int) bool { return excludedBefore(h[i], h[j]) }

func (h nodeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *nodeHeap) Push(x any) {
	n := x.(*node)
	n.place = len(*h)
	*h = append(*h, n)
}

func (h *nodeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (h nodeHeap) init() {
	for i, n := range h {
		n.place = i
	}
	heap.Init(&h)
}
