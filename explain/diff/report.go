package diff

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/xray-tools/xray/reader"
)

// Kind is the way in which B differs from A.
type Kind uint8

const (
	Slower    Kind = iota // a function itself takes longer, or shorter
	MoreCalls             // a function is called more often by its caller, or less often
	New                   // only B takes a path
	Gone                  // only A takes a path
)

// String returns the name of the kind in JSON.
func (k Kind) String() string { return [...]string{"slower", "more-calls", "new", "gone"}[k] }

// Report is the difference between two sides. Times are in nanoseconds, or in ticks if
// Clock is unknown.
type Report struct {
	Clock     reader.Clock
	Root      string // "" without a root
	Runs      [2]int
	Calls     [2]float64 // of roots, in all runs; without a root, of all functions
	Resampled string     // "runs", "blocks", or "" if there are too few of both
	Block     float64    // length of the longest blocks
	Units     [2]int     // numbers of resampled units
	Folds     int
	Seed      uint64
	// Whole is the difference that Changes and Rest add up to: of the time of a call of the
	// root, or of all self time of a run.
	Whole Metric
	// Metrics are quantiles of the root. Without a root, there are none.
	Metrics []Metric
	// Changes are ordered by size. Changes of paths with less than the minimum share of the
	// time on both sides are in Rest.
	Changes []Change
	Rest    float64
	// Rows are paths or functions with at least the minimum share of the time on one side,
	// ordered by the difference of self times.
	Rows []Row
	// Parts are the contributions of all paths to Whole, callers first.
	Parts []Part
	Gates []GateResult
	// Values are by function, expression and value. Splits are ordered by how much of Whole they may explain.
	Values []ValueChange
	Splits []Split
	Notes  []string
}

// Metric is a mean on both sides, and the difference B - A.
type Metric struct {
	Name     string
	A, B     float64
	Missing  bool // a run of one side lacks it, so there is no difference
	Interval      // of the difference
}

// Difference is B - A.
func (m *Metric) Difference() float64 { return m.B - m.A }

// Change is one contribution of a function to the whole difference.
type Change struct {
	Kind     Kind
	Function string
	Path     []string // the path with most of Amount
	Paths    int
	Amount   float64
	Interval // of Amount
}

// Row is a call path, or a function.
type Row struct {
	Path []string
	In   string // "both", "new" (only in B) or "gone" (only in A)
	// Metrics are calls, self and total, and without a root also quantiles. For paths, they
	// are per call of the root; for functions, per run.
	Metrics []Metric
}

// Part is the contribution of a path. New includes all paths below.
type Part struct {
	Path              []string
	Slower, More, New float64
}

// ReportOptions select the contents of a report.
type ReportOptions struct {
	Seed  uint64 // random seed: equal seeds make equal reports
	Folds int    // number of resamples; 0 means 10,000
	// MinShare omits paths that have less than this share of the time on both sides, from 0
	// to 1. The selection does not depend on differences, so probabilities stay correct.
	MinShare float64
}

// ErrOneSided means that a side has no runs.
var ErrOneSided = errors.New("one side has no runs")

// builder makes a report.
type builder struct {
	c       *Comparison
	r       *Report
	opts    ReportOptions
	sampler *resampler // nil if there is nothing to resample
	means   [2][]amounts
	scale   float64 // time of the larger side; less than a billionth of it is rounding
}

// Report compares the sides. The Comparison must not be used afterwards. The error is
// [ErrOneSided], or says that a gate has no matching calls.
func (c *Comparison) Report(opts ReportOptions) (*Report, error) {
	if len(c.sides[A].runs) == 0 || len(c.sides[B].runs) == 0 {
		return nil, ErrOneSided
	}
	b := &builder{c: c, opts: opts, r: &Report{Folds: opts.Folds, Seed: opts.Seed}}
	if b.r.Folds == 0 {
		b.r.Folds = 10_000
	}
	if c.first.Clock.Known() {
		b.r.Clock = reader.Clock{Frequency: 1e9}
	}
	if c.rooted {
		b.r.Root = c.rootName()
	}
	b.resample()
	for s := range c.sides {
		b.means[s] = b.meansOf(Side(s))
	}
	b.scale = max(b.means[A][0].subtree, b.means[B][0].subtree)
	b.r.Whole = b.metric("total", 0, func(a *amounts) float64 { return a.subtree })
	if c.rooted {
		b.r.Metrics = b.quantiles(0)
		holm(intervals(b.r.Metrics, func(m *Metric) *Interval { return &m.Interval }))
	}
	b.changes()
	b.rows()
	b.values()
	for i := range c.gates {
		g, err := b.gate(i)
		if err != nil {
			return nil, err
		}
		b.r.Gates = append(b.r.Gates, g)
	}
	return b.r, nil
}

