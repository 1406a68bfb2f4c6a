// Package parallel divides loops among processors.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Ranges calls f for ranges of at most length that make up 0 to n-1, concurrently on all processors
// and in any order. It returns when all calls have returned. If there is one processor or one range,
// f runs on the calling goroutine, for all of them at once.
func Ranges(n, length int, f func(from, to int)) {
	workers := min(runtime.GOMAXPROCS(0), (n+length-1)/length)
	if workers <= 1 {
		f(0, n)
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				to := int(next.Add(int64(length)))
				if to-length >= n {
					return
				}
				f(to-length, min(to, n))
			}
		})
	}
	all.Wait()
}
