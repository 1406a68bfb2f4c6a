package slowest

import (
	"math"

	"github.com/xray-tools/xray/explain/invocation"
)

// censusBuckets is the number of parts into which a Census divides time.
const censusBuckets = 1 << 16

// Census counts invocations by their start time, to find the one with a given number in
// bounded memory: each Census covers a 65,536th of the time of the previous one. It is an
// analysis, like Search.
type Census struct {
	*invocation.Tracker
	from, to, width uint64
	counts          []uint64
}

// NewCensus returns a census of the time from From to To of opts. If To is 0, the last part
// has no end. Top and PerThread are ignored.
func NewCensus(opts Options, last uint64) *Census {
	c := &Census{from: opts.From, to: opts.To, counts: make([]uint64, censusBuckets)}
	end := opts.To
	if end == 0 {
		end = max(last, c.from)
	}
	c.width = (end-c.from)/censusBuckets + 1
	c.Tracker = opts.tracker(false, func(v *invocation.Invocation, chosen bool) {
		if chosen {
			c.counts[min((v.Start-c.from)/c.width, censusBuckets-1)]++
		}
	})
	return c
}

// Merge implements calls.Analysis.
func (c *Census) Merge(o *Census) {
	for i, n := range o.counts {
		c.counts[i] += n
	}
}

// Count is the number of invocations.
func (c *Census) Count() (n uint64) {
	for _, m := range c.counts {
		n += m
	}
	return n
}

// Part is a part of the time that a Census counted.
type Part struct {
	From, To uint64 // To 0 is no limit
	Before   uint64 // invocations before it, in the census
	Count    uint64 // invocations in it
}

// Part returns the part with invocation number n of the census, from 1, which must exist.
func (c *Census) Part(n uint64) Part {
	var p Part
	i := 0
	for ; p.Before+c.counts[i] < n; i++ {
		p.Before += c.counts[i]
	}
	p.Count = c.counts[i]
	p.From = c.from + uint64(i)*c.width
	p.To = c.to
	if i < censusBuckets-1 && p.From <= math.MaxUint64-c.width && (c.to == 0 || p.From+c.width < c.to) {
		p.To = p.From + c.width
	}
	return p
}
