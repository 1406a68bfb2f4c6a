package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Side is one of the two traces of a comparison.
type Side struct {
	Analysis *Analysis // must not be used after the comparison
	Clock    reader.Clock
	Names    symbolize.Names
}

// Diff is the joint graph of two traces, A and B. Functions are joined by name, because IDs
// differ between builds. Functions of the same name in one trace count as one.
type Diff struct {
	ClockA, ClockB reader.Clock
	Quantiles      bool // both sides have quantiles
	// Functions is ordered by name. The first is the root, the caller of calls that have
	// none. Its name is empty.
	Functions []FunctionDiff
	// Edges is ordered by caller, then callee.
	Edges []EdgeDiff
	Left  Left
}

// FunctionDiff is a function in both traces.
type FunctionDiff struct {
	Name string
	A, B *Stats // nil if the trace does not have it
}

// EdgeDiff is an edge in both traces.
type EdgeDiff struct {
	Caller, Callee int    // positions in Diff.Functions
	A, B           *Stats // nil if the trace does not have it
}

// Compare joins the call graphs of two traces.
func Compare(a, b Side) *Diff {
	var names []string
	labelsA, labelsB := a.labels(), b.labels()
	for _, labels := range []map[reader.FuncID]string{labelsA, labelsB} {
		for _, name := range labels {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	ids := make(map[string]reader.FuncID, len(names))
	for i, name := range names {
		ids[name] = reader.FuncID(i)
	}

	d := &Diff{
		ClockA: a.Clock, ClockB: b.Clock,
		Quantiles: a.Analysis.opts.Quantiles && b.Analysis.opts.Quantiles,
	}
	for _, name := range names {
		d.Functions = append(d.Functions, FunctionDiff{Name: name})
	}
	edges := make(map[[2]reader.FuncID]*EdgeDiff)
	join := func(r *Report, functionStats func(*FunctionDiff) **Stats, edgeStats func(*EdgeDiff) **Stats) {
		for i := range r.Functions {
			f := &r.Functions[i]
			*functionStats(&d.Functions[f.ID]) = &f.Stats
		}
		for i := range r.Edges {
			e := &r.Edges[i]
			key := [2]reader.FuncID{e.Caller, e.Callee}
			if edges[key] == nil {
				edges[key] = &EdgeDiff{Caller: int(e.Caller), Callee: int(e.Callee)}
			}
			*edgeStats(edges[key]) = &e.Stats
		}
	}
	join(a.Analysis.renumber(labelsA, ids).Report(a.Clock),
		func(f *FunctionDiff) **Stats { return &f.A }, func(e *EdgeDiff) **Stats { return &e.A })
	join(b.Analysis.renumber(labelsB, ids).Report(b.Clock),
		func(f *FunctionDiff) **Stats { return &f.B }, func(e *EdgeDiff) **Stats { return &e.B })

	for _, e := range edges {
		d.Edges = append(d.Edges, *e)
	}
	slices.SortFunc(d.Edges, func(x, y EdgeDiff) int {
		return cmp.Or(cmp.Compare(x.Caller, y.Caller), cmp.Compare(x.Callee, y.Callee))
	})
	return d
}

// labels returns the names of the functions of the trace. That of the root is empty.
func (s *Side) labels() map[reader.FuncID]string {
	labels := make(map[reader.FuncID]string)
	for i := range s.Analysis.edges {
		e := &s.Analysis.edges[i]
		for _, id := range []reader.FuncID{e.caller, e.callee} {
			if _, ok := labels[id]; !ok && id != Root {
				labels[id] = symbolize.Label(s.Names, id)
			}
		}
	}
	// Include the root whether it has edges or not, so that it is number 0 on both sides,
	// as reports expect.
	labels[Root] = ""
	return labels
}

// renumber replaces the IDs of functions by the numbers of their names. It adds up edges that become
// equal.
func (a *Analysis) renumber(labels map[reader.FuncID]string, ids map[string]reader.FuncID) *Analysis {
	to := New(a.opts)
	for i := range a.edges {
		e := &a.edges[i]
		to.absorb(ids[labels[e.caller]], ids[labels[e.callee]], a, i)
	}
	return to
}

// change returns B / A − 1: infinite if only A is 0, and 0 if both are 0.
func change(a, b float64) float64 {
	if a == b {
		return 0
	}
	if a == 0 {
		return math.Inf(1)
	}
	return b/a - 1
}

// change is the relative change of a column from A to B. It reports false if it
// is missing on one side. Times of different clocks are compared as seconds.
func (d *Diff) change(a, b *Stats, c Column) (float64, bool) {
	if a == nil || b == nil || c == None || !a.Has(c) || !b.Has(c) {
		return 0, false
	}
	return change(amount(a, c, d.ClockA), amount(b, c, d.ClockB)), true
}

// difference is the absolute difference of a column, in calls or seconds. A missing side
// counts as 0.
func (d *Diff) difference(a, b *Stats, c Column) float64 {
	var x, y float64
	if a != nil {
		x = amount(a, c, d.ClockA)
	}
	if b != nil {
		y = amount(b, c, d.ClockB)
	}
	return math.Abs(y - x)
}

// Trim returns the part of the graph that changed most, and counts in Left what it omits.
//
// It keeps edges whose sum changed by at least minShare (0 to 1) of the self time of the trace
// with more self time. It keeps functions whose self time changed by as much, or that have such
// an edge. If top is above 0, it keeps only the top functions by change of self time, and the
// edges between them and from the root.
func (d *Diff) Trim(minShare float64, top int) *Diff {
	var selfA, selfB float64
	for i := range d.Functions {
		f := &d.Functions[i]
		if f.A != nil {
			selfA += amount(f.A, Self, d.ClockA)
		}
		if f.B != nil {
			selfB += amount(f.B, Self, d.ClockB)
		}
	}
	least := minShare * max(selfA, selfB)

	keepFunction := make([]bool, len(d.Functions))
	keepEdge := make([]bool, len(d.Edges))
	order := make([]int, 0, len(d.Functions))
	changed := make([]float64, len(d.Functions))
	keepFunction[0] = true
	for i := 1; i < len(d.Functions); i++ {
		changed[i] = d.difference(d.Functions[i].A, d.Functions[i].B, Self)
		keepFunction[i] = top <= 0 && changed[i] >= least
		order = append(order, i)
	}
	if top > 0 {
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(changed[j], changed[i]) })
		for _, i := range order[:min(top, len(order))] {
			keepFunction[i] = changed[i] >= least
		}
	}
	for i := range d.Edges {
		e := &d.Edges[i]
		keepEdge[i] = d.difference(e.A, e.B, Sum) >= least &&
			(top <= 0 || keepFunction[e.Caller] && keepFunction[e.Callee])
	}
	for i, keep := range keepEdge {
		if keep {
			keepFunction[d.Edges[i].Caller], keepFunction[d.Edges[i].Callee] = true, true
		}
	}

	trimmed := *d
	trimmed.Functions, trimmed.Edges = nil, nil
	position := make([]int, len(d.Functions))
	for i, keep := range keepFunction {
		position[i] = len(trimmed.Functions)
		if keep {
			trimmed.Functions = append(trimmed.Functions, d.Functions[i])
		}
	}
	for i, keep := range keepEdge {
		if keep {
			e := d.Edges[i]
			e.Caller, e.Callee = position[e.Caller], position[e.Callee]
			trimmed.Edges = append(trimmed.Edges, e)
		}
	}
	trimmed.Left.Functions += len(d.Functions) - len(trimmed.Functions)
	trimmed.Left.Edges += len(d.Edges) - len(trimmed.Edges)
	return &trimmed
}
