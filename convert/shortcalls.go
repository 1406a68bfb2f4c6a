package convert

import (
	"slices"
	"unsafe"

	"github.com/xray-tools/xray/reader/calls"
)

// leftOutName is the name of a run of omitted calls in timelines.
const leftOutName = "calls omitted"

// shortCalls finds what a timeline shows of a thread's calls that it omits because they take less
// than min ticks: runs of such calls, and their number in each time span. A nil *shortCalls shows
// nothing.
type shortCalls struct {
	min    uint64
	levels []shortLevel // by depth
	clean  int          // no level above this one has a run that can continue
	memory *int64       // bytes of levels, of all threads together
	run    func(*shortRun)

	rate   leftOutRate
	sample func(tsc, n uint64) // n calls ended in the span that begins at tsc
}

// shortRun is a run of consecutive omitted calls of one caller, with pauses of less than min ticks.
// A run is not shown if its calls take less than min ticks together. So the length of the trace
// limits the number of runs.
type shortRun struct {
	start, end uint64
	took       uint64 // ticks in the calls
	calls      uint64 // number of these calls and their callees
	depth      uint32
}

// shortLevel has the omitted calls of one depth in the innermost enclosing call.
type shortLevel struct {
	shortRun        // the last run; without calls if it cannot continue
	total    uint64 // number of omitted calls, in all runs
}

const shortLevelBytes = int64(unsafe.Sizeof(shortLevel{}))

// leftOutRate counts the omitted calls of the current time span.
type leftOutRate struct {
	base, every uint64 // spans begin at base and last every ticks; 0 counts nothing
	span        uint64 // number of the span
	n           uint64
}

// shortCalls returns a shortCalls for a thread, or nil if the timeline does not show omitted calls.
// It adds the bytes of its memory to *memory.
func (o *Options) shortCalls(memory *int64, run func(*shortRun), sample func(tsc, n uint64)) *shortCalls {
	if o.LeftOut == "" {
		return nil
	}
	return &shortCalls{min: o.Shortest, memory: memory, run: run, rate: leftOutRate{base: o.Base, every: o.LeftOutEvery}, sample: sample}
}

// enter handles the start of a call of that depth. Writers without entries do not call it.
func (s *shortCalls) enter(depth uint32) {
	if s != nil && len(s.levels) > int(depth)+1 {
		// These runs are inside calls of functions that were not selected.
		s.closeBelow(depth, 0)
	}
}

// before ends the run before a call of that depth that is shown.
func (s *shortCalls) before(depth uint32) {
	if s != nil && len(s.levels) > int(depth) {
		s.close(&s.levels[depth])
	}
}

// leave handles the next call that ends. If it is shown, so are its callers. Then leave shows the
// runs before these, the outermost first, and those inside the call.
func (s *shortCalls) leave(c *calls.Call, shown bool) {
	if s == nil {
		return
	}
	if shown {
		for ; s.clean <= int(c.Depth); s.clean++ {
			s.before(uint32(s.clean))
		}
	}
	inside := s.closeBelow(c.Depth, c.Start)
	if shown {
		return
	}
	s.clean = min(s.clean, int(c.Depth))
	if n := int(c.Depth) + 1; n > len(s.levels) {
		before := cap(s.levels)
		s.levels = slices.Grow(s.levels, n-len(s.levels))
		*s.memory += shortLevelBytes * int64(cap(s.levels)-before)
		for len(s.levels) < n {
			s.levels = append(s.levels, shortLevel{})
		}
	}
	l := &s.levels[c.Depth]
	if l.calls > 0 && c.Start-min(l.end, c.Start) >= s.min {
		s.close(l)
	}
	if l.calls == 0 {
		l.start, l.depth = c.Start, c.Depth
	}
	l.end = c.Start + c.Duration
	l.took += c.Duration
	l.calls += 1 + inside
	l.total += 1 + inside
	s.count(l.end)
}

// closeBelow ends the runs inside a call that began at start, and returns the number of calls that
// were omitted inside.
func (s *shortCalls) closeBelow(depth uint32, start uint64) (total uint64) {
	for len(s.levels) > int(depth)+1 {
		l := &s.levels[len(s.levels)-1]
		if l.start < start && start < l.end {
			l.start = start // it began in a function that was not selected
		}
		s.close(l)
		total += l.total
		s.levels = s.levels[:len(s.levels)-1]
	}
	return total
}

// close ends a run, and shows it if it is long enough.
func (s *shortCalls) close(l *shortLevel) {
	if l.calls > 0 && l.took >= s.min {
		s.run(&l.shortRun)
	}
	l.shortRun = shortRun{}
}

// count counts a call that ended.
func (s *shortCalls) count(end uint64) {
	r := &s.rate
	if r.every == 0 {
		return
	}
	if span := (end - min(end, r.base)) / r.every; span != r.span {
		s.endSpan()
		if r.n > 0 && span > r.span+1 {
			s.sample(r.base+(r.span+1)*r.every, 0)
		}
		r.span, r.n = span, 0
	}
	r.n++
}

func (s *shortCalls) endSpan() {
	if r := &s.rate; r.n > 0 {
		s.sample(r.base+r.span*r.every, r.n)
	}
}

// finish shows the remaining runs and numbers at the end of the thread.
func (s *shortCalls) finish() {
	if s == nil {
		return
	}
	s.closeBelow(0, 0)
	s.before(0)
	*s.memory -= shortLevelBytes * int64(cap(s.levels))
	s.levels = nil
	if s.rate.n > 0 {
		s.endSpan()
		s.sample(s.rate.base+(s.rate.span+1)*s.rate.every, 0)
	}
}
