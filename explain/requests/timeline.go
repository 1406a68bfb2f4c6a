package requests

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
)

// Timeline is a source in which requests are calls of [reader.Request], so that analyses of calls explain them.
// Such a call has the critical path of the request: the calls of its segments, and between them calls of
// [reader.Suspended], [reader.ExecutorAwaited] and [reader.ExecutorAtMost]. Inside the latter two are those
// calls that the awaited thread made meanwhile, and around those of another request [reader.OtherRequest].
//
// Requests are on threads of their own, one after the other, with negative thread IDs. The other threads have
// what is on no critical path.
type Timeline struct {
	src     calls.Source
	set     *Set
	threads int // of src
	pieces  map[int][]*piece
	lanes   [][]*request
	clock   reader.Clock
	off     bool
	within  bool
	// Requests counts those that the timeline has. Dropped counts those for which there was no memory.
	Requests, Dropped int
}

// request is a request on the timeline.
type request struct {
	*Request
	parts  []Part
	pieces []*piece     // by part; nil for waits
	waits  [][]Occupant // by part
}

// piece is a run on a critical path.
type piece struct {
	start, end uint64
	segment    uint64 // start of its segment
	marked     bool   // the segment is no call
	of         *request
	block      reader.Block // what the thread did
	open       []reader.FuncID
}

// mostEvents is the maximum number of events of requests on a timeline. An event takes 16 bytes.
const mostEvents = 1 << 24

// TimelineOptions say what a [Timeline] needs to know.
type TimelineOptions struct {
	Clock reader.Clock
	// OffCPU says that the trace has off-CPU times. Waits are blocked then.
	OffCPU bool
	// Within says that the calls of the awaited thread are inside the waits. Otherwise only [Timeline.Ran] has them.
	Within bool
	// Marks is Options.Marks: segments are no calls. The call around each is in the request, too.
	Marks bool
	// Want selects requests. nil selects all.
	Want      func(*Request) bool
	Occupants *Occupants // may be nil
}

// NewTimeline returns a timeline of the requests of a set. It reads src once. Memory grows with the events of the
// requests, up to a limit.
func NewTimeline(src calls.Source, set *Set, opts TimelineOptions) (*Timeline, error) {
	t := &Timeline{src: src, set: set, pieces: make(map[int][]*piece), clock: opts.Clock, off: opts.OffCPU, within: opts.Within}
	var list []*request
	for i := range set.Requests {
		r := &set.Requests[i]
		if opts.Want != nil && !opts.Want(r) {
			continue
		}
		q := &request{Request: r, parts: r.Path()}
		q.pieces, q.waits = make([]*piece, len(q.parts)), make([][]Occupant, len(q.parts))
		for n := range q.parts {
			p := &q.parts[n]
			if p.Kind != Run {
				q.waits[n] = opts.Occupants.Of(r, p)
				continue
			}
			s := &r.Segments[p.Segment]
			q.pieces[n] = &piece{start: p.Start, end: p.End, segment: s.Start, marked: opts.Marks, of: q}
			t.pieces[s.Index] = append(t.pieces[s.Index], q.pieces[n])
		}
		list = append(list, q)
	}
	t.sort()
	if err := t.read(&list); err != nil {
		return nil, err
	}
	t.Requests = len(list)
	t.lay(list)
	return t, nil
}

