package locks

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// opKind is the kind of an op.
type opKind uint8

const (
	opWait       opKind = iota // a thread begins to wait
	opCancelWait               // it was not a wait
	opStuck                    // the trace ends during the wait
	opAcquire                  // the wait is over
	opTry                      // a TryLock function returned
	opRelease                  // an Unlock function returned
	opScopeEnd                 // the function that a hold lasts for ended
	opSuspend                  // a wait for a condition begins
	opResume                   // a wait for a condition ends
)

// op is what a thread did to a lock at a time. The kind determines which fields count.
type op struct {
	time   uint64
	kind   opKind
	thread int
	fn     reader.FuncID
	addr   uint64
	logged bool         // addr is known
	path   calls.PathID // of the function that wants the lock
	who    uint32       // depth of the function that wants the lock, from 1; 0 for none
	depth  uint32       // of the function that a hold lasts for, from 1; 0 if unlocks end holds
	noHold bool         // the end of the hold is unknown
	selves int          // number of self times in thread.selves since the thread's previous op
}

// selfTime is time in a function itself.
type selfTime struct {
	fn    reader.FuncID
	ticks uint64
}

// recognizer recognizes what threads do to locks from their calls. It is the analysis of
// the second pass, with one shard.
type recognizer struct {
	*sweep
	ops     []op
	enough  int // ops to sweep at once
	threads []*reading
	scopes  []calls.PathID // by call path: who wants the lock that the last function takes
	follows bool           // a wait, with Options.Alone
}

// openCall is an open call. Properties that depend on the calls around it come from the
// open calls, not from call paths, which may be folded.
type openCall struct {
	role             Role
	through          bool         // an outer function wants the locks that are taken in it
	inLock, inUnlock bool         // it is inside such a call
	suspends         bool         // a Condition function that counts
	depth            uint32       // number of calls that were open at its entry
	who              uint32       // depth of the function that wants a lock that this call takes, from 1; 0 for none
	path             calls.PathID // only with Options.Wakers
}

// reading is the state of a thread.
type reading struct {
	calls   []openCall // those that matter, the outermost first
	open    []lockCall // open calls of Lock functions
	waiting int        // index in open of the call that waits, plus one; 0 for none
	// tail is an acquisition or a release that waits for the thread's next event, because the
	// function left through a tail call. It may be nil, or is tailed.
	tail     *op
	tailed   op
	given    bool   // the open Unlock functions have already released a lock,
	released uint64 // in a call that began then
	conds    int    // open calls with openCall.suspends
	scopes   []scope
	// held is a lower bound of the number of locks held. While it is not 0, self times of
	// calls that began since then are added up.
	held   int
	since  uint64
	selves *selves
	wakeups
}

// lockCall is an open call of a Lock function.
type lockCall struct {
	addr   uint64
	logged bool
}

// scope is a function that holds last for.
type scope struct {
	depth uint32
	holds int
}

// Merge is never called: there is one shard.
func (r *recognizer) Merge(*recognizer) {}

// Calls implements calls.Sink.
func (r *recognizer) Calls(b *calls.Batch) error {
	r.learn(b.Paths)
	for len(r.threads) <= b.Index {
		r.threads = append(r.threads, nil)
	}
	r.register(b)
	th := r.threads[b.Index]
	if th == nil {
		th = &reading{selves: &r.sweep.threads[b.Index].selves, wakeups: wakeups{times: r.opts.Wakers.Wakeups(b.Thread)}}
		r.threads[b.Index] = th
	}
	opens, args, results := b.Opens, b.Args, b.Results
	openUpTo := func(n int) {
		for ; len(opens) > 0 && opens[0].Call <= n; opens = opens[1:] {
			r.opened(b, th, &opens[0])
		}
	}
	for i := range b.Calls {
		openUpTo(i)
		n := 0
		for n < len(args) && args[n].Call == i {
			n++
		}
		failed := false
		for ; len(results) > 0 && results[0].Call == i; results = results[1:] {
			failed = results[0].Value != 0
		}
		r.ended(b, th, &b.Calls[i], args[:n], failed)
		args = args[n:]
	}
	openUpTo(len(b.Calls))
	return nil
}

// learn examines new paths.
func (r *recognizer) learn(paths *calls.Paths) {
	if len(r.scopes) == 0 {
		r.scopes = []calls.PathID{0}
	}
	for id := calls.PathID(len(r.scopes)); int(id) < paths.Len(); id++ {
		parent := paths.Parent(id)
		who := parent
		switch f := r.function(paths.Func(parent)); {
		case paths.Func(id) == reader.Folded:
			who = id // one of the functions there
		case parent != 0 && f.through():
			who = r.scopes[parent]
		}
		r.scopes = append(r.scopes, who)
	}
}

