package calls

// The cost of recording a call, and its effect on the trace:
//
// Two probes record a call, at its entry and at its exit. Each reads the clock somewhere in
// its middle. The time between the two reads is part of the call's own duration. The rest
// is part of its caller's. So if a call made d calls, and k calls were made inside it, its
// duration is too long by inside + k*call, and its self time is too long by inside +
// d*outside.

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
)

// ProbeCost is the cost of recording a call, between Low and High, in thousandths of ticks.
type ProbeCost struct{ Low, High uint64 }

// Mean is the cost if a single number is needed.
func (c ProbeCost) Mean() uint64 { return c.Low/2 + c.High/2 + c.Low&c.High&1 }

// ProbeSplit divides the cost of a call by where it appears.
type ProbeSplit struct {
	Inside  uint64 // in the duration of the call, thousandths of ticks
	Outside uint64 // in the duration of its caller
}

// Call is the sum.
func (s ProbeSplit) Call() uint64 { return s.Inside + s.Outside }

// Half takes half of the mean as inside, as measured for recorders with two equal probes,
// but no more than most.
func (c ProbeCost) Half(most uint64) ProbeSplit {
	mean := c.Mean()
	inside := min(mean/2, most)
	return ProbeSplit{inside, mean - inside}
}

// Extremes returns the splits at the limits of what is possible: a call costs Low or High,
// and a third to two thirds of that are inside, but no more than most. A value that is
// linear in both parts is smallest and largest at one of these.
func (c ProbeCost) Extremes(most uint64) [4]ProbeSplit {
	var list [4]ProbeSplit
	for i, call := range [2]uint64{c.Low, c.High} {
		for j, inside := range [2]uint64{call / 3, call - call/3} {
			inside = min(inside, most)
			list[2*i+j] = ProbeSplit{inside, call - inside}
		}
	}
	return list
}

// ProbeTicks returns the time of n costs of the given thousandths, in whole ticks, rounded to
// the nearest.
func ProbeTicks(n, thousandths uint64) quantile.Sum {
	hi, lo := bits.Mul64(n, thousandths)
	lo, carry := bits.Add64(lo, 500, 0)
	hi += carry
	q, r := hi/1000, hi%1000
	lo, _ = bits.Div64(r, lo, 1000)
	return quantile.Sum{Hi: q, Lo: lo}
}

// probeCostPerCall returns thousandths of ticks in the unit of the clock.
func probeCostPerCall(thousandths uint64, c reader.Clock) float64 {
	if !c.Known() {
		return float64(thousandths) / 1000
	}
	return float64(thousandths) * 1e6 / float64(c.Frequency)
}

// FormatProbeCost returns thousandths of ticks in the unit of the clock, to a tenth.
func FormatProbeCost(thousandths uint64, c reader.Clock) string {
	return strconv.FormatFloat(math.Round(10*probeCostPerCall(thousandths, c))/10, 'f', -1, 64)
}
