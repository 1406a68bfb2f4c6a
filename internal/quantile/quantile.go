// Package quantile keeps samples of durations, or of any unsigned integers, and computes
// their quantiles.
//
// A [Sample] counts its values in two parts:
//
//   - Values below [ownCounter] each have their own counter.
//   - Larger values are counted in a multiset, an open-addressing table of (value, count)
//     pairs. The multiset holds up to [maxDistinct] different values, and until then
//     quantiles are exact. After that, only a log-linear histogram remains (see counts),
//     and quantiles are off by at most [RelativeError]. Samples with Exact set keep the
//     multiset, whatever its size.
//
// Count, sum, minimum and maximum are always exact.
//
// A sample can also take values that are known only by bin. It is approximate then. If values are
// known only by bit length, quantiles are off by at most [OctaveError].
//
// Values of up to 32 bits wait in a buffer, and a full buffer is counted at once. This
// makes recording cheap when thousands of samples receive values in turn. An addition
// writes next to the previous value, and counting a whole buffer reuses the same cache
// lines. A sample with fewer values than the buffer holds consists of the buffer only.
// Queries do not change that.
//
// Whether a sample is approximate depends only on the number of different values in it. So
// the results depend neither on the order of the values, nor on how they were divided among
// merged samples.
package quantile

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

const (
	// ownCounter is the smallest value without its own counter. Most calls are short, and a
	// separate counter is the fastest way to count them.
	ownCounter = 2048

	// maxDistinct is the largest number of different values from ownCounter up for which
	// quantiles are always exact.
	maxDistinct = 512

	// OctaveError bounds the error of a quantile of a coarse sample. 4/3 of the smallest
	// value of an octave represents all values of the octave.
	OctaveError = 1.0 / 3
)

// Sample is a multiset of values. The zero value is empty and ready for use. Do not copy a
// sample after the first Add. A sample is not safe for concurrent use, not even by readers
// only.
type Sample struct {
	// pending holds values that are not counted yet.
	pending []uint32

	// counted holds all other values; nil if there are none. It is a separate struct so that
	// every Add touches little memory.
	counted *counted

	// Exact keeps every different value. Each takes 16 to 32 bytes. Set it before the first
	// Add.
	Exact bool

	// Meter, if not nil, includes the bytes that the sample takes, except those of values that
	// are not counted yet. Set it before the first Add.
	Meter *int64
}

// counted is the part of a sample that has been counted.
type counted struct {
	exact       bool // Sample.Exact
	approximate bool // table is not used
	shared      bool // there are values without their own counter

	count uint64
	sum   Sum
	// min and max of the values without their own counter
	min, max uint64

	counts counts // counts of all values
	table  table  // values without their own counter, unless approximate, or in fresh
	// fresh are values without their own counter that are not in table yet. Most samples that reach
	// maxFresh have too many different values, and never build a table.
	fresh  []uint32
	binned map[uint32]uint64 // values known only by bin or octave, by bin; nil if there are none
	coarse bool              // some values are known only by octave

	meter   *int64 // Sample.Meter
	metered int64  // bytes of this that meter includes
}

// maxPending is the length at which the buffer is counted.
const maxPending = 128

// Add adds one value.
func (s *Sample) Add(v uint64) {
	s.pending = append(s.pending, uint32(v))
	if v>>32 != 0 || len(s.pending) == maxPending {
		s.settle(v)
	}
}

// settle completes the addition of v, whose lower half is in pending.
func (s *Sample) settle(v uint64) {
	if v>>32 == 0 {
		s.fold()
		return
	}
	s.pending = s.pending[:len(s.pending)-1]
	s.fold().addLong(v)
}

// fold counts the pending values and returns all counted values.
func (s *Sample) fold() *counted {
	if s.counted == nil {
		s.counted = newCounted(s.Exact, s.Meter)
	}
	if len(s.pending) > 0 {
		s.counted.addAll(s.pending)
		s.pending = s.pending[:0]
	}
	return s.counted
}

func newCounted(exact bool, meter *int64) *counted {
	c := &counted{exact: exact, meter: meter}
	c.measure()
	return c
}

