package why

import "github.com/xray-tools/xray/reader"

// seenKey is a function, and the cause to which the threads that had it open lost time.
type seenKey uint64

// keyOfSeen returns the key of a function. cause is the number of the cause to which its
// threads lost time, from 1, or 0 for none.
func keyOfSeen(fn reader.FuncID, cause int) seenKey {
	return seenKey(uint32(fn)) | seenKey(cause)<<32
}

func (k seenKey) fn() reader.FuncID { return reader.FuncID(uint32(k)) }

func (k seenKey) cause() int { return int(k &^ seenMarks >> 32) }

const (
	seenUsed  seenKey = 1 << 63 // not an empty slot
	seenEnds  seenKey = 1 << 62 // ends within a tenth of the gap's end
	seenSharp seenKey = 1 << 61 // within a hundredth
	seenMarks         = seenUsed | seenEnds | seenSharp
)

// seen is the time that a function was open in a gap.
type seen struct {
	key   seenKey // with marks
	ticks uint64
}

// seenInGap lists the functions open in a gap, as a hash table with linear probing. All gaps
// together have millions of entries, but calls near each other are in few gaps, whose tables
// stay in the cache.
type seenInGap struct {
	slots  []seen
	depths []uint64 // ticks times depth, by slot; nil if they are not wanted
	used   int
}

// add adds time to a key with marks.
func (s *seenInGap) add(key seenKey, ticks, depth uint64, depths bool) {
	if 4*s.used >= 3*len(s.slots) {
		s.grow(depths)
	}
	i := s.slot(key)
	slot := &s.slots[i]
	if slot.key == 0 {
		s.used++
	}
	slot.key |= key | seenUsed
	slot.ticks += ticks
	if s.depths != nil {
		s.depths[i] += depth
	}
}

// slot returns where a key is or belongs.
func (s *seenInGap) slot(key seenKey) int {
	mask := len(s.slots) - 1
	i := int(uint64(key&^seenMarks) * 0x9e3779b97f4a7c15 >> 40)
	for ; ; i++ {
		if k := s.slots[i&mask].key; k == 0 || (k^key)&^seenMarks == 0 {
			return i & mask
		}
	}
}

func (s *seenInGap) grow(depths bool) {
	old := *s
	s.slots = make([]seen, max(8, 2*len(old.slots)))
	if depths {
		s.depths = make([]uint64, len(s.slots))
	}
	for i := range old.slots {
		if old.slots[i].key != 0 {
			to := s.slot(old.slots[i].key)
			s.slots[to] = old.slots[i]
			if depths {
				s.depths[to] = old.depths[i]
			}
		}
	}
}

// merge adds what another goroutine saw.
func (s *seenInGap) merge(other *seenInGap, depths bool) {
	for i := range other.slots {
		if o := &other.slots[i]; o.key != 0 {
			s.add(o.key, o.ticks, other.depth(i), depths)
		}
	}
}

func (s *seenInGap) depth(i int) uint64 {
	if s.depths == nil {
		return 0
	}
	return s.depths[i]
}

// without returns the table with one entry for each function, whatever cause its threads
// lost time to. It omits threads that lost time to a cause that waits selects.
func (s *seenInGap) without(waits func(cause int) bool) *seenInGap {
	same := true
	for i := range s.slots {
		same = same && s.slots[i].key.cause() == 0
	}
	if same {
		return s
	}
	merged := new(seenInGap)
	for i := range s.slots {
		o := &s.slots[i]
		if cause := o.key.cause(); o.key != 0 && (cause == 0 || !waits(cause-1)) {
			merged.add(keyOfSeen(o.key.fn(), 0)|o.key&seenMarks, o.ticks, s.depth(i), s.depths != nil)
		}
	}
	return merged
}