// through reports whether the caller wants the locks that are taken in a function.
func (f *Function) through() bool { return f.Role == Lock || f.Role == TryLock || f.Constructor }

// enter opens a call.
func (r *recognizer) enter(th *reading, o *calls.Open) {
	f := r.function(o.Func)
	if f == &other && r.opts.Wakers == nil {
		return
	}
	c := openCall{role: f.Role, through: f.through(), depth: o.Depth, who: o.Depth}
	path := calls.PathID(0)
	if n := len(th.calls); n > 0 {
		outer := &th.calls[n-1]
		c.inLock = outer.inLock || outer.role == Lock
		c.inUnlock = outer.inUnlock || outer.role == Unlock
		if outer.through && outer.depth+1 == o.Depth {
			c.who = outer.who
		}
		path = outer.path
	}
	if r.opts.Wakers != nil {
		c.path = r.paths.Child(path, o.Func)
	}
	th.calls = append(th.calls, c)
}

// emit appends an op of a thread.
func (r *recognizer) emit(th *reading, o op) {
	if r.opts.Alone && r.opts.Waited != nil {
		if o.kind == opWait {
			r.follows = r.opts.Matters(o.time)
		}
		if !r.follows || o.kind > opAcquire {
			return
		}
		r.follows = o.kind == opWait
	}
	o.selves = th.selves.emit()
	r.ops = append(r.ops, o)
}

// passTail ends a wait that continued after a tail call.
func (r *recognizer) passTail(th *reading, now uint64) {
	if th.tail == nil {
		return
	}
	o := *th.tail
	th.tail = nil
	o.time = now
	if o.kind == opRelease {
		r.release(th, o)
		return
	}
	r.acquire(th, o)
}

// passTo replaces the call of a function without an argument by that of the function that is
// called next and has one.
func (r *recognizer) passTo(th *reading, o *calls.Open) {
	t := th.tail
	if t == nil {
		return
	}
	role := r.function(o.Func).Role
	switch {
	case t.logged || !o.Args:
	case t.kind == opRelease && role == Unlock:
		th.tail = nil
	case t.kind != opRelease && (role == Lock || role == TryLock):
		t.kind, t.time = opCancelWait, o.Start
		r.emit(th, *t)
		th.tail = nil
	}
	r.passTail(th, o.Start)
}

func (r *recognizer) opened(b *calls.Batch, th *reading, o *calls.Open) {
	th.upTo(o.Start)
	r.enter(th, o)
	r.passTo(th, o)
	f := r.function(o.Func)
	if f == &other {
		return
	}
	next := op{time: o.Start, thread: b.Index, fn: o.Func, addr: o.Arg, logged: o.Args}
	if f.Libc && th.conds > 0 {
		// An outer function is named like a condition. What the C library does in it counts.
		for i := range th.calls {
			th.calls[i].suspends = false
		}
		th.conds = 0
		r.emit(th, op{time: o.Start, kind: opResume, thread: b.Index})
	}
	switch f.Role {
	case Lock:
		th.open = append(th.open, lockCall{o.Arg, o.Args})
		if !o.Args && len(th.open) > 1 {
			return
		}
		if th.waiting > 0 {
			r.emit(th, op{time: o.Start, kind: opCancelWait, thread: b.Index})
		}
		th.waiting = len(th.open)
		r.emit(th, next)
	case Condition:
		th.calls[len(th.calls)-1].suspends = true
		if th.conds++; th.conds == 1 {
			next.kind = opSuspend
			r.emit(th, next)
		}
	}
}

// ended handles the end of a call. failed means that its result is not 0.
func (r *recognizer) ended(b *calls.Batch, th *reading, c *calls.Call, args []calls.Arg, failed bool) {
	end := c.Start + c.Duration
	th.upTo(end)
	var ended openCall
	if n := len(th.calls) - 1; n >= 0 && th.calls[n].depth == c.Depth {
		ended, th.calls = th.calls[n], th.calls[:n]
	}
	r.passTail(th, end)
	if th.held > 0 && c.Start >= th.since && r.opts.Waited == nil {
		th.selves.add(&r.adder, selfTime{c.Func, c.Self})
	}
	role := r.function(c.Func).Role
	if c.End == calls.Truncated && role != Lock {
		return
	}
	if role != None {
		next := op{time: end, thread: b.Index, fn: c.Func, path: r.scopes[c.Path], who: ended.who}
		if len(args) > 0 {
			next.addr, next.logged = args[0].Value, true
		}
		r.roleEnded(th, c, role, ended, next, failed)
	}
	for n := len(th.scopes); n > 0 && c.Depth < th.scopes[n-1].depth; n-- {
		last := th.scopes[n-1]
		r.emit(th, op{time: end, kind: opScopeEnd, thread: b.Index, depth: last.depth})
		th.scopes = th.scopes[:n-1]
		th.held = max(0, th.held-last.holds)
	}
}

