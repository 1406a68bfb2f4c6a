package quantile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// recorded is a call as an analysis sees it.
type recorded struct {
	fn       uint32
	duration uint64
}

// workload draws calls of functions with skewed popularity. Each function has its own typical
// duration and spread. Durations are multiples of the clock's step.
func workload(seed uint64, n, functions int, spread float64) []recorded {
	r := rand.New(rand.NewPCG(seed, 2))
	zipf := rand.NewZipf(r, 1.1, 20, uint64(functions-1))
	calls := make([]recorded, n)
	for i := range calls {
		fn := uint32(zipf.Uint64())
		typical := 4 + 8*float64(fn*2654435761>>16&0xffff)/0xffff
		calls[i] = recorded{fn, uint64(math.Exp(typical+spread*r.NormFloat64())) &^ 1}
	}
	return calls
}

func BenchmarkAdd(b *testing.B) {
	for _, w := range []struct {
		name   string
		spread float64
	}{{"narrow", 0.1}, {"skewed", 0.7}, {"random", 3}} {
		for _, functions := range []int{20, 2000, 30000} {
			calls := workload(1, 1<<20, functions, w.spread)
			b.Run(fmt.Sprintf("durations=%s/functions=%d", w.name, functions), func(b *testing.B) {
				samples := make([]Sample, functions)
				for range 2 {
					for _, c := range calls {
						samples[c.fn].Add(c.duration)
					}
				}
				b.ResetTimer()
				for i := range b.N {
					c := &calls[i&(1<<20-1)]
					samples[c.fn].Add(c.duration)
				}
				b.StopTimer()
				approximate, bytes := 0, 0
				for i := range samples {
					bytes += footprint(&samples[i])
					if samples[i].Approximate() {
						approximate++
					}
				}
				b.ReportMetric(float64(approximate)/float64(functions), "approx")
				b.ReportMetric(float64(bytes)/float64(functions), "B/function")
			})
		}
	}
}

// footprint returns the bytes that a sample uses besides the Sample itself.
func footprint(s *Sample) int {
	n := 4 * cap(s.pending)
	if c := s.counted; c != nil {
		n += int(unsafe.Sizeof(*c)) + cap(c.counts.low) + 2*cap(c.counts.high) + 8*cap(c.table.slots) + 64*len(c.table.wide)
	}
	return n
}
