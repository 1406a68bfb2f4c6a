// Package durations finds out which calls of a trace are the longest that a timeline has
// room for.
package durations

import (
	"math"
	"math/bits"

	"github.com/xray-tools/xray/reader/calls"
)

// Counts counts calls by how long they take. It is a [calls.Analysis].
type Counts struct{ counts [maxBin + 1]uint64 }

// Bins are eighths of an octave.
const (
	binBits = 3
	maxBin  = 62 << binBits
)

func binOf(d uint64) int {
	octave := bits.Len64(d)
	if octave <= binBits {
		return int(d)
	}
	shift := octave - binBits - 1
	return shift<<binBits + int(d>>shift)
}

// lowOf is the shortest duration in a bin.
func lowOf(bin int) uint64 {
	if bin < 2<<binBits {
		return uint64(bin)
	}
	shift := bin>>binBits - 1
	if shift > 63-binBits {
		return math.MaxUint64
	}
	return uint64(bin&(1<<binBits-1)|1<<binBits) << shift
}

// Calls implements [calls.Sink].
func (d *Counts) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		d.counts[binOf(b.Calls[i].Duration)]++
	}
	return nil
}

// Merge implements [calls.Analysis].
func (d *Counts) Merge(other *Counts) {
	for i, n := range other.counts {
		d.counts[i] += n
	}
}

// Longest is the duration in ticks from which on there are at most that many calls,
// and how many calls are shorter.
func (d *Counts) Longest(most uint64) (shortest, left uint64) {
	var kept uint64
	bin := maxBin
	for ; bin >= 0 && kept+d.counts[bin] <= most; bin-- {
		kept += d.counts[bin]
	}
	for i := 0; i <= bin; i++ {
		left += d.counts[i]
	}
	if bin < 0 {
		return 0, 0
	}
	return lowOf(bin + 1), left
}
