package summary

import (
	"fmt"
	"iter"
	"math/bits"
)

// Counts are the counts of a bin.
type Counts struct {
	Durations uint64 // calls that ended and lasted that long
	Selves    uint64 // calls that ended and had that self time
	// Coarse is the number of ended calls of which only the octave of the duration is known. They
	// are in the bin that represents it.
	Coarse uint64
}

func (c *Counts) add(o Counts) {
	c.Durations = addSaturating(c.Durations, o.Durations)
	c.Selves = addSaturating(c.Selves, o.Selves)
	c.Coarse = addSaturating(c.Coarse, o.Coarse)
}

// maxBin is the bin of the largest duration.
const maxBin = (64-8)<<7 + 255

// wordBins is the number of bins of a word.
const wordBins = 48

// word is a bitmap of wordBins bins in the lower bits, and the number of bins in earlier words in
// the upper bits. So finding the counters of a bin takes no search.
type word uint64

// at returns the index of a bin's counters in its histogram, and whether they exist. If not, it is
// the index at which to insert them.
func (w word) at(bit uint32) (place uint32, ok bool) {
	return uint32(w>>wordBins) + uint32(bits.OnesCount64(uint64(w)&(1<<bit-1))), w>>bit&1 != 0
}

// histograms has a histogram for each path, with two counters per bin. Cache misses dominate merges
// of many files, so a bin takes only 4 bytes and its share of a word.
type histograms struct {
	spans  []span      // by path
	words  []word      // of all paths
	counts [][2]uint16 // the lower 16 bits of counters
	wide   int         // words in use
	used   int         // counts in use, including the spare capacity of spans
	upper  map[binID][2]uint64
	later  [][]uint16 // by part: deferred additions
	put    bool       // whether a part has deferred additions
}

