package convert

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"unsafe"

	"github.com/google/pprof/profile"
	"github.com/klauspost/compress/gzip"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Pprof makes a profile for pprof: for every call path, the number of calls and their self
// time. So pprof's flat values are self values, and its cumulative values are total values.
// With Options.OffCPU, it also shows the parts of self time on CPU, blocked, and in the run
// queue. Calls without an exit record have the duration that package calls gives them.
//
// It is a [calls.Analysis] and needs calls.Options.Paths. Memory grows with the number of
// call paths or, with Options.Threads, with the call paths of each thread.
//
// The output does not depend on the number of shards.
type Pprof struct {
	opts    Options
	paths   *calls.Paths
	threads perThread[pprofThread] // only one without Options.Threads
	first   uint64                 // TSC of the earliest entry; initially math.MaxUint64
	last    uint64                 // TSC of the latest exit
	depths  []uint16               // of paths, at most maxFrames
	memory  int64
}

// PprofPathBytes is the memory that encoding takes for a path of usual depth, beside the tree of paths.
const PprofPathBytes = 768

// Memory implements [calls.MemoryUser]. It includes what encoding takes for samples: without Options.Threads only
// beyond PprofPathBytes, which the budget of paths must allow for, and otherwise all of it.
func (p *Pprof) Memory() int64 { return p.memory }

// measure updates the memory that the sums of a thread hold.
func (p *Pprof) measure(t *pprofThread) {
	if !p.opts.Threads {
		return
	}
	const perThread, perEntry = 1024, 192
	memory := perThread + t.paged + 8*int64(cap(t.pages)) + perEntry*int64(len(t.off))
	p.memory += memory - t.memory
	t.memory = memory
}

// hold adds the memory that encoding takes for a new sample. The constants were measured.
func (p *Pprof) hold(path calls.PathID) {
	if p.depths == nil {
		p.depths = []uint16{0}
	}
	for id := calls.PathID(len(p.depths)); id <= path; id++ {
		p.depths = append(p.depths, min(p.depths[p.paths.Parent(id)]+1, maxFrames))
	}
	const perSample, perFrame, labels = 300, 22, 160
	encoded := perSample + perFrame*int64(p.depths[path])
	if p.opts.Threads {
		p.memory += encoded + labels
	} else {
		p.memory += max(0, encoded-PprofPathBytes)
	}
}

// pprofThread has the sums over the calls of one thread, or of all threads.
type pprofThread struct {
	thread reader.Thread
	pages  []*tallyPage // by PathID / pageLen; nil if there was no call
	// off has the off-CPU part of self times, for paths that have any.
	off map[calls.PathID]calls.Off

	paged  int64 // bytes of the pages
	memory int64 // the thread's part of Pprof.memory
}

// tallyPage has the tallies of paths with adjacent IDs. A thread that uses few paths of a shared
// tree has only the pages of these paths.
type tallyPage [pageLen]tally

const pageLen = 64

type tally struct{ calls, selfTSC uint64 }

// NewPprof returns an empty profile.
func NewPprof(opts Options) *Pprof { return &Pprof{opts: opts, first: math.MaxUint64} }

// Calls implements [calls.Sink].
func (p *Pprof) Calls(b *calls.Batch) error {
	if len(b.Calls) == 0 {
		return nil
	}
	if b.Paths == nil {
		return errors.New("a profile needs call paths: set calls.Options.Paths")
	}
	p.paths = b.Paths
	thread := p.thread(b.Index, b.Thread)
	for i := range b.Calls {
		c := &b.Calls[i]
		t := thread.tally(c.Path)
		if t.calls == 0 {
			p.hold(c.Path)
		}
		t.calls++
		t.selfTSC += c.Self
		// If a clock steps back, later calls may have smaller times.
		p.first, p.last = min(p.first, c.Start), max(p.last, c.Start+c.Duration)
	}
	for i := range b.Waits {
		w := &b.Waits[i]
		thread.addOff(b.Calls[w.Call].Path, w.Self)
	}
	p.measure(thread)
	return nil
}

func (t *pprofThread) addOff(path calls.PathID, off calls.Off) {
	if off == (calls.Off{}) {
		return
	}
	if t.off == nil {
		t.off = make(map[calls.PathID]calls.Off)
	}
	sum := t.off[path]
	sum.Add(off)
	t.off[path] = sum
}

