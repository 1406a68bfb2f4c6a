package quantile

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"
)

// counts is a histogram. A place is the index of a counter. A value below OwnCounter has
// its own place. Larger values share the place of their bin. Places ascend with their
// values.
//
// A count is split into its low 8 bits, the next 16 bits and the rest. The reason is cache
// use: thousands of histograms are updated in turn, and the memory that they touch decides
// the speed. 128 bytes hold the low counters of a whole octave, and only one addition in
// 256 carries.
type counts struct {
	// low covers at least the largest value. Its length is a multiple of subBins.
	low []uint8
	// high holds the middle bits, for subBins places at a time. steps maps a group of
	// subBins places to 1 + the index of its group in high, or to 0 if no counter of the
	// group has carried.
	high  []uint16
	steps [lastPlace/subBins + 1]uint8
	// top holds the remaining bits by place. It is nil until a counter needs it.
	top map[uint32]uint64
}

const (
	// ownBin is the bin of OwnCounter.
	ownBin = 5 * subBins
	// sharedPlace is the difference between the place and the bin of a shared counter.
	sharedPlace = ownCounter - ownBin
)

// placeOf returns the place of a value.
func placeOf(v uint64) uint32 {
	if v < ownCounter {
		return uint32(v)
	}
	return Bin(v) + sharedPlace
}

// shortPlace is placeOf without a branch. The bits of a floating-point number hold the
// octave next to the position within it. For small values, this exceeds the value itself.
func shortPlace(v uint32) uint16 {
	const zero = (1023+subBits-1)<<subBits - sharedPlace
	place := uint32(math.Float64bits(float64(int64(v)))>>(52-subBits)) - zero
	// Take the minimum by arithmetic. The compiler would emit a branch.
	less := int64(place) - int64(v)
	return uint16(v + uint32(less&(less>>63)))
}

// standsFor returns the value that represents a place.
func standsFor(place uint32) uint64 {
	if place < ownCounter {
		return uint64(place)
	}
	return middle(place - sharedPlace)
}

// addAll counts every value once. It returns the sum of the values. If the largest value
// has no counter of its own, it also returns that value and the smallest such value.
//
// Finding the places and counting are separate loops. The second one has so few instructions
// that the processor waits for the memory of many counters at once.
func (c *counts) addAll(values []uint32) (least, largest uint32, sum uint64) {
	var places [buffered]uint16
	least = math.MaxUint32
	for len(values) > 0 {
		n := min(len(values), len(places))
		lo, hi, part := shortPlaces(&places, values[:n])
		least, largest, sum = min(least, lo), max(largest, hi), sum+part
		c.increment(places[:n])
		values = values[n:]
	}
	return least + ownCounter, largest, sum
}

// buffered is the number of values that are counted at once.
const buffered = 144

// shortPlaces finds the places of values. It returns the sum and the largest of the values, and
// the smallest one relative to OwnCounter: smaller values wrap around.
//
//go:noinline
func shortPlaces(places *[buffered]uint16, values []uint32) (least, largest uint32, sum uint64) {
	least = math.MaxUint32
	values = values[:min(len(values), len(places))]
	for i, v := range values {
		least, largest, sum = min(least, v-ownCounter), max(largest, v), sum+uint64(v)
		places[i] = shortPlace(v)
	}
	return least, largest, sum
}

// increment adds 1 to the count at every place.
func (c *counts) increment(places []uint16) {
	for len(places) > 0 {
		n := c.incrementUpToCarry(places)
		if n == len(places) {
			return
		}
		if at := uint32(places[n]); int(at) < len(c.low) {
			c.carry(at, 1)
		} else {
			c.add(at, 1)
		}
		places = places[n+1:]
	}
}

// incrementUpToCarry adds 1 to the count at every place up to the first one whose counter in
// low overflows or does not exist. It returns the index of that place, or the number of places.
// It calls no function, so its variables stay in registers.
func (c *counts) incrementUpToCarry(places []uint16) int {
	low := c.low
	for i, at := range places {
		if int(at) >= len(low) {
			return i
		}
		n := low[at] + 1
		low[at] = n
		if n == 0 {
			return i
		}
	}
	return len(places)
}

// add adds n to the count at a place.
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

// grow makes room for a place. The durations of most functions span few octaves. Even so,
// growing in many small steps would leave more garbage than it saves.
//
//go:noinline
func (c *counts) grow(at uint32) {
	n := max(int(at)+1, len(c.low)*5/4)
	step := subBins
	if n > ownCounter/4 {
		step = 4 * subBins
	}
	low := make([]uint8, min((n+step-1)/step*step, lastPlace+1))
	touch(low)
	copy(low, c.low)
	c.low = low
}

