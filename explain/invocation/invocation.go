// Package invocation finds the invocations of root functions among the calls of a trace,
// and how each spent its time.
//
// An invocation is an outermost call of a root. A root call inside another belongs to the
// outer one, unless Options.Nested is set. A call that is still open at the end of its thread's records is not an
// invocation. The calls of an invocation are summed by path below the root, with recursion
// folded: a function that is on the path already takes the call. So the self times of an
// invocation's paths add up to exactly its duration.
package invocation

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Key identifies an invocation in a trace. Keys order invocations by time.
type Key struct {
	Start uint64
	Index int    // of the thread, as in reader.Block
	Depth uint32 // of the call, with Options.Nested: calls inside it may begin at the same time
}

// Compare orders keys by time.
func (k Key) Compare(o Key) int {
	switch {
	case k.Start < o.Start, k.Start == o.Start && (k.Index < o.Index || k.Index == o.Index && k.Depth < o.Depth):
		return -1
	case k == o:
		return 0
	}
	return 1
}

// Invocation is one call of a root.
type Invocation struct {
	Key
	Thread   reader.Thread
	Root     reader.FuncID
	Duration uint64
	// Paths are the call paths of the invocation, each once. They are empty unless
	// Options.Paths is set.
	Paths []Path
	// Values are the arguments and results of the call of the root, with Options.Values.
	Values []calls.Recorded
}

// Slowest are the slowest invocations of a trace, in the order of [Slower].
type Slowest struct {
	List      []*Invocation    // without paths and values
	Threads   int              // with invocations
	Durations *quantile.Sample // of all invocations
}

// Slower orders the slowest first, and of equally slow ones the earlier first.
func Slower(a, b *Invocation) int {
	return cmp.Or(cmp.Compare(b.Duration, a.Duration), a.Compare(b.Key))
}

// Path sums up all calls of a path in one invocation.
type Path struct {
	ID    calls.PathID // in Tracker.Tree
	Calls uint64
	Self  uint64
	First uint64    // start of the first call
	Off   calls.Off // part of Self; 0 without calls.Options.OffCPU
}

// Options configures a Tracker. Root is required.
type Options struct {
	// Root reports whether a function is a root. It is called once per function and shard,
	// concurrently.
	Root func(reader.FuncID) bool
	// Paths requests Invocation.Paths.
	Paths bool
	// Nested makes each call of a root an invocation, also inside others, of which it is a part, too. It
	// needs calls.EveryRoot.
	Nested bool
	// Thread, From and To select invocations by thread and start. Thread is called once per
	// thread; nil selects all. To is ignored if it is 0.
	Thread   func(reader.Thread) bool
	From, To uint64
	// Values requests Invocation.Values. It may be nil.
	Values *calls.Expressions
}

// Tracker finds the invocations among the calls of a shard. Use it in a sink that runs with
// calls.Options.Paths and without a filter. Memory grows with the number of distinct paths,
// and with the paths of open invocations.
type Tracker struct {
	*Folder

	opts    Options
	visit   func(v *Invocation, chosen bool)
	threads map[int]*thread
	current *thread
	places  []uint32 // by path in Tree: 1 + index in current.paths; 0 for none
	out     Invocation
	values  []calls.Recorded // of out
}

// thread holds the paths of a thread's open invocation.
type thread struct {
	chosen bool
	paths  []Path
	nest   *Nest[Path, struct{}] // with Options.Nested, instead
}

// plus adds the calls of the same path.
func (p *Path) plus(o *Path) {
	if p.Calls == 0 {
		p.First = o.First
	}
	p.ID = o.ID
	p.Calls += o.Calls
	p.Self += o.Self
	p.Off.Add(o.Off)
	p.First = min(p.First, o.First)
}

// NewTracker returns a tracker that calls visit for every invocation when it ends. chosen
// reports whether opts select it. The invocation is valid until visit returns.
func NewTracker(opts Options, visit func(v *Invocation, chosen bool)) *Tracker {
	return &Tracker{Folder: NewFolder(opts.Root), opts: opts, visit: visit, threads: make(map[int]*thread)}
}

