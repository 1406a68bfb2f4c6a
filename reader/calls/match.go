package calls

import (
	"slices"

	"github.com/xray-tools/xray/reader"
)

// batchCalls is the number of calls in a batch: 24 KB, which stay in the first-level cache
// until the sink has read them.
const batchCalls = 512

// thread is the state of a thread while another one is matched.
type thread struct {
	id     reader.Thread
	skip   bool    // the filter drops this thread
	frames []frame // of the open calls up to deepStack, the outermost first
	last   uint64  // time of the latest record
	// offset is the sum of all backward steps of the clock. It is added to every timestamp,
	// so that time continues where it was.
	offset uint64
	// left is how many exits at the TSC leftAt may still be of calls that were left.
	left   uint32
	peak   int32 // most calls that were open at the end of a block, by frames
	leftAt uint64
	// awaits is set if the innermost open call, of function awaited, left at time awaitedAt
	// through a tail call that may continue it.
	awaits    bool
	awaited   reader.FuncID
	awaitedAt uint64
	// windowed is set if the recording has windows: calls may have begun before them. The latest
	// began at the time began.
	windowed bool
	began    uint64
	rare     *rare
	// suspended is when the stack ceased to run, or 0 while it runs.
	suspended uint64
	cuts      []reader.BudgetChange // of later times, at which open calls of functions are given up
	span      spanning
}

// rare is state that few threads need.
type rare struct {
	deep   deep
	args   []frameArg     // of open calls, the outermost first
	values []reader.Value // of those that are described
	waits  []frameWait    // of open calls that have any, the outermost first
	// interrupts is nil until they are needed.
	interrupts *interrupts
	// switched are switches since thread.awaitedAt.
	switched []switched
	// With Options.CanCall: calls that leave ended, with the functions that ended them, and pairs
	// whose first function is known to call the second after all.
	abandoned, calls []pair
	origins          []reader.FuncID // with Options.Alias, by depth: functions before it
}

// rarely returns the rare state, and allocates it if needed.
func (th *thread) rarely() *rare {
	if th.rare == nil {
		th.rare = new(rare)
	}
	return th.rare
}

// frameArg is an argument of the open call at a depth.
type frameArg struct {
	depth int
	value uint64 // of a described one, its position in rare.values
	kind  argKind
}

type argKind uint8

const (
	argument argKind = iota
	result
	described // by an event
)

// shard rebuilds the calls of the threads of one goroutine.
type shard struct {
	opts         *Options
	sink         Sink
	filter       *filter   // nil to keep all
	threads      []*thread // by thread index; nil for those of other shards, and those that ended
	stack        stack     // of the thread of the latest block
	batch        Batch
	calls        *[batchCalls]Call // batch.Calls is a slice of it
	n            int               // calls in use
	settled      int               // calls whose waits are in the batch
	paths        *Paths
	stats        Stats
	piled        []reader.FuncID // scratch memory of pile
	callable     *callable       // nil unless Options.CanCall
	tails        tailCalls
	limits       *limits // of the pass
	frames       int64   // bytes of open calls
	marked       bool    // there are calls with Earlier, which the hot loop does not reset
	outside      Stats   // before a block of a thread that has not reached the time of the filter
	fibers       fibers
	partArgs     []reader.Arg // scratch memory of divide
	partPayloads []reader.Payload
	// countedPaths and countedBytes are what limits have counted.
	countedPaths, countedBytes int64
	discards                   bool // the sink was replaced, because a limit was exceeded
	// The hot loop, for this shard's options; nil if every record takes the general way.
	fastFDR, fastBasic fastLoop
}

