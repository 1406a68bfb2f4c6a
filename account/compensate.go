package account

import (
	"math"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader/calls"
)

// Compensation subtracts the cost of recording from self and total times. The quantiles and
// sums of durations stay as recorded.
type Compensation struct {
	Cost calls.ProbeCost
	// Keep makes, for each shard, a function that selects calls. Use it instead of
	// calls.Options.Filter, which may then select only by thread: recording a call costs
	// time even if the call is not selected. May be nil.
	Keep func() func(*calls.Call) bool
}

// probes counts the probes that ran while calls of a function were open.
type probes struct {
	calls  uint64
	direct uint64 // calls that they made
	// outer counts calls not inside another call of the function. inside counts all calls
	// made from these, directly or indirectly.
	outer, inside uint64
}

func (p *probes) add(o *probes) {
	p.calls += o.calls
	p.direct += o.direct
	p.outer += o.outer
	p.inside += o.inside
}

// prober counts the probes of a shard.
type prober struct {
	keep    func(*calls.Call) bool
	threads map[int][]made
	kept    []calls.Call
}

// made counts the calls made so far by the open call of a thread at some depth.
type made struct{ direct, all uint64 }

func newProber(c *Compensation) *prober {
	p := &prober{threads: make(map[int][]made)}
	if c.Keep != nil {
		p.keep = c.Keep()
	}
	return p
}

// count counts the probes of a batch in the table, and returns the selected calls. They are
// valid until the next batch.
func (p *prober) count(b *calls.Batch, t *table) []calls.Call {
	open := p.threads[b.Index]
	p.kept = p.kept[:0]
	for i := range b.Calls {
		c := &b.Calls[i]
		callees := int(c.Depth) + 1
		for len(open) <= callees {
			open = append(open, made{})
		}
		m := open[callees]
		open[callees] = made{}
		open[c.Depth].direct++
		open[c.Depth].all += m.all + 1
		if p.keep != nil && !p.keep(c) {
			continue
		}
		p.kept = append(p.kept, *c)
		s := t.special(t.index(c.Func))
		s.probes.calls++
		s.probes.direct += m.direct
		if !c.Nested {
			s.probes.outer++
			s.probes.inside += m.all
		}
	}
	p.threads[b.Index] = open
	return p.kept
}

// Compensated has the times of a row without the cost of recording. If the cost exceeds a
// time, the time is 0.
type Compensated struct {
	RecordedSelf, RecordedTotal quantile.Sum
	// These bound the true times if the true cost is between its bounds.
	SelfLow, SelfHigh, TotalLow, TotalHigh quantile.Sum
	// Exceeds reports whether the cost was higher than one of the times.
	Exceeds bool
}

// compensate subtracts the cost from the rows. of has the probes of each row.
func (r *Report) compensate(cost calls.ProbeCost, of []probes) {
	most := r.shortest(of)
	best, extremes := cost.Half(most), cost.Extremes(most)
	for i := range r.Rows {
		row, p := &r.Rows[i], &of[i]
		c := &Compensated{RecordedSelf: row.Self, RecordedTotal: row.Total}
		row.Self, c.Exceeds = less(c.RecordedSelf, p.selfCost(best))
		var exceeds bool
		row.Total, exceeds = less(c.RecordedTotal, p.totalCost(best))
		c.Exceeds = c.Exceeds || exceeds
		c.SelfLow, c.SelfHigh, c.TotalLow, c.TotalHigh = row.Self, row.Self, row.Total, row.Total
		for _, s := range extremes {
			widen(&c.SelfLow, &c.SelfHigh, c.RecordedSelf, p.selfCost(s))
			widen(&c.TotalLow, &c.TotalHigh, c.RecordedTotal, p.totalCost(s))
		}
		row.Compensated = c
	}
}

// enoughCalls is the number of calls that make a mean duration reliable. Single durations
// are as coarse as the clock.
const enoughCalls = 100

// shortest returns the shortest mean duration of functions that call nothing, in thousandths of
// ticks. The part of the cost that is inside a call cannot exceed it.
func (r *Report) shortest(of []probes) uint64 {
	most := uint64(math.MaxUint64)
	for i := range of {
		if p := &of[i]; p.calls >= enoughCalls && p.direct == 0 {
			most = min(most, uint64(1000*r.Rows[i].Self.Float64()/float64(p.calls)))
		}
	}
	return most
}

func (p *probes) selfCost(s calls.ProbeSplit) quantile.Sum {
	sum := calls.ProbeTicks(p.calls, s.Inside)
	sum.AddSum(calls.ProbeTicks(p.direct, s.Outside))
	return sum
}

func (p *probes) totalCost(s calls.ProbeSplit) quantile.Sum {
	sum := calls.ProbeTicks(p.outer, s.Inside)
	sum.AddSum(calls.ProbeTicks(p.inside, s.Call()))
	return sum
}

// less returns time without cost, and whether the cost was higher.
func less(time, cost quantile.Sum) (quantile.Sum, bool) {
	if time.Compare(cost) < 0 {
		return quantile.Sum{}, true
	}
	return time.Minus(cost), false
}

func widen(low, high *quantile.Sum, time, cost quantile.Sum) {
	t, _ := less(time, cost)
	if t.Compare(*low) < 0 {
		*low = t
	}
	if t.Compare(*high) > 0 {
		*high = t
	}
}
