package reader

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Each decodes the trace on up to n goroutines and calls fn for every block.
// All blocks of a thread come in order and with the same shard, a number below
// n; fn runs concurrently for different shards only. The block is valid until
// fn returns. The first error ends the pass and is returned.
//
// With n = 1 everything happens on the calling goroutine, and the threads of an
// FDR log follow each other in the order of their first block.
func (t *Trace) Each(n int, fn func(shard int, b *Block) error) error {
	p := t.begin()
	for _, f := range t.files {
		if err := f.format.each(p, max(n, 1), fn); err != nil {
			return err
		}
	}
	return nil
}

// eachLane shares out lanes, the longest first, so that the shards end at about
// the same time.
func eachLane(p *pass, lanes []lane, n int, fn func(shard int, b *Block) error) error {
	n = min(n, len(lanes))
	if n <= 1 {
		for _, l := range lanes {
			if err := drain(context.Background(), p, l, func(b *Block) error { return fn(0, b) }); err != nil {
				return err
			}
		}
		return nil
	}
	lanes = slices.Clone(lanes)
	slices.SortStableFunc(lanes, func(a, b lane) int { return cmp.Compare(b.bytes(), a.bytes()) })
	var next atomic.Int64
	g, ctx := errgroup.WithContext(context.Background())
	for shard := range n {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(lanes) {
					return nil
				}
				err := drain(ctx, p, lanes[i], func(b *Block) error { return fn(shard, b) })
				if err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// drain decodes a whole lane.
func drain(ctx context.Context, p *pass, l lane, fn func(*Block) error) error {
	d := l.decoder(p, blockEvents)
	defer d.close()
	for ctx.Err() == nil {
		b, err := d.next()
		if err != nil || b == nil {
			return err
		}
		if err := fn(b); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// threadIndex numbers the threads of a trace.
type threadIndex struct {
	index map[Thread]int
	list  []Thread
}

func (t *threadIndex) of(th Thread) int {
	i, ok := t.index[th]
	if !ok {
		if t.index == nil {
			t.index = make(map[Thread]int)
		}
		i = len(t.list)
		t.index[th] = i
		t.list = append(t.list, th)
	}
	return i
}
