package quantile

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var levels = []float64{0, 0.5, 0.9, 0.99, 0.999, 1}

// answers holds all results of a sample.
type answers struct {
	Count, Min, Max uint64
	Sum             Sum
	Approximate     bool
	Quantiles       []uint64
	Octaves         []uint64
	Values          [][2]uint64
}

func ask(s *Sample) answers {
	a := answers{
		Count: s.Count(), Min: s.Min(), Max: s.Max(), Sum: s.Sum(),
		Approximate: s.Approximate(), Quantiles: make([]uint64, len(levels)),
		Octaves: s.Octaves(),
	}
	s.Quantiles(a.Quantiles, levels...)
	for v, n := range s.All() {
		a.Values = append(a.Values, [2]uint64{v, n})
	}
	return a
}

// sorted computes the expected results from the sorted values.
func sorted(values []uint64) answers {
	values = slices.Sorted(slices.Values(values))
	a := answers{Count: uint64(len(values)), Quantiles: make([]uint64, len(levels)), Octaves: make([]uint64, 1)}
	if len(values) == 0 {
		return a
	}
	a.Min, a.Max = values[0], values[len(values)-1]
	a.Octaves = make([]uint64, bits.Len64(a.Max)+1)
	for i, q := range levels {
		a.Quantiles[i] = values[min(int(math.Floor(q*float64(len(values)))), len(values)-1)]
	}
	for _, v := range values {
		a.Sum.Add(v)
		a.Octaves[bits.Len64(v)]++
		if n := len(a.Values); n > 0 && a.Values[n-1][0] == v {
			a.Values[n-1][1]++
		} else {
			a.Values = append(a.Values, [2]uint64{v, 1})
		}
	}
	return a
}

func addAll(s *Sample, values []uint64) *Sample {
	for _, v := range values {
		s.Add(v)
	}
	return s
}

// drawValues draws values of all magnitudes, with few or many different ones.
func drawValues(t *rapid.T) []uint64 {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	n := rapid.SampledFrom([]int{0, 1, 7, 127, 128, 129, 700, 3000, 6000}).Draw(t, "n")
	distinct := rapid.SampledFrom([]int{1, 10, 500, 2000, 5000}).Draw(t, "distinct")
	width := rapid.SampledFrom([]int{4, 9, 12, 20, 33, 64}).Draw(t, "width")
	pool := make([]uint64, distinct)
	for i := range pool {
		pool[i] = r.Uint64() >> (64 - width) >> r.IntN(max(1, width-11))
	}
	values := make([]uint64, n)
	for i := range values {
		values[i] = pool[r.IntN(distinct)]
	}
	return values
}

// mustApproximate is the documented condition for approximate quantiles.
func mustApproximate(values []uint64) bool {
	shared := make(map[uint64]bool)
	for _, v := range values {
		if v >= ownCounter {
			shared[v] = true
		}
	}
	return len(shared) > maxDistinct
}

func TestSampleEqualsSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := drawValues(t)
		want := sorted(values)
		exact := ask(addAll(&Sample{Exact: true}, values))
		if diff := cmp.Diff(want, exact); diff != "" {
			t.Fatalf("exact sample (-want +got):\n%s", diff)
		}
		got := ask(addAll(new(Sample), values))
		if got.Approximate != mustApproximate(values) {
			t.Fatalf("Approximate = %v", got.Approximate)
		}
		if !got.Approximate {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("sample of few values (-want +got):\n%s", diff)
			}
			return
		}
		for i, q := range levels {
			w, g := want.Quantiles[i], got.Quantiles[i]
			if diff := math.Abs(float64(g) - float64(w)); diff > RelativeError*float64(w) {
				t.Errorf("quantile %v = %d, want %d within %v", q, g, w, RelativeError)
			}
		}
		want.Quantiles, want.Values, want.Approximate = got.Quantiles, got.Values, true
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("approximate sample (-want +got):\n%s", diff)
		}
	})
}

