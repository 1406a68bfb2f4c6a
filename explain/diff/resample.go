package diff

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// significance is the accepted probability of an error: that an interval misses, that a table has
	// a significant row by chance, or that a gate fails by chance.
	significance = 0.05
	minRuns      = 3 // per side, to resample runs
	minBlocks    = 5 // per side, to resample blocks
)

// Interval is the uncertainty of a difference. The zero value means unknown.
type Interval struct {
	Known     bool
	Low, High float64 // of 95 %
	// P is the probability of such a difference by chance. In tables, it is corrected for the
	// number of rows by Holm's method.
	P float64
}

// Significant reports whether chance is an unlikely explanation of the difference.
func (i *Interval) Significant() bool { return i.Known && i.P < significance }

// resampler resamples the units of both sides. All values use the same samples, so that
// related values vary together.
type resampler struct {
	folds int // number of resamples
	units [2]int
	seed  [2]uint64
	// drawn is how often each unit was drawn, resample by resample. weights has the sum of the
	// weights of the drawn units of each resample.
	drawn   [2][]float64
	weights [2][]float64
}

// newResampler seeds the random numbers with the seed and the contents of the sides. The result
// depends neither on the order of the sides nor on that of runs.
func newResampler(sides *[2]side, folds int, seed uint64) *resampler {
	r := &resampler{folds: folds, units: [2]int{len(sides[A].units), len(sides[B].units)}}
	r.seed = [2]uint64{seed, sides[A].key ^ sides[B].key}
	for i := range sides {
		s := &sides[i]
		n := len(s.units)
		rng := rand.New(rand.NewPCG(seed, s.key))
		r.drawn[i], r.weights[i] = make([]float64, folds*n), make([]float64, folds)
		for f := range folds {
			row := r.drawn[i][f*n:][:n]
			for range n {
				u := rng.IntN(n)
				row[u]++
				r.weights[i][f] += s.units[u].weight
			}
		}
	}
	return r
}

// means returns the mean over the units of a side in each resample, of values by unit.
func (r *resampler) means(s Side, values []float64) []float64 {
	n := len(values)
	out := make([]float64, r.folds)
	for f := range out {
		sum := 0.0
		for i, times := range r.drawn[s][f*n:][:n] {
			sum += times * values[i]
		}
		out[f] = ratio(sum, r.weights[s][f])
	}
	return out
}

// quantiles returns the quantiles of the durations in units, as measured and in each
// resample, by the rule of package quantile.
func (r *resampler) quantiles(s Side, units []*unit, qs []float64) (whole []float64, folded [][]float64) {
	type entry struct {
		tally
		unit int
	}
	var all []entry
	var counts []float64 // by unit
	for i, u := range units {
		counts = append(counts, 0)
		for _, t := range u.durations {
			all = append(all, entry{t, i})
			counts[i] += t.times
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.duration, b.duration), cmp.Compare(a.unit, b.unit))
	})
	find := func(drawn []float64, store func(i int, v float64)) {
		count, seen, i := 0.0, 0.0, 0
		for u, times := range drawn {
			count += times * counts[u]
		}
		for _, e := range all {
			seen += drawn[e.unit] * e.times
			for ; i < len(qs) && min(math.Floor(qs[i]*count), count-1) < seen; i++ {
				store(i, e.duration)
			}
			if i == len(qs) {
				return
			}
		}
	}
	once := make([]float64, len(units))
	for i := range once {
		once[i] = 1
	}
	whole, folded = make([]float64, len(qs)), make([][]float64, len(qs))
	for i := range folded {
		folded[i] = make([]float64, r.folds)
	}
	find(once, func(i int, v float64) { whole[i] = v })
	for f := range r.folds {
		find(r.drawn[s][f*len(units):][:len(units)], func(i int, v float64) { folded[i][f] = v })
	}
	return whole, folded
}

// divided returns the probability that B exceeds factor times A by at least as much as
// measured if the runs are divided randomly. It keeps gates from failing more often than
// allowed, whatever the distribution of the runs.
func (r *resampler) divided(valuesA, valuesB []float64, factor float64) float64 {
	var all []float64
	for _, v := range valuesB {
		all = append(all, v/factor)
	}
	all = append(all, valuesA...)
	above := func() float64 {
		sum := [2]float64{}
		for i, v := range all {
			if i < len(valuesB) {
				sum[B] += v
			} else {
				sum[A] += v
			}
		}
		return sum[B]/float64(len(valuesB)) - sum[A]/float64(len(valuesA))
	}
	found := above() * (1 - 1e-9) // sums in another order are rounded differently
	rng := rand.New(rand.NewPCG(r.seed[0], r.seed[1]))
	extreme := 1
	for range r.folds {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if above() >= found {
			extreme++
		}
	}
	return float64(extreme) / float64(r.folds+1)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// judge returns the interval of a difference. folded has the difference in each resample, and
// judge sorts it. Differences of less than a billionth of scale are rounding. level is the
// probability that the interval misses.
func (r *resampler) judge(difference, scale, level float64, folded []float64) Interval {
	mean, square := 0.0, 0.0
	for _, v := range folded {
		mean += v / float64(r.folds)
	}
	for _, v := range folded {
		square += (v - mean) * (v - mean) / float64(r.folds)
	}
	slices.Sort(folded)
	n := min(r.units[A], r.units[B])
	wider := math.Sqrt(float64(n) / float64(n-1))
	tail := math.Erfc(studentQuantile(level, n-1)*wider/math.Sqrt2) / 2
	i := min(int(tail*float64(r.folds)), r.folds/2-1)
	out := Interval{Known: true, Low: folded[i], High: folded[r.folds-1-i], P: 1}
	switch spread := math.Sqrt(square) * wider; {
	case math.Abs(difference) <= 1e-9*math.Abs(scale):
	case spread <= 1e-9*math.Abs(scale):
		// All units of a side are equal, so count the ways to divide them into A and B.
		out.P = min(1, 2/choose(r.units[A]+r.units[B], r.units[A]))
	default:
		out.P = studentTails(math.Abs(difference)/spread, n-1)
	}
	return out
}

// intervals returns the known intervals of a list.
func intervals[T any](list []T, of func(*T) *Interval) []*Interval {
	var known []*Interval
	for i := range list {
		if in := of(&list[i]); in.Known {
			known = append(known, in)
		}
	}
	return known
}

// holm corrects the probabilities of several intervals for their number, by Holm's method.
func holm(list []*Interval) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Interval) int { return cmp.Compare(a.P, b.P) })
	least := 0.0
	for i, in := range list {
		least = max(least, min(1, in.P*float64(len(list)-i)))
		in.P = least
	}
}

// studentTails returns the probability that Student's t is beyond ±t, for an integer number
// of degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
func studentTails(t float64, freedom int) float64 {
	theta := math.Atan(t / math.Sqrt(float64(freedom)))
	sin, cos := math.Sincos(theta)
	term, sum := 1.0, 0.0
	first := freedom % 2
	if first == 1 {
		term = cos
	}
	for i := first; i <= freedom-2; i += 2 {
		sum += term
		term *= cos * cos * float64(i+1) / float64(i+2)
	}
	inside := sin * sum
	if first == 1 {
		inside = 2 / math.Pi * (theta + inside)
	}
	return min(1, max(0, 1-inside))
}

// studentQuantile returns the t beyond which, on both sides, Student's distribution has the
// given probability.
func studentQuantile(tails float64, freedom int) float64 {
	low, high := 0.0, 1e6
	for range 100 {
		if middle := (low + high) / 2; studentTails(middle, freedom) > tails {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
