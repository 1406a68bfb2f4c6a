package reader

// mergeEvents bounds the events that the buffers of a merge hold together.
const mergeEvents = 1 << 20

// timeOrder merges all threads by time. A thread's events keep their order: one
// that is earlier than the event before it comes right behind that.
func (t *Trace) timeOrder(p *pass, fn func(*Block) error) error {
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
	run := func() error { return mergeLanes(p, lanes, fn) }
	for _, f := range t.files {
		inner := run
		run = func() error { return f.in.guard(f.name, inner) }
	}
	return run()
}

func mergeLanes(p *pass, lanes []lane, fn func(*Block) error) error {
	m := &merge{fn: fn}
	eventCap := min(max(mergeEvents/max(len(lanes), 1), 16), blockEvents)
	for i, l := range lanes {
		c := &cursor{decoder: l.decoder(p, eventCap)}
		defer c.decoder.close()
		if ok, err := c.load(); err != nil {
			return err
		} else if ok {
			m.heap = append(m.heap, entry{c.key, i, c})
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		if err := m.step(); err != nil {
			return err
		}
	}
	return nil
}

// cursor is a thread's place in a merge.
type cursor struct {
	decoder laneDecoder
	block   *Block
	next    int    // event of block
	key     uint64 // time of that event
	// Side tables of block that belong to the events from next on.
	args     []Arg
	payloads []Payload
}

// load moves on to the next block; false at the end of the thread.
func (c *cursor) load() (bool, error) {
	b, err := c.decoder.next()
	if err != nil || b == nil {
		return false, err
	}
	c.block, c.next = b, 0
	c.args, c.payloads = b.Args, b.Payloads
	c.key = b.Events[0].TSC
	return true, nil
}

// entry is a cursor's place in the heap, with what the heap compares.
type entry struct {
	key    uint64
	order  int // among threads with equal times
	cursor *cursor
}

func (e *entry) before(o *entry) bool {
	return e.key < o.key || e.key == o.key && e.order < o.order
}

// merge is a heap of threads by the time of their next events. Only its top
// ever changes, so that sifting down is all it does.
type merge struct {
	heap     []entry
	fn       func(*Block) error
	out      Block
	args     []Arg
	payloads []Payload
}

func (m *merge) down(i int) {
	h := m.heap
	if i >= len(h) {
		return
	}
	e := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
}

// step passes on the events of the first thread up to where the second comes
// first. Threads run for a while before others do, so this is usually more
// than one.
func (m *merge) step() error {
	top := &m.heap[0]
	c := top.cursor
	second := entry{key: ^uint64(0), order: int(^uint(0) >> 1)}
	for i := 1; i < min(3, len(m.heap)); i++ {
		if m.heap[i].before(&second) {
			second = m.heap[i]
		}
	}
	start := c.next
	events := c.block.Events
	for {
		c.next++
		if c.next == len(events) {
			break
		}
		c.key = events[c.next].TSC
		if top.key = c.key; !top.before(&second) {
			break
		}
	}
	m.cut(c, start)
	if err := m.fn(&m.out); err != nil {
		return err
	}
	if c.next == len(events) {
		ok, err := c.load()
		if err != nil {
			return err
		}
		top.key = c.key
		if !ok {
			last := len(m.heap) - 1
			m.heap[0] = m.heap[last]
			m.heap = m.heap[:last]
		}
	}
	m.down(0)
	return nil
}

// cut makes out the events of c from start up to next.
func (m *merge) cut(c *cursor, start int) {
	b := c.block
	m.out.Thread, m.out.Index, m.out.Offset = b.Thread, b.Index, b.Offset
	m.out.Events = b.Events[start:c.next]
	m.out.Args, m.out.Payloads = nil, nil
	if len(c.args) == 0 && len(c.payloads) == 0 {
		return
	}
	m.args, m.payloads = m.args[:0], m.payloads[:0]
	for len(c.args) > 0 && c.args[0].Event < c.next {
		a := c.args[0]
		a.Event -= start
		m.args, c.args = append(m.args, a), c.args[1:]
	}
	for len(c.payloads) > 0 && c.payloads[0].Event < c.next {
		p := c.payloads[0]
		p.Event -= start
		m.payloads, c.payloads = append(m.payloads, p), c.payloads[1:]
	}
	m.out.Args, m.out.Payloads = m.args, m.payloads
}
