package diff

import (
	"errors"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// maxBlocks limits the blocks of a run.
const maxBlocks = 60

// Blocks divides the time of a run, in ticks. The zero value is one block.
type Blocks struct {
	From, Width uint64
	Count       int
}

// Cut divides a run from its first to its last tick into seconds, or into longer blocks if
// there would be too many. The remainder is part of the last one.
func Cut(first, last uint64, c reader.Clock) Blocks {
	if !c.Known() || last <= first {
		return Blocks{}
	}
	width := max(c.Frequency, (last-first)/maxBlocks+1)
	return Blocks{From: first, Width: width, Count: max(1, int((last-first)/width))}
}

func (b *Blocks) of(tsc uint64) int {
	if b.Count <= 1 || tsc < b.From {
		return 0
	}
	return int(min((tsc-b.From)/b.Width, uint64(b.Count-1)))
}

// Options select the calls of a run, and how they are added up.
type Options struct {
	// Root selects roots. nil compares all functions separately. It is called concurrently.
	Root func(reader.FuncID) bool
	// Thread, and From and To if it is not 0, select invocations of roots by thread and by
	// start, in ticks. Without roots, use calls.Options.Filter. Thread is called
	// concurrently. nil selects all threads.
	Thread   func(reader.Thread) bool
	From, To uint64
	// Blocks divides the time of the run. Each block has its own sums.
	Blocks Blocks
	// Values are arguments and results by which calls are compared, too. They need calls without
	// calls.Options.Alias. nil has none. With roots, these are all calls inside one that begin from From to To.
	Values *calls.Expressions
}

// Analysis adds up one run. It is a calls.Analysis. With roots, it needs
// calls.Options.Paths and no filter. Without roots, it needs calls.Options.Nested.
type Analysis struct {
	opts    Options
	tracker *invocation.Tracker // nil without roots
	// tree has the paths from roots on, or functions as paths of length 1.
	tree   *calls.Paths
	blocks []block
	// durations are those of invocations at index 0, or of functions by path.
	durations []quantile.Sample
	counted   int64 // bytes of the values that samples have counted
	summed    bool  // has sums of calls
}

// Memory implements [calls.MemoryUser]. Paths count, because there are sums of each for each block.
func (a *Analysis) Memory() int64 {
	const perSum, perPath, perSample = 48, 128, 500
	memory := a.counted + perPath*int64(a.tree.Len())
	if a.tracker == nil {
		memory += perSample * int64(len(a.durations))
	}
	for i := range a.blocks {
		memory += perSum * int64(len(a.blocks[i].sums))
		if v := a.blocks[i].values; v != nil {
			memory += v.Memory()
		}
	}
	return memory
}

// block is a block of time of a run.
type block struct {
	invocations uint64
	sums        []sum           // by path; may be shorter than the tree
	durations   quantile.Sample // of invocations, if there are several blocks
	values      *account.Values // nil without Options.Values
}

type sum struct {
	calls       uint64
	self, total quantile.Sum // total only without roots
}

// NewAnalysis returns an empty analysis.
func NewAnalysis(opts Options) *Analysis {
	a := &Analysis{opts: opts, blocks: make([]block, max(1, opts.Blocks.Count)), durations: make([]quantile.Sample, 1)}
	for i := range a.blocks {
		if opts.Values != nil {
			a.blocks[i].values = account.NewValues(opts.Values)
		}
	}
	if opts.Root == nil {
		a.tree = calls.NewPaths()
		return a
	}
	a.tracker = invocation.NewTracker(invocation.Options{
		Root: opts.Root, Thread: opts.Thread, From: opts.From, To: opts.To, Paths: true,
	}, a.see)
	a.tree = a.tracker.Tree
	return a
}

// Calls adds a batch.
func (a *Analysis) Calls(b *calls.Batch) error {
	if a.tracker != nil {
		err := a.tracker.Calls(b)
		a.valuesInside(b)
		return err
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		a.value(b, i)
		path := a.tree.Child(0, c.Func)
		s := a.blocks[a.opts.Blocks.of(c.Start)].at(path, a.tree)
		s.calls++
		s.self.Add(c.Self)
		if !c.Nested {
			s.total.Add(c.Duration)
		}
		if !c.Partial() {
			a.durations = grow(a.durations, a.tree.Len())
			d := &a.durations[path]
			d.Meter = &a.counted
			d.Add(c.Duration)
		}
	}
	return nil
}

// valuesInside adds the values of calls inside roots.
func (a *Analysis) valuesInside(b *calls.Batch) {
	if o := &a.opts; o.Values == nil || o.Thread != nil && !o.Thread(b.Thread) {
		return
	}
	for i := range b.Calls {
		if c := &b.Calls[i]; a.tracker.Of(c.Path) != 0 && c.Start >= a.opts.From && (a.opts.To == 0 || c.Start < a.opts.To) {
			a.value(b, i)
		}
	}
}

// value adds the values of a call.
func (a *Analysis) value(b *calls.Batch, i int) {
	if c := &b.Calls[i]; a.opts.Values.Describe(c.Func) {
		a.blocks[a.opts.Blocks.of(c.Start)].values.Call(b, i)
	}
}

// Sums adds the calls of a summary, in one block. It is an error if the recorder or the
// summary folded paths of roots.
func (a *Analysis) Sums(s *calls.Sums) error {
	a.summed = true
	if a.tracker != nil {
		return a.rootSums(s)
	}
	for p := range s.Functions() {
		if p.Count+p.Open == 0 {
			continue
		}
		path := a.tree.Child(0, p.Func)
		a.blocks[0].at(path, a.tree).addSum(p)
		a.durations = grow(a.durations, a.tree.Len())
		p.AddDurations(&a.durations[path])
	}
	return nil
}

// rootSums adds the paths below outermost calls of roots.
func (a *Analysis) rootSums(s *calls.Sums) error {
	for i := range s.Folds {
		if p := &s.Folds[i]; p.Count > 0 && a.opts.Root(p.Func) {
			return errFoldedRoot
		}
	}
	b := &a.blocks[0]
	ids := make([]calls.PathID, len(s.Paths)) // 0 for paths outside of roots
	for i := range s.Paths {
		p := &s.Paths[i]
		parent := calls.PathID(0)
		if p.Parent >= 0 {
			parent = ids[p.Parent]
		}
		if parent == 0 && (p.Func == reader.Folded || !a.opts.Root(p.Func)) {
			continue
		}
		ids[i] = a.tree.Child(parent, p.Func)
		b.at(ids[i], a.tree).addSum(p)
		if parent == 0 {
			b.invocations += p.Count
			p.AddDurations(&a.durations[0])
		}
	}
	return nil
}

var errFoldedRoot = errors.New("calls of the root have no call paths of their own, because there were too many: " +
	"summarize the traces again with a larger --path-memory")

func (s *sum) addSum(p *calls.Sum) {
	s.calls += p.Count + p.Open
	s.self.Add(p.Self)
	s.self.Add(p.OpenSelf)
	s.total.Add(p.Total - min(p.Nested, p.Total))
	s.total.Add(p.OpenTotal - min(p.OpenNested, p.OpenTotal))
}

// see adds an invocation.
func (a *Analysis) see(v *invocation.Invocation, chosen bool) {
	if !chosen {
		return
	}
	b := &a.blocks[a.opts.Blocks.of(v.Start)]
	b.invocations++
	for i := range v.Paths {
		s := b.at(v.Paths[i].ID, a.tree)
		s.calls += v.Paths[i].Calls
		s.self.Add(v.Paths[i].Self)
	}
	a.durations[0].Add(v.Duration)
	if len(a.blocks) > 1 {
		b.durations.Add(v.Duration)
	}
}

// at returns the sum of a path. It is valid until the tree grows.
func (b *block) at(path calls.PathID, tree *calls.Paths) *sum {
	b.sums = grow(b.sums, tree.Len())
	return &b.sums[path]
}

// Merge implements calls.Analysis.
func (a *Analysis) Merge(o *Analysis) {
	a.summed = a.summed || o.summed
	ids := a.tree.Remap(o.tree)
	for i := range o.blocks {
		b := &a.blocks[i]
		b.invocations += o.blocks[i].invocations
		b.durations.Merge(&o.blocks[i].durations)
		if b.values != nil {
			b.values.Merge(o.blocks[i].values)
		}
		for path := range o.blocks[i].sums {
			from, to := &o.blocks[i].sums[path], b.at(ids[path], a.tree)
			to.calls += from.calls
			to.self.AddSum(from.self)
			to.total.AddSum(from.total)
		}
	}
	a.durations = grow(a.durations, a.tree.Len())
	for path := range o.durations {
		a.durations[ids[path]].Merge(&o.durations[path])
	}
}

// grow lengthens s to at least n elements.
func grow[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}

var (
	_ calls.Analysis[*Analysis] = (*Analysis)(nil)
	_ calls.SumSink             = (*Analysis)(nil)
)
