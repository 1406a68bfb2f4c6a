package quantile

import "math/bits"

const (
	// subBits is the logarithm of the number of bins in an octave.
	subBits = 7
	subBins = 1 << subBits

	// firstShared is the smallest value that has no bin of its own.
	firstShared = 2 * subBins

	// RelativeError bounds the error of an approximate quantile: a bin is at
	// most 1/128 of its values wide, and its middle stands for all of them.
	RelativeError = 1.0 / (2 * subBins)
)

// bins is a log-linear histogram: every value below 256 has a bin of its own,
// and from there on every octave is divided evenly into 128 bins. Bins are
// numbered so that number/128 is the octave, and they ascend with their values:
//
//	values               bin
//	0 .. 255             value
//	256 .. 511           1*128 + value>>1
//	2^(7+k) .. 2^(8+k)-1 k*128 + value>>k
//
// Only octaves that occur take room: the durations of a function span few, and
// an outlier far away should not cost those in between.
//
// A count is split into its low 8 bits and the rest, because the memory that
// thousands of histograms touch in turn decides the speed: 128 bytes hold the
// busy part of a whole octave, and one value in 256 carries into the rest.
type bins struct {
	// group maps an octave to 1 + the position of its counts, in units of
	// subBins; 0 means that the octave has none yet.
	group [64]uint8
	low   []uint8
	high  []uint32 // as long as low, or nil while nothing has been carried
}

// binOf gives the bin of a value.
func binOf(v uint64) uint32 {
	shift := bits.Len64(v|(firstShared-1)) - (subBits + 1)
	return uint32(shift)<<subBits + uint32(v>>(shift&63))
}

// middle is the value that stands for a bin.
func middle(bin uint32) uint64 {
	if bin < firstShared {
		return uint64(bin)
	}
	shift := bin>>subBits - 1
	return uint64(bin-shift<<subBits)<<shift + (1<<shift-1)/2
}

// addAll counts every value once.
func (b *bins) addAll(values []uint32) {
	low := b.low
	for _, v := range values {
		bin := binOf(uint64(v))
		at := (uint32(b.group[bin>>subBits&63])-1)<<subBits | bin&(subBins-1)
		if uint(at) >= uint(len(low)) {
			b.addBin(bin, 1)
			low = b.low
			continue
		}
		c := low[at] + 1
		low[at] = c
		if c == 0 {
			b.carry(at, 1)
		}
	}
}

func (b *bins) addBin(bin uint32, n uint64) {
	g := b.group[bin>>subBits]
	if g == 0 {
		b.low = extend(b.low)
		if b.high != nil {
			b.high = extend(b.high)
		}
		g = uint8(len(b.low) / subBins)
		b.group[bin>>subBits] = g
	}
	at := (uint32(g)-1)<<subBits | bin&(subBins-1)
	n += uint64(b.low[at])
	b.low[at] = uint8(n)
	if n>>8 != 0 {
		b.carry(at, n>>8)
	}
}

// extend appends the counts of one octave, and no spare room.
func extend[T uint8 | uint32](counts []T) []T {
	longer := make([]T, len(counts)+subBins)
	copy(longer, counts)
	return longer
}

// carry adds n times 256 to a count. The 40 bits that a count has are enough for
// any file: so many calls take 16 terabytes.
//
//go:noinline
func (b *bins) carry(at uint32, n uint64) {
	if b.high == nil {
		b.high = make([]uint32, len(b.low))
	}
	b.high[at] += uint32(n)
}

// each calls f with all bins that are not empty, in ascending order.
func (b *bins) each(f func(bin uint32, n uint64)) {
	for octave, g := range b.group {
		if g == 0 {
			continue
		}
		first := (int(g) - 1) * subBins
		for i, c := range b.low[first : first+subBins] {
			n := uint64(c)
			if b.high != nil {
				n += uint64(b.high[first+i]) << 8
			}
			if n != 0 {
				f(uint32(octave*subBins+i), n)
			}
		}
	}
}
