package locks

import "slices"

func (s *sweep) newHold(th *thread, l *lock, o *op) *hold {
	f := s.function(o.fn)
	return &hold{
		lock: l, thread: th, path: o.path, start: o.time, class: f.Class, depth: o.depth, shared: f.Shared, chosen: s.counts(th, o.time),
		since: th.selves.passed,
	}
}

// hold begins a hold after a wait.
func (s *sweep) hold(th *thread, w *wait, o *op) {
	h := s.newHold(th, w.lock, o)
	// Two holds that last for a function belong to the same call if their depths are equal.
	mine := slices.IndexFunc(th.holds, func(o *hold) bool {
		return o.lock == h.lock && !o.recursive && !o.suspended && (h.logged || h.depth > 0 && o.depth == h.depth)
	})
	switch {
	case mine < 0:
	case th.holds[mine].overtaken > 0:
		s.gaps++
		th.holds[mine].since = th.selves.passed // it continues after the hold
		s.drop(th.holds[mine], th.holds[mine].overtaken)
	case h.depth > 0:
		// A loop that releases the lock in each iteration.
		s.gaps++
		s.drop(th.holds[mine], w.start)
	default:
		h.recursive = true
	}
	if len(th.holds) == maxHolds {
		s.gaps++
		s.forget(th.holds[0], o.time)
	}
	if !h.recursive {
		s.order(th, h)
		s.overtake(h, o.time)
		h.holders = append(h.holders, h)
	}
	th.holds = append(th.holds, h)
}

// overtake records that other holders must have released a lock, because h holds it. Either they
// are about to return from the unlock function, or the release is not recorded.
func (s *sweep) overtake(h *hold, now uint64) {
	if !h.logged {
		return // what looks like one lock may be several
	}
	h.lock.holders = slices.DeleteFunc(h.lock.holders, func(o *hold) bool {
		if o.shared && h.shared || o.thread == h.thread {
			return false
		}
		o.overtaken = now
		return true
	})
}

// release ends the hold of an unlock.
func (s *sweep) release(th *thread, o *op) {
	if s.isMissing(th, o.fn) {
		return
	}
	class := s.function(o.fn).Class
	fits := func(addr uint64, logged bool, c string) bool {
		if o.logged && logged {
			return o.addr == addr
		}
		return c == class
	}
	for i := len(th.holds) - 1; i >= 0; i-- {
		if h := th.holds[i]; h.depth == 0 && fits(h.addr, h.logged, h.class) {
			s.drop(h, o.time)
			return
		}
	}
	for i := len(th.tries) - 1; i >= 0; i-- {
		if t := th.tries[i]; fits(t.addr, t.logged, s.function(t.fn).Class) {
			th.tries = slices.Delete(th.tries, i, i+1)
			h := s.newHold(th, s.lockOf(&t), &t)
			if h.chosen {
				h.tries++
			}
			s.endHold(h, o.time)
			return
		}
	}
	if o.logged {
		if l := s.locks[key{process: s.processOf(th), addr: o.addr, logged: true}]; l != nil && len(l.holders) > 0 {
			s.handed++
			s.drop(l.holders[0], o.time)
			return
		}
	}
	s.orphan++
}

// drop ends a hold and removes it from its thread.
func (s *sweep) drop(h *hold, now uint64) {
	if !h.recursive && !h.suspended {
		s.endHold(h, now)
	}
	h.thread.holds = slices.DeleteFunc(h.thread.holds, func(o *hold) bool { return o == h })
}

// forget removes a hold from its thread without counting it.
func (s *sweep) forget(h *hold, now uint64) {
	h.chosen = false
	s.drop(h, now)
}

// endHold counts a hold.
func (s *sweep) endHold(h *hold, now uint64) {
	l := h.lock
	s.charge(l, now)
	l.holders = slices.DeleteFunc(l.holders, func(o *hold) bool { return o == h })
	if !h.chosen {
		return
	}
	l.used = true
	ticks := now - min(now, h.start)
	l.holds.Add(ticks)
	p := sumOf(l.holdPaths, h.path)
	p.add(ticks)
	p.spend(s.adder.since(&h.thread.selves, h.since))
	if !l.longestSet || ticks > l.longest.Ticks {
		l.longest, l.longestSet = Stay{Thread: h.thread.id, Start: h.start, Ticks: ticks, path: h.path}, true
	}
}