func newShard(opts *Options, limits *limits, sink Sink) *shard {
	s := &shard{opts: opts, limits: limits, sink: sink, calls: new([batchCalls]Call)}
	if opts.Alias == nil && opts.cuts == nil && (opts.RootDepth == 0 || opts.RootDepth == 1) {
		s.fastFDR, s.fastBasic = fastFor(opts)
	}
	if opts.CanCall != nil {
		s.callable = new(callable)
	}
	if opts.Opens {
		s.batch.Opens = make([]Open, 0, batchCalls)
	}
	s.stack.init(opts.Nested)
	if f := opts.Filter.anytime(); f.active() {
		s.filter = newFilter(&f)
	}
	if opts.Paths {
		s.paths = NewPaths()
		if b := opts.Budget; b != nil && b.kept != nil {
			if s.paths = b.kept; opts.Shards > 1 {
				s.paths = s.paths.clone()
			}
		}
		if opts.Roots != nil {
			s.paths.roots = newFuncCache(opts.Roots)
		}
		s.batch.Paths = s.paths
	}
	return s
}

// skipped stands for all threads that a filter drops.
var skipped = &thread{skip: true}

func (s *shard) thread(b *reader.Block) *thread {
	if b.Index >= len(s.threads) {
		s.threads = slices.Grow(s.threads, b.Index+1-len(s.threads))[:b.Index+1]
	}
	th := s.threads[b.Index]
	if th == nil {
		if s.opts.Filter.Thread != nil && !s.opts.Filter.Thread(b.Thread) {
			th = skipped
		} else {
			th = &thread{id: b.Thread, cuts: s.opts.cuts[b.Thread.File].all, span: spanOf(&s.opts.Filter)}
		}
		s.threads[b.Index] = th
		s.stats.Threads++
	}
	return th
}

// ended frees a thread without open calls. Others wait for finish.
func (s *shard) ended(index int) error {
	if index >= len(s.threads) || s.threads[index] == nil {
		return nil
	}
	th := s.threads[index]
	if !th.skip {
		s.stack.use(th)
		if s.stack.depth > 0 {
			return nil
		}
		s.batch.Thread, s.batch.Index = th.id, index
		th.span.phase = after
		if err := s.flush(true); err != nil {
			return err
		}
	}
	s.threads[index] = nil
	return nil
}

// block matches the entries and exits of b.
func (s *shard) block(b *reader.Block) error {
	if s.fibers == nil && len(b.Payloads) == 0 {
		return s.part(b)
	}
	return s.divide(b)
}

// part matches the entries and exits of a part of a block, on one stack. At its end, it passes the remaining calls
// to the sink, so that a batch is always of one thread.
func (s *shard) part(b *reader.Block) error {
	if len(b.Events)+b.Packed.Len() == 0 {
		if b.Ended && s.opts.anyOrder {
			return s.ended(b.Index)
		}
		return nil
	}
	th := s.thread(b)
	if th.skip || th.span.phase == after {
		return nil
	}
	s.batch.Thread, s.batch.Index = th.id, b.Index
	s.stack.use(th)
	if th.span.phase == before {
		s.outside = s.stats
	}
	var err error
	if b.Packed.Len() > 0 {
		err = s.packed(th, &b.Packed)
	} else {
		err = s.events(th, b)
	}
	if err != nil {
		return err
	}
	switch {
	case th.span.phase == before:
		s.drop(th)
	case th.span.phase == within || th.last > 0:
		s.stats.span(th.last)
	}
	return s.flush(false)
}

// events matches the events of a block.
func (s *shard) events(th *thread, b *reader.Block) error {
	s.begin(th, len(b.Events), b.Events[0].TSC)
	side := sideTables{b.Args, b.Payloads}
	for i := range b.Events {
		e := b.Events[i]
		if th.at(e.TSC) >= th.span.edge {
			if err := s.reach(th, &e, &side, i, len(b.Events)-i); err != nil || th.span.phase == after {
				return err
			}
		}
		if err := s.event(th, &e, &side, i); err != nil {
			return err
		}
	}
	return nil
}

// at returns the time of the next record, which is at tsc. If its clock went backwards there, no time
// has passed.
func (th *thread) at(tsc uint64) uint64 { return max(tsc+th.offset, th.last) }

