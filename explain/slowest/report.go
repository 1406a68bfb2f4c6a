package slowest

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Report is the slowest invocations. Times are in ticks.
type Report struct {
	Clock       reader.Clock
	Invocations uint64 // number of selected invocations
	Threads     int    // that have selected invocations
	// If Approximate is set, the relative error of Median and P99 is at most
	// quantile.RelativeError.
	Median, P99, Longest uint64
	Approximate          bool
	OffCPU               bool // the trace says when threads were off CPU
	Nested               bool // invocations may be inside others
	Depth                int  // Options.RootDepth
	Usual                Usual
	// Slowest are ordered by duration, the longest first, and with Options.PerThread first
	// by thread.
	Slowest []Slow
}

// Slow is one of the slowest invocations.
type Slow struct {
	// Number is the invocation's position among all invocations of the roots in the trace by
	// start, from 1.
	Number   uint64
	Thread   reader.Thread
	Root     reader.FuncID
	Start    uint64 // TSC
	Duration uint64
	Off      calls.Off
	Values   []calls.Recorded // its arguments and results, with Options.Values
	// Rows are the paths that the invocation took, callees after their caller, in the order
	// of their first calls. The first is the root. Paths deeper than MaxDepth are added up in rows
	// at that depth whose function is [reader.Folded].
	Rows []Row
}

// maxDepth is the maximum depth of a tree of rows. JSON parsers reject deeper trees, and
// people cannot read them.
const maxDepth = 1000

// among is what stands between # and the number of an invocation that is not an outermost call, as in
// xray slice --around.
func (r *Report) among() string {
	switch {
	case r.Nested:
		return "all:"
	case r.Depth > 1:
		return strconv.Itoa(r.Depth) + ":"
	}
	return ""
}

// Row is all calls of a path in an invocation. Total is Self plus the rows below.
type Row struct {
	Func               reader.FuncID
	Depth              int // below the root
	Calls, Total, Self uint64
	Off                calls.Off // part of Self
	// UsualCalls, UsualTotal and UsualSelf are the same for the mean of usual invocations,
	// or 0 if none takes the path.
	UsualCalls, UsualTotal, UsualSelf float64
	// Waited is how long the calls waited for locks, as reported to AddWait. Holders are the
	// functions that held the locks at that time, the longest first.
	Waited  uint64
	Holders []Holder
}

// Holder is a function that held a lock while an invocation waited for it.
type Holder struct {
	Func  reader.FuncID
	Ticks uint64 // of the waiting
}

// Ratio is the total time divided by that of a usual invocation, or 0 if that has none.
func (r *Row) Ratio() float64 {
	if r.UsualTotal == 0 {
		return 0
	}
	return float64(r.Total) / r.UsualTotal
}

// Report makes the report of both passes. The Trees must not be used afterwards.
func (t *Trees) Report(c reader.Clock) *Report {
	d := t.found.durations
	r := &Report{Clock: c, Invocations: d.Count(), Threads: t.found.threads, Usual: t.usual, Nested: t.found.opts.RootDepth == calls.EveryRoot, Depth: t.found.opts.RootDepth}
	if r.Invocations > 0 {
		r.Median, r.P99, r.Longest, r.Approximate = d.Quantile(0.5), d.Quantile(0.99), d.Max(), d.Approximate()
	}
	t.grow()
	totals := t.usualTotals()
	for _, found := range t.found.Slowest {
		v := t.trees[found.Key]
		if v == nil {
			continue // the trace changed between the passes
		}
		number, _ := t.numbering.Number(v.Key)
		slow := Slow{Number: number, Thread: v.Thread, Root: v.Root, Start: v.Start, Duration: v.Duration, Rows: t.rows(v, totals), Values: v.Values}
		for i := range v.Paths {
			slow.Off.Add(v.Paths[i].Off)
		}
		r.Slowest = append(r.Slowest, slow)
	}
	if t.found.opts.PerThread {
		slices.SortStableFunc(r.Slowest, func(a, b Slow) int {
			return cmp.Or(cmp.Compare(a.Thread.File, b.Thread.File), cmp.Compare(a.Thread.Process, b.Thread.Process),
				cmp.Compare(a.Thread.Thread, b.Thread.Thread))
		})
	}
	return r
}

// usualTotals returns the total time of all usual invocations, by path.
func (t *Trees) usualTotals() []uint64 {
	totals := make([]uint64, len(t.usualPaths))
	for id := len(totals) - 1; id > 0; id-- {
		totals[id] += t.usualPaths[id].self
		totals[t.Tree.Parent(calls.PathID(id))] += totals[id]
	}
	return totals
}

// rows makes the tree of an invocation.
func (t *Trees) rows(v *invocation.Invocation, usualTotals []uint64) []Row {
	children := make(map[calls.PathID][]invocation.Path)
	for _, p := range v.Paths {
		parent := t.Tree.Parent(p.ID)
		children[parent] = append(children[parent], p)
	}
	var rows []Row
	var add func(parent calls.PathID, depth int) uint64
	add = func(parent calls.PathID, depth int) (sum uint64) {
		list := children[parent]
		slices.SortFunc(list, func(a, b invocation.Path) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(t.Tree.Func(a.ID), t.Tree.Func(b.ID)))
		})
		if depth == maxDepth && len(list) > 0 {
			var below Row
			t.addUp(&below, list, children, usualTotals)
			rows = append(rows, below)
			return below.Total
		}
		for _, p := range list {
			i := len(rows)
			rows = append(rows, t.row(p, depth, usualTotals[p.ID]))
			rows[i].Total = p.Self + add(p.ID, depth+1)
			sum += rows[i].Total
		}
		return sum
	}
	add(0, 0)
	return rows
}

// addUp makes one row of all paths in list and everything below them.
func (t *Trees) addUp(row *Row, list []invocation.Path, children map[calls.PathID][]invocation.Path, usualTotals []uint64) {
	row.Func, row.Depth = reader.Folded, maxDepth
	for _, p := range list {
		row.UsualTotal += t.row(p, maxDepth, usualTotals[p.ID]).UsualTotal
	}
	for waiting := slices.Clone(list); len(waiting) > 0; {
		p := waiting[len(waiting)-1]
		waiting = append(waiting[:len(waiting)-1], children[p.ID]...)
		one := t.row(p, maxDepth, 0)
		row.Calls += one.Calls
		row.Self += one.Self
		row.Off.Add(p.Off)
		row.UsualCalls += one.UsualCalls
		row.UsualSelf += one.UsualSelf
	}
	row.Total = row.Self
}

func (t *Trees) row(p invocation.Path, depth int, usualTotal uint64) Row {
	row := Row{Func: t.Tree.Func(p.ID), Depth: depth, Calls: p.Calls, Self: p.Self, Off: p.Off}
	if n := float64(t.usual.Count); n > 0 {
		row.UsualCalls = float64(t.usualPaths[p.ID].calls) / n
		row.UsualSelf = float64(t.usualPaths[p.ID].self) / n
		row.UsualTotal = float64(usualTotal) / n
	}
	return row
}
