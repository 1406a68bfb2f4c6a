package calls

import (
	"slices"

	"github.com/xray-tools/xray/reader"
)

// batchCalls is how many calls are handed to a sink at a time: 24 KB, which
// stay in the first-level cache until the sink has read them.
const batchCalls = 512

// frame is an open call.
type frame struct {
	start  uint64
	inside uint64 // duration of the calls made directly
	fn     reader.FuncID
	path   PathID
	nested bool
	args   bool // the thread's args has arguments of this frame
}

// thread is the shadow stack of one thread.
type thread struct {
	id    reader.Thread
	index int
	stack []frame
	last  uint64 // latest timestamp
	// args are the arguments of open calls, the outermost first.
	args []frameArg
	skip bool // the filter does not want this thread
}

// frameArg is an argument of the open call at a depth.
type frameArg struct {
	depth int
	value uint64
}

// shard rebuilds the calls of the threads that one goroutine decodes.
type shard struct {
	opts    *Options
	sink    Sink
	filter  *filter // nil to keep all
	threads []*thread
	batch   Batch
	calls   []Call // what batch.Calls is cut from
	n       int    // calls in use
	paths   *Paths
	// open counts the open calls of each function in the thread current, when
	// nesting is wanted.
	open    *counters
	current *thread
	stats   Stats
}

func newShard(opts *Options, sink Sink) *shard {
	s := &shard{opts: opts, sink: sink, calls: make([]Call, batchCalls)}
	if opts.Filter.active() {
		s.filter = newFilter(&opts.Filter)
	}
	if opts.Nested {
		s.open = &counters{}
	}
	if opts.Paths {
		s.paths = NewPaths()
		s.batch.Paths = s.paths
	}
	return s
}

func (s *shard) thread(b *reader.Block) *thread {
	if b.Index >= len(s.threads) {
		s.threads = slices.Grow(s.threads, b.Index+1-len(s.threads))[:b.Index+1]
	}
	th := s.threads[b.Index]
	if th == nil {
		th = &thread{id: b.Thread, index: b.Index}
		th.skip = s.opts.Filter.Thread != nil && !s.opts.Filter.Thread(b.Thread)
		s.threads[b.Index] = th
		s.stats.Threads++
	}
	return th
}

// block matches the entries and exits of b. Calls are handed to the sink at its
// end at the latest, so that a batch is always of one thread. This is the hot
// loop of every analysis: what is rare is in functions of its own, and what can
// be derived is not counted.
func (s *shard) block(b *reader.Block) error {
	if len(b.Events) == 0 {
		return nil
	}
	th := s.thread(b)
	if th.skip {
		return nil
	}
	if s.stats.Events == 0 {
		s.stats.First = b.Events[0].TSC
	}
	s.stats.Events += uint64(len(b.Events))
	s.stats.span(b.Events[0].TSC)
	s.turnTo(th)
	side := sideTables{b.Args, b.Payloads}
	// The stack and the place in the batch live in registers, and go back to
	// where they belong before anything else looks at them.
	stack, n := th.stack, s.n
	batch := s.calls
	tsc := th.last
	for i := range b.Events {
		e := &b.Events[i]
		now := e.TSC
		if now < tsc {
			th.stack = stack
			s.step(th, tsc, now)
		}
		tsc = now
		if e.Kind == reader.Enter || e.Kind == reader.EnterArg {
			top := len(stack)
			if top == cap(stack) {
				stack = slices.Grow(stack, 1)
			}
			stack = stack[:top+1]
			f := &stack[top]
			f.start, f.inside, f.fn, f.path, f.nested, f.args = now, 0, e.Func, 0, false, false
			if s.paths != nil {
				var parent PathID
				if top > 0 {
					parent = stack[top-1].path
				}
				f.path = s.paths.Child(parent, e.Func)
			}
			if s.open != nil {
				open := s.open.of(e.Func)
				f.nested = *open > 0
				*open++
			}
			if e.Side {
				th.stack = stack
				s.args(th, &side, i)
			}
			continue
		}
		if top := len(stack) - 1; top >= 0 && stack[top].fn == e.Func && e.Kind <= reader.TailExit && !stack[top].args {
			f := &stack[top]
			c := &batch[n]
			// Exit and TailExit are 1 and 2, Exited and TailExited 0 and 1.
			c.set(f, now, top, End(e.Kind-reader.Exit))
			if top > 0 {
				parent := &stack[top-1]
				parent.inside += c.Duration
				c.Caller = parent.fn
			}
			if s.open != nil {
				*s.open.of(e.Func)--
			}
			stack = stack[:top]
			if n++; n == len(batch) {
				th.stack, s.n = stack, n
				if err := s.flush(false); err != nil {
					return err
				}
				n = 0
			}
			continue
		}
		th.stack, s.n = stack, n
		if !e.Kind.IsExit() {
			s.event(th, e, &side, i)
		} else if err := s.exitOther(th, e); err != nil {
			return err
		}
		stack, n = th.stack, s.n
	}
	th.stack, s.n = stack, n
	th.last = tsc
	s.stats.span(tsc)
	return s.flush(false)
}