// Sums implements [calls.SumSink].
func (p *Pprof) Sums(s *calls.Sums) error {
	if p.paths == nil {
		p.paths = calls.NewPaths()
	}
	thread := p.thread(s.Index, s.Thread)
	for i, id := range s.PathsIn(p.paths) {
		path := &s.Paths[i]
		if n := path.Count + path.Open; n > 0 {
			t := thread.tally(id)
			if t.calls == 0 {
				p.hold(id)
			}
			t.calls += n
			t.selfTSC += path.Self + path.OpenSelf
			thread.addOff(id, path.SelfOff)
		}
	}
	p.first, p.last = min(p.first, s.First), max(p.last, s.Last)
	p.measure(thread)
	return nil
}

func (p *Pprof) thread(index int, t reader.Thread) *pprofThread {
	if !p.opts.Threads {
		index, t = 0, reader.Thread{}
	}
	own := p.threads.at(index)
	own.thread = t
	return own
}

func (t *pprofThread) tally(path calls.PathID) *tally {
	page, slot := path/pageLen, path%pageLen
	if int(page) >= len(t.pages) || t.pages[page] == nil {
		t.addPage(int(page))
	}
	return &t.pages[page][slot]
}

func (t *pprofThread) addPage(page int) {
	if missing := page + 1 - len(t.pages); missing > 0 {
		t.pages = append(t.pages, make([]*tallyPage, missing)...)
	}
	t.pages[page] = new(tallyPage)
	t.paged += int64(unsafe.Sizeof(tallyPage{}))
}

// Merge implements [calls.Analysis].
func (p *Pprof) Merge(other *Pprof) {
	p.first, p.last = min(p.first, other.first), max(p.last, other.last)
	if other.paths == nil {
		return
	}
	if p.paths == nil {
		p.paths, p.threads, p.depths, p.memory = other.paths, other.threads, other.depths, other.memory
		return
	}
	ids := p.paths.Remap(other.paths)
	for i := range other.threads {
		from := &other.threads[i]
		if from.pages == nil {
			continue
		}
		to := p.thread(i, from.thread)
		from.each(func(path calls.PathID, t tally) {
			sum := to.tally(ids[path])
			if sum.calls == 0 {
				p.hold(ids[path])
			}
			sum.calls += t.calls
			sum.selfTSC += t.selfTSC
		})
		for path, off := range from.off {
			to.addOff(ids[path], off)
		}
		p.measure(to)
	}
}

// each calls fn for all paths of the thread that were called, in order of their IDs.
func (t *pprofThread) each(fn func(calls.PathID, tally)) {
	for i, page := range t.pages {
		if page == nil {
			continue
		}
		for slot, sum := range page {
			if sum.calls != 0 {
				fn(calls.PathID(i*len(page)+slot), sum)
			}
		}
	}
}

// Write writes the profile, compressed with gzip. The Pprof is not changed.
func (p *Pprof) Write(w io.Writer) error {
	b := newPprofBuilder(&p.opts)
	if p.opts.Caveats != nil {
		for _, text := range p.opts.Caveats() {
			b.Comments = append(b.Comments, validText(text))
		}
	}
	self := &profile.ValueType{Type: "self", Unit: "nanoseconds"}
	if !b.clock.Known() {
		self.Unit = "ticks"
		b.Comments = append(b.Comments, "The trace does not state its clock frequency, so times are in ticks.")
	} else if p.last > p.first {
		b.DurationNanos = b.nanos(p.last - p.first)
	}
	b.SampleType = []*profile.ValueType{{Type: "calls", Unit: "count"}, self}
	b.DefaultSampleType = self.Type
	if p.opts.OffCPU != nil {
		for _, name := range []string{"cpu", "blocked", "queued"} {
			b.SampleType = append(b.SampleType, &profile.ValueType{Type: name, Unit: self.Unit})
		}
	}
	if p.paths != nil {
		paths, shortened := shorten(p.paths)
		if p.opts.Inlines {
			b.findFrames(paths)
		}
		b.add(paths, p.samples(shortened, depthFirst(paths)))
	}
	z := gzip.NewWriter(w)
	if err := b.WriteUncompressed(z); err != nil {
		return err
	}
	return z.Close()
}

