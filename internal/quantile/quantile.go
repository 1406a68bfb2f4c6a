// Package quantile keeps samples of durations, or of any unsigned integers, and
// answers what their quantiles are.
//
// A [Sample] counts its values in two parts:
//
//   - Values below [OwnCounter] each have a counter of their own.
//   - Larger values are counted in a multiset, an open-addressing table of
//     (value, count), as long as there are at most [MaxDistinct] different ones.
//     Up to then quantiles are exact. Thereafter they go to a log-linear
//     histogram (see bins), and quantiles are off by at most [RelativeError].
//     Samples with Exact set keep the multiset, whatever its size.
//
// Count, sum, minimum and maximum are always exact.
//
// Values that were counted elsewhere, by their length in bits only, can be added
// too. Quantiles of a sample with such are off by at most [OctaveError].
//
// Values of up to 32 bits wait in a buffer until there are enough of them to be
// worth a visit to these parts. That is what makes recording cheap where
// thousands of samples are fed in turn: a value costs one write next to the last
// one, and a visit finds the same cache lines many times. A sample of fewer
// values has only the buffer, also when it is asked.
//
// Whether a sample is approximate depends only on how many different values it
// saw. So what it answers does not depend on the order of the values, nor on how
// they were divided among samples that were merged.
package quantile

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
)

const (
	// OwnCounter is the smallest value that has no counter of its own. Most calls
	// are short, and counting them so is the fastest way.
	OwnCounter = 2048

	// MaxDistinct is the largest number of different values of OwnCounter and
	// more whose quantiles are always exact.
	MaxDistinct = 512

	// OctaveError bounds the error of a quantile of a sample that is coarse: 4/3
	// of the least value of an octave stands for all of them.
	OctaveError = 1.0 / 3
)

// Sample is a multiset of values. The zero value is empty and ready for use. A
// sample must not be copied after the first Add, nor used concurrently, not even
// by readers alone.
type Sample struct {
	// pending holds values that are counted nowhere else yet.
	pending []uint32

	// counted holds all others; nil when there are none. It is apart so that
	// what every Add touches is small.
	counted *counted

	// Exact keeps every different value, at a cost of 16 to 32 bytes for each.
	// Set it before the first Add.
	Exact bool
}

// counted is the part of a sample that has been counted.
type counted struct {
	exact       bool // Sample.Exact
	approximate bool // all values without counters of their own are in bins
	coarse      bool // bins also have values by octave, some of them below OwnCounter
	own         counters

	// Of the others:
	count    uint64
	min, max uint64 // meaningless while count is 0
	sum      Sum
	bins     bins
	table    table
}

// maxPending is the length at which the buffer is folded.
const maxPending = 128

// Add adds one value.
func (s *Sample) Add(v uint64) {
	s.pending = append(s.pending, uint32(v))
	if v>>32 != 0 || len(s.pending) == maxPending {
		s.settle(v)
	}
}

// settle ends the addition of v, whose lower half is pending.
func (s *Sample) settle(v uint64) {
	if v>>32 == 0 {
		s.fold()
		return
	}
	s.pending = s.pending[:len(s.pending)-1]
	c := s.fold()
	c.note(v, v, 1, Sum{Lo: v})
	c.insert(v, 1)
}

// fold counts what is pending, and returns all that is counted.
func (s *Sample) fold() *counted {
	if s.counted == nil {
		s.counted = &counted{exact: s.Exact}
	}
	c := s.counted
	if len(s.pending) == 0 {
		return c
	}
	if others := c.own.addAll(s.pending); len(others) > 0 {
		lo, hi, sum := others[0], others[0], uint64(0)
		for _, v := range others {
			lo, hi, sum = min(lo, v), max(hi, v), sum+uint64(v)
		}
		c.note(uint64(lo), uint64(hi), uint64(len(others)), Sum{Lo: sum})
		c.addShared(others)
	}
	s.pending = s.pending[:0]
	return c
}

