package convert

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Span is a time span in ticks: From <= time < To. If To is 0, there is no upper limit.
type Span struct{ From, To uint64 }

// SpanAround returns the time of a call, including its exit, with a margin before and after. It saturates.
func SpanAround(start, duration, margin uint64) Span {
	s := Span{From: start - min(start, margin)}
	to, over := bits.Add64(start, duration, 1)
	to, over2 := bits.Add64(to, margin, 0)
	if over+over2 == 0 {
		s.To = to
	}
	return s
}

// JoinSpans sorts spans, of which there is at least one, and joins those that overlap. It changes the list.
func JoinSpans(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	out := spans[:1]
	for _, span := range spans[1:] {
		last := &out[len(out)-1]
		switch {
		case last.To != 0 && span.From > last.To:
			out = append(out, span)
		case last.To != 0 && (span.To == 0 || span.To > last.To):
			last.To = span.To
		}
	}
	return out
}

// SliceOptions select what a slice contains.
type SliceOptions struct {
	// Filter selects threads, functions and depth. Its times are ignored.
	Filter calls.Filter
	// Spans are the times of the slice: at least one, disjoint and in order. The first should
	// not begin before the trace.
	Spans []Span
	// Whole, if not nil, selects calls by thread (reader.Block.Index), start in ticks, and
	// function. The slice has only these calls and the calls inside them. Filter.Func and
	// Filter.MaxDepth are ignored.
	Whole func(index int, start uint64, fn reader.FuncID) bool
	// Bare omits the calls around those that Filter.Func selects.
	Bare bool
	// NoMarks omits the events that mark cuts, for formats without events.
	NoMarks bool
}

// Slicer reduces a trace to some times and calls. The result is a valid trace in which every
// entry has an exit. Calls that are open where a span begins are entered there, after a
// [reader.Cut]. Calls that are open where it ends exit there, after an edge that ends a window. Calls
// that are open at the end of their thread exit there. Calls without an exit record
// get one where package calls ends them. Slicer selects by the times of package calls, but
// timestamps stay as recorded. Switches that cross an end are divided, as package calls does. So the
// calls of a slice of some times are those that package calls finds in the trace with a filter of
// these times.
//
// Every thread begins with a cut, because llvm-xray assumes that the first timestamp of the file is
// the earliest, and rejects earlier ones.
//
// Custom and typed events are kept or dropped with their call. Landings and switches are
// always kept. Memory grows with threads and the depth of their stacks. A Slicer is not safe for
// concurrent use.
type Slicer struct {
	// Events counts the records seen, Kept the records kept, and Unmatched the exits in the
	// spans that were dropped because they have no entry.
	Events, Kept, Unmatched uint64

	opts    SliceOptions
	funcs   map[reader.FuncID]bool // results of Filter.Func
	threads map[int]*slicedThread  // by Block.Index
	order   []*slicedThread        // by first block
	head    reader.Block           // the latest block, without events
	memory  int64                  // bytes of the open calls of all threads
}

// Memory implements [calls.MemoryUser]. It includes the exits that open calls may need where the slice
// ends.
func (s *Slicer) Memory() int64 { return s.memory }

// measure updates what the open calls of a thread hold.
func (s *Slicer) measure(t *slicedThread) {
	const perCall, perFunction = 96, 48
	memory := perCall*int64(cap(t.open)) + perFunction*int64(len(t.counts))
	s.memory += memory - t.memory
	t.memory = memory
}

// slicedThread is the state of a thread.
type slicedThread struct {
	recordStack
	wanted   bool
	span     int    // the current span, or the next one
	inside   bool   // the span has begun
	change   uint64 // when the span begins or ends
	marked   bool   // has a mark where the span begins
	windowed bool   // the recording has windows
	pending  bool   // the next record tells whether the innermost call went on in a tail call
	gone     int    // number of open calls that may have gone on in a tail call
	last     uint64
	since    uint64        // at the first record of a span, the time of the record before
	markAt   uint64        // TSC of the mark
	entering uint32        // records of the trace that enter calls after a cut
	base     int           // number of calls that were open before them
	cutSince uint64        // after a cut in the trace, and before another record: when the record before it was
	wrote    uint64        // TSC of the latest record of the slice
	function reader.FuncID // of the latest function record of the slice
	offset   uint64        // sum of the backward steps of the clock
	memory   int64         // the thread's part of Slicer.memory
	cpu      uint16
	// out is the kept part of the latest block. It stays nil for most threads, because a slice
	// keeps nothing of them.
	out *reader.Block
}

