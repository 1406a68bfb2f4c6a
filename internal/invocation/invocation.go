// Package invocation finds the invocations of root functions among the calls of a
// trace, and what each spent its time on.
//
// An invocation is an outermost call of a root: one that is made inside another
// belongs to that. A call that is open where its thread's records end is none.
// What it called is added up by path below the root, with recursion folded: a
// function that is on the path already takes the call. So the self times of an
// invocation's paths add up to its duration, exactly.
package invocation

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Key tells an invocation from all others of a trace, and orders them by time.
type Key struct {
	Start uint64
	Index int // of the thread, as in reader.Block
}

// Compare orders by time.
func (k Key) Compare(o Key) int {
	switch {
	case k.Start < o.Start, k.Start == o.Start && k.Index < o.Index:
		return -1
	case k == o:
		return 0
	}
	return 1
}

// Invocation is one outermost call of a root.
type Invocation struct {
	Key
	Thread   reader.Thread
	Root     reader.FuncID
	Duration uint64
	// Paths are what was called, each path once. They are empty unless
	// Options.Paths.
	Paths []Path
}

// Path is all calls of a path in one invocation.
type Path struct {
	ID    calls.PathID // in Tracker.Tree
	Calls uint64
	Self  uint64
	First uint64 // when the first call began
}

// Options of a Tracker. Root is needed.
type Options struct {
	// Root says which functions are roots. It is called once for each function and
	// shard, concurrently.
	Root func(reader.FuncID) bool
	// Paths sets Invocation.Paths.
	Paths bool
	// Thread, and From and To if it is not 0, choose invocations by thread and
	// start. Thread is called once for each thread; nil chooses all.
	Thread   func(reader.Thread) bool
	From, To uint64
}

// Tracker gives the invocations among the calls of a shard to a function. It is to
// be part of a sink that runs with calls.Options.Paths and without a filter.
// Memory grows with distinct paths, and with what the open invocations called.
type Tracker struct {
	*Folder

	opts    Options
	visit   func(v *Invocation, chosen bool)
	threads map[int]*thread
	current *thread
	places  []uint32 // by path in Tree: one more than its place in current.paths; 0 for none
	out     Invocation
}

// thread is the paths of a thread's open invocation.
type thread struct {
	chosen bool
	paths  []Path
}

// NewTracker returns a tracker that calls visit with every invocation, as it ends,
// and whether it is one of those that opts choose. The invocation is valid until
// visit returns.
func NewTracker(opts Options, visit func(v *Invocation, chosen bool)) *Tracker {
	return &Tracker{Folder: NewFolder(opts.Root), opts: opts, visit: visit, threads: make(map[int]*thread)}
}

// Calls takes the next calls of a thread.
func (t *Tracker) Calls(b *calls.Batch) error {
	t.Fold(b.Paths)
	t.places = append(t.places, make([]uint32, t.Tree.Len()-len(t.places))...)
	th := t.use(b)
	for i := range b.Calls {
		c := &b.Calls[i]
		path := t.Of(c.Path)
		if path == 0 {
			continue
		}
		if t.opts.Paths {
			t.add(th, path, c)
		}
		if t.Of(b.Paths.Parent(c.Path)) != 0 {
			continue
		}
		if c.End != calls.Truncated {
			t.out = Invocation{
				Key: Key{c.Start, b.Index}, Thread: b.Thread, Root: c.Func, Duration: c.Duration, Paths: th.paths,
			}
			t.visit(&t.out, th.chosen && c.Start >= t.opts.From && (t.opts.To == 0 || c.Start < t.opts.To))
		}
		t.forget(th)
	}
	return nil
}

// use has the thread of b take its turn at places.
func (t *Tracker) use(b *calls.Batch) *thread {
	th := t.threads[b.Index]
	if th == nil {
		th = &thread{chosen: t.opts.Thread == nil || t.opts.Thread(b.Thread)}
		t.threads[b.Index] = th
	}
	if th == t.current {
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

func (t *Tracker) add(th *thread, path calls.PathID, c *calls.Call) {
	place := t.places[path]
	if place == 0 {
		th.paths = append(th.paths, Path{ID: path, First: c.Start})
		place = uint32(len(th.paths))
		t.places[path] = place
	}
	p := &th.paths[place-1]
	p.Calls++
	p.Self += c.Self
	p.First = min(p.First, c.Start)
}

// forget empties the paths of the current thread.
func (t *Tracker) forget(th *thread) {
	for i := range th.paths {
		t.places[th.paths[i].ID] = 0
	}
	th.paths = th.paths[:0]
}

// Clone copies an invocation, which then is valid for good.
func (v *Invocation) Clone() *Invocation {
	c := *v
	c.Paths = slices.Clone(v.Paths)
	return &c
}
