package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Side is one side of a comparison.
type Side int

const (
	A Side = iota
	B
)

// String is "A" or "B".
func (s Side) String() string { return [...]string{"A", "B"}[s] }

// Comparison collects the runs of both sides.
type Comparison struct {
	rooted    bool
	rootLabel string
	gates     []Gate
	quantiles []float64 // of roots or functions, in ascending order
	nodes     []node
	index     map[node]int
	rootNames map[string]bool
	sides     [2]side
	first     *Run // the first run; all others must have its time unit
}

// Run describes a run, in addition to its calls.
type Run struct {
	Name  string // name in errors
	Clock reader.Clock
	Names symbolize.Names // nil for functions by ID
}

// node is a call path by names. Node 0 is the root, or the run.
type node struct {
	parent int
	name   string
}

type side struct {
	runs  []*run
	units []*unit // in an order that does not depend on the order of the runs
	key   uint64  // depends only on the contents of units
}

// run has the values of a run that are not sums over units.
type run struct {
	quantiles [][]float64 // by node; nil if there are none
	pooled    []float64   // by gate: the quantile over all matching functions; NaN without calls
	block     float64     // length of blocks, in ns
	timeless  bool        // sums of calls, without their times
}

// unit is one unit of resampling: a run, or a block of a run.
type unit struct {
	run         int
	invocations float64
	weight      float64 // number of invocations, or of runs, in the sums
	nodes       []amounts
	durations   []tally // of invocations, in a block, in ascending order
	values      *unitValues
}

// tally is a duration and how often it occurs.
type tally struct{ duration, times float64 }

// amounts are the calls and times of a node in a unit, or their means over units. Times are
// in ns, or in ticks if the clock frequency is unknown.
type amounts struct {
	calls, self float64
	subtree     float64 // self time, including all paths below
	total       float64 // as reports show it: time during which a call was open
}

// NewComparison returns a comparison without runs. If rooted, all analyses must have roots.
// rootLabel is their name if they have several names. The report evaluates the gates.
func NewComparison(rooted bool, rootLabel string, gates []Gate) *Comparison {
	c := &Comparison{
		rooted: rooted, rootLabel: rootLabel, gates: gates, nodes: []node{{parent: -1}}, index: make(map[node]int),
		rootNames: make(map[string]bool), quantiles: []float64{0.5, 0.99},
	}
	if rooted {
		c.quantiles = []float64{0.5, 0.9, 0.99, 0.999}
		for _, g := range gates {
			if g.isQuantile() {
				c.quantiles = append(c.quantiles, g.quantile)
			}
		}
		slices.Sort(c.quantiles)
		c.quantiles = slices.Compact(c.quantiles)
	}
	return c
}

// Add adds a run. Its analysis must not be used afterwards. It is an error if the run has
// no invocation of a root, or if its clock cannot be compared with that of the first run.
func (c *Comparison) Add(to Side, a *Analysis, r Run) error {
	if c.first == nil {
		c.first = &Run{Name: r.Name, Clock: r.Clock}
	}
	if f := c.first; f.Clock.Known() != r.Clock.Known() {
		with, without := f.Name, r.Name
		if r.Clock.Known() {
			with, without = without, with
		}
		return fmt.Errorf("%s does not state its clock frequency, but %s does, so times cannot be compared: "+
			"record both with the same recorder", without, with)
	}
	if c.rooted && a.durations[0].Count() == 0 {
		return fmt.Errorf("%s: no call of the root ended in the trace", r.Name)
	}
	s := &c.sides[to]
	ids := c.join(a, r.Names)
	for i := range a.blocks {
		u := c.unit(&a.blocks[i], ids, len(s.runs), r.Clock)
		u.values = valuesOf(a.blocks[i].values, a.opts.Values, func(fn reader.FuncID) string { return symbolize.Label(r.Names, fn) }, r.Clock)
		s.units = append(s.units, u)
	}
	known := &run{pooled: make([]float64, len(c.gates)), block: nanos(quantile.NewSum(a.opts.Blocks.Width), r.Clock)}
	known.timeless = a.summed && a.opts.Blocks.Width == 0
	known.quantiles = make([][]float64, len(c.nodes))
	if c.rooted {
		known.quantiles[0] = c.quantilesOf(&a.durations[0], r.Clock)
	} else {
		c.functionQuantiles(known, a.durations, ids, r.Clock)
	}
	s.runs = append(s.runs, known)
	return nil
}

