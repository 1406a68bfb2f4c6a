package reader

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math"
	"slices"
)

// EachAbreast decodes the trace on the calling goroutine and calls fn for every block, always of
// the thread that is furthest behind in time. Blocks are as in [Trace.EachPacked], but never Ended.
// After each block, it calls reached with a time that no later block has an event before.
//
// The time of a thread does not run backwards here: if its clock steps back, the step counts as no
// time, and is added to its later times. The first error ends the pass and is returned.
func (t *Trace) EachAbreast(fn func(*Block) error, reached func(tsc uint64)) error {
	p := t.begin()
	p.packed = true
	return t.inLanes(p, func(lanes []lane) error {
		a := abreast{pass: p, lanes: lanes}
		defer a.close()
		return a.run(fn, reached)
	})
}

// abreast is the state of a pass. Only threads that have begun, and have not ended, have a decoder,
// unless the index does not know when they begin.
type abreast struct {
	pass    *pass
	lanes   []lane
	waiting []abreastLane // by time
	begun   abreastQueue
}

// abreastLane is how far a thread was decoded.
type abreastLane struct {
	lane         int
	decoder      laneDecoder
	block        *Block // decoded to know when the thread begins, or nil
	last, offset uint64 // time so far, and the sum of the steps back
}

func (a *abreast) close() {
	for _, l := range slices.Concat(a.waiting, a.begun) {
		if l.decoder != nil {
			l.decoder.close()
		}
	}
}

func (a *abreast) run(fn func(*Block) error, reached func(uint64)) error {
	if err := a.queue(); err != nil {
		return err
	}
	for len(a.waiting)+len(a.begun) > 0 {
		if len(a.begun) == 0 || len(a.waiting) > 0 && a.waiting[0].last <= a.begun[0].last {
			l := a.waiting[0]
			if a.waiting = a.waiting[1:]; l.decoder == nil {
				a.open(&l)
			}
			heap.Push(&a.begun, l)
			continue
		}
		l := &a.begun[0]
		b, err := l.next()
		switch {
		case err != nil:
			return err
		case b == nil:
			l.decoder.close()
			heap.Pop(&a.begun)
		default:
			l.pass(b)
			if err := fn(b); err != nil {
				return err
			}
			heap.Fix(&a.begun, 0)
		}
		now := uint64(math.MaxUint64)
		if len(a.begun) > 0 {
			now = a.begun[0].last
		}
		if len(a.waiting) > 0 {
			now = min(now, a.waiting[0].last)
		}
		reached(now)
	}
	return nil
}

// queue finds out when threads begin.
func (a *abreast) queue() error {
	for i, lane := range a.lanes {
		l := abreastLane{lane: i}
		var known bool
		if l.last, _, known = lane.first(); !known {
			a.open(&l)
			b, err := l.next()
			if b == nil {
				l.decoder.close()
				if err != nil {
					return err
				}
				continue
			}
			l.block, l.last = b, b.first()
		}
		a.waiting = append(a.waiting, l)
	}
	slices.SortStableFunc(a.waiting, func(a, b abreastLane) int { return cmp.Compare(a.last, b.last) })
	return nil
}

func (a *abreast) open(l *abreastLane) {
	l.decoder = a.lanes[l.lane].decoder(a.pass, min(max(mergeEvents/len(a.lanes), 16), blockEvents))
	a.lanes[l.lane] = nil
}

// next returns the next block with events, or nil at the end of the thread.
func (l *abreastLane) next() (*Block, error) {
	if b := l.block; b != nil {
		l.block = nil
		return b, nil
	}
	for {
		b, err := l.decoder.next()
		if err != nil || b == nil || len(b.Events)+b.Packed.Len() > 0 {
			return b, err
		}
	}
}

// pass advances the time to the end of a block.
func (l *abreastLane) pass(b *Block) {
	last, offset := l.last, l.offset
	at := func(tsc uint64) {
		now := tsc + offset
		if now < last {
			offset += last - now
			now = last
		}
		last = now
	}
	for i := range b.Events {
		at(b.Events[i].TSC)
	}
	p := b.Packed
	if p.Len() > 0 && !p.Basic {
		at(b.first())
		at(p.Last)
	}
	for ; p.Basic && len(p.Records) > 0; p.Records = p.Records[basicRecordSize:] {
		at(binary.LittleEndian.Uint64(p.Records[8:]))
	}
	l.last, l.offset = last, offset
}

// abreastQueue is a heap of threads by time.
type abreastQueue []abreastLane

func (q abreastQueue) Len() int      { return len(q) }
func (q abreastQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q abreastQueue) Less(i, j int) bool {
	return q[i].last < q[j].last || q[i].last == q[j].last && q[i].lane < q[j].lane
}
func (q *abreastQueue) Push(x any) { *q = append(*q, x.(abreastLane)) }
func (q *abreastQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