func (t *Timeline) sort() {
	for _, list := range t.pieces {
		slices.SortStableFunc(list, func(a, b *piece) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	}
}

// read fills the pieces. If there are too many events, it drops requests: those of one half of the keys, and so on.
func (t *Timeline) read(list *[]*request) error {
	following := make(map[int]*follow)
	events := 0
	keep := ^uint64(0)
	err := t.src.Each(1, func(_ int, b *reader.Block) error {
		t.threads = max(t.threads, b.Index+1)
		f := following[b.Index]
		if f == nil {
			f = &follow{pieces: t.pieces[b.Index]}
			following[b.Index] = f
		}
		f.each(b, func(p *piece, at int) {
			if p.of == nil {
				return
			}
			before := len(p.block.Events)
			p.take(b, at)
			events += len(p.block.Events) - before
		}, nil)
		for events > mostEvents && keep > 0 {
			keep >>= 1
			events = 0
			kept := (*list)[:0]
			for _, q := range *list {
				n := 0
				for _, p := range q.pieces {
					if p != nil {
						n += len(p.block.Events)
					}
				}
				if hash(q.Key) <= keep {
					events += n
					kept = append(kept, q)
					continue
				}
				t.Dropped++
				for _, p := range q.pieces {
					if p != nil {
						p.of, p.block = nil, reader.Block{}
					}
				}
			}
			clear((*list)[len(kept):])
			*list = kept
		}
		return nil
	})
	for _, f := range following {
		f.end(math.MaxUint64, nil) // all of them
	}
	return err
}

// lay divides the requests among threads on which they do not overlap.
func (t *Timeline) lay(list []*request) {
	slices.SortStableFunc(list, func(a, b *request) int { return cmp.Compare(a.Start, b.Start) })
	var ends []uint64
next:
	for _, q := range list {
		for i := range ends {
			if ends[i] <= q.Start {
				ends[i] = q.End
				t.lanes[i] = append(t.lanes[i], q)
				continue next
			}
		}
		ends = append(ends, q.End)
		t.lanes = append(t.lanes, []*request{q})
	}
}

// follow follows the pieces of a thread.
type follow struct {
	pieces []*piece // those that have not begun
	active []*piece
	open   []reader.FuncID // calls of the thread, with the time of their entry
	since  []uint64
}

// each calls in for each event of a block and each piece that has it, and out for the others. out gets event -1
// and a piece where the first of the pieces at a time begins, and event -1 without a piece where the last ends.
func (f *follow) each(b *reader.Block, in func(p *piece, at int), out func(p *piece, at int, tsc uint64)) {
	for i := range b.Events {
		e := &b.Events[i]
		f.end(e.TSC, out)
		for len(f.pieces) > 0 && f.pieces[0].start <= e.TSC {
			p := f.pieces[0]
			f.pieces = f.pieces[1:]
			if p.end < e.TSC {
				continue // it has no events
			}
			if len(f.active) == 0 && out != nil {
				out(p, -1, p.start)
			}
			if in != nil {
				p.begin(f)
			}
			f.active = append(f.active, p)
		}
		for _, p := range f.active {
			if in != nil {
				in(p, i)
			}
		}
		if len(f.active) == 0 && out != nil {
			out(nil, i, e.TSC)
		}
		switch {
		case e.Kind.IsEnter():
			f.open, f.since = append(f.open, e.Func), append(f.since, e.TSC)
		case e.Kind.IsExit():
			if n := innermost(f.open, e.Func); n >= 0 {
				f.open, f.since = f.open[:n], f.since[:n]
			}
		}
	}
}

// end ends the pieces that end before a time.
func (f *follow) end(tsc uint64, out func(p *piece, at int, tsc uint64)) {
	if len(f.active) == 0 {
		return
	}
	last := uint64(0)
	f.active = slices.DeleteFunc(f.active, func(p *piece) bool {
		if p.end >= tsc {
			return false
		}
		last = max(last, p.end)
		p.close()
		return true
	})
	if len(f.active) == 0 && out != nil {
		out(nil, -1, last)
	}
}

// searchedOpen is the maximum number of open calls that are searched for that of an exit, so that damaged traces do
// not take quadratic time.
const searchedOpen = 255

// innermost returns the position of the innermost open call of a function, or -1.
func innermost(open []reader.FuncID, fn reader.FuncID) int {
	for n := len(open) - 1; n >= max(0, len(open)-searchedOpen); n-- {
		if open[n] == fn {
			return n
		}
	}
	return -1
}

// begin opens the calls of the segment that are open where the piece begins, and for one that is no call the
// innermost around it.
func (p *piece) begin(f *follow) {
	for n, fn := range f.open {
		inside := f.since[n] >= p.segment && f.since[n] < p.start
		around := p.marked && f.since[n] < p.segment && (n+1 == len(f.open) || f.since[n+1] >= p.segment)
		if inside || around {
			p.open = append(p.open, fn)
			enter(&p.block, fn, p.start)
		}
	}
}

// take adds an event of the thread.
func (p *piece) take(b *reader.Block, at int) {
	e := b.Events[at]
	switch {
	case e.Kind.IsEnter():
		if e.TSC == p.end && p.end > p.start {
			return // the call begins after it
		}
		p.open = append(p.open, e.Func)
	case e.Kind.IsExit():
		n := innermost(p.open, e.Func)
		if n < 0 {
			return // the call began before
		}
		p.open = p.open[:n]
	case !copied(b, at):
		return
	}
	p.block.Events = append(p.block.Events, e)
	appendSides(&p.block, b, at)
}

// close ends the calls that are open at the end of the piece.
func (p *piece) close() {
	for _, fn := range slices.Backward(p.open) {
		exit(&p.block, fn, p.end)
	}
	p.open = nil
}

// copied reports whether an event with a payload says something about the calls around it. Others
// are about the thread or the recording.
func copied(b *reader.Block, at int) bool {
	kind, _, ok := reader.SplitMetadata(payload(b, at).Data)
	if !ok {
		return true
	}
	switch kind {
	case reader.MetadataSwitch, reader.MetadataResult, reader.MetadataDescriptor, reader.MetadataValue, reader.MetadataLanding:
		return true
	}
	return false
}

// payload returns the payload of an event. Its Event is -1 if there is none.
func payload(b *reader.Block, at int) reader.Payload {
	n, ok := slices.BinarySearchFunc(b.Payloads, at, func(p reader.Payload, at int) int { return cmp.Compare(p.Event, at) })
	if !ok {
		return reader.Payload{Event: -1}
	}
	return b.Payloads[n]
}

// appendSides copies the arguments and the payload of event at of b for the last event of to.
func appendSides(to, b *reader.Block, at int) {
	if !b.Events[at].Side {
		return
	}
	event := len(to.Events) - 1
	n, _ := slices.BinarySearchFunc(b.Args, at, func(a reader.Arg, at int) int { return cmp.Compare(a.Event, at) })
	for ; n < len(b.Args) && b.Args[n].Event == at; n++ {
		to.Args = append(to.Args, reader.Arg{Event: event, Value: b.Args[n].Value})
	}
	if p := payload(b, at); p.Event == at {
		to.Payloads = append(to.Payloads, reader.Payload{Event: event, Type: p.Type, Data: slices.Clone(p.Data)})
	}
}

// Each implements calls.Source: first the threads without what they did for requests, then the requests.
func (t *Timeline) Each(n int, fn func(shard int, b *reader.Block) error) error {
	shards := make([]map[int]*rest, n)
	for i := range shards {
		shards[i] = make(map[int]*rest)
	}
	err := t.src.Each(n, func(i int, b *reader.Block) error {
		if len(t.pieces[b.Index]) == 0 {
			return fn(i, b)
		}
		r := shards[i][b.Index]
		if r == nil {
			r = &rest{follow: follow{pieces: t.pieces[b.Index]}}
			shards[i][b.Index] = r
		}
		return fn(i, r.of(b))
	})
	if err != nil {
		return err
	}
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			for lane := i; lane < len(t.lanes) && errs[i] == nil; lane += n {
				for _, q := range t.lanes[lane] {
					b := &reader.Block{Thread: laneOf(q, lane), Index: t.threads + lane, Offset: -1}
					t.write(b, q)
					if errs[i] = fn(i, b); errs[i] != nil {
						break
					}
				}
			}
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// laneOf is the thread on which the timeline has a request.
func laneOf(q *request, lane int) reader.Thread {
	first := &q.Segments[0].Thread
	return reader.Thread{File: first.File, Process: first.Process, Thread: int32(-1 - lane)}
}

// Ran is what executors did while requests waited for them.
type Ran struct {
	// Self and Scope are the end of the path of calls that took most of the time: from the outermost calls inwards,
	// the function with the most time, while that is most of the time of the call around it. Scope is around Self, or
	// Self. Both are 0 if no call took long.
	Self, Scope reader.FuncID
	// Covered is the share of the waits in Scope, and SelfShare the share of that in Self. Other is the share of the
	// waits in which the executor worked on another request for long.
	Covered, SelfShare, Other float64
	// OtherClass is the class of the other requests in nearly all of that time, or "".
	OtherClass string
}

// ranPath sums up the time of calls by path.
type ranPath struct {
	fn    reader.FuncID
	ticks uint64
	inner map[reader.FuncID]*ranPath
}

func (p *ranPath) child(fn reader.FuncID) *ranPath {
	if p.inner == nil {
		p.inner = make(map[reader.FuncID]*ranPath)
	}
	if p.inner[fn] == nil {
		p.inner[fn] = &ranPath{fn: fn}
	}
	return p.inner[fn]
}

// add adds the occupants of a wait. It returns the time of other requests.
func (p *ranPath) add(list []Occupant, classes map[string]uint64) (other uint64) {
	type frame struct {
		end uint64
		at  *ranPath
	}
	open := []frame{{math.MaxUint64, p}}
	for _, c := range list {
		for open[len(open)-1].end <= c.Start {
			open = open[:len(open)-1]
		}
		at := open[len(open)-1].at
		if c.Func == reader.OtherRequest {
			other += c.End - c.Start // segments of different requests do not overlap on a thread
			classes[c.Class] += c.End - c.Start
		} else {
			at = at.child(c.Func)
			at.ticks += c.End - c.Start
		}
		open = append(open, frame{c.End, at})
	}
	return other
}

// most returns the call inside with the most time, or nil.
func (p *ranPath) most() (best *ranPath) {
	for _, c := range p.inner {
		if best == nil || cmp.Or(cmp.Compare(c.ticks, best.ticks), cmp.Compare(best.fn, c.fn)) > 0 {
			best = c
		}
	}
	return best
}

// Ran says what executors did in the waits of the selected requests for them. at says whether a request is
// selected by its thread of the timeline and its start. atMost selects waits before which the request may not have
// been able to go on, instead of the others.
func (t *Timeline) Ran(at func(reader.Thread, uint64) bool, atMost bool) Ran {
	var total, other uint64
	var top ranPath
	classes := make(map[string]uint64)
	for lane := range t.lanes {
		for _, q := range t.lanes[lane] {
			if !at(laneOf(q, lane), q.Start) {
				continue
			}
			for i := range q.parts {
				if w, ok := q.executorWait(q.parts, i); ok && atMost == (q.Segments[w.Segment].Ready == 0) {
					total += w.End - w.Start
					other += top.add(q.waits[i], classes)
				}
			}
		}
	}
	self := top.most()
	if self == nil {
		return Ran{}
	}
	scope := self
	for next := self.most(); next != nil && 10*next.ticks >= 7*self.ticks; next = self.most() {
		scope, self = self, next
	}
	class := ""
	for of, ticks := range classes {
		if 10*ticks >= 9*other {
			class = of
		}
	}
	return Ran{
		Self: self.fn, Scope: scope.fn, OtherClass: class,
		Covered: ratio(float64(scope.ticks), float64(total)), SelfShare: ratio(float64(self.ticks), float64(scope.ticks)),
		Other: min(1, ratio(float64(other), float64(total))),
	}
}

// rest is what a thread does outside of requests.
type rest struct {
	follow
	block reader.Block
}

func (r *rest) of(b *reader.Block) *reader.Block {
	to := &r.block
	*to = reader.Block{Thread: b.Thread, Index: b.Index, Offset: b.Offset, Events: to.Events[:0], Args: to.Args[:0], Payloads: to.Payloads[:0]}
	r.each(b, nil, func(p *piece, at int, tsc uint64) {
		switch {
		case at >= 0:
			to.Events = append(to.Events, b.Events[at])
			appendSides(to, b, at)
		case p != nil: // a piece begins: what is open ends
			for _, fn := range slices.Backward(r.open) {
				exit(to, fn, tsc)
			}
		default:
			for _, fn := range r.open {
				enter(to, fn, tsc)
			}
		}
	})
	return to
}

// enter and exit append the entry and the exit of a call.
func enter(b *reader.Block, fn reader.FuncID, tsc uint64) {
	b.Events = append(b.Events, reader.Event{TSC: tsc, Func: fn, Kind: reader.Enter})
}

func exit(b *reader.Block, fn reader.FuncID, tsc uint64) {
	b.Events = append(b.Events, reader.Event{TSC: tsc, Func: fn, Kind: reader.Exit})
}

// write writes a request as a call.
func (t *Timeline) write(b *reader.Block, q *request) {
	enter(b, reader.Request, q.Start)
	for i := 0; i < len(q.parts); i++ {
		p := &q.parts[i]
		if piece := q.pieces[i]; piece != nil {
			first := len(b.Events)
			b.Events = append(b.Events, piece.block.Events...)
			for _, a := range piece.block.Args {
				b.Args = append(b.Args, reader.Arg{Event: a.Event + first, Value: a.Value})
			}
			for _, p := range piece.block.Payloads {
				b.Payloads = append(b.Payloads, reader.Payload{Event: p.Event + first, Type: p.Type, Data: p.Data})
			}
			continue
		}
		if p.Kind == Suspended {
			enter(b, reader.Suspended, p.Start)
			t.blocked(b, p.End, p.End-p.Start)
			exit(b, reader.Suspended, p.End)
			continue
		}
		w, ok := q.executorWait(q.parts, i)
		if !ok {
			continue // the handoff after a queue
		}
		fn := reader.ExecutorAwaited
		if q.Segments[w.Segment].Ready == 0 {
			fn = reader.ExecutorAtMost
		}
		enter(b, fn, w.Start)
		if t.within {
			t.occupied(b, &w, q.waits[i])
		} else {
			t.blocked(b, w.End, w.End-w.Start)
		}
		exit(b, fn, w.End)
	}
	exit(b, reader.Request, q.End)
}

// occupied writes what the awaited thread did in a wait. The rest of the wait is blocked.
func (t *Timeline) occupied(b *reader.Block, w *Part, list []Occupant) {
	now := w.Start
	var open []Occupant
	to := func(tsc uint64) {
		for len(open) > 0 && open[len(open)-1].End <= tsc {
			last := open[len(open)-1]
			exit(b, last.Func, last.End)
			open, now = open[:len(open)-1], last.End
		}
		if len(open) == 0 && tsc > now {
			t.blocked(b, tsc, tsc-now)
		}
		now = tsc
	}
	for _, c := range list {
		to(c.Start)
		enter(b, c.Func, c.Start)
		open = append(open, c)
	}
	to(w.End)
}

// blocked writes that the thread was blocked until now for some ticks.
func (t *Timeline) blocked(b *reader.Block, now, ticks uint64) {
	if !t.off || ticks == 0 {
		return
	}
	b.Events = append(b.Events, reader.Event{TSC: now, Kind: reader.Custom, Side: true})
	b.Payloads = append(b.Payloads, reader.Payload{
		Event: len(b.Events) - 1, Data: reader.AppendSwitch(nil, reader.Switch{OffNS: t.clock.Nanos(ticks), Voluntary: 1}),
	})
}

// Notes says what the calls of requests are, and what is missing.
func (t *Timeline) Notes() []string {
	text := "A call of (request) is the critical path of a request: " + label.Count(uint64(t.Requests), "request", "requests") + " in " +
		label.Count(uint64(t.set.Segments), "segment", "segments") + " on " + label.Count(uint64(t.set.Threads), "thread", "threads") + "."
	if t.set.Bounds > 0 {
		text += " Before " + label.Grouped(uint64(t.set.Bounds)) + " of " + label.Count(uint64(t.set.Waits), "wait", "waits") +
			", the trace does not say when the request could go on: such a wait was for the executor at most."
	}
	list := []string{text}
	if t.set.Every > 1 {
		list = append(list, "There are too many requests to keep: these are the requests of one in "+label.Grouped(t.set.Every)+" keys.")
	}
	if t.Dropped > 0 {
		list = append(list, label.Count(uint64(t.Dropped), "request was", "requests were")+" left out, chosen by their keys: their calls take too much memory.")
	}
	if t.set.Cut > 0 {
		list = append(list, label.Count(uint64(t.set.Cut), "request was", "requests were")+" unfinished at the end of the trace and not counted.")
	}
	return list
}