// begin counts events of a thread, the first of which is at tsc.
func (s *shard) begin(th *thread, events int, tsc uint64) {
	tsc = th.at(tsc)
	if th.span.phase == within && tsc >= th.span.edge {
		s.stats.Events += uint64(events) // reach subtracts them
		return
	}
	if s.stats.Events == 0 {
		s.stats.First = tsc
	}
	s.stats.Events += uint64(events)
	s.stats.span(tsc)
}

// packed matches packed records.
func (s *shard) packed(th *thread, p *reader.Packed) error {
	r := run{Packed: *p}
	s.begin(th, p.Len(), r.First().TSC)
	hidden, offset := r.hide(th), th.offset
	for len(r.Records)+hidden > 0 {
		if len(r.Records) == 0 {
			r.Records, hidden, offset = r.Records[:hidden], 0, never
			e := r.First()
			if err := s.reach(th, &e, &sideTables{}, 0, r.Len()); err != nil || th.span.phase == after {
				return err
			}
		}
		if s.n == len(s.calls) || s.opts.Opens && len(s.batch.Opens) == cap(s.batch.Opens) {
			if err := s.flush(false); err != nil {
				return err
			}
		} else {
			e := r.First()
			if err := s.event(th, &e, &sideTables{}, 0); err != nil {
				return err
			}
			r.DropFirst(e.TSC)
		}
		if offset != th.offset { // the clock has stepped back, or the thread has reached an edge
			r.Records = r.Records[:len(r.Records)+hidden]
			hidden, offset = r.hide(th), th.offset
		}
		if th.left == 0 && !th.awaits && !th.span.group && th.span.since == 0 {
			s.fast(th, &r)
		}
	}
	return nil
}

// run is the rest of a sequence of packed records.
type run struct{ reader.Packed }

// event handles event i of a block in the general way. It may change e.
func (s *shard) event(th *thread, e *reader.Event, side *sideTables, i int) error {
	if th.awaits && (e.Kind.IsEnter() || e.Kind.IsExit()) {
		if err := s.resolve(th, e); err != nil {
			return err
		}
	}
	if th.span.group && th.span.entering == 0 && e.Kind <= reader.EnterArg {
		s.entered(th)
	}
	if len(th.cuts) > 0 || s.opts.cuts != nil && s.stack.top().key&cut != 0 {
		if err := s.cut(th, e.TSC); err != nil {
			return err
		}
	}
	before, now := th.last, e.TSC+th.offset
	if now < th.last {
		back := th.last - now
		th.offset += back
		s.stats.ClockSteps++
		s.stats.ClockBack += back
		now = th.last
	}
	th.last = now
	fn := e.Func
	if s.opts.Alias != nil {
		e.Func = s.opts.Alias(e.Func)
	}
	switch {
	case e.Kind.IsEnter():
		th.left = 0
		if s.opts.CanCall != nil {
			if err := s.leave(th, fn); err != nil {
				return err
			}
		}
		s.enter(th, e)
		if s.opts.CanCall != nil && s.opts.Alias != nil {
			s.keepOrigin(th, fn)
		}
		s.args(th, side, i)
	case e.Kind.IsExit():
		if err := s.exit(th, e, fn, th.end(e)); err != nil {
			return err
		}
	default:
		return s.custom(th, e, side, i, before)
	}
	if th.span.group {
		s.enters(th)
	} else {
		th.span.since = 0
	}
	return nil
}

// end returns how an exit ends its call.
func (th *thread) end(e *reader.Event) End {
	if th.left > 0 && e.Kind == reader.Exit && e.TSC == th.leftAt {
		th.left--
		return Left
	}
	th.left = 0
	return End(e.Kind - reader.Exit)
}

