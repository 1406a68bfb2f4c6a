package calls

import (
	"encoding/binary"

	"github.com/xray-tools/xray/reader"
)

// on and off are type arguments that specialize fast. Their lengths are constants in each
// version. A variable would take a register and a test for every record.
type (
	on  [1]struct{}
	off [0]struct{}
)

type onOff interface{ on | off }

func isOn[T onOff]() bool {
	var t T
	return len(t) == 1
}

// fastLoop is a version of fast.
type fastLoop func(s *shard, records []byte, offset uint64, at cursor) (int, cursor)

// cursor is what fast changes with each call. It is passed and returned in registers: a loop
// that also kept a pointer to the thread would run out of them.
type cursor struct {
	top, deepest uint8
	calls        uint   // in use of shard.calls
	last         uint64 // time of the latest record
}

// fastFor returns the versions of fast for FDR and basic records.
func fastFor(opts *Options) (fdr, basic fastLoop) {
	switch code := opts.Continue != nil || opts.CanCall != nil; {
	case opts.CanCall != nil && opts.Opens:
		return fastWith[on, on, on](opts)
	case opts.CanCall != nil:
		return fastWith[off, on, on](opts)
	case opts.Opens && code:
		return fastWith[on, on, off](opts)
	case opts.Opens:
		return fastWith[on, off, off](opts)
	case code:
		return fastWith[off, on, off](opts)
	}
	return fastWith[off, off, off](opts)
}

func fastWith[opens, tails, lefts onOff](opts *Options) (fdr, basic fastLoop) {
	switch {
	case opts.Nested && opts.Paths:
		return fast[off, on, on, opens, tails, lefts], fast[on, on, on, opens, tails, lefts]
	case opts.Nested:
		return fast[off, on, off, opens, tails, lefts], fast[on, on, off, opens, tails, lefts]
	case opts.Paths:
		return fast[off, off, on, opens, tails, lefts], fast[on, off, on, opens, tails, lefts]
	}
	return fast[off, off, off, opens, tails, lefts], fast[on, off, off, opens, tails, lefts]
}

// fast consumes records of r up to the first that needs another path.
func (s *shard) fast(th *thread, r *run) {
	loop := s.fastFDR
	if r.Basic {
		loop = s.fastBasic
	}
	if loop == nil || s.stack.depth >= deepStack {
		return
	}
	deepest := uint8(min(max(uint32(s.stack.depth), s.stats.MaxDepth), deepStack))
	n, c := loop(s, r.Records, th.offset, cursor{uint8(s.stack.depth), deepest, uint(s.n), th.last})
	s.stack.depth, th.last, s.n = int(c.top), c.last, int(c.calls)
	s.stats.MaxDepth = max(s.stats.MaxDepth, uint32(c.deepest))
	r.Records, r.TSC = r.Records[n:], c.last-th.offset
}