// NewSlicer returns an empty slicer.
func NewSlicer(opts SliceOptions) *Slicer {
	return &Slicer{opts: opts, funcs: make(map[reader.FuncID]bool), threads: make(map[int]*slicedThread)}
}

// Block returns the kept part of a block. The blocks of a thread must come in order.
// The result is valid until the next call for its thread.
func (s *Slicer) Block(b *reader.Block) *reader.Block {
	t := s.threads[b.Index]
	if t == nil {
		t = &slicedThread{
			wanted: s.opts.Filter.Thread == nil || s.opts.Filter.Thread(b.Thread), change: s.opts.Spans[0].From,
		}
		s.threads[b.Index] = t
		s.order = append(s.order, t)
	}
	s.begins(t, b)
	s.Events += uint64(len(b.Events))
	if t.wanted && t.span < len(s.opts.Spans) {
		s.records(t, b)
		s.measure(t)
	}
	return s.kept(t)
}

// Edit is Block for [reader.Trace.EachByTime], where a block without events ends its thread. It
// needs no Finish.
func (s *Slicer) Edit(b *reader.Block) *reader.Block {
	if len(b.Events) == 0 {
		t := s.threads[b.Index]
		delete(s.threads, b.Index)
		return s.finish(t, b)
	}
	return s.Block(b)
}

// Finish yields the exits of the calls that are open at the end of their thread.
func (s *Slicer) Finish(fn func(*reader.Block) error) error {
	for _, t := range s.order {
		if t.out == nil {
			continue
		}
		if err := fn(s.finish(t, t.out)); err != nil {
			return err
		}
	}
	return nil
}

// Write writes the slice of a trace, and does not close w. Some writers use up to n goroutines in time
// order.
func (s *Slicer) Write(w RecordWriter, t *reader.Trace, order reader.Order, n int) error {
	if sorted, ok := w.(sortedWriter); ok && order == reader.TimeOrder {
		return sorted.Sorted(t, n, s.Edit)
	}
	for b, err := range t.Blocks(order) {
		if err == nil {
			err = w.Block(s.Block(b))
		}
		if err != nil {
			return err
		}
	}
	return s.Finish(w.Block)
}

// finish ends a thread, of which b was a block.
func (s *Slicer) finish(t *slicedThread, b *reader.Block) *reader.Block {
	s.begins(t, b)
	if t.inside {
		s.end(t, t.last)
		t.inside = false
	}
	t.span = len(s.opts.Spans)
	return s.kept(t)
}

// records handles the records of a block one by one.
func (s *Slicer) records(t *slicedThread, b *reader.Block) {
	args, payloads := b.Args, b.Payloads
	for i := range b.Events {
		e := &b.Events[i]
		before := t.last
		if t.cutSince != 0 {
			before = t.cutSince
		}
		now := t.time(e)
		var payload []byte
		if e.Kind == reader.Custom {
			for len(payloads) > 0 && payloads[0].Event < i {
				payloads = payloads[1:]
			}
			if len(payloads) > 0 && payloads[0].Event == i {
				payload = payloads[0].Data
			}
		}
		if t.pending && !mayPrecedeTailCall(e, payload) {
			t.ungone()
			t.pending = false
		}
		if now >= t.change {
			var at *reader.Switch
			if sw, ok := reader.ParseSwitch(payload); ok && before > 0 {
				at = &sw
			}
			s.advance(t, before, now, e.Kind.IsExit() || endsWindow(b, i), at)
		}
		switch {
		case e.Kind.IsEnter():
			t.pending = false
			var own []uint64
			if e.Side {
				for ; len(args) > 0 && args[0].Event <= i; args = args[1:] {
					if args[0].Event == i {
						own = append(own, args[0].Value)
					}
				}
			}
			s.enter(t, e, own)
		case e.Kind.IsExit():
			s.exit(t, e)
		case s.edge(t, b, i):
			s.entered(t)
		default:
			for len(payloads) > 0 && payloads[0].Event < i {
				payloads = payloads[1:]
			}
			if s.reenter(t, e, payload) {
				continue
			}
			s.entered(t)
			if len(payloads) > 0 && payloads[0].Event == i && (s.keepsEvent(t) || t.inside && staysInThread(e, payloads[0].Data)) {
				s.begin(t)
				s.add(t, e.Kind, e.Func, e.TSC, e.CPU)
				t.carry(payloads[0].Type, payloads[0].Data)
			}
		}
		switch {
		case t.entering > 1:
			t.entering--
		case t.entering == 1:
			s.entered(t)
		default:
			t.since, t.cutSince = 0, 0
		}
	}
}

