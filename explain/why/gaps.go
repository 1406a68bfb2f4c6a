package why

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/xray-tools/xray/reader"
)

const (
	maxGaps = 100 // maximum number of gaps examined for a cause
	copies  = 20  // number of copies of each gap, at other times of the trace
)

// gap is a time that slow calls lost, or a copy of it at another time.
type gap struct {
	start, end uint64
	thread     int     // the thread that lost the time
	cause      int     // index of a named lead; the number of these leads stands for the rest
	copy       int     // 0 for the gap itself
	lock       lockKey // the lock that the thread waited for; zero if none
}

// waiter returns the function of a lead that waits, if any does. For a new path, it is the
// function with most of the time.
func (e *evidence) waiter(l *lead) reader.FuncID {
	if l.kind == NewPath {
		return e.tree.steps[e.most(l.nodes[0], l.dominated)].fn
	}
	return l.fn
}

// pathOf returns the functions around a lead, including itself, and those below a new path.
func (e *evidence) pathOf(l *lead) map[reader.FuncID]bool {
	path := make(map[reader.FuncID]bool)
	for _, n := range l.nodes {
		if l.kind == NewPath {
			n = e.most(n, l.dominated)
		}
		for ; n > 0; n = e.tree.steps[n].parent {
			path[e.tree.steps[n].fn] = true
		}
	}
	return path
}

// gapsOf returns the longest holes of the calls that a lead dominates. fn waits in them, if
// its role says so.
func (e *evidence) gapsOf(l *lead, cause int, fn reader.FuncID, role Role, processOf func(reader.Thread) process) []gap {
	var gaps []gap
	for _, i := range l.dominated {
		process := processOf(e.slow[i].id)
		if h, ok := e.holeOf(l, i); ok {
			g := gap{start: h.start, end: h.end, thread: e.slow[i].thread, cause: cause}
			if role == Locks {
				g.lock = key(process, fn, max(h.lock, l.lock))
			}
			gaps = append(gaps, g)
		}
	}
	return someOf(gaps)
}

// restGaps returns the longest holes of the slow calls that no named lead dominates. In a
// trace with off-CPU times, it returns the longest times in the run queue of all slow calls.
func (e *evidence) restGaps(cause int) []gap {
	named := make(map[int]bool)
	for _, l := range e.leads {
		if l.named {
			for _, i := range l.dominated {
				named[i] = true
			}
		}
	}
	var gaps []gap
	for i := range e.slow {
		var longest hole
		for _, v := range e.slow[i].visits {
			if v.hole.ticks() > longest.ticks() {
				longest = v.hole
			}
		}
		if e.offCPU {
			longest = hole{start: e.slow[i].queue.from, end: e.slow[i].queue.to}
			if float64(longest.ticks()) > dominance*(e.excess[i]+e.foreign[i]) {
				gaps = append(gaps, gap{start: longest.start, end: longest.end, thread: e.slow[i].thread, cause: cause})
			}
			continue
		}
		if !named[i] && float64(longest.ticks()) > dominance*e.excess[i] {
			gaps = append(gaps, gap{start: longest.start, end: longest.end, thread: e.slow[i].thread, cause: cause})
		}
	}
	return someOf(gaps)
}

// someOf returns at most maxGaps of the gaps, the longest first.
func someOf(gaps []gap) []gap {
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(b.end-b.start, a.end-a.start) })
	if len(gaps) <= maxGaps {
		return gaps
	}
	// Take some of every length, because the longest may have a cause of their own.
	for i := range maxGaps {
		gaps[i] = gaps[i*len(gaps)/maxGaps]
	}
	return gaps[:maxGaps]
}

// holeOf returns the longest hole of a slow call in the function of a lead, or on a new
// path.
func (e *evidence) holeOf(l *lead, i int) (longest hole, ok bool) {
	blocked := l.kind == Blocked || l.kind == NewPath && l.isBlocked()
	for _, v := range e.slow[i].visits {
		at := v.node
		if l.kind == NewPath {
			at = e.rare[at]
		}
		h := v.hole
		if blocked {
			h = hole{start: v.block.from, end: v.block.to, lock: h.lock}
		}
		if slices.Contains(l.nodes, at) && h.ticks() > longest.ticks() {
			longest, ok = h, true
		}
	}
	return longest, ok
}

// isBlocked reports whether the thread is blocked for most of the time.
func (l *lead) isBlocked() bool { return l.blocked > 0.5 }

// joined sorts spans, and merges those that overlap.
func joined(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := spans[:1]
	for _, s := range spans[1:] {
		if last := &out[len(out)-1]; s.from <= last.to {
			last.to = max(last.to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// victims returns the times in which threads lost time to a cause, so that waiting threads
// are not mistaken for holders.
func (e *evidence) victims(l *lead) map[int][]span {
	v := make(map[int][]span)
	for i := range e.slow {
		if l.x[i] > dominance*e.excess[i] {
			if h, ok := e.holeOf(l, i); ok {
				t := e.slow[i].thread
				v[t] = append(v[t], span{h.start, h.end})
			}
		}
	}
	return v
}

// shifted adds copies of the gaps at other times that the trace covers, wrapping around at its end. The
// times are sorted, and not empty. A copy is inside one of them, and shorter if it does not fit.
func shifted(gaps []gap, covered []span, seed uint64) []gap {
	rng := rand.New(rand.NewPCG(seed, copies))
	ends := make([]uint64, len(covered)) // covered time up to the end of each span
	total := uint64(0)
	for i, s := range covered {
		total += s.to - s.from
		ends[i] = total
	}
	n := len(gaps)
	for c := 1; c <= copies; c++ {
		offset := rng.Uint64N(total)
		for _, g := range gaps[:n] {
			i, _ := slices.BinarySearchFunc(covered, g.start, func(s span, at uint64) int { return cmp.Compare(s.to, at) })
			i = min(i, len(covered)-1)
			at := ends[i] - (covered[i].to - max(covered[i].from, min(g.start, covered[i].to)))
			at = (at + offset) % total
			i, _ = slices.BinarySearchFunc(ends, at, func(end, at uint64) int {
				if end <= at {
					return -1
				}
				return 1
			})
			s := covered[i]
			length := min(g.end-g.start, s.to-s.from)
			g.start = min(s.to-(ends[i]-at), s.to-length)
			g.end, g.copy = g.start+length, c
			gaps = append(gaps, g)
		}
	}
	return gaps
}
