package quantile

import (
	"math"
	"slices"
	"unsafe"

	"github.com/xray-tools/xray/internal/parallel"
)

// Set is a set of samples that receive values in turn. Each sample also sums a weight per
// value. It behaves like a slice of [Sample], but its layout is faster: an addition touches
// one cache line. The zero value is empty. Do not copy a Set. It is not safe for concurrent
// use.
type Set struct {
	// Exact applies [Sample.Exact] to all samples. Set it before the first Grow.
	Exact bool

	cells []cell
	rest  []rest // same index as cells
	// room holds the buffers of all samples.
	room []uint32
	// free lists the unused buffers by rest.size. Their samples have moved to larger ones.
	free [len(buffers)][]uint32
	// counted is the size of the counted parts of all samples in bytes.
	counted int64
}

// Memory returns the approximate size of the set in bytes.
func (s *Set) Memory() int64 {
	const perSample = int64(unsafe.Sizeof(cell{}) + unsafe.Sizeof(rest{}))
	return s.counted + perSample*int64(len(s.cells)) + 4*int64(len(s.room))
}

// cell is the part of a sample that every Add touches. It fills a cache line, so the reads of an
// addition also load the line that it writes. The processor does not wait for writes.
type cell struct {
	weight uint64 // sum of the weights of the values in the cell
	n      uint32 // values in use
	values [cellValues]uint32
}

const cellValues = 13

// rest is the part of a sample that receives the values of a full cell.
type rest struct {
	counted *counted // nil while all values are in the cell and the buffer
	weight  Sum
	at, end uint32 // the next value goes to Set.room[at]; both are 0 if there is no buffer
	size    uint8  // index in buffers
}

// buffers are the sizes of a buffer in values: several cells. A new sample has none.
var buffers = [...]uint32{0, 3 * cellValues, 11 * cellValues}

// maxRoom limits the space for buffers of the largest size to 8 MB. Samples that grow later
// keep smaller buffers.
const maxRoom = 2 << 20

// Len returns the number of samples.
func (s *Set) Len() int { return len(s.cells) }

// Grow adds an empty sample and returns its index.
func (s *Set) Grow() int {
	s.cells = append(s.cells, cell{})
	s.rest = append(s.rest, rest{})
	return len(s.cells) - 1
}

// Add adds value v to sample i, and weight to its sum. If it returns false, nothing has been
// added, and the caller must call AddSlowly with the same arguments. That is separate so that Add
// can be inlined.
func (s *Set) Add(i int, v, weight uint64) bool {
	c := &s.cells[i]
	if c.n >= cellValues || (v|weight)>>32 != 0 {
		return false
	}
	c.weight += weight
	c.values[c.n] = uint32(v)
	c.n++
	return true
}

// AddSlowly does the same as Add, but always succeeds.
func (s *Set) AddSlowly(i int, v, weight uint64) {
	c, r := &s.cells[i], &s.rest[i]
	// The weights in the cell are below 2^32, so their sum cannot overflow.
	r.weight.Add(c.weight)
	c.weight = 0
	r.weight.Add(weight)
	if v>>32 != 0 {
		s.count(i)
		r.counted.addLong(v)
		return
	}
	if c.n >= cellValues {
		s.empty(i)
	}
	c.values[c.n] = uint32(v)
	c.n++
}

// empty moves the values of a cell to the buffer of the sample.
func (s *Set) empty(i int) {
	c, r := &s.cells[i], &s.rest[i]
	if r.end-r.at < cellValues && !s.enlarge(i) {
		s.count(i)
		return
	}
	*(*[cellValues]uint32)(s.room[r.at:]) = c.values // copying all of them is faster
	r.at += c.n
	c.n = 0
}

