package calls

import (
	"encoding/binary"
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
	// seen has a bit for each function open up to this frame, and perhaps those
	// of others: see funcBit.
	seen   uint32
	fn     reader.FuncID
	path   PathID
	child  PathID // the path of the call made last
	nested bool
	args   bool // the thread's args has arguments of this frame
}

// funcBit is the bit of a function in frame.seen. Where the bit of a function is
// not set, no call of it is open; otherwise the stack tells.
func funcBit(fn reader.FuncID) uint32 { return 1 << (uint32(fn) & 31) }

// thread is the shadow stack of one thread.
type thread struct {
	id    reader.Thread
	index int
	stack []frame
	last  uint64 // time of the latest record
	// offset is what the clock has gone back by in all. It is added to every
	// timestamp, so that time goes on where it was.
	offset uint64
	// deep counts the open calls beyond deepStack by function; nil while there
	// are none.
	deep map[reader.FuncID]int
	// args are the arguments of open calls, the outermost first.
	args []frameArg
	skip bool // the filter does not want this thread
}

// deepStack is the depth up to which the stack is searched for a function. What
// is deeper is counted, so that no trace takes time that is quadratic in depth.
const deepStack = 256

// isOpen reports whether a call of fn is open.
func (th *thread) isOpen(fn reader.FuncID) bool {
	return th.deep[fn] > 0 || isOpen(th.stack[:min(len(th.stack), deepStack)], fn)
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
	stats   Stats
}

