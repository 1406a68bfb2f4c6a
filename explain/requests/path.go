package requests

import (
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Kind says what a request spends time on.
type Kind uint8

const (
	Run Kind = iota // a segment
	// Queue is the time before a segment during which its thread worked on another
	// request.
	Queue
	// Handoff is the rest of the time between two segments.
	Handoff
)

// String is the word that reports use.
func (k Kind) String() string { return [...]string{"run", "queue", "handoff"}[k] }

// Step is what the time of requests is added up by: the run of a function, or the time
// between two.
type Step struct {
	Kind     Kind
	From, To reader.FuncID // From is 0 for runs
}

// Part is a stretch of a critical path.
type Part struct {
	Step
	Start, End uint64
	Segment    int // in Request.Segments: that which runs, or which comes next
}

// Path is the critical path of a request: what, had it been shorter, would have let the
// request end sooner. It is found from the end on: a segment ran since its start; it
// could not start before that which ran at the time, or which ended last, had come so
// far. Parts follow each other without gaps, from the start of the request to its end.
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

// lastEnds gives, for each segment, which of it and those before ends last; the latest
// of several.
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