// set fills in all of a call but its caller and arguments.
func (c *Call) set(f *frame, now uint64, depth int, end End) {
	d := now - f.start
	start := f.start
	if start > now {
		start = 0 // a clock that went back to before its own beginning
	}
	c.Start = start
	c.Duration = d
	c.Self = d - f.inside
	c.Func = f.fn
	c.Caller = 0
	c.Path = f.path
	c.Depth = uint32(depth)
	c.End = end
	c.Nested = f.nested
	c.Args = f.args
}

// sideTables are the arguments and payloads of a block that are still to come.
type sideTables struct {
	args     []reader.Arg
	payloads []reader.Payload
}

// turnTo makes th the thread whose calls are rebuilt.
func (s *shard) turnTo(th *thread) {
	if s.current == th {
		return
	}
	s.batch.Thread, s.batch.Index = th.id, th.index
	if s.open != nil {
		// One table for all threads: stacks are short, functions are many.
		if s.current != nil {
			for _, f := range s.current.stack {
				*s.open.of(f.fn)--
			}
		}
		for _, f := range th.stack {
			*s.open.of(f.fn)++
		}
	}
	s.current = th
}

// counters holds a number for each function.
type counters struct {
	low  []uint32 // by id, for small ids
	high map[reader.FuncID]*uint32
}

// lowFuncs is the first id that counters do not keep in a slice. Executables
// have fewer functions; shared objects have packed ids far above it.
const lowFuncs = 1 << 17

func (c *counters) of(fn reader.FuncID) *uint32 {
	if uint32(fn) < uint32(len(c.low)) {
		return &c.low[fn]
	}
	return c.grow(fn)
}

func (c *counters) grow(fn reader.FuncID) *uint32 {
	if uint32(fn) < lowFuncs {
		c.low = slices.Grow(c.low, int(fn)+1-len(c.low))
		c.low = c.low[:cap(c.low)]
		return &c.low[fn]
	}
	n := c.high[fn]
	if n == nil {
		if c.high == nil {
			c.high = make(map[reader.FuncID]*uint32)
		}
		n = new(uint32)
		c.high[fn] = n
	}
	return n
}

// step handles a clock that went back from last to now. The time in between is
// taken as none: the calls that are open started by the new clock as long ago
// as they did by the old one.
func (s *shard) step(th *thread, last, now uint64) {
	back := last - now
	for i := range th.stack {
		// This may wrap around, and comes out right again in the difference
		// that a duration is.
		th.stack[i].start -= back
	}
	s.stats.span(last)
	s.stats.span(now)
	s.stats.ClockSteps++
	s.stats.ClockBack += back
}

// args attaches the arguments of event i to the call just opened.
func (s *shard) args(th *thread, side *sideTables, i int) {
	top := len(th.stack) - 1
	for len(side.args) > 0 && side.args[0].Event <= i {
		if side.args[0].Event == i {
			th.stack[top].args = true
			th.args = append(th.args, frameArg{top, side.args[0].Value})
			s.stats.Args++
		}
		side.args = side.args[1:]
	}
}

