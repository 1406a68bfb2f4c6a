package why

import (
	"sort"

	"github.com/xray-tools/xray/reader"
)

// Throttled is the time in which the CPU quota of a cgroup stopped slow calls.
type Throttled struct {
	Group             string
	QuotaNS, PeriodNS uint64
	// Share is the share of the slow calls' time in the run queue that the quota explains, at most: they waited no
	// longer than the quota stopped the cgroup meanwhile.
	Share float64
	// Periods in which the quota stopped the cgroup, and for how many nanoseconds on all CPUs, while slow calls ran.
	Periods, NS uint64
}

// nanoseconds formats a time that is not in ticks.
func nanoseconds(ns uint64) string { return reader.Clock{Frequency: 1e9}.Format(ns) }

// throttled finds the quota that explains most of the time in the run queue of slow calls. It returns nil if none
// explains half of it.
func (e *explainer) throttled(slow []rootCall) *Throttled {
	if e.opts.Quotas == nil || !e.opts.Clock.Known() {
		return nil
	}
	type stopped struct {
		Throttled
		ticks   float64      // of the slow calls
		counted map[int]bool // samples
	}
	groups := make(map[string]*stopped)
	all := 0.0
	for i := range slow {
		v := &slow[i]
		queued := float64(v.foreign) - float64(v.recorder) - float64(v.interrupted)
		all += queued
		for _, q := range e.opts.Quotas(int(v.id.File)) {
			g := groups[q.Group]
			if g == nil {
				g = &stopped{Throttled: Throttled{Group: q.Group, QuotaNS: q.QuotaNS, PeriodNS: q.PeriodNS}, counted: make(map[int]bool)}
				groups[q.Group] = g
			}
			grown := 0.0
			first := sort.Search(len(q.Samples), func(k int) bool { return q.Samples[k].TSC > v.start })
			for k := max(1, first); k < len(q.Samples) && q.Samples[k-1].TSC < v.start+v.duration; k++ {
				more := grewBy(q.Samples[k-1], q.Samples[k])
				grown += float64(more.ThrottledNS) * float64(e.opts.Clock.Frequency) / 1e9
				if !g.counted[k] {
					g.counted[k] = true
					g.Periods, g.NS = g.Periods+more.Throttled, g.NS+more.ThrottledNS
				}
			}
			g.ticks += min(queued, grown)
		}
	}
	var best *stopped
	for _, g := range groups {
		if best == nil || g.ticks > best.ticks || g.ticks == best.ticks && len(g.Group) > len(best.Group) {
			best = g
		}
	}
	if best == nil || all <= 0 || 2*best.ticks < all {
		return nil
	}
	best.Share = min(1, best.ticks/all)
	return &best.Throttled
}

// grewBy returns how much the counters of a quota grew. They never fall, but a file may say anything.
func grewBy(from, to reader.QuotaSample) reader.QuotaSample {
	return reader.QuotaSample{Throttled: max(from.Throttled, to.Throttled) - from.Throttled, ThrottledNS: max(from.ThrottledNS, to.ThrottledNS) - from.ThrottledNS}
}
