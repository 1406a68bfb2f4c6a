package diff

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Values from a table of Student's t distribution.
func TestStudent(t *testing.T) {
	for _, test := range []struct {
		freedom int
		tails   float64
		t       float64
	}{{1, 0.05, 12.706}, {2, 0.05, 4.303}, {3, 0.01, 5.841}, {4, 0.05, 2.776}, {8, 0.05, 2.306}, {8, 0.01, 3.355},
		{9, 0.001, 4.781}, {30, 0.05, 2.042}, {118, 0.05, 1.980}} {
		if got := studentQuantile(test.tails, test.freedom); math.Abs(got-test.t) > 0.0006 {
			t.Errorf("%d degrees of freedom, tails %v: got %v, want %v", test.freedom, test.tails, got, test.t)
		}
		if got := studentTails(test.t, test.freedom); math.Abs(got/test.tails-1) > 0.002 {
			t.Errorf("%d degrees of freedom: got %v beyond %v, want %v", test.freedom, got, test.t, test.tails)
		}
	}
}

// Of the 70 ways to divide 8 runs into 4 and 4, one is as extreme as all of B above 1.1 times all
// of A.
func TestDivided(t *testing.T) {
	r := &resampler{folds: 100_000}
	p := r.divided([]float64{1, 2, 3, 4}, []float64{5.5, 6.6, 7.7, 8.8}, 1.1)
	if math.Abs(p*70-1) > 0.1 {
		t.Errorf("got %v, want %v", p, 1.0/70)
	}
	if p := r.divided([]float64{1, 2, 3, 4}, []float64{1.1, 2.2, 3.3, 4.4}, 1.1); p < 0.5 {
		t.Errorf("got p %v for equal sides", p)
	}
}

func TestHolm(t *testing.T) {
	list := []*Interval{{P: 0.03}, {P: 0.005}, {P: 0.01}, {P: 0.9}}
	holm(list)
	for i, want := range []float64{0.06, 0.02, 0.03, 0.9} {
		if math.Abs(list[i].P-want) > 1e-12 {
			t.Errorf("%d: got %v, want %v", i, list[i].P, want)
		}
	}
}

// If resampled differences are normally distributed with standard deviation s, the interval for 5
// runs a side is Student's: 2.776 standard errors each way, with a standard error of s times the
// square root of 5/4.
func TestIntervalOfFewRuns(t *testing.T) {
	r := &resampler{folds: 100_000, units: [2]int{5, 9}}
	folded := make([]float64, r.folds)
	for f := range folded {
		folded[f] = 10 + 2*math.Sqrt2*math.Erfinv(2*(float64(f)+0.5)/float64(r.folds)-1)
	}
	in := r.judge(10, 10, 0.05, folded)
	want := 2.776 * 2 * math.Sqrt(1.25)
	if math.Abs(in.Low-10+want) > 0.02 || math.Abs(in.High-10-want) > 0.02 {
		t.Errorf("got %v to %v, want 10 ± %v", in.Low, in.High, want)
	}
	if p := studentTails(10/(2*math.Sqrt(1.25)), 4); math.Abs(in.P/p-1) > 0.01 {
		t.Errorf("got p %v, want %v", in.P, p)
	}
	// If all runs of a side are equal, only one of the 2002 divisions and its mirror image are
	// as extreme.
	in = r.judge(1, 10, 0.05, slices.Repeat([]float64{1}, r.folds))
	if in.Low != 1 || in.High != 1 || math.Abs(in.P*2002/2-1) > 1e-9 {
		t.Errorf("got %+v", in)
	}
}

// noise has distributions. Both sides draw all their runs from the same one.
var noise = map[string]func(*rand.Rand) float64{
	"normal":     func(r *rand.Rand) float64 { return 100 + 5*r.NormFloat64() },
	"log-normal": func(r *rand.Rand) float64 { return 100 * math.Exp(0.3*r.NormFloat64()) },
	"outliers": func(r *rand.Rand) float64 {
		if r.IntN(5) == 0 {
			return 130 + 10*r.NormFloat64()
		}
		return 100 + r.NormFloat64()
	},
	"steps": func(r *rand.Rand) float64 { return float64(100 + r.IntN(2)) },
}

// synthetic makes runs whose functions take times drawn from a distribution.
func synthetic(rng *rand.Rand, runs, functions int, draw func(*rand.Rand) float64) *Comparison {
	c := NewComparison(false, "", nil)
	for n := range functions {
		c.nodes = append(c.nodes, node{0, string(rune('a' + n))})
	}
	for s := range c.sides {
		for i := range runs {
			u := &unit{run: i, nodes: make([]amounts, functions+1)}
			for n := 1; n <= functions; n++ {
				v := draw(rng)
				u.nodes[n] = amounts{calls: 1, self: v, total: v}
			}
			c.sides[s].units = append(c.sides[s].units, u)
			c.sides[s].runs = append(c.sides[s].runs, &run{quantiles: make([][]float64, functions+1)})
		}
	}
	c.first = &Run{}
	return c
}

// If both sides are equal, at most 5 of 100 comparisons fail a gate of +0%, the strictest one.
func TestGatesAreCalibrated(t *testing.T) {
	const trials = 100
	gate, err := ParseGate("self:+0%", false)
	if err != nil {
		t.Fatal(err)
	}
	for name, draw := range noise {
		for _, runs := range []int{4, 5, 10} {
			rng := rand.New(rand.NewPCG(1, uint64(runs)))
			failed := 0
			for range trials {
				c := synthetic(rng, runs, 1, draw)
				c.gates = []Gate{gate}
				b := &builder{c: c, r: &Report{Folds: 2000}}
				b.resample()
				g, err := b.gate(0)
				if err != nil {
					t.Fatal(err)
				}
				switch g.Verdict {
				case Fail:
					failed++
				case Undecided:
					t.Fatalf("%d runs a side: the gate is undecided", runs)
				}
			}
			t.Logf("%s, %d runs a side: %d of %d failed", name, runs, failed, trials)
			if failed > trials/20 {
				t.Errorf("%s, %d runs a side: %d of %d failed", name, runs, failed, trials)
			}
		}
	}
}

// If both sides are equal, at most 5 of 100 tables have a significant row.
func TestTablesAreCalibrated(t *testing.T) {
	const trials = 100
	for name, draw := range noise {
		rng := rand.New(rand.NewPCG(1, 2))
		sure := 0
		for range trials {
			r, err := synthetic(rng, 5, 4, draw).Report(ReportOptions{Folds: 500})
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(r.Rows, func(r Row) bool { return r.Metrics[1].Significant() }) {
				sure++
			}
		}
		t.Logf("%s: %d of %d tables with a sure row", name, sure, trials)
		if sure > trials/20 {
			t.Errorf("%s: %d of %d tables with a sure row", name, sure, trials)
		}
	}
}
