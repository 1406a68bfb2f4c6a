package why

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// LoopRole is the part of a function in an event loop.
type LoopRole uint8

const (
	NoLoop LoopRole = iota
	Polls           // waits until any of several files is ready, as epoll_wait does
	Loops           // calls the callbacks
)

// pollNames and loopNames guess from a function's qualified name, without parameters, its part in an event loop.
const (
	pollNames = `^(epoll_p?wait2?|p?poll|p?select|io_uring_(wait|peek|submit_and_wait)\w*|kevent)$`
	loopNames = `(?i)(^|[^a-z]|event|main|run)_?loop($|[^a-z]|::)|^(aeMain|uv_run|event_base_loop)$|io_(context|service)::run|[a-z]Loop($|::)`
)

// LoopsByName returns a function for [Options.Loop] that tells the part of a function by its name.
func LoopsByName(names symbolize.Names) func(reader.FuncID) LoopRole {
	polls, loops := regexp.MustCompile(pollNames), regexp.MustCompile(loopNames)
	return func(fn reader.FuncID) LoopRole {
		switch name := symbolize.Shorten(symbolize.Label(names, fn)); {
		case polls.MatchString(name):
			return Polls
		case loops.MatchString(name):
			return Loops
		}
		return NoLoop
	}
}

// Loop is what calls of the root waited for before they began: their event loop was busy with another callback.
// Times are in ticks. A call waited at most since that callback began: the trace does not show when its event came.
type Loop struct {
	Func           reader.FuncID // the loop
	Callback, Busy reader.FuncID // that kept it busy for most of that time, and the function inside with most of it
	Requests       bool          // that callback contains calls of the root
	Calls          uint64        // that waited for Callback, at most
	Mean, Longest  uint64        // of these calls
	Turns          uint64        // calls of Callback that others waited for
	Took           uint64        // mean time of these calls of Callback, without time in the run queue
	Share          float64       // of all time that calls of the root waited for long callbacks
}

// loops finds which calls of the root began late, as a part of the pass over paths. It needs calls.Options.Nested.
type loops struct {
	opts    *Options
	least   uint64 // ticks of a long callback, without foreign time
	polls   bool   // functions that poll are called
	roles   map[reader.FuncID]LoopRole
	small   [1 << 12]uint8 // the same for small IDs, plus one, for speed
	threads []loopThread   // by Batch.Index
	late    map[loopKey]*lateCalls
}

type loopKey struct {
	loop, callback, busy reader.FuncID
	requests             bool
}

type lateCalls struct{ calls, ticks, longest, turns, took uint64 }

// loopThread is a thread with its latest callback that was long.
type loopThread struct {
	depth   uint32 // of callbacks; 0 if no loop is known
	loop    reader.FuncID
	long    longCall   // zero if there is none, or the loop was idle since
	inner   []longCall // the latest long call at each depth
	root    uint64     // start of the latest call of the root
	found   loopKey    // of long
	waiters uint64     // of long
	polls   int        // since long ended
}

// longCall is a call and its time without foreign time.
type longCall struct {
	fn              reader.FuncID
	start, end, own uint64
}

func newLoops(opts *Options, least uint64, polls bool) *loops {
	return &loops{opts: opts, least: max(1, least), polls: polls, roles: make(map[reader.FuncID]LoopRole), late: make(map[loopKey]*lateCalls)}
}

func (l *loops) role(fn reader.FuncID) LoopRole {
	small := uint32(fn) < uint32(len(l.small))
	if small && l.small[fn] != 0 {
		return LoopRole(l.small[fn] - 1)
	}
	r, ok := l.roles[fn]
	if !ok {
		r = l.opts.Loop(fn)
		l.roles[fn] = r
	}
	if small {
		l.small[fn] = uint8(r) + 1
	}
	return r
}

