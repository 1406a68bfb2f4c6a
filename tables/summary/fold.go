package summary

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// A key may have more call paths than there is room for. Then its sources are read twice
// more: once to weigh the paths, and once to add them up with only the heaviest. The calls of
// all others count in a path of foldedName below their closest caller that was kept, and by
// caller and function.

// candidates is the ratio of weighed paths to kept paths. A weighed path takes a fraction of the
// memory of a kept one.
const candidates = 3

// maxPairs returns the limit of pairs of caller and function of folded calls for a limit of paths.
// A pair takes as much memory as a path.
func maxPairs(limit int) int { return max(limit, 1<<16) }

// ownPaths is the number of paths without those below foldsName.
func (g *Group) ownPaths() int {
	n := 0
	for _, below := range g.belowFolds()[1:] {
		if !below {
			n++
		}
	}
	return n
}

// belowFolds returns for each path whether it is foldsName or below.
func (t *tree) belowFolds() []bool {
	below := make([]bool, t.paths.Len())
	for path := calls.PathID(1); int(path) < len(below); path++ {
		parent := t.paths.Parent(path)
		below[path] = below[parent] || parent == 0 && t.name(path).Name == foldsName
	}
	return below
}

// weighing has the weights of paths: self times, and one for each call.
type weighing struct {
	tree
	weights []uint64 // by path; the weight of a folded path is that of the calls folded into it
	// pruned says that paths have been dropped, so that the tree may lack callees of a path.
	pruned bool
}

// foldKey merges groups with the same key to one that has at most limit paths, besides those below
// foldsName. each calls its argument with each group, in any order.
//
// What is kept does not depend on the order while all groups together have at most candidates times
// as many paths. If they have more, the groups are weighed in the order of a hash of their
// contents.
//
// Folded calls count by function alone if callerless is set, or if they have too many callers.
func foldKey(key Key, limit int, callerless bool, each func(order []int, fn func(*Group)) error) (*Group, error) {
	w := weighing{tree: newTree()}
	var order []int
	var hashes []uint64
	weigh := func(g *Group) {
		hashes = append(hashes, w.add(g))
		if w.paths.Len() > candidates*limit {
			w = w.heaviest(candidates * limit / 2)
			w.pruned = true
		}
	}
	err := each(nil, weigh)
	if err == nil && w.pruned {
		order = byHash(hashes)
		w = weighing{tree: newTree()}
		err = each(order, weigh)
	}
	if err != nil {
		return nil, err
	}
	f := newFolder(key, w.heaviest(limit))
	f.pairs, f.callerless = maxPairs(limit), callerless
	w = weighing{}
	if err := each(order, f.add); err != nil {
		return nil, err
	}
	return f.group(), nil
}

func byHash(hashes []uint64) []int {
	order := make([]int, len(hashes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(hashes[a], hashes[b]) })
	return order
}

// mapping finds the functions of a group in a tree.
type mapping struct {
	from *tree
	to   *tree
	ids  []reader.FuncID
}

func newMapping(from, to *tree) mapping {
	return mapping{from, to, make([]reader.FuncID, len(from.functions))}
}

func (m *mapping) function(path calls.PathID) reader.FuncID {
	fn := m.from.paths.Func(path)
	if fn == reader.Folded {
		return fn
	}
	if m.ids[fn] == 0 {
		m.ids[fn] = m.to.function(m.from.functions[fn])
	}
	return m.ids[fn]
}

// add adds the weights of a group, and returns a hash of its paths and weights.
func (w *weighing) add(g *Group) (hash uint64) {
	below, functions := g.belowFolds(), newMapping(&g.tree, &w.tree)
	ids := make([]calls.PathID, len(below))
	h := fnv.New64a()
	err := g.walk(func(path calls.PathID, depth int) error {
		if below[path] {
			return nil
		}
		s := &g.sums[path]
		weight := addSaturating(addSaturating(s.Self, s.OpenSelf), addSaturating(s.Calls, s.Open))
		weight = addSaturating(weight, addSaturating(s.Folded, s.FoldedSelf))
		id := ids[g.paths.Parent(path)]
		if id == 0 || w.paths.Func(id) != reader.Folded {
			id = w.paths.Child(id, functions.function(path))
		}
		w.grow()
		ids[path] = id
		w.weights[id] = addSaturating(w.weights[id], weight)
		var number [16]byte
		binary.LittleEndian.PutUint64(number[:], uint64(depth))
		binary.LittleEndian.PutUint64(number[8:], weight)
		_, _ = h.Write(number[:])
		_, _ = h.Write([]byte(g.name(path).Name))
		return nil
	})
	if err != nil {
		panic(err) // the function above returns none
	}
	return h.Sum64()
}

func (w *weighing) grow() {
	for len(w.weights) < w.paths.Len() {
		w.weights = append(w.weights, 0)
	}
}