// Calls processes the next calls of a thread.
func (t *Tracker) Calls(b *calls.Batch) error {
	t.Fold(b.Paths)
	t.places = append(t.places, make([]uint32, t.Tree.Len()-len(t.places))...)
	th := t.use(b)
	waits := b.Waits
	for i := range b.Calls {
		c := &b.Calls[i]
		var off calls.Off
		if len(waits) > 0 && waits[0].Call == i {
			off, waits = waits[0].Self, waits[1:]
		}
		path := t.Of(c.Path)
		if path == 0 {
			if th.nest != nil {
				th.nest.Clear()
			}
			continue
		}
		inside := t.Of(b.Paths.Parent(c.Path)) != 0
		if th.nest != nil {
			t.nest(th, path, c, off, !inside)
		} else if t.opts.Paths {
			t.add(th, path, c, off)
		}
		if inside {
			continue
		}
		if !c.Partial() {
			t.out = Invocation{
				Key: Key{Start: c.Start, Index: b.Index}, Thread: b.Thread, Root: c.Func, Duration: c.Duration, Paths: th.paths,
			}
			if t.opts.Values != nil {
				t.values = t.opts.Values.Of(b, i, t.values[:0])
				t.out.Values = t.values
			}
			if t.opts.Nested {
				t.out.Depth = c.Depth
			}
			t.visit(&t.out, th.chosen && c.Start >= t.opts.From && (t.opts.To == 0 || c.Start < t.opts.To))
		}
		if th.nest != nil {
			th.nest.Gather(c.Depth) // it may be part of another one
		} else {
			t.forget(th)
		}
	}
	return nil
}

// nest adds a call, which may be one of a root.
func (t *Tracker) nest(th *thread, path calls.PathID, c *calls.Call, off calls.Off, root bool) {
	depth := c.Depth
	if root {
		depth++
	}
	th.nest.Gather(depth)
	th.nest.Item(uint32(path)).plus(&Path{path, 1, c.Self, c.Start, off})
	th.paths = th.nest.Items()
}

// use makes places describe the thread of b.
func (t *Tracker) use(b *calls.Batch) *thread {
	th := t.threads[b.Index]
	if th == nil {
		th = &thread{chosen: t.opts.Thread == nil || t.opts.Thread(b.Thread)}
		if t.opts.Nested && t.opts.Paths {
			th.nest = NewNest((*Path).plus, func(_, _ *struct{}) {})
		}
		t.threads[b.Index] = th
	}
	if th == t.current || th.nest != nil {
		return th
	}
	if t.current != nil {
		for i := range t.current.paths {
			t.places[t.current.paths[i].ID] = 0
		}
	}
	for i := range th.paths {
		t.places[th.paths[i].ID] = uint32(i + 1)
	}
	t.current = th
	return th
}

func (t *Tracker) add(th *thread, path calls.PathID, c *calls.Call, off calls.Off) {
	place := t.places[path]
	if place == 0 {
		th.paths = append(th.paths, Path{ID: path, First: c.Start})
		place = uint32(len(th.paths))
		t.places[path] = place
	}
	p := &th.paths[place-1]
	p.Calls++
	p.Self += c.Self
	p.Off.Add(off)
	p.First = min(p.First, c.Start)
}

// forget removes the paths of the current thread from places.
func (t *Tracker) forget(th *thread) {
	for i := range th.paths {
		t.places[th.paths[i].ID] = 0
	}
	th.paths = th.paths[:0]
}

// Clone returns a copy of the invocation that stays valid.
func (v *Invocation) Clone() *Invocation {
	const keptText = 256
	c := *v
	c.Paths = slices.Clone(v.Paths)
	c.Values = nil
	for i := range v.Values {
		c.Values = append(c.Values, v.Values[i].Keep(keptText))
	}
	return &c
}
