package convert

import (
	"math"
	"math/bits"
	"sort"

	"github.com/xray-tools/xray/reader/calls"
)

// LengthCounts counts calls by duration, and sums up their self times. It is a [calls.Analysis].
type LengthCounts struct {
	counts [maxBin + 1]uint64
	self   [maxBin + 1]uint64
}

// A bin is an eighth of an octave.
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

// lowOf returns the shortest duration of a bin.
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
func (d *LengthCounts) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		bin := binOf(b.Calls[i].Duration)
		d.counts[bin]++
		d.self[bin] += b.Calls[i].Self
	}
	return nil
}

// Merge implements [calls.Analysis].
func (d *LengthCounts) Merge(other *LengthCounts) {
	for i, n := range other.counts {
		d.counts[i] += n
		d.self[i] += other.self[i]
	}
}

// LengthChoice is one way to omit the shortest calls.
type LengthChoice struct {
	Shortest   uint64 // shortest duration of a kept call, in ticks
	Kept, Left uint64 // numbers of calls
	// KeptSelf and LeftSelf are the self times of the kept and the omitted calls, in ticks.
	KeptSelf, LeftSelf uint64
}

// Choices returns all choices. The first keeps the fewest calls, usually none. The last
// keeps all.
func (d *LengthCounts) Choices() []LengthChoice {
	var all LengthChoice
	for i, n := range d.counts {
		all.Left += n
		all.LeftSelf += d.self[i]
	}
	c := all
	c.Shortest = math.MaxUint64
	choices := []LengthChoice{c}
	for bin := maxBin; bin >= 0; bin-- {
		if d.counts[bin] == 0 {
			continue
		}
		c.Kept += d.counts[bin]
		c.KeptSelf += d.self[bin]
		c.Left, c.LeftSelf = all.Left-c.Kept, all.LeftSelf-c.KeptSelf
		if c.Shortest = lowOf(bin); c.Left == 0 {
			c.Shortest = 0
		}
		choices = append(choices, c)
	}
	return choices
}

// LongestCalls returns the index of the choice that keeps the most calls, up to most.
func LongestCalls(choices []LengthChoice, most uint64) int {
	return sort.Search(len(choices)-1, func(i int) bool { return choices[i+1].Kept > most })
}