// resample chooses what to resample.
func (b *builder) resample() {
	r, sides := b.r, &b.c.sides
	blocks := FewRuns(len(sides[A].runs), len(sides[B].runs))
	b.c.settle(blocks)
	fewest := 1 << 30
	for s := range sides {
		r.Runs[s], r.Units[s] = len(sides[s].runs), len(sides[s].units)
		fewest = min(fewest, r.Units[s])
		for _, u := range sides[s].units {
			r.Calls[s] += u.invocations
			for n := 1; n < len(u.nodes) && !b.c.rooted; n++ {
				r.Calls[s] += u.nodes[n].calls
			}
		}
		for _, run := range sides[s].runs {
			r.Block = max(r.Block, run.block)
		}
	}
	switch {
	case !blocks:
		r.Resampled = "runs"
	case fewest >= minBlocks:
		r.Resampled = "blocks"
		b.note("A or B has fewer than %d runs, so xray resamples blocks of %s instead. The confidence intervals do not include "+
			"differences between whole runs.", minRuns, r.Clock.Format(uint64(r.Block)))
	default:
		b.note("A or B has fewer than %d runs, and %s. That is too little data for confidence intervals. Pass more runs.", minRuns, b.fewBlocks())
	}
	if r.Resampled != "" {
		b.sampler = newResampler(sides, r.Folds, r.Seed)
	}
	if !b.c.joined() {
		except := ""
		if b.c.rooted {
			except = " except the root"
		}
		b.note("A and B have no function in common%s. Pass the names of each side with -m1 and -m2.", except)
	}
	if !r.Clock.Known() {
		b.note("The traces do not state their clock frequency, so times are in ticks.")
	}
}

// fewBlocks says why the runs have too few blocks to resample.
func (b *builder) fewBlocks() string {
	timeless := func(r *run) bool { return r.timeless }
	switch sides := &b.c.sides; {
	case !b.r.Clock.Known():
		return "without the clock frequency, xray cannot divide them into seconds"
	case slices.ContainsFunc(sides[A].runs, timeless) || slices.ContainsFunc(sides[B].runs, timeless):
		return "summaries and profiles do not show when calls ran"
	}
	return fmt.Sprintf("they are shorter than %d seconds", minBlocks)
}

// FewRuns reports whether sides of a and b runs have too few to resample. Then blocks are
// resampled instead.
func FewRuns(a, b int) bool { return min(a, b) < minRuns }

func (b *builder) note(format string, args ...any) {
	b.r.Notes = append(b.r.Notes, fmt.Sprintf(format, args...))
}

// joined reports whether the sides have a node in common, or one of them has none.
func (c *Comparison) joined() bool {
	var any [2]bool
	for n := 1; n < len(c.nodes); n++ {
		var in [2]bool
		for s := range c.sides {
			in[s] = slices.ContainsFunc(c.sides[s].units, func(u *unit) bool { return u.nodes[n].calls > 0 })
			any[s] = any[s] || in[s]
		}
		if in[A] && in[B] {
			return true
		}
	}
	return !any[A] || !any[B]
}

// series returns a value of a node by unit.
func (b *builder) series(s Side, n int, of func(*amounts) float64) []float64 {
	values := make([]float64, len(b.c.sides[s].units))
	for i, u := range b.c.sides[s].units {
		values[i] = of(&u.nodes[n])
	}
	return values
}

// mean returns the mean of values by unit.
func (b *builder) mean(s Side, values []float64) float64 {
	sum, weight := 0.0, 0.0
	for i, u := range b.c.sides[s].units {
		sum += values[i]
		weight += u.weight
	}
	return ratio(sum, weight)
}

func (b *builder) meansOf(s Side) []amounts {
	out := make([]amounts, len(b.c.nodes))
	for n := range out {
		for _, f := range []func(*amounts) *float64{callsOf, selfOf, subtreeOf, totalOf} {
			*f(&out[n]) = b.mean(s, b.series(s, n, func(a *amounts) float64 { return *f(a) }))
		}
	}
	return out
}

func callsOf(a *amounts) *float64   { return &a.calls }
func selfOf(a *amounts) *float64    { return &a.self }
func subtreeOf(a *amounts) *float64 { return &a.subtree }
func totalOf(a *amounts) *float64   { return &a.total }