// fast handles entries, and exits of the innermost open call. It stops at other records, where
// the clock steps back, and where there is no room. It returns the number of bytes handled. With
// tails, it asks after a tail exit whether the next record is inside the call, and stops if there is
// none in records. With lefts, it also stops at entries of calls that the innermost open call cannot
// have made. This is the hot loop of every analysis: nearly all records come this way.
func fast[basic, nested, paths, opens, tails, lefts onOff](s *shard, records []byte, offset uint64, at cursor) (int, cursor) {
	frames, counts, batch := &s.stack.frames, &s.stack.counts, s.calls
	top, deepest, n, last := at.top, at.deepest, at.calls, at.last
	size := 8
	if isOn[basic]() {
		size = 32
	}
	i, afterTail := 0, 0
	for ; i <= len(records)-8; i += size {
		w := binary.LittleEndian.Uint64(records[i : i+8])
		var now, key uint64
		if isOn[basic]() {
			// The order of the fields differs; move kind to its place in FDR.
			now = binary.LittleEndian.Uint64(records[i+8:i+16]) + offset
			key = w >> 32
			w = w >> 23 & 14
		} else {
			now = last + w>>32
			key = uint64(uint32(w) >> 4)
		}
		if now < last {
			break
		}
		if w&14 == uint64(reader.Enter)<<1 {
			if isOn[lefts]() && frames[top].key&gone == 0 && !s.callable.has(frames[top].key, key) && !s.learn(frames[top].key, key) {
				break
			}
			if isOn[opens]() && len(s.batch.Opens) == cap(s.batch.Opens) {
				break
			}
			if top == deepest {
				if top == deepStack {
					break
				}
				deepest++
			}
			if isOn[opens]() && (i == afterTail || key >= uint64(len(s.opts.Unopened)) || !s.opts.Unopened[key]) {
				m := len(s.batch.Opens)
				s.batch.Opens = s.batch.Opens[:m+1]
				s.batch.Opens[m] = Open{Call: int(n), Start: now, Func: reader.FuncID(key), Depth: uint32(top)}
			}
			f := &frames[top+1]
			if isOn[paths]() {
				caller := &frames[top]
				path := s.paths.guess(caller.path, caller.child, reader.FuncID(key))
				if path == 0 {
					path = s.paths.search(caller.path, caller.child, reader.FuncID(key))
				}
				f.path, f.child = path, 0
				caller.child = path
			}
			f.start = now
			f.inside = 0
			f.key = key
			if isOn[tails]() {
				f.key |= frames[top].key & gone * (continues / gone)
			}
			if isOn[nested]() {
				*counts.of(key)++
			}
			top++
		} else {
			f := &frames[top]
			if n >= uint(len(batch)) {
				break
			}
			if f.key != key && (!isOn[tails]() || f.key != key|continues || !s.endsOthers(top, n)) {
				break
			}
			if isOn[tails]() && w&14 == uint64(reader.TailExit)<<1 {
				if i > len(records)-8-size {
					break
				}
				next := binary.LittleEndian.Uint64(records[i+size:])
				enters, to := next&14 == uint64(reader.Enter)<<1, uint64(uint32(next)>>4)
				if isOn[basic]() {
					enters, to = next>>23&14 == uint64(reader.Enter)<<1, next>>32
				}
				if enters && s.goesOn(key, to) {
					if isOn[opens]() && i == afterTail {
						afterTail += size
					}
					f.key |= gone
					last = now
					continue
				}
			}
			if isOn[opens]() && w&14 == uint64(reader.TailExit)<<1 {
				afterTail = i + size
			}
			top--
			c := &batch[n]
			n++
			// Exit and TailExit are 1 and 2, Exited and TailExited 0 and 1.
			c.set(f, &frames[top], now, int(top), End(w>>1&3-1))
			c.Nested = false
			c.Args = false
			if isOn[nested]() {
				count := counts.of(key)
				if *count--; *count > 0 {
					c.Nested = find(frames[:int(top)+1], reader.FuncID(key)) > 0
				}
			}
			if isOn[tails]() && f.key != key {
				top, n = s.endContinued(top, n, now, c.End)
			}
		}
		last = now
	}
	return i, cursor{top, deepest, n, last}
}

// endsOthers reports whether endContinued can end the calls that continued in the innermost call, after
// call n of s.calls. These may have arguments, or have begun earlier.
func (s *shard) endsOthers(top uint8, n uint) bool {
	for frames := &s.stack.frames; frames[top-1].key&gone != 0; top-- {
		if n++; n >= uint(len(s.calls)) || frames[top-1].key&(hasArgs|earlier) != 0 {
			return false
		}
	}
	return true
}

// endContinued ends the calls that continued in the call that ended last, which had top others around
// it, at the time now.
func (s *shard) endContinued(top uint8, n uint, now uint64, end End) (uint8, uint) {
	if end == Exited {
		end = Continued
	}
	for frames := &s.stack.frames; frames[top].key&gone != 0; n++ {
		f := &frames[top]
		top--
		c := &s.calls[n]
		c.set(f, &frames[top], now, int(top), end)
		c.Args = false
		if c.Nested = s.opts.Nested; c.Nested {
			count := s.stack.counts.of(f.key)
			*count--
			c.Nested = *count > 0 && find(frames[:int(top)+1], c.Func) > 0
		}
	}
	return top, n
}
