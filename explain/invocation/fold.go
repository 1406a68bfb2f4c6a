package invocation

import (
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Folder maps the call paths of a shard to paths below the roots, with recursion folded.
// Memory grows with the number of distinct paths.
type Folder struct {
	// Tree holds the folded paths. The outermost functions are roots.
	Tree *calls.Paths

	root   func(reader.FuncID) bool
	roots  map[reader.FuncID]bool // results of root
	folded []calls.PathID         // by path; 0 outside of roots
	places []place                // by path in Tree
	latest map[reader.FuncID]calls.PathID
}

// place is the position of a path in Tree.
type place struct {
	depth uint32
	// jump is a path further out. Following jumps reaches any ancestor in a number of steps
	// that is logarithmic in the depth.
	jump calls.PathID
	// alike is the path added before this one that ends with the same function; 0 if there
	// is none.
	alike calls.PathID
}

// NewFolder returns a Folder without paths. root reports whether a function is a root. It
// is called once for each function.
func NewFolder(root func(reader.FuncID) bool) *Folder {
	return &Folder{
		Tree: calls.NewPaths(), root: root, roots: make(map[reader.FuncID]bool), folded: make([]calls.PathID, 1),
		places: make([]place, 1), latest: make(map[reader.FuncID]calls.PathID),
	}
}

// Fold adds the paths that are new. Every call must pass the same Paths.
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

// find returns the prefix of a path that ends with a function, or 0 if the function is not
// on the path. It alternates between the functions of the path and the paths of the
// function. There can be many of either, but not of both, because a folded path contains
// each function at most once.
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

// within reports whether part is path or a prefix of it.
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

// child returns a path of Tree. It adds the path if it is new.
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

// Of returns the folded path of a path that Fold has added; 0 outside of roots.
func (f *Folder) Of(id calls.PathID) calls.PathID { return f.folded[id] }

func (f *Folder) isRoot(fn reader.FuncID) bool {
	is, ok := f.roots[fn]
	if !ok {
		is = f.root(fn)
		f.roots[fn] = is
	}
	return is
}
