package requests

import (
	"cmp"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Blocked is a time in which a thread slept in a segment, according to the scheduler's
// events.
type Blocked struct {
	Segment    int // in Request.Segments
	Start, End uint64
	Func       reader.FuncID // the innermost call; 0 if there was none, or it is not known
	By         sched.By      // what ended it
	// If By is Thread: the thread, its innermost call, and the request that it worked on, if the
	// set has it.
	Waker      reader.Thread
	WakerFunc  reader.FuncID
	WakerOwner *Request
}

// mostBlocked is the maximum number of Blocked of a request. The longest are kept.
const mostBlocked = 1000

// blocked returns the longest times in which threads slept in a request, ordered by start.
func (r *Request) blocked() []*Blocked {
	var list []*Blocked
	byLength := func(a, b *Blocked) int {
		return cmp.Or(cmp.Compare(b.End-b.Start, a.End-a.Start), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Segment, b.Segment))
	}
	for i := range r.Segments {
		s := &r.Segments[i]
		off := r.wakers.Off(s.Thread, s.Start, s.End)
		for n := range off {
			o := &off[n]
			if o.Runnable() || o.Woken <= o.Out || o.Doubtful || o.Out < s.Start || o.Woken > s.End {
				continue
			}
			b := &Blocked{Segment: i, Start: o.Out, End: o.Woken}
			b.Waker, b.By = r.wakers.Waker(s.Thread, o)
			list = append(list, b)
		}
		if len(list) > 2*mostBlocked {
			slices.SortFunc(list, byLength)
			list = list[:mostBlocked]
		}
	}
	slices.SortFunc(list, byLength)
	list = list[:min(len(list), mostBlocked)]
	slices.SortFunc(list, func(a, b *Blocked) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Segment, b.Segment))
	})
	return list
}

// Sleeps are the times in which threads slept in the requests that are shown. All shards of
// [Trees] share them.
type Sleeps struct {
	of      map[*Request][]*Blocked
	threads map[reader.Thread]*sleepers
}

// sleepers has the times that a thread slept, and those that it ended, ordered by time.
type sleepers struct {
	slept   []*Blocked
	ended   []*Blocked
	pending []*Blocked // ended by the end of the latest call, and in no call so far
}

// NewSleeps returns the sleep times of the requests that are shown, and which requests of the
// set they waited for. It is nil if the trace has no scheduler events.
func NewSleeps(set *Set, shown []*Request) *Sleeps {
	s := &Sleeps{make(map[*Request][]*Blocked), make(map[reader.Thread]*sleepers)}
	thread := func(id reader.Thread) *sleepers {
		if s.threads[id] == nil {
			s.threads[id] = new(sleepers)
		}
		return s.threads[id]
	}
	for _, r := range shown {
		if r.wakers == nil {
			return nil
		}
		s.of[r] = r.blocked()
		for _, b := range s.of[r] {
			t := thread(r.Segments[b.Segment].Thread)
			t.slept = append(t.slept, b)
			if b.By == sched.ByThread {
				t = thread(b.Waker)
				t.ended = append(t.ended, b)
			}
		}
	}
	for _, t := range s.threads {
		slices.SortStableFunc(t.slept, func(a, b *Blocked) int { return cmp.Compare(a.Start, b.Start) })
		slices.SortStableFunc(t.ended, func(a, b *Blocked) int { return cmp.Compare(a.End, b.End) })
	}
	for i := range set.Requests {
		r := &set.Requests[i]
		for n := range r.Segments {
			if t := s.threads[r.Segments[n].Thread]; t != nil {
				t.own(r, &r.Segments[n])
			}
		}
	}
	return s
}

// own records the request of a thread's segment.
func (t *sleepers) own(r *Request, s *Segment) {
	at := sort.Search(len(t.ended), func(i int) bool { return t.ended[i].End >= s.Start })
	for ; at < len(t.ended) && t.ended[at].End <= s.End; at++ {
		t.ended[at].WakerOwner = r
	}
}

// find finds the innermost calls of the threads that slept and of those that woke them.
func (s *Sleeps) find(b *calls.Batch) {
	if s == nil || s.threads[b.Thread] == nil {
		return
	}
	t := s.threads[b.Thread]
	for i := range b.Gaps {
		g := &b.Gaps[i]
		for ; len(t.slept) > 0 && t.slept[0].Start < g.To; t.slept = t.slept[1:] {
			if g.From <= t.slept[0].Start {
				t.slept[0].Func = g.Func
			}
		}
	}
	for i := range b.Calls {
		if len(t.ended)+len(t.pending) == 0 {
			return
		}
		c := &b.Calls[i]
		for ; len(t.ended) > 0 && t.ended[0].End <= c.Start+c.Duration; t.ended = t.ended[1:] {
			t.pending = append(t.pending, t.ended[0])
		}
		n := len(t.pending)
		for ; n > 0 && t.pending[n-1].End >= c.Start; n-- {
			t.pending[n-1].WakerFunc = c.Func
		}
		t.pending = t.pending[:n]
	}
}