// see takes the next calls of a thread.
func (l *loops) see(b *calls.Batch) {
	l.threads = grow(l.threads, b.Index+1)
	t := &l.threads[b.Index]
	gaps, waits := b.Gaps, b.Waits
	if t.depth == 0 && !l.polls && !slices.ContainsFunc(gaps, func(g calls.Gap) bool { return l.idles(&g) }) {
		return
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		for ; len(gaps) > 0 && gaps[0].To <= c.Start+c.Duration; gaps = gaps[1:] {
			l.gap(t, &gaps[0])
		}
		var off calls.Off
		off, waits = waited(waits, i)
		if l.role(c.Func) == Polls && c.Depth > 0 {
			idle := off.Blocked > 0
			if l.opts.Calls.OffCPU == nil {
				idle = c.Duration >= l.least
			}
			t.poll(c.Depth, c.Caller, idle)
			continue
		}
		if t.depth == 0 || c.Depth < t.depth || c.Partial() {
			continue
		}
		if l.opts.Root(c.Func) && !c.Nested {
			l.begin(t, c)
		}
		long := longCall{c.Func, c.Start, c.Start + c.Duration, c.Duration - min(c.Duration, foreign(off))}
		if long.own >= l.least/2 {
			t.inner = grow(t.inner, int(c.Depth)+1)
			t.inner[c.Depth] = long
		}
		if c.Depth == t.depth && long.own >= l.least {
			t.keep(long)
		}
	}
	for i := range gaps {
		l.gap(t, &gaps[i])
	}
}

// gap takes a time off CPU. A loop whose poll function is not recorded is blocked itself.
func (l *loops) gap(t *loopThread, g *calls.Gap) {
	if l.idles(g) {
		t.poll(g.Depth, g.Func, true)
	}
}

func (l *loops) idles(g *calls.Gap) bool {
	return g.Blocked > 0 && g.Depth > 0 && l.role(g.Func) == Loops
}

// poll takes the end of a poll. The outermost loop of a thread counts: others are inside callbacks.
func (t *loopThread) poll(depth uint32, loop reader.FuncID, idle bool) {
	if t.depth == 0 || depth < t.depth {
		*t = loopThread{depth: depth, loop: loop}
	}
	if depth != t.depth {
		return
	}
	if t.polls++; idle || t.polls > 1 {
		t.long = longCall{} // whatever was ready after it was handled
	}
}

// begin takes a call of the root. It waited for the long callback before it if it began when the events of that
// time were handled: not later after the callback than that took.
func (l *loops) begin(t *loopThread, c *calls.Call) {
	t.root = c.Start
	o := &t.long
	if o.end == 0 || c.Start < o.end || c.Start-o.end > o.end-o.start {
		return
	}
	late := l.late[t.found]
	if late == nil {
		late = new(lateCalls)
		l.late[t.found] = late
	}
	if t.waiters++; t.waiters == 1 {
		late.turns++
		late.took += o.own
	}
	late.calls++
	waited := c.Start - o.end + o.own // without time in which the loop was preempted
	late.ticks += waited
	late.longest = max(late.longest, waited)
}

// keep takes a long callback that ended. An earlier one counts on while it explains more.
func (t *loopThread) keep(c longCall) {
	if o := &t.long; o.own > c.own && c.start-o.end <= o.end-o.start {
		return
	}
	busy := c
	for depth := int(t.depth) + 1; depth < len(t.inner); depth++ {
		in := t.inner[depth]
		if in.start < c.start || 10*in.own < 7*busy.own {
			break
		}
		busy = in
	}
	t.long, t.waiters, t.polls = c, 0, 0
	t.found = loopKey{t.loop, c.fn, busy.fn, t.root >= c.start}
}

// merge adds what other found.
func (l *loops) merge(other *loops) {
	for k, o := range other.late {
		mine := l.late[k]
		if mine == nil {
			mine = new(lateCalls)
			l.late[k] = mine
		}
		mine.calls, mine.ticks, mine.turns, mine.took = mine.calls+o.calls, mine.ticks+o.ticks, mine.turns+o.turns, mine.took+o.took
		mine.longest = max(mine.longest, o.longest)
	}
}

// found returns what most late calls waited for, or nil if that happened too rarely, or the callbacks are many.
func (l *loops) found() *Loop {
	var keys []loopKey
	all := uint64(0)
	for k, late := range l.late {
		keys = append(keys, k)
		all += late.ticks
	}
	slices.SortFunc(keys, func(a, b loopKey) int {
		return cmp.Or(cmp.Compare(l.late[b].ticks, l.late[a].ticks), cmp.Compare(a.callback, b.callback), cmp.Compare(a.busy, b.busy), cmp.Compare(a.loop, b.loop))
	})
	if len(keys) == 0 {
		return nil
	}
	k := keys[0]
	late := l.late[k]
	if late.turns < minCalls || 2*late.ticks < all {
		return nil
	}
	return &Loop{
		Func: k.loop, Callback: k.callback, Busy: k.busy, Requests: k.requests, Calls: late.calls, Turns: late.turns,
		Mean: late.ticks / late.calls, Took: late.took / late.turns, Longest: late.longest, Share: float64(late.ticks) / float64(all),
	}
}
