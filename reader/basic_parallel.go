package reader

import (
	"context"
	"sync"
)

// crew is the goroutines that decode a log together. Each decodes the threads of
// its shard. The one that runs out of work splits the next chunk, for all of
// them, so that most of the splitting falls to those that have less of the rest,
// and all are busy until the others are too far behind.
type crew struct {
	log   *basicLog
	pass  *pass
	split *splitter // used by the goroutine that has set splitting

	mu        sync.Mutex // guards what follows
	changed   sync.Cond
	queues    [][]*chunk // what each shard has still to decode
	free      []*chunk
	left      int // how many chunks may still be made
	splitting bool
	over      bool // the log is split, or decoding has failed
}

// chunksAhead is how many chunks, for each of a crew, may be split and not yet
// decoded by all. It evens out that threads come in long runs.
const chunksAhead = 8

func (l *basicLog) each(p *pass, n int, fn func(int, *Block) error) error {
	w := &crew{log: l, pass: p, split: l.newSplitter(p), queues: make([][]*chunk, n), left: n * chunksAhead}
	w.changed.L = &w.mu
	return parallel(n, func(_ context.Context, shard int) error {
		d := l.newDecoder(blockEvents)
		d.packed = p.packed
		defer func() { p.lost(&d.losses) }()
		// Whatever the reason to leave: nobody is to wait for this one.
		defer w.end()
		return l.file.in.guard(l.file.name, func() error {
			return w.work(d, shard, func(b *Block) error { return fn(shard, b) })
		})
	})
}

// work decodes the threads of a shard.
func (w *crew) work(d *basicDecoder, shard int, fn func(*Block) error) error {
	for {
		c, err := w.next(shard)
		if c == nil {
			return err
		}
		for _, first := range c.groups {
			if c.runs[first].of.index%len(w.queues) == shard {
				if err := d.runs(c, first, fn); err != nil {
					return err
				}
			}
		}
		w.done(c)
	}
}

// next is the next chunk for a shard, or nil at the end.
func (w *crew) next(shard int) (*chunk, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if q := w.queues[shard]; len(q) > 0 {
			w.queues[shard] = q[1:]
			return q[0], nil
		}
		switch {
		case w.over:
			return nil, nil
		case w.splitting || len(w.free) == 0 && w.left == 0:
			w.changed.Wait()
		default:
			if err := w.more(); err != nil {
				return nil, err
			}
		}
	}
}

// more splits another chunk. Others may go on decoding meanwhile.
func (w *crew) more() error {
	c := w.empty()
	w.splitting = true
	ok, err := w.fill(c)
	w.splitting = false
	if w.over = w.over || !ok; ok {
		c.users = len(w.queues)
		for i := range w.queues {
			w.queues[i] = append(w.queues[i], c)
		}
	}
	w.changed.Broadcast()
	return err
}

func (w *crew) fill(c *chunk) (bool, error) {
	w.mu.Unlock()
	defer w.mu.Lock() // also where the file shrinks, which is a panic here
	ok, err := w.split.next(c)
	if ok {
		c.group()
	}
	return ok, err
}

func (w *crew) empty() *chunk {
	if n := len(w.free); n > 0 {
		c := w.free[n-1]
		w.free = w.free[:n-1]
		return c
	}
	w.left--
	return w.log.newChunk()
}

// done hands back a chunk that a shard is done with.
func (w *crew) done(c *chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.users--; c.users == 0 {
		w.pass.decoded(w.log.file.in, int64(len(c.data)))
		w.free = append(w.free, c)
		w.changed.Broadcast()
	}
}

// end ends the work of all, once they have decoded what is split.
func (w *crew) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.changed.Broadcast()
}
