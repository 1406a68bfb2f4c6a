package calls

import (
	"slices"

	"github.com/xray-tools/xray/reader"
)

// A thread may switch between stacks. Events of the recorder say which stack the records after them are on. Each
// stack but the thread's own is a fiber, whose calls are those of a thread of its own. While another stack runs, a
// stack is suspended: it is blocked.

// fiberSource is a source that numbers fibers, as reader.Trace does.
type fiberSource interface {
	Fiber(th reader.Thread, number uint32) (reader.Thread, int, error)
}

// fibersOf returns [reader.Trace.Fiber] of the trace of src. A source that changes the blocks of another one says which
// by a method Below. It returns nil if there is no trace: calls of all stacks of a thread are mixed then.
func fibersOf(src Source) func(reader.Thread, uint32) (reader.Thread, int, error) {
	switch src := src.(type) {
	case fiberSource:
		return src.Fiber
	case interface{ Below() Source }:
		return fibersOf(src.Below())
	}
	return nil
}

// Below returns the trace.
func (s inOrder) Below() Source { return s.trace }

// Below returns the trace.
func (s abreast) Below() Source { return s.trace }

// fibers is which stack each thread is on, by Block.Index. Threads that were always on their own are not in it.
type fibers map[int]*onStack

// onStack is the stack that a thread is on. Number 0 is its own.
type onStack struct {
	number uint32
	thread reader.Thread
	index  int
}

// divide passes the parts of a block that are on one stack to part.
func (s *shard) divide(b *reader.Block) error {
	on := s.fibers[b.Index]
	if on == nil && (s.opts.fiber == nil || !slices.ContainsFunc(b.Payloads, func(p reader.Payload) bool { _, ok := reader.ParseStack(p.Data); return ok })) {
		return s.part(b)
	}
	if on == nil {
		if s.fibers == nil {
			s.fibers = make(fibers)
		}
		on = &onStack{0, b.Thread, b.Index}
		s.fibers[b.Index] = on
	}
	if len(b.Events) == 0 {
		if b.Packed.Len() == 0 {
			return s.part(b)
		}
		part := *b
		part.Thread, part.Index = on.thread, on.index
		return s.part(&part)
	}
	from, args, payloads := 0, b.Args, b.Payloads
	upTo := func(i int) error {
		if from == i {
			return nil
		}
		part := *b
		part.Thread, part.Index, part.Events = on.thread, on.index, b.Events[from:i]
		part.Args, part.Payloads = s.partArgs[:0], s.partPayloads[:0]
		for ; len(args) > 0 && args[0].Event < i; args = args[1:] {
			part.Args = append(part.Args, reader.Arg{Event: args[0].Event - from, Value: args[0].Value})
		}
		for ; len(payloads) > 0 && payloads[0].Event < i; payloads = payloads[1:] {
			p := payloads[0]
			p.Event -= from
			part.Payloads = append(part.Payloads, p)
		}
		s.partArgs, s.partPayloads, from = part.Args, part.Payloads, i
		return s.part(&part)
	}
	for _, p := range b.Payloads {
		to, ok := reader.ParseStack(p.Data)
		if !ok || to == on.number || b.Events[p.Event].Kind != reader.Custom {
			continue
		}
		if err := upTo(p.Event); err != nil {
			return err
		}
		s.suspend(on.index, b.Events[p.Event].TSC)
		*on = onStack{to, b.Thread, b.Index}
		if to > 0 {
			th, index, err := s.opts.fiber(b.Thread, to)
			if err != nil {
				return err
			}
			on.thread, on.index = th, index
		}
	}
	return upTo(len(b.Events))
}

// suspend notes that a stack runs no longer.
func (s *shard) suspend(index int, tsc uint64) {
	if index < len(s.threads) && s.threads[index] != nil {
		th := s.threads[index]
		th.suspended = max(th.at(tsc), 1)
	}
}

// resume ends the suspension of a stack, if there was one. The record before is at a time.
func (s *shard) resume(th *thread, before uint64) {
	from := th.suspended
	th.suspended = 0
	if from == 0 || s.opts.OffCPU == nil {
		return
	}
	s.settle(th)
	top := s.stack.top()
	s.addGap(th, Gap{
		From: before, To: th.last, Off: Off{Blocked: th.last - min(max(from, before), th.last)}, Known: true, QueueKnown: true,
		Func: top.fn(), Path: top.path, Depth: uint32(s.stack.depth),
	})
}