// join returns the node of each path of a run, and adds new nodes.
func (c *Comparison) join(a *Analysis, names symbolize.Names) []int {
	labels := make(map[reader.FuncID]string)
	ids := make([]int, a.tree.Len())
	for path := calls.PathID(1); int(path) < len(ids); path++ {
		fn := a.tree.Func(path)
		label, ok := labels[fn]
		if !ok {
			label = symbolize.Label(names, fn)
			labels[fn] = label
		}
		parent := a.tree.Parent(path)
		if c.rooted && parent == 0 {
			c.rootNames[label] = true
			continue
		}
		n := node{ids[parent], label}
		id, ok := c.index[n]
		if !ok {
			id = len(c.nodes)
			c.nodes = append(c.nodes, n)
			c.index[n] = id
		}
		ids[path] = id
	}
	return ids
}

func (c *Comparison) unit(b *block, ids []int, run int, k reader.Clock) *unit {
	u := &unit{run: run, invocations: float64(b.invocations), nodes: make([]amounts, len(c.nodes))}
	type ticks struct{ self, total quantile.Sum }
	sums := make([]ticks, len(c.nodes))
	for path := 1; path < len(b.sums); path++ {
		from, n := &b.sums[path], ids[path]
		u.nodes[n].calls += float64(from.calls)
		sums[n].self.AddSum(from.self)
		sums[n].total.AddSum(from.total)
	}
	for n := range sums {
		u.nodes[n].self, u.nodes[n].total = nanos(sums[n].self, k), nanos(sums[n].total, k)
	}
	for v, times := range b.durations.All() {
		u.durations = append(u.durations, tally{float64(k.Nanos(v)), float64(times)})
	}
	return u
}

// nanos converts a sum of ticks, with a precision of 52 bits.
func nanos(ticks quantile.Sum, k reader.Clock) float64 {
	if !k.Known() {
		return ticks.Float64()
	}
	return ticks.Float64() * 1e9 / float64(k.Frequency)
}

func (c *Comparison) quantilesOf(s *quantile.Sample, k reader.Clock) []float64 {
	if s.Count() == 0 {
		return nil
	}
	ticks := make([]uint64, len(c.quantiles))
	s.Quantiles(ticks, c.quantiles...)
	q := make([]float64, len(ticks))
	for i, t := range ticks {
		q[i] = float64(k.Nanos(t))
	}
	return q
}

// functionQuantiles sets the quantiles of functions, and of the functions that gates match.
func (c *Comparison) functionQuantiles(r *run, durations []quantile.Sample, ids []int, k reader.Clock) {
	samples := make([]*quantile.Sample, len(c.nodes))
	for path := 1; path < len(durations); path++ {
		if n := ids[path]; samples[n] == nil {
			samples[n] = &durations[path]
		} else {
			samples[n].Merge(&durations[path])
		}
	}
	for n, s := range samples {
		if s != nil {
			r.quantiles[n] = c.quantilesOf(s, k)
		}
	}
	for i, g := range c.gates {
		r.pooled[i] = math.NaN()
		if !g.isQuantile() {
			continue
		}
		var matching []*quantile.Sample
		for n, s := range samples {
			if s != nil && symbolize.Matches(g.functions, c.nodes[n].name) {
				matching = append(matching, s)
			}
		}
		if v, ok := pooledQuantile(matching, g.quantile); ok {
			r.pooled[i] = float64(k.Nanos(v))
		}
	}
}

// pooledQuantile returns the quantile of several samples together, or false if they are
// empty.
func pooledQuantile(samples []*quantile.Sample, q float64) (uint64, bool) {
	type value struct{ v, n uint64 }
	var all []value
	count := uint64(0)
	for _, s := range samples {
		for v, n := range s.All() {
			all = append(all, value{v, n})
			count += n
		}
	}
	slices.SortFunc(all, func(a, b value) int { return cmp.Compare(a.v, b.v) })
	rank := min(uint64(q*float64(count)), max(count, 1)-1)
	for _, e := range all {
		if rank < e.n {
			return e.v, true
		}
		rank -= e.n
	}
	return 0, false
}

// path returns the names of a node, from the root on. Without a root, it is only the
// function.
func (c *Comparison) path(n int) []string {
	var names []string
	for ; n > 0; n = c.nodes[n].parent {
		names = append(names, c.nodes[n].name)
	}
	if c.rooted {
		names = append(names, c.rootName())
	}
	slices.Reverse(names)
	return names
}

// rootName returns the name of the root.
func (c *Comparison) rootName() string {
	if len(c.rootNames) == 1 {
		for name := range c.rootNames {
			return name
		}
	}
	return c.rootLabel
}

// function returns the last name of a path.
func (c *Comparison) function(n int) string {
	if n == 0 {
		return c.rootName()
	}
	return c.nodes[n].name
}