// metric compares a value of a node.
func (b *builder) metric(name string, n int, of func(*amounts) float64) Metric {
	return b.compare(name, b.series(A, n, of), b.series(B, n, of))
}

// compare compares values by unit.
func (b *builder) compare(name string, valuesA, valuesB []float64) Metric {
	m := Metric{Name: name, A: b.mean(A, valuesA), B: b.mean(B, valuesB)}
	if b.sampler != nil {
		folded := b.sampler.means(B, valuesB)
		for f, a := range b.sampler.means(A, valuesA) {
			folded[f] -= a
		}
		m.Interval = b.sampler.judge(m.Difference(), max(m.A, m.B), significance, folded)
	}
	return m
}

// quantile returns the index of a quantile.
func (b *builder) quantile(q float64) int { return slices.Index(b.c.quantiles, q) }

// quantiles compares the quantiles of a node, as means over runs.
func (b *builder) quantiles(n int) []Metric {
	list := make([]Metric, len(b.c.quantiles))
	for i, q := range b.c.quantiles {
		m := &list[i]
		m.Name = "p" + strconv.FormatFloat(math.Round(q*1e6)/1e4, 'f', -1, 64)
		var values [2][]float64
		var means [2]float64
		for s := range b.c.sides {
			for _, run := range b.c.sides[s].runs {
				if run.quantiles[n] == nil {
					m.Missing = true
					continue
				}
				values[s] = append(values[s], run.quantiles[n][i])
				means[s] += run.quantiles[n][i] // integers, so the order does not matter
			}
		}
		if m.Missing {
			continue
		}
		m.A, m.B = means[A]/float64(b.r.Runs[A]), means[B]/float64(b.r.Runs[B])
		if b.r.Resampled == "runs" {
			*m = b.compare(m.Name, b.byUnit(A, values[A]), b.byUnit(B, values[B]))
		}
	}
	if b.r.Resampled == "blocks" && b.c.rooted {
		b.blockQuantiles(list)
	}
	return list
}

// byUnit puts the values of runs into the order of their units.
func (b *builder) byUnit(s Side, values []float64) []float64 {
	out := make([]float64, len(values))
	for i, u := range b.c.sides[s].units {
		out[i] = values[u.run]
	}
	return out
}

// blockQuantiles compares the quantiles of the durations in all blocks together.
func (b *builder) blockQuantiles(list []Metric) {
	var means [2][]float64
	var folded [2][][]float64
	for s := range b.c.sides {
		means[s], folded[s] = b.sampler.quantiles(Side(s), b.c.sides[s].units, b.c.quantiles)
	}
	for i := range list {
		m := &list[i]
		m.A, m.B = means[A][i], means[B][i]
		for f, a := range folded[A][i] {
			folded[B][i][f] -= a
		}
		m.Interval = b.sampler.judge(m.Difference(), max(m.A, m.B), significance, folded[B][i])
	}
}

// rows compares paths or functions.
func (b *builder) rows() {
	for n := range b.c.nodes {
		x, y := b.means[A][n], b.means[B][n]
		size := max(x.self, y.self)
		if b.c.rooted {
			size = max(x.subtree, y.subtree)
		}
		if n == 0 && !b.c.rooted || size == 0 || size < b.opts.MinShare*b.scale {
			continue
		}
		row := Row{Path: b.c.path(n), In: "both"}
		switch {
		case x.calls == 0:
			row.In = "new"
		case y.calls == 0:
			row.In = "gone"
		}
		row.Metrics = []Metric{
			b.metric("calls", n, func(a *amounts) float64 { return a.calls }),
			b.metric("self", n, func(a *amounts) float64 { return a.self }),
			b.metric("total", n, func(a *amounts) float64 { return a.total }),
		}
		if !b.c.rooted {
			row.Metrics = append(row.Metrics, b.quantiles(n)...)
		}
		b.r.Rows = append(b.r.Rows, row)
	}
	for i := 0; len(b.r.Rows) > 0 && i < len(b.r.Rows[0].Metrics); i++ {
		holm(intervals(b.r.Rows, func(r *Row) *Interval { return &r.Metrics[i].Interval }))
	}
	slices.SortStableFunc(b.r.Rows, func(x, y Row) int {
		return cmp.Compare(math.Abs(y.Metrics[1].Difference()), math.Abs(x.Metrics[1].Difference()))
	})
}