// mayPrecedeTailCall reports whether a call that has a tail exit may go on in the call that is entered
// after event e. The rules are those of package calls.
func mayPrecedeTailCall(e *reader.Event, payload []byte) bool {
	if e.Kind != reader.Custom {
		return e.Kind.IsEnter()
	}
	_, switched := reader.ParseSwitch(payload)
	_, descriptor := reader.ParseDescriptor(payload)
	return switched || descriptor
}

// reenter handles a cut of the trace, and reports whether the event is one.
func (s *Slicer) reenter(t *slicedThread, e *reader.Event, payload []byte) bool {
	cut, ok := reader.ParseCut(payload)
	if !ok {
		return false
	}
	s.entered(t)
	t.entering, t.base, t.cutSince = cut.Records, len(t.open), cut.Since
	if t.inside && (cut.Records > 0 || cut.Since > 0) {
		t.marked, t.markAt, t.since = false, e.TSC, cut.Since
	}
	return true
}

// entered ends the records that enter calls after a cut.
func (s *Slicer) entered(t *slicedThread) {
	if t.entering == 0 {
		return
	}
	t.entering = 0
	first, last := min(t.base, len(t.open)), -1
	for i := first; i < len(t.open); i++ {
		if t.open[i].kept {
			last = i
		}
	}
	if t.inside {
		s.show(t, first, last, true)
	}
}

// edge handles event i if it begins or ends a window of the recording, and reports whether it does.
// If calls of the slice are open at the end of a window, the slice keeps that mark or, without
// marks, has exits of these calls there.
func (s *Slicer) edge(t *slicedThread, b *reader.Block, i int) bool {
	edge, ok := b.Edge(i)
	if !ok || edge == reader.WindowBegins {
		t.windowed = t.windowed || ok
		return ok
	}
	e := &b.Events[i]
	shown := slices.ContainsFunc(t.open, func(r openRecord) bool { return r.shown })
	switch {
	case shown && s.opts.NoMarks:
		s.end(t, t.last)
	case shown:
		s.add(t, e.Kind, e.Func, e.TSC, e.CPU)
		t.carry(0, reader.AppendEdge(nil, edge))
	}
	t.cut(0)
	t.gone = 0
	return true
}

// begins prepares the kept part of a block.
func (s *Slicer) begins(t *slicedThread, b *reader.Block) {
	s.head = reader.Block{Thread: b.Thread, Index: b.Index, Offset: b.Offset}
	if out := t.out; out != nil {
		events, args, payloads := out.Events[:0], out.Args[:0], out.Payloads[:0]
		*out = s.head
		out.Events, out.Args, out.Payloads = events, args, payloads
	}
}

// kept returns the kept part of the latest block, and counts its records.
func (s *Slicer) kept(t *slicedThread) *reader.Block {
	if t.out == nil {
		return &s.head
	}
	s.Kept += uint64(len(t.out.Events))
	return t.out
}

// time returns the time of a record as package calls computes it.
func (t *slicedThread) time(e *reader.Event) uint64 {
	now := e.TSC + t.offset
	if now < t.last {
		t.offset += t.last - now
		now = t.last
	}
	t.last, t.cpu = now, e.CPU
	return now
}

// advance begins and ends spans up to the time of a record, which may be a switch. The record before it
// is at before. A call that ends exactly when a span begins is not part of it.
func (s *Slicer) advance(t *slicedThread, before, now uint64, exit bool, sw *reader.Switch) {
	for t.span < len(s.opts.Spans) {
		span := s.opts.Spans[t.span]
		if !t.inside {
			if now < span.From || exit && now == span.From {
				return
			}
			t.inside, t.marked, t.since, t.markAt = true, false, before, span.From-t.offset
			s.start(t, span.From)
			if t.change = span.To; span.To == 0 {
				t.change = math.MaxUint64
			}
		}
		if span.To == 0 || now < span.To {
			return
		}
		if sw != nil {
			s.divide(t, *sw, before, span.To, now)
		}
		s.end(t, span.To)
		t.inside = false
		if t.span++; t.span < len(s.opts.Spans) {
			t.change = s.opts.Spans[t.span].From
		}
	}
}

