package quantile

import "math"

// Set is a set of samples that receive values in turn. Each sample also sums a weight per
// value. It behaves like a slice of [Sample], but its layout is faster: an addition touches
// 16 bytes of a sample and the end of its buffer. The zero value is empty. Do not copy a
// Set. It is not safe for concurrent use.
type Set struct {
	// Exact applies [Sample.Exact] to all samples. Set it before the first Grow.
	Exact bool

	heads []head
	rest  []rest // same index as heads
	// room holds the buffers of all samples.
	room []uint32
	// free lists the unused buffers by rest.size. Their samples have moved to larger ones.
	free [len(buffers)][]uint32
}

// head is the part of a sample that every Add touches.
type head struct {
	weight  uint64 // sum of the weights of the values in the buffer
	at, end uint32 // the next value goes to Set.room[at]; at < end
}

// rest is the part of a sample that receives the values of a full buffer.
type rest struct {
	counted *counted // nil while all values are in the buffer
	weight  Sum
	size    uint8 // index in buffers
}

// buffers are the sizes of a buffer in values. The last one is not a power of two.
// Otherwise the ends of buffers that fill up together would map to the same cache set.
var buffers = [...]uint32{4, 16, 48, 144}

// maxRoom limits the space for buffers of the largest size to 8 MB. Samples that grow later
// keep smaller buffers.
const maxRoom = 2 << 20

// Len returns the number of samples.
func (s *Set) Len() int { return len(s.heads) }

// Grow adds an empty sample and returns its index.
func (s *Set) Grow() int {
	start := s.buffer(0)
	s.heads = append(s.heads, head{at: start, end: start + buffers[0]})
	s.rest = append(s.rest, rest{})
	return len(s.heads) - 1
}

// Add adds value v to sample i, and weight to its sum. If it returns true, the caller must
// call Settle with the same arguments. Settle is separate so that Add can be inlined.
func (s *Set) Add(i int, v, weight uint64) bool {
	h := &s.heads[i]
	h.weight += weight
	s.room[h.at] = uint32(v)
	h.at++
	return h.at == h.end || (v|weight)>>32 != 0
}

// Settle completes the addition of v, whose lower half is in the buffer.
func (s *Set) Settle(i int, v, weight uint64) {
	h, r := &s.heads[i], &s.rest[i]
	// The sum in the head cannot overflow from short weights.
	h.weight -= weight
	r.weight.Add(h.weight)
	r.weight.Add(weight)
	h.weight = 0
	if v>>32 != 0 {
		h.at--
		s.count(i)
		r.counted.addLong(v)
		return
	}
	if h.at < h.end {
		return
	}
	if next := int(r.size) + 1; next < len(buffers) && (next < len(buffers)-1 || len(s.room) < maxRoom) && len(s.room) < math.MaxInt32 {
		s.enlarge(i)
		return
	}
	s.count(i)
}

// enlarge moves a sample to the next larger buffer.
func (s *Set) enlarge(i int) {
	h, r := &s.heads[i], &s.rest[i]
	start := h.end - buffers[r.size]
	to := s.buffer(r.size + 1)
	n := uint32(copy(s.room[to:to+buffers[r.size+1]], s.room[start:h.at]))
	s.free[r.size] = append(s.free[r.size], start)
	r.size++
	h.at, h.end = to+n, to+buffers[r.size]
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

// count counts the values in the buffer of a sample, and empties the buffer.
func (s *Set) count(i int) {
	h, r := &s.heads[i], &s.rest[i]
	if r.counted == nil {
		r.counted = &counted{exact: s.Exact}
	}
	start := h.end - buffers[r.size]
	if start < h.at {
		r.counted.addAll(s.room[start:h.at])
	}
	h.at = start
}

// AddWeight adds to the sum of sample i.
func (s *Set) AddWeight(i int, weight uint64) { s.rest[i].weight.Add(weight) }

// Weight returns the sum of the weights of sample i.
func (s *Set) Weight(i int) Sum {
	sum := s.rest[i].weight
	sum.Add(s.heads[i].weight)
	return sum
}

// Sample returns sample i for queries. It is valid until the set changes.
func (s *Set) Sample(i int) *Sample {
	h, r := &s.heads[i], &s.rest[i]
	if r.counted != nil {
		s.count(i)
	}
	start := h.end - buffers[r.size]
	return &Sample{Exact: s.Exact, counted: r.counted, pending: s.room[start:h.at:h.at]}
}

// Binned returns sample i for [Sample.AddOctaves] and [Sample.AddBins] alone. It is valid
// until the set changes.
func (s *Set) Binned(i int) *Sample {
	s.count(i)
	return &Sample{Exact: s.Exact, counted: s.rest[i].counted}
}

// Merge adds sample j of other to sample i. Do not use sample j afterwards.
func (s *Set) Merge(i int, other *Set, j int) {
	s.rest[i].weight.AddSum(other.Weight(j))
	o := other.Sample(j)
	for _, v := range o.pending {
		if s.Add(i, uint64(v), 0) {
			s.Settle(i, uint64(v), 0)
		}
	}
	if o.counted != nil {
		s.count(i)
		s.rest[i].counted.merge(o.counted)
	}
	other.rest[j] = rest{size: other.rest[j].size} // release the memory of j early
}