// roleEnded handles the end of a call of a function with a role.
func (r *recognizer) roleEnded(th *reading, c *calls.Call, role Role, ended openCall, next op, failed bool) {
	switch role {
	case Lock:
		r.lockEnded(th, c, next, failed)
	case TryLock:
		// The unlock will show whether it got the lock. A TryLock inside a Lock function
		// is part of that.
		if !failed && !ended.inLock && c.End <= calls.Continued {
			next.kind = opTry
			r.emit(th, next)
		}
	case Unlock:
		r.unlockEnded(th, c, next, ended.inUnlock)
	case Condition:
		if !ended.suspends {
			break
		}
		if th.conds--; th.conds == 0 {
			next.kind = opResume
			r.emit(th, next)
		}
	}
}

// lockEnded handles the end of a Lock function's call.
func (r *recognizer) lockEnded(th *reading, c *calls.Call, next op, failed bool) {
	place := len(th.open)
	call := th.open[place-1]
	th.open = th.open[:place-1]
	if th.waiting != place {
		return
	}
	th.waiting = 0
	next.addr, next.logged = call.addr, call.logged
	switch c.End {
	case calls.Exited, calls.Continued:
		if failed {
			next.kind = opCancelWait
			r.emit(th, next)
			return
		}
		r.acquire(th, next)
	case calls.TailExited:
		th.tailed, th.tail = next, &th.tailed
	case calls.Inferred, calls.Left:
		// It did not return, or its return is unknown.
		next.kind = opCancelWait
		r.emit(th, next)
	case calls.Truncated:
		next.kind = opStuck
		r.emit(th, next)
	}
}

// unlockEnded handles the end of an Unlock function's call. Of nested ones, the innermost
// that logs its argument counts. If none does, the outermost counts.
func (r *recognizer) unlockEnded(th *reading, c *calls.Call, next op, inner bool) {
	given := th.given && th.released >= c.Start
	th.given = inner && (th.given || next.logged)
	if given || inner && !next.logged {
		return
	}
	th.released = c.Start
	next.kind = opRelease
	if c.End == calls.TailExited && !next.logged {
		th.tailed, th.tail = next, &th.tailed
		return
	}
	r.release(th, next)
}

func (r *recognizer) release(th *reading, o op) {
	r.emit(th, o)
	th.held = max(0, th.held-1)
}

// acquire emits the end of a wait.
func (r *recognizer) acquire(th *reading, o op) {
	o.kind = opAcquire
	if f := r.function(o.fn); f.Unheld {
		o.noHold = true
	} else if !r.unlocks[f.Class] {
		o.depth = o.who
		o.noHold = o.depth == 0
		switch n := len(th.scopes); {
		case o.noHold:
		case n > 0 && th.scopes[n-1].depth == o.depth:
			th.scopes[n-1].holds++
		default:
			th.scopes = append(th.scopes, scope{o.depth, 1})
		}
	}
	r.emit(th, o)
	if o.noHold {
		return
	}
	if th.held == 0 {
		th.since = o.time
	}
	th.held++
}

// finish ends the waits that would have ended at the next event.
func (r *recognizer) finish() {
	for _, th := range r.threads {
		if th != nil && th.tail != nil {
			if th.tail.kind != opRelease {
				th.tail.kind = opStuck
			}
			r.emit(th, *th.tail)
		}
	}
	r.sweepBefore(func(*op) bool { return true })
}

// sweepTo passes the ops before a time to the sweep, in time order. No later op is before that time.
// It waits until there are many, because it sorts those that it keeps once more.
func (r *recognizer) sweepTo(tsc uint64) {
	if len(r.ops) >= r.enough {
		r.sweepBefore(func(o *op) bool { return o.time < tsc })
		r.enough = 2*len(r.ops) + leastOps
	}
}

// leastOps is the least number of ops that are worth sorting.
const leastOps = 256

// sweepBefore passes the first ops to the sweep, in time order, and keeps the others.
func (r *recognizer) sweepBefore(before func(*op) bool) {
	order := func(a, b op) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.thread, b.thread)) }
	if !slices.IsSortedFunc(r.ops, order) { // it is for a single thread
		slices.SortStableFunc(r.ops, order)
	}
	n := 0
	for ; n < len(r.ops) && before(&r.ops[n]); n++ {
		r.do(&r.ops[n])
	}
	r.ops = slices.Delete(r.ops, 0, n)
}
