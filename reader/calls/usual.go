package calls

import (
	"encoding/binary"

	"github.com/xray-tools/xray/reader"
)

// on and off are type arguments that specialize usual. Their lengths are constants in each
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

// usualFor returns the versions of usual for FDR and basic records.
func usualFor(opts *Options) (fdr, basic func(*shard, *thread, *run)) {
	switch code := opts.Continue != nil || opts.CanCall != nil; {
	case opts.CanCall != nil && opts.Opens:
		return usualWith[on, on, on](opts)
	case opts.CanCall != nil:
		return usualWith[off, on, on](opts)
	case opts.Opens && code:
		return usualWith[on, on, off](opts)
	case opts.Opens:
		return usualWith[on, off, off](opts)
	case code:
		return usualWith[off, on, off](opts)
	}
	return usualWith[off, off, off](opts)
}

func usualWith[opens, tails, lefts onOff](opts *Options) (fdr, basic func(*shard, *thread, *run)) {
	switch {
	case opts.Nested && opts.Paths:
		return usual[off, on, on, opens, tails, lefts], usual[on, on, on, opens, tails, lefts]
	case opts.Nested:
		return usual[off, on, off, opens, tails, lefts], usual[on, on, off, opens, tails, lefts]
	case opts.Paths:
		return usual[off, off, on, opens, tails, lefts], usual[on, off, on, opens, tails, lefts]
	}
	return usual[off, off, off, opens, tails, lefts], usual[on, off, off, opens, tails, lefts]
}

// none replaces usual if every record takes the general path.
func none(*shard, *thread, *run) {}

// usual consumes records of r up to the first that is not an entry or the exit of the
// innermost open call, at which the clock steps back, or for which there is no room. If tail
// calls may continue calls, it leaves tail exits and what they concern, and with lefts entries of
// calls that the innermost open one may not have made. This is the hot loop of every analysis:
// nearly all records come this way.
func usual[basic, nested, paths, opens, tails, lefts onOff](s *shard, th *thread, r *run) {
	if s.stack.depth >= deepStack {
		return
	}
	frames, counts, batch := &s.stack.frames, &s.stack.counts, s.calls
	top := uint8(s.stack.depth)
	deepest := top
	n, opened := uint(s.n), s.batch.Opens
	records := r.Records
	offset, last := th.offset, th.last
	size := 8
	if isOn[basic]() {
		size = 32
	}
	i := 0
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
			if top == deepStack || isOn[lefts]() && !s.callable.has(frames[top].key, key) && !s.learn(frames[top].key, key) {
				break
			}
			if isOn[opens]() {
				m := len(opened)
				if m == cap(opened) {
					break
				}
				opened = opened[:m+1]
				opened[m] = Open{Call: int(n), Start: now, Func: reader.FuncID(key), Depth: uint32(top)}
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
			if isOn[nested]() {
				*counts.of(key)++
			}
			top++
			deepest = max(deepest, top)
		} else {
			f := &frames[top]
			if f.key != key || n >= uint(len(batch)) || isOn[tails]() && w&14 == uint64(reader.TailExit)<<1 {
				break
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
		}
		last = now
	}
	s.stack.depth, th.last, s.n = int(top), last, int(n)
	s.batch.Opens = opened
	s.stats.MaxDepth = max(s.stats.MaxDepth, uint32(deepest))
	r.Records, r.TSC = records[i:], last-offset
}