// heaviest returns the heaviest subtrees with at most n paths. The others are folded.
func (w *weighing) heaviest(n int) weighing {
	w.grow()
	whole := slices.Clone(w.weights) // with the paths below
	for path := len(whole) - 1; path > 0; path-- {
		parent := w.paths.Parent(calls.PathID(path))
		whole[parent] = addSaturating(whole[parent], whole[path])
	}
	var order []calls.PathID // callers first, and those called by the same caller in order
	err := w.walk(func(path calls.PathID, _ int) error {
		if w.paths.Func(path) != reader.Folded {
			order = append(order, path)
		}
		return nil
	})
	if err != nil {
		panic(err) // the function above returns none
	}
	place := make([]uint32, len(whole)) // by path: rank by weight
	heavy := slices.Clone(order)
	slices.SortStableFunc(heavy, func(a, b calls.PathID) int { return cmp.Compare(whole[b], whole[a]) })
	for i := range place {
		place[i] = uint32(len(place)) // folded
	}
	for i, path := range heavy {
		place[path] = uint32(i)
	}
	// Find how many paths fit together with the folded paths that stand for the others.
	few, many := 0, min(n, len(heavy))
	for few < many {
		if k := (few + many + 1) / 2; k+w.foldsOf(place, k) <= n {
			few = k
		} else {
			many = k - 1
		}
	}
	to := weighing{tree: newTree()}
	functions := newMapping(&w.tree, &to.tree)
	ids := make([]calls.PathID, len(whole))
	for path := calls.PathID(1); int(path) < len(ids); path++ {
		id := ids[w.paths.Parent(path)]
		switch {
		case id != 0 && to.paths.Func(id) == reader.Folded:
		case int(place[path]) < few:
			id = to.paths.Child(id, functions.function(path))
		default:
			id = to.paths.Child(id, reader.Folded)
		}
		ids[path] = id
		to.grow()
		to.weights[id] = addSaturating(to.weights[id], w.weights[path])
	}
	return to
}

// foldsOf returns the number of folded paths that are needed if only the first k are kept.
func (w *weighing) foldsOf(place []uint32, k int) int {
	if w.pruned {
		return k + 1
	}
	has := make([]bool, len(place))
	n := 0
	for path := 1; path < len(place); path++ {
		parent := w.paths.Parent(calls.PathID(path))
		if int(place[path]) >= k && (parent == 0 || int(place[parent]) < k) && !has[parent] {
			has[parent] = true
			n++
		}
	}
	return n
}

// folder adds up groups with only the paths that are kept.
type folder struct {
	kept *Group
	// folds has the paths below foldsName.
	folds *Group
	// unknown says that the off-CPU times of some calls are unknown.
	unknown bool
	// pairs is the limit of pairs of caller and function. callerless says that it was exceeded.
	pairs      int
	callerless bool
}

func newFolder(key Key, w weighing) *folder {
	f := &folder{kept: NewGroup(key), folds: NewGroup(key)}
	f.kept.tree = w.tree
	f.kept.paths.Freeze()
	f.kept.grow()
	return f
}

// add adds a group.
func (f *folder) add(g *Group) {
	below := g.belowFolds()
	kept, folds := newMapping(&g.tree, &f.kept.tree), newMapping(&g.tree, &f.folds.tree)
	ids := make([]calls.PathID, len(below))
	for path := calls.PathID(1); int(path) < len(ids); path++ {
		s, parent := &g.sums[path], g.paths.Parent(path)
		f.unknown = f.unknown || !s.OffKnown
		if below[path] {
			ids[path] = f.folds.child(ids[parent], 0, folds.function(path))
			f.folds.addPath(ids[path], s, g, path)
			continue
		}
		id := f.kept.child(ids[parent], 0, kept.function(path))
		ids[path] = id
		if f.kept.paths.Func(id) != reader.Folded || g.paths.Func(path) == reader.Folded {
			f.kept.addPath(id, s, g, path)
			continue
		}
		known := Sums{commonSums: commonSums{OffKnown: s.OffKnown}}
		folded := known
		folded.Folded, folded.FoldedSelf = addSaturating(s.Calls, s.Open), addSaturating(s.Self, s.OpenSelf)
		f.kept.sums[id].add(&folded)
		if *s != known {
			f.folds.addPath(f.folds.foldsPath(g.name(parent), g.name(path)), s, g, path)
		}
	}
	f.folds = f.folds.dropCallers(f.pairs, f.callerless)
	f.callerless = f.callerless || f.folds.Callerless
}

// addPath adds the values of a path of another group.
func (g *Group) addPath(to calls.PathID, s *Sums, o *Group, from calls.PathID) {
	g.sums[to].add(s)
	g.bins.addAll(int(to), &o.bins, int(from))
	g.coarse.addAll(int(to), &o.coarse, int(from))
}

// group returns the sum.
func (f *folder) group() *Group {
	g := f.folds
	g.Callerless = f.callerless
	g.Add(f.kept)
	for i := range g.sums { // also of paths that are only callers
		g.sums[i].OffKnown = g.sums[i].OffKnown || !f.unknown
	}
	g.Folded = true
	return g
}
