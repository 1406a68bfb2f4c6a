package locks

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Edge says that a lock was taken while another was held.
type Edge struct {
	Held, Taken int // places in Report.Locks
	Count       uint64
	// The first time: when Taken was acquired, and the call paths for both locks.
	Thread              reader.Thread
	Start               uint64
	HeldPath, TakenPath []reader.FuncID

	held, taken         *lock
	heldPath, takenPath calls.PathID
	several             bool // several threads did it
}

// Cycle is a cycle of locks, each taken while the previous one was held. Edges[i] leads
// from lock i to the next one, and the last to the first.
type Cycle struct{ Edges []Edge }

type edgeKey struct{ held, taken int }

// order records which locks a thread holds when it acquires another.
func (s *sweep) order(th *thread, h *hold) {
	if !h.chosen {
		return
	}
	for _, other := range th.holds {
		if other.recursive || other.suspended || other.lock == h.lock {
			continue
		}
		k := edgeKey{other.number, h.number}
		e := s.edges[k]
		if e == nil {
			if len(s.edges) >= maxEdges {
				s.dropped = true
				return
			}
			e = &Edge{held: other.lock, taken: h.lock, Thread: th.id, Start: h.start, heldPath: other.path, takenPath: h.path}
			s.edges[k] = e
			e.held.used, e.taken.used = true, true
		}
		e.Count++
		e.several = e.several || e.Thread != th.id
	}
}

func (s *sweep) edgeList() []Edge {
	var list []Edge
	for _, e := range s.edges {
		e.Held, e.Taken = e.held.number, e.taken.number
		e.HeldPath, e.TakenPath = s.frames(e.heldPath), s.frames(e.takenPath)
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Held, b.Held), cmp.Compare(a.Taken, b.Taken))
	})
	return list
}

// cycles finds a shortest cycle through each edge that is in a cycle, unless a cycle found before
// contains it. It omits cycles of a single thread, which cannot deadlock.
func cycles(edges []Edge, locks int) []Cycle {
	out := make([][]int, locks) // edges by the lock that is held
	for i := range edges {
		out[edges[i].Held] = append(out[edges[i].Held], i)
	}
	components := components(edges, out)
	var list []Cycle
	covered := make([]bool, len(edges))
	for i := range edges {
		e := &edges[i]
		if covered[i] || components[e.Held] != components[e.Taken] {
			continue
		}
		round := append([]int{i}, shortest(edges, out, components, e.Taken, e.Held)...)
		var c Cycle
		for _, j := range round {
			covered[j] = true
			c.Edges = append(c.Edges, edges[j])
		}
		if !c.ofOneThread() {
			list = append(list, c)
		}
		if len(list) == maxCycles {
			break
		}
	}
	return list
}

// maxCycles limits the cycles that are listed.
const maxCycles = 20

func (c *Cycle) ofOneThread() bool {
	for _, e := range c.Edges {
		if e.several || e.Thread != c.Edges[0].Thread {
			return false
		}
	}
	return true
}

// shortest returns the edges of a shortest path in a component.
func shortest(edges []Edge, out [][]int, component []int, from, to int) []int {
	by := map[int]int{from: -1} // the edge that reached a lock
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, i := range out[queue[0]] {
			next := edges[i].Taken
			if _, seen := by[next]; seen || component[next] != component[from] {
				continue
			}
			by[next] = i
			queue = append(queue, next)
		}
		if _, there := by[to]; there {
			break
		}
	}
	var way []int
	for at := to; at != from; at = edges[by[at]].Held {
		way = append(way, by[at])
	}
	slices.Reverse(way)
	return way
}

// components numbers the strongly connected components of the locks, by Tarjan's algorithm,
// without recursion because chains may be long.
func components(edges []Edge, out [][]int) []int {
	n := len(out)
	component, index, low := make([]int, n), make([]int, n), make([]int, n)
	next := make([]int, n) // edge of a lock to visit
	var stack, work []int
	count, visited := 0, 0
	for root := range n {
		if index[root] != 0 {
			continue
		}
		work = append(work, root)
		for len(work) > 0 {
			v := work[len(work)-1]
			if index[v] == 0 {
				visited++
				index[v], low[v] = visited, visited
				stack = append(stack, v)
			}
			if next[v] < len(out[v]) {
				w := edges[out[v][next[v]]].Taken
				next[v]++
				switch {
				case index[w] == 0:
					work = append(work, w)
				case component[w] == 0:
					low[v] = min(low[v], index[w])
				}
				continue
			}
			work = work[:len(work)-1]
			if len(work) > 0 {
				parent := work[len(work)-1]
				low[parent] = min(low[parent], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			count++
			for {
				w := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				component[w] = count
				if w == v {
					break
				}
			}
		}
	}
	return component
}
