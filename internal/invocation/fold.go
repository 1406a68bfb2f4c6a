package invocation

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Folder finds where the call paths of a shard are below the roots, with recursion
// folded. Memory grows with distinct paths.
type Folder struct {
	// Tree holds the folded paths; outermost are the roots.
	Tree *calls.Paths

	root   func(reader.FuncID) bool
	roots  map[reader.FuncID]bool // answers of root
	folded []calls.PathID         // by path; 0 outside of roots
	places []place                // by path in Tree
	latest map[reader.FuncID]calls.PathID
}

// place is where a path is in Tree.
type place struct {
	depth uint32
	// jump is a path further out. Jumps lead to any path further out in a number of steps
	// that grows with the logarithm of the depth.
	jump calls.PathID
	// alike is the path of the same function that was added before; 0 for none.
	alike calls.PathID
}

// NewFolder returns a folder that knows no path. root says which functions are
// roots, and is called once for each function.
func NewFolder(root func(reader.FuncID) bool) *Folder {
	return &Folder{
		Tree: calls.NewPaths(), root: root, roots: make(map[reader.FuncID]bool), folded: make([]calls.PathID, 1),
		places: make([]place, 1), latest: make(map[reader.FuncID]calls.PathID),
	}
}

// Fold takes those of the paths that are new. The paths must always be the same.
func (f *Folder) Fold(paths *calls.Paths) {
	for id := calls.PathID(len(f.folded)); int(id) < paths.Len(); id++ {
		fn := paths.Func(id)
		parent := f.folded[paths.Parent(id)]
		if parent == 0 && !f.isRoot(fn) {
			f.folded = append(f.folded, 0)
			continue
		}
		path := f.find(parent, fn)
		if path == 0 {
			path = f.child(parent, fn)
		}
		f.folded = append(f.folded, path)
	}
}

// find is the part of a path up to a function; 0 when that is not on it. It looks at the
// functions of the path and at the paths of the function by turns, as there may be
// many of either, but not of both: in all, paths are no longer than there are functions.
func (f *Folder) find(path calls.PathID, fn reader.FuncID) calls.PathID {
	alike := f.latest[fn]
	for at := path; at != 0 && alike != 0; at = f.Tree.Parent(at) {
		if f.Tree.Func(at) == fn {
			return at
		}
		if f.within(alike, path) {
			return alike
		}
		alike = f.places[alike].alike
	}
	return 0
}

// within reports whether a path is another one or a part of it from the outermost function.
func (f *Folder) within(part, path calls.PathID) bool {
	depth := f.places[part].depth
	for f.places[path].depth > depth {
		if jump := f.places[path].jump; f.places[jump].depth >= depth {
			path = jump
		} else {
			path = f.Tree.Parent(path)
		}
	}
	return path == part
}

// child is a path of Tree, which is added when it is new.
func (f *Folder) child(parent calls.PathID, fn reader.FuncID) calls.PathID {
	path := f.Tree.Child(parent, fn)
	if int(path) < len(f.places) {
		return path
	}
	p := place{depth: f.places[parent].depth + 1, jump: parent, alike: f.latest[fn]}
	if near := f.places[parent].jump; f.places[parent].depth-f.places[near].depth == f.places[near].depth-f.places[f.places[near].jump].depth {
		p.jump = f.places[near].jump
	}
	f.places = append(f.places, p)
	f.latest[fn] = path
	return path
}

// Of is the folded path of one that Fold took; 0 outside of roots.
func (f *Folder) Of(id calls.PathID) calls.PathID { return f.folded[id] }

func (f *Folder) isRoot(fn reader.FuncID) bool {
	is, ok := f.roots[fn]
	if !ok {
		is = f.root(fn)
		f.roots[fn] = is
	}
	return is
}