// TestMergeOrder divides values among samples and merges these in any order. The results
// must not change.
func TestMergeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := drawValues(t)
		exact := rapid.Bool().Draw(t, "exact")
		want := ask(addAll(&Sample{Exact: exact}, values))

		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		parts := make([]*Sample, 1+r.IntN(4))
		for i := range parts {
			parts[i] = &Sample{Exact: exact}
		}
		r.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		for _, v := range values {
			// Choose parts of very different sizes, so that approximate samples merge with
			// exact ones.
			parts[r.IntN(1+r.IntN(1+r.IntN(len(parts))))].Add(v)
			if r.IntN(100) == 0 {
				parts[r.IntN(len(parts))].Max() // queries must not change a sample
			}
		}
		for len(parts) > 1 {
			r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			parts[0].Merge(parts[1])
			parts = slices.Delete(parts, 1, 2)
		}
		if diff := cmp.Diff(want, ask(parts[0])); diff != "" {
			t.Fatalf("merged (-whole +merged):\n%s", diff)
		}
	})
}

// TestLimit reaches the limit of different values exactly, and then exceeds it, by adding
// and by merging.
func TestLimit(t *testing.T) {
	run := func(from, to uint64) *Sample {
		var s Sample
		for v := from; v < to; v++ {
			s.Add(v)
		}
		return &s
	}
	for name, big := range map[string]uint64{"narrow": 10_000, "wide": 1 << 40} {
		merged := func(n uint64) *Sample {
			s := run(big, big+300)
			s.Merge(run(big+200, big+n))
			return s
		}
		for _, s := range []*Sample{run(big, big+maxDistinct), merged(maxDistinct)} {
			s.Merge(run(0, ownCounter))
			if s.Approximate() || s.Max() != s.Quantile(1) {
				t.Errorf("%s: %d different values are approximate", name, maxDistinct)
			}
		}
		taken := run(big, big+300)
		taken.Merge(run(big, big+maxDistinct+1))
		for _, s := range []*Sample{run(big, big+maxDistinct+1), merged(maxDistinct + 1), taken} {
			if !s.Approximate() {
				t.Errorf("%s: %d different values are exact", name, maxDistinct+1)
			}
			if s.Quantile(0) < big || s.Quantile(1) > big+maxDistinct {
				t.Errorf("%s: quantiles are beyond the extremes", name)
			}
		}
	}
}

// TestQuantileRule compares with the quantiles that llvm-xray reports for durations of 1 to
// 100.
func TestQuantileRule(t *testing.T) {
	var s Sample
	for v := uint64(100); v > 0; v-- {
		s.Add(v)
	}
	for q, want := range map[float64]uint64{0: 1, 0.5: 51, 0.9: 91, 0.99: 100, 0.999: 100, 1: 100} {
		if got := s.Quantile(q); got != want {
			t.Errorf("quantile %v of 1..100 = %d, want %d", q, got, want)
		}
	}
	if got := new(Sample).Quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing = %d", got)
	}
}

func TestBinsCoverAllValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "v") >> rapid.IntRange(0, 63).Draw(t, "shift")
		m := middle(Bin(v))
		if v < firstShared && m != v {
			t.Errorf("%d stands for %d", m, v)
		}
		if off := max(m, v) - min(m, v); float64(off) > RelativeError*float64(v) {
			t.Errorf("%d stands for %d", m, v)
		}
		if Bin(m) != Bin(v) {
			t.Errorf("middle %d of bin %d is in bin %d", m, Bin(v), Bin(m))
		}
		if v < math.MaxUint64 && Bin(v+1) != Bin(v) && Bin(v+1) != Bin(v)+1 {
			t.Errorf("bin %d of %d is followed by bin %d", Bin(v), v, Bin(v+1))
		}
	})
	if last := placeOf(math.MaxUint64); last != lastPlace {
		t.Errorf("got last place %d, want %d", last, lastPlace)
	}
}