// divide adds the part of a switch up to a time at which a span ends. The switch lasted from before until
// now.
func (s *Slicer) divide(t *slicedThread, sw reader.Switch, before, to, now uint64) {
	if s.opts.NoMarks || to <= before {
		return
	}
	for _, ns := range []*uint64{&sw.OffNS, &sw.QueuedNS, &sw.RecorderNS} {
		if *ns != reader.UnknownNS {
			hi, lo := bits.Mul64(*ns, to-before)
			*ns, _ = bits.Div64(hi, lo, max(now-before, hi+1))
		}
	}
	s.begin(t)
	s.add(t, reader.Custom, 0, to-t.offset, t.cpu)
	t.carry(0, reader.AppendSwitch(nil, sw))
}

// start enters the calls that are open where a span begins. Calls that were not selected are entered
// only when a selected call inside them is.
func (s *Slicer) start(t *slicedThread, at uint64) {
	last := -1
	for i := range t.open {
		t.open[i].tsc, t.open[i].cpu, t.open[i].cut = at-t.offset, t.cpu, true
		if t.open[i].kept {
			last = i
		}
	}
	s.show(t, 0, last, true)
}

// end exits the calls that are open at the end of a span.
func (s *Slicer) end(t *slicedThread, at uint64) {
	marked := s.opts.NoMarks
	for i := len(t.open) - 1; i >= 0; i-- {
		call := &t.open[i]
		if !call.shown {
			continue
		}
		call.shown = false
		if call.gone {
			continue // it has an exit
		}
		if !marked {
			s.add(t, reader.Custom, 0, at-t.offset, t.cpu)
			t.carry(0, reader.AppendEdge(nil, reader.WindowEnds))
			marked = true
		}
		s.add(t, reader.Exit, call.fn, at-t.offset, t.cpu)
	}
}

// begin marks the start of a span before the first record of a thread in it.
func (s *Slicer) begin(t *slicedThread) {
	if !t.marked {
		s.mark(t, 0)
	}
}

// endLoop ends calls that have gone on in tail calls if those cannot include the function that is entered.
func (t *slicedThread) endLoop(fn reader.FuncID) {
	first, end := tracewrite.TailLoop(len(t.open), func(i int) (reader.FuncID, bool) { return t.open[i].fn, t.open[i].gone }, fn)
	if first == end {
		return
	}
	rest := slices.Clone(t.open[end:])
	t.cut(first)
	for _, r := range rest {
		t.push(r)
	}
	t.gone -= end - first
}

func (s *Slicer) enter(t *slicedThread, e *reader.Event, args []uint64) {
	t.endLoop(e.Func)
	depth := len(t.open)
	kept := s.keeps(t, depth-t.gone, e.Func)
	t.push(openRecord{fn: e.Func, kept: kept, cpu: e.CPU, tsc: e.TSC, args: args, cut: t.entering > 0})
	if !kept || !t.inside || t.entering > 0 {
		return
	}
	first := depth
	for !s.bare() && first > 0 && !t.open[first-1].shown {
		first--
	}
	s.show(t, first, depth, false)
}

// show writes the entries of the open calls from index first to last, at the start of a span or later.
// Calls that have gone on in a tail call are only entered at the start, where they exit at once.
func (s *Slicer) show(t *slicedThread, first, last int, start bool) {
	wanted := func(call *openRecord) bool {
		return (call.kept || !s.bare()) && (!call.gone || start && !s.opts.NoMarks)
	}
	records := uint32(0)
	for i := first; i <= last && t.open[i].cut; i++ {
		if call := &t.open[i]; wanted(call) {
			if records++; call.gone {
				records++
			}
		}
	}
	if records > 0 {
		s.mark(t, records)
	}
	for i := first; i <= last; i++ {
		call := &t.open[i]
		if !wanted(call) {
			continue
		}
		s.begin(t)
		call.shown = true
		kind := reader.Enter
		if len(call.args) > 0 {
			kind = reader.EnterArg
		}
		tsc := max(call.tsc, t.wrote) // a switch may have been kept before
		s.add(t, kind, call.fn, tsc, call.cpu)
		n := len(t.out.Events) - 1
		for _, a := range call.args {
			t.out.Events[n].Side = true
			t.out.Args = append(t.out.Args, reader.Arg{Event: n, Value: a})
		}
		if call.gone {
			s.add(t, reader.TailExit, call.fn, tsc, call.cpu)
		}
	}
}

