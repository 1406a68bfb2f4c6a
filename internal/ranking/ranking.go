// Package ranking orders functions by what recording them costs and tells.
package ranking

import "cmp"

// Function is what the order depends on. Cost is what recording its calls costs, and Value what they
// tell, each in any unit.
type Function struct{ Cost, Value float64 }

// Compare orders the function with the highest cost for its value first: that is the first to leave
// out. Of functions without value, it is the one that costs most.
func Compare(a, b Function) int {
	// Compare cost / value crosswise, because values may be 0.
	x, y := a.Cost*b.Value, b.Cost*a.Value
	if a.Value == 0 && b.Value == 0 {
		x, y = a.Cost, b.Cost
	}
	return cmp.Compare(y, x)
}
