package parallel

import (
	"sync/atomic"
	"testing"
)

func TestRanges(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 33, 1000} {
		seen := make([]atomic.Int32, n)
		Ranges(n, 32, func(from, to int) {
			for i := from; i < to; i++ {
				seen[i].Add(1)
			}
		})
		for i := range seen {
			if k := seen[i].Load(); k != 1 {
				t.Errorf("%d of %d was in %d ranges", i, n, k)
			}
		}
	}
}