// The fast computation of a place must agree with the simple one, above all at the edges.
func TestPlaces(t *testing.T) {
	check := func(v uint32) {
		t.Helper()
		if got, want := uint32(shortPlace(v)), placeOf(uint64(v)); got != want {
			t.Fatalf("place of %d: got %d, want %d", v, got, want)
		}
		if v > 0 && v >= ownCounter && middle(Bin(uint64(v))) != standsFor(placeOf(uint64(v))) {
			t.Fatalf("%d stands for %d", standsFor(placeOf(uint64(v))), v)
		}
	}
	for shift := range 32 {
		for _, off := range []uint32{0, 1, math.MaxUint32} {
			check(1<<shift + off)
		}
	}
	for v := range uint32(2 * ownCounter) {
		check(v)
	}
	rapid.Check(t, func(t *rapid.T) { check(rapid.Uint32().Draw(t, "v")) })
}

// TestCountsBeyondTheirFields adds counts so large that single additions would take hours.
func TestCountsBeyondTheirFields(t *testing.T) {
	const value = 10_000
	for _, approximate := range []bool{false, true} {
		var s Sample
		if approximate {
			s.fold().degrade()
		}
		total := uint64(0)
		for _, n := range []uint64{math.MaxUint32 - 1, 1, 1, 255, 256, 1 << 33} {
			s.fold().insert(value, n)
			s.fold().counts.add(placeOf(value), n)
			s.fold().count += n
			s.fold().note(value, value)
			total += n
		}
		for range maxPending {
			s.Add(value)
			total++
		}
		var got uint64
		for _, n := range s.All() {
			got += n
		}
		if got != total || s.Count() != total {
			t.Errorf("approximate %v: counts add up to %d and %d, want %d", approximate, got, s.Count(), total)
		}
		want := ask(&s).Values
		want[0][1] *= 2
		copied := Sample{counted: s.counted}
		if s = (Sample{}); approximate {
			s.fold().degrade()
		}
		s.Merge(&copied)
		s.Merge(&copied)
		if diff := cmp.Diff(want, ask(&s).Values); diff != "" {
			t.Errorf("approximate %v: merged (-want +got):\n%s", approximate, diff)
		}
	}
}

// TestBoundary counts the last value with its own counter and the first one without.
func TestBoundary(t *testing.T) {
	values := []uint64{0, subBins - 1, subBins, ownCounter - 1, ownCounter, ownCounter + 1}
	if diff := cmp.Diff(sorted(values), ask(addAll(new(Sample), values))); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
}

