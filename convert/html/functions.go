package html

import (
	"github.com/xray-tools/xray/reader"
)

// Function is what is known of all calls of a function, those that the page does not hold
// among them. Times are in nanoseconds, or in ticks where the frequency is unknown.
type Function struct {
	ID          reader.FuncID
	Count, Open uint64 // calls that ended, and calls that did not
	// Of Count, Counted are calls of which nothing but their number is known, and Pruned
	// those that the recorder left out: Total has their time, and no other number does.
	Counted, Pruned uint64
	Total, Self     uint64 // time during which a call was open, and that without the calls that it made
	// Of the durations of the calls that ended, but for Counted and Pruned.
	Min, P50, P90, P99, P999, Max uint64
	Octaves                       []uint64 // how many there are, by their length in bits of ticks
}

// octave are the shortest and the longest duration of a length in bits.
type octave [2]uint64

// octaves are as many as the functions need; nil where functions have no sums.
func (o *Options) octaves() []octave {
	if o.Functions == nil {
		return nil
	}
	most := 0
	for i := range o.Functions {
		most = max(most, len(o.Functions[i].Octaves))
	}
	clock := reader.Clock{Frequency: o.Frequency}
	list := make([]octave, most)
	for bits := range list {
		end := uint64(1)<<bits - 1
		list[bits] = octave{clock.Nanos(end - end>>1), clock.Nanos(end)}
	}
	return list
}

// maxExact is the largest integer up to which JavaScript's numbers are exact.
const maxExact = 1 << 53

// addTo packs the sums of a function.
func (f *Function) addTo(p *packer) {
	for _, v := range []uint64{f.Count, f.Open, f.Counted, f.Pruned, f.Total, f.Self, f.Min, f.P50, f.P90, f.P99, f.P999, f.Max} {
		p.add(min(v, maxExact))
	}
	first := 0
	for first < len(f.Octaves) && f.Octaves[first] == 0 {
		first++
	}
	p.add(uint64(first))
	p.add(uint64(len(f.Octaves) - first))
	for _, n := range f.Octaves[first:] {
		p.add(min(n, maxExact))
	}
}
