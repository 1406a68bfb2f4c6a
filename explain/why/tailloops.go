package why

import (
	"cmp"
	"maps"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// breakLoops removes pairs that would nest the iterations of a loop. A function that ends
// with a call of one without sleds also leaves a tail exit, and the next call of its caller
// follows soon. That may be the function at the start of the loop, so that pairs form a
// circle. Such a pair shows when the loop ends: then no entry follows the tail exit. If no
// pair of a circle shows that, all of them are removed. Then a recursion through tail calls
// is a call for each iteration, as in other reports. loose are the functions with tail
// exits that no entry followed.
func breakLoops(pairs map[pair]bool, loose map[reader.FuncID]bool) {
	circles := circlesOf(pairs)
	inCircle := func(p pair) bool { return circles[p.caller] == circles[p.callee] }
	maps.DeleteFunc(pairs, func(p pair, _ bool) bool { return loose[p.caller] && inCircle(p) })
	circles = circlesOf(pairs)
	maps.DeleteFunc(pairs, func(p pair, _ bool) bool { return inCircle(p) })
}

// circlesOf numbers functions so that two have the same number if pairs lead from each to
// the other. A function in no circle has a number of its own. The pair of a function with
// itself is a circle.
func circlesOf(pairs map[pair]bool) map[reader.FuncID]int {
	next := make(map[reader.FuncID][]reader.FuncID)
	back := make(map[reader.FuncID][]reader.FuncID)
	for p := range pairs {
		next[p.caller] = append(next[p.caller], p.callee)
		back[p.callee] = append(back[p.callee], p.caller)
	}
	// Kosaraju's algorithm: what the last function in order of leaving can reach, and what
	// reaches it, is one circle.
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

// walk visits unseen functions that fn can reach, and calls leave for each after all behind
// it.
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
