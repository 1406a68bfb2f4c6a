package stack

import (
	"errors"
	"math"
	"slices"
	"unsafe"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Options selects what an [Analysis] keeps.
type Options struct {
	// PerThread keeps threads apart, in memory that grows with the number of distinct pairs
	// of thread and path.
	PerThread bool
	// OffCPU says that batches have off-CPU times.
	OffCPU bool
	// Wakers, if not nil, are scheduler events that show what ended each wait. Paths of blocked
	// time then continue with the waker: reader.WakerThread or a similar ID, followed by the
	// waker's path, the innermost function first. It needs OffCPU, and excludes PerThread.
	Wakers *sched.Logs
	// ThreadName returns the name of a thread, or "" if it has none. May be nil.
	ThreadName func(reader.Thread) string
	// Divide, if not nil, puts frames of values into paths. It excludes Wakers, and needs all calls of the
	// threads, and calls.Options.Shards of 1, so that the same paths are folded each time.
	Divide *Divide
}

// Analysis adds up calls by path. Its memory grows with the number of distinct paths, not
// of calls. It must not be used concurrently.
type Analysis struct {
	opts    Options
	paths   *calls.Paths
	threads []*thread        // by Batch.Index; nil for threads of other shards
	all     *sums            // nil with PerThread
	wakers  *sched.Collector // nil unless Options.Wakers
	divider *divider         // nil unless Options.Divide
	memory  int64            // bytes of the sums of threads
	earlier uint64           // open calls that began before what was selected
}

// thread is the state of one thread.
type thread struct {
	id   reader.Thread
	sums *sums // sums of the thread, or Analysis.all
	// depth is the depth of the call that ended last.
	depth uint32
	// inside are sums of calls inside of open calls whose values are unknown yet, the outermost first. Their
	// paths begin there.
	inside []map[calls.PathID]*waiting
}

// sums holds the totals of paths in pages. A page is allocated when one of its paths occurs. Each
// thread takes other paths, and related paths have numbers close to each other.
type sums struct {
	pages []*page
	// open are the calls that have not ended. They are few.
	open map[calls.PathID]amounts
	// off is the off-CPU part of the self time, by path. It has only paths with such time.
	off map[calls.PathID]calls.Off
	// spread are the durations of finished calls, by path. It has only paths whose calls the recorder
	// summed up.
	spread map[calls.PathID]*quantile.Sample

	paged  int64 // bytes of the pages
	memory int64 // bytes of the sums that Analysis.memory includes
}

// Memory implements [calls.MemoryUser]. It does not include the sums of all threads together.
func (a *Analysis) Memory() int64 {
	if a.divider != nil {
		const perPath, perJoined, perWaiting = 24, 64, 192
		return a.memory + perPath*int64(len(a.divider.paths)) + perJoined*int64(len(a.divider.joined)) + perWaiting*a.divider.waiting
	}
	return a.memory
}

// measure updates the size of the sums of a thread.
func (a *Analysis) measure(s *sums) {
	if s == a.all {
		return
	}
	const perThread, perEntry, perSpread = 256, 96, 768
	memory := perThread + s.paged + 8*int64(cap(s.pages)) + perEntry*int64(len(s.open)+len(s.off)) + perSpread*int64(len(s.spread))
	a.memory += memory - s.memory
	s.memory = memory
}

const (
	pageBits = 5
	pageMask = 1<<pageBits - 1
)

type page [1 << pageBits]total

// total is the sum over finished calls of a path. Sums of ticks saturate at the largest
// number.
type total struct {
	amounts
	leaves    uint64 // calls that made no calls
	leafTicks uint64 // their durations
}

type amounts struct{ count, total, self uint64 }

var _ calls.Analysis[*Analysis] = (*Analysis)(nil)

// ErrNoPaths means that calls have no paths because calls.Options.Paths is off.
var ErrNoPaths = errors.New("stacks need call paths, and the batch has none")

// New returns an empty analysis, which needs calls.Options.Paths.
func New(opts Options) *Analysis {
	a := &Analysis{opts: opts}
	if !opts.PerThread {
		a.all = &sums{}
	}
	if opts.Wakers != nil {
		a.wakers = sched.NewCollector(opts.Wakers)
	}
	if opts.Divide != nil {
		a.divider = &divider{Divide: *opts.Divide, joined: make(map[[2]calls.PathID]calls.PathID)}
		a.paths = calls.NewPaths()
	}
	return a
}

// Calls adds a batch. All batches must have the same Paths. It returns [ErrNoPaths] if a batch has
// none, and another error if they differ.
func (a *Analysis) Calls(b *calls.Batch) error {
	switch {
	case b.Paths == nil:
		return ErrNoPaths
	case a.divider != nil:
		a.divider.from = b.Paths
		a.divided(b)
		return nil
	case a.paths == nil:
		a.paths = b.Paths
	case a.paths != b.Paths:
		return errors.New("batches of one analysis have different path trees")
	}
	if a.wakers != nil {
		if err := a.wakers.Calls(b); err != nil {
			return err
		}
	}
	if len(b.Calls) == 0 {
		return nil
	}
	th := a.thread(b)
	depth, s := th.depth, th.sums
	for i := range b.Calls {
		c := &b.Calls[i]
		// Calls arrive as they end, so the children of a call come right before it. It has
		// children if the previous call was deeper.
		leaf := depth <= c.Depth
		depth = c.Depth
		if c.Partial() {
			s.addOpen(c.Path, amounts{1, c.Duration, c.Self})
			if c.Earlier {
				a.earlier++
			}
			continue
		}
		t := s.at(c.Path)
		t.count++
		t.total = addSaturating(t.total, c.Duration)
		t.self = addSaturating(t.self, c.Self)
		if leaf {
			t.leaves++
			t.leafTicks = addSaturating(t.leafTicks, c.Duration)
		}
	}
	th.depth = depth
	for i := range b.Waits {
		w := &b.Waits[i]
		s.addOff(b.Calls[w.Call].Path, w.Self)
	}
	a.measure(s)
	return nil
}

// Sums adds the calls of a thread that the recorder summed up. It never fails.
func (a *Analysis) Sums(s *calls.Sums) error {
	if a.paths == nil {
		a.paths = calls.NewPaths()
	}
	sums := a.thread(&calls.Batch{Thread: s.Thread, Index: s.Index}).sums
	for i, id := range s.PathsIn(a.paths) {
		p := &s.Paths[i]
		sums.addOff(id, p.SelfOff)
		if p.Open > 0 {
			sums.addOpen(id, amounts{p.Open, p.OpenTotal, p.OpenSelf})
		}
		if p.Count == 0 {
			continue
		}
		if p.Func != reader.Folded && p.Spread() > 0 {
			p.AddDurations(sums.durations(id))
		}
		t := sums.at(id)
		t.amounts.add(amounts{p.Count, p.Total, p.Self})
		if p.Leaf {
			t.leaves += p.Count
			t.leafTicks = addSaturating(t.leafTicks, p.Total)
		}
	}
	a.measure(sums)
	return nil
}

func (a *Analysis) thread(b *calls.Batch) *thread {
	if b.Index >= len(a.threads) {
		a.threads = append(a.threads, make([]*thread, b.Index+1-len(a.threads))...)
	}
	th := a.threads[b.Index]
	if th == nil {
		th = &thread{id: b.Thread, sums: a.all}
		if th.sums == nil {
			th.sums = &sums{}
		}
		a.threads[b.Index] = th
	}
	return th
}

// join moves blocked time to paths that continue with the waker.
func (a *Analysis) join() {
	if a.wakers == nil || a.paths == nil {
		return
	}
	for _, w := range a.wakers.Wakes() {
		if w.Path == 0 || w.By == sched.ByUnknown {
			continue
		}
		moved := calls.Off{Blocked: min(w.Ticks, a.all.off[w.Path].Blocked)}
		if moved.Blocked == 0 {
			continue
		}
		path := a.paths.Child(w.Path, map[sched.By]reader.FuncID{
			sched.ByThread: reader.WakerThread, sched.ByProcess: reader.WakerProcess, sched.ByInterrupt: reader.WakerInterrupt,
		}[w.By])
		for ; w.Waker != 0; w.Waker = a.paths.Parent(w.Waker) {
			path = a.paths.Child(path, a.paths.Func(w.Waker))
		}
		rest := a.all.off[w.Path]
		rest.Blocked -= moved.Blocked
		a.all.off[w.Path] = rest
		a.all.addOff(path, moved)
	}
}

// at returns the total of a path.
func (s *sums) at(id calls.PathID) *total {
	p := int(id >> pageBits)
	if p >= len(s.pages) || s.pages[p] == nil {
		s.addPage(p)
	}
	return &s.pages[p][id&pageMask]
}

func (s *sums) addPage(p int) {
	if p >= len(s.pages) {
		s.pages = slices.Grow(s.pages, p+1-len(s.pages))[:p+1]
	}
	s.pages[p] = new(page)
	s.paged += int64(unsafe.Sizeof(page{}))
}

func (s *sums) addOpen(id calls.PathID, a amounts) {
	if s.open == nil {
		s.open = make(map[calls.PathID]amounts)
	}
	a.add(s.open[id])
	s.open[id] = a
}

func (s *sums) addOff(id calls.PathID, off calls.Off) {
	if off == (calls.Off{}) {
		return
	}
	if s.off == nil {
		s.off = make(map[calls.PathID]calls.Off)
	}
	sum := s.off[id]
	sum.Add(off)
	s.off[id] = sum
}

// durations returns the durations of the calls of a path.
func (s *sums) durations(id calls.PathID) *quantile.Sample {
	if s.spread == nil {
		s.spread = make(map[calls.PathID]*quantile.Sample)
	}
	if s.spread[id] == nil {
		s.spread[id] = &quantile.Sample{}
	}
	return s.spread[id]
}

func (a *amounts) add(o amounts) {
	a.count += o.count
	a.total = addSaturating(a.total, o.total)
	a.self = addSaturating(a.self, o.self)
}

// Merge adds the threads of other, which must not be used afterwards.
func (a *Analysis) Merge(other *Analysis) {
	a.earlier += other.earlier
	if other.paths == nil {
		return
	}
	var ids []calls.PathID // from paths of other to those here; nil if they are the same
	if a.paths == nil {
		a.paths = other.paths
	} else {
		ids = a.paths.Remap(other.paths)
	}
	if other.all != nil {
		a.all.merge(other.all, ids)
	}
	if a.wakers != nil {
		a.wakers.Merge(other.wakers, ids)
	}
	for i, th := range other.threads {
		if th == nil {
			continue
		}
		if i >= len(a.threads) {
			a.threads = append(a.threads, make([]*thread, i+1-len(a.threads))...)
		}
		if other.all != nil {
			th.sums = a.all
		} else if ids != nil {
			moved := &sums{}
			moved.merge(th.sums, ids)
			th.sums = moved
		}
		a.threads[i] = th
	}
}

// merge adds the totals of other under their IDs here.
func (s *sums) merge(other *sums, ids []calls.PathID) {
	here := func(id calls.PathID) calls.PathID {
		if ids == nil {
			return id
		}
		return ids[id]
	}
	for p, page := range other.pages {
		if page == nil {
			continue
		}
		for i := range page {
			from := &page[i]
			if from.count == 0 {
				continue
			}
			to := s.at(here(calls.PathID(p<<pageBits | i)))
			to.amounts.add(from.amounts)
			to.leaves += from.leaves
			to.leafTicks = addSaturating(to.leafTicks, from.leafTicks)
		}
	}
	for id, open := range other.open {
		s.addOpen(here(id), open)
	}
	for id, off := range other.off {
		s.addOff(here(id), off)
	}
	for id, spread := range other.spread {
		s.durations(here(id)).Merge(spread)
	}
}

// addSaturating adds without wrapping around. Only damaged timestamps get that far: the
// largest number is centuries at any clock rate.
func addSaturating(a, b uint64) uint64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxUint64
}
