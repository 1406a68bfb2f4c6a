package quantile

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A set must give the same results as separate samples, whatever the sizes of its buffers,
// and after merging too.
func TestSetEqualsSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		exact := rapid.Bool().Draw(t, "exact")
		samples := rapid.SampledFrom([]int{4, 300}).Draw(t, "samples") // 300 are merged concurrently
		want := make([]*Sample, samples)
		weights := make([]Sum, samples)
		sets := [2]*Set{{Exact: exact}, {Exact: exact}}
		for i := range want {
			want[i] = &Sample{Exact: exact}
			sets[0].Grow()
			sets[1].Grow()
		}
		// One of the sets has no room for the largest buffers.
		sets[0].room = append(sets[0].room, make([]uint32, rapid.SampledFrom([]int{0, maxRoom}).Draw(t, "room"))...)
		width := rapid.SampledFrom([]int{9, 14, 33, 64}).Draw(t, "width")
		for range rapid.SampledFrom([]int{0, 3, 100, 3000, 20_000}).Draw(t, "n") {
			i := r.IntN(1 + r.IntN(samples))
			v := r.Uint64() >> (64 - width) >> r.IntN(width)
			weight := v / 2
			if r.IntN(1000) == 0 {
				weight = r.Uint64()
			}
			want[i].Add(v)
			weights[i].Add(weight)
			// In the second set, sample i has the next index.
			set, at := sets[0], i
			if r.IntN(2) == 1 {
				set, at = sets[1], (i+1)%samples
			}
			if !set.Add(at, v, weight) {
				set.AddSlowly(at, v, weight)
			}
			if r.IntN(500) == 0 {
				octaves, lo, hi := []uint64{0, 0, 2, 1}, uint64(2), uint64(7)
				want[i].AddOctaves(octaves, lo, hi, NewSum(12))
				set.Binned(at).AddOctaves(octaves, lo, hi, NewSum(12))
				set.AddWeight(at, 12)
				weights[i].Add(12)
			}
			if r.IntN(1000) == 0 {
				set.Sample(at).Max() // queries must not change a sample
			}
		}
		to := make([]int, samples)
		for i := range want {
			to[(i+1)%samples] = i
		}
		sets[0].Merge(sets[1], to)
		for range 2 {
			got := make([]answers, samples)
			sets[0].Each(func(i int, s *Sample) { got[i] = ask(s) })
			for i := range want {
				if diff := cmp.Diff(ask(want[i]), got[i]); diff != "" {
					t.Fatalf("sample %d (-sample +set):\n%s", i, diff)
				}
			}
		}
		for i := range want {
			if got := sets[0].Weight(i); got != weights[i] {
				t.Errorf("sample %d: weight %v, want %v", i, got, weights[i])
			}
		}
	})
}

// TestSetStaysSmall creates many samples with a few values, as large programs do.
func TestSetStaysSmall(t *testing.T) {
	var s Set
	const samples, values = 10_000, 20
	for i := range samples {
		s.Grow()
		for v := range uint64(values) {
			if !s.Add(i, 1000*v, v) {
				s.AddSlowly(i, 1000*v, v)
			}
		}
	}
	bytes := 4*cap(s.room) + int(unsafe.Sizeof(cell{}))*cap(s.cells) + int(unsafe.Sizeof(rest{}))*cap(s.rest)
	for i := range s.rest {
		if s.rest[i].counted != nil {
			t.Fatalf("sample %d has left its buffer", i)
		}
	}
	if bytes > samples*500 {
		t.Errorf("%d bytes a sample", bytes/samples)
	}
}
