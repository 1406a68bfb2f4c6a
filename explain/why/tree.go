package why

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// node is a folded call path below the root; 0 is the root itself. Parents have
// smaller numbers than their children.
type node = int32

// step is the last part of a folded path.
type step struct {
	parent node // -1 for the root
	fn     reader.FuncID
	lock   uint64 // address; 0 if the function is not a lock with addresses
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

// longestPath is the maximum number of functions of a path in reports. In a recursion of
// many functions, the size of all paths together grows with the square of the depth.
const longestPath = 256

// functions returns the functions of a path, from the root. A long path is shortened to the
// root, reader.Folded, and the innermost functions.
func (t *tree) functions(n node) []reader.FuncID {
	var path []reader.FuncID
	for ; n >= 0; n = t.steps[n].parent {
		if len(path) == longestPath-2 && n > 0 && t.steps[n].parent > 0 {
			path = append(path, reader.Folded, t.steps[0].fn)
			break
		}
		path = append(path, t.steps[n].fn)
	}
	slices.Reverse(path)
	return path
}

// children returns the children of each node, in order.
func (t *tree) children() [][]node {
	c := make([][]node, len(t.steps))
	for n := 1; n < len(t.steps); n++ {
		p := t.steps[n].parent
		c[p] = append(c[p], node(n))
	}
	return c
}

// remap adds the paths of other, and returns their numbers in t.
func (t *tree) remap(other *tree) []node {
	to := make([]node, len(other.steps))
	for n := 1; n < len(to); n++ {
		s := other.steps[n]
		to[n] = t.child(to[s.parent], s.fn, s.lock)
	}
	return to
}

// sorted returns the same tree numbered by function, which does not depend on the order in
// which paths occurred.
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

// place is the position of a call path relative to the root.
type place struct {
	node node
	kind placeKind
}

type placeKind uint8

const (
	outside    placeKind = iota // not below the root
	top                         // an outermost call of the root
	below                       // below the root
	deep                        // below a path of the maximum depth, which includes its time
	insideLock                  // below a lock function whose calls are its own time
)

// counts reports whether calls at a place have paths.
func (k placeKind) counts() bool { return k == top || k == below || k == deep }

// places finds the places of the call paths of a shard.
type places struct {
	*invocation.Folder
	tree  *tree
	locks map[reader.FuncID]bool // lock functions with addresses
	depth int                    // of the paths below the root; 0 for no limit
	nodes []node                 // by folded path; 0 if unknown so far
	level []int                  // by node
	list  []place                // by PathID
}

func newPlaces(p *plan) *places {
	return &places{
		Folder: invocation.NewFolder(p.root), tree: newTree(p.rootFunc), locks: p.locks, depth: p.depth,
		level: []int{0}, list: []place{{}},
	}
}

// find examines new paths.
func (f *places) find(paths *calls.Paths) {
	f.Fold(paths)
	f.nodes = grow(f.nodes, f.Tree.Len())
	for id := calls.PathID(len(f.list)); int(id) < paths.Len(); id++ {
		f.list = append(f.list, f.place(paths, id))
	}
}

func (f *places) place(paths *calls.Paths, id calls.PathID) place {
	folded, caller := f.Of(id), paths.Parent(id)
	parent := f.list[caller]
	switch {
	case folded == 0:
		return place{}
	case parent.kind == outside:
		return place{0, top}
	case parent.kind == insideLock, parent.kind == below && f.locks[paths.Func(caller)]:
		return place{parent.node, insideLock}
	}
	return f.below(folded)
}

// below returns the place of a folded path below the root.
func (f *places) below(path calls.PathID) place {
	over := f.Tree.Parent(path)
	if over == 0 {
		return place{0, below}
	}
	if n := f.nodes[path]; n != 0 {
		return place{n, below}
	}
	parent := f.below(over)
	if parent.kind == deep || f.depth > 0 && f.level[parent.node] == f.depth {
		return place{parent.node, deep}
	}
	n := f.tree.child(parent.node, f.Tree.Func(path), 0)
	f.nodes[path] = n
	f.level = grow(f.level, int(n)+1)
	f.level[n] = f.level[parent.node] + 1
	return place{n, below}
}

// grow lengthens s to at least n elements.
func grow[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}
