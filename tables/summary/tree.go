package summary

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// tree has call paths and their functions.
type tree struct {
	functions []Function // by FuncID; 0 is none
	ids       map[Function]reader.FuncID
	paths     *calls.Paths
}

func newTree() tree {
	return tree{functions: make([]Function, 1), ids: make(map[Function]reader.FuncID), paths: calls.NewPaths()}
}

// function returns the ID of a function in this tree.
func (t *tree) function(f Function) reader.FuncID {
	id, ok := t.ids[f]
	if !ok {
		id = reader.FuncID(len(t.functions))
		t.functions = append(t.functions, f)
		t.ids[f] = id
	}
	return id
}

// name returns the function of a path.
func (t *tree) name(path calls.PathID) Function {
	if fn := t.paths.Func(path); fn != reader.Folded {
		return t.functions[fn]
	}
	return Function{Name: foldedName}
}

// walk calls f for all paths, callers first and the functions called by the same caller in
// order, until f returns an error.
func (t *tree) walk(f func(path calls.PathID, depth int) error) error {
	children := make([]calls.PathID, t.paths.Len()-1)
	for i := range children {
		children[i] = calls.PathID(i + 1)
	}
	rank := t.ranks()
	of := func(p calls.PathID) int32 {
		if fn := t.paths.Func(p); fn != reader.Folded {
			return rank[fn]
		}
		return rank[0]
	}
	// Backwards, because the walk takes from the end of its stack.
	slices.SortFunc(children, func(a, b calls.PathID) int {
		return cmp.Or(cmp.Compare(t.paths.Parent(a), t.paths.Parent(b)), cmp.Compare(of(b), of(a)))
	})
	from := make([]uint32, t.paths.Len()+1) // children of path p are children[from[p]:from[p+1]]
	for _, c := range children {
		from[t.paths.Parent(c)+1]++
	}
	for i := 1; i < len(from); i++ {
		from[i] += from[i-1]
	}
	type step struct {
		path  calls.PathID
		depth int
	}
	stack := []step{{0, -1}}
	for len(stack) > 0 {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if s.path != 0 {
			if err := f(s.path, s.depth); err != nil {
				return err
			}
		}
		for _, c := range children[from[s.path]:from[s.path+1]] {
			stack = append(stack, step{c, s.depth + 1})
		}
	}
	return nil
}

// ranks returns the place of each function in the order of functions; at index 0 that of
// folded calls.
func (t *tree) ranks() []int32 {
	order := make([]int32, len(t.functions))
	for i := range order {
		order[i] = int32(i)
	}
	at := func(i int32) Function {
		if i == 0 {
			return Function{Name: foldedName}
		}
		return t.functions[i]
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := at(a), at(b)
		return cmp.Or(x.compare(&y), cmp.Compare(a, b))
	})
	rank := make([]int32, len(order))
	for place, i := range order {
		rank[i] = int32(place)
	}
	return rank
}
