package parquetfile

import "slices"

// Indexer numbers values in the order in which they first occur. It is not safe for
// concurrent use.
type Indexer struct {
	slots  []uint32 // 1 more than the number of the value, or 0; more than half of them are free
	values []uint64
	keys   []uint32
}

const (
	mostKeys   = 1 << 15
	leastSlots = 1 << 10
)

// Reset forgets all values.
func (x *Indexer) Reset() {
	clear(x.slots)
	x.values = x.values[:0]
}

// Add returns the number of a value.
func (x *Indexer) Add(v uint64) uint32 {
	h := x.find(v)
	if len(x.slots) == 0 || x.slots[h] == 0 {
		h = x.insert(h, v)
	}
	return x.slots[h] - 1
}

// Values returns the values by number. They are valid until the next Add or Reset.
func (x *Indexer) Values() []uint64 { return x.values }

// home returns the slot at which a value is looked for first.
func (x *Indexer) home(v uint64) uint64 {
	return v * 0x9E3779B97F4A7C15 >> 32 & uint64(len(x.slots)-1)
}

// find returns the slot of a value, or a free one for it.
func (x *Indexer) find(v uint64) int {
	last := uint64(len(x.slots) - 1)
	h := x.home(v)
	for h < uint64(len(x.slots)) && x.slots[h] != 0 && x.values[x.slots[h]-1] != v {
		h = (h + 1) & last
	}
	return int(h)
}

// insert numbers a new value, of which find has returned the slot, and returns its slot.
func (x *Indexer) insert(h int, v uint64) int {
	x.values = append(x.values, v)
	if 2*len(x.values) >= len(x.slots) {
		// A small table stays in the cache.
		x.slots = make([]uint32, max(leastSlots, 2*len(x.slots)))
		for i, known := range x.values {
			h = x.find(known)
			x.slots[h] = uint32(i + 1)
		}
		return h
	}
	x.slots[h] = uint32(len(x.values))
	return h
}

// Keys returns the number of each value, and the values by number. Both are valid until the
// next call. It returns false if there are too many values for numbers to be useful.
func (x *Indexer) Keys(values []uint64) (keys []uint32, distinct []uint64, ok bool) {
	x.Reset()
	x.keys = slices.Grow(x.keys[:0], len(values))[:len(values)]
	limit := min(mostKeys, max(len(values)/4, 256))
	for i, v := range values {
		// The slots of most values are the first ones.
		if h := x.home(v); h < uint64(len(x.slots)) {
			if at := x.slots[h] - 1; uint64(at) < uint64(len(x.values)) && x.values[at] == v {
				x.keys[i] = at
				continue
			}
		}
		if x.keys[i] = x.Add(v); int(x.keys[i]) == limit {
			return nil, nil, false
		}
	}
	return x.keys, x.values, true
}