func (s *shard) enter(th *thread, e *reader.Event) {
	f := frame{start: th.last, key: keyOf(e.Func)}
	if s.stack.top().key&gone != 0 {
		f.key |= continues
	}
	if s.paths != nil {
		caller := s.stack.top()
		switch {
		case s.opts.RootDepth == EveryRoot && s.paths.roots.of(e.Func):
			f.path = s.paths.Child(0, e.Func)
		case s.opts.RootDepth > 1 && caller.path == 0:
			s.enterOutside(&f, caller, e.Func)
		default:
			f.path = s.paths.childAfter(caller.path, caller.child, e.Func)
			caller.child = f.path
		}
	}
	if s.opts.Opens && !th.span.group {
		s.batch.Opens = append(s.batch.Opens, Open{Call: s.n, Start: f.start, Func: e.Func, Depth: uint32(s.stack.depth)})
	}
	s.stack.push(f)
	s.stats.MaxDepth = max(s.stats.MaxDepth, uint32(s.stack.depth))
}

// enterOutside sets the path of a call that is made outside of all paths, with Options.RootDepth.
// Frames without a path count the open calls of Roots in child.
func (s *shard) enterOutside(f, caller *frame, fn reader.FuncID) {
	f.child = caller.child
	if !s.paths.roots.of(fn) {
		return
	}
	if f.child++; int(f.child) >= s.opts.RootDepth {
		f.path, f.child = s.paths.Child(0, fn), 0
	}
}

// set sets all fields of a call except Nested, Args and Earlier.
func (c *Call) set(f, caller *frame, now uint64, depth int, end End) {
	d := now - f.start
	c.Start = f.start
	c.Duration = d
	c.Self = d - f.inside
	c.Func = f.fn()
	c.Caller = caller.fn()
	c.Path = f.path
	c.Depth = uint32(depth)
	c.End = end
	caller.inside += d
}

// sideTables are the remaining arguments and payloads of a block.
type sideTables struct {
	args     []reader.Arg
	payloads []reader.Payload
}

// args attaches the arguments of event i to the call just opened.
func (s *shard) args(th *thread, side *sideTables, i int) {
	for len(side.args) > 0 && side.args[0].Event <= i {
		if side.args[0].Event == i {
			s.stack.top().key |= hasArgs
			rare := th.rarely()
			rare.args = append(rare.args, frameArg{depth: s.stack.depth, value: side.args[0].Value})
			s.stats.Args++
			if s.opts.Opens && !th.span.group {
				if o := &s.batch.Opens[len(s.batch.Opens)-1]; !o.Args {
					o.Arg, o.Args = side.args[0].Value, true
				}
			}
		}
		side.args = side.args[1:]
	}
}

// exit ends the call of an exit, and the calls inside it. fn is the function before
// Options.Alias.
func (s *shard) exit(th *thread, e *reader.Event, fn reader.FuncID, end End) error {
	depth := s.stack.depth
	if s.opts.Policy != Exact {
		depth = s.stack.findExit(e.Func)
	}
	if depth == 0 || !s.stack.at(depth).exits(e.Func) {
		if s.opts.cuts[th.id.File].had(fn, e.TSC) {
			return nil // its call was given up
		}
		if th.windowed {
			s.stats.Before++
			if s.opts.Policy == DeduceOrClear {
				return s.popTo(th, 0, Inferred)
			}
			return nil
		}
		s.stats.Unmatched++
		th.stayed(fn)
		if s.opts.Unmatched != nil {
			if err := s.opts.Unmatched(&Unmatched{Thread: th.id, Event: *e, stack: &s.stack}); err != nil {
				return err
			}
		}
		if s.opts.Policy == DeduceOrClear {
			return s.popTo(th, 0, Inferred)
		}
		return nil
	}
	s.pile(depth, &s.stats.Pile)
	if err := s.popTo(th, depth, Inferred); err != nil {
		return err
	}
	if end == TailExited && s.opts.Continue != nil && depth <= deepStack {
		s.await(th, fn)
		return nil
	}
	if err := s.popTo(th, depth-1, end); err != nil {
		return err
	}
	return s.popContinued(th, Continued)
}

