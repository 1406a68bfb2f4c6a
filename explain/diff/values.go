package diff

import (
	"cmp"
	"math"
	"slices"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// ValueChange compares the calls of a function for which an argument or a result has one value, or is in one range.
type ValueChange struct {
	Function, Expression, Value string
	// Calls are in a call of the root, or in a run. Self and Total are means of a call, and Median is the mean of
	// the medians of the units, which a few interrupted calls do not change. The probabilities of these three are
	// corrected for the number of all such comparisons of the report.
	Calls, Self, Total, Median            Metric
	SelfResult, TotalResult, MedianResult ValueResult
}

// leaf reports whether the calls call nothing, so that Total is the same comparison as Self.
func (v *ValueChange) leaf() bool { return v.Self.A == v.Total.A && v.Self.B == v.Total.B }

// ValueResult says whether the calls with a value changed, if some values separate calls that did from others.
type ValueResult string

const (
	ValueChanged   ValueResult = "changed"
	ValueUnchanged ValueResult = "unchanged" // at most a part of what the others changed by
	ValueUndecided ValueResult = "undecided" // the interval is too wide, or the change is in between
)

// Split is an expression whose values separate calls that changed from calls that did not.
type Split struct {
	Function, Expression string
	In                   SplitIn
	Faster               bool
	Changed              []*ValueChange
	Unchanged            int     // number of values
	Undecided            int     // number of values, also of those that are too rare to be compared
	Only                 bool    // nothing is undecided, and no other change in this direction is certain
	Bound                float64 // what the calls with values that are Unchanged may have changed by, in the direction of Changed
	size                 float64
}

const (
	// certainValue is the accepted probability that the report has a Split by chance.
	certainValue = 0.01
	// leastSplit is the least change of a Split, as a fraction of the time in A. Smaller ones have many causes, like
	// another layout of the code or the resolution of the clock.
	leastSplit = 0.05
)

// SplitIn is what changed for some values.
type SplitIn uint8

const (
	InSelf SplitIn = iota
	InTotal
	InMedian
)

// metric returns what the split is in, and its result.
func (s *Split) metric(v *ValueChange) (*Metric, *ValueResult) {
	switch s.In {
	case InSelf:
		return &v.Self, &v.SelfResult
	case InTotal:
		return &v.Total, &v.TotalResult
	}
	return &v.Median, &v.MedianResult
}

// valueKey identifies an expression in all runs.
type valueKey struct {
	function string
	exit     bool
	text     string
}

func (k valueKey) compare(o valueKey) int {
	exit := 0
	if k.exit != o.exit {
		exit = 1
		if o.exit {
			exit = -1
		}
	}
	return cmp.Or(cmp.Compare(k.function, o.function), exit, cmp.Compare(k.text, o.text))
}

// unitValues are the divisions of the calls in a unit.
type unitValues struct {
	clock reader.Clock
	by    map[valueKey][]account.Division // several for functions with the same name
}

func valuesOf(v *account.Values, of *calls.Expressions, label func(reader.FuncID) string, k reader.Clock) *unitValues {
	if v == nil {
		return nil
	}
	u := &unitValues{clock: k, by: make(map[valueKey][]account.Division)}
	for _, x := range of.All() {
		key := valueKey{label(x.Func), x.Exit, x.Expression}
		u.by[key] = append(u.by[key], v.Division(x))
	}
	return u
}

// tallies are the calls with a value, by unit of a side.
type tallies struct{ calls, self, total, median []float64 }

// values compares calls by the values of what was recorded on both sides. A value is compared if it occurs in each
// unit, so that the resamples of each have it.
func (b *builder) values() {
	if b.sampler == nil {
		return
	}
	keys := make(map[valueKey]bool)
	for s := range b.c.sides {
		for _, u := range b.c.sides[s].units {
			if u.values != nil {
				for key := range u.values.by {
					keys[key] = true
				}
			}
		}
	}
	var splits []func()
	for _, key := range slices.SortedFunc(func(yield func(valueKey) bool) {
		for key := range keys {
			if !yield(key) {
				return
			}
		}
	}, valueKey.compare) {
		from := len(b.r.Values)
		rare := b.valuesOf(key)
		to := len(b.r.Values)
		splits = append(splits, func() { b.split(b.r.Values[from:to], rare) })
	}
	var tested []*Interval
	for i := range b.r.Values {
		v := &b.r.Values[i]
		tested = append(tested, &v.Self.Interval, &v.Median.Interval)
		if !v.leaf() {
			tested = append(tested, &v.Total.Interval)
		}
	}
	holm(tested)
	for i := range b.r.Values {
		if v := &b.r.Values[i]; v.leaf() {
			v.Total.Interval = v.Self.Interval
		}
	}
	for _, split := range splits {
		split()
	}
	slices.SortStableFunc(b.r.Splits, func(x, y Split) int { return cmp.Compare(y.size, x.size) })
}

// valuesOf compares the calls of an expression's function. It returns the number of values that are too rare.
func (b *builder) valuesOf(key valueKey) (rare int) {
	var list []account.Division
	var unitOf [][2]int // by division: side and unit
	for s := range b.c.sides {
		for i, u := range b.c.sides[s].units {
			if u.values == nil || u.values.by[key] == nil {
				return 0 // recorded in some runs only
			}
			for _, d := range u.values.by[key] {
				list, unitOf = append(list, d), append(unitOf, [2]int{s, i})
			}
		}
	}
	var found []ValueChange
	var by [][2]tallies
	whole := [2]float64{}
	for _, row := range account.Align(list) {
		sides := b.tally(row.Rows, unitOf)
		v := ValueChange{Function: key.function, Expression: key.text, Value: row.Value}
		for s := range sides {
			whole[s] += b.mean(Side(s), sides[s].total)
		}
		found, by = append(found, v), append(by, sides)
	}
	if max(whole[A], whole[B]) < b.opts.MinShare*b.scale {
		return 0
	}
	for i := range found {
		v, sides := &found[i], &by[i]
		a, o := b.mean(A, sides[A].total), b.mean(B, sides[B].total)
		if a < b.opts.MinShare*whole[A] && o < b.opts.MinShare*whole[B] ||
			slices.Contains(sides[A].calls, 0) || slices.Contains(sides[B].calls, 0) {
			rare++
			continue
		}
		v.Calls = b.compare("calls", sides[A].calls, sides[B].calls)
		v.Self = b.compareRatio("self", sides[A].self, sides[A].calls, sides[B].self, sides[B].calls)
		v.Total = b.compareRatio("total", sides[A].total, sides[A].calls, sides[B].total, sides[B].calls)
		v.Median = b.compare("p50", sides[A].median, sides[B].median)
		b.r.Values = append(b.r.Values, *v)
	}
	return rare
}

// tally adds up the rows of a value by unit, as settle does with nodes.
func (b *builder) tally(rows []*account.ValueRow, unitOf [][2]int) (sides [2]tallies) {
	var durations [2][]quantile.Sample
	for s := range sides {
		n := len(b.c.sides[s].units)
		sides[s] = tallies{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)}
		durations[s] = make([]quantile.Sample, n)
	}
	for i, row := range rows {
		if row == nil {
			continue
		}
		s, at := unitOf[i][0], unitOf[i][1]
		u := b.c.sides[s].units[at]
		per := 1.0
		if b.c.rooted && u.weight == 1 {
			per = u.invocations
		}
		add := func(to []float64, v float64) { to[at] += v / per }
		add(sides[s].calls, float64(row.Durations().Count()))
		add(sides[s].self, nanos(row.Self, u.values.clock))
		add(sides[s].total, nanos(row.Durations().Sum(), u.values.clock))
		durations[s][at].Merge(row.Durations())
	}
	for s := range sides {
		for i, u := range b.c.sides[s].units {
			if d := &durations[s][i]; d.Count() > 0 {
				sides[s].median[i] = nanos(quantile.NewSum(d.Quantile(0.5)), u.values.clock) * u.weight
			}
		}
	}
	return sides
}

