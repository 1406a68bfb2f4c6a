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
		e := s.latest
		if e == nil || k != s.edge {
			e = s.edges[k]
		}
		if e == nil {
			if len(s.edges) >= maxEdges {
				s.dropped = true
				return
			}
			e = &Edge{held: other.lock, taken: h.lock, Thread: th.id, Start: h.start, heldPath: other.path, takenPath: h.path}
			s.edges[k] = e
			e.held.used, e.taken.used = true, true
		}
		s.edge, s.latest = k, e
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

// cycles finds a shortest cycle of several threads through each edge that is in one, unless a cycle
// found before contains it. It omits cycles of a single thread, which cannot deadlock.
func cycles(edges []Edge, locks int) []Cycle {
	s := newCycleSearch(edges, locks)
	several := s.ofSeveralThreads()
	var list []Cycle
	covered := make([]bool, len(edges))
	for i := range edges {
		if covered[i] || !s.inside(i) || !several[s.component[edges[i].Held]] {
			continue
		}
		var c Cycle
		for _, j := range s.shortest(i) {
			covered[j] = true
			c.Edges = append(c.Edges, edges[j])
		}
		if len(c.Edges) > 0 {
			list = append(list, c)
		}
		if len(list) == maxCycles || s.steps > maxSteps {
			break
		}
	}
	return list
}

const (
	maxCycles = 20          // limits the cycles that are listed
	maxSteps  = 100_000_000 // limits the edges that the search for cycles follows
)

// cycleSearch finds cycles of several threads.
type cycleSearch struct {
	edges     []Edge
	out       [][]int // edges by the lock that is held
	component []int   // of each lock
	steps     int     // edges followed

	// The current search, and how it reached places. What earlier searches left has other numbers.
	number int
	ways   []way // by place
	// passed has the number mark for the locks on the way to the place fork.
	fork, mark int
	passed     []int
}

func newCycleSearch(edges []Edge, locks int) *cycleSearch {
	s := &cycleSearch{edges: edges, out: make([][]int, locks), ways: make([]way, 2*locks), passed: make([]int, locks)}
	for i := range edges {
		s.out[edges[i].Held] = append(s.out[edges[i].Held], i)
	}
	s.component = components(edges, s.out)
	return s
}

// inside reports whether an edge is in a cycle.
func (s *cycleSearch) inside(i int) bool {
	return s.component[s.edges[i].Held] == s.component[s.edges[i].Taken]
}

// ofSeveralThreads returns the components whose edges several threads made.
func (s *cycleSearch) ofSeveralThreads() map[int]bool {
	several, thread := make(map[int]bool), make(map[int]reader.Thread)
	for i := range s.edges {
		e := &s.edges[i]
		if !s.inside(i) {
			continue
		}
		c := s.component[e.Held]
		if _, seen := thread[c]; !seen {
			thread[c] = e.Thread
		}
		several[c] = several[c] || e.several || e.Thread != thread[c]
	}
	return several
}

// place is a lock that a search has reached, times two, plus one if several threads made the edges
// up to there.
type place = int

func placeOf(lock int, several bool) place {
	if several {
		return 2*lock + 1
	}
	return 2 * lock
}

// way is how a search reached a place: by an edge from another place. fork is the last place before
// an edge of another thread.
type way struct {
	number     int // of the search
	edge       int
	from, fork place
}

// shortest returns the edges of a shortest cycle of several threads through an edge, or nil. It may
// miss a cycle of five or more locks, if a shorter way to one of them passes through another. To
// miss none can take exponential time.
func (s *cycleSearch) shortest(first int) []int {
	e := &s.edges[first]
	start, end, dead := placeOf(e.Taken, e.several), placeOf(e.Held, true), placeOf(e.Held, false)
	s.number++
	s.fork = -1
	s.ways[start].number = s.number
	for queue := []place{start}; len(queue) > 0 && s.steps <= maxSteps; queue = queue[1:] {
		at := queue[0]
		for _, i := range s.out[at/2] {
			s.steps++
			if !s.inside(i) {
				continue
			}
			next := placeOf(s.edges[i].Taken, at%2 == 1 || s.edges[i].several || s.edges[i].Thread != e.Thread)
			w := way{s.number, i, at, s.ways[at].fork}
			if at%2 == 0 {
				w.fork = at
			}
			if s.ways[next].number == s.number || next == dead || next%2 > start%2 && s.passes(start, w.fork, next/2) {
				continue
			}
			s.ways[next] = w
			if next == end {
				return append([]int{first}, s.edgesTo(start, end)...)
			}
			queue = append(queue, next)
		}
	}
	return nil
}

// passes reports whether the way from start to fork has a lock.
func (s *cycleSearch) passes(start, fork place, lock int) bool {
	if s.fork != fork {
		s.fork = fork
		s.mark++
		for at := fork; ; at = s.ways[at].from {
			s.steps++
			s.passed[at/2] = s.mark
			if at == start {
				break
			}
		}
	}
	return s.passed[lock] == s.mark
}

// edgesTo returns the edges of the way from start to end.
func (s *cycleSearch) edgesTo(start, end place) []int {
	var list []int
	for at := end; at != start; at = s.ways[at].from {
		list = append(list, s.ways[at].edge)
	}
	slices.Reverse(list)
	return list
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
