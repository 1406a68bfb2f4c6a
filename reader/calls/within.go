package calls

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/xray-tools/xray/reader"
)

// A filter with a time cuts calls off at both ends. The calls that are open at its beginning are
// entered there, as Earlier, and those that are open at its end are Truncated there. Off-CPU times
// that cross an end are divided. Cuts in a trace are handled in the same way, so that the calls of
// a slice are those of the trace in the time of the slice.

// phase is where a thread is in the time that the filter selects.
type phase uint8

const (
	within phase = iota
	before
	after
)

// spanning is how far a thread has come in the time that the filter selects, and in a cut.
type spanning struct {
	phase phase
	edge  uint64 // when the phase changes; never if it does not
	// At the time at, the thread was cut. Its next records, a group, enter the calls that were open.
	// Until another one has come, since is the time of the last record before the cut.
	group     bool
	entering  uint32 // records that are left of the group
	base      int    // number of calls that were open before the group
	at, since uint64
}

// never is later than all times.
const never = math.MaxUint64

// spanOf returns where a thread begins.
func spanOf(f *Filter) spanning {
	switch {
	case f.From > 0:
		return spanning{phase: before, edge: f.From}
	case f.To > 0:
		return spanning{edge: f.To}
	}
	return spanning{edge: never}
}

// reach begins or ends the time that the filter selects, if event e, which is not before the next
// edge, does that. rest is the number of events of the block from e on.
func (s *shard) reach(th *thread, e *reader.Event, side *sideTables, i, rest int) error {
	now := th.at(e.TSC)
	if th.span.phase == before {
		// A call that ends exactly when the time begins is not part of it.
		edge, isEdge := reader.ParseEdge(side.customAt(e, i))
		if now == th.span.edge && (e.Kind.IsExit() || isEdge && edge == reader.WindowEnds) {
			return nil
		}
		if to := s.opts.Filter.To; th.awaits && e.Kind <= reader.EnterArg && (to == 0 || now < to) {
			if err := s.resolve(th, e); err != nil {
				return err
			}
		}
		s.arrive(th, now, rest)
	}
	if now < th.span.edge {
		return nil
	}
	sw, switched := reader.ParseSwitch(side.customAt(e, i))
	if err := s.stopAwaiting(th); err != nil {
		return err
	}
	s.entered(th)
	if switched && th.last != 0 {
		last := th.last
		th.last = now
		s.gap(th, &sw, th.lasting(last), th.span.edge)
	}
	s.stats.Events -= uint64(rest)
	s.stats.Cut += uint64(s.stack.depth)
	th.span.phase = after
	if s.stack.depth > 0 {
		th.last = th.span.edge
	}
	return s.popTo(th, 0, Truncated)
}

// arrive begins the time that the filter selects, before an event at the time now.
func (s *shard) arrive(th *thread, now uint64, rest int) {
	s.drop(th)
	first := now
	if s.stack.depth > 0 {
		first = th.span.edge
	}
	if s.stats.Events == 0 {
		s.stats.First = first
	}
	s.stats.Events += uint64(rest)
	s.stats.span(first)
	s.stats.MaxDepth = max(s.stats.MaxDepth, uint32(s.stack.depth))
	th.left = 0
	at, since := th.span.edge, th.last
	if th.span.since != 0 && th.last == th.span.at {
		since = th.span.since // there was an earlier cut, and no record since
	}
	th.span = spanning{edge: never, at: at, since: since}
	if to := s.opts.Filter.To; to > 0 {
		th.span.edge = to
	}
	if since == 0 && s.stack.depth == 0 {
		return // it has no records before
	}
	th.last = at
	if th.rare != nil {
		th.rare.waits, th.rare.switched = th.rare.waits[:0], th.rare.switched[:0]
	}
	for d := 1; d <= s.stack.depth; d++ {
		f := s.stack.at(d)
		f.start, f.inside = at, 0
		f.key |= earlier
	}
	// The next record tells whether the innermost call was still open.
	if th.span.group = th.awaits; th.awaits {
		th.awaitedAt = at
		return
	}
	s.openEarlier(th, 0)
}

// drop forgets the calls that ended before the time that the filter selects.
func (s *shard) drop(th *thread) {
	if s.opts.OffCPU != nil {
		s.settle(th)
	}
	b := &s.batch
	b.Args, b.Results, b.Values, b.Events, b.Opens, b.Waits, b.Gaps = b.Args[:0], b.Results[:0], b.Values[:0], b.Events[:0], b.Opens[:0], b.Waits[:0], b.Gaps[:0]
	s.n, s.settled = 0, 0
	s.unmark()
	s.stats = s.outside
}

