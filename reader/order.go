package reader

import (
	"cmp"
	"math"
	"slices"
)

// mergeEvents limits the total number of events in the buffers of a merge.
const mergeEvents = 1 << 18

// timeOrder yields the trace as blocks that each end where another thread's event comes
// first.
func (t *Trace) timeOrder(p *pass, fn func(*Block) error) error {
	w := newWindow()
	var c cutter
	return t.windows(p, nil, func() *Window { return w }, func(w *Window, indices []int) error {
		w.sort()
		return c.cut(w, indices, fn)
	})
}

// cutter divides windows into blocks.
type cutter struct {
	out      Block
	events   []Event
	args     []Arg
	payloads []Payload
}

func (c *cutter) cut(w *Window, indices []int, fn func(*Block) error) error {
	for order := w.Order; len(order) > 0; {
		owner := w.Owners[order[0]]
		c.events, c.args, c.payloads = c.events[:0], c.args[:0], c.payloads[:0]
		for len(order) > 0 && w.Owners[order[0]] == owner && len(c.events) < blockEvents {
			c.add(w, order[0])
			order = order[1:]
		}
		c.out = Block{
			Thread: w.Threads[owner], Index: indices[owner], Offset: -1,
			Events: c.events, Args: c.args, Payloads: c.payloads,
		}
		if err := fn(&c.out); err != nil {
			return err
		}
	}
	return nil
}

func (c *cutter) add(w *Window, i uint32) {
	n := len(c.events)
	c.events = append(c.events, w.Events[i])
	if !w.Events[i].Side {
		return
	}
	for _, a := range w.ArgsOf(i) {
		c.args = append(c.args, Arg{n, a.Value})
	}
	if w.Events[i].Kind > EnterArg {
		p := w.PayloadOf(i)
		p.Event = n
		c.payloads = append(c.payloads, p)
	}
}

// windows merges all threads by time. get returns the next window to fill, or nil to stop.
// fn also gets Block.Index of each of its threads. edit, if not nil, replaces every block
// that was decoded.
//
// A thread's events keep their order: an event that is earlier than its predecessor comes
// right after it. The result stays the same if it is written to a basic log or YAML and
// sorted again, because events with equal times keep the order of the file.
func (t *Trace) windows(p *pass, edit func(*Block) *Block, get func() *Window, fn func(*Window, []int) error) error {
	var lanes []lane
	for _, f := range t.files {
		err := f.in.guard(f.name, func() error {
			l, err := f.format.lanes(p)
			lanes = append(lanes, l...)
			return err
		})
		if err != nil {
			return err
		}
	}
	run := func() error { return mergeLanes(p, lanes, edit, get, fn) }
	for _, f := range t.files {
		inner := run
		run = func() error { return f.in.guard(f.name, inner) }
	}
	return run()
}

func mergeLanes(p *pass, lanes []lane, edit func(*Block) *Block, get func() *Window, fn func(*Window, []int) error) error {
	var m merge
	eventCap := min(max(mergeEvents/max(len(lanes), 1), 16), blockEvents)
	for i, l := range lanes {
		c := &cursor{decoder: l.decoder(p, eventCap), edit: edit, place: place{lane: i}}
		defer c.decoder.close()
		if ok, err := c.load(); err != nil {
			return err
		} else if ok {
			m.heap = append(m.heap, c)
		}
	}
	slices.SortFunc(m.heap, func(a, b *cursor) int { return cmp.Or(cmp.Compare(a.key(), b.key()), a.place.compare(b.place)) })
	threads := make([]Thread, len(m.heap))
	indices := make([]int, len(m.heap))
	for i, c := range m.heap {
		c.owner = uint32(i)
		threads[i], indices[i] = c.block.Thread, c.block.Index
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		w := get()
		if w == nil {
			return nil
		}
		w.Threads = threads
		if err := m.fill(w); err != nil {
			return err
		}
		if err := fn(w, indices); err != nil {
			return err
		}
	}
	return nil
}

// cursor is a thread's position in a merge.
type cursor struct {
	decoder laneDecoder
	edit    func(*Block) *Block
	owner   uint32 // see Window.Owners
	latest  *Block // of decoder
	ended   bool   // decoder has no more blocks
	block   *Block
	place   place  // of block
	next    int    // event of block
	floor   uint64 // largest TSC before it
	last    uint64 // largest TSC up to the end of block
	// Side tables of block, for the events from next on.
	args     []Arg
	payloads []Payload
}

// key is the time of the next event.
func (c *cursor) key() uint64 { return max(c.floor, c.block.Events[c.next].TSC) }

// load moves to the next block. It returns false at the end of the thread.
func (c *cursor) load() (bool, error) {
	for !c.ended {
		b, err := c.decoder.next()
		switch {
		case err != nil:
			return false, err
		case b == nil:
			c.ended = true
			if c.edit == nil || c.latest == nil {
				return false, nil
			}
			b = c.edit(&Block{Thread: c.latest.Thread, Index: c.latest.Index, Offset: -1})
		case len(b.Events) == 0:
			continue
		default:
			c.latest = b
			c.place.file, c.place.inFile = b.Thread.File, b.place
			if c.edit != nil {
				b = c.edit(b)
			}
		}
		if len(b.Events) == 0 {
			continue
		}
		c.block, c.next, c.floor = b, 0, c.last
		c.args, c.payloads = b.Args, b.Payloads
		for i := range b.Events {
			c.last = max(c.last, b.Events[i].TSC)
		}
		return true, nil
	}
	return false, nil
}

// merge is a heap of threads by the ends of their buffers. All events up to the first of
// these ends can be sorted.
type merge struct{ heap []*cursor }

func (c *cursor) endsBefore(o *cursor) bool {
	return c.last < o.last || c.last == o.last && c.place.compare(o.place) < 0
}

func (m *merge) down(i int) {
	h := m.heap
	if i >= len(h) {
		return
	}
	c := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].endsBefore(h[child]) {
			child++
		}
		if !h[child].endsBefore(c) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = c
}

// fill takes the buffers of the threads in the order in which they end, until the window is
// full, and then the earlier events of the other threads.
func (m *merge) fill(w *Window) error {
	base := uint64(math.MaxUint64)
	for _, c := range m.heap {
		base = min(base, c.key())
	}
	w.reset(base)
	limit, from := base+min(windowTicks, math.MaxUint64-base), place{file: math.MaxInt32}
	for len(m.heap) > 0 && m.heap[0].last <= limit {
		c := m.heap[0]
		last, at := c.last, c.place
		w.take(c, last)
		if ok, err := c.load(); err != nil {
			return err
		} else if !ok {
			end := len(m.heap) - 1
			m.heap[0] = m.heap[end]
			m.heap = m.heap[:end]
		}
		m.down(0)
		if w.full() {
			limit, from = last, at
			break
		}
	}
	for _, c := range m.heap {
		switch {
		case c.place.compare(from) < 0:
			w.take(c, limit)
		case limit > 0:
			w.take(c, limit-1)
		}
	}
	return nil
}
