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

// binOf gives the bin of a value in a log-linear histogram: every value below 256
// has a bin of its own, and from there on every octave is divided evenly into 128
// bins. Bins are numbered so that number/128 is the octave, and they ascend with
// their values:
//
//	values               bin
//	0 .. 255             value
//	256 .. 511           1*128 + value>>1
//	2^(7+k) .. 2^(8+k)-1 k*128 + value>>k
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
