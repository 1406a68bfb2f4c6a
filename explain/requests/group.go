package requests

import (
	"cmp"
	"math"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
)

// Request is what was done for a key, up to a long pause.
type Request struct {
	Key, Class string
	// Number is its place among the requests of the key, by time, from 1 on.
	Number     int
	Start, End uint64 // TSC of the first and the last segment
	// Segments are ordered by start. Those inside others of their thread are part of
	// these.
	Segments []Segment
	Cut      bool // the trace ended first
}

// Duration is in ticks.
func (r *Request) Duration() uint64 { return r.End - r.Start }

// Threads is how many threads worked on it.
func (r *Request) Threads() int {
	seen := make(map[int]bool)
	for i := range r.Segments {
		seen[r.Segments[i].Index] = true
	}
	return len(seen)
}

// Choice says which requests are looked at.
type Choice struct {
	// Pause is the time without a segment, in ticks, after which a key that comes back
	// in the function that the request began with is another request; ten times the
	// median duration when 0.
	Pause uint64
	// Thread, From and To choose by where and when requests begin, in ticks; To 0 is no
	// bound, and a nil Thread chooses all.
	Thread   func(reader.Thread) bool
	From, To uint64
}

// Set is the requests of a trace.
type Set struct {
	// Requests are ordered by start. Those that the trace's end cut off are counted in
	// Cut alone.
	Requests []Request
	Cut      int
	Threads  int // that worked on requests
	Segments int
	Reused   int // keys that several requests had
	// Every tells that only the requests of one in so many keys were kept; 1 is all.
	Every   uint64
	Outside uint64 // events with a key that were recorded outside of all calls
	Pause   uint64 // that tells requests of a key apart
}

// Requests puts the segments together. The collector must not be used again.
func (c *Collector) Requests(choice Choice) *Set {
	list := c.segments
	slices.SortFunc(list, func(a, b Segment) int { return cmp.Or(cmp.Compare(a.Key, b.Key), a.compare(&b)) })
	var groups [][]Segment
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].Key == list[from].Key {
			to++
		}
		groups = append(groups, list[from:to])
		from = to
	}
	set := &Set{Every: 1 << min(c.lowered, 63), Outside: c.Outside, Pause: choice.Pause}
	if set.Pause == 0 {
		set.Pause = usualPause(groups)
	}
	threads := make(map[int]bool)
	for _, group := range groups {
		requests := 0
		split(group, set.Pause, func(segments []Segment) {
			requests++
			r := newRequest(segments, requests)
			first := &r.Segments[0]
			switch {
			case choice.Thread != nil && !choice.Thread(first.Thread), r.Start < choice.From, choice.To > 0 && r.Start >= choice.To:
			case r.Cut:
				set.Cut++
			default:
				set.Requests = append(set.Requests, r)
				set.Segments += len(r.Segments)
				for i := range r.Segments {
					threads[r.Segments[i].Index] = true
				}
			}
		})
		if requests > 1 {
			set.Reused++
		}
	}
	set.Threads = len(threads)
	slices.SortFunc(set.Requests, func(a, b Request) int {
		return cmp.Or(a.Segments[0].compare(&b.Segments[0]), cmp.Compare(a.Key, b.Key))
	})
	return set
}

// usualPause is ten times the median duration of what might be requests.
func usualPause(groups [][]Segment) uint64 {
	var durations quantile.Sample
	for _, group := range groups {
		split(group, 0, func(segments []Segment) { r := newRequest(segments, 1); durations.Add(r.Duration()) })
	}
	if durations.Count() == 0 {
		return 0
	}
	median := durations.Quantile(0.5)
	return min(median, math.MaxUint64/10) * 10
}

// split divides the segments of a key where nothing happens for longer than pause, and
// the next segment is of the function that the first was of.
func split(group []Segment, pause uint64, f func([]Segment)) {
	from, end := 0, group[0].End
	for i := 1; i < len(group); i++ {
		s := &group[i]
		if s.Start > end && s.Start-end > pause && s.Func == group[from].Func {
			f(group[from:i])
			from, end = i, s.End
		}
		end = max(end, s.End)
	}
	f(group[from:])
}

// newRequest makes a request of the segments of a key.
func newRequest(segments []Segment, number int) Request {
	r := Request{Key: segments[0].Key, Number: number, Start: segments[0].Start, Segments: make([]Segment, 0, len(segments))}
	covered := make(map[int]uint64) // by thread: end of what was there so far
	for i := range segments {
		s := &segments[i]
		r.End, r.Cut = max(r.End, s.End), r.Cut || s.Cut
		if r.Class == "" {
			r.Class = s.Class
		}
		if end, ok := covered[s.Index]; ok && s.End <= end {
			continue
		}
		covered[s.Index] = s.End
		r.Segments = append(r.Segments, *s)
	}
	return r
}
