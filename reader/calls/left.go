package calls

import (
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Calls that an exception or a longjmp left have no exit. If the trace does not say that they were
// left, the entry of a call that they cannot have made shows it: see Options.CanCall.

// pair is the function of an open call, and a function that is entered inside it.
type pair struct{ from, to reader.FuncID }

func (p pair) key() uint64 { return uint64(uint32(p.from))<<32 | uint64(uint32(p.to)) }

// callable is a hash table of pairs whose first function can call the second. The hot loop leaves
// entries of other pairs to the general path.
type callable [1 << callableBits]uint64

const callableBits = 11

func (c *callable) at(key uint64) *uint64 { return &c[key*0x9e3779b97f4a7c15>>(64-callableBits)] }

// has is for the hot loop: from is the key of a frame.
func (c *callable) has(from, to uint64) bool {
	key := from<<32 | to
	return *c.at(key) == key
}

const (
	// maxLeftSearch limits the open calls that an entry may end.
	maxLeftSearch = 255
	// maxAbandoned limits the calls of a thread whose end may turn out to be wrong.
	maxAbandoned = 64
)

// learn is for the hot loop, for pairs that callable does not have. It reports whether the entry
// ends no call. from is the key of a frame.
func (s *shard) learn(from, to uint64) bool {
	p := pair{reader.FuncID(uint32(from)), reader.FuncID(to)}
	if p.from != 0 && !s.opts.CanCall(p.from, p.to) {
		return false
	}
	*s.callable.at(p.key()) = p.key()
	return true
}

// leave ends the innermost open calls that cannot have made a call of a function, up to one that
// can. If there is none, the caller is not in the trace: its call began before the trace, or its
// entry was not recorded. In the second case, the caller is inside an open call. So all calls end
// only if none of them can lead to the function.
func (s *shard) leave(th *thread, to reader.FuncID) error {
	if s.stack.depth == 0 {
		p := pair{0, to}
		*s.callable.at(p.key()) = p.key()
		return nil
	}
	if s.stack.top().key&gone != 0 {
		return nil // this is its tail call
	}
	d := s.stack.depth
	for ; d > 0 && s.stack.depth-d < maxLeftSearch; d-- {
		if s.stack.at(d).key&gone == 0 && s.canCall(th, pair{s.origin(th, d), to}) {
			break
		}
	}
	if d == s.stack.depth || s.stack.depth-d == maxLeftSearch || d == 0 && s.reaches(to) {
		return nil
	}
	r := th.rarely()
	for i := d + 1; i <= s.stack.depth; i++ {
		if len(r.abandoned) == maxAbandoned {
			r.abandoned = slices.Delete(r.abandoned, 0, 1)
		}
		r.abandoned = append(r.abandoned, pair{s.origin(th, i), to})
	}
	return s.popTo(th, d, Left)
}

// reaches reports whether any open call can lead to a call of a function.
func (s *shard) reaches(to reader.FuncID) bool {
	if s.opts.CanReach == nil {
		return true
	}
	for d := s.stack.depth; d > 0; d-- {
		if s.opts.CanReach(s.origin(s.stack.thread, d), to) {
			return true
		}
	}
	return false
}

func (s *shard) canCall(th *thread, p pair) bool {
	known := s.callable.at(p.key())
	if *known == p.key() {
		return true
	}
	if s.opts.CanCall(p.from, p.to) {
		*known = p.key()
		return true
	}
	return th.rare != nil && slices.Contains(th.rare.calls, p)
}

// stayed handles an exit of a function that matches no open call: perhaps leave ended the call
// although it went on. Then the binary does not show all calls, or records are missing. The thread
// does not end calls for this pair again.
func (th *thread) stayed(fn reader.FuncID) {
	if th.rare == nil {
		return
	}
	r := th.rare
	for i, p := range slices.Backward(r.abandoned) {
		if p.from == fn {
			r.calls = append(r.calls, p)
			r.abandoned = slices.Delete(r.abandoned, i, i+1)
			return
		}
	}
}

// origin returns the function of an open call before Options.Alias.
func (s *shard) origin(th *thread, depth int) reader.FuncID {
	if s.opts.Alias == nil {
		return s.stack.at(depth).fn()
	}
	return th.rare.origins[depth]
}

// keepOrigin keeps the function of the call that was opened last, before Options.Alias.
func (s *shard) keepOrigin(th *thread, fn reader.FuncID) {
	r := th.rarely()
	r.origins = append(r.origins[:min(len(r.origins), s.stack.depth)], make([]reader.FuncID, s.stack.depth+1-min(len(r.origins), s.stack.depth))...)
	r.origins[s.stack.depth] = fn
}
