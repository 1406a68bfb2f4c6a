package quantile

import "math"

// counts is a histogram. A value below OwnCounter has a place of its own, and from
// there on the values of a bin share one. Places ascend with their values.
//
// A count is split into its low 8 bits, the 16 bits above these, and the rest,
// because the memory that thousands of histograms touch in turn decides the speed:
// 128 bytes hold the busy part of a whole octave, and one value in 256 carries.
type counts struct {
	// low is at least as long as the largest value needs, in steps of subBins.
	low []uint8
	// high has the middle bits of subBins places at a time. steps says which, as 1 + the
	// position in units of subBins; 0 where none has carried.
	high  []uint16
	steps [lastPlace/subBins + 1]uint8
	// top has the rest, by place; nil while there is none.
	top map[uint32]uint64
}

const (
	// ownBin is the bin of OwnCounter.
	ownBin = 5 * subBins
	// sharedPlace is what is added to a bin to have its place.
	sharedPlace = OwnCounter - ownBin
)

// placeOf gives the place of a value.
func placeOf(v uint64) uint32 {
	if v < OwnCounter {
		return uint32(v)
	}
	return binOf(v) + sharedPlace
}

// shortPlace is placeOf without a branch. A floating-point number has the octave and
// the place within it side by side; of small values that is more than the value.
func shortPlace(v uint32) uint32 {
	const zero = (1023+subBits-1)<<subBits - sharedPlace
	place := uint32(math.Float64bits(float64(int64(v)))>>(52-subBits)) - zero
	// The smaller of the two. The compiler would branch.
	less := int64(place) - int64(v)
	return v + uint32(less&(less>>63))
}

// standsFor is the value that stands for those at a place.
func standsFor(place uint32) uint64 {
	if place < OwnCounter {
		return uint64(place)
	}
	return middle(place - sharedPlace)
}

// addAll counts every value once. It returns the least that has no place of its own, if
// the largest has none, and the sum.
func (c *counts) addAll(values []uint32) (least, largest uint32, sum uint64) {
	least = math.MaxUint32
	for {
		var at uint32
		if values, at, least, largest, sum = c.addUpToCarry(values, least, largest, sum); at == noPlace {
			return least + OwnCounter, largest, sum
		}
		if int(at) < len(c.low) {
			c.carry(at, 1)
		} else {
			c.add(at, 1)
		}
	}
}

// noPlace is the place of no value.
const noPlace = math.MaxUint32

// addUpToCarry counts values up to one at whose place low wraps around or ends, and
// returns those after it, and that place; noPlace where there is none. It calls nothing, so that
// all it needs is in registers. least is less OwnCounter: what is below wraps around, and is larger.
func (c *counts) addUpToCarry(values []uint32, least, largest uint32, sum uint64) ([]uint32, uint32, uint32, uint32, uint64) {
	low := c.low
	for i, v := range values {
		least, largest, sum = min(least, v-OwnCounter), max(largest, v), sum+uint64(v)
		at := shortPlace(v)
		if int(at) >= len(low) {
			return values[i+1:], at, least, largest, sum
		}
		n := low[at] + 1
		low[at] = n
		if n == 0 {
			return values[i+1:], at, least, largest, sum
		}
	}
	return nil, noPlace, least, largest, sum
}

// add counts n values at a place.
func (c *counts) add(at uint32, n uint64) {
	if uint(at) >= uint(len(c.low)) {
		c.grow(at)
	}
	n += uint64(c.low[at])
	c.low[at] = uint8(n)
	if n>>8 != 0 {
		c.carry(at, n>>8)
	}
}

// grow makes room for a place. Most functions have durations of few octaves, but many
// steps would leave more memory to be collected than they save.
//
//go:noinline
func (c *counts) grow(at uint32) {
	n := max(int(at)+1, len(c.low)*5/4)
	step := subBins
	if n > OwnCounter/4 {
		step = 4 * subBins
	}
	low := make([]uint8, min((n+step-1)/step*step, lastPlace+1))
	copy(low, c.low)
	c.low = low
}

// carry adds n times 256 to a count.
//
//go:noinline
func (c *counts) carry(at uint32, n uint64) {
	step := &c.steps[at/subBins]
	if *step == 0 {
		c.high = append(c.high, make([]uint16, subBins)...)
		*step = uint8(len(c.high) / subBins)
	}
	k := &c.high[(uint32(*step)-1)*subBins+at%subBins]
	n += uint64(*k)
	*k = uint16(n)
	if n >>= 16; n > 0 {
		if c.top == nil {
			c.top = make(map[uint32]uint64)
		}
		c.top[at] += n
	}
}

// lastPlace is the place of the largest value.
const lastPlace = (64-subBits)*subBins + subBins - 1 + sharedPlace

func (c *counts) at(place int) uint64 {
	n := uint64(c.low[place])
	if step := int(c.steps[place/subBins]); step != 0 {
		n += uint64(c.high[(step-1)*subBins+place%subBins]) << 8
		n += c.top[uint32(place)] << 24
	}
	return n
}

// each calls f with all places that are not empty, in ascending order.
func (c *counts) each(f func(place uint32, n uint64)) {
	for first := 0; first < len(c.low); first += subBins {
		for i, n := range c.low[first : first+subBins] {
			switch {
			case c.steps[first/subBins] != 0:
				if n := c.at(first + i); n != 0 {
					f(uint32(first+i), n)
				}
			case n != 0:
				f(uint32(first+i), uint64(n))
			}
		}
	}
}

// own is the smallest and the largest value below OwnCounter that has been counted.
func (c *counts) own() (lo, hi uint64, ok bool) {
	n := min(len(c.low), OwnCounter)
	for lo := range n {
		if c.at(lo) != 0 {
			hi := n - 1
			for c.at(hi) == 0 {
				hi--
			}
			return uint64(lo), uint64(hi), true
		}
	}
	return 0, 0, false
}
