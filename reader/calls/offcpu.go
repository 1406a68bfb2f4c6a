package calls

import "github.com/xray-tools/xray/reader"

// Off is the off-CPU time of a thread, in ticks.
type Off struct {
	Blocked uint64 // it slept or waited for something
	Queued  uint64 // it could run, and waited for a processor in the run queue
	// Recorder is the time in which it was blocked by the recorder, not by the program.
	Recorder uint64
	// Interrupted is the time in which interrupts ran on the thread's CPU. It is 0 unless
	// Options.Interrupts is set, and in a [Gap].
	Interrupted uint64
}

// Sum returns the total.
func (o Off) Sum() uint64 {
	return addSaturating(addSaturating(addSaturating(o.Blocked, o.Queued), o.Recorder), o.Interrupted)
}

// Add adds p to o. Sums of ticks saturate at the largest number.
func (o *Off) Add(p Off) {
	o.Blocked = addSaturating(o.Blocked, p.Blocked)
	o.Queued = addSaturating(o.Queued, p.Queued)
	o.Recorder = addSaturating(o.Recorder, p.Recorder)
	o.Interrupted = addSaturating(o.Interrupted, p.Interrupted)
}

// Wait is the off-CPU time of the thread during a call.
type Wait struct {
	Call  int // index in Batch.Calls
	Self  Off // while no call was open inside it. At most Call.Self.
	Total Off // at most Call.Duration
}

// Gap is a time in which the thread was off CPU, once or several times: between two records of the
// thread, and so during one innermost call.
type Gap struct {
	// From is the time of the record before, and To the time at which the thread noticed. Both
	// include clock steps, as Call.Start does. The thread was off CPU for a part of this time.
	From, To uint64
	Off
	// Known says that Off is known. QueueKnown says that its division is known. Unknown times are
	// 0. Without QueueKnown, Blocked includes the time in the run queue.
	Known, QueueKnown bool
	// Voluntary counts switches in which the thread blocked or slept, Involuntary those in
	// which it was preempted. These and the page faults are those since the previous gap
	// of the thread.
	Voluntary, Involuntary   uint32
	MinorFaults, MajorFaults uint32
	Func                     reader.FuncID // the innermost open call; 0 if there was none
	Path                     PathID
	Depth                    uint32 // number of open calls
}

// OffStats sums up the gaps of a run.
type OffStats struct {
	Gaps                   uint64
	Off                    // of those inside and outside of calls
	Voluntary, Involuntary uint64
	// Unknown counts gaps of unknown duration, and Unqueued those whose time in the run
	// queue is unknown.
	Unknown, Unqueued uint64
}

func (s *OffStats) add(g *Gap) {
	s.Gaps++
	s.Off.Add(g.Off)
	s.Voluntary += uint64(g.Voluntary)
	s.Involuntary += uint64(g.Involuntary)
	switch {
	case !g.Known:
		s.Unknown++
	case !g.QueueKnown:
		s.Unqueued++
	}
}

func (s *OffStats) merge(o *OffStats) {
	s.Gaps += o.Gaps
	s.Off.Add(o.Off)
	s.Voluntary += o.Voluntary
	s.Involuntary += o.Involuntary
	s.Unknown += o.Unknown
	s.Unqueued += o.Unqueued
}

// frameWait is the off-CPU time of the open call at a depth.
type frameWait struct {
	depth       int
	self, total Off
}

// lasting is from when to when a switch lasted: from the record before, or if it is 0 from an unknown time. The
// thread was cut at the time cut, before which the switch does not count.
type lasting struct{ from, cut, to uint64 }

// lasting returns how long a switch lasted that ends now, if the record before it is at a time.
func (th *thread) lasting(before uint64) lasting {
	l := lasting{from: before, to: th.last}
	if th.span.since != 0 && before == th.span.at {
		l.from, l.cut = th.span.since, before
	}
	th.span.since = 0
	return l
}

// gap handles a switch event, or the part of it until a time.
//
// The times of gaps go to a list of the open calls that have any. The list is empty or short. The
// hot loop ignores it: settle examines the calls that the loop ended.
func (s *shard) gap(th *thread, sw *reader.Switch, l lasting, until uint64) {
	if s.opts.OffCPU == nil {
		return
	}
	s.settle(th)
	top := s.stack.top()
	g := Gap{
		From: l.from, To: l.to, Known: sw.OffNS != reader.UnknownNS,
		Voluntary: sw.Voluntary, Involuntary: sw.Involuntary, MinorFaults: sw.MinorFaults, MajorFaults: sw.MajorFaults,
		Func: top.fn(), Path: top.path, Depth: uint32(s.stack.depth),
	}
	if g.Known {
		// The kernel's clocks and the TSC may differ by a little.
		off := s.opts.OffCPU.Ticks(sw.OffNS)
		if l.from == 0 {
			g.From = l.to - min(off, l.to)
		}
		off = min(off, g.To-g.From)
		if g.QueueKnown = sw.QueuedNS != reader.UnknownNS; g.QueueKnown {
			g.Queued = min(s.opts.OffCPU.Ticks(sw.QueuedNS), off)
		}
		g.Recorder = min(s.opts.OffCPU.Ticks(sw.RecorderNS), off-g.Queued)
		g.Blocked = off - g.Queued - g.Recorder
	} else if l.from == 0 {
		g.From = g.To
	}
	g.clip(l.cut, until)
	s.addGap(th, g)
}

// addGap adds a gap of the innermost open call.
func (s *shard) addGap(th *thread, g Gap) {
	s.stats.Off.add(&g)
	s.batch.Gaps = append(s.batch.Gaps, g)
	if s.stack.depth > 0 && g.Off != (Off{}) {
		w := th.rarely().wait(s.stack.depth)
		w.self.Add(g.Off)
		w.total.Add(g.Off)
	}
}

// wait returns the entry of the open call at a depth. No deeper call has one.
func (r *rare) wait(depth int) *frameWait {
	n := len(r.waits)
	if n == 0 || r.waits[n-1].depth < depth {
		r.waits = append(r.waits, frameWait{depth: depth})
		n++
	}
	return &r.waits[n-1]
}

// settle passes the off-CPU times of the calls that ended since the last time to
// the batch and to their callers.
func (s *shard) settle(th *thread) {
	in := s.interrupts(th)
	if in == nil && (th.rare == nil || len(th.rare.waits) == 0) {
		s.settled = s.n
		return
	}
	for r := th.rarely(); s.settled < s.n; s.settled++ {
		c := &s.calls[s.settled]
		var w frameWait
		if n := len(r.waits); n > 0 && int(c.Depth) < r.waits[n-1].depth {
			w = r.waits[n-1]
			r.waits = r.waits[:n-1]
			if c.Depth > 0 {
				r.wait(int(c.Depth)).total.Add(w.total)
			}
		} else if in == nil {
			if n == 0 {
				s.settled = s.n
				return
			}
			// Nearly all calls are deeper than those with waits.
			at, most := s.settled+1, uint32(r.waits[n-1].depth)
			for at < s.n && s.calls[at].Depth >= most {
				at++
			}
			s.settled = at - 1
			continue
		}
		if in != nil {
			in.end(c, &w)
		}
		if w.total != (Off{}) {
			s.batch.Waits = append(s.batch.Waits, Wait{s.settled, w.self, w.total})
		}
	}
}
