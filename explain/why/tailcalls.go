package why

import (
	"maps"
	"math"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// pair is a function that left through a tail call, and the one entered next.
type pair struct{ caller, callee reader.FuncID }

// prompt counts how often a pair occurred, and how often the second followed at once.
type prompt struct{ seen, prompt uint64 }

// pairCounter counts the pairs of one goroutine.
type pairCounter struct {
	within uint64
	first  uint64         // smallest TSC
	left   []reader.Event // by thread: the tail exit that was its latest event, or Kind Enter
	pairs  map[pair]*prompt
	loose  map[reader.FuncID]bool // functions with a tail exit that no entry followed
}

func (p *pairCounter) block(b *reader.Block) {
	p.left = grow(p.left, b.Index+1)
	last := p.left[b.Index]
	for i := range b.Events {
		e := &b.Events[i]
		p.first = min(p.first, e.TSC)
		if last.Kind == reader.TailExit {
			p.follow(&last, e)
		}
		last = *e
	}
	switch {
	case b.Packed.Len() == 0:
	case b.Packed.Basic:
		last = countPacked[on](p, last, &b.Packed)
	default:
		last = countPacked[off](p, last, &b.Packed)
	}
	p.left[b.Index] = last
}

// follow counts an event that follows a tail exit.
func (p *pairCounter) follow(last, e *reader.Event) {
	if e.Kind.IsExit() {
		p.loose[last.Func] = true
	}
	if !e.Kind.IsEnter() || e.TSC < last.TSC {
		return
	}
	k := pair{last.Func, e.Func}
	n := p.pairs[k]
	if n == nil {
		n = new(prompt)
		p.pairs[k] = n
	}
	n.seen++
	if e.TSC-last.TSC <= p.within {
		n.prompt++
	}
}

// findTailCalls distinguishes tail calls of functions with sleds from others: the callee is
// nearly always entered at once. Deciding by pair rather than by event keeps paths the same
// if a thread is interrupted between the two. It also finds the smallest timestamp.
func findTailCalls(src calls.Source, shards int, within uint64) (found map[pair]bool, first uint64, err error) {
	counters := make([]pairCounter, shards)
	for i := range counters {
		counters[i] = pairCounter{within: within, first: math.MaxUint64, pairs: make(map[pair]*prompt), loose: make(map[reader.FuncID]bool)}
	}
	err = eachPacked(src, shards, func(i int, b *reader.Block) error {
		counters[i].block(b)
		return nil
	})
	first = math.MaxUint64
	total := make(map[pair]prompt)
	loose := make(map[reader.FuncID]bool)
	for i := range counters {
		maps.Copy(loose, counters[i].loose)
		for _, last := range counters[i].left {
			if last.Kind == reader.TailExit {
				loose[last.Func] = true
			}
		}
		first = min(first, counters[i].first)
		for k, n := range counters[i].pairs {
			t := total[k]
			total[k] = prompt{t.seen + n.seen, t.prompt + n.prompt}
		}
	}
	found = make(map[pair]bool)
	for k, n := range total {
		if 10*n.prompt >= 9*n.seen {
			found[k] = true
		}
	}
	breakLoops(found, loose)
	return found, first, err
}

// nesting is a source in which tail calls are inside the calls that made them: a caller
// exits when its callee does.
type nesting struct {
	calls.Source
	pairs map[pair]bool
}

// Each rewrites the blocks of the source.
func (s nesting) Each(n int, fn func(shard int, b *reader.Block) error) error {
	return s.each(s.Source.Each, n, fn)
}

// EachPacked rewrites the blocks of the source. Those that are packed stay so.
func (s nesting) EachPacked(n int, fn func(shard int, b *reader.Block) error) error {
	each := func(n int, fn func(int, *reader.Block) error) error { return eachPacked(s.Source, n, fn) }
	return s.each(each, n, fn)
}

func (s nesting) each(each func(int, func(int, *reader.Block) error) error, n int, fn func(shard int, b *reader.Block) error) error {
	shards := make([]nester, n)
	for i := range shards {
		shards[i].pairs = s.pairs
		shards[i].emit = func(b *reader.Block) error { return fn(i, b) }
	}
	err := each(n, func(i int, b *reader.Block) error { return shards[i].block(b) })
	for i := range shards {
		for _, t := range shards[i].threads {
			if err == nil && t != nil && t.waits {
				err = shards[i].leave(t)
			}
		}
	}
	return err
}

// nester rewrites the blocks of one goroutine.
type nester struct {
	pairs   map[pair]bool
	emit    func(*reader.Block) error
	threads []*nestedThread // by Block.Index
	out     reader.Block    // reused
	records []byte          // reused
}

// nestedThread is the state of a thread.
type nestedThread struct {
	id    reader.Thread
	index int
	left  reader.Event // the tail exit that was the latest event, if waits is set
	waits bool
	// open are calls from the outermost that waits for its tail call, or none.
	open []openCall
}

type openCall struct {
	fn   reader.FuncID
	left bool // ends with the last call that it made
}

// searched is the maximum number of calls in which an exit is searched, so that damaged
// traces do not take quadratic time.
const searched = 255

func (n *nester) block(b *reader.Block) error {
	n.threads = grow(n.threads, b.Index+1)
	t := n.threads[b.Index]
	if t == nil {
		t = &nestedThread{id: b.Thread, index: b.Index}
		n.threads[b.Index] = t
	}
	if b.Packed.Len() > 0 {
		return n.packed(t, b)
	}
	if !t.waits && len(t.open) == 0 && !hasTailExit(b) {
		return n.emit(b)
	}
	return n.emit(n.events(t, b))
}

// leave passes on the tail exit that a thread waits with, and the exits of the calls that
// end with it, in a block of their own.
func (n *nester) leave(t *nestedThread) error {
	t.waits = false
	out := n.clear()
	out.Thread, out.Index, out.Offset = t.id, t.index, -1
	out.Events = t.leave(out.Events, t.left)
	return n.emit(out)
}

// clear returns an empty block.
func (n *nester) clear() *reader.Block {
	n.out = reader.Block{Events: n.out.Events[:0], Args: n.out.Args[:0], Payloads: n.out.Payloads[:0]}
	return &n.out
}

// nests reports whether an event is the entry of the tail call of a function that exited.
func (n *nester) nests(caller reader.FuncID, kind reader.Kind, fn reader.FuncID) bool {
	return kind.IsEnter() && n.pairs[pair{caller, fn}]
}

// events rewrites a block of events.
func (n *nester) events(t *nestedThread, b *reader.Block) *reader.Block {
	out := n.clear()
	out.Thread, out.Index, out.Offset = b.Thread, b.Index, b.Offset
	args, payloads := b.Args, b.Payloads
	for i := range b.Events {
		e := &b.Events[i]
		if t.waits {
			t.waits = false
			if n.nests(t.left.Func, e.Kind, e.Func) {
				t.hold(t.left.Func)
			} else {
				out.Events = t.leave(out.Events, t.left)
			}
		}
		for ; len(args) > 0 && args[0].Event <= i; args = args[1:] {
			out.Args = append(out.Args, reader.Arg{Event: len(out.Events), Value: args[0].Value})
		}
		for ; len(payloads) > 0 && payloads[0].Event <= i; payloads = payloads[1:] {
			p := payloads[0]
			p.Event = len(out.Events)
			out.Payloads = append(out.Payloads, p)
		}
		switch {
		case e.Kind == reader.TailExit:
			t.left, t.waits = *e, true
		case e.Kind == reader.Exit:
			out.Events = t.leave(out.Events, *e)
		default:
			if e.Kind.IsEnter() && len(t.open) > 0 {
				t.open = append(t.open, openCall{fn: e.Func})
			}
			out.Events = append(out.Events, *e)
		}
	}
	return out
}

func hasTailExit(b *reader.Block) bool {
	for i := range b.Events {
		if b.Events[i].Kind == reader.TailExit {
			return true
		}
	}
	return false
}

// find returns the index of the innermost open call of a function, or -1.
func (t *nestedThread) find(fn reader.FuncID) int {
	for i := len(t.open) - 1; i >= max(0, len(t.open)-searched); i-- {
		if t.open[i].fn == fn && !t.open[i].left {
			return i
		}
	}
	return -1
}

// hold keeps a call open until the next call that is entered ends.
func (t *nestedThread) hold(fn reader.FuncID) {
	if i := t.find(fn); i >= 0 {
		t.open = t.open[:i]
	} else {
		t.open = t.open[:0]
	}
	t.open = append(t.open, openCall{fn, true})
}

// leave appends an exit, and those of the calls that end with it.
func (t *nestedThread) leave(out []reader.Event, exit reader.Event) []reader.Event {
	out = append(out, exit)
	for _, c := range slices.Backward(t.end(exit.Func)) {
		out = append(out, reader.Event{TSC: exit.TSC, Func: c.fn, CPU: exit.CPU, Kind: reader.TailExit})
	}
	return out
}

// end ends a call, and returns the calls that end with it, the outermost first. They are
// valid until the next call.
func (t *nestedThread) end(fn reader.FuncID) []openCall {
	if len(t.open) == 0 {
		return nil
	}
	i := t.find(fn)
	if i < 0 {
		// An exception, or lost records: the exit is of a call further out.
		t.open = t.open[:0]
		return nil
	}
	first := i
	for first > 0 && t.open[first-1].left {
		first--
	}
	held := t.open[first:i]
	t.open = t.open[:first]
	return held
}

// grow lengthens s to at least n elements.
func grow[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}
