package parquetfile

// Indexer numbers values in the order in which they first occur. It is not safe for
// concurrent use.
type Indexer struct {
	slots  []uint32 // 1 more than the number of the value, or 0
	values []uint64
	keys   []uint32
}

// indexerSlots is a power of 2, and twice as much as mostKeys.
const (
	mostKeys     = 1 << 15
	indexerSlots = 2 * mostKeys
)

// Keys returns the number of each value, and the values by number. Both are valid until the
// next call. It returns false if there are too many values for numbers to be useful.
func (x *Indexer) Keys(values []uint64) (keys []uint32, distinct []uint64, ok bool) {
	if x.slots == nil {
		x.slots = make([]uint32, indexerSlots)
	}
	clear(x.slots)
	x.keys, x.values = x.keys[:0], x.values[:0]
	limit := min(mostKeys, max(len(values)/4, 256))
	slots := x.slots
	for _, v := range values {
		h := v * 0x9E3779B97F4A7C15 >> 48 % indexerSlots
		for slots[h] != 0 && x.values[slots[h]-1] != v {
			h = (h + 1) % indexerSlots
		}
		if slots[h] == 0 {
			if len(x.values) == limit {
				return nil, nil, false
			}
			x.values = append(x.values, v)
			slots[h] = uint32(len(x.values))
		}
		x.keys = append(x.keys, slots[h]-1)
	}
	return x.keys, x.values, true
}
