package diff

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/symbolize"
)

// Gate is a limit on the growth of a number from A to B.
type Gate struct {
	Text      string
	metric    string  // calls, self, total or a quantile
	quantile  float64 // of durations; NaN for none
	functions *regexp.Regexp
	limit     float64 // B / A - 1
}

// ParseGate reads METRIC[:REGEXP]:LIMIT, for example p99:+5% and self:parse.*:+3%. With a
// root, quantiles are those of the root.
func ParseGate(text string, rooted bool) (Gate, error) {
	g := Gate{Text: text, quantile: math.NaN()}
	metric, rest, ok := strings.Cut(text, ":")
	at := strings.LastIndexByte(rest, ':')
	limit, percent := strings.CutSuffix(rest[at+1:], "%")
	var err error
	if g.limit, err = strconv.ParseFloat(limit, 64); err != nil || !ok || !percent || !(g.limit > -100 && g.limit <= 1e6) {
		return g, fmt.Errorf("invalid gate %q: use METRIC:+LIMIT%% or METRIC:REGEXP:+LIMIT%%, "+
			"for example p99:+5%% or 'self:parse.*:+3%%'", text)
	}
	g.limit /= 100
	g.metric = metric
	if at >= 0 {
		if g.functions, err = regexp.Compile(rest[:at]); err != nil {
			return g, err
		}
	}
	switch digits, isQuantile := strings.CutPrefix(metric, "p"); {
	case isQuantile:
		q, err := strconv.ParseFloat(digits, 64)
		if err != nil || !(q >= 0 && q <= 100) {
			return g, fmt.Errorf("%q: invalid percentile %q: write it like p99", text, metric)
		}
		g.quantile = q / 100
	case metric != "calls" && metric != "self" && metric != "total":
		return g, fmt.Errorf("%q: unknown metric %q: use calls, self, total or a percentile like p99", text, metric)
	}
	switch {
	case g.isQuantile() && rooted && g.functions != nil:
		return g, fmt.Errorf("%q: with --root, percentiles are those of the root: omit the function", text)
	case g.isQuantile() && !rooted && g.functions == nil:
		return g, fmt.Errorf("%q: name a function, as in %s:parse.*:+5%%, or pass --root", text, metric)
	case metric == "calls" && rooted && g.functions == nil:
		return g, fmt.Errorf("%q: calls are counted within a call of the root: name a function", text)
	}
	return g, nil
}

func (g *Gate) isQuantile() bool { return !math.IsNaN(g.quantile) }

// Verdict is the result of a gate.
type Verdict string

const (
	Pass         Verdict = "pass"         // the interval ends at or below the limit
	Fail         Verdict = "fail"         // the interval is above the limit
	Inconclusive Verdict = "inconclusive" // the interval reaches across the limit
	Undecided    Verdict = "undecided"    // too few runs
)

// GateResult is a gate and its result. Changes are B / A - 1, and infinite if A is 0.
type GateResult struct {
	Gate          string
	Verdict       Verdict
	Limit, Change float64
	// Interval is of Change. The intervals of all gates hold together in 95 % of cases. P
	// is the probability that randomly divided runs exceed the limit by as much.
	Interval
}

// gate evaluates a gate.
func (b *builder) gate(i int) (GateResult, error) {
	g := &b.c.gates[i]
	out := GateResult{Gate: g.Text, Limit: g.limit, Verdict: Undecided}
	var means [2]float64
	var values [2][]float64
	for s := range b.c.sides {
		v, err := b.gateValues(g, i, Side(s))
		if err != nil {
			return out, fmt.Errorf("--gate %s: %w", g.Text, err)
		}
		values[s], means[s] = v, b.mean(Side(s), v)
	}
	if means[A] == 0 && means[B] == 0 {
		return out, fmt.Errorf("--gate %s: neither side has matching calls", g.Text)
	}
	out.Change = change(means[A], means[B])
	// The lower bound misses half as often as the interval. One of the random divisions
	// always separates the sides completely, so with too few runs a gate cannot fail.
	level := significance / float64(len(b.c.gates))
	if b.r.Resampled != "runs" || 1/choose(len(values[A])+len(values[B]), len(values[A])) > level/2 {
		return out, nil
	}
	folded := b.sampler.means(B, values[B])
	for f, a := range b.sampler.means(A, values[A]) {
		folded[f] = change(a, folded[f])
	}
	out.Interval = b.sampler.judge(out.Change, 1, level, folded)
	out.Verdict, out.P = Pass, b.sampler.divided(values[A], values[B], 1+g.limit)
	switch {
	case out.Low > g.limit && out.P <= level/2:
		out.Verdict = Fail
	case out.High > g.limit:
		out.Verdict = Inconclusive
	}
	return out, nil
}

var errNoQuantile = errors.New("a run has no matching call that ended")

// gateValues returns the values of a gate, by unit.
func (b *builder) gateValues(g *Gate, i int, s Side) ([]float64, error) {
	values := make([]float64, len(b.c.sides[s].units))
	for j, u := range b.c.sides[s].units {
		switch {
		case g.isQuantile() && b.c.rooted:
			values[j] = b.c.sides[s].runs[u.run].quantiles[0][b.quantile(g.quantile)] * u.weight
		case g.isQuantile():
			values[j] = b.c.sides[s].runs[u.run].pooled[i] * u.weight
			if math.IsNaN(values[j]) {
				return nil, errNoQuantile
			}
		default:
			values[j] = b.gateSum(g, u)
		}
	}
	return values, nil
}

// gateSum adds up the matching calls of a unit. The total of a matching call includes the
// matching calls inside it.
func (b *builder) gateSum(g *Gate, u *unit) float64 {
	if g.functions == nil && (b.c.rooted || g.metric != "calls") {
		if g.metric == "self" && b.c.rooted {
			return u.nodes[0].self
		}
		return u.nodes[0].total
	}
	sum := 0.0
	inside := make([]bool, len(u.nodes))
	for n := range u.nodes {
		matches := (n > 0 || b.c.rooted) && (g.functions == nil || symbolize.Matches(g.functions, b.c.function(n)))
		inside[n] = matches
		if n > 0 && inside[b.c.nodes[n].parent] {
			inside[n] = true
			if g.metric == "total" {
				continue
			}
		}
		switch a := &u.nodes[n]; {
		case !matches:
		case g.metric == "calls":
			sum += a.calls
		case g.metric == "self":
			sum += a.self
		default:
			sum += a.total
		}
	}
	return sum
}

// change returns b / a - 1, which is infinite if only a is 0.
func change(a, b float64) float64 {
	switch {
	case a == b:
		return 0
	case a == 0:
		return math.Inf(1)
	}
	return b/a - 1
}

// choose returns the number of ways to choose k of n.
func choose(n, k int) float64 {
	ways := 1.0
	for i := range k {
		ways *= float64(n-i) / float64(i+1)
	}
	return ways
}
