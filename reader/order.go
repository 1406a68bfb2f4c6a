package reader

import "container/heap"

// mergeEvents bounds the events that the buffers of a merge hold together.
const mergeEvents = 1 << 20

// timeOrder merges all threads by time. A thread's events keep their order: one
// that is earlier than the event before it comes right behind that.
func (t *Trace) timeOrder(p *pass, fn func(*Block) error) error {
	var lanes []lane
	for _, f := range t.files {
		l, err := f.format.lanes(p)
		if err != nil {
			return err
		}
		lanes = append(lanes, l...)
	}
	m := &merge{fn: fn}
	eventCap := min(max(mergeEvents/max(len(lanes), 1), 16), blockEvents)
	for i, l := range lanes {
		c := &cursor{decoder: l.decoder(p, eventCap), order: i}
		defer c.decoder.close()
		if ok, err := c.load(); err != nil {
			return err
		} else if ok {
			m.cursors = append(m.cursors, c)
		}
	}
	heap.Init(m)
	for len(m.cursors) > 0 {
		if err := m.step(); err != nil {
			return err
		}
	}
	return nil
}

// cursor is a thread's place in a merge.
type cursor struct {
	decoder laneDecoder
	order   int // among threads with equal times
	block   *Block
	next    int    // event of block
	key     uint64 // the latest time of the thread's events up to next
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
	c.key = max(c.key, b.Events[0].TSC)
	return true, nil
}

func (c *cursor) before(key uint64, order int) bool {
	return c.key < key || c.key == key && c.order < order
}

// merge is a heap of threads by the time of their next events.
type merge struct {
	cursors  []*cursor
	fn       func(*Block) error
	out      Block
	args     []Arg
	payloads []Payload
}

func (m *merge) Len() int           { return len(m.cursors) }
func (m *merge) Swap(i, j int)      { m.cursors[i], m.cursors[j] = m.cursors[j], m.cursors[i] }
func (m *merge) Push(any)           { panic("merge: cursors are only taken out") }
func (m *merge) Less(i, j int) bool { return m.cursors[i].before(m.cursors[j].key, m.cursors[j].order) }

func (m *merge) Pop() any {
	c := m.cursors[len(m.cursors)-1]
	m.cursors = m.cursors[:len(m.cursors)-1]
	return c
}

// step passes on the events of the first thread up to where the second comes
// first. Threads run for a while before others do, so this is usually more
// than one.
func (m *merge) step() error {
	c := m.cursors[0]
	var second *cursor
	for i := 1; i < min(3, len(m.cursors)); i++ {
		if second == nil || m.Less(i, 1) {
			second = m.cursors[i]
		}
	}
	start := c.next
	events := c.block.Events
	for {
		c.next++
		if c.next == len(events) {
			break
		}
		c.key = max(c.key, events[c.next].TSC)
		if second != nil && !c.before(second.key, second.order) {
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
		if !ok {
			heap.Pop(m)
			return nil
		}
	}
	heap.Fix(m, 0)
	return nil
}

// cut makes out the events of c from start up to next.
func (m *merge) cut(c *cursor, start int) {
	m.out = *c.block
	m.out.Events = c.block.Events[start:c.next]
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
