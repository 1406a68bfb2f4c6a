package why

import "github.com/xray-tools/xray/reader/calls"

// foreign returns the part of an off-CPU time that no function can change: in the run queue,
// waiting for the recorder, or while an interrupt ran.
func foreign(o calls.Off) uint64 { return o.Queued + o.Recorder + o.Interrupted }

// openOff is the off-CPU time of an open call.
type openOff struct {
	off   uint64 // ticks since its last callee ended
	block span   // the longest time blocked at a stretch
	// faulted is the part of the blocked time with major page faults, since the call began.
	faulted uint64
}

func (s span) ticks() uint64 { return s.to - s.from }

// gap adds an off-CPU time to the call that was open then. If the gap has several parts, the
// thread was first blocked by the program, then waited for the recorder, and then was in the
// run queue.
func (c *cohorts) gap(t *opened, g *calls.Gap) {
	if g.Depth == 0 || g.Depth > maxHoleDepth || g.Off == (calls.Off{}) || c.places.list[g.Path].kind == outside {
		return
	}
	t.gather(g.Depth)
	if g.Queued > t.queue.ticks() {
		t.queue = span{g.To - g.Queued, g.To}
	}
	t.off = grow(t.off, int(g.Depth))
	o := &t.off[g.Depth-1]
	o.off += g.Sum()
	if g.Blocked > o.block.ticks() {
		end := g.To - foreign(g.Off)
		o.block = span{end - g.Blocked, end}
	}
	if g.MajorFaults > 0 {
		o.faulted += g.Blocked
	}
}

// close returns the off-CPU time of a call that ended. Time in the callees of a lock function
// is the lock function's own time.
func (t *opened) close(call *calls.Call, insideLock bool) openOff {
	depth := int(call.Depth)
	if depth >= len(t.off) {
		return openOff{}
	}
	o := t.off[depth]
	t.off[depth] = openOff{}
	if insideLock && depth > 0 {
		outer := &t.off[depth-1]
		outer.off += o.off
		if o.block.ticks() > outer.block.ticks() {
			outer.block = o.block
		}
		outer.faulted += o.faulted
	}
	return o
}

// offBefore returns how long the caller of a call that ended was off CPU between the
// previous callee and this one.
func (t *opened) offBefore(call *calls.Call) uint64 {
	if call.Depth == 0 || int(call.Depth) > len(t.off) {
		return 0
	}
	o := &t.off[call.Depth-1]
	off := o.off
	o.off = 0
	return off
}

// Preempted is the time that slow calls lose in the run queue, waiting for a processor.
type Preempted struct {
	Share     float64 // of the excess; 0 if usual calls wait longer
	Dominates int     // slow calls that lose most of their time there
	// Usual and Slow are ticks in the run queue per call.
	Usual, Slow float64
	// Recorder is the share of the excess in which threads waited for the recorder. Share and
	// the other fields do not include it.
	Recorder float64
	// Instead lists the tasks that ran instead, the longest first, if scheduler events were
	// recorded.
	Instead []Instead
	// Throttled is the CPU quota that is the reason, or nil. Then whoever ran instead is not.
	Throttled *Throttled
}

// Interrupted is the time that slow calls lose because interrupts ran on the thread's processor.
type Interrupted struct {
	Share     float64 // of the excess; 0 if usual calls are interrupted for longer
	Dominates int     // slow calls that lose most of their time there
	// Usual and Slow are ticks per call in which interrupts ran.
	Usual, Slow float64
	// By lists the interrupts that ran in slow calls, the longest first.
	By []Instead
}

// apart adds up the times that belong to no function: in the run queue, waiting for the
// recorder, and interrupted.
func (e *evidence) apart() (*Preempted, *Interrupted) {
	count, lost := float64(len(e.slow)), e.total+e.foreignSum
	p := &Preempted{Usual: e.meanForeign - e.meanRecorder - e.meanInterrupted}
	in := &Interrupted{Usual: e.meanInterrupted}
	for i := range e.slow {
		v := &e.slow[i]
		recorder, interrupted := float64(v.recorder), float64(v.interrupted)
		queued, mostly := e.queuedIn(i)
		p.Slow += (queued + p.Usual) / count
		p.Share += queued / lost
		p.Recorder += (recorder - e.meanRecorder) / lost
		in.Slow += interrupted / count
		in.Share += (interrupted - in.Usual) / lost
		if mostly {
			p.Dominates++
		} else if 2*(interrupted-in.Usual) > e.foreign[i]+e.excess[i] {
			in.Dominates++
		}
	}
	return p, in
}

// queuedIn returns for how many ticks more than a usual call a slow one was in the run queue, and whether that is most
// of what it loses.
func (e *evidence) queuedIn(i int) (ticks float64, mostly bool) {
	v := &e.slow[i]
	ticks = float64(v.foreign) - float64(v.recorder) - float64(v.interrupted) - (e.meanForeign - e.meanRecorder - e.meanInterrupted)
	return ticks, 2*ticks > e.foreign[i]+e.excess[i]
}