// span says where the bins of a path are, in ascending order.
type span struct {
	words, counts uint32 // where its words and its counts begin
	n, room       uint16 // of counts
	first, wide   uint8  // the number of its first word, and how many it has
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

// add adds to the counters of a bin of a path. The bin must be at most maxBin.
func (h *histograms) add(path int, bin uint32, first, second uint64) {
	s := h.spans[path]
	number := bin / wordBins
	if number-uint32(s.first) >= uint32(s.wide) {
		s = h.reach(path, uint8(number))
	}
	at, ok := h.words[s.words+number-uint32(s.first)].at(bin % wordBins)
	if !ok {
		s = h.insert(path, bin, at)
	}
	n := &h.counts[s.counts+at]
	x, y := uint64(n[0])+first, uint64(n[1])+second
	n[0], n[1] = uint16(x), uint16(y)
	if (x|y)>>16 != 0 {
		h.carry(binID{uint32(path), uint16(bin)}, x>>16, y>>16)
	}
}

// Adding to bins at random addresses misses the CPU cache. So addBins defers additions: it
// partitions them by path, and applies the additions of a partition together once there are enough.
const (
	partPaths = 1 << 10 // paths of a partition, whose bins fit into the second-level cache
	fullPart  = 1 << 16 // length of a partition of histograms.later at which it is applied
)

// addBins adds to the counters of bins of a path. It returns an error for invalid bins and negative
// counts.
func (h *histograms) addBins(path int, bins, first, second []int64) error {
	for path/partPaths >= len(h.later) {
		h.later = append(h.later, nil)
	}
	list := h.later[path/partPaths]
	list = append(list, uint16(path%partPaths), uint16(len(bins)))
	first, second = first[:len(bins)], second[:len(bins)]
	counts, wrong := int64(0), int64(0) // negative if a count is, or a bin is invalid
	for k, bin := range bins {
		list = append(list, uint16(bin), uint16(first[k]), uint16(second[k]))
		counts |= first[k] | second[k]
		wrong |= bin | (maxBin - bin)
	}
	switch {
	case counts < 0:
		return errNegative
	case wrong < 0:
		return fmt.Errorf("bins are numbered 0 to %d", maxBin)
	case counts>>16 != 0:
		for k, bin := range bins {
			if (first[k]|second[k])>>16 != 0 {
				h.carry(binID{uint32(path), uint16(bin)}, uint64(first[k])>>16, uint64(second[k])>>16)
			}
		}
	}
	if len(list) >= fullPart {
		list = h.addLater(path/partPaths, list)
	}
	h.later[path/partPaths], h.put = list, true
	return nil
}

// addLater applies the deferred additions of a partition, and returns the emptied list.
func (h *histograms) addLater(part int, list []uint16) []uint16 {
	for at := 0; at < len(list); {
		path, end := part*partPaths+int(list[at]), at+2+3*int(list[at+1])
		s := h.spans[path]
		words, counts := h.words[s.words:s.words+uint32(s.wide)], h.counts[s.counts:s.counts+uint32(s.n)]
		for b := list[at+2 : end]; len(b) >= 3; b = b[3:] {
			number := uint32(b[0])/wordBins - uint32(s.first)
			place, ok := uint32(0), false
			if int(number) < len(words) {
				place, ok = words[number].at(uint32(b[0]) % wordBins)
			}
			if ok && int(place) < len(counts) {
				n := &counts[place]
				x, y := uint32(n[0])+uint32(b[1]), uint32(n[1])+uint32(b[2])
				if n[0], n[1] = uint16(x), uint16(y); (x|y)>>16 != 0 {
					h.carry(binID{uint32(path), b[0]}, uint64(x>>16), uint64(y>>16))
				}
				continue
			}
			h.add(path, uint32(b[0]), uint64(b[1]), uint64(b[2]))
			s = h.spans[path]
			words, counts = h.words[s.words:s.words+uint32(s.wide)], h.counts[s.counts:s.counts+uint32(s.n)]
		}
		at = end
	}
	return list[:0]
}

// settle applies all deferred additions.
func (h *histograms) settle() {
	if !h.put {
		return
	}
	h.put = false
	for part, list := range h.later {
		h.addLater(part, list)
	}
	h.later = nil
}

// carry adds to the upper parts of counters, which overflowed 16 bits.
func (h *histograms) carry(id binID, first, second uint64) {
	if h.upper == nil {
		h.upper = make(map[binID][2]uint64)
	}
	n := h.upper[id]
	h.upper[id] = [2]uint64{addSaturating(n[0], first), addSaturating(n[1], second)}
}

// reach extends the bitmap of a path to include a word.
func (h *histograms) reach(path int, number uint8) span {
	if len(h.words) > 2*h.wide+1<<16 {
		h.compact()
	}
	s := &h.spans[path]
	old := h.words[s.words : s.words+uint32(s.wide)]
	first, last, after := number, number, word(s.n)<<wordBins
	if s.wide > 0 {
		first, last = min(s.first, number), max(s.first+s.wide-1, number)
	}
	from := uint32(len(h.words))
	for i := first; i < s.first && s.wide > 0; i++ {
		h.words = append(h.words, 0)
	}
	h.words = append(h.words, old...)
	for len(h.words)-int(from) <= int(last-first) {
		h.words = append(h.words, after)
	}
	h.wide += int(last-first+1) - int(s.wide)
	s.words, s.first, s.wide = from, first, last-first+1
	return *s
}

// insert adds a bin to a word that the path already has.
func (h *histograms) insert(path int, bin, at uint32) span {
	s := &h.spans[path]
	if s.n == s.room {
		h.widen(path)
	}
	s.n++
	counts := h.counts[s.counts : s.counts+uint32(s.n)]
	copy(counts[at+1:], counts[at:])
	counts[at] = [2]uint16{}
	own := bin/wordBins - uint32(s.first)
	words := h.words[s.words+own : s.words+uint32(s.wide)]
	words[0] |= 1 << (bin % wordBins)
	for i := range words[1:] {
		words[1+i] += 1 << wordBins
	}
	return *s
}

// widen grows the capacity for the counts of a path.
func (h *histograms) widen(path int) {
	if len(h.counts) > 2*h.used+1<<16 {
		h.compact()
	}
	s := &h.spans[path]
	more := max(s.room/2, 3)
	from := uint32(len(h.counts))
	if s.counts+uint32(s.room) == from { // the last one
		from = s.counts
	} else {
		h.counts = append(h.counts, h.counts[s.counts:s.counts+uint32(s.n)]...)
		more += s.room - s.n
	}
	h.counts = append(h.counts, make([][2]uint16, more)...)
	h.used += len(h.counts) - int(from) - int(s.room)
	s.counts, s.room = from, uint16(len(h.counts)-int(from))
}

// compact removes unused capacity, and orders bins by path.
func (h *histograms) compact() {
	to := histograms{words: make([]word, 0, h.wide+h.wide/4), counts: make([][2]uint16, 0, h.used+h.used/4)}
	for i := range h.spans {
		s := &h.spans[i]
		from := *s
		s.words, s.counts = uint32(len(to.words)), uint32(len(to.counts))
		to.words = append(to.words, h.words[from.words:from.words+uint32(from.wide)]...)
		to.counts = append(to.counts, h.counts[from.counts:from.counts+uint32(from.room)]...)
	}
	h.words, h.counts = to.words, to.counts
}

// addAll adds a histogram of others to that of a path.
func (h *histograms) addAll(path int, o *histograms, from int) {
	for bin, n := range o.all(from) {
		h.add(path, bin, n[0], n[1])
	}
}

// all yields the bins of a path, in ascending order.
func (h *histograms) all(path int) iter.Seq2[uint32, [2]uint64] {
	return func(yield func(uint32, [2]uint64) bool) {
		h.settle()
		s := h.spans[path]
		k := s.counts
		for i, w := range h.words[s.words : s.words+uint32(s.wide)] {
			first := (uint32(s.first) + uint32(i)) * wordBins
			for left := uint64(w) << (64 - wordBins) >> (64 - wordBins); left != 0; left &= left - 1 {
				bin := first + uint32(bits.TrailingZeros64(left))
				n := h.counts[k]
				k++
				wide := [2]uint64{uint64(n[0]), uint64(n[1])}
				if h.upper != nil {
					u := h.upper[binID{uint32(path), uint16(bin)}]
					wide = [2]uint64{widened(u[0], n[0]), widened(u[1], n[1])}
				}
				if wide != [2]uint64{} && !yield(bin, wide) {
					return
				}
			}
		}
	}
}

// widened joins the two parts of a counter.
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
