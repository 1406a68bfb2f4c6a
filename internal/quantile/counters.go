package quantile

// counters counts values below OwnCounter, each for itself.
type counters struct {
	// low is as long as the largest value needs, in powers of two.
	low []uint16
	// high counts how often low wrapped around; nil until one has.
	high []uint32
	// sums caches what all counters add up to; nil when they have changed.
	sums *ownSums
}

// ownSums is what is known of all values that have counters of their own. Their
// sum stays below 2^64 for any file: so many calls take 2^56 bytes.
type ownSums struct{ count, sum, min, max uint64 }

// firstCounters is the length that counters begin with.
const firstCounters = 256

// addAll counts the values that have counters of their own, moves the others to
// the front of values, and returns these.
func (c *counters) addAll(values []uint32) []uint32 {
	c.sums = nil
	low := c.low
	n := 0
	for _, v := range values {
		if uint(v) < uint(len(low)) {
			if low[v]++; low[v] == 0 {
				c.carry(v)
			}
			continue
		}
		if v >= OwnCounter {
			values[n] = v
			n++
			continue
		}
		c.grow(v)
		low = c.low
		low[v]++
	}
	return values[:n]
}

func (c *counters) grow(v uint32) {
	n := max(firstCounters, len(c.low))
	for n <= int(v) {
		n *= 2
	}
	low := make([]uint16, n)
	copy(low, c.low)
	c.low = low
}

// carry notes that a counter has wrapped around.
//
//go:noinline
func (c *counters) carry(v uint32) {
	if c.high == nil {
		c.high = make([]uint32, OwnCounter)
	}
	c.high[v]++
}

func (c *counters) count(v int) uint64 {
	n := uint64(c.low[v])
	if c.high != nil {
		n += uint64(c.high[v]) << 16
	}
	return n
}

// each calls f with the values that occurred, in ascending order, and their counts.
func (c *counters) each(f func(v, n uint64)) {
	for v := range c.low {
		if n := c.count(v); n != 0 {
			f(uint64(v), n)
		}
	}
}

func (c *counters) merge(o *counters) {
	o.each(func(v, n uint64) {
		if v >= uint64(len(c.low)) {
			c.grow(uint32(v))
		}
		n += uint64(c.low[v])
		c.low[v] = uint16(n)
		if n >>= 16; n > 0 {
			c.carry(uint32(v))
			c.high[v] += uint32(n) - 1
		}
	})
	c.sums = nil
}

func (c *counters) total() ownSums {
	if c.sums == nil {
		c.sums = &ownSums{}
		c.each(func(v, n uint64) {
			if c.sums.count == 0 {
				c.sums.min = v
			}
			c.sums.max = v
			c.sums.count += n
			c.sums.sum += n * v
		})
	}
	return *c.sums
}
