package symbolize

import (
	"cmp"
	"maps"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// breakLoops removes the tail calls that are part of a cycle of tail calls. Otherwise each iteration
// of a loop through tail calls would be inside the previous one.
func (t *TailCalls) breakLoops() {
	components := componentsOf(t.to)
	for from, to := range t.to {
		t.to[from] = slices.DeleteFunc(to, func(fn reader.FuncID) bool { return components[from] == components[fn] })
	}
}

// componentsOf numbers the strongly connected components: two functions have the same number if
// edges lead from each to the other. A function in no cycle has a number of its own. An edge from
// a function to itself is a cycle.
func componentsOf(next map[reader.FuncID][]reader.FuncID) map[reader.FuncID]int {
	back := make(map[reader.FuncID][]reader.FuncID)
	for from, list := range next {
		for _, to := range list {
			back[to] = append(back[to], from)
		}
	}
	// Kosaraju's algorithm: list the functions in the order in which a walk leaves them. Then
	// walk the reversed edges from the last one back. Each walk finds one component.
	var order []reader.FuncID
	seen := make(map[reader.FuncID]bool)
	for _, fn := range slices.Sorted(maps.Keys(next)) {
		walk(next, seen, fn, func(fn reader.FuncID) { order = append(order, fn) })
	}
	number := make(map[reader.FuncID]int)
	clear(seen)
	for i, fn := range slices.Backward(order) {
		walk(back, seen, fn, func(fn reader.FuncID) { number[fn] = cmp.Or(number[fn], i+1) })
	}
	return number
}

// walk visits unseen functions that fn can reach. It calls leave for each one after those that it
// reached from there.
func walk(edges map[reader.FuncID][]reader.FuncID, seen map[reader.FuncID]bool, fn reader.FuncID, leave func(reader.FuncID)) {
	if seen[fn] {
		return
	}
	seen[fn] = true
	type step struct {
		fn   reader.FuncID
		next int
	}
	for stack := []step{{fn: fn}}; len(stack) > 0; {
		top := &stack[len(stack)-1]
		if top.next == len(edges[top.fn]) {
			leave(top.fn)
			stack = stack[:len(stack)-1]
			continue
		}
		to := edges[top.fn][top.next]
		top.next++
		if !seen[to] {
			seen[to] = true
			stack = append(stack, step{fn: to})
		}
	}
}