// note takes n values without counters of their own, from lo to hi, into what
// is known of all these.
func (c *counted) note(lo, hi, n uint64, sum Sum) {
	if c.count == 0 {
		c.min, c.max = lo, hi
	}
	c.min, c.max = min(c.min, lo), max(c.max, hi)
	c.count += n
	c.sum.AddSum(sum)
}

// insert counts n > 0 occurrences of v where it belongs.
func (c *counted) insert(v, n uint64) {
	if c.approximate {
		c.bins.addBin(binOf(v), n)
		return
	}
	if c.table.add(v, n); c.table.len() > MaxDistinct && !c.exact {
		c.degrade()
	}
}

// addShared counts values that have no counter of their own.
func (c *counted) addShared(values []uint32) {
	if c.approximate {
		c.bins.addAll(values)
		return
	}
	limit := MaxDistinct
	if c.exact {
		limit = math.MaxInt
	}
	if rest := c.table.addAll(values, limit); c.table.len() > limit {
		c.degrade()
		c.bins.addAll(rest)
	}
}

// degrade moves the multiset to the histogram.
func (c *counted) degrade() {
	c.approximate = true
	c.table.eachUnsorted(func(v, n uint64) { c.bins.addBin(binOf(v), n) })
	c.table = table{}
}

// Merge adds all values of other, which must not be used again.
func (s *Sample) Merge(other *Sample) {
	for _, v := range other.pending {
		s.Add(uint64(v))
	}
	o := other.counted
	if o == nil {
		return
	}
	c := s.fold()
	c.own.merge(&o.own)
	if o.count == 0 {
		return
	}
	c.note(o.min, o.max, o.count, o.sum)
	if o.approximate && !c.approximate {
		c.degrade()
	}
	c.coarse = c.coarse || o.coarse
	o.bins.each(c.bins.addBin)
	o.table.eachUnsorted(c.insert)
}

// AddOctaves adds values of which only the numbers by their length in bits are
// known, from [Sample.Octaves], and their sum, minimum and maximum. They may be
// longer than the last octave tells.
func (s *Sample) AddOctaves(octaves []uint64, lo, hi uint64, sum Sum) {
	var n uint64
	for _, k := range octaves {
		n += k
	}
	if n == 0 {
		return
	}
	c := s.fold()
	c.note(lo, hi, n, sum)
	if !c.approximate {
		c.degrade()
	}
	c.coarse = true
	for length, k := range octaves {
		if k > 0 {
			c.bins.addBin(binOf(min(hi, max(lo, inOctave(length)))), k)
		}
	}
}

// inOctave is the value that stands for all of a length in bits.
func inOctave(length int) uint64 {
	if length == 0 {
		return 0
	}
	least := uint64(1) << (length - 1)
	return least + least/3
}

// Coarse reports whether quantiles may be off by [OctaveError].
func (s *Sample) Coarse() bool { return s.counted != nil && s.counted.coarse }

// few is all values in ascending order where none has been counted yet, and else
// nil and false. Samples of few values so never take the room of counters.
func (s *Sample) few() ([]uint32, bool) {
	if s.counted != nil {
		return nil, false
	}
	slices.Sort(s.pending)
	return s.pending, true
}

// Count is the number of values.
func (s *Sample) Count() uint64 {
	if s.counted == nil {
		return uint64(len(s.pending))
	}
	c := s.fold()
	return c.count + c.own.total().count
}

// Sum is the sum of all values.
func (s *Sample) Sum() Sum {
	if values, ok := s.few(); ok {
		var sum Sum
		for _, v := range values {
			sum.Add(uint64(v))
		}
		return sum
	}
	c := s.fold()
	sum := c.sum
	sum.Add(c.own.total().sum)
	return sum
}

