package kernel

import (
	"cmp"
	"slices"
)

// Queue puts the events of several CPUs into the order of time. Those of each CPU come in order. It is
// not safe for concurrent use.
type Queue struct {
	byCPU [][]Event
	heads []queued // of CPUs with events, the earliest first; used by Until
}

// queued is the first event of a CPU that Until has not passed on.
type queued struct {
	time  uint64
	cpu   uint16
	index int
}

// Push adds a copy of an event.
func (q *Queue) Push(e *Event) {
	for len(q.byCPU) <= int(e.CPU) {
		q.byCPU = append(q.byCPU, nil)
	}
	q.byCPU[e.CPU] = append(q.byCPU[e.CPU], *e)
}

// Until removes the events before a time, and calls each with them. Events with equal times are in the
// order of their CPUs. They are valid during the call.
func (q *Queue) Until(time uint64, each func(*Event)) {
	q.heads = q.heads[:0]
	for cpu, list := range q.byCPU {
		if len(list) > 0 {
			q.heads = append(q.heads, queued{list[0].Time, uint16(cpu), 0})
		}
	}
	order := func(a, b queued) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.cpu, b.cpu)) }
	slices.SortFunc(q.heads, order)
	for rest := q.heads; len(rest) > 0 && rest[0].time < time; {
		h, list := &rest[0], q.byCPU[rest[0].cpu]
		each(&list[h.index])
		if h.index++; h.index == len(list) {
			q.byCPU[h.cpu] = list[:0]
			rest = rest[1:]
			continue
		}
		h.time = list[h.index].Time
		for i := 1; i < len(rest) && order(rest[i-1], rest[i]) > 0; i++ {
			rest[i-1], rest[i] = rest[i], rest[i-1]
		}
	}
	for _, h := range q.heads {
		if list := q.byCPU[h.cpu]; h.index < len(list) {
			q.byCPU[h.cpu] = append(list[:0], list[h.index:]...)
		}
	}
}