// touch writes to each page of new memory. If the first access reads, the kernel maps a page of zeros
// first. It then has to replace that page at the first write, and to interrupt the other processors.
func touch[T any](s []T) {
	const page = 4096
	var zero T
	for i := 0; i < len(s); i += max(1, page/int(unsafe.Sizeof(zero))) {
		s[i] = zero
	}
	if len(s) > 0 {
		s[len(s)-1] = zero
	}
}

// carry adds n*256 to a count.
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

// merge adds all counts of o.
func (c *counts) merge(o *counts) {
	if len(o.low) > len(c.low) {
		c.grow(uint32(len(o.low) - 1))
	}
	for first := 0; first < len(o.low); first += 8 {
		to, from := c.low[first:first+8], o.low[first:first+8]
		x, y := binary.LittleEndian.Uint64(to), binary.LittleEndian.Uint64(from)
		// Add eight counters at once. Add their highest bits separately, so that nothing
		// carries into the next counter.
		const highest = 0x8080808080808080
		sum := (x&^highest + y&^highest) ^ (x^y)&highest
		if (x&y|(x|y)&^sum)&highest == 0 {
			binary.LittleEndian.PutUint64(to, sum)
			continue
		}
		for i, n := range from {
			c.add(uint32(first+i), uint64(n))
		}
	}
	for group, step := range o.steps {
		if step == 0 {
			continue
		}
		for i, n := range o.high[(int(step)-1)*subBins:][:subBins] {
			if n != 0 {
				c.carry(uint32(group*subBins+i), uint64(n))
			}
		}
	}
	for at, n := range o.top {
		c.carry(at, n<<16)
	}
}

// lastPlace is the place of the largest value.
const lastPlace = (64-subBits)*subBins + subBins - 1 + sharedPlace

func (c *counts) at(place int) uint64 {
	n := uint64(c.low[place])
	if step := int(c.steps[place/subBins]); step != 0 {
		n += uint64(c.high[(step-1)*subBins+place%subBins]) << 8
		if c.top != nil {
			n += c.top[uint32(place)] << 24
		}
	}
	return n
}

// each calls f with every nonzero counter in ascending order of place. Most counters are zero,
// so it looks at eight at a time.
func (c *counts) each(f func(place uint32, n uint64)) {
	for first := 0; first < len(c.low); first += 8 {
		if c.steps[first/subBins] == 0 && binary.NativeEndian.Uint64(c.low[first:]) == 0 {
			continue
		}
		for place := first; place < first+8; place++ {
			if n := c.at(place); n != 0 {
				f(uint32(place), n)
			}
		}
	}
}

// sumOf8 returns the sum of the eight counters from first on, a multiple of 8.
func (c *counts) sumOf8(first int) (sum uint64) {
	if c.steps[first/subBins] != 0 {
		for place := first; place < first+8; place++ {
			sum += c.at(place)
		}
		return sum
	}
	const even = 0x00ff00ff00ff00ff
	w := binary.NativeEndian.Uint64(c.low[first:])
	return (w&even + w>>8&even) * 0x0001000100010001 >> 48
}

// nth returns the place of value n, counted from 0, of the values at the eight places from first on.
func (c *counts) nth(first int, n uint64) uint32 {
	for n >= c.at(first) {
		n -= c.at(first)
		first++
	}
	return uint32(first)
}

// addOctaves adds the counts of all values to those of their bit lengths.
func (c *counts) addOctaves(octaves []uint64) {
	for place := 0; place < min(8, len(c.low)); place++ {
		if n := c.at(place); n != 0 {
			octaves[bits.Len(uint(place))] += n
		}
	}
	// From here on, eight places never belong to two octaves.
	for first := 8; first < len(c.low); first += 8 {
		n := c.sumOf8(first)
		switch {
		case n == 0:
		case first < ownCounter:
			octaves[bits.Len(uint(first))] += n
		default:
			octaves[bits.Len(ownCounter)+(first-ownCounter)/subBins] += n
		}
	}
}

// own returns the smallest and the largest counted value below OwnCounter.
func (c *counts) own() (lo, hi uint64, ok bool) {
	n := min(len(c.low), ownCounter)
	for lo < uint64(n) && c.at(int(lo)) == 0 {
		lo++
	}
	if lo == uint64(n) {
		return 0, 0, false
	}
	for hi = uint64(n) - 1; c.at(int(hi)) == 0; {
		hi--
	}
	return lo, hi, true
}