// measure updates the meter.
func (c *counted) measure() {
	if c.meter == nil {
		return
	}
	// A value in a table takes 8 bytes, and the table is at least a quarter full. One in a map
	// takes some 40.
	const perValue, perEntry = 24, 40
	bytes := int64(unsafe.Sizeof(*c)) + int64(len(c.counts.low)+2*len(c.counts.high)+4*cap(c.fresh)) +
		perValue*int64(c.table.used) + perEntry*int64(len(c.counts.top)+len(c.table.wide)+len(c.binned))
	if bytes != c.metered {
		atomic.AddInt64(c.meter, bytes-c.metered) // [Set.Each] shares the meter
		c.metered = bytes
	}
}

// addAll counts at least one value. It may reorder values.
func (c *counted) addAll(values []uint32) {
	defer c.measure()
	lo, hi, sum := c.counts.addAll(values)
	c.count += uint64(len(values))
	c.sum.Add(sum)
	if hi < ownCounter {
		return
	}
	c.note(uint64(lo), uint64(hi))
	if c.approximate {
		return
	}
	// Always store. A branch would be unpredictable.
	n := 0
	for _, v := range values {
		values[n] = v
		if v >= ownCounter {
			n++
		}
	}
	c.addShared(values[:n])
}

// addShared adds values without their own counter to fresh or table, unless c is approximate.
func (c *counted) addShared(values []uint32) {
	if c.approximate {
		return
	}
	if c.exact || c.table.len() > 0 {
		c.addToTable(values)
	} else if c.fresh = append(c.fresh, values...); len(c.fresh) >= maxFresh {
		c.tabulate()
	}
}

// maxFresh is the length at which fresh is emptied. It is a little more than MaxDistinct, so that
// fresh exceeds MaxDistinct different values even if a few values are equal.
const maxFresh = maxDistinct + maxDistinct/8

// tabulate moves fresh to table, or makes c approximate if there are too many different values.
// Queries for different values need this.
func (c *counted) tabulate() {
	values := c.fresh
	c.fresh = nil
	if leastDistinct(values) > maxDistinct {
		c.degrade()
	} else if len(values) > 0 {
		c.addToTable(values)
	}
}

func (c *counted) addToTable(values []uint32) {
	limit := maxDistinct
	if c.exact {
		limit = math.MaxInt
	}
	if c.table.addAll(values, limit); c.table.len() > limit {
		c.degrade()
	}
}

// leastDistinct returns a lower bound of the number of different values: the number of different
// hashes. Among some hundred values, few share a hash.
func leastDistinct(values []uint32) (n int) {
	const hashBits = 14
	var seen [1 << hashBits / 64]uint64
	for _, v := range values {
		h := hash(v, 32-hashBits)
		word := &seen[h/64]
		n += int(^*word >> (h % 64) & 1)
		*word |= 1 << (h % 64)
	}
	return n
}

// addLong adds a value of more than 32 bits.
func (c *counted) addLong(v uint64) {
	defer c.measure()
	c.count++
	c.sum.Add(v)
	c.note(v, v)
	c.counts.add(placeOf(v), 1)
	c.insert(v, 1)
}

// note updates the minimum and maximum for values from lo to hi without their own counter.
func (c *counted) note(lo, hi uint64) {
	if !c.shared {
		c.shared, c.min, c.max = true, lo, hi
	}
	c.min, c.max = min(c.min, lo), max(c.max, hi)
}

// insert adds n > 0 occurrences of v, which has no counter of its own, to table.
func (c *counted) insert(v, n uint64) {
	if c.approximate {
		return
	}
	if c.table.add(v, n); c.table.len() > maxDistinct && !c.exact {
		c.degrade()
	}
}

func (c *counted) degrade() {
	c.approximate = true
	c.table, c.fresh = table{}, nil
}

// Merge adds all values of other. Do not use other afterwards.
func (s *Sample) Merge(other *Sample) {
	for _, v := range other.pending {
		s.Add(uint64(v))
	}
	if other.counted != nil {
		s.fold().merge(other.counted)
	}
}