// ungone removes the innermost calls that have gone on in tail calls.
func (t *slicedThread) ungone() {
	n := len(t.open)
	for n > 0 && t.open[n-1].gone {
		n--
		t.gone--
	}
	t.cut(n)
}

func (s *Slicer) exit(t *slicedThread, e *reader.Event) {
	i := t.find(e.Func)
	if i < 0 {
		if !t.windowed && t.span < len(s.opts.Spans) && t.last >= s.opts.Spans[t.span].From {
			s.Unmatched++
		}
		return
	}
	for j := len(t.open) - 1; j >= i; j-- {
		if t.open[j].gone {
			t.gone--
			continue
		}
		if !t.open[j].shown {
			continue
		}
		kind := reader.Exit
		if j == i {
			kind = e.Kind
		}
		s.add(t, kind, t.open[j].fn, e.TSC, e.CPU)
	}
	if e.Kind == reader.TailExit {
		t.cut(i + 1)
		t.open[i].gone, t.pending = true, true
		t.gone++
		return
	}
	t.cut(i)
	t.ungone()
}

// staysInThread reports whether an event matters even if its call is not kept. A landing determines
// the meaning of the exits after it, some of which may be kept. A switch also counts for the calls
// around its call.
func staysInThread(e *reader.Event, payload []byte) bool {
	if e.Kind != reader.Custom {
		return false
	}
	_, landing := reader.ParseLanding(payload)
	_, switched := reader.ParseSwitch(payload)
	return landing || switched
}

// keepsEvent reports whether an event is kept.
func (s *Slicer) keepsEvent(t *slicedThread) bool {
	depth := len(t.open) - t.gone
	if !t.inside || s.opts.Whole == nil && s.opts.Filter.MaxDepth > 0 && uint32(depth) > s.opts.Filter.MaxDepth {
		return false
	}
	return s.opts.Filter.Func == nil && s.opts.Whole == nil || len(t.open) > 0 && t.open[len(t.open)-1].kept
}

// keeps reports whether a call that begins now is selected.
func (s *Slicer) keeps(t *slicedThread, depth int, fn reader.FuncID) bool {
	if s.opts.Whole != nil {
		n := len(t.open)
		return n > 0 && t.open[n-1].kept || s.opts.Whole(s.head.Index, t.last, fn)
	}
	return (s.opts.Filter.MaxDepth == 0 || uint32(depth) < s.opts.Filter.MaxDepth) && s.function(fn)
}

// bare reports whether the slice omits the calls around selected ones.
func (s *Slicer) bare() bool { return s.opts.Bare || s.opts.Whole != nil }

// function returns the result of Filter.Func.
func (s *Slicer) function(id reader.FuncID) bool {
	if s.opts.Filter.Func == nil {
		return true
	}
	keep, ok := s.funcs[id]
	if !ok {
		keep = s.opts.Filter.Func(id)
		s.funcs[id] = keep
	}
	return keep
}

// mark adds a cut that the entries of open calls follow.
func (s *Slicer) mark(t *slicedThread, records uint32) {
	first := !t.marked
	t.marked = true
	if s.opts.NoMarks {
		return
	}
	cut := reader.Cut{Records: records}
	if first && t.since > t.offset {
		cut.Since = t.since - t.offset
	}
	s.add(t, reader.Custom, 0, max(t.markAt, t.wrote), t.cpu)
	t.carry(0, reader.AppendCut(nil, cut))
}

func (s *Slicer) add(t *slicedThread, kind reader.Kind, fn reader.FuncID, tsc uint64, cpu uint16) {
	if t.out == nil {
		out := s.head
		t.out = &out
	}
	if t.wrote = tsc; kind < reader.Custom {
		t.function = fn
	} else {
		fn = t.function // as readers have it
	}
	t.out.Events = append(t.out.Events, reader.Event{TSC: tsc, Func: fn, CPU: cpu, Kind: kind})
}

// carry sets the payload of the event that was added last.
func (t *slicedThread) carry(typ uint16, data []byte) {
	n := len(t.out.Events) - 1
	t.out.Events[n].Side = true
	t.out.Payloads = append(t.out.Payloads, reader.Payload{Event: n, Type: typ, Data: data})
}
