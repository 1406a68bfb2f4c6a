package quantile

import (
	"maps"
	"math"
	"math/bits"
	"slices"
)

// table is a multiset of values other than 0.
type table struct {
	// slots is an open-addressing table with linear probing. It is empty, or its length is
	// a power of two. It is at most half full, plus one: value number MaxDistinct+1 needs
	// no more room because it ends the table.
	slots []slot
	used  int
	shift uint8 // 32 - log2(len(slots))
	// wide holds what slots cannot: values above 32 bits, and the part of counts above 32
	// bits. Both are rare.
	wide    map[uint64]uint64
	numWide int // values above 32 bits
}

// slot is a value and its count. Both are 0 in a free slot.
type slot struct{ value, count uint32 }

// len returns the number of different values.
func (t *table) len() int { return t.used + t.numWide }

// hash returns the first slot to try. The factor is 2^32 divided by the golden ratio. It
// spreads consecutive values, and multiples of a clock's step, evenly.
func hash(v uint32, shift uint8) uint32 { return v * 0x9e3779b1 >> (shift & 31) }

// addAll counts every value once. It stops when the table has more than limit different
// values.
func (t *table) addAll(values []uint32, limit int) {
	if len(t.slots) == 0 {
		t.grow()
	}
	slots, shift, mask := t.slots, t.shift, uint32(len(t.slots)-1)
	for _, v := range values {
		for h := hash(v, shift); ; h++ {
			e := &slots[h&mask]
			if e.value == v && e.count != math.MaxUint32 {
				e.count++
				break
			}
			if e.value != 0 && e.value != v {
				continue
			}
			if t.add(uint64(v), 1); t.len() > limit {
				return
			}
			slots, shift, mask = t.slots, t.shift, uint32(len(t.slots)-1)
			break
		}
	}
}

// add counts n > 0 occurrences of v.
func (t *table) add(v, n uint64) {
	if v>>32 != 0 {
		t.addWide(v, n)
		return
	}
	e := t.find(uint32(v))
	if e == nil || e.value == 0 && 2*t.used > len(t.slots) {
		t.grow()
		e = t.find(uint32(v))
	}
	if e.value == 0 {
		t.used++
		e.value = uint32(v)
	}
	n += uint64(e.count)
	if n > math.MaxUint32 {
		t.addWide(v, n-math.MaxUint32)
		n = math.MaxUint32
	}
	e.count = uint32(n)
}

func (t *table) addWide(v, n uint64) {
	if t.wide == nil {
		t.wide = make(map[uint64]uint64)
	}
	if t.wide[v] == 0 && v>>32 != 0 {
		t.numWide++
	}
	t.wide[v] += n
}

// find returns the slot of v, or the free slot for it, or nil if there are no slots at all.
func (t *table) find(v uint32) *slot {
	mask := uint32(len(t.slots) - 1)
	for h := hash(v, t.shift); int(h&mask) < len(t.slots); h++ {
		if e := &t.slots[h&mask]; e.value == v || e.value == 0 {
			return e
		}
	}
	return nil
}

// grow enlarges the table in large steps. Most tables that outgrow their first size also
// reach the last size of an exact sample.
func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, growth(len(old)))
	touch(t.slots)
	t.shift = uint8(32 - bits.TrailingZeros(uint(len(t.slots))))
	for _, e := range old {
		if e.value != 0 {
			*t.find(e.value) = e
		}
	}
}

func growth(n int) int {
	switch {
	case n == 0:
		return 16
	case n < 2*maxDistinct:
		return 4 * n
	}
	return 2 * n
}

// eachUnsorted calls f with all different values and their counts, in no particular order.
func (t *table) eachUnsorted(f func(v, n uint64)) {
	for _, e := range t.slots {
		if e.value != 0 {
			f(uint64(e.value), t.count(e))
		}
	}
	for v, n := range t.wide {
		if v>>32 != 0 {
			f(v, n)
		}
	}
}

// each calls f with all different values and their counts, in ascending order, until f
// returns false.
func (t *table) each(f func(v, n uint64) bool) {
	// Sorting slots as integers sorts them by value, and is faster than sorting structs.
	slots := make([]uint64, 0, t.used)
	for _, e := range t.slots {
		if e.value != 0 {
			slots = append(slots, uint64(e.value)<<32|uint64(e.count))
		}
	}
	slices.Sort(slots)
	for _, s := range slots {
		e := slot{uint32(s >> 32), uint32(s)}
		if !f(uint64(e.value), t.count(e)) {
			return
		}
	}
	for _, v := range slices.Sorted(maps.Keys(t.wide)) {
		if v>>32 != 0 && !f(v, t.wide[v]) {
			return
		}
	}
}

// count returns the number of occurrences of the value in a slot.
func (t *table) count(e slot) uint64 {
	if len(t.wide) == 0 {
		return uint64(e.count)
	}
	return uint64(e.count) + t.wide[uint64(e.value)]
}