// unmark prepares the memory of calls for the hot loop.
func (s *shard) unmark() {
	if !s.marked {
		return
	}
	s.marked = false
	for i := range s.calls {
		s.calls[i].Earlier = false
	}
}

// openEarlier passes the entries of the calls that were open at a cut to the sink, without the first of
// them.
func (s *shard) openEarlier(th *thread, first int) {
	if !s.opts.Opens {
		return
	}
	var args []frameArg
	if th.rare != nil {
		args = th.rare.args
	}
	for d := first + 1; d <= s.stack.depth; d++ {
		f := s.stack.at(d)
		o := Open{Call: s.n, Start: f.start, Func: f.fn(), Depth: uint32(d - 1), Earlier: true}
		for len(args) > 0 && args[0].depth < d {
			args = args[1:]
		}
		if len(args) > 0 && args[0].depth == d && args[0].kind == argument {
			o.Arg, o.Args = args[0].value, true
		}
		s.batch.Opens = append(s.batch.Opens, o)
	}
}

// cutHere handles a cut of the trace. The record before it is at last.
func (s *shard) cutHere(th *thread, c reader.Cut, last uint64) error {
	s.stats.Events-- // it is no record
	s.stats.Custom--
	if err := s.stopAwaiting(th); err != nil {
		return err
	}
	s.entered(th)
	th.left = 0
	if !th.windowed {
		th.windowed, th.began = true, never
	}
	if c.Records == 0 && c.Since == 0 {
		th.last = last // nothing is known before the next record
		return nil
	}
	th.span.at, th.span.since = th.last, c.Since
	th.span.group, th.span.entering, th.span.base = c.Records > 0, c.Records, s.stack.depth
	return nil
}

// enters handles one of the records that enter calls after a cut. If the last one is a tail exit, the
// next record shows whether its call was still open.
func (s *shard) enters(th *thread) {
	if th.span.entering--; th.span.entering == 0 && !th.awaits {
		s.entered(th)
	}
}

// entered ends the records that enter calls after a cut.
func (s *shard) entered(th *thread) {
	if !th.span.group {
		return
	}
	th.span.group, th.span.entering = false, 0
	th.span.base = min(th.span.base, s.stack.depth)
	for d := th.span.base + 1; d <= s.stack.depth; d++ {
		s.stack.at(d).key |= earlier
	}
	s.openEarlier(th, th.span.base)
}

// customAt returns the payload of event i of a block, which is next in the side tables, if it is a custom
// event.
func (t *sideTables) customAt(e *reader.Event, i int) []byte {
	if e.Kind != reader.Custom {
		return nil
	}
	for _, p := range t.payloads {
		if p.Event >= i {
			if p.Event > i {
				break
			}
			return p.Data
		}
	}
	return nil
}

// hide removes the records from the next edge of a thread on, and returns their size in bytes.
func (r *run) hide(th *thread) int {
	if th.span.edge == never {
		return 0
	}
	size, i := 8, 0
	if r.Basic {
		size = 32
	}
	now := r.TSC
	for ; i < len(r.Records); i += size {
		if r.Basic {
			now = binary.LittleEndian.Uint64(r.Records[i+8:])
		} else {
			now += binary.LittleEndian.Uint64(r.Records[i:]) >> 32
		}
		if th.at(now) >= th.span.edge {
			break
		}
	}
	hidden := len(r.Records) - i
	r.Records = r.Records[:i]
	return hidden
}

// clip reduces a gap to the part between two times. Where the thread was off CPU within the gap is
// unknown, so the parts of a gap have equal shares.
func (g *Gap) clip(from, to uint64) {
	part := func(ticks, of uint64) {
		portion := func(p uint64) uint64 {
			hi, lo := bits.Mul64(p, ticks)
			p, _ = bits.Div64(hi, lo, max(of, hi+1))
			return p
		}
		off := portion(g.Off.Sum())
		g.Queued = min(portion(g.Queued), off)
		g.Recorder = min(portion(g.Recorder), off-g.Queued)
		g.Blocked = off - g.Queued - g.Recorder
	}
	if to < g.To {
		part(to-min(to, g.From), g.To-g.From)
		g.From, g.To = min(g.From, to), to
	}
	if from > g.From {
		part(g.To-min(g.To, from), g.To-g.From)
		g.From = from
	}
}
