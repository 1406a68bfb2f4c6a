package requests

import (
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Kind is the kind of a step.
type Kind uint8

const (
	Run Kind = iota // a segment
	// Queue is the time before a segment in which its thread worked on another request.
	Queue
	// Handoff is the rest of the time between two segments.
	Handoff
	// Suspended is the time between two segments before the program said that the request could go
	// on.
	Suspended
)

// String returns the name in reports.
func (k Kind) String() string { return [...]string{"run", "queue", "handoff", "suspended"}[k] }

// Step is the key by which times of requests are added up: the run of a function, or the time
// between two functions.
type Step struct {
	Kind     Kind
	From, To reader.FuncID // From is 0 for runs, and before the first segment
}

// Part is a part of a critical path.
type Part struct {
	Step
	Start, End uint64
	Segment    int // in Request.Segments: the one that runs or comes next
	// Off is the part of the time in which the thread of the segment was off CPU,
	// if Set.OffKnown. It is 0 for queues.
	Off calls.Off
}

// offKnown reports whether the off-CPU time of the segment's thread is that of the step. In a queue or
// suspended, the thread works for others.
func (s Step) offKnown() bool { return s.Kind == Run || s.Kind == Handoff }

// Path returns the critical path of a request: if a part of it had been shorter, the
// request would have ended sooner. It is found backwards from the end. From the start of a
// segment, it continues with the segment that was running then, or that had ended last.
// From where another segment of the request woke a segment, it continues with the waker.
// Parts follow each other without gaps, from the start of the request to its end.
func (r *Request) Path() []Part {
	last := r.lastEnds()
	at, now := last[len(last)-1], r.End
	var parts []Part
	follow := r.follower()
	for {
		cur := &r.Segments[at]
		if by, woken, ok := follow.back(at, now); ok {
			parts = append(parts, Part{Step: Step{Kind: Run, To: cur.Func}, Start: woken, End: now, Segment: at})
			at, now = by, woken
			continue
		}
		parts = append(parts, Part{Step: Step{Kind: Run, To: cur.Func}, Start: cur.Start, End: now, Segment: at})
		now = cur.Start
		// Segments that began earlier.
		before := at
		for before > 0 && r.Segments[before-1].Start == now {
			before--
		}
		if before == 0 {
			parts = cur.wait(parts, r.Start, now, 0, at)
			break
		}
		next := last[before-1]
		if r.Segments[next].End >= now {
			// The latest of those that were running.
			for next = before - 1; r.Segments[next].End < now; next-- {
			}
			at = next
			continue
		}
		prev := &r.Segments[next]
		parts = cur.wait(parts, prev.End, now, prev.Func, at)
		at, now = next, prev.End
	}
	slices.Reverse(parts)
	for i := range r.off {
		parts[i].Off = r.off[i]
	}
	return parts
}

// wait appends the parts of the time between a segment in function prev and this one, number at of its request,
// from the last.
func (s *Segment) wait(parts []Part, from, to uint64, prev reader.FuncID, at int) []Part {
	ready := min(max(s.Ready, from), to)
	busy := min(max(s.Busy, ready), to)
	for _, p := range [...]Part{
		{Step: Step{Kind: Handoff}, Start: busy, End: to},
		{Step: Step{Kind: Queue}, Start: ready, End: busy},
		{Step: Step{Kind: Suspended}, Start: from, End: ready},
	} {
		if p.Start < p.End {
			p.From, p.To, p.Segment = prev, s.Func, at
			parts = append(parts, p)
		}
	}
	return parts
}

// follower finds the wake-ups between the segments of a request. A nil one finds none.
type follower struct {
	r     *Request
	sleep map[int][]sched.Off // by segment: stretches that are not examined
	of    map[reader.Thread][]int
}

func (r *Request) follower() *follower {
	if r.wakers == nil || len(r.Segments) < 2 {
		return nil
	}
	f := &follower{r, make(map[int][]sched.Off), make(map[reader.Thread][]int)}
	for i := range r.Segments {
		f.of[r.Segments[i].Thread] = append(f.of[r.Segments[i].Thread], i)
	}
	return f
}

// back returns the last segment that woke segment at before now, and when. Later wake-ups of
// the segment are no longer needed after this call.
func (f *follower) back(at int, now uint64) (by int, woken uint64, ok bool) {
	if f == nil || len(f.of) < 2 {
		return 0, 0, false
	}
	s := &f.r.Segments[at]
	list, seen := f.sleep[at]
	if !seen {
		list = f.r.wakers.Off(s.Thread, s.Start, s.End)
	}
	for ; len(list) > 0; list = list[:len(list)-1] {
		o := &list[len(list)-1]
		if o.Woken >= now || o.Woken <= s.Start {
			continue
		}
		waker, how := f.r.wakers.Waker(s.Thread, o)
		if how != sched.ByThread || waker == s.Thread {
			continue
		}
		if by = f.at(waker, o.Woken); by >= 0 {
			f.sleep[at] = list[:len(list)-1]
			return by, o.Woken, true
		}
	}
	f.sleep[at] = nil
	return 0, 0, false
}

// at returns the segment in which a thread was, or -1.
func (f *follower) at(t reader.Thread, tsc uint64) int {
	list := f.of[t]
	i := sort.Search(len(list), func(i int) bool { return f.r.Segments[list[i]].Start >= tsc }) - 1
	if i < 0 || f.r.Segments[list[i]].End < tsc {
		return -1
	}
	return list[i]
}

// lastEnds returns, for each segment, which of the segments up to it ends last. If several do, it is
// the latest.
func (r *Request) lastEnds() []int {
	last := make([]int, len(r.Segments))
	for i := range r.Segments {
		last[i] = i
		if i > 0 && r.Segments[last[i-1]].End > r.Segments[i].End {
			last[i] = last[i-1]
		}
	}
	return last
}
