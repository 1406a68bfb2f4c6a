package shapes

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Report is the shapes of a trace. Times are in ticks.
type Report struct {
	Clock       reader.Clock
	Invocations uint64 // of all shapes
	Threads     int
	// Full says that there were more shapes than the limit. Shapes then has as many as the
	// limit, including every shape with more than Invocations/limit invocations.
	Full bool
	// Nested says that invocations may be inside others.
	Nested bool
	// Shapes begin with the most common one. The others follow from the rarest up,
	// equally rare ones by median, the longest first.
	Shapes []Shape
}

// Shape is all invocations of one shape.
type Shape struct {
	ID uint64 // equal in all traces of a program
	// Count is the number of invocations with the shape. It may be too high by up to Error.
	// Median, P99 and the earliest invocation cover only Count-Error of them.
	Count, Error uint64
	Median, P99  uint64
	Approximate  bool // Median and P99 are approximate
	// The earliest invocation.
	Thread          reader.Thread
	Start, Duration uint64
	// Differences are those from the most common shape, outer paths first.
	Differences []Difference
	// Values describes the arguments and results of the roots, with Options.Values.
	Values string
}

// Difference says that a shape calls a path more or less often than the most common shape.
// It omits paths below one that only one of the shapes has. Without Options.ExactCounts, it
// also omits paths whose number of calls changes by the same factor as their caller's.
type Difference struct {
	Path []reader.FuncID // from the root down
	// Calls and Common are the numbers of calls here and in the most common shape, or 0.
	// Without Options.ExactCounts they are lower bounds, and the exact number is less than
	// twice as high.
	Calls, Common uint64
}

// Report makes the report.
func (a *Analysis) Report(c reader.Clock) *Report {
	r := &Report{Clock: c, Threads: len(a.threads), Full: a.full, Nested: a.opts.RootDepth == calls.EveryRoot}
	hashes := a.byTime()
	if len(hashes) == 0 {
		return r
	}
	count := func(hash uint64) uint64 { return a.shapes[hash].count() }
	// If several are equally common, MaxFunc takes the earliest.
	common := slices.MaxFunc(hashes, func(x, y uint64) int { return cmp.Compare(count(x), count(y)) })
	for _, hash := range hashes {
		s := a.shapes[hash]
		r.Invocations += count(hash)
		r.Shapes = append(r.Shapes, Shape{
			ID: hash, Count: count(hash), Error: s.before, Median: s.durations.Quantile(0.5), P99: s.durations.Quantile(0.99),
			Approximate: s.durations.Approximate(),
			Thread:      s.example.Thread, Start: s.example.Start, Duration: s.example.Duration,
			Differences: a.differences(s, a.shapes[common]), Values: s.valuesText(),
		})
	}
	slices.SortStableFunc(r.Shapes, func(x, y Shape) int {
		switch common {
		case x.ID:
			return -1
		case y.ID:
			return 1
		}
		return cmp.Or(cmp.Compare(x.Count, y.Count), cmp.Compare(y.Median, x.Median))
	})
	return r
}

// differences compares two shapes.
func (a *Analysis) differences(s, common *shape) []Difference {
	type pair struct{ here, there uint64 }
	counts := make(map[calls.PathID]pair)
	for _, st := range s.steps {
		counts[st.path] = pair{here: st.count}
	}
	for _, st := range common.steps {
		counts[st.path] = pair{counts[st.path].here, st.count}
	}
	var list []Difference
	for path, n := range counts {
		caller, below := counts[a.Tree.Parent(path)]
		oneSided := below && (caller.here == 0 || caller.there == 0)
		// Counts are lengths in bits, so equal steps are equal factors.
		withCaller := below && n.here != 0 && n.there != 0 && n.here-n.there == caller.here-caller.there
		if n.here == n.there || oneSided || withCaller && !a.opts.ExactCounts {
			continue
		}
		list = append(list, Difference{a.Tree.Frames(nil, path), a.calls(n.here), a.calls(n.there)})
	}
	slices.SortFunc(list, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(len(x.Path), len(y.Path)), slices.Compare(x.Path, y.Path))
	})
	return list
}

// calls returns the smallest number of calls with this count.
func (a *Analysis) calls(count uint64) uint64 {
	if a.opts.ExactCounts || count == 0 {
		return count
	}
	return 1 << (count - 1)
}
