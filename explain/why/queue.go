package why

import (
	"cmp"
	"fmt"
	"slices"
)

// Queue is how calls wait that are blocked in a function at the same time: the first one is blocked for a reason of
// its own, and the others behind it, as for a lock that it holds.
type Queue struct {
	First  int // calls that no other one is known to keep waiting
	Behind int // calls that are blocked while an earlier one is, and go on right after it
}

// text describes the queue.
func (q *Queue) text() string {
	return fmt.Sprintf("%d of the waits begin behind another call that is blocked there, and end right after it", q.Behind)
}

const (
	// minQueue is the minimum part of the calls that are blocked at the same time as an earlier one and go on right
	// after it.
	minQueue = 0.7
	// rightAfter is the time between the ends of such calls, as a part of the time for which the earlier one is blocked.
	rightAfter = 0.1
	// maxOthers is how many waits at other times each of these calls is compared with.
	maxOthers = 100
)

// blockedWait is the longest wait of a slow call in a function.
type blockedWait struct {
	span
	call *rootCall
}

// follows reports whether a wait that lasts for some time from w's beginning on ends right after another one.
func (w *blockedWait) follows(o *blockedWait, ticks uint64) bool {
	end := w.from + ticks
	return end >= o.to && float64(end-o.to) <= rightAfter*float64(o.ticks())
}

// queueOf returns how the calls that a lead dominates wait for each other, or nil. Only threads of one process do. Calls
// that have nothing to do with each other do not end together if their waits take as long as those at other times.
func (e *evidence) queueOf(l *lead) *Queue {
	var list []blockedWait
	for _, i := range l.dominated {
		if h, ok := e.holeOf(l, i); ok {
			list = append(list, blockedWait{span{h.start, h.end}, &e.slow[i]})
		}
	}
	slices.SortStableFunc(list, func(a, b blockedWait) int { return cmp.Compare(a.from, b.from) })
	var q Queue
	together, expected := 0, 0.0 // calls that are blocked while an earlier one is, and how many of them chance lets end right after it
	var open []int               // indices in list
	for n := range list {
		w := &list[n]
		open = slices.DeleteFunc(open, func(i int) bool { return list[i].to <= w.from })
		first := slices.IndexFunc(open, func(i int) bool {
			o := list[i].call
			return o.thread != w.call.thread && o.id.File == w.call.id.File && o.id.Process == w.call.id.Process
		})
		open = append(open, n)
		if first < 0 {
			q.First++
			continue
		}
		together++
		o := &list[open[first]]
		if w.follows(o, w.ticks()) {
			q.Behind++
		}
		as, of := 0, 0
		for k := 0; k < len(list); k += 1 + len(list)/maxOthers {
			if x := &list[k]; x.to <= o.from || x.from >= max(o.to, w.to) {
				of++
				if w.follows(o, x.ticks()) {
					as++
				}
			}
		}
		expected += float64(as+1) / float64(of+1)
	}
	if together < enough || float64(q.Behind) < minQueue*float64(together) || binomialTail(together, q.Behind, expected/float64(together)) > coincidence {
		return nil
	}
	return &q
}

// queuedFor reports whether another thread waits for a CPU for half of a cause's gaps. Then calls may wait for that
// thread, and the first of them is no reason.
func queuedFor(cause int, gaps []gap, queued []uint64) bool {
	var waited, all uint64
	for i, g := range gaps {
		if g.cause == cause && g.copy == 0 {
			waited += queued[i]
			all += g.end - g.start
		}
	}
	return 2*waited >= all
}
