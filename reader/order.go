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
	return t.inLanes(p, func(lanes []lane) error { return mergeLanes(p, lanes, edit, get, fn) })
}

// inLanes calls run with the threads of all files. It reports errors of mapped files.
func (t *Trace) inLanes(p *pass, run func([]lane) error) error {
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
	guarded := func() error { return run(lanes) }
	for _, f := range t.files {
		inner := guarded
		guarded = func() error { return f.in.guard(f.name, inner) }
	}
	return guarded()
}

func mergeLanes(p *pass, lanes []lane, edit func(*Block) *Block, get func() *Window, fn func(*Window, []int) error) error {
	m := &merge{pass: p, lanes: lanes, edit: edit, eventCap: min(max(mergeEvents/max(len(lanes), 1), 16), blockEvents)}
	m.ends.slot, m.ends.before = 0, (*cursor).endsBefore
	m.keys.slot, m.keys.before = 1, (*cursor).comesBefore
	defer m.close()
	if err := m.queue(); err != nil {
		return err
	}
	for len(m.waiting)+len(m.ends.list) > 0 {
		w := get()
		if w == nil {
			return nil
		}
		if err := m.fill(w); err != nil {
			return err
		}
		// Other goroutines still use earlier windows, whose slices end before later additions.
		w.Threads = m.threads
		if err := fn(w, m.indices); err != nil {
			return err
		}
	}
	return nil
}

// merge is the state of a merge. Only threads that have begun, and have not ended, have a
// cursor: there may be a million short-lived threads, one after the other.
type merge struct {
	pass     *pass
	lanes    []lane // nil after their end
	edit     func(*Block) *Block
	eventCap int
	waiting  []waitingLane // by first event
	// ends and keys have the cursors by the ends of their buffers and by their next event.
	// All events up to the first of these ends can be sorted.
	ends, keys cursorHeap
	threads    []Thread // that have begun, see Window.Threads
	indices    []int    // their Block.Index
}

// waitingLane is a lane before its first event.
type waitingLane struct {
	key    uint64 // time of the first event
	place  place
	cursor *cursor // if it had to be loaded to know the time
}

// queue finds out when threads begin.
func (m *merge) queue() error {
	m.waiting = make([]waitingLane, 0, len(m.lanes))
	for i, l := range m.lanes {
		if m.edit == nil {
			if key, at, ok := l.first(); ok {
				m.waiting = append(m.waiting, waitingLane{key: key, place: place{at.file, at.inFile, i}})
				continue
			}
		}
		c, err := m.load(i)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		m.waiting = append(m.waiting, waitingLane{c.key(), c.place, c})
	}
	slices.SortFunc(m.waiting, func(a, b waitingLane) int { return cmp.Or(cmp.Compare(a.key, b.key), a.place.compare(b.place)) })
	return nil
}

// load starts decoding a lane. It returns nil if the lane has no events.
func (m *merge) load(lane int) (*cursor, error) {
	c := &cursor{decoder: m.lanes[lane].decoder(m.pass, m.eventCap), edit: m.edit, place: place{lane: lane}}
	m.lanes[lane] = nil
	if ok, err := c.load(); !ok {
		c.decoder.close()
		return nil, err
	}
	return c, nil
}

// wake starts the first lane that waits.
func (m *merge) wake() error {
	next := m.waiting[0]
	m.waiting = m.waiting[1:]
	c := next.cursor
	if c == nil {
		var err error
		if c, err = m.load(next.place.lane); c == nil {
			return err
		}
		// A thread cannot begin in the past.
		c.floor = max(c.floor, next.key)
		c.last = max(c.last, c.floor)
	}
	c.owner = uint32(len(m.threads))
	m.threads, m.indices = append(m.threads, c.block.Thread), append(m.indices, c.block.Index)
	m.ends.push(c)
	m.keys.push(c)
	return nil
}

// close reports the losses of the lanes that were not read to their end.
func (m *merge) close() {
	for _, c := range m.ends.list {
		c.decoder.close()
	}
	for i := range m.waiting {
		if c := m.waiting[i].cursor; c != nil {
			c.decoder.close()
		}
	}
}

