package exclude

import (
	"math/bits"
)

// estimate predicts what recordings cost. Where recording takes most of the time, a small
// error of the cost of a call becomes a large one of the overhead: so it has bounds.
type estimate struct {
	likely, least, most model
	bytes               uint64 // of the records of the recording at hand
}

// model is the time without recording, in ticks, and the cost of recording.
type model struct {
	time uint64
	call uint64 // thousandths of ticks
	Spent
}

// newEstimate is of a recording of calls that took time, in ticks.
func newEstimate(opts *Options, time, calls uint64) *estimate {
	e := &estimate{}
	cost, base := opts.Cost, opts.Baseline
	for _, one := range []struct {
		m          *model
		cost, base uint64
	}{
		{&e.likely, cost.Mean(), base.Likely}, {&e.least, cost.Low, base.Most}, {&e.most, cost.High, base.Least},
	} {
		*one.m = model{call: one.cost, Spent: opts.Spent}
		m := one.m
		probes := time - min(time, m.Fixed+m.Chunks) // and the program
		if base.Most > 0 {
			m.time = min(one.base, probes)
			m.call = perCall(probes-m.time, calls)
			continue
		}
		m.time = probes - min(probes, ticks(calls, m.call))
		if least := min(probes, ticks(calls, opts.Least)); m.time < least {
			m.time = least
			m.call = min(m.call, perCall(probes-least, calls))
		}
	}
	return e
}

// predict sets what is predicted of a recording, of which it knows calls and bytes.
func (e *estimate) predict(r *Recording) {
	r.Time, r.Cost = e.likely.time, e.likely.of(r, e.bytes)
	r.Least, r.Most = overhead(e.least.of(r, e.bytes), e.least.time), overhead(e.most.of(r, e.bytes), e.most.time)
	r.Writing, r.Waiting = share(e.likely.Writing, r.Bytes, e.bytes), share(e.likely.Waiting, r.Bytes, e.bytes)
}

// of is the cost of a recording.
func (m *model) of(r *Recording, bytes uint64) uint64 {
	return m.Fixed + share(m.Chunks, r.Bytes, bytes) + ticks(r.Calls, m.call)
}

// perCall is a time in thousandths for each of n calls.
func perCall(ticks, n uint64) uint64 {
	hi, lo := bits.Mul64(ticks, 1000)
	if n == 0 || hi >= n {
		return 0
	}
	q, _ := bits.Div64(hi, lo, n)
	return q
}

// share is part of all in proportion to n of total.
func share(all, n, total uint64) uint64 {
	if total == 0 {
		return 0
	}
	hi, lo := bits.Mul64(all, min(n, total))
	q, _ := bits.Div64(hi, lo, total)
	return q
}
