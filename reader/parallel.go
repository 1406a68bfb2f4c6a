package reader

import (
	"context"
	"math"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Each decodes the trace on up to n goroutines and calls fn for every block. All blocks of
// a thread come in order and with the same shard, a number below n. fn runs concurrently
// only for different shards. The block is valid until fn returns. The first error ends the
// pass and is returned.
//
// With n = 1, everything happens on the calling goroutine.
func (t *Trace) Each(n int, fn func(shard int, b *Block) error) error {
	return t.each(t.begin(), n, fn)
}

// EachPacked is Each, but blocks may have their events in Block.Packed, and may be
// Block.Ended.
func (t *Trace) EachPacked(n int, fn func(shard int, b *Block) error) error {
	p := t.begin()
	p.packed = true
	return t.each(p, n, fn)
}

// Extent is the time of a trace, in ticks, and the number of its threads.
type Extent struct {
	First, Last uint64
	Threads     int
}

// Extent makes a pass to find the first and the last record. Without records, all fields are 0.
func (t *Trace) Extent() (Extent, error) {
	var mu sync.Mutex
	e := Extent{First: math.MaxUint64}
	err := t.EachPacked(0, func(_ int, b *Block) error {
		if b.len() == 0 {
			return nil
		}
		least, most := b.Times()
		mu.Lock()
		defer mu.Unlock()
		e = Extent{min(e.First, least), max(e.Last, most), max(e.Threads, b.Index+1)}
		return nil
	})
	if e.First == math.MaxUint64 {
		e.First = 0
	}
	return e, err
}

func (t *Trace) each(p *pass, n int, fn func(shard int, b *Block) error) error {
	for _, f := range t.files {
		if err := f.format.each(p, max(n, 1), fn); err != nil {
			return err
		}
	}
	return nil
}

// EachByTime merges the threads of the trace by time and yields all events in windows. It
// calls work for every window, concurrently on up to n goroutines, each with a shard of its
// own. Then it calls done for one window after the other, in time order. Both may use the
// window until they return. done may run concurrently with work for later windows. The
// first error ends the pass and is returned. Memory grows with the number of threads, but
// not with their length.
//
// edit, if not nil, is called for every block that was decoded. Blocks of a thread come in
// order and never two at a time. It returns the block that replaces it: the same block,
// which it must not change, or one of its own that stays valid until the next call for the
// thread. At the end of a thread, it is called with a block without events, and what it
// returns comes last. Threads without events after that do not appear.
//
// With n = 1, everything happens on the calling goroutine.
func (t *Trace) EachByTime(n int, edit func(*Block) *Block, work func(shard int, w *Window), done func(*Window) error) error {
	p := t.begin()
	if n <= 1 {
		w := newWindow()
		return t.windows(p, edit, func() *Window { return w }, func(w *Window, _ []int) error {
			w.sort()
			work(0, w)
			return done(w)
		})
	}
	g, ctx := errgroup.WithContext(context.Background())
	free := make(chan *Window, 2*n)
	for range cap(free) {
		free <- newWindow()
	}
	// Both have room for all windows, so that sending never blocks.
	todo, queue := make(chan *Window, cap(free)), make(chan *Window, cap(free))
	g.Go(func() error {
		defer close(todo)
		defer close(queue)
		get := func() *Window {
			select {
			case w := <-free:
				return w
			case <-ctx.Done():
				return nil
			}
		}
		return t.windows(p, edit, get, func(w *Window, _ []int) error {
			todo <- w
			queue <- w
			return nil
		})
	})
	for shard := range n {
		g.Go(func() error {
			for w := range todo {
				w.sort()
				work(shard, w)
				w.ready <- struct{}{}
			}
			return nil
		})
	}
	g.Go(func() error {
		for w := range queue {
			<-w.ready
			if err := done(w); err != nil {
				return err
			}
			free <- w
		}
		return nil
	})
	return g.Wait()
}

// parallel runs f for the shards below n, each on its own goroutine unless there is only
// one. The first error ends the context and is returned.
func parallel(n int, f func(ctx context.Context, shard int) error) error {
	if n == 1 {
		return f(context.Background(), 0)
	}
	g, ctx := errgroup.WithContext(context.Background())
	for shard := range n {
		g.Go(func() error { return f(ctx, shard) })
	}
	return g.Wait()
}

// drain decodes a whole lane.
func drain(ctx context.Context, p *pass, l lane, fn func(*Block) error) error {
	d := l.decoder(p, blockEvents)
	defer d.close()
	return pump(d, func(b *Block) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(b)
	})
}

// pump yields all blocks of a decoder.
func pump(d laneDecoder, fn func(*Block) error) error {
	for {
		b, err := d.next()
		if err != nil || b == nil {
			return err
		}
		if err := fn(b); err != nil {
			return err
		}
	}
}
