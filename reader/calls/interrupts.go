package calls

import "sort"

// Stretch is a time from From to To, excluding To, in TSCs.
type Stretch struct{ From, To uint64 }

// interrupts divides the interrupts of a thread among its calls. Calls inside a call end before
// it. So interrupts that are still pending when a call ends are its own.
type interrupts struct {
	list    []Stretch
	before  []uint64 // by index in list, from 0 to its length: sums of ticks
	next    int      // the first one that begins after the latest end of a call
	pending []int    // earlier ones that are in no call that ended
}

// interrupts returns the interrupts of a thread, or nil if it has none.
func (s *shard) interrupts(th *thread) *interrupts {
	if s.opts.Interrupts == nil || th.skip {
		return nil
	}
	r := th.rarely()
	if r.interrupts == nil {
		r.interrupts = newInterrupts(s.opts.Interrupts(th.id))
	}
	if len(r.interrupts.list) == 0 {
		return nil
	}
	return r.interrupts
}

func newInterrupts(list []Stretch) *interrupts {
	in := &interrupts{list: list, before: make([]uint64, 1, len(list)+1)}
	for _, i := range list {
		in.before = append(in.before, addSaturating(in.before[len(in.before)-1], i.To-i.From))
	}
	return in
}

// end adds the interrupts of a call that ended to its off-CPU times.
func (in *interrupts) end(c *Call, w *frameWait) {
	end := c.Start + c.Duration
	for ; in.next < len(in.list) && in.list[in.next].From < end; in.next++ {
		in.pending = append(in.pending, in.next)
	}
	n := len(in.pending)
	self := uint64(0)
	for ; n > 0 && in.list[in.pending[n-1]].From >= c.Start; n-- {
		i := in.list[in.pending[n-1]]
		self = addSaturating(self, i.To-i.From)
	}
	in.pending = in.pending[:n]
	// The total includes interrupts in the calls inside, which are no longer pending.
	first := sort.Search(in.next, func(i int) bool { return in.list[i].From >= c.Start })
	total := in.before[in.next] - in.before[first]
	// Off-CPU times by the kernel's clocks may include some of it.
	w.self.Interrupted = min(self, c.Self-min(c.Self, w.self.Sum()))
	w.total.Interrupted = min(total, c.Duration-min(c.Duration, w.total.Sum()))
}
