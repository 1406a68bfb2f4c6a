package graph

import (
	"math"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Root is the caller of calls that have none in the trace.
const Root reader.FuncID = 0

// Options selects what an [Analysis] keeps.
type Options struct {
	// Quantiles keeps the data for quantiles. It takes most of the memory and half of the
	// time. Without it, quantiles in reports are 0.
	Quantiles bool
	// Exact keeps quantiles exact, in memory that grows with the number of different
	// durations.
	Exact bool
}

// Analysis collects calls by edge. It needs no option of calls.Run. Its memory grows with
// the number of different edges. It must not be used concurrently.
type Analysis struct {
	opts  Options
	edges []edge
	// samples are the durations of edges, by the same index. Empty unless Options.Quantiles
	// is set.
	samples []*quantile.Sample
	// index is an open-addressing hash table from (caller, callee) to the position in edges
	// plus 1. Its length is a power of two, and it is at most half full.
	index []uint32
	// durations is the size of samples in bytes.
	durations int64
	earlier   uint64 // open calls that began before what was selected
}

// Memory returns the approximate size of the edges in bytes, including a report. See [calls.MemoryUser].
func (a *Analysis) Memory() int64 {
	// Measured sizes. A sample keeps its first values uncounted.
	const perEdge, perSample = 480, 640
	return perEdge*int64(len(a.edges)) + perSample*int64(len(a.samples)) + a.durations
}

// edge is the sum over the calls of an edge. It fills a cache line, including the key.
type edge struct {
	caller, callee        reader.FuncID
	count, open, inferred uint64
	sum, self             uint64 // ticks; they saturate at the largest number
	min, max              uint64 // ticks; meaningless while count is 0; unknown if min > max
}

var _ calls.Analysis[*Analysis] = (*Analysis)(nil)

// New returns an empty analysis.
func New(opts Options) *Analysis {
	return &Analysis{opts: opts, index: make([]uint32, 128)}
}

// Calls adds a batch. It never fails.
func (a *Analysis) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		at := a.edge(c.Caller, c.Func)
		e := &a.edges[at]
		if c.Partial() {
			e.open++
			if c.Earlier {
				a.earlier++
			}
			e.self = addSaturating(e.self, c.Self)
			continue
		}
		if e.count == 0 {
			e.min, e.max = c.Duration, c.Duration
		}
		e.count++
		if c.End == calls.Inferred {
			e.inferred++
		}
		e.sum = addSaturating(e.sum, c.Duration)
		e.self = addSaturating(e.self, c.Self)
		e.min, e.max = min(e.min, c.Duration), max(e.max, c.Duration)
		if a.opts.Quantiles {
			a.samples[at].Add(c.Duration)
		}
	}
	return nil
}

// Sums adds the calls of a thread that the recorder summed up. It never fails.
func (a *Analysis) Sums(s *calls.Sums) error {
	for p := range s.Functions() {
		if p.Count == 0 && p.Open == 0 {
			continue
		}
		at := a.edge(p.Caller, p.Func)
		least, most := p.Min, p.Max
		if p.Spread() == 0 {
			least, most = math.MaxUint64, 0
		}
		a.edges[at].add(&edge{
			count: p.Count, open: p.Open, inferred: p.Inferred, sum: p.Total, self: addSaturating(p.Self, p.OpenSelf), min: least, max: most,
		})
		if a.opts.Quantiles && p.Spread() > 0 {
			p.AddDurations(a.samples[at])
		}
	}
	return nil
}

// edge returns the position of an edge, and adds it if it is new.
func (a *Analysis) edge(caller, callee reader.FuncID) uint32 {
	mask := uint64(len(a.index) - 1)
	i := edgeHash(caller, callee) & mask
	for a.index[i] != 0 {
		at := a.index[i] - 1
		if e := &a.edges[at]; e.callee == callee && e.caller == caller {
			return at
		}
		i = (i + 1) & mask
	}
	at := uint32(len(a.edges))
	a.edges = append(a.edges, edge{caller: caller, callee: callee})
	if a.opts.Quantiles {
		a.samples = append(a.samples, &quantile.Sample{Exact: a.opts.Exact, Meter: &a.durations})
	}
	a.index[i] = at + 1
	if 2*len(a.edges) > len(a.index) {
		a.grow()
	}
	return at
}

func (a *Analysis) grow() {
	a.index = make([]uint32, 2*len(a.index))
	mask := uint64(len(a.index) - 1)
	for at := range a.edges {
		i := edgeHash(a.edges[at].caller, a.edges[at].callee) & mask
		for a.index[i] != 0 {
			i = (i + 1) & mask
		}
		a.index[i] = uint32(at) + 1
	}
}

func edgeHash(caller, callee reader.FuncID) uint64 {
	h := (uint64(uint32(caller))<<32 | uint64(uint32(callee))) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// Merge adds the edges of other, which must not be used afterwards.
func (a *Analysis) Merge(other *Analysis) {
	for at := range other.edges {
		e := &other.edges[at]
		a.absorb(e.caller, e.callee, other, at)
	}
	a.earlier += other.earlier
}

// absorb adds an edge of other under the given key.
func (a *Analysis) absorb(caller, callee reader.FuncID, other *Analysis, at int) {
	to := a.edge(caller, callee)
	a.edges[to].add(&other.edges[at])
	if a.opts.Quantiles && other.opts.Quantiles {
		a.samples[to].Merge(other.samples[at])
	}
}

// add adds the numbers of o. It does not change the key.
func (e *edge) add(o *edge) {
	switch {
	case o.count == 0:
	case e.count == 0:
		e.min, e.max = o.min, o.max
	default:
		e.min, e.max = min(e.min, o.min), max(e.max, o.max)
	}
	e.count += o.count
	e.open += o.open
	e.inferred += o.inferred
	e.sum = addSaturating(e.sum, o.sum)
	e.self = addSaturating(e.self, o.self)
}

// addSaturating adds without wrapping around. Only damaged timestamps get that far: the
// largest number is centuries at any clock rate.
func addSaturating(a, b uint64) uint64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxUint64
}