// compareRatio compares sums over the units of the sides, each divided by another.
func (b *builder) compareRatio(name string, sumA, byA, sumB, byB []float64) Metric {
	m := Metric{Name: name, A: ratio(b.mean(A, sumA), b.mean(A, byA)), B: ratio(b.mean(B, sumB), b.mean(B, byB))}
	folded, by := b.sampler.means(B, sumB), b.sampler.means(B, byB)
	otherBy := b.sampler.means(A, byA)
	for f, a := range b.sampler.means(A, sumA) {
		folded[f] = ratio(folded[f], by[f]) - ratio(a, otherBy[f])
	}
	m.Interval = b.sampler.judge(m.Difference(), max(m.A, m.B), significance, folded)
	return m
}

// split adds how the values of one expression separate calls: in self time, else in total time, else in the median.
func (b *builder) split(list []ValueChange, rare int) {
	var first *Split
	for _, in := range []SplitIn{InSelf, InTotal, InMedian} {
		if s := splitIn(in, list, rare); s != nil && first == nil {
			first = s
		}
	}
	if first != nil {
		b.r.Splits = append(b.r.Splits, *first)
	}
}

// splitIn returns how the values separate calls, or nil. Changed are the values whose change is certain and at least
// half of the largest. Unchanged are those that changed by less than all of Changed, in time and in
// proportion: a function that takes twice as long for all values changed for all.
func splitIn(in SplitIn, list []ValueChange, rare int) *Split {
	s := &Split{In: in, Undecided: rare, Only: rare == 0}
	certain := func(m *Metric) bool { return m.Known && m.P < certainValue }
	large := func(m *Metric) bool { return certain(m) && math.Abs(m.Difference()) >= leastSplit*m.A }
	most := 0.0
	for i := range list {
		if m, _ := s.metric(&list[i]); large(m) && math.Abs(m.Difference()) > math.Abs(most) {
			most = m.Difference()
		}
	}
	if most == 0 {
		return nil
	}
	sign := math.Copysign(1, most)
	s.Faster = most < 0
	near, relative := math.Inf(1), math.Inf(1)
	results := make([]ValueResult, len(list))
	for i := range list {
		m, _ := s.metric(&list[i])
		if !large(m) || sign*m.Difference() < math.Abs(most)/2 {
			continue
		}
		results[i] = ValueChanged
		s.Changed = append(s.Changed, &list[i])
		s.size += math.Abs(m.Difference()) * max(list[i].Calls.A, list[i].Calls.B)
		least := min(sign*m.Low, sign*m.High)
		near, relative = min(near, least), min(relative, ratio(least, m.A))
	}
	for i := range list {
		if results[i] == ValueChanged {
			continue
		}
		m, _ := s.metric(&list[i])
		bound := max(0, sign*m.Low, sign*m.High)
		if bound < near && ratio(bound, m.A) < relative {
			results[i] = ValueUnchanged
			s.Unchanged++
			s.Bound = max(s.Bound, bound)
			s.Only = s.Only && !(certain(m) && sign*m.Difference() > 0)
		} else {
			results[i] = ValueUndecided
			s.Undecided++
			s.Only = false
		}
	}
	if s.Unchanged == 0 {
		return nil
	}
	s.Function, s.Expression = list[0].Function, list[0].Expression
	for i := range list {
		_, result := s.metric(&list[i])
		*result = results[i]
	}
	return s
}
