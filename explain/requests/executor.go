package requests

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Occupants is a pass that finds what threads did while requests waited for them. It is an analysis, and
// needs no calls.Options and no filter. All shards share one, because each thread belongs to one shard.
//
// A call that was open at the end of a wait, such as the executor's loop, is not what the request waited for.
type Occupants struct {
	of      map[waitKey]*occupied
	threads map[int]*occupiedTimes
}

// waitKey identifies a wait: the start of the segment after it, on its thread, and of the wait.
type waitKey struct {
	index          int
	segment, start uint64
}

// occupied is a wait for a thread.
type occupied struct {
	start, end uint64
	key        string // of the request that waits
	list       []Occupant
}

// occupiedTimes are the waits for a thread, by the number of bits of their length and then by start.
type occupiedTimes [65][]*occupied

// Occupant is a call during a wait, or the part of it that lies in the wait. Segments of other requests are
// occupants, too, with the function [reader.OtherRequest].
type Occupant struct {
	Func       reader.FuncID
	Start, End uint64
	Key, Class string // of the other request; "" for calls
	depth      int    // number of calls around it; -1 for requests
}

const (
	// leastOccupied is one over the part of a wait that a call covers at least, and leastOther that of another
	// request.
	leastOccupied = 10
	leastOther    = 100
	// mostOccupants limits the occupants of a wait, of which the outermost are kept.
	mostOccupants = 64
	// leastWait is one over the part of a request that a wait takes at least for its occupants to be found.
	leastWait = 50
)

// NewOccupants returns an empty pass over the waits of some requests. all has the requests that they may have
// waited for.
func NewOccupants(requests []*Request, all *Set) *Occupants {
	o := &Occupants{make(map[waitKey]*occupied), make(map[int]*occupiedTimes)}
	for _, r := range requests {
		parts := r.Path()
		for i := range parts {
			w, ok := r.executorWait(parts, i)
			if !ok || leastWait*(w.End-w.Start) < r.Duration() {
				continue
			}
			s := &r.Segments[w.Segment]
			key := waitKey{s.Index, s.Start, w.Start}
			if o.of[key] != nil {
				continue
			}
			wait := &occupied{start: w.Start, end: w.End, key: r.Key}
			o.of[key] = wait
			t := o.threads[s.Index]
			if t == nil {
				t = new(occupiedTimes)
				o.threads[s.Index] = t
			}
			n := bits.Len64(w.End - w.Start)
			t[n] = append(t[n], wait)
		}
	}
	for _, t := range o.threads {
		for _, list := range t {
			slices.SortStableFunc(list, func(a, b *occupied) int { return cmp.Compare(a.start, b.start) })
		}
	}
	for i := range all.Requests {
		r := &all.Requests[i]
		for n := range r.Segments {
			s := &r.Segments[n]
			if t := o.threads[s.Index]; t != nil {
				t.add(Occupant{reader.OtherRequest, s.Start, s.End, r.Key, r.Class, -1}, leastOther)
			}
		}
	}
	return o
}

// executorWait returns the wait for a thread that begins with a part: its queue and handoff. Part i is the
// first of them.
func (r *Request) executorWait(parts []Part, i int) (Part, bool) {
	w := parts[i]
	if w.Kind != Queue && w.Kind != Handoff || i > 0 && parts[i-1].Kind == Queue && parts[i-1].Segment == w.Segment {
		return w, false
	}
	if i+1 < len(parts) && parts[i+1].Kind == Handoff && parts[i+1].Segment == w.Segment {
		w.End = parts[i+1].End
	}
	return w, true
}

// add adds a call or another request to the waits of which it covers enough.
func (t *occupiedTimes) add(c Occupant, least uint64) {
	longest := bits.Len64(least * (c.End - c.Start))
	for n := 1; n <= min(longest, 64); n++ {
		list := t[n]
		most := uint64(1)<<n - 1 // length of these waits
		at := sort.Search(len(list), func(i int) bool { return list[i].start+most > c.Start })
		for ; at < len(list) && list[at].start < c.End; at++ {
			w := list[at]
			from, to := max(c.Start, w.start), min(c.End, w.end)
			if c.Key == w.key || c.End > w.end || from >= to || least*(to-from) < w.end-w.start {
				continue
			}
			w.list = append(w.list, Occupant{c.Func, from, to, c.Key, c.Class, c.depth})
			if len(w.list) >= 2*mostOccupants {
				w.cut()
			}
		}
	}
}

// cut orders the occupants, outer ones before those inside, and keeps the outermost.
func (w *occupied) cut() {
	slices.SortStableFunc(w.list, func(a, b Occupant) int {
		return cmp.Or(cmp.Compare(b.End-b.Start, a.End-a.Start), cmp.Compare(a.Start, b.Start), cmp.Compare(a.depth, b.depth))
	})
	w.list = w.list[:min(len(w.list), mostOccupants)]
}

// Calls takes the next calls of a thread.
func (o *Occupants) Calls(b *calls.Batch) error {
	t := o.threads[b.Index]
	if t == nil {
		return nil
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		t.add(Occupant{Func: c.Func, Start: c.Start, End: c.Start + c.Duration, depth: int(c.Depth)}, leastOccupied)
	}
	return nil
}

// Merge implements calls.Analysis.
func (o *Occupants) Merge(*Occupants) {}

var _ calls.Analysis[*Occupants] = (*Occupants)(nil)

// Of returns what the thread of a wait did in it, by start, outer calls before those inside them. Occupants do
// not overlap otherwise. w is the first part of the wait. o may be nil.
func (o *Occupants) Of(r *Request, w *Part) []Occupant {
	if o == nil {
		return nil
	}
	s := &r.Segments[w.Segment]
	found := o.of[waitKey{s.Index, s.Start, w.Start}]
	if found == nil {
		return nil
	}
	found.cut()
	list := slices.Clone(found.list)
	slices.SortStableFunc(list, func(a, b Occupant) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End), cmp.Compare(a.depth, b.depth))
	})
	var open []uint64 // ends
	for i := range list {
		for len(open) > 0 && open[len(open)-1] <= list[i].Start {
			open = open[:len(open)-1]
		}
		if n := len(open); n > 0 {
			list[i].End = min(list[i].End, open[n-1])
		}
		open = append(open, list[i].End)
	}
	return list
}
