package why

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// node is a folded call path below the root; 0 is the root itself. Parents have
// smaller numbers than their children.
type node = int32

// step is the end of a folded path.
type step struct {
	parent node // -1 of the root
	fn     reader.FuncID
	lock   uint64 // address; 0 for functions that are no locks with addresses
}

// tree holds folded paths.
type tree struct {
	steps []step
	index map[step]node
}

func newTree(root reader.FuncID) *tree {
	return &tree{steps: []step{{parent: -1, fn: root}}, index: make(map[step]node)}
}

func (t *tree) child(parent node, fn reader.FuncID, lock uint64) node {
	s := step{parent, fn, lock}
	n, ok := t.index[s]
	if !ok {
		n = node(len(t.steps))
		t.steps = append(t.steps, s)
		t.index[s] = n
	}
	return n
}

// functions are those of a path, from the root.
func (t *tree) functions(n node) []reader.FuncID {
	var path []reader.FuncID
	for ; n >= 0; n = t.steps[n].parent {
		path = append(path, t.steps[n].fn)
	}
	slices.Reverse(path)
	return path
}

// children are those of each node, in order.
func (t *tree) children() [][]node {
	c := make([][]node, len(t.steps))
	for n := 1; n < len(t.steps); n++ {
		p := t.steps[n].parent
		c[p] = append(c[p], node(n))
	}
	return c
}

// remap adds the paths of other, and returns their numbers here.
func (t *tree) remap(other *tree) []node {
	to := make([]node, len(other.steps))
	for n := 1; n < len(to); n++ {
		s := other.steps[n]
		to[n] = t.child(to[s.parent], s.fn, s.lock)
	}
	return to
}

// sorted is the same tree numbered by function, which does not depend on the order
// in which paths were met.
func (t *tree) sorted() *tree {
	children := t.children()
	s := newTree(t.steps[0].fn)
	var visit func(from, to node)
	visit = func(from, to node) {
		slices.SortFunc(children[from], func(a, b node) int {
			x, y := t.steps[a], t.steps[b]
			return cmp.Or(cmp.Compare(x.fn, y.fn), cmp.Compare(x.lock, y.lock))
		})
		for _, c := range children[from] {
			visit(c, s.child(to, t.steps[c].fn, t.steps[c].lock))
		}
	}
	visit(0, 0)
	return s
}

// place is where a call path is seen from the root.
type place struct {
	node node
	kind placeKind
}

type placeKind uint8

const (
	unknown    placeKind = iota // not looked at yet
	outside                     // not below the root
	top                         // an outermost call of the root
	below                       // below the root
	insideLock                  // below a lock function whose calls are its own time
)

// folder finds the places of the call paths of a shard.
type folder struct {
	tree   *tree
	isRoot map[reader.FuncID]bool
	locks  map[reader.FuncID]bool // lock functions with addresses
	root   func(reader.FuncID) bool
	places []place // by PathID
}

func newFolder(root func(reader.FuncID) bool, rootFunc reader.FuncID, locks map[reader.FuncID]bool) *folder {
	return &folder{tree: newTree(rootFunc), isRoot: make(map[reader.FuncID]bool), locks: locks, root: root,
		places: []place{{-1, outside}}}
}

// of is the place of a path.
func (f *folder) of(paths *calls.Paths, id calls.PathID) place {
	if int(id) >= len(f.places) {
		f.places = grow(f.places, paths.Len())
	}
	if p := f.places[id]; p.kind != unknown {
		return p
	}
	// Parents have smaller ids, so nothing here goes deeper than the path.
	missing := []calls.PathID{id}
	for p := paths.Parent(id); f.places[p].kind == unknown; p = paths.Parent(p) {
		missing = append(missing, p)
	}
	for _, m := range slices.Backward(missing) {
		f.places[m] = f.below(f.places[paths.Parent(m)], paths.Func(m))
	}
	return f.places[id]
}

// below is the place of a call of fn from a place.
func (f *folder) below(parent place, fn reader.FuncID) place {
	isRoot, known := f.isRoot[fn]
	if !known {
		isRoot = f.root(fn)
		f.isRoot[fn] = isRoot
	}
	switch {
	case parent.kind == outside && isRoot:
		return place{0, top}
	case parent.kind == outside:
		return parent
	case parent.kind == insideLock || f.locks[f.tree.steps[parent.node].fn] && parent.kind == below:
		return place{parent.node, insideLock}
	case isRoot:
		return place{0, below}
	}
	for n := parent.node; n > 0; n = f.tree.steps[n].parent {
		if f.tree.steps[n].fn == fn {
			return place{n, below}
		}
	}
	return place{f.tree.child(parent.node, fn, 0), below}
}
