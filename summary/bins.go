package summary

import "iter"

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

// page has the counters of neighboring bins, two for each bin. It has the size of a line of
// the cache. What exceeds 32 bits is in histograms.over.
type page [pageBins][2]uint32

// link is what is known of a page.
type link struct {
	next   uint32 // page of the same histogram with the next larger number; 0 for none
	number uint16 // bin / pageBins
}

// histograms has a histogram for each of many paths, with two counters in a bin. Pages of a
// path that follow each other in memory are the fastest.
type histograms struct {
	heads  []uint32 // by path: the page with the smallest number; 0 for none
	links  []link   // by page, from 1 on
	chunks [][]page
	over   map[slotID][2]uint64
}

// slotID is a page and the bin in it.
type slotID struct{ page, bin uint32 }

const chunkPages = 512

func (h *histograms) page(at uint32) *page { return &h.chunks[at/chunkPages][at%chunkPages] }

// grow makes room for n paths.
func (h *histograms) grow(n int) {
	for len(h.heads) < n {
		h.heads = append(h.heads, 0)
	}
}

// cursor adds to the bins of one histogram, fastest in ascending order.
type cursor struct {
	h      *histograms
	path   int
	at     uint32 // page; 0 before the first
	number uint16 // of it
	counts *page
}

// cursor returns a cursor before the first bin of a path.
func (h *histograms) cursor(path int) cursor { return cursor{h: h, path: path} }

// add adds to the counters of a bin, which must be at most maxBin.
func (c *cursor) add(bin uint32, first, second uint64) {
	if number := uint16(bin >> pageBits); c.at == 0 || c.number != number {
		c.seek(number)
	}
	n := &c.counts[bin%pageBins]
	first += uint64(n[0])
	second += uint64(n[1])
	n[0], n[1] = uint32(first), uint32(second)
	if (first|second)>>32 != 0 {
		c.h.carry(slotID{c.at, bin % pageBins}, first>>32, second>>32)
	}
}

// carry adds to the upper halves of counters.
func (h *histograms) carry(slot slotID, first, second uint64) {
	if h.over == nil {
		h.over = make(map[slotID][2]uint64)
	}
	n := h.over[slot]
	h.over[slot] = [2]uint64{addSaturating(n[0], first), addSaturating(n[1], second)}
}

// seek goes to a page, and adds it if there is none.
func (c *cursor) seek(number uint16) {
	h := c.h
	before, at := uint32(0), h.heads[c.path]
	if c.at != 0 && c.number < number {
		before, at = c.at, h.links[c.at].next
	}
	for at != 0 && h.links[at].number < number {
		before, at = at, h.links[at].next
	}
	if at == 0 || h.links[at].number != number {
		at = h.insert(number, at)
		if before == 0 {
			h.heads[c.path] = at
		} else {
			h.links[before].next = at
		}
	}
	c.at, c.number, c.counts = at, number, h.page(at)
}

// insert adds a page.
func (h *histograms) insert(number uint16, next uint32) uint32 {
	at := max(uint32(len(h.links)), 1)
	if len(h.links) == 0 {
		h.links = append(h.links, link{})
	}
	if int(at/chunkPages) >= len(h.chunks) {
		h.chunks = append(h.chunks, make([]page, chunkPages))
	}
	h.links = append(h.links, link{next, number})
	return at
}

// add adds to the counters of a bin of a path.
func (h *histograms) add(path int, bin uint32, first, second uint64) {
	c := h.cursor(path)
	c.add(bin, first, second)
}

// addAll adds a histogram of others to that of a path.
func (h *histograms) addAll(path int, o *histograms, from int) {
	if o.heads[from] == 0 {
		return
	}
	c := h.cursor(path)
	for bin, n := range o.all(from) {
		c.add(bin, n[0], n[1])
	}
}

// all yields the bins of a path that have counts, in ascending order.
func (h *histograms) all(path int) iter.Seq2[uint32, [2]uint64] {
	return func(yield func(uint32, [2]uint64) bool) {
		for at := h.heads[path]; at != 0; at = h.links[at].next {
			counts := h.page(at)
			for k, n := range counts {
				if n == [2]uint32{} && h.over == nil {
					continue
				}
				wide := [2]uint64{uint64(n[0]), uint64(n[1])}
				if over, ok := h.over[slotID{at, uint32(k)}]; ok {
					wide = [2]uint64{widened(over[0], n[0]), widened(over[1], n[1])}
				}
				if wide != [2]uint64{} && !yield(uint32(h.links[at].number)<<pageBits+uint32(k), wide) {
					return
				}
			}
		}
	}
}

// widened returns a counter of two parts.
func widened(upper uint64, lower uint32) uint64 {
	if upper > maxValue>>32 {
		return maxValue
	}
	return upper<<32 | uint64(lower)
}

// allBins yields the bins of a path that have counts, in ascending order.
func (g *Group) allBins(path int) iter.Seq2[uint32, Counts] {
	return func(yield func(uint32, Counts) bool) {
		if g.coarse.heads[path] == 0 {
			for bin, n := range g.bins.all(path) {
				if !yield(bin, Counts{Durations: n[0], Selves: n[1]}) {
					return
				}
			}
			return
		}
		type coarse struct {
			bin uint32
			n   uint64
		}
		var left []coarse
		for bin, n := range g.coarse.all(path) {
			left = append(left, coarse{bin, n[0]})
		}
		upTo := func(bin uint32) bool {
			for ; len(left) > 0 && left[0].bin < bin; left = left[1:] {
				if !yield(left[0].bin, Counts{Coarse: left[0].n}) {
					return false
				}
			}
			return true
		}
		for bin, n := range g.bins.all(path) {
			if !upTo(bin) {
				return
			}
			counts := Counts{Durations: n[0], Selves: n[1]}
			if len(left) > 0 && left[0].bin == bin {
				counts.Coarse, left = left[0].n, left[1:]
			}
			if !yield(bin, counts) {
				return
			}
		}
		upTo(maxBin + 1)
	}
}