// cursor is a thread's position in a merge.
type cursor struct {
	decoder laneDecoder
	edit    func(*Block) *Block
	owner   uint32 // see Window.Owners
	at      [2]int // index in the heaps
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

func (c *cursor) endsBefore(o *cursor) bool {
	return c.last < o.last || c.last == o.last && c.place.compare(o.place) < 0
}

func (c *cursor) comesBefore(o *cursor) bool {
	a, b := c.key(), o.key()
	return a < b || a == b && c.place.compare(o.place) < 0
}

// cursorHeap is a heap of cursors, each of which knows its index.
type cursorHeap struct {
	list   []*cursor
	slot   int // of cursor.at
	before func(a, b *cursor) bool
}

func (h *cursorHeap) push(c *cursor) {
	h.list = append(h.list, c)
	h.put(len(h.list)-1, c)
	h.up(len(h.list) - 1)
}

func (h *cursorHeap) put(i int, c *cursor) { h.list[i], c.at[h.slot] = c, i }

func (h *cursorHeap) remove(c *cursor) {
	i, end := c.at[h.slot], len(h.list)-1
	last := h.list[end]
	h.list[end] = nil
	h.list = h.list[:end]
	if i < end {
		h.put(i, last)
		h.fix(last)
	}
}

// fix moves a cursor whose place changed.
func (h *cursorHeap) fix(c *cursor) {
	h.down(c.at[h.slot])
	h.up(c.at[h.slot])
}

func (h *cursorHeap) up(i int) {
	c := h.list[i]
	for i > 0 && h.before(c, h.list[(i-1)/2]) {
		h.put(i, h.list[(i-1)/2])
		i = (i - 1) / 2
	}
	h.put(i, c)
}

func (h *cursorHeap) down(i int) {
	c := h.list[i]
	for {
		child := 2*i + 1
		if child >= len(h.list) {
			break
		}
		if child+1 < len(h.list) && h.before(h.list[child+1], h.list[child]) {
			child++
		}
		if !h.before(h.list[child], c) {
			break
		}
		h.put(i, h.list[child])
		i = child
	}
	h.put(i, c)
}

// fill takes the buffers of the threads in the order in which they end, until the window is
// full, and then the earlier events of the other threads.
func (m *merge) fill(w *Window) error {
	base := uint64(math.MaxUint64)
	if len(m.keys.list) > 0 {
		base = m.keys.list[0].key()
	}
	if len(m.waiting) > 0 {
		base = min(base, m.waiting[0].key)
	}
	w.reset(base)
	limit, from := base+min(windowTicks, math.MaxUint64-base), place{file: math.MaxInt32}
	for !w.full() {
		if len(m.waiting) > 0 && m.waiting[0].key <= limit && (len(m.ends.list) == 0 || m.waiting[0].key <= m.ends.list[0].last) {
			if err := m.wake(); err != nil {
				return err
			}
			continue
		}
		if len(m.ends.list) == 0 || m.ends.list[0].last > limit {
			break
		}
		c := m.ends.list[0]
		last, at := c.last, c.place
		w.take(c, last)
		if ok, err := c.load(); err != nil {
			return err
		} else if !ok {
			m.ends.remove(c)
			m.keys.remove(c)
			c.decoder.close()
		} else {
			m.ends.fix(c)
			m.keys.fix(c)
		}
		if w.full() {
			limit, from = last, at
		}
	}
	m.takeEarlier(w, limit, from)
	return nil
}

// takeEarlier takes the events up to limit. Those at limit it takes only from threads before
// a place.
func (m *merge) takeEarlier(w *Window, limit uint64, from place) {
	for len(m.keys.list) > 0 {
		c := m.keys.list[0]
		upTo := limit
		if c.place.compare(from) >= 0 {
			if limit == 0 {
				break
			}
			upTo = limit - 1
		}
		if c.key() > upTo {
			break
		}
		w.take(c, upTo)
		m.keys.fix(c)
	}
}