// Min is the smallest value, and 0 when there is none.
func (s *Sample) Min() uint64 {
	if values, ok := s.few(); ok {
		if len(values) == 0 {
			return 0
		}
		return uint64(values[0])
	}
	c := s.fold()
	own := c.own.total()
	switch {
	case own.count == 0:
		return c.min
	case c.count == 0:
		return own.min
	}
	return min(own.min, c.min)
}

// Max is the largest value, and 0 when there is none.
func (s *Sample) Max() uint64 {
	if values, ok := s.few(); ok {
		if len(values) == 0 {
			return 0
		}
		return uint64(values[len(values)-1])
	}
	c := s.fold()
	own := c.own.total()
	switch {
	case own.count == 0:
		return c.max
	case c.count == 0:
		return own.max
	}
	return max(own.max, c.max)
}

// Approximate reports whether quantiles may be off by [RelativeError].
func (s *Sample) Approximate() bool {
	return s.counted != nil && s.fold().approximate
}

// Quantile is the value at index ⌊q·n⌋ of the n values in ascending order, the
// last one when that is beyond the end, and 0 when there is none. This is the
// rule of llvm-xray, and interpolates nothing. Where several are wanted,
// [Sample.Quantiles] sorts only once.
func (s *Sample) Quantile(q float64) uint64 {
	var one [1]uint64
	s.Quantiles(one[:], q)
	return one[0]
}

// Quantiles stores the quantiles qs, which must ascend and be as many, in dst.
func (s *Sample) Quantiles(dst []uint64, qs ...float64) {
	clear(dst)
	n := s.Count()
	i, seen := 0, uint64(0)
	for v, times := range s.All() {
		seen += times
		for ; i < len(qs) && rank(qs[i], n) < seen; i++ {
			dst[i] = v
		}
		if i == len(qs) {
			return
		}
	}
}

func rank(q float64, n uint64) uint64 {
	return min(uint64(q*float64(n)), n-1)
}

// All yields the different values in ascending order, each with its count. When
// the sample is approximate, one value stands for all those of its bin.
func (s *Sample) All() iter.Seq2[uint64, uint64] {
	return func(yield func(v, n uint64) bool) {
		if values, ok := s.few(); ok {
			eachRun(values, yield)
			return
		}
		c := s.fold()
		if c.coarse {
			c.eachSorted(yield)
			return
		}
		more := true
		c.own.each(func(v, n uint64) { more = more && yield(v, n) })
		c.bins.each(func(bin uint32, n uint64) {
			// The extremes are known exactly, so no value need lie beyond them.
			more = more && yield(max(c.min, min(c.max, middle(bin))), n)
		})
		c.table.each(func(v, n uint64) bool { more = more && yield(v, n); return more })
	}
}

// eachSorted yields values of counters and bins in one order: those of a coarse
// sample overlap.
func (c *counted) eachSorted(yield func(v, n uint64) bool) {
	type entry struct{ v, n uint64 }
	var all []entry
	add := func(v, n uint64) { all = append(all, entry{v, n}) }
	c.own.each(add)
	c.bins.each(func(bin uint32, n uint64) { add(max(c.min, min(c.max, middle(bin))), n) })
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.v, b.v) })
	for i, e := range all {
		if i+1 < len(all) && all[i+1].v == e.v {
			all[i+1].n += e.n
			continue
		}
		if !yield(e.v, e.n) {
			return
		}
	}
}

// Octaves counts the values by their length in bits: those of 2^(i-1) to 2^i-1
// are at index i. The result is as long as the largest value needs.
func (s *Sample) Octaves() []uint64 {
	octaves := make([]uint64, bits.Len64(s.Max())+1)
	for v, n := range s.All() {
		octaves[bits.Len64(v)] += n
	}
	return octaves
}

// eachRun yields the different values of a sorted list with their counts.
func eachRun(sorted []uint32, yield func(v, n uint64) bool) {
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n] == sorted[0] {
			n++
		}
		if !yield(uint64(sorted[0]), uint64(n)) {
			return
		}
		sorted = sorted[n:]
	}
}
