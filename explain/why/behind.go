package why

import (
	"slices"

	"github.com/xray-tools/xray/reader/calls"
)

// queues finds for how long threads waited for a CPU while others waited, and so perhaps for them.
type queues struct {
	gaps   *meanwhile
	waited map[queuedIn]uint64 // ticks
}

// queuedIn is a thread, by Batch.Index, in the run queue during a gap.
type queuedIn struct {
	gap    int32
	thread int
}

func (q *queues) Calls(b *calls.Batch) error {
	m := q.gaps
	for i := range b.Gaps {
		o := &b.Gaps[i]
		queued := o.Queued
		if o.Involuntary > 0 && o.Voluntary == 0 {
			queued = o.Sum() // preempted only
		}
		if queued == 0 {
			continue
		}
		first := o.To - queued
		for cell := m.cellOf(first); cell <= m.cellOf(o.To); cell++ {
			start := m.origin + uint64(cell)*m.cell
			for _, n := range m.cells[cell] {
				g := &m.gaps[n]
				from, to := max(start, first, g.start), min(start+m.cell, o.To, g.end)
				if from < to && g.thread != b.Index {
					q.waited[queuedIn{n, b.Index}] += to - from
				}
			}
		}
	}
	return nil
}

// Merge adds what other found.
func (q *queues) Merge(other *queues) {
	for k, ticks := range other.waited {
		q.waited[k] += ticks
	}
}

// longest returns by gap the longest time that one other thread was in the run queue.
func (q *queues) longest() []uint64 {
	list := make([]uint64, len(q.gaps.gaps))
	for k, ticks := range q.waited {
		list[k.gap] = max(list[k.gap], ticks)
	}
	return list
}

// preempted says whether what waiting threads waited for was a thread that was preempted.
type preempted uint8

const (
	running   preempted = iota
	behindOne           // yes
	overload            // perhaps: others were
)

// behind finds whether the calls that a lead dominates lose their time because the thread that they wait for is
// preempted: without its time in the run queue, too few of them lose much. Who that thread is, wake-ups show. Without
// these, it is the thread that waits longest for a CPU meanwhile, and such waits count as far as they exceed
// those at other times of the trace.
func (x *explainer) behind(e *evidence, l *lead, cause int, gaps []gap, queued []uint64, wakeUps []wakeUp) preempted {
	var here, elsewhere, all, number float64
	for i, g := range gaps {
		switch {
		case g.cause != cause:
		case g.copy == 0:
			here += float64(queued[i])
			all += float64(g.end - g.start)
			number++
		default:
			elsewhere += float64(queued[i]) / copies
		}
	}
	if number == 0 {
		return running
	}
	scale := 0.0 // of here, so that what chance explains is 0 and all the time is all
	if here > elsewhere && all > elsewhere {
		scale = (here - elsewhere) / (all - elsewhere) * all / here
	}
	woken := make(map[int]*wakeUp)
	for i := range wakeUps {
		woken[wakeUps[i].gap] = &wakeUps[i]
	}
	var kept, left float64 // gaps, and their parts, that remain
	for i, g := range gaps {
		if g.cause != cause || g.copy > 0 {
			continue
		}
		length := float64(g.end - g.start)
		off, least := scale*float64(queued[i]), dominance
		if w := woken[i]; w != nil {
			least = ranAtLeast
			off = float64(x.queuedUntil(w.file, w.waker, w.from, w.woken, longestChain))
		}
		if rest := 1 - off/length; rest > least && (woken[i] != nil || rest*length > clearly*e.spread) {
			kept++
			left += rest
		}
	}
	switch {
	case kept < number && kept/number*float64(len(l.dominated)) < minCalls || left < clearShare*number:
		return behindOne
	case len(woken) == 0 && (2*here > max(all, 3*elsewhere) || e.preemptedAlike(l)):
		return overload
	}
	return running
}

// waitsAsUsual reports whether a disturbance of any other thread explains the waits of a lead for something unknown: it
// has less than half of the lost time, and its calls do not lose far more than usual calls vary. That usual calls wait
// less says nothing, because they are those that did not.
func (e *evidence) waitsAsUsual(l *lead) bool {
	return l.kind == Blocked && l.share*e.total/(e.total+e.foreignSum) < halfOfLoss && e.lossOf(l) <= farBeyond*e.spread
}

// isHolder reports whether other calls wait for a lead's function.
func (e *evidence) isHolder(l *lead, f *found) bool {
	for o, h := range f.holders {
		if o != l && o.named && h.Covered >= headline && e.runsIn(l, h) {
			return true
		}
	}
	return false
}

// preemptedAlike reports whether other slow calls are preempted about as often as some lose time to a lead, and for no
// less time. If the machine does that to threads that the trace shows, it does so to one that it does not show. But it does
// not always take the same time.
func (e *evidence) preemptedAlike(l *lead) bool {
	var lost []float64
	for _, i := range l.dominated {
		lost = append(lost, l.x[i])
	}
	if len(lost) == 0 || spreads(lost) < regular {
		return false
	}
	number := 0
	for i := range e.slow {
		queued, mostly := e.queuedIn(i)
		if _, its := slices.BinarySearch(l.dominated, i); mostly && !its && alike*queued >= lost[len(lost)/4] {
			number++
		}
	}
	return alike*number >= len(lost)
}

// alike is the factor up to which numbers and times are about the same.
const alike = 5

// ranAtLeast is the share of a wait in which the thread that ends it is not in the run queue, from which it is more
// than preempted. A thread that computes long beside busy programs has a third of a CPU, or less.
const ranAtLeast = 0.1

// queuedUntil returns for how long a thread was in the run queue, or blocked behind a thread of the program that
// was.
func (x *explainer) queuedUntil(file, thread int32, from, to uint64, chain int) (ticks uint64) {
	for _, o := range x.opts.Sched[file].Thread(thread).Off(from, to) {
		out, in := max(o.Out, from), o.In
		if in == 0 || in > to {
			in = to
		}
		ready := min(max(out, o.Ready()), in)
		if o.Ready() == 0 {
			ready = in
		}
		ticks += in - min(in, ready)
		if chain > 0 && out < ready && x.wakerOf(file, &o, from) && o.Waker.TID != thread {
			ticks += x.queuedUntil(file, o.Waker.TID, out, ready, chain-1)
		}
	}
	return ticks
}
