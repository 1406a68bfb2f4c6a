package locks

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Scheduler events tell which thread ended the sleep of a waiter. That thread
// had the lock until then, even if its calls do not show it. Recorded holds are more accurate
// for the time before, because several threads may take the lock while another sleeps. So the
// waker is charged for

//   - the time since its hold began, if that is recorded, and the time between the end of
//     that hold and the wake-up;
//   - the time without a recorded holder, if its hold is not recorded;
//   - the time of a hold that began before the sleep and never ended, if the waiter got the
//     lock when it was woken: the release of that hold is not recorded;
//   - all of the sleep, if locks have no addresses: a recorded holder may have had another
//     lock.

// charged is time for which a holder is charged.
type charged struct {
	ticks   uint64
	byWaker uint64 // part of ticks that is charged because the holder woke the waiter, not by a recorded hold
}

func (c charged) plus(o charged) charged { return charged{c.ticks + o.ticks, c.byWaker + o.byWaker} }

// sleep is a stretch of a wait in which the thread slept until another woke it.
type sleep struct {
	out, woken uint64
	waker      reader.Thread
	own        *hold // the latest recorded hold of the waker, or nil
	free       uint64
	// others are the recorded holders so far. The last one still has the lock.
	others    map[calls.PathID]uint64
	last      *hold
	lastTicks uint64
}

// next drops the stretches that are over, or that no thread of the process ended, and returns
// the next one with its waker.
func (s *sweep) next(w *wait, now uint64) (*sched.Off, reader.Thread) {
	for ; len(w.sleeps) > 0; w.sleeps = w.sleeps[1:] {
		o := &w.sleeps[0]
		if o.State != 'S' || o.Woken <= now {
			continue // it waited for a CPU, or for something else in the kernel
		}
		if waker, by := s.opts.Wakers.Waker(w.thread.id, o); by == sched.ByThread && waker != w.thread.id {
			return o, waker
		}
	}
	return nil, reader.Thread{}
}

// chargeAsleep is charge for a wait with sleeps.
func (s *sweep) chargeAsleep(w *wait, from, now uint64) {
	awake := func(to uint64) {
		if h := w.holderFor(w); h != nil && to > from {
			w.charge(h.path, charged{ticks: to - from})
		}
		from = max(from, to)
	}
	for from < now {
		o, waker := s.next(w, from)
		if o == nil || o.Out >= now {
			awake(now)
			return
		}
		awake(max(from, o.Out))
		if w.sleep == nil || w.sleep.woken != o.Woken {
			s.settle(w, false)
			w.sleep = &sleep{out: o.Out, woken: o.Woken, waker: waker}
		}
		to := min(now, o.Woken)
		w.asleep(to - from)
		from = to
	}
}

// asleep adds time of a sleep.
func (w *wait) asleep(ticks uint64) {
	p := w.sleep
	if i := slices.IndexFunc(w.holders, func(h *hold) bool { return h.thread.id == p.waker && !(h.shared && w.shared) }); i >= 0 {
		p.pass()
		p.own, p.free = w.holders[i], 0 // it is not known which thread had the lock before
		w.charge(p.own.path, charged{ticks: ticks})
		return
	}
	h := w.holderFor(w)
	if h == nil {
		p.pass()
		p.free += ticks
		return
	}
	if h != p.last {
		p.pass()
		p.last = h
	}
	p.lastTicks += ticks
}

// pass records that the last holder has released the lock.
func (p *sleep) pass() {
	if p.last == nil {
		return
	}
	if p.others == nil {
		p.others = make(map[calls.PathID]uint64)
	}
	p.others[p.last.path] += p.lastTicks
	p.last, p.lastTicks = nil, 0
}

// settle charges the holders for the latest sleep of a wait. got says that the thread did not
// sleep again and has the lock.
func (s *sweep) settle(w *wait, got bool) {
	p := w.sleep
	if p == nil {
		return
	}
	w.sleep, w.busy = nil, true
	claim := p.free
	if p.own == nil {
		switch {
		case !w.logged:
			claim += p.lastTicks
			for _, ticks := range p.others {
				claim += ticks
			}
			p.others, p.last = nil, nil
		case got && p.last != nil && p.last.start <= p.out && slices.Contains(w.holders, p.last):
			claim += p.lastTicks
			p.last = nil
		}
	}
	p.pass()
	for path, ticks := range p.others {
		w.charge(path, charged{ticks: ticks})
	}
	if claim > 0 {
		path := s.pathOf(p)
		w.charge(path, charged{claim, claim})
		if c := &w.convoy; !c.Held && c.First == w.thread.id && p.out <= c.Start && c.Start < p.woken && slices.Contains(w.waiters, w) {
			c.Holder, c.holder, c.Held = p.waker, path, true
		}
	}
}

// pathOf returns the call path by which the waker had the lock.
func (s *sweep) pathOf(p *sleep) calls.PathID {
	if p.own != nil {
		return p.own.path
	}
	if i, ok := s.byID[p.waker]; ok {
		return s.woke(i, p.woken)
	}
	return 0 // none of its calls is recorded
}

// countWakers counts what the scheduler events say about a wait that has ended.
func (s *sweep) countWakers(w *wait, now uint64) {
	byWaker := uint64(0)
	for _, c := range w.blame {
		byWaker += c.byWaker
	}
	if byWaker > 0 {
		s.byWaker.count++
		s.byWaker.ticks += byWaker
	}
	list := s.opts.Wakers.Off(w.thread.id, w.start, now)
	for i := range list {
		if o := &list[i]; o.Ready() != 0 && o.In != 0 && !o.Doubtful {
			w.queuing.Add(min(o.In, now) - min(max(o.Ready(), w.start), o.In, now))
		}
	}
}

// wakeups finds the open call of a thread when it wakes others.
type wakeups struct {
	times []uint64 // TSCs, ascending
	paths []calls.PathID
}

// upTo records the wake-ups before a time, at which the open calls change.
func (th *reading) upTo(now uint64) {
	u := &th.wakeups
	for len(u.paths) < len(u.times) && u.times[len(u.paths)] <= now {
		u.paths = append(u.paths, th.caller())
	}
}

// caller returns the path of the innermost open call that is not one of a lock function.
func (th *reading) caller() calls.PathID {
	for i := len(th.calls) - 1; i >= 0; i-- {
		if c := &th.calls[i]; c.role == None && !c.through {
			return c.path
		}
	}
	return 0
}

// wokeIn returns the path of the innermost call that a thread had open when it woke another,
// apart from lock functions.
func (r *recognizer) wokeIn(thread int, tsc uint64) calls.PathID {
	th := r.threads[thread]
	i, ok := slices.BinarySearch(th.wakeups.times, tsc)
	if !ok || i >= len(th.wakeups.paths) {
		return th.caller() // its next event comes after that
	}
	return th.wakeups.paths[i]
}
