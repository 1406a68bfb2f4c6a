package requests

import (
	"cmp"
	"math"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Request is the work for a key, up to a long pause.
type Request struct {
	Key, Class string
	// Number is its position among the requests with the same key, by time, from 1.
	Number int
	// Start is the TSC of the first segment, or of when that could begin, if the program says so.
	// End is that of the last one.
	Start, End uint64
	// Segments are ordered by start. A segment inside another one of its thread is
	// part of that.
	Segments []Segment
	Cut      bool // the trace ended before the request

	wakers *sched.Logs // may be nil
	off    []calls.Off // of the parts of Path, if Set.OffKnown
}

// Duration returns the time from Start to End, in ticks.
func (r *Request) Duration() uint64 { return r.End - r.Start }

// Threads returns the number of threads that worked on it.
func (r *Request) Threads() int {
	seen := make(map[int]bool)
	for i := range r.Segments {
		seen[r.Segments[i].Index] = true
	}
	return len(seen)
}

// Choice selects requests.
type Choice struct {
	// Pause is the minimum time between two requests with the same key, in ticks. After it,
	// a segment starts a new request if its function is the one that the request began with.
	// 0 means ten times the median duration.
	Pause uint64
	// Thread, From and To select requests by the thread and time of their start, in ticks.
	// If To is 0, there is no upper limit. A nil Thread selects all threads.
	Thread   func(reader.Thread) bool
	From, To uint64
	// Wakers are the scheduler events of the trace, or nil. With them, critical paths follow
	// wake-ups.
	Wakers *sched.Logs
}

// Set is the requests of a trace.
type Set struct {
	// Requests are ordered by start. Unfinished requests at the end of the trace are only
	// counted, in Cut.
	Requests []Request
	Cut      int
	// Elsewhere counts the requests that the choice omits.
	Elsewhere int
	Threads   int // that worked on requests
	Segments  int
	Reused    int // keys of more than one request
	// Every says that only the requests of one in Every keys were kept. 1 means all.
	Every   uint64
	Outside uint64 // events with a key that were recorded outside of all calls
	// Truncated counts calls whose key was not recorded to its end, which are in no request.
	Truncated uint64
	Pause     uint64 // minimum pause between requests of a key
	// Bounds counts the waits on critical paths before which the program did not say when the request
	// could go on. Their times in queues and handoffs are upper bounds. Waits counts all.
	Bounds, Waits int
	// Shared are keys that several threads work on at once in the same function. Keys that do
	// not identify requests, such as what a register happened to hold, look like this.
	Shared int
	// MostShared is the key of Shared with the most threads at once, MostThreads of them.
	MostShared  string
	MostThreads int
	// OffKnown says that the off-CPU times are known, see [NewWaits].
	OffKnown bool
}

// Requests groups the segments into requests. The collector must not be used afterwards.
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
	set := &Set{Every: 1 << min(c.lowered, 63), Outside: c.Outside, Truncated: c.Truncated, Pause: choice.Pause}
	if set.Pause == 0 {
		set.Pause = usualPause(groups)
	}
	readies := make(map[string][]uint64)
	for _, r := range c.readies {
		readies[r.key] = append(readies[r.key], r.at)
	}
	for _, list := range readies {
		slices.Sort(list)
	}
	threads := make(map[int]bool)
	for _, group := range groups {
		if n := atOnce(group); n > 1 {
			set.Shared++
			if n > set.MostThreads {
				set.MostShared, set.MostThreads = group[0].Key, n
			}
		}
		requests, ready := 0, readies[group[0].Key]
		split(group, set.Pause, func(segments []Segment) {
			requests++
			r := newRequest(segments, requests)
			r.wakers = choice.Wakers
			ready = r.readied(ready)
			first := &r.Segments[0]
			switch {
			case choice.Thread != nil && !choice.Thread(first.Thread), r.Start < choice.From, choice.To > 0 && r.Start >= choice.To:
				set.Elsewhere++
			case r.Cut:
				set.Cut++
			default:
				set.Requests = append(set.Requests, r)
				set.Segments += len(r.Segments)
				waits, bounds := r.waits()
				set.Waits, set.Bounds = set.Waits+waits, set.Bounds+bounds
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

// atOnce returns the maximum number of threads that work on a key at the same time in segments of the
// same function. The segments are ordered by start.
func atOnce(group []Segment) (most int) {
	if !slices.ContainsFunc(group, func(s Segment) bool { return s.Index != group[0].Index }) {
		return 1
	}
	type place struct {
		fn    reader.FuncID
		index int
	}
	type change struct {
		fn   reader.FuncID
		at   uint64
		step int
	}
	covered := make(map[place]uint64) // end of the segments so far
	var changes []change
	for i := range group {
		s := &group[i]
		at := place{s.Func, s.Index}
		if from := max(s.Start, covered[at]); from < s.End {
			covered[at] = s.End
			changes = append(changes, change{s.Func, from, 1}, change{s.Func, s.End, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.fn, b.fn), cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step))
	})
	now := 0
	for _, c := range changes {
		now += c.step
		most = max(most, now)
	}
	return max(most, 1)
}

// usualPause returns ten times the median duration of possible requests.
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

// split divides the segments of a key into requests. If the program resumes requests of the key, each segment that
// is not resumed begins one. Otherwise a request ends at a pause longer than pause, if the next segment has the same
// function as the first.
func split(group []Segment, pause uint64, f func([]Segment)) {
	from, end := 0, group[0].End
	parts := slices.ContainsFunc(group, func(s Segment) bool { return s.Resumed })
	for i := 1; i < len(group); i++ {
		s := &group[i]
		paused := s.Start > end && s.Start-end > pause && s.Func == group[from].Func
		if parts && !s.Resumed || !parts && paused {
			f(group[from:i])
			from, end = i, s.End
		}
		end = max(end, s.End)
	}
	f(group[from:])
}

// newRequest makes a request from the segments of a key.
func newRequest(segments []Segment, number int) Request {
	r := Request{Key: segments[0].Key, Number: number, Start: segments[0].Start, Segments: make([]Segment, 0, len(segments))}
	covered := make(map[int]uint64) // by thread: end of the segments so far
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

// readied finds out when each segment could begin, from the times at which the request could go on. It
// returns the times after the request.
func (r *Request) readied(times []uint64) (later []uint64) {
	for i := range r.Segments {
		s := &r.Segments[i]
		// What was ready before the segment before it began was meant for that or an earlier one.
		for i > 0 && len(times) > 0 && times[0] < r.Segments[i-1].Start {
			times = times[1:]
		}
		if len(times) > 0 && times[0] <= s.Start {
			s.Ready, times = times[0], times[1:]
		}
	}
	if first := &r.Segments[0]; first.Ready != 0 {
		r.Start = first.Ready
	}
	for len(times) > 0 && times[0] < r.Segments[len(r.Segments)-1].Start {
		times = times[1:]
	}
	return times
}

// waits counts the waits of the critical path, and those of them whose segment has no known time at which it
// could begin.
func (r *Request) waits() (all, bounds int) {
	counted := -1
	for _, p := range r.Path() {
		if p.Kind == Run || p.Segment == counted {
			continue
		}
		counted = p.Segment
		all++
		if r.Segments[p.Segment].Ready == 0 {
			bounds++
		}
	}
	return all, bounds
}