// exitOther handles an exit in all generality: that of an outer call, of none,
// or of a call with arguments.
func (s *shard) exitOther(th *thread, e *reader.Event) error {
	at := len(th.stack) - 1
	for s.opts.Policy != Exact && at >= 0 && th.stack[at].fn != e.Func {
		at--
	}
	if at < 0 || th.stack[at].fn != e.Func {
		s.stats.Unmatched++
		if s.opts.Unmatched != nil {
			u := Unmatched{Thread: th.id, Event: *e}
			for _, f := range th.stack {
				u.Open = append(u.Open, f.fn)
			}
			if err := s.opts.Unmatched(&u); err != nil {
				return err
			}
		}
		if s.opts.Policy == DeduceOrClear {
			return s.popTo(th, 0, e.TSC, Inferred)
		}
		return nil
	}
	if err := s.popTo(th, at+1, e.TSC, Inferred); err != nil {
		return err
	}
	return s.popTo(th, at, e.TSC, End(e.Kind-reader.Exit))
}

// popTo ends open calls at now until depth are left.
func (s *shard) popTo(th *thread, depth int, now uint64, end End) error {
	for len(th.stack) > depth {
		s.pop(th, now, end)
		switch end {
		case Inferred:
			s.stats.Inferred++
		case Truncated:
			s.stats.Truncated++
		}
		if s.n == len(s.calls) {
			if err := s.flush(false); err != nil {
				return err
			}
		}
	}
	return nil
}

// pop ends the innermost open call at now. There is room for it in s.calls.
func (s *shard) pop(th *thread, now uint64, end End) {
	top := len(th.stack) - 1
	f := &th.stack[top]
	c := &s.calls[s.n]
	c.set(f, now, top, end)
	if top > 0 {
		parent := &th.stack[top-1]
		parent.inside += c.Duration
		c.Caller = parent.fn
	}
	if s.open != nil {
		*s.open.of(f.fn)--
	}
	if f.args {
		s.popArgs(th, top)
	}
	th.stack = th.stack[:top]
	s.n++
}

// popArgs hands the arguments of the call at depth top to the batch.
func (s *shard) popArgs(th *thread, top int) {
	i := len(th.args)
	for i > 0 && th.args[i-1].depth == top {
		i--
	}
	for _, a := range th.args[i:] {
		s.batch.Args = append(s.batch.Args, Arg{s.n, a.value})
	}
	th.args = th.args[:i]
}

// event notes custom or typed event i of a block.
func (s *shard) event(th *thread, e *reader.Event, side *sideTables, i int) {
	s.stats.Custom++
	ev := Event{TSC: e.TSC, Kind: e.Kind, CPU: e.CPU, Depth: uint32(len(th.stack))}
	if n := len(th.stack); n > 0 {
		ev.Func, ev.Path = th.stack[n-1].fn, th.stack[n-1].path
	}
	for len(side.payloads) > 0 && side.payloads[0].Event <= i {
		if side.payloads[0].Event == i {
			ev.Type, ev.Data = side.payloads[0].Type, side.payloads[0].Data
		}
		side.payloads = side.payloads[1:]
	}
	s.batch.Events = append(s.batch.Events, ev)
}

// flush hands the calls so far to the sink.
func (s *shard) flush(last bool) error {
	b := &s.batch
	if s.n == 0 && len(b.Events) == 0 && !last {
		return nil
	}
	b.Calls = s.calls[:s.n]
	b.Last = last
	s.stats.Calls += uint64(s.n)
	for i := range b.Calls {
		s.stats.MaxDepth = max(s.stats.MaxDepth, b.Calls[i].Depth+1)
	}
	s.n = 0
	if s.filter != nil {
		s.filter.apply(b)
	}
	err := s.sink.Calls(b)
	b.Args, b.Events = b.Args[:0], b.Events[:0]
	return err
}

// finish ends the calls that are still open, thread by thread.
func (s *shard) finish() error {
	for _, th := range s.threads {
		if th == nil || th.skip {
			continue
		}
		s.turnTo(th)
		if err := s.popTo(th, 0, th.last, Truncated); err != nil {
			return err
		}
		if err := s.flush(true); err != nil {
			return err
		}
	}
	s.stats.Entries = s.stats.Calls // every call that was opened has ended
	s.stats.Exits = s.stats.Events - s.stats.Entries - s.stats.Custom
	return nil
}
