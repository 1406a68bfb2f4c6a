package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
)

// Stats are the numbers of an edge or of a function. Times are in ticks.
type Stats struct {
	Count    uint64 // calls that ended
	Open     uint64 // calls still open at the end; they count only here and in Self
	Inferred uint64 // calls of Count that another call's exit ended
	Sum      uint64 // of durations; saturates at the largest number
	Self     uint64 // of the callee, in calls by this edge, including open ones; saturates like Sum
	Min, Max uint64
	// Untimed says that Min, Max and quantiles are unknown, because the calls are from profiles
	// that have only counts and total times.
	Untimed bool
	// Quantiles are by llvm-xray's rule: the value at index ⌊q·n⌋ in ascending order. They are 0
	// unless Report.Quantiles is set.
	P50, P90, P99, P999 uint64
	// Approximate says that quantiles may be off by quantile.RelativeError, or, with
	// Coarse, by quantile.OctaveError.
	Approximate, Coarse bool
}

// Function is a function, with the sums over all its callers.
type Function struct {
	ID reader.FuncID
	Stats
}

// Edge is a pair of caller and callee. Caller may be [Root].
type Edge struct {
	Caller, Callee reader.FuncID
	Stats
}

// Report is a call graph. Functions has all callers and callees except Root.
type Report struct {
	Clock     reader.Clock
	Quantiles bool       // quantiles are known
	Functions []Function // ordered by id
	Edges     []Edge     // ordered by caller, then callee
	Self      uint64     // self time of all calls of the trace, in ticks
	Left      Left

	Earlier uint64 // open calls that began before what was selected
}

// Left counts what [Report.Trim] or [Diff.Trim] omitted.
type Left struct {
	Functions, Edges int
}

// Report sums up the analysis, which must not be used afterwards.
func (a *Analysis) Report(c reader.Clock) *Report {
	order := make([]int, len(a.edges))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		x, y := &a.edges[i], &a.edges[j]
		return cmp.Or(cmp.Compare(x.caller, y.caller), cmp.Compare(x.callee, y.callee))
	})

	r := &Report{Clock: c, Quantiles: a.opts.Quantiles, Edges: make([]Edge, 0, len(order)), Earlier: a.earlier}
	functions := New(a.opts)
	for _, i := range order {
		e := &a.edges[i]
		r.Self = addSaturating(r.Self, e.self)
		r.Edges = append(r.Edges, Edge{e.caller, e.callee, a.stats(i)})
		// Treat a function as an edge from nowhere to itself. This takes the sample of the
		// edge, which nothing needs after that.
		functions.absorb(0, e.callee, a, i)
		if e.caller != Root {
			functions.edge(0, e.caller)
		}
	}
	for i := range functions.edges {
		r.Functions = append(r.Functions, Function{functions.edges[i].callee, functions.stats(i)})
	}
	slices.SortFunc(r.Functions, func(x, y Function) int { return cmp.Compare(x.ID, y.ID) })
	return r
}

func (a *Analysis) stats(i int) Stats {
	e := &a.edges[i]
	s := Stats{
		Count: e.count, Open: e.open, Inferred: e.inferred,
		Sum: e.sum, Self: e.self, Min: e.min, Max: e.max,
	}
	if e.count > 0 && e.min > e.max {
		s.Min, s.Max, s.Untimed = 0, 0, true
	}
	if a.opts.Quantiles {
		var q [4]uint64
		a.samples[i].Quantiles(q[:], 0.5, 0.9, 0.99, 0.999)
		s.P50, s.P90, s.P99, s.P999 = q[0], q[1], q[2], q[3]
		s.Approximate, s.Coarse = a.samples[i].Approximate(), a.samples[i].Coarse()
	}
	return s
}

// Column is one of the numbers in [Stats].
type Column uint8

const (
	None Column = iota // no number
	Count
	Sum
	Self
	Min
	P50
	P90
	P99
	P999
	Max
)

var columnNames = [...]string{"none", "count", "sum", "self", "min", "p50", "p90", "p99", "p999", "max"}

// String returns the name that [ParseColumn] takes.
func (c Column) String() string { return columnNames[c] }

// ParseColumn reads the name of a column, as String returns it or as in llvm-xray.
func ParseColumn(name string) (Column, error) {
	switch name {
	case "med":
		return P50, nil
	case "90p":
		return P90, nil
	case "99p":
		return P99, nil
	}
	if i := slices.Index(columnNames[:], name); i >= 0 {
		return Column(i), nil
	}
	return None, fmt.Errorf("unknown column %q: use one of %s", name, strings.Join(columnNames[:], ", "))
}

// IsQuantile reports whether the column needs [Options.Quantiles].
func (c Column) IsQuantile() bool { return c >= P50 && c <= P999 }

// Has reports whether the value of a column is known.
func (s *Stats) Has(c Column) bool { return !s.Untimed || c < Min }

// Value returns the number of a column: calls or ticks. It returns 0 for None.
func (s *Stats) Value(c Column) uint64 {
	switch c {
	case Count:
		return s.Count
	case Sum:
		return s.Sum
	case Self:
		return s.Self
	case Min:
		return s.Min
	case P50:
		return s.P50
	case P90:
		return s.P90
	case P99:
		return s.P99
	case P999:
		return s.P999
	case Max:
		return s.Max
	}
	return 0
}

// relativeError states the error of approximate quantiles.
func relativeError(coarse bool) string {
	if coarse {
		return fmt.Sprintf("percentiles may be off by %.1f%%", 100*quantile.OctaveError)
	}
	return fmt.Sprintf("percentiles may be off by %.1f%%", 100*quantile.RelativeError)
}