// pprofSample is the tally of one path in one thread.
type pprofSample struct {
	path   calls.PathID
	thread reader.Thread
	tally
	off calls.Off
}

// samples returns the tallies of all paths, by the position of the path in order, and then by
// thread. shortened, if not nil, maps each path to another ID.
func (p *Pprof) samples(shortened []calls.PathID, order []uint32) []pprofSample {
	n := 0
	for i := range p.threads {
		p.threads[i].each(func(calls.PathID, tally) { n++ })
	}
	all := make([]pprofSample, 0, n)
	for i := range p.threads {
		t := &p.threads[i]
		t.each(func(path calls.PathID, sum tally) {
			off := t.off[path]
			if shortened != nil {
				path = shortened[path]
			}
			all = append(all, pprofSample{path, t.thread, sum, off})
		})
	}
	slices.SortFunc(all, func(a, b pprofSample) int {
		return cmp.Or(
			cmp.Compare(order[a.path], order[b.path]),
			cmp.Compare(a.thread.File, b.thread.File),
			cmp.Compare(a.thread.Process, b.thread.Process),
			cmp.Compare(a.thread.Thread, b.thread.Thread))
	})
	// shortened may map several paths to one.
	n = 0
	for _, s := range all {
		if n > 0 && all[n-1].path == s.path && all[n-1].thread == s.thread {
			all[n-1].calls += s.calls
			all[n-1].selfTSC += s.selfTSC
			all[n-1].off.Add(s.off)
			continue
		}
		all[n] = s
		n++
	}
	return all[:n]
}

// maxFrames is the maximum number of frames of a call path in a profile. A profile spells out every
// path, so a recursion a million calls deep would need 500 billion frames.
const maxFrames = 256

// shorten replaces each path of more than maxFrames by its outermost frames, a frame of function 0
// for the omitted ones, and the innermost frame. It returns the tree of the new paths, and the new
// ID of each path. If no path is too long, it returns long and nil.
func shorten(long *calls.Paths) (*calls.Paths, []calls.PathID) {
	depth := make([]uint32, long.Len())
	deepest := uint32(0)
	for id := calls.PathID(1); int(id) < long.Len(); id++ {
		depth[id] = depth[long.Parent(id)] + 1
		deepest = max(deepest, depth[id])
	}
	if deepest <= maxFrames {
		return long, nil
	}
	short := calls.NewPaths()
	ids := make([]calls.PathID, long.Len())
	gap := make([]calls.PathID, long.Len()) // the path to the frame of function 0, for paths that have one
	for id := calls.PathID(1); int(id) < long.Len(); id++ {
		parent := long.Parent(id)
		above := ids[parent]
		if depth[id] > maxFrames {
			if gap[id] = gap[parent]; gap[id] == 0 {
				gap[id] = short.Child(short.Parent(above), 0)
			}
			above = gap[id]
		}
		ids[id] = short.Child(above, long.Func(id))
	}
	return short, ids
}

// depthFirst returns the position of every path in a depth-first walk that visits callees
// in the order of their IDs. Unlike path IDs, it does not depend on the order of calls.
func depthFirst(paths *calls.Paths) []uint32 {
	children := make([]calls.PathID, paths.Len()-1)
	for i := range children {
		children[i] = calls.PathID(i + 1)
	}
	// Backwards, because the walk takes from the end of its stack.
	slices.SortFunc(children, func(a, b calls.PathID) int {
		return cmp.Or(cmp.Compare(paths.Parent(a), paths.Parent(b)), cmp.Compare(paths.Func(b), paths.Func(a)))
	})
	from := make([]uint32, paths.Len()+1) // children of path p are children[from[p]:from[p+1]]
	for _, c := range children {
		from[paths.Parent(c)+1]++
	}
	for i := 1; i < len(from); i++ {
		from[i] += from[i-1]
	}
	order := make([]uint32, paths.Len())
	place := uint32(0)
	for stack := []calls.PathID{0}; len(stack) > 0; place++ {
		path := stack[len(stack)-1]
		order[path] = place
		stack = append(stack[:len(stack)-1], children[from[path]:from[path+1]]...)
	}
	return order
}
