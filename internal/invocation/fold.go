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
}

// NewFolder returns a folder that knows no path. root says which functions are
// roots, and is called once for each function.
func NewFolder(root func(reader.FuncID) bool) *Folder {
	return &Folder{
		Tree: calls.NewPaths(), root: root, roots: make(map[reader.FuncID]bool), folded: make([]calls.PathID, 1),
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
		path := parent
		for path != 0 && f.Tree.Func(path) != fn {
			path = f.Tree.Parent(path)
		}
		if path == 0 {
			path = f.Tree.Child(parent, fn)
		}
		f.folded = append(f.folded, path)
	}
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
