package quantile

import "math/bits"

const (
	// subBits is the binary logarithm of the number of bins in an octave.
	subBits = 7
	subBins = 1 << subBits

	// firstShared is the smallest value that shares its bin with others.
	firstShared = 2 * subBins

	// RelativeError bounds the error of an approximate quantile. The width of a bin is at most
	// 1/128 of its values, and its middle represents all of them.
	RelativeError = 1.0 / (2 * subBins)
)

// Bin returns the bin of a value in a log-linear histogram. Every value below 256 has its
// own bin. Each octave from 256 up has 128 bins of equal width. Bins ascend with their
// values, and bin/128 identifies the octave:
//
//	values               bin
//	0 .. 255             value
//	256 .. 511           1*128 + value>>1
//	2^(7+k) .. 2^(8+k)-1 k*128 + value>>k
func Bin(v uint64) uint32 {
	shift := bits.Len64(v|(firstShared-1)) - (subBits + 1)
	return uint32(shift)<<subBits + uint32(v>>(shift&63))
}

// middle returns the value that represents a bin.
func middle(bin uint32) uint64 {
	if bin < firstShared {
		return uint64(bin)
	}
	shift := bin>>subBits - 1
	return uint64(bin-shift<<subBits)<<shift + (1<<shift-1)/2
}
