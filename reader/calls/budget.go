package calls

import (
	"errors"
	"math"
	"math/bits"
	"runtime/debug"

	"github.com/xray-tools/xray/reader"
)

// PathBudget limits the tree of call paths of a [Run]. If the trace has more paths, the
// lightest subtrees are folded: all calls in them get the path of one node below their
// caller's, whose function is [reader.Folded]. No call is lost, so sums over the tree stay
// exact. The weight of a subtree is the sum of its self times.
//
// Which paths are folded depends only on the trace and the options of the run. A budget is for
// runs over the same calls: it remembers what was folded, so that later runs fold the same paths.
// It must not be used concurrently.
type PathBudget struct {
	max  int
	kept *Paths // nil unless paths are folded
}

// NewPathBudget returns a budget for a number of paths, at least 16.
func NewPathBudget(paths int) *PathBudget { return &PathBudget{max: max(paths, 16)} }

// RootsOnly returns a budget for one path of each of Options.Roots, and one for all calls
// below it.
func RootsOnly() *PathBudget {
	return &PathBudget{max: math.MaxInt, kept: NewPaths().Freeze()}
}

// Folded reports whether paths were folded.
func (b *PathBudget) Folded() bool { return b.kept != nil }

// candidates is the ratio of paths that are weighed to paths that are kept. A weighed path
// takes a fraction of the memory that an analysis needs for a path.
const candidates = 3

var errPathBudget = errors.New("more call paths than the budget allows")

// Discard is an analysis that ignores all calls.
type Discard struct{}

// Calls implements [Sink].
func (Discard) Calls(*Batch) error { return nil }

// Merge implements [Analysis].
func (Discard) Merge(Discard) {}

// NewDiscard returns a Discard.
func NewDiscard() Discard { return Discard{} }

// choosePaths finds the heaviest paths, in a pass on one goroutine: which paths are weighed and
// dropped depends on the order in which they occur.
func choosePaths(src Source, opts Options, most int) (*Paths, error) {
	if a, ok := src.(abreast); ok {
		src = a.trace
	}
	opts.Shards, opts.Opens, opts.Unmatched, opts.Budget = 1, false, nil, nil
	limit := candidates * most
	c := &pathChooser{weights: make([]uint64, limit+limit/64)}
	open := &limits{memory: share{most: opts.Memory}} // of stacks
	s := newShard(&opts, open, c)
	s.paths.reserve(limit + limit/64)
	err := each(src)(1, func(_ int, b *reader.Block) error {
		if err := s.block(b); err != nil {
			return err
		}
		if s.paths.Len() > limit {
			c.prune(s, limit/2)
		}
		return open.check(s)
	})
	if err == nil {
		err = s.finish()
	}
	if err != nil {
		return nil, err
	}
	if s.paths.Len() > most {
		c.prune(s, most)
	}
	s.paths.reserve(s.paths.Len())
	return s.paths.Freeze(), nil
}

// pathChooser weighs paths.
type pathChooser struct {
	weights []uint64 // by path: self times, and one tick for each call
	// scratch memory of prune
	inclusive []uint64
	ids       []PathID
}

func (c *pathChooser) Calls(b *Batch) error {
	c.weights = growTo(c.weights, b.Paths.Len())
	for i := range b.Calls {
		call := &b.Calls[i]
		w := &c.weights[call.Path]
		*w = addSaturating(*w, addSaturating(call.Self, 1))
	}
	return nil
}

func growTo(s []uint64, n int) []uint64 {
	if n <= len(s) {
		return s
	}
	return append(s, make([]uint64, n-len(s)+n/4)...)
}