func newShard(opts *Options, sink Sink) *shard {
	s := &shard{opts: opts, sink: sink, calls: make([]Call, batchCalls)}
	if opts.Filter.active() {
		s.filter = newFilter(&opts.Filter)
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
// end at the latest, so that a batch is always of one thread.
func (s *shard) block(b *reader.Block) error {
	if len(b.Events)+b.Packed.Len() == 0 {
		return nil
	}
	th := s.thread(b)
	if th.skip {
		return nil
	}
	s.batch.Thread, s.batch.Index = th.id, th.index
	if b.Packed.Len() > 0 {
		if err := s.packed(th, &b.Packed); err != nil {
			return err
		}
		return s.flush(false)
	}
	s.begin(len(b.Events), b.Events[0].TSC+th.offset)
	side := sideTables{b.Args, b.Payloads}
	for i := range b.Events {
		if err := s.event(th, &b.Events[i], &side, i); err != nil {
			return err
		}
	}
	s.stats.span(th.last)
	return s.flush(false)
}

// begin counts events, the first of which is at tsc.
func (s *shard) begin(events int, tsc uint64) {
	if s.stats.Events == 0 {
		s.stats.First = tsc
	}
	s.stats.Events += uint64(events)
	s.stats.span(tsc)
}

// packed matches packed records.
func (s *shard) packed(th *thread, p *reader.Packed) error {
	r := run{Packed: *p}
	s.begin(p.Len(), r.event().TSC+th.offset)
	for {
		if s.usual(th, &r); len(r.Records) == 0 {
			break
		}
		e := r.event()
		if err := s.event(th, &e, &sideTables{}, 0); err != nil {
			return err
		}
		if r.next(e.TSC); len(r.Records) == 0 {
			break
		}
	}
	s.stats.span(th.last)
	return nil
}

// run is what is left of packed records.
type run struct{ reader.Packed }

// event is the first record.
func (r *run) event() reader.Event {
	w := binary.LittleEndian.Uint64(r.Records)
	if r.Basic {
		return reader.Event{
			TSC: binary.LittleEndian.Uint64(r.Records[8:]), Func: reader.FuncID(w >> 32),
			CPU: uint16(w >> 16 & 0xff), Kind: reader.Kind(w >> 24 & 0xff),
		}
	}
	return reader.Event{
		TSC: r.TSC + w>>32, Func: reader.FuncID(uint32(w) >> 4), CPU: r.CPU, Kind: reader.Kind(w >> 1 & 7),
	}
}

// next takes off the first record, which is at tsc.
func (r *run) next(tsc uint64) {
	r.TSC = tsc
	if r.Basic {
		r.Records = r.Records[32:]
	} else {
		r.Records = r.Records[8:]
	}
}

// usual takes records off r up to the first that is not an entry or the exit of
// the innermost open call, at which the clock goes back, or for which there is no
// room. This is the hot loop of every analysis: of hundreds of millions of records
// nearly all come this way. It calls nothing, so that all it works with can stay
// in registers.
func (s *shard) usual(th *thread, r *run) {
	if len(th.stack) >= deepStack {
		return
	}
	stack := th.stack[:min(cap(th.stack), deepStack)]
	top := len(th.stack) // of the stack that is in use
	batch := (*[batchCalls]Call)(s.calls)
	n := s.n
	records, basic, nested := r.Records, r.Basic, s.opts.Nested
	offset, last := th.offset, th.last
	size, before := 8, r.TSC+offset
	if basic {
		size = 32
	}
	i := 0
	for ; i+8 <= len(records); i += size {
		w := binary.LittleEndian.Uint64(records[i : i+8])
		var now uint64
		var fn reader.FuncID
		if basic {
			// The order of the fields is another; kind is where FDR has it.
			now = binary.LittleEndian.Uint64(records[i+8:i+16]) + offset
			fn = reader.FuncID(w >> 32)
			w = w >> 23 & 14
		} else {
			now = before + w>>32
			fn = reader.FuncID(uint32(w) >> 4)
		}
		if now < last {
			break
		}
		if w&14 == uint64(reader.Enter)<<1 {
			if top >= len(stack) {
				break
			}
			f := &stack[top]
			f.start = now
			f.inside = 0
			f.fn = fn
			f.nested = false
			f.args = false
			if nested {
				bit := funcBit(fn)
				f.seen = bit
				if top > 0 {
					seen := stack[top-1].seen
					f.seen |= seen
					if seen&bit != 0 {
						f.nested = isOpen(stack[:top], fn)
					}
				}
			}
			if s.paths != nil {
				var parent, sibling PathID
				if top > 0 {
					parent, sibling = stack[top-1].path, stack[top-1].child
				}
				path := s.paths.guess(parent, sibling, fn)
				if path == 0 {
					break
				}
				f.path, f.child = path, 0
				if top > 0 {
					stack[top-1].child = path
				}
			}
			top++
		} else {
			if top == 0 || n >= len(batch) {
				break
			}
			f := &stack[top-1]
			if f.fn != fn || f.args {
				break
			}
			top--
			c := &batch[n]
			n++
			// Exit and TailExit are 1 and 2, Exited and TailExited 0 and 1.
			c.set(f, now, top, End(w>>1&3-1))
			if top > 0 {
				parent := &stack[top-1]
				parent.inside += c.Duration
				c.Caller = parent.fn
			}
		}
		before, last = now, now
	}
	th.stack, th.last, s.n = stack[:top], last, n
	r.Records, r.TSC = records[i:], before-offset
}

func isOpen(stack []frame, fn reader.FuncID) bool {
	for i := range stack {
		if stack[i].fn == fn {
			return true
		}
	}
	return false
}

// event handles event i of a block in all generality.
func (s *shard) event(th *thread, e *reader.Event, side *sideTables, i int) error {
	now := e.TSC + th.offset
	if now < th.last {
		back := th.last - now
		th.offset += back
		s.stats.ClockSteps++
		s.stats.ClockBack += back
		now = th.last
	}
	th.last = now
	switch {
	case e.Kind.IsEnter():
		s.enter(th, e)
		s.args(th, side, i)
		return nil
	case e.Kind.IsExit():
		return s.exit(th, e)
	}
	s.custom(th, e, side, i)
	return nil
}

func (s *shard) enter(th *thread, e *reader.Event) {
	f := frame{start: th.last, fn: e.Func, seen: funcBit(e.Func)}
	var caller frame
	if n := len(th.stack); n > 0 {
		caller = th.stack[n-1]
		f.nested = s.opts.Nested && caller.seen&f.seen != 0 && th.isOpen(e.Func)
		f.seen |= caller.seen
	}
	if len(th.stack) >= deepStack {
		if th.deep == nil {
			th.deep = make(map[reader.FuncID]int)
		}
		th.deep[e.Func]++
	}
	if s.paths != nil {
		f.path = s.paths.childAfter(caller.path, caller.child, e.Func)
		if n := len(th.stack); n > 0 {
			th.stack[n-1].child = f.path
		}
	}
	th.stack = append(th.stack, f)
}

// set fills in all of a call but its caller and arguments.
func (c *Call) set(f *frame, now uint64, depth int, end End) {
	d := now - f.start
	c.Start = f.start
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

// exit ends the call that an exit is of, and those inside it.
func (s *shard) exit(th *thread, e *reader.Event) error {
	at := len(th.stack) - 1
	if at >= deepStack && th.deep[e.Func] == 0 && s.opts.Policy != Exact {
		at = deepStack - 1
	}
	for s.opts.Policy != Exact && at >= 0 && th.stack[at].fn != e.Func {
		at--
	}
	if at < 0 || th.stack[at].fn != e.Func {
		s.stats.Unmatched++
		if s.opts.Unmatched != nil {
			if err := s.opts.Unmatched(&Unmatched{Thread: th.id, Event: *e, stack: th.stack}); err != nil {
				return err
			}
		}
		if s.opts.Policy == DeduceOrClear {
			return s.popTo(th, 0, th.last, Inferred)
		}
		return nil
	}
	if err := s.popTo(th, at+1, th.last, Inferred); err != nil {
		return err
	}
	return s.popTo(th, at, th.last, End(e.Kind-reader.Exit))
}

// popTo ends open calls at now until depth are left.
func (s *shard) popTo(th *thread, depth int, now uint64, end End) error {
	for len(th.stack) > depth {
		if s.n == len(s.calls) {
			if err := s.flush(false); err != nil {
				return err
			}
		}
		s.pop(th, now, end)
		switch end {
		case Inferred:
			s.stats.Inferred++
		case Truncated:
			s.stats.Truncated++
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
	if f.args {
		s.popArgs(th, top)
	}
	if top >= deepStack {
		if th.deep[f.fn]--; th.deep[f.fn] == 0 {
			delete(th.deep, f.fn)
		}
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

// custom notes custom or typed event i of a block.
func (s *shard) custom(th *thread, e *reader.Event, side *sideTables, i int) {
	s.stats.Custom++
	ev := Event{TSC: th.last, Kind: e.Kind, CPU: e.CPU, Depth: uint32(len(th.stack))}
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
		s.batch.Thread, s.batch.Index = th.id, th.index
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
