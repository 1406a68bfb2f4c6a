package requests

import (
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Kind is the kind of a step.
type Kind uint8

const (
	Run Kind = iota // a segment
	// Queue is the time before a segment in which its thread worked on another request.
	Queue
	// Handoff is the rest of the time between two segments.
	Handoff
)

// String returns the name in reports.
func (k Kind) String() string { return [...]string{"run", "queue", "handoff"}[k] }

// Step is the key by which the time of requests is added up: the run of a function, or the
// time between two.
type Step struct {
	Kind     Kind
	From, To reader.FuncID // From is 0 for runs
}

// Part is a part of a critical path.
type Part struct {
	Step
	Start, End uint64
	Segment    int // in Request.Segments: the one that runs or comes next
}

// Path returns the critical path of a request: if a part of it had been shorter, the
// request would have ended sooner. It is found backwards from the end. From the start of a
// segment, it continues with the segment that was running then, or that had ended last.
// Parts follow each other without gaps, from the start of the request to its end.
func (r *Request) Path() []Part {
	last := r.lastEnds()
	at, now := last[len(last)-1], r.End
	var parts []Part
	for {
		cur := &r.Segments[at]
		parts = append(parts, Part{Step{Kind: Run, To: cur.Func}, cur.Start, now, at})
		now = cur.Start
		// Segments that began before.
		before := at
		for before > 0 && r.Segments[before-1].Start == now {
			before--
		}
		if before == 0 {
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
		busy := min(max(cur.Busy, prev.End), now)
		if busy < now {
			parts = append(parts, Part{Step{Handoff, prev.Func, cur.Func}, busy, now, at})
		}
		if busy > prev.End {
			parts = append(parts, Part{Step{Queue, prev.Func, cur.Func}, prev.End, busy, at})
		}
		at, now = next, prev.End
	}
	slices.Reverse(parts)
	return parts
}

// lastEnds returns, for each segment, which of the segments up to it ends last, and of
// several the latest.
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