func (c *counted) merge(o *counted) {
	c.count += o.count
	c.sum.AddSum(o.sum)
	if o.shared {
		c.note(o.min, o.max)
	}
	if o.approximate {
		c.degrade()
	}
	c.counts.merge(&o.counts)
	o.table.eachUnsorted(c.insert)
	c.addShared(o.fresh)
	for bin, n := range o.binned {
		c.addBinned(bin, n)
	}
	c.coarse = c.coarse || o.coarse
	c.measure()
	if o.meter != nil {
		atomic.AddInt64(o.meter, -o.metered)
		o.meter = nil
	}
}

func (c *counted) addBinned(bin uint32, n uint64) {
	if c.binned == nil {
		c.binned = make(map[uint32]uint64)
	}
	c.binned[bin] += n
}

// AddOctaves adds values known only by octave, with their sum, minimum and maximum. octaves counts
// the values by bit length, as [Sample.Octaves] returns it. Values may be longer than the last
// octave.
func (s *Sample) AddOctaves(octaves []uint64, lo, hi uint64, sum Sum) {
	var n uint64
	for _, k := range octaves {
		n += k
	}
	if n == 0 {
		return
	}
	c := s.addKnown(n, lo, hi, sum)
	c.coarse = true
	for length, k := range octaves {
		if k > 0 {
			c.addBinned(Bin(min(hi, max(lo, InOctave(length)))), k)
		}
	}
	c.measure()
}

// addKnown adds the sum, minimum and maximum of n values that are not known exactly.
func (s *Sample) addKnown(n, lo, hi uint64, sum Sum) *counted {
	c := s.fold()
	c.count += n
	c.sum.AddSum(sum)
	c.note(lo, hi)
	c.degrade()
	return c
}

// BinCount is the number of values in a bin.
type BinCount struct {
	Bin   uint32
	Count uint64
}

// AddBins adds values known only by bin, with their sum, minimum and maximum. With coarse, a bin
// represents an octave.
func (s *Sample) AddBins(bins []BinCount, coarse bool, lo, hi uint64, sum Sum) {
	var n uint64
	for _, b := range bins {
		n += b.Count
	}
	if n == 0 {
		return
	}
	c := s.addKnown(n, lo, hi, sum)
	c.coarse = c.coarse || coarse
	for _, b := range bins {
		c.addBinned(b.Bin, b.Count)
	}
	c.measure()
}

// InOctave returns the value that represents all values of a bit length.
func InOctave(length int) uint64 {
	if length == 0 {
		return 0
	}
	least := uint64(1) << (length - 1)
	return least + least/3
}

// Coarse reports whether quantiles may be off by [OctaveError].
func (s *Sample) Coarse() bool { return s.counted != nil && s.counted.coarse }

// Binned reports whether some values were added by bin or octave.
func (s *Sample) Binned() bool { return s.counted != nil && s.counted.binned != nil }

// few returns all values in ascending order if none has been counted yet. Otherwise it
// returns nil and false. So samples with few values never allocate counters.
func (s *Sample) few() ([]uint32, bool) {
	if s.counted != nil {
		return nil, false
	}
	slices.Sort(s.pending)
	return s.pending, true
}

// Count returns the number of values.
func (s *Sample) Count() uint64 {
	if s.counted == nil {
		return uint64(len(s.pending))
	}
	return s.fold().count
}

// Sum returns the sum of all values.
func (s *Sample) Sum() Sum {
	if values, ok := s.few(); ok {
		var sum Sum
		for _, v := range values {
			sum.Add(uint64(v))
		}
		return sum
	}
	return s.fold().sum
}

// Min returns the smallest value, or 0 if there is none.
func (s *Sample) Min() uint64 {
	lo, _ := s.extremes()
	return lo
}

// Max returns the largest value, or 0 if there is none.
func (s *Sample) Max() uint64 {
	_, hi := s.extremes()
	return hi
}