// popTo ends open calls at the time of the latest record until depth are left.
func (s *shard) popTo(th *thread, depth int, end End) error {
	for s.stack.depth > depth {
		if s.n == len(s.calls) {
			if err := s.flush(false); err != nil {
				return err
			}
		}
		s.pop(th, end)
		switch end {
		case Inferred:
			s.stats.Inferred++
		case Truncated:
			s.stats.Truncated++
		case Left:
			s.stats.Left++
		}
	}
	return nil
}

// pop ends the innermost open call. There is room for it in s.calls.
func (s *shard) pop(th *thread, end End) {
	f := s.stack.top()
	c := &s.calls[s.n]
	s.stack.pop()
	c.set(f, s.stack.top(), th.last, s.stack.depth, end)
	c.Nested = s.opts.Nested && s.stack.isOpen(c.Func)
	args, results, values := len(s.batch.Args), len(s.batch.Results), len(s.batch.Values)
	c.Args = f.key&hasArgs != 0 && s.popArgs(th.rare)
	if th.span.group && s.stack.depth >= th.span.base {
		// It ended before the cut that the records describe.
		s.batch.Args, s.batch.Results, s.batch.Values = s.batch.Args[:args], s.batch.Results[:results], s.batch.Values[:values]
		return
	}
	if c.Earlier = f.key&earlier != 0; c.Earlier {
		s.stats.Earlier++
		s.marked = true
	}
	s.n++
}

// popArgs adds the arguments, the result and the values of the call that was innermost to the batch. It
// reports whether there were arguments.
func (s *shard) popArgs(r *rare) (args bool) {
	i := len(r.args)
	for i > 0 && r.args[i-1].depth > s.stack.depth {
		i--
	}
	values := len(r.values)
	for _, a := range r.args[i:] {
		switch a.kind {
		case result:
			s.batch.Results = append(s.batch.Results, Arg{s.n, a.value})
		case described:
			s.batch.Values = append(s.batch.Values, Value{s.n, r.values[a.value]})
			values = min(values, int(a.value))
		default:
			s.batch.Args = append(s.batch.Args, Arg{s.n, a.value})
			args = true
		}
	}
	r.values = r.values[:values]
	r.args = r.args[:i]
	return args
}

// attach attaches a result or a value to the innermost open call, or does nothing if its entry is not in the
// trace. The record follows what the call itself has done, so no other call goes on in a tail call.
func (s *shard) attach(th *thread, kind argKind, number uint64, value reader.Value) error {
	if err := s.stopAwaiting(th); err != nil || s.stack.depth == 0 {
		return err
	}
	s.stack.top().key |= hasArgs
	rare := th.rarely()
	if kind == described {
		value.Data = slices.Clone(value.Data)
		number, rare.values = uint64(len(rare.values)), append(rare.values, value)
	}
	rare.args = append(rare.args, frameArg{s.stack.depth, number, kind})
	return nil
}

