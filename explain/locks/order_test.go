package locks

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
)

// Cycles are simple, of several threads, and each has an edge that the others lack. They contain
// each edge that is in such a cycle of up to four locks.
func TestCycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		locks := rapid.IntRange(2, 6).Draw(t, "locks")
		var edges []Edge
		for held := range locks {
			for taken := range locks {
				if thread := rapid.Int32Range(0, 4).Draw(t, "thread"); held != taken && thread < 3 {
					several := rapid.IntRange(0, 9).Draw(t, "several") == 0
					edges = append(edges, Edge{Held: held, Taken: taken, Thread: reader.Thread{Thread: thread}, several: several})
				}
			}
		}
		list := cycles(edges, locks)
		listed := make(map[edgeKey]bool)
		for _, c := range list {
			if len(c.Edges) < 2 || !ofSeveralThreads(c.Edges) {
				t.Fatalf("a cycle of one thread: %+v", c)
			}
			passed, added := make(map[int]bool), false
			for i, e := range c.Edges {
				if e.Taken != c.Edges[(i+1)%len(c.Edges)].Held || passed[e.Held] {
					t.Fatalf("not a simple cycle: %+v", c)
				}
				k := edgeKey{e.Held, e.Taken}
				passed[e.Held], added = true, added || !listed[k]
				listed[k] = true
			}
			if !added {
				t.Fatalf("a cycle has no edge of its own: %+v", c)
			}
		}
		if len(list) == maxCycles {
			return
		}
		for i := range edges {
			if k := (edgeKey{edges[i].Held, edges[i].Taken}); !listed[k] && inCycle(edges, []Edge{edges[i]}, 4) {
				t.Fatalf("a cycle through %+v is missing in %+v", edges[i], edges)
			}
		}
	})
}

// The search follows few edges, even in a long cycle.
func TestLongCycle(t *testing.T) {
	const locks = 50_000
	var edges []Edge
	for i := range locks {
		edges = append(edges, Edge{Held: i, Taken: (i + 1) % locks, Thread: reader.Thread{Thread: int32(2 * i / locks)}})
	}
	if list := cycles(edges, locks); len(list) != 1 || len(list[0].Edges) != locks {
		t.Errorf("got %d cycles, want one of %d locks", len(list), locks)
	}
}

// inCycle reports whether a simple path, extended to at most n edges, closes a cycle of several threads.
func inCycle(edges, path []Edge, n int) bool {
	first, last := path[0], path[len(path)-1]
	if last.Taken == first.Held {
		return ofSeveralThreads(path)
	}
	for _, e := range path {
		if e.Held == last.Taken {
			return false
		}
	}
	if len(path) == n {
		return false
	}
	for _, e := range edges {
		if e.Held == last.Taken && inCycle(edges, append(path[:len(path):len(path)], e), n) {
			return true
		}
	}
	return false
}

func ofSeveralThreads(edges []Edge) bool {
	for _, e := range edges {
		if e.several || e.Thread != edges[0].Thread {
			return true
		}
	}
	return false
}