func (s *Sample) extremes() (lo, hi uint64) {
	if values, ok := s.few(); ok {
		if len(values) == 0 {
			return 0, 0
		}
		return uint64(values[0]), uint64(values[len(values)-1])
	}
	c := s.fold()
	lo, hi, ok := c.counts.own()
	switch {
	case !ok:
		return c.min, c.max
	case !c.shared:
		return lo, hi
	}
	return min(lo, c.min), max(hi, c.max)
}

// Approximate reports whether quantiles may be off by [RelativeError].
func (s *Sample) Approximate() bool {
	if s.counted == nil {
		return false
	}
	c := s.fold()
	c.tabulate()
	return c.approximate
}

// Quantile returns the value at index ⌊q·n⌋ of the n values in ascending order. If the
// index is beyond the end, it returns the largest value. It returns 0 if there are no values. This
// is the rule of llvm-xray, without interpolation. For several quantiles use
// [Sample.Quantiles], which sorts only once.
func (s *Sample) Quantile(q float64) uint64 {
	var one [1]uint64
	s.Quantiles(one[:], q)
	return one[0]
}

// Quantiles stores the quantiles qs in dst. qs must be in ascending order and as long as
// dst.
func (s *Sample) Quantiles(dst []uint64, qs ...float64) {
	clear(dst)
	n := s.Count()
	i, seen := 0, uint64(0)
	if s.counted != nil && s.counted.binned == nil {
		// Skip counters, eight at a time.
		c := s.fold()
		c.tabulate()
		places := len(c.counts.low)
		if !c.approximate {
			places = min(places, ownCounter)
		}
		for first := 0; first < places && i < len(qs); first += 8 {
			sum := c.counts.sumOf8(first)
			for ; i < len(qs) && rank(qs[i], n) < seen+sum; i++ {
				dst[i] = c.standsFor(c.counts.nth(first, rank(qs[i], n)-seen))
			}
			seen += sum
		}
		if i < len(qs) {
			c.table.each(func(v, times uint64) bool {
				seen += times
				for ; i < len(qs) && rank(qs[i], n) < seen; i++ {
					dst[i] = v
				}
				return i < len(qs)
			})
		}
		return
	}
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

// All yields the different values in ascending order with their counts. If the sample is
// approximate, one value represents all values of its bin.
func (s *Sample) All() iter.Seq2[uint64, uint64] {
	return func(yield func(v, n uint64) bool) {
		if values, ok := s.few(); ok {
			eachRun(values, yield)
			return
		}
		c := s.fold()
		if c.binned != nil {
			c.eachSorted(yield)
			return
		}
		c.tabulate()
		more := true
		c.counts.each(func(place uint32, n uint64) {
			if c.approximate || place < ownCounter {
				more = more && yield(c.standsFor(place), n)
			}
		})
		c.table.each(func(v, n uint64) bool { more = more && yield(v, n); return more })
	}
}

// standsFor returns the value that represents a place. The extremes are known exactly, so
// the result never lies outside of them.
func (c *counted) standsFor(place uint32) uint64 {
	v := standsFor(place)
	if place >= ownCounter {
		v = max(c.min, min(c.max, v))
	}
	return v
}

// eachSorted yields values in ascending order, including those known only by bin.
func (c *counted) eachSorted(yield func(v, n uint64) bool) {
	type entry struct{ v, n uint64 }
	var all []entry
	add := func(v, n uint64) { all = append(all, entry{v, n}) }
	c.counts.each(func(place uint32, n uint64) { add(c.standsFor(place), n) })
	for bin, n := range c.binned {
		add(max(c.min, min(c.max, middle(bin))), n)
	}
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

// Octaves counts the values by bit length: index i counts the values from 2^(i-1) to 2^i-1.
// The result is as long as the largest value requires.
func (s *Sample) Octaves() []uint64 {
	octaves := make([]uint64, bits.Len64(s.Max())+1)
	if s.counted != nil && s.counted.binned == nil {
		s.fold().counts.addOctaves(octaves)
		return octaves
	}
	for v, n := range s.All() {
		octaves[bits.Len64(v)] += n
	}
	return octaves
}

// eachRun yields the different values of a sorted slice with their counts.
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
