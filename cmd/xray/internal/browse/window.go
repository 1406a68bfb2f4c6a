package browse

import (
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader/calls"
)

// Window is the part of a trace to show, in TSCs. The trace also has earlier records, which tell
// which calls were open when the window began.
type Window struct {
	From, To uint64
	// Sleeping says for each live thread whether it sleeps. A call that is open at the end of such
	// a thread's records lasts until To.
	Sleeping map[int32]bool
}

// clipper cuts calls off at the edges of a window.
type clipper struct {
	*Window
	offCPU  bool
	threads map[int]*clippedThread
}

// clippedThread is what a thread did in the window.
type clippedThread struct {
	// inside and off are the times of callees, by their depth, that ended since their caller or the
	// window began.
	inside []uint64
	off    []calls.Off // at this depth or deeper
	self   []calls.Off // at exactly this depth
	opened bool        // an open call was seen: the calls that follow enclose it
}

func (t *clippedThread) grow(depth int) {
	for len(t.inside) <= depth+1 {
		t.inside, t.off, t.self = append(t.inside, 0), append(t.off, calls.Off{}), append(t.self, calls.Off{})
	}
}

// clip returns the calls of a batch that were open in the window: whole, and with only their times in
// the window.
func (c *clipper) clip(b *calls.Batch) (ended, within *calls.Batch) {
	t := c.threads[b.Index]
	if t == nil {
		t = new(clippedThread)
		c.threads[b.Index] = t
	}
	whole, part := *b, *b
	whole.Calls, whole.Waits, part.Calls, part.Waits = nil, nil, nil, nil
	waits, gaps := b.Waits, b.Gaps
	for i := range b.Calls {
		one := b.Calls[i]
		end := one.Start + one.Duration
		for len(gaps) > 0 && gaps[0].To <= end {
			c.gap(t, &gaps[0])
			gaps = gaps[1:]
		}
		var wait *calls.Wait
		for len(waits) > 0 && waits[0].Call <= i {
			if waits[0].Call == i {
				wait = &waits[0]
			}
			waits = waits[1:]
		}
		sleeping, goesOn := c.Sleeping[b.Thread.Thread]
		goesOn = goesOn && one.End == calls.Truncated
		if !goesOn && end < c.From || one.Start > c.To {
			continue
		}
		if one.End != calls.Truncated {
			whole.Calls = append(whole.Calls, one)
		}
		depth := int(one.Depth)
		t.grow(depth)
		if goesOn && !t.opened {
			t.opened = true
			c.goOn(t, depth, max(end, c.From), sleeping)
		}
		if goesOn {
			end = max(end, c.To)
		}
		before := one
		one.Duration = end - max(one.Start, c.From)
		if before.Start < c.From || goesOn {
			one.Self = one.Duration - min(one.Duration, t.inside[depth+1])
		}
		one.Start = max(one.Start, c.From)
		total := t.self[depth]
		total.Add(t.off[depth+1])
		if wait != nil && before.Start >= c.From && !goesOn {
			total = wait.Total
			part.Waits = append(part.Waits, calls.Wait{Call: len(part.Calls), Self: wait.Self, Total: wait.Total})
		} else if self := limit(t.self[depth], one.Self); (before.Start < c.From || goesOn) && total.Sum() > 0 {
			total = limit(total, one.Duration)
			part.Waits = append(part.Waits, calls.Wait{Call: len(part.Calls), Self: self, Total: total})
		}
		part.Calls = append(part.Calls, one)
		t.inside[depth] += one.Duration
		t.off[depth].Add(total)
		t.inside[depth+1], t.off[depth+1], t.self[depth] = 0, calls.Off{}, calls.Off{}
	}
	for i := range gaps {
		c.gap(t, &gaps[i])
	}
	return &whole, &part
}

// gap adds an off-CPU time.
func (c *clipper) gap(t *clippedThread, g *calls.Gap) {
	from, to := max(g.From, c.From), min(g.To, c.To)
	if from >= to || g.Depth == 0 {
		return
	}
	t.grow(int(g.Depth))
	t.self[g.Depth-1].Add(limit(g.Off, to-from))
}

// goOn adds the time from the last record of a thread to the end of the window, in which the
// innermost call was open. Its thread slept, or ran.
func (c *clipper) goOn(t *clippedThread, depth int, from uint64, sleeping bool) {
	if sleeping && c.offCPU && from < c.To {
		t.self[depth].Add(calls.Off{Blocked: c.To - from})
	}
}

// limit returns an off-CPU time of at most a number of ticks.
func limit(o calls.Off, ticks uint64) calls.Off {
	o.Blocked = min(o.Blocked, ticks)
	o.Queued = min(o.Queued, ticks-o.Blocked)
	o.Recorder = min(o.Recorder, ticks-o.Blocked-o.Queued)
	return o
}

// clampSum returns a sum of ticks, or the largest number.
func clampSum(s quantile.Sum) uint64 {
	if s.Hi > 0 {
		return 1<<64 - 1
	}
	return s.Lo
}
