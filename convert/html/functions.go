package html

import (
	"github.com/xray-tools/xray/reader"
)

// Function describes all calls of a function, including those that are not in the page. Times
// are in nanoseconds, or in ticks if the frequency is unknown.
type Function struct {
	ID          reader.FuncID
	Count, Open uint64 // calls that ended, and calls that did not
	// Counted and Pruned are parts of Count. Counted calls were only counted, so their times are
	// unknown. Pruned calls were dropped by the recorder. Their time is in Total and in no other
	// number.
	Counted, Pruned uint64
	Total, Self     uint64 // time during which a call was open, and that time without callees
	// CPU is the part of Self on CPU, and Blocked, Queued and Recorder the off-CPU parts. They are shown only
	// with Options.OffCPU.
	CPU, Blocked, Queued, Recorder uint64
	// Statistics of the durations of the calls that ended, except Counted and Pruned.
	Min, P50, P90, P99, P999, Max uint64
	Octaves                       []uint64 // number of these calls, by the bit length of their duration in ticks
	// AllCalls and AllTotal estimate calls and total time with what a recording within a budget left
	// out, which nothing else includes. The margins are halves of their 95% confidence intervals.
	// Estimated says that AllCalls is an estimate, and Timeless that the total time of some calls is
	// unknown. They are shown only with Options.Limited.
	AllCalls, AllTotal, CallsMargin, TotalMargin uint64
	Estimated, Timeless                          bool
}

// octave has the shortest and the longest duration of a bit length.
type octave [2]uint64

// octaves returns the octaves that occur in Functions, or nil without Functions.
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

// maxExact is the largest number up to which JavaScript represents all integers exactly.
const maxExact = 1 << 53

// addTo packs the sums of a function.
func (f *Function) addTo(p *packer, limited bool) {
	for _, v := range []uint64{f.Count, f.Open, f.Counted, f.Pruned, f.Total, f.Self, f.CPU, f.Blocked, f.Queued, f.Recorder, f.Min, f.P50, f.P90, f.P99, f.P999, f.Max} {
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
	if limited {
		for _, v := range []uint64{f.AllCalls, f.CallsMargin, f.AllTotal, f.TotalMargin} {
			p.add(min(v, maxExact))
		}
		for _, is := range []bool{f.Estimated, f.Timeless} {
			p.add(map[bool]uint64{true: 1}[is])
		}
	}
}
