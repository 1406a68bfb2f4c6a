package calls

import "github.com/xray-tools/xray/reader"

// A tail exit ends its call, or a tail call continues it. The next record of the thread shows
// which, so the call stays open until then. A continued call is gone, but its frame stays until
// the tail call ends.

// switched is a switch that was noticed while a call awaited the next record.
type switched struct {
	reader.Switch
	lasting
}

// tailCalls is a hash table of answers of Options.Continue, by pair.
type tailCalls [1 << tailCallBits]struct {
	pair        uint64
	known, goes bool
}

const tailCallBits = 8

// goesOn is Options.Continue for the hot loop.
func (s *shard) goesOn(from, to uint64) bool {
	p := from<<32 | to
	t := &s.tails[p*0x9e3779b97f4a7c15>>(64-tailCallBits)]
	if t.pair != p || !t.known {
		t.pair, t.known = p, true
		t.goes = s.opts.Continue != nil && s.opts.Continue(reader.FuncID(uint32(from)), reader.FuncID(uint32(to)))
	}
	return t.goes
}

// maxSwitched is more than a recorder notes between two records.
const maxSwitched = 16

// await keeps the innermost open call, which left through a tail call, open until it is known
// what came next.
func (s *shard) await(th *thread, fn reader.FuncID) {
	th.awaits, th.awaited, th.awaitedAt = true, fn, th.last
}

// resolve ends or continues the call that awaits the next record, which is e.
func (s *shard) resolve(th *thread, e *reader.Event) error {
	if !e.Kind.IsEnter() || !s.opts.Continue(th.awaited, e.Func) || !s.opts.cuts.isCertain(th.id.File, th.awaited, s.opts.Continue) {
		return s.stopAwaiting(th)
	}
	th.awaits = false
	s.stack.top().key |= gone
	s.passSwitched(th)
	return nil
}

// stopAwaiting ends the call that awaits the next record, if there is one.
func (s *shard) stopAwaiting(th *thread) error {
	if !th.awaits {
		return nil
	}
	th.awaits = false
	last := th.last
	th.last = th.awaitedAt
	err := s.popTo(th, s.stack.depth-1, TailExited)
	if err == nil {
		err = s.popContinued(th, TailExited)
	}
	th.last = last
	s.passSwitched(th)
	return err
}

// popContinued ends the calls that continued in the call that ended last.
func (s *shard) popContinued(th *thread, end End) error {
	for s.stack.top().key&gone != 0 {
		if err := s.popTo(th, s.stack.depth-1, end); err != nil {
			return err
		}
	}
	return nil
}

// keepSwitched keeps a switch until it is known which call was innermost then.
func (s *shard) keepSwitched(th *thread, sw *reader.Switch, l lasting) error {
	r := th.rarely()
	r.switched = append(r.switched, switched{*sw, l})
	if len(r.switched) == maxSwitched {
		return s.stopAwaiting(th)
	}
	return nil
}

// passSwitched handles the switches that were kept.
func (s *shard) passSwitched(th *thread) {
	if th.rare == nil || len(th.rare.switched) == 0 {
		return
	}
	for i := range th.rare.switched {
		sw := &th.rare.switched[i]
		s.gap(th, &sw.Switch, sw.lasting, never)
	}
	th.rare.switched = th.rare.switched[:0]
}
