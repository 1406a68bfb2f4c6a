package reader

import (
	"context"
	"sync"
)

// workerPool is a group of goroutines that decode a log together. Each decodes the threads of
// its shard. A goroutine without work splits the next chunk for all of them. So the
// goroutines with less to decode do most of the splitting, and all are busy until the
// others are too far behind.
type workerPool struct {
	log   *basicLog
	pass  *pass
	split *splitter // used by the goroutine that has set splitting

	mu        sync.Mutex // guards the following fields
	changed   sync.Cond
	queues    [][]*chunk // chunks that each shard has to decode
	free      []*chunk
	left      int // chunks that may still be allocated
	splitting bool
	over      bool // the log is split, or decoding has failed
}

// chunksAhead is how many chunks per goroutine may be split before all have decoded them.
// It compensates for long runs of one thread.
const chunksAhead = 8

func (l *basicLog) each(p *pass, n int, fn func(int, *Block) error) error {
	w := &workerPool{log: l, pass: p, split: l.newSplitter(p), queues: make([][]*chunk, n), left: n * chunksAhead}
	w.changed.L = &w.mu
	return parallel(n, func(_ context.Context, shard int) error {
		d := l.newDecoder(blockEvents)
		d.packed = p.packed
		defer func() { p.lost(&d.losses) }()
		// Whatever the reason to return, the others must not wait for this one.
		defer w.end()
		return l.file.in.guard(l.file.name, func() error {
			return w.work(d, shard, func(b *Block) error { return fn(shard, b) })
		})
	})
}

// work decodes the threads of a shard.
func (w *workerPool) work(d *basicDecoder, shard int, fn func(*Block) error) error {
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

// next returns the next chunk for a shard, or nil at the end.
func (w *workerPool) next(shard int) (*chunk, error) {
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

// more splits another chunk. Other goroutines may decode at the same time.
func (w *workerPool) more() error {
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

func (w *workerPool) fill(c *chunk) (bool, error) {
	w.mu.Unlock()
	defer w.mu.Lock() // also if the file shrinks, which panics here
	ok, err := w.split.next(c)
	if ok {
		c.group()
	}
	return ok, err
}

func (w *workerPool) empty() *chunk {
	if n := len(w.free); n > 0 {
		c := w.free[n-1]
		w.free = w.free[:n-1]
		return c
	}
	w.left--
	return w.log.newChunk()
}

// done returns a chunk that a shard has decoded.
func (w *workerPool) done(c *chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.users--; c.users == 0 {
		w.pass.decoded(w.log.file.in, c.offset, c.offset+int64(len(c.data)))
		w.free = append(w.free, c)
		w.changed.Broadcast()
	}
}

// end ends the work of all goroutines, once they have decoded what is split.
func (w *workerPool) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.changed.Broadcast()
}