// enlarge moves a sample to the next larger buffer. It reports whether there is room for one.
func (s *Set) enlarge(i int) bool {
	r := &s.rest[i]
	next := int(r.size) + 1
	if next == len(buffers) || next == len(buffers)-1 && len(s.room) >= maxRoom || len(s.room) >= math.MaxInt32 {
		return false
	}
	start := r.end - buffers[r.size]
	to := s.buffer(uint8(next))
	n := uint32(copy(s.room[to:to+buffers[next]], s.room[start:r.at]))
	if r.size > 0 {
		s.free[r.size] = append(s.free[r.size], start)
	}
	r.size++
	r.at, r.end = to+n, to+buffers[next]
	return true
}

// buffer allocates a buffer and returns its position in room.
func (s *Set) buffer(size uint8) uint32 {
	if n := len(s.free[size]); n > 0 {
		start := s.free[size][n-1]
		s.free[size] = s.free[size][:n-1]
		return start
	}
	start := uint32(len(s.room))
	s.room = append(s.room, make([]uint32, buffers[size])...)
	return start
}

// count counts the values in the buffer and in the cell of a sample, and empties both.
func (s *Set) count(i int) {
	c, r := &s.cells[i], &s.rest[i]
	if r.counted == nil {
		r.counted = newCounted(s.Exact, &s.counted)
	}
	if start := r.end - buffers[r.size]; start < r.at {
		r.counted.addAll(s.room[start:r.at])
		r.at = start
	}
	if c.n > 0 {
		r.counted.addAll(c.values[:c.n])
		c.n = 0
	}
}

// AddWeight adds to the sum of sample i.
func (s *Set) AddWeight(i int, weight uint64) { s.rest[i].weight.Add(weight) }

// Weight returns the sum of the weights of sample i.
func (s *Set) Weight(i int) Sum {
	sum := s.rest[i].weight
	sum.Add(s.cells[i].weight)
	return sum
}

// Sample returns sample i for queries. It is valid until the set changes.
func (s *Set) Sample(i int) *Sample {
	c, r := &s.cells[i], &s.rest[i]
	if r.counted == nil && r.size == 0 {
		return &Sample{Exact: s.Exact, pending: c.values[:c.n:c.n]}
	}
	buffer := s.room[r.end-buffers[r.size] : r.at]
	if r.counted == nil {
		return &Sample{Exact: s.Exact, pending: slices.Concat(buffer, c.values[:c.n])}
	}
	s.count(i)
	return &Sample{Exact: s.Exact, counted: r.counted}
}

// atOnce is how many samples a processor handles at a time. Samples differ much in size.
const atOnce = 32

// Each calls f with all samples, on all processors, and so concurrently and in any order. A sample
// is valid until the set changes.
func (s *Set) Each(f func(i int, sample *Sample)) {
	parallel.Ranges(s.Len(), atOnce, func(from, to int) {
		for i := from; i < to; i++ {
			f(i, s.Sample(i))
		}
	})
}

// Binned returns sample i for [Sample.AddOctaves] and [Sample.AddBins] alone. It is valid
// until the set changes.
func (s *Set) Binned(i int) *Sample {
	s.count(i)
	return &Sample{Exact: s.Exact, counted: s.rest[i].counted}
}

// Merge adds sample i of other to sample to[i], which must all be different. Do not use other
// afterwards.
func (s *Set) Merge(other *Set, to []int) {
	// Samples share the buffers, so values that are not counted move one after the other.
	for i, at := range to {
		s.rest[at].weight.AddSum(other.Weight(i))
		if other.rest[i].counted != nil {
			continue
		}
		for _, v := range other.Sample(i).pending {
			if !s.Add(at, uint64(v), 0) {
				s.AddSlowly(at, uint64(v), 0)
			}
		}
	}
	parallel.Ranges(len(to), atOnce, func(from, end int) {
		for i := from; i < end; i++ {
			if r := &other.rest[i]; r.counted != nil {
				other.count(i)
				s.count(to[i])
				s.rest[to[i]].counted.merge(r.counted)
				r.counted = nil // release its memory early
			}
		}
	})
}
