// Package ranking orders functions by the cost of recording them and by the value of the records.
package ranking

import "cmp"

// Function is a function to order. Cost is the cost of recording its calls, and Value the
// information in the records, each in any unit.
type Function struct{ Cost, Value float64 }

// Compare orders the function with the highest cost for its value first: that is the first to leave
// out. Among functions without value, the most expensive comes first.
func Compare(a, b Function) int {
	// Compare cost / value crosswise, because values may be 0.
	x, y := a.Cost*b.Value, b.Cost*a.Value
	if a.Value == 0 && b.Value == 0 {
		x, y = a.Cost, b.Cost
	}
	return cmp.Compare(y, x)
}
