package summary

import (
	"iter"
	"slices"
)

// Counts are the counts of a bin.
type Counts struct {
	Durations uint64 // calls that ended and lasted that long
	Selves    uint64 // calls that ended and had that self time
	// Coarse is the number of calls that ended of which only the octave is known. They are
	// in the bin that represents it.
	Coarse uint64
}

func (c *Counts) add(o Counts) {
	c.Durations = addSaturating(c.Durations, o.Durations)
	c.Selves = addSaturating(c.Selves, o.Selves)
	c.Coarse = addSaturating(c.Coarse, o.Coarse)
}

const (
	pageBits = 3
	pageBins = 1 << pageBits
	// maxBin is the bin of the largest duration.
	maxBin = (64-8)<<7 + 255
)

// histogram is a histogram of a path. Its counters are in pages of neighboring bins, in
// ascending order.
type histogram struct {
	numbers []uint16 // bin / pageBins
	at      []uint32 // index of the page in the slab
}

// page has the counters of neighboring bins.
type page [pageBins]Counts

// slab has the pages of all histograms of a group.
type slab struct {
	chunks [][]page
	used   uint32
}

const slabChunk = 512

func (s *slab) page(at uint32) *page { return &s.chunks[at/slabChunk][at%slabChunk] }

func (s *slab) grow() uint32 {
	if s.used%slabChunk == 0 {
		s.chunks = append(s.chunks, make([]page, slabChunk))
	}
	s.used++
	return s.used - 1
}

// cursor adds to the bins of one histogram, fastest in ascending order.
type cursor struct {
	slab *slab
	h    *histogram
	at   int // position in h.numbers
}

// bin returns the counters of a bin, which must be at most maxBin. It is valid until the
// histogram changes.
func (c *cursor) bin(bin uint32) *Counts {
	number := uint16(bin >> pageBits)
	h := c.h
	if c.at >= len(h.numbers) || h.numbers[c.at] != number {
		c.seek(number)
	}
	return &c.slab.page(h.at[c.at])[bin%pageBins]
}

func (c *cursor) seek(number uint16) {
	h := c.h
	if c.at < len(h.numbers) && h.numbers[c.at] < number {
		for c.at++; c.at < len(h.numbers) && h.numbers[c.at] < number; c.at++ {
		}
		if c.at < len(h.numbers) && h.numbers[c.at] == number {
			return
		}
	} else {
		var found bool
		if c.at, found = slices.BinarySearch(h.numbers, number); found {
			return
		}
	}
	h.numbers = slices.Insert(h.numbers, c.at, number)
	h.at = slices.Insert(h.at, c.at, c.slab.grow())
}

// add adds the counts of a bin.
func (s *slab) add(h *histogram, bin uint32, n Counts) {
	c := cursor{slab: s, h: h}
	c.bin(bin).add(n)
}

// all yields the bins that have counts, in ascending order.
func (s *slab) all(h *histogram) iter.Seq2[uint32, Counts] {
	return func(yield func(uint32, Counts) bool) {
		for i, number := range h.numbers {
			for k, n := range s.page(h.at[i]) {
				if n != (Counts{}) && !yield(uint32(number)<<pageBits+uint32(k), n) {
					return
				}
			}
		}
	}
}
