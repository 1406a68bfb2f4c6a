package graph

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Trim returns the most expensive part of the graph, and counts in Left what it omits. The
// statistics of the rest do not change.
//
// It drops functions and edges whose sum is below minShare (0 to 1) of the self time of the whole
// trace. It keeps those with open calls, because open calls are not in the sum. If top is above 0,
// it keeps only the top functions by self time, and the costliest path to each of them. It never
// drops the costliest edge into a function that it keeps, so the graph stays connected.
func (r *Report) Trim(minShare float64, top int) *Report {
	least := minShare * float64(r.Self)
	worth := func(s *Stats) bool { return float64(s.Sum) >= least || s.Open > 0 }
	position := make(map[reader.FuncID]int, len(r.Functions))
	for i := range r.Functions {
		position[r.Functions[i].ID] = i
	}
	// costliest is, for each function, its costliest edge from another function.
	costliest := make([]int, len(r.Functions))
	for i := range costliest {
		costliest[i] = -1
	}
	for i := range r.Edges {
		e := &r.Edges[i]
		c := &costliest[position[e.Callee]]
		if e.Caller != e.Callee && (*c < 0 || r.Edges[*c].Sum < e.Sum) {
			*c = i
		}
	}

	keep := make([]bool, len(r.Functions))
	for i := range keep {
		keep[i] = top <= 0 && worth(&r.Functions[i].Stats)
	}
	if top > 0 {
		for _, i := range r.bySelf()[:min(top, len(r.Functions))] {
			if !worth(&r.Functions[i].Stats) {
				continue
			}
			// Every step goes to a function that is not kept yet, so the loop ends.
			for at := i; !keep[at]; {
				keep[at] = true
				if c := costliest[at]; c >= 0 && r.Edges[c].Caller != Root {
					at = position[r.Edges[c].Caller]
				}
			}
		}
	}

	trimmed := *r
	trimmed.Functions, trimmed.Edges = nil, nil
	for i := range r.Functions {
		if keep[i] {
			trimmed.Functions = append(trimmed.Functions, r.Functions[i])
		}
	}
	for i := range r.Edges {
		e := &r.Edges[i]
		to := position[e.Callee]
		if keep[to] && (e.Caller == Root || keep[position[e.Caller]]) &&
			(worth(&e.Stats) || costliest[to] == i) {
			trimmed.Edges = append(trimmed.Edges, *e)
		}
	}
	trimmed.Left.Functions += len(r.Functions) - len(trimmed.Functions)
	trimmed.Left.Edges += len(r.Edges) - len(trimmed.Edges)
	return &trimmed
}

// bySelf returns the positions of functions in descending order of self time.
func (r *Report) bySelf() []int {
	order := make([]int, len(r.Functions))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(r.Functions[j].Self, r.Functions[i].Self)
	})
	return order
}
