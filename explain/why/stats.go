package why

import (
	"math"
	"math/rand/v2"
	"slices"
)

// binomialTail is the probability that at least k of n independent trials succeed.
func binomialTail(n, k int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	lgamma := func(x int) float64 { l, _ := math.Lgamma(float64(x) + 1); return l }
	sum := 0.0
	for i := k; i <= n; i++ {
		sum += math.Exp(lgamma(n) - lgamma(i) - lgamma(n-i) +
			float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return min(sum, 1)
}

// sameDistribution returns the probability that two samples of one distribution differ at
// least as much as x and y, by the Kolmogorov-Smirnov test. It sorts both.
func sameDistribution(x, y []float64) float64 {
	slices.Sort(x)
	slices.Sort(y)
	n, m := float64(len(x)), float64(len(y))
	farthest := 0.0
	for i, j := 0, 0; i < len(x) && j < len(y); {
		at := min(x[i], y[j])
		for i < len(x) && x[i] == at {
			i++
		}
		for j < len(y) && y[j] == at {
			j++
		}
		farthest = max(farthest, math.Abs(float64(i)/n-float64(j)/m))
	}
	size := math.Sqrt(n * m / (n + m))
	lambda := (size + 0.12 + 0.11/size) * farthest
	p := 0.0
	for k := 1.0; k <= 100; k++ {
		p += 2 * math.Pow(-1, k-1) * math.Exp(-2*k*k*lambda*lambda)
	}
	if lambda < 0.2 {
		return 1 // the series does not converge
	}
	return min(1, max(0, p))
}

// resamples is the number of resamples of the slow calls for an interval.
const resamples = 400

// interval returns the 95 % confidence interval of the sum of x divided by the sum of excess,
// by resampling slow calls with replacement.
func interval(x, excess []float64, seed uint64) (low, high float64) {
	rng := rand.New(rand.NewPCG(seed, uint64(len(x))))
	shares := make([]float64, resamples)
	for i := range shares {
		var sum, all float64
		for range x {
			j := rng.IntN(len(x))
			sum += x[j]
			all += excess[j]
		}
		if all > 0 {
			shares[i] = sum / all
		}
	}
	slices.Sort(shares)
	return shares[resamples/40], shares[resamples-1-resamples/40]
}

// correlation returns the correlation of two samples of the same length, and the cosine of the
// angle between them.
func correlation(x, y []float64) (r, cosine float64) {
	var sx, sy, xx, yy, xy float64
	for i := range x {
		sx += x[i]
		sy += y[i]
		xx += x[i] * x[i]
		yy += y[i] * y[i]
		xy += x[i] * y[i]
	}
	n := float64(len(x))
	if d := math.Sqrt((xx - sx*sx/n) * (yy - sy*sy/n)); d > 0 {
		r = (xy - sx*sy/n) / d
	}
	if d := math.Sqrt(xx * yy); d > 0 {
		cosine = xy / d
	}
	return r, cosine
}

func sum(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s
}