// custom adds custom or typed event i of a block. The record before it is at before. Sinks do not
// get landings as events: the calls that were left show them. Nor do they get switches, which are
// gaps, or results and values, which belong to calls.
func (s *shard) custom(th *thread, e *reader.Event, side *sideTables, i int, before uint64) error {
	s.stats.Custom++
	ev := Event{TSC: th.last, Kind: e.Kind, CPU: e.CPU}
	for len(side.payloads) > 0 && side.payloads[0].Event <= i {
		if side.payloads[0].Event == i {
			ev.Type, ev.Data = side.payloads[0].Type, side.payloads[0].Data
		}
		side.payloads = side.payloads[1:]
	}
	if e.Kind == reader.Custom {
		if edge, ok := reader.ParseEdge(ev.Data); ok {
			return s.edge(th, edge)
		}
		if c, ok := reader.ParseCut(ev.Data); ok {
			return s.cutHere(th, c, before)
		}
		if th.span.entering > 0 {
			s.entered(th)
		}
		if kind, _, ok := reader.SplitMetadata(ev.Data); ok && kind == reader.MetadataStacks {
			if _, known := reader.ParseStack(ev.Data); !known || s.opts.fiber == nil {
				s.stats.Stacks++
				return nil
			}
			s.resume(th, before)
			return nil
		}
		if sw, ok := reader.ParseSwitch(ev.Data); ok {
			if th.windowed && before == th.began {
				return nil // it was, at least in part, before the window
			}
			if th.awaits && s.opts.OffCPU != nil {
				return s.keepSwitched(th, &sw, th.lasting(before))
			}
			s.gap(th, &sw, th.lasting(before), never)
			return nil
		}
		th.span.since = 0
		if value, ok := reader.ParseResult(ev.Data); ok {
			th.left = 0
			return s.attach(th, result, value, reader.Value{})
		}
		if value, ok := reader.ParseValue(ev.Data); ok {
			th.left = 0
			return s.attach(th, described, 0, value)
		}
	}
	// No tail call follows: the program ran on to what made the event. But the name of a
	// descriptor is before the call that uses it.
	if _, ok := reader.ParseDescriptor(ev.Data); !ok || e.Kind != reader.Custom {
		if err := s.stopAwaiting(th); err != nil {
			return err
		}
		s.entered(th)
	}
	if landing, ok := reader.ParseLanding(ev.Data); ok && e.Kind == reader.Custom {
		th.left, th.leftAt = landing.Calls, e.TSC
		return nil
	}
	th.left = 0
	caller := s.stack.top()
	ev.Func, ev.Path, ev.Depth, ev.Call = caller.fn(), caller.path, uint32(s.stack.depth), s.n
	s.batch.Events = append(s.batch.Events, ev)
	return nil
}

// flush passes the calls so far to the sink.
func (s *shard) flush(last bool) error {
	b := &s.batch
	if s.n == 0 && len(b.Events) == 0 && len(b.Opens) == 0 && len(b.Gaps) == 0 && !last {
		return nil
	}
	if th := s.stack.thread; th != nil && th.span.phase == before {
		s.drop(th)
		return s.limits.check(s)
	}
	if s.opts.OffCPU != nil {
		s.settle(s.stack.thread)
	}
	b.Calls = s.calls[:s.n]
	b.Last = last
	s.stats.Calls += uint64(s.n)
	s.n, s.settled = 0, 0
	if !s.stats.Short && s.opts.Short > 0 {
		// If there are short calls at all, this rarely examines more than one batch.
		s.stats.Short = slices.ContainsFunc(b.Calls, func(c Call) bool { return c.Duration < s.opts.Short && c.End <= Continued })
	}
	if s.filter != nil {
		s.filter.apply(b)
	}
	if s.paths != nil && s.paths.frozen {
		s.folded(b)
	}
	err := s.sink.Calls(b)
	s.unmark()
	b.Results, b.Values = b.Results[:0], b.Values[:0]
	b.Args, b.Events, b.Opens, b.Waits, b.Gaps = b.Args[:0], b.Events[:0], b.Opens[:0], b.Waits[:0], b.Gaps[:0]
	if err != nil {
		return err
	}
	return s.limits.check(s)
}

// finish ends the calls that are still open, thread by thread.
func (s *shard) finish() error {
	for i, th := range s.threads {
		if th == nil || th.skip {
			continue
		}
		s.batch.Thread, s.batch.Index = th.id, i
		s.stack.use(th)
		s.outside = s.stats
		if err := s.stopAwaiting(th); err != nil {
			return err
		}
		s.entered(th)
		s.pile(0, &s.stats.OpenPile)
		if err := s.popTo(th, 0, Truncated); err != nil {
			return err
		}
		if th.span.phase == before { // it has nothing in the time of the filter
			s.drop(th)
			th.span.phase = after
		}
		if err := s.flush(true); err != nil {
			return err
		}
	}
	s.stats.Entries = s.stats.Calls // every call that was opened has ended
	s.stats.Exits = s.stats.Events - s.stats.Entries - s.stats.Custom
	return nil
}
