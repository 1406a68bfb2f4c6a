package slowest

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/xray-tools/xray/explain/invocation"
)

// ChoiceOptions select invocations for a [Choice].
type ChoiceOptions struct {
	// Options select the invocations to choose from. Top is the maximum number of slow ones.
	// If there are more, the slowest are chosen. PerThread is ignored.
	Options
	// Slow is the duration in ticks from which an invocation is slow. 0 means that none is.
	Slow uint64
	// Sample is the number of others to draw at random.
	Sample int
	// Seed is the random seed. Equal seeds give equal samples of a trace.
	Seed uint64
}

// Choice chooses slow invocations, and a random sample of all others. It is an analysis of
// package calls, like [Search]. Memory grows with the number of invocations wanted.
type Choice struct {
	*invocation.Tracker
	opts   ChoiceOptions
	slow   slowHeap
	sample drawnHeap
	found  uint64
}

// NewChoice returns an empty choice.
func NewChoice(opts ChoiceOptions) *Choice {
	c := &Choice{opts: opts}
	c.Tracker = opts.tracker(false, func(v *invocation.Invocation, chosen bool) {
		switch {
		case !chosen:
		case opts.Slow > 0 && v.Duration >= opts.Slow:
			c.found++
			c.keep(v.Clone())
		default:
			c.draw(drawn{c.priority(v.Key), v.Key})
		}
	})
	return c
}

func (c *Choice) keep(v *invocation.Invocation) {
	heap.Push(&c.slow, v)
	if c.slow.Len() > c.opts.Top {
		heap.Pop(&c.slow)
	}
}

// priority returns a random number that depends on the seed and the invocation alone, so that the
// sample does not depend on how the trace was divided.
func (c *Choice) priority(k invocation.Key) uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], c.opts.Seed)
	binary.LittleEndian.PutUint64(b[8:], k.Start)
	binary.LittleEndian.PutUint64(b[16:], uint64(k.Index))
	h.Write(b[:]) // never fails
	// FNV mixes the last bytes poorly.
	x := h.Sum64()
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

func (c *Choice) draw(d drawn) {
	if len(c.sample) == c.opts.Sample && (len(c.sample) == 0 || d.compare(c.sample[0]) > 0) {
		return
	}
	heap.Push(&c.sample, d)
	if len(c.sample) > c.opts.Sample {
		heap.Pop(&c.sample)
	}
}

// Merge implements calls.Analysis.
func (c *Choice) Merge(o *Choice) {
	c.found += o.found
	for _, v := range o.slow {
		c.keep(v)
	}
	for _, d := range o.sample {
		c.draw(d)
	}
}

// Chosen returns the slow invocations and the others, each in order of time, and the number
// of slow ones that were found, which may be more.
func (c *Choice) Chosen() (slow, others []invocation.Key, found uint64) {
	for _, v := range c.slow {
		slow = append(slow, v.Key)
	}
	for _, d := range c.sample {
		others = append(others, d.Key)
	}
	slices.SortFunc(slow, invocation.Key.Compare)
	slices.SortFunc(others, invocation.Key.Compare)
	return slow, others, c.found
}

// drawn is an invocation with its random priority.
type drawn struct {
	priority uint64
	invocation.Key
}

func (d drawn) compare(o drawn) int {
	return cmp.Or(cmp.Compare(d.priority, o.priority), d.Key.Compare(o.Key))
}

// drawnHeap has the largest priority on top.
type drawnHeap []drawn

func (h drawnHeap) Len() int           { return len(h) }
func (h drawnHeap) Less(i, j int) bool { return h[i].compare(h[j]) > 0 }
func (h drawnHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *drawnHeap) Push(x any)        { *h = append(*h, x.(drawn)) }

func (h *drawnHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
