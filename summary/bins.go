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

// maxBin is the bin of the largest duration.
const maxBin = (64-8)<<7 + 255

// histograms has a histogram for each of many paths, with two counters in a bin. Merging
// many files is as fast as their bins are close together in memory, so a bin takes 6 bytes.
type histograms struct {
	spans  []span      // by path
	bins   []uint16    // of all paths
	counts [][2]uint16 // of the bins: the lower parts of counters
	used   int         // bins in use, with the room that spans have
	upper  map[binID][2]uint64
}

// span says where the bins of a path are, in ascending order.
type span struct {
	from    uint32
	n, room uint16
}

// binID identifies a bin of a path.
type binID struct {
	path uint32
	bin  uint16
}

// size is the number of bins.
func (h *histograms) size() int { return h.used }

// grow makes room for n paths.
func (h *histograms) grow(n int) {
	for len(h.spans) < n {
		h.spans = append(h.spans, span{})
	}
}

// cursor adds to the bins of one histogram, fastest in ascending order. Only one cursor may
// be in use.
type cursor struct {
	h    *histograms
	path int
	at   int // of the last bin
}

// cursor returns a cursor before the first bin of a path.
func (h *histograms) cursor(path int) cursor { return cursor{h: h, path: path} }

// add adds to the counters of a bin, which must be at most maxBin.
func (c *cursor) add(bin uint32, first, second uint64) {
	s := c.h.spans[c.path]
	bins := c.h.bins[s.from : s.from+uint32(s.n)]
	if c.at >= len(bins) || bins[c.at] > uint16(bin) {
		c.at = 0
	}
	c.at = seek(bins, c.at, uint16(bin))
	if c.at == len(bins) || bins[c.at] != uint16(bin) {
		s = c.h.insert(c.path, c.at, uint16(bin))
	}
	n := &c.h.counts[s.from+uint32(c.at)]
	first += uint64(n[0])
	second += uint64(n[1])
	n[0], n[1] = uint16(first), uint16(second)
	if (first|second)>>16 != 0 {
		c.h.carry(binID{uint32(c.path), uint16(bin)}, first>>16, second>>16)
	}
}

// addBins adds to the counters of bins of a path, which are in ascending order.
func (h *histograms) addBins(path int, bins, first, second []int64) {
	s := h.spans[path]
	known, counts := h.bins[s.from:s.from+uint32(s.n)], h.counts[s.from:s.from+uint32(s.n)]
	at := 0
	for k, b := range bins {
		bin := uint16(b)
		if at < len(known) && known[at] < bin {
			at = seek(known, at+1, bin)
		} else if at == len(known) || known[at] != bin {
			at = seek(known, 0, bin)
		}
		if at == len(known) || known[at] != bin {
			s = h.insert(path, at, bin)
			known, counts = h.bins[s.from:s.from+uint32(s.n)], h.counts[s.from:s.from+uint32(s.n)]
		}
		n := &counts[at]
		x, y := uint64(n[0])+uint64(first[k]), uint64(n[1])+uint64(second[k])
		n[0], n[1] = uint16(x), uint16(y)
		if (x|y)>>16 != 0 {
			h.carry(binID{uint32(path), bin}, x>>16, y>>16)
		}
	}
}

// seek returns the position of the first bin from a position on that is not less than bin.
func seek(bins []uint16, at int, bin uint16) int {
	for near := min(at+16, len(bins)); at < near; at++ {
		if bins[at] >= bin {
			return at
		}
	}
	for step := 16; at < len(bins); step *= 2 {
		if end := min(at+step, len(bins)); bins[end-1] >= bin {
			n, _ := slices.BinarySearch(bins[at:end], bin)
			return at + n
		}
		at += step
	}
	return len(bins)
}

// carry adds to the upper parts of counters.
func (h *histograms) carry(id binID, first, second uint64) {
	if h.upper == nil {
		h.upper = make(map[binID][2]uint64)
	}
	n := h.upper[id]
	h.upper[id] = [2]uint64{addSaturating(n[0], first), addSaturating(n[1], second)}
}

// insert inserts a bin at a position.
func (h *histograms) insert(path, at int, bin uint16) span {
	s := &h.spans[path]
	if s.n == s.room {
		h.widen(s)
	}
	s.n++
	bins, counts := h.bins[s.from:s.from+uint32(s.n)], h.counts[s.from:s.from+uint32(s.n)]
	copy(bins[at+1:], bins[at:])
	copy(counts[at+1:], counts[at:])
	bins[at], counts[at] = bin, [2]uint16{}
	return *s
}

// widen makes more room for a path.
func (h *histograms) widen(s *span) {
	more := max(s.room/2, 3)
	if len(h.bins) > 2*h.used+1<<16 {
		h.compact()
	}
	from := uint32(len(h.bins))
	if s.from+uint32(s.room) == from { // the last one
		from = s.from
	} else {
		h.bins = append(h.bins, h.bins[s.from:s.from+uint32(s.n)]...)
		h.counts = append(h.counts, h.counts[s.from:s.from+uint32(s.n)]...)
		more += s.room - s.n
	}
	h.bins = append(h.bins, make([]uint16, more)...)
	h.counts = append(h.counts, make([][2]uint16, more)...)
	h.used += len(h.bins) - int(from) - int(s.room)
	s.from, s.room = from, uint16(len(h.bins)-int(from))
}

// compact moves all bins together, in the order of their paths.
func (h *histograms) compact() {
	bins, counts := make([]uint16, 0, h.used+h.used/4), make([][2]uint16, 0, h.used+h.used/4)
	for i := range h.spans {
		s := &h.spans[i]
		from := uint32(len(bins))
		bins = append(bins, h.bins[s.from:s.from+uint32(s.room)]...)
		counts = append(counts, h.counts[s.from:s.from+uint32(s.room)]...)
		s.from = from
	}
	h.bins, h.counts = bins, counts
}

// add adds to the counters of a bin of a path.
func (h *histograms) add(path int, bin uint32, first, second uint64) {
	c := h.cursor(path)
	c.add(bin, first, second)
}

// addAll adds a histogram of others to that of a path.
func (h *histograms) addAll(path int, o *histograms, from int) {
	if o.spans[from].n == 0 {
		return
	}
	c := h.cursor(path)
	for bin, n := range o.all(from) {
		c.add(bin, n[0], n[1])
	}
}

// all yields the bins of a path, in ascending order.
func (h *histograms) all(path int) iter.Seq2[uint32, [2]uint64] {
	return func(yield func(uint32, [2]uint64) bool) {
		s := h.spans[path]
		for k, bin := range h.bins[s.from : s.from+uint32(s.n)] {
			n := h.counts[s.from+uint32(k)]
			wide := [2]uint64{uint64(n[0]), uint64(n[1])}
			if h.upper != nil {
				u := h.upper[binID{uint32(path), bin}]
				wide = [2]uint64{widened(u[0], n[0]), widened(u[1], n[1])}
			}
			if wide != [2]uint64{} && !yield(uint32(bin), wide) {
				return
			}
		}
	}
}

// widened returns a counter of two parts.
func widened(upper uint64, lower uint16) uint64 {
	if upper > maxValue>>16 {
		return maxValue
	}
	return upper<<16 | uint64(lower)
}

// allBins yields the bins of a path that have counts, in ascending order.
func (g *Group) allBins(path int) iter.Seq2[uint32, Counts] {
	return func(yield func(uint32, Counts) bool) {
		if g.coarse.spans[path].n == 0 {
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
