package exclude

import (
	"math/bits"

	"github.com/xray-tools/xray/reader/calls"
)

// estimate predicts the cost of recordings. It has bounds, because a small error in the cost
// of a call becomes a large error in the overhead if recording takes most of the time.
type estimate struct {
	likely, least, most model
	bytes               uint64 // size of the records in the current recording
}

// model is the time without recording, in ticks, and the cost of recording.
type model struct {
	time uint64
	call uint64 // thousandths of ticks
	Spent
}

// newEstimate returns an estimate from a recording that has this number of calls and took
// time, in ticks. The likely cost of a call is the middle of the costs that leave time for
// the program.
func newEstimate(opts *Options, time, made uint64) *estimate {
	base := opts.Baseline
	if base.Most > 0 {
		of := func(base uint64) model { return known(opts, time, made, base) }
		return &estimate{likely: of(base.Likely), least: of(base.Most), most: of(base.Least)}
	}
	e := &estimate{least: assumed(opts, time, made, opts.Cost.Low), most: assumed(opts, time, made, opts.Cost.High)}
	likely := calls.ProbeCost{Low: e.least.call, High: e.most.call}
	e.likely = assumed(opts, time, made, likely.Mean())
	return e
}

// known returns the model for a given time without recording.
func known(opts *Options, time, calls, base uint64) model {
	rest := time - min(time, opts.Spent.Fixed+opts.Spent.Chunks)
	base = min(base, rest)
	return model{time: base, call: perCall(rest-base, calls), Spent: opts.Spent}
}

// assumed returns the model for a given cost of a call. It reduces the cost if it would leave
// the calls less time than they need.
func assumed(opts *Options, time, calls, call uint64) model {
	rest := time - min(time, opts.Spent.Fixed+opts.Spent.Chunks)
	left, least := rest-min(rest, ticks(calls, call)), min(rest, ticks(calls, opts.Least))
	if left < least {
		return model{time: least, call: min(call, perCall(rest-least, calls)), Spent: opts.Spent}
	}
	return model{time: left, call: call, Spent: opts.Spent}
}

// predict sets the predictions for a recording, from its calls and bytes.
func (e *estimate) predict(r *Recording) {
	r.Time, r.Cost = e.likely.time, e.likely.of(r, e.bytes)
	r.Least, r.Most = overhead(e.least.of(r, e.bytes), e.least.time), overhead(e.most.of(r, e.bytes), e.most.time)
	r.Writing, r.Waiting = share(e.likely.Writing, r.Bytes, e.bytes), share(e.likely.Waiting, r.Bytes, e.bytes)
}

// of returns the cost of a recording.
func (m *model) of(r *Recording, bytes uint64) uint64 {
	return m.Fixed + share(m.Chunks, r.Bytes, bytes) + ticks(r.Calls, m.call)
}

// perCall returns a time per call, in thousandths of ticks.
func perCall(ticks, n uint64) uint64 {
	hi, lo := bits.Mul64(ticks, 1000)
	if n == 0 || hi >= n {
		return 0
	}
	q, _ := bits.Div64(hi, lo, n)
	return q
}

// share returns the part of all that corresponds to n of total.
func share(all, n, total uint64) uint64 {
	if total == 0 {
		return 0
	}
	hi, lo := bits.Mul64(all, min(n, total))
	q, _ := bits.Div64(hi, lo, total)
	return q
}