// TestOctaveAfterCarry makes a counter carry before the histogram grows.
func TestOctaveAfterCarry(t *testing.T) {
	var s Sample
	for range 1000 {
		s.Add(5)
	}
	for range 1000 {
		s.Add(200)
	}
	want := [][2]uint64{{5, 1000}, {200, 1000}}
	if diff := cmp.Diff(want, ask(&s).Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// TestOwnCountersCarry makes counters overflow by adding and by merging.
func TestOwnCountersCarry(t *testing.T) {
	fill := func(n int) *Sample {
		var s Sample
		for range n {
			s.Add(5)
			s.Add(300)
		}
		return &s
	}
	s := fill(70_000)
	s.Merge(fill(65_536))
	s.Merge(fill(200_000))
	const n = 70_000 + 65_536 + 200_000
	want := [][2]uint64{{5, n}, {300, n}}
	if diff := cmp.Diff(want, ask(s).Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if s.Count() != 2*n || s.Sum() != NewSum(305*n) {
		t.Errorf("count %d, sum %v", s.Count(), s.Sum())
	}
}

func TestSumBeyond64Bits(t *testing.T) {
	var s Sample
	want := new(big.Int)
	for range 5 {
		s.Add(math.MaxUint64)
		want.Add(want, new(big.Int).SetUint64(math.MaxUint64))
	}
	if got := s.Sum().Big(); got.Cmp(want) != 0 {
		t.Errorf("sum = %v, want %v", got, want)
	}
	if got := s.Sum().Float64(); got != 5*float64(1<<63)*2 {
		t.Errorf("Float64 = %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.Uint64(), rapid.Just(uint64(math.MaxUint64)), rapid.Just(uint64(0)))
		a := Sum{word.Draw(t, "a.Hi") >> 1, word.Draw(t, "a.Lo")}
		b := Sum{word.Draw(t, "b.Hi") >> 1, word.Draw(t, "b.Lo")}
		c := a
		c.AddSum(b)
		if c.Big().Cmp(new(big.Int).Add(a.Big(), b.Big())) != 0 || c.Minus(b) != a {
			t.Errorf("%v + %v = %v", a, b, c)
		}
		if a.Compare(b) != a.Big().Cmp(b.Big()) {
			t.Errorf("Compare(%v, %v) = %d", a, b, a.Compare(b))
		}
	})
}

// TestFewStaySmall runs every query on samples with few values. The samples must not grow,
// because programs have many functions that are called a few times.
func TestFewStaySmall(t *testing.T) {
	var s, other Sample
	for v := range uint64(5) {
		s.Add(1000 * v)
		other.Add(v)
	}
	ask(&s)
	ask(&other)
	s.Merge(&other)
	ask(&s)
	if got := footprint(&s); got > 4*16 {
		t.Errorf("10 values take %d bytes", got)
	}
}

// TestFootprint bounds the memory of samples that are typical of traces.
func TestFootprint(t *testing.T) {
	fill := func(n int, value func(*rand.Rand) uint64) *Sample {
		var s Sample
		r := rand.New(rand.NewPCG(3, 4))
		for range n {
			s.Add(value(r))
		}
		s.fold()
		return &s
	}
	for _, c := range []struct {
		name  string
		s     *Sample
		limit int
	}{
		{"few calls", fill(5, func(r *rand.Rand) uint64 { return 1000 + r.Uint64N(1000) }), 3 << 10},
		{"100 calls", fill(100, func(r *rand.Rand) uint64 { return 1000 + r.Uint64N(1000) }), 3 << 10},
		{"barely exact", fill(100_000, func(r *rand.Rand) uint64 { return 1000 + r.Uint64N(maxDistinct) }), 10 << 10},
		{"realistic", fill(100_000, func(r *rand.Rand) uint64 { return uint64(math.Exp(7 + r.NormFloat64())) }), 10 << 10},
		{"32 octaves", fill(100_000, func(r *rand.Rand) uint64 { return r.Uint64N(1<<32) >> r.IntN(32) }), 20 << 10},
	} {
		if got := footprint(c.s); got > c.limit {
			t.Errorf("%s: %d bytes, want at most %d", c.name, got, c.limit)
		}
		if n := len(c.s.fold().table.slots); n != 0 && bits.OnesCount(uint(n)) != 1 {
			t.Errorf("%s: table of %d slots", c.name, n)
		}
	}
}

// A sample that knows only octaves is off by at most a third. If other values are added,
// the exact results stay exact.
func TestOctavesOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []uint64
	var whole, coarse, part Sample
	for i := range 5000 {
		v := uint64(1) << rng.IntN(40)
		v += rng.Uint64N(v)
		all = append(all, v)
		whole.Add(v)
		if i%3 == 0 {
			coarse.Add(v)
		} else {
			part.Add(v)
		}
	}
	coarse.AddOctaves(part.Octaves(), part.Min(), part.Max(), part.Sum())
	var merged Sample
	merged.Merge(&coarse)
	slices.Sort(all)
	if !merged.Coarse() || !merged.Approximate() || whole.Coarse() {
		t.Error("Coarse or Approximate is wrong")
	}
	if merged.Count() != whole.Count() || merged.Sum() != whole.Sum() || merged.Min() != all[0] || merged.Max() != all[len(all)-1] {
		t.Errorf("got %d values, sum %v, from %d to %d; want %d, %v, %d, %d", merged.Count(), merged.Sum(), merged.Min(), merged.Max(),
			whole.Count(), whole.Sum(), all[0], all[len(all)-1])
	}
	if !slices.Equal(merged.Octaves(), whole.Octaves()) {
		t.Errorf("got octaves %v, want %v", merged.Octaves(), whole.Octaves())
	}
	for _, q := range []float64{0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		want := float64(all[min(int(q*float64(len(all))), len(all)-1)])
		if got := float64(merged.Quantile(q)); got < want*(1-OctaveError)-1 || got > want*(1+OctaveError)+1 {
			t.Errorf("quantile %v: got %.0f, want %.0f", q, got, want)
		}
	}
}
