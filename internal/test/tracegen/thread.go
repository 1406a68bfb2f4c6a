package tracegen

import (
	"math"
	"math/rand/v2"
)

const (
	startTSC  = 40 * 60 * Frequency // forty minutes after the machine started
	startPID  = 4711
	cpus      = 8
	quantum   = 26
	gapValues = 1 << 12

	maxDepth = 64 // bounds recursion

	maxGap = math.MaxUint32 - 1<<20 // the time between two FDR records has 32 bits
)

// thread runs the program. It holds the stack of calls, and draws one record
// after the other.
type thread struct {
	prog  *program
	truth *Truth
	gaps  *[gapValues]uint32
	id    int32
	left  int64 // records still to be drawn
	tsc   uint64
	rng   uint64
	cpu   uint8
	stack []frame
	// pending is the callee of a tail call whose exit was just recorded.
	pending  uint32
	open     bool
	unwind   bool
	randomly bool
}

// frame is an open call.
type frame struct {
	start uint64
	fn    uint32
	site  uint16 // the next one to try
}

// newThreads shares the records out, in pairs of an entry and an exit.
func newThreads(p *program, truth *Truth, opts Options) []*thread {
	gaps := newGaps(opts.Seed, 1, 0.5)
	if opts.Spread {
		gaps = newGaps(opts.Seed, 250, 2.3)
	}
	pairs := opts.Records / 2
	threads := make([]*thread, opts.Threads)
	for i := range threads {
		n := pairs / int64(opts.Threads)
		if int64(i) < pairs%int64(opts.Threads) {
			n++
		}
		threads[i] = &thread{
			prog: p, truth: truth, gaps: gaps,
			id: startPID + 1 + int32(i), left: 2 * n, tsc: startTSC,
			rng:   mix(opts.Seed + uint64(i)*0x9e3779b97f4a7c15 + opts.Run*0xd1342543de82ef95),
			cpu:   uint8(i % cpus),
			stack: make([]frame, 0, maxDepth),
			open:  opts.Open, unwind: opts.Unwind, randomly: opts.Random,
		}
	}
	threads[0].left += opts.Records % 2
	return threads
}

// newGaps tabulates a log-normal distribution, in 1/256.
func newGaps(seed uint64, median, sigma float64) *[gapValues]uint32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	t := new([gapValues]uint32)
	for i := range t {
		t[i] = uint32(256 * median * math.Exp(sigma*rng.NormFloat64()))
	}
	return t
}

// mix spreads the bits of a seed, so that near seeds make threads that differ.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31 | 1 // never 0
}

// random is xorshift64*.
func (t *thread) random() uint64 {
	x := t.rng
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	t.rng = x
	return x * 0x2545f4914f6cdd1d
}

// next draws the next record. There must be records left.
func (t *thread) next() record {
	r := t.random()
	rec := t.step(r)
	t.left--
	t.truth.Records++
	// The upper bits of r are not those that step looks at first.
	switch rare := r >> 48; {
	case rare == 0 && len(t.stack) > 0: // preempted
		t.tsc += 50_000 + r>>30&0x3ffff
	case rare < 12:
		t.cpu = uint8(r>>32) % cpus
	case rare == 12:
		rec.wrap = true
	}
	return rec
}

// step decides what happens next and advances the time for it.
func (t *thread) step(r uint64) record {
	if t.pending != 0 {
		fn := t.pending
		t.pending = 0
		return t.enter(fn, r)
	}
	depth := len(t.stack)
	if depth == 0 {
		if t.tsc > startTSC {
			t.tsc += 2000 + r>>20&0x3fff // the wait for a request
		}
		if t.randomly {
			return t.enter(t.anyone(r), r)
		}
		return t.enter(t.prog.roots[r>>8%uint64(len(t.prog.roots))], r)
	}
	f := &t.stack[depth-1]
	fn := &t.prog.funcs[f.fn]
	// A call needs a record for itself, its exit, and the exits of all around it.
	mayCall := depth < maxDepth && (t.open || t.left >= int64(depth)+2)
	if t.randomly {
		if mayCall && r&1 == 0 {
			return t.enter(t.anyone(r), r)
		}
		return t.leave(exit, r)
	}
	for bits := r; mayCall && int(f.site) < len(fn.sites); bits >>= 8 {
		s := fn.sites[f.site]
		if uint16(bits&0xff) >= s.taken {
			f.site++
			continue
		}
		if uint16(bits>>8&0xff) >= s.loop {
			f.site++
		}
		if fn.tail && int(f.site) == len(fn.sites) && t.left >= int64(depth)+2 {
			t.pending = s.callee
			return t.leave(tailExit, r)
		}
		return t.enter(s.callee, r)
	}
	if t.unwind && depth > 3 && r>>48 >= 0xfff0 {
		t.truth.Open += 2
		t.stack = t.stack[:depth-2]
	}
	return t.leave(exit, r)
}

// anyone draws one of all functions.
func (t *thread) anyone(r uint64) uint32 { return 1 + uint32(r>>8%uint64(len(t.prog.funcs)-1)) }

func (t *thread) enter(fn uint32, r uint64) record {
	if len(t.stack) > 0 {
		t.pass(t.stack[len(t.stack)-1].fn, r)
	}
	t.stack = append(t.stack, frame{start: t.tsc, fn: fn})
	t.truth.Entries[fn]++
	t.truth.Depth = max(t.truth.Depth, len(t.stack))
	return record{tsc: t.tsc, fn: fn, kind: enter, cpu: t.cpu}
}

func (t *thread) leave(k kind, r uint64) record {
	f := t.stack[len(t.stack)-1]
	t.stack = t.stack[:len(t.stack)-1]
	t.pass(f.fn, r)
	t.truth.Calls[f.fn]++
	t.truth.Ticks[f.fn] += t.tsc - f.start
	return record{tsc: t.tsc, fn: f.fn, kind: k, cpu: t.cpu}
}

// pass advances the time by a piece of work in fn.
func (t *thread) pass(fn uint32, r uint64) {
	gap := uint64(t.prog.funcs[fn].scale) * uint64(t.gaps[r>>20%gapValues]) >> 8
	gap = min(gap, maxGap)
	t.tsc += quantum + gap - gap%quantum
}
