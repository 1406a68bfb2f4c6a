package kernel

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	diff "github.com/google/go-cmp/cmp"
)

// Events leave the queue in the order of time, all of them, and no earlier than asked for.
func TestQueue(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		cpus := 1 + r.IntN(5)
		var q Queue
		var in, out []Event
		last, reached := make([]uint64, cpus), uint64(0)
		for range 20 {
			for range r.IntN(40) {
				cpu := r.IntN(cpus)
				last[cpu] = max(last[cpu], reached) + uint64(r.IntN(4))
				e := Event{Time: last[cpu], CPU: uint16(cpu), Task: int32(len(in))}
				in = append(in, e)
				q.Push(&e)
			}
			reached += uint64(r.IntN(30))
			q.Until(reached, func(e *Event) {
				if e.Time >= reached {
					t.Fatalf("seed %d: an event of %d before %d", seed, e.Time, reached)
				}
				out = append(out, *e)
			})
		}
		q.Until(1<<63, func(e *Event) { out = append(out, *e) })
		slices.SortStableFunc(in, func(a, b Event) int {
			return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.CPU, b.CPU))
		})
		if d := diff.Diff(in, out); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
		q.Until(1<<63, func(*Event) { t.Fatalf("seed %d: an event twice", seed) })
	}
}
