package calls

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFirst compares Batch.first with a plain search, for calls with few, many and unevenly spread arguments.
func TestFirst(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		calls := 1 + random.IntN(40)
		b := &Batch{Calls: make([]Call, calls)}
		var of []int
		for range random.IntN(80) {
			if call := random.IntN(calls); round%2 == 0 || call < calls/3 {
				of = append(of, call)
			}
		}
		slices.Sort(of)
		for i := range calls {
			want, _ := slices.BinarySearch(of, i)
			if got := b.first(i, len(of), func(k int) int { return of[k] }); got != want {
				t.Fatalf("first argument of call %d of %d: %d, want %d, in %v", i, calls, got, want, of)
			}
		}
	}
}