// prune folds the lightest subtrees of a shard until the tree has at most this number of
// nodes. Paths of open calls stay.
func (c *pathChooser) prune(s *shard, most int) {
	p := s.paths
	c.weights = growTo(c.weights, p.Len())
	heavy := c.heavy(s)
	// Each kept path may have a node for what is folded below it.
	bar, ties := weightBar(heavy[1:], most/2)
	nodes := p.nodes
	c.ids = append(c.ids[:0], make([]PathID, len(nodes))...)
	ids := c.ids
	next := PathID(1)
	add := func(parent PathID, fn reader.FuncID, weight uint64) PathID {
		// New IDs are not larger than old ones, so only nodes that were read are
		// overwritten.
		nodes[next], c.weights[next] = pathNode{parent: parent, fn: fn}, weight
		next++
		return next - 1
	}
	nodes[0] = pathNode{}
	for i := 1; i < len(nodes); i++ {
		node, weight := nodes[i], c.weights[i]
		parent := ids[node.parent]
		keep := false
		if node.fn != reader.Folded && nodes[parent].fn != reader.Folded {
			switch w := weightClass(heavy[i]); {
			case w > bar, heavy[i] == math.MaxUint64:
				keep = true
			case w == bar && ties > 0:
				// Parents have smaller IDs, so they come before their children.
				ties--
				keep = true
			}
		}
		// While IDs change, first is the node of the folded calls.
		fold := nodes[parent].first
		switch {
		case keep:
			ids[i] = add(parent, node.fn, weight)
			continue
		case nodes[parent].fn == reader.Folded:
			fold = parent
		case fold == 0:
			fold = add(parent, reader.Folded, 0)
			nodes[parent].first = fold
		}
		ids[i] = fold
		c.weights[fold] = addSaturating(c.weights[fold], weight)
	}
	for i := range nodes[:next] {
		nodes[i].first = 0
	}
	p.nodes = nodes[:next]
	clear(c.weights[next:])
	p.rebuild()
	s.eachFrame(func(f *frame) {
		if f.path != 0 || s.opts.RootDepth <= 1 { // otherwise, child is a count
			f.path, f.child = ids[f.path], 0
		}
	})
}

// heavy returns the weight of each path, including the paths below it. Paths that must stay
// have the largest weight.
func (c *pathChooser) heavy(s *shard) []uint64 {
	nodes := s.paths.nodes
	c.inclusive = append(c.inclusive[:0], c.weights[:len(nodes)]...)
	heavy := c.inclusive
	for id := len(nodes) - 1; id > 0; id-- {
		parent := nodes[id].parent
		heavy[parent] = addSaturating(heavy[parent], heavy[id])
		if parent == 0 && s.paths.roots != nil {
			heavy[id] = math.MaxUint64
		}
	}
	s.eachFrame(func(f *frame) {
		for id := f.path; id != 0 && heavy[id] != math.MaxUint64; id = nodes[id].parent {
			heavy[id] = math.MaxUint64
		}
	})
	return heavy
}

// weightBar returns the weight class above which there are at most this number of paths,
// and how many of the class itself fit.
func weightBar(weights []uint64, most int) (bar uint32, ties int) {
	counts := make([]int, weightClass(math.MaxUint64)+1)
	for _, w := range weights {
		counts[weightClass(w)]++
	}
	for c := len(counts) - 1; c >= 0; c-- {
		if counts[c] > most {
			return uint32(c), most
		}
		most -= counts[c]
	}
	return 0, 0
}

// weightClass divides weights into classes that are at most a thousandth wide.
func weightClass(w uint64) uint32 {
	if w < 1024 {
		return uint32(w)
	}
	shift := bits.Len64(w) - 11
	return uint32(shift+1)<<10 | uint32(w>>shift)&1023
}

// eachFrame calls fn for the open calls of all threads, and the frame below them.
func (s *shard) eachFrame(fn func(*frame)) {
	for depth := 0; depth <= s.stack.depth; depth++ {
		fn(s.stack.at(depth))
	}
	for _, th := range s.threads {
		if th == nil || th == s.stack.thread {
			continue
		}
		for i := range th.frames {
			fn(&th.frames[i])
		}
		if th.rare != nil {
			for i := range th.rare.deep.frames {
				fn(&th.rare.deep.frames[i])
			}
		}
	}
}

// folded counts the calls of a batch that have a folded path.
func (s *shard) folded(b *Batch) {
	for i := range b.Calls {
		c := &b.Calls[i]
		if s.paths.nodes[c.Path].fn == reader.Folded {
			s.stats.Folded++
			s.stats.FoldedSelf = addSaturating(s.stats.FoldedSelf, c.Self)
		}
	}
}

// runBudget is Run with a budget.
func runBudget[S Analysis[S]](src Source, opts Options, newSink func() S) (S, *Stats, error) {
	b := opts.Budget
	if b.kept == nil {
		sink, stats, err := runLimited(src, opts, b.max, newSink)
		// The memory of a sink may depend on which paths are folded. So whether it takes too much
		// is known only after the paths to keep are chosen.
		if !errors.Is(err, errPathBudget) && !errors.As(err, new(*MemoryError)) {
			return sink, stats, err
		}
		opts.Unmatched = nil // the first pass reported all of them
		// What the pass has built is garbage, and would stay in memory beside the next pass
		// until the garbage collector runs.
		debug.FreeOSMemory()
		if b.kept, err = choosePaths(src, opts, b.max); err != nil {
			return newSink(), nil, err
		}
		debug.FreeOSMemory()
	}
	if b.kept.Len() > b.max/2/opts.Shards {
		opts.Shards = 1 // each shard would need a tree
	}
	return runLimited(src, opts, 0, newSink)
}
