package why

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Reason is what distinguishes the calls that a cause dominates from usual calls: recorded values of arguments or
// results of the functions on the way to the cause. It is beside the cause, not instead of it: a value does not
// take time, a function does.
type Reason struct {
	Conditions []Condition // all of them hold; at most two
	Count, Of  int         // calls that the cause dominates for which they hold, and those with values
	Usual      float64     // share of usual calls for which they hold, estimated from a sample
	Sample     int         // size of the sample
	Chance     float64     // upper limit of the probability of that by chance, for all that was tried
	Trend      *Trend      // how the time depends on the value, or nil
	Along      []Condition // others that distinguish the same calls, and explain no more
	alone      *alone      // nil unless the argument explains the loss by itself
}

// Condition is a condition on the value of an expression.
type Condition struct {
	Func       reader.FuncID
	Expression string
	Exit       bool   // a result
	Length     bool   // it is about the length of a string in bytes
	Op         string // "=", ">" or "<="
	Value      string
}

// Trend is how the time of a function's calls depends on a value, or its time without callees if the cause is that
// the function itself is slower.
type Trend struct {
	Func  reader.FuncID
	Power int     // the time grows with the value to this power: 1 or 2; 0 if neither fits
	Each  float64 // ticks for each unit of the value to that power
	Base  float64 // ticks at the value 0
	Rank  float64 // rank correlation
	// Explained is the share of the lost time that the trend explains.
	Explained float64
}

const (
	maxReasonChance = 1e-3 // maximum probability that a reason is chance
	minReasonCalls  = 5    // minimum number of calls of a cause
	minReasonUsual  = 20   // minimum number of usual calls
	minReasonShare  = 0.5  // minimum share of the calls of a cause for which a reason holds
	minReasonApart  = 0.3  // minimum difference from the share of usual calls
	maxCuts         = 64   // maximum number of thresholds that are tried
	minRank         = 0.5  // minimum rank correlation of a trend
	maxResidual     = 0.25 // maximum median deviation from a trend, as a part of the time
	minTrendShare   = 0.5  // minimum share of the lost time that a trend explains
	maxReasonsAlong = 3
)

// feature is a candidate for a reason: the value of an expression, or the length of a string.
type feature struct {
	*calls.Expression
	length bool
	rank   int // functions nearer to the cause come first
}

// compared is an invocation: one that the lead dominates, or a usual one.
type compared struct {
	slow    bool
	stretch stretch
	weight  float64 // usual invocations that it stands for
	picks   []pick
}

// example is an invocation with the value of a feature, if it has one.
type example struct {
	*compared
	known    bool
	number   float64
	isNumber bool
	text     string
}

// test is the best condition on a feature.
type test struct {
	feature  feature
	examples []example // all, by invocation
	Condition
	holds  func(*example) bool
	count  int // of slow
	of     int
	usual  float64
	sample int
	chance float64 // not corrected
}

func (t *test) apart() float64 { return float64(t.count)/float64(t.of) - t.usual }

// reasoner looks for the reasons of one lead.
type reasoner struct {
	ev          *evidence
	c           *cohorts
	lead        *lead
	invocations []compared
	tried       int // tests so far
}

// reason finds what the calls that a lead dominates were called with, or returns nil. Waiting for a lock or for
// another thread has its reason there.
func (e *evidence) reason(l *lead, c *cohorts, kind Kind) *Reason {
	if c.valued == nil || kind == Wait || kind == LockWait || len(l.dominated) < minReasonCalls {
		return nil
	}
	r := &reasoner{ev: e, c: c, lead: l}
	bursts := burstsOf(e.slow)
	for _, i := range l.dominated {
		v := &e.slow[i]
		r.invocations = append(r.invocations, compared{true, stretch{c.plan.stretch(v.start), burstAt(bursts, v.start)}, 1, v.picks})
	}
	for i := range c.valued.controls {
		s := &c.valued.controls[i]
		for k := range s.kept {
			r.invocations = append(r.invocations, compared{false, stretch{i, burstAt(bursts, s.kept[k].start)}, float64(s.usual) / float64(len(s.kept)), s.kept[k].picks})
		}
	}
	var tests []*test
	for _, f := range r.features() {
		if t := r.best(f, r.examples(f), nil); t != nil {
			tests = append(tests, t)
		}
	}
	tests = slices.DeleteFunc(tests, func(t *test) bool { return t.chance*float64(r.tried) > maxReasonChance })
	if len(tests) == 0 {
		return nil
	}
	slices.SortStableFunc(tests, func(a, b *test) int {
		// Differences of a hundredth say nothing. Then the function that is nearer comes first.
		return cmp.Or(cmp.Compare(math.Round(100*b.apart()), math.Round(100*a.apart())), cmp.Compare(a.feature.rank, b.feature.rank), cmp.Compare(a.feature.ID, b.feature.ID))
	})
	first := tests[0]
	found := &Reason{Conditions: []Condition{first.Condition}, Count: first.count, Of: first.of, Usual: first.usual, Sample: first.sample}
	chance := first.chance
	for _, other := range tests[1:] {
		if one, both := r.together(first, other); both != nil && len(found.Conditions) == 1 {
			found.Conditions = []Condition{one.Condition, both.Condition}
			found.Count, found.Of, found.Usual, found.Sample = both.count, both.of, both.usual, both.sample
		} else if len(found.Along) < maxReasonsAlong {
			found.Along = append(found.Along, other.Condition)
		}
	}
	if len(found.Conditions) == 1 && first.Op != "=" {
		found.Trend = r.trend(first)
	}
	found.Chance = min(1, chance*float64(r.tried))
	if len(found.Conditions) == 1 {
		found.alone = r.alone(first)
	}
	return found
}

// stretch is a part of the trace's time, and the burst in it, from 1, or 0 outside of bursts.
type stretch struct{ number, burst int }

// burstsOf returns the times in which slow calls follow each other closely, in order. Under load, all calls are
// slow, and have other arguments than before. So slow calls of a burst are compared with usual ones inside.
func burstsOf(slow []rootCall) (list []span) {
	starts := make([]uint64, len(slow))
	for i := range slow {
		starts[i] = slow[i].start
	}
	slices.Sort(starts)
	near := (starts[len(starts)-1] - starts[0]) / uint64(3*len(starts))
	for i, from := range starts {
		switch {
		case i == 0 || from-starts[i-1] > near:
		case len(list) > 0 && list[len(list)-1].to == starts[i-1]:
			list[len(list)-1].to = from
		default:
			list = append(list, span{starts[i-1], from})
		}
	}
	return list
}

// burstAt returns the number of the burst at a time, from 1, or 0.
func burstAt(bursts []span, tsc uint64) int {
	at, _ := slices.BinarySearchFunc(bursts, tsc, func(b span, tsc uint64) int { return cmp.Compare(b.to, tsc) })
	if at < len(bursts) && bursts[at].from <= tsc {
		return at + 1
	}
	return 0
}

// features returns the expressions of the functions on the way from the root to the lead.
func (r *reasoner) features() (list []feature) {
	way := make(map[reader.FuncID]int)
	add := func(fn reader.FuncID, rank int) {
		if old, ok := way[fn]; !ok || rank < old {
			way[fn] = rank
		}
	}
	for _, n := range r.lead.nodes[:min(len(r.lead.nodes), maxPaths)] {
		for up := 0; n >= 0; n, up = r.ev.tree.steps[n].parent, up+1 {
			add(r.ev.tree.steps[n].fn, up)
		}
	}
	if r.lead.kind == NewPath {
		add(r.ev.tree.steps[r.ev.most(r.lead.nodes[0], r.lead.dominated)].fn, 0)
	}
	for _, x := range r.c.plan.values.All() {
		rank, on := way[x.Func]
		if !on && r.c.plan.rootFunc == 0 && r.c.plan.root(x.Func) {
			rank, on = way[0], true
		}
		if !on {
			continue
		}
		list = append(list, feature{x, false, rank})
		if x.Kind == "bytes" {
			list = append(list, feature{x, true, rank})
		}
	}
	return list
}

// value returns the value of a feature in an invocation.
func (f *feature) value(picks []pick) (p *pick, r *calls.Recorded) {
	for i := range picks {
		if picks[i].fn != f.Func {
			continue
		}
		for k := range picks[i].values {
			if v := &picks[i].values[k]; v.ID == f.ID {
				return &picks[i], v
			}
		}
	}
	return nil, nil
}

// examples returns the values of a feature by invocation.
func (r *reasoner) examples(f feature) []example {
	list := make([]example, len(r.invocations))
	for i := range list {
		list[i].compared = &r.invocations[i]
		f.read(&list[i])
	}
	return list
}

// read sets the value of an example. It reports whether the example has one.
func (f *feature) read(x *example) bool {
	_, v := f.value(x.picks)
	if v == nil {
		return false
	}
	x.number, x.isNumber = numberOf(v, f.length)
	if x.known = x.isNumber || !f.length; !f.length {
		x.text = v.Text()
	}
	return x.known
}

// best returns the condition on a feature that distinguishes slow examples best, or nil if there is none. If given is not nil, only
// those count for which that holds.
func (r *reasoner) best(f feature, all []example, given *test) *test {
	var examples []*example
	slow, usual := 0, 0
	for i := range all {
		x := &all[i]
		if !x.known || given != nil && !given.holds(&given.examples[i]) {
			continue
		}
		examples = append(examples, x)
		if x.slow {
			slow++
		} else {
			usual++
		}
	}
	least := minReasonUsual
	if given != nil {
		least = minReasonCalls
	}
	if slow < minReasonCalls || usual < least || given == nil && 2*slow < len(r.lead.dominated) {
		return nil
	}
	best := r.category(f, examples, slow)
	if t := r.threshold(f, examples); best == nil || t != nil && t.apart() > best.apart()+0.01 {
		best = t
	}
	if best == nil || float64(best.count) < minReasonShare*float64(best.of) || best.apart() < minReasonApart {
		return nil
	}
	best.examples = all
	return best
}

// category tests the value that most slow examples have.
func (r *reasoner) category(f feature, examples []*example, slow int) *test {
	if f.length {
		return nil
	}
	count := make(map[string]int)
	most := ""
	for _, x := range examples {
		if x.slow {
			if count[x.text]++; count[x.text] > count[most] || count[x.text] == count[most] && x.text < most {
				most = x.text
			}
		}
	}
	r.tried += len(count)
	if float64(count[most]) < minReasonShare*float64(slow) {
		return nil
	}
	return measured(f, "=", most, examples, func(x *example) bool { return x.text == most })
}

// threshold finds the threshold with the largest information gain. Slow and usual examples have the same weight.
func (r *reasoner) threshold(f feature, examples []*example) *test {
	var slow, usual []float64
	var weights []float64
	sorted := make([]*example, 0, len(examples))
	for _, x := range examples {
		if x.isNumber {
			sorted = append(sorted, x)
		}
	}
	slices.SortFunc(sorted, func(a, b *example) int { return cmp.Compare(a.number, b.number) })
	total := 0.0
	for _, x := range sorted {
		if x.slow {
			slow = append(slow, x.number)
		} else {
			total += x.weight
			usual, weights = append(usual, x.number), append(weights, total)
		}
	}
	if len(slow) < minReasonCalls || len(usual) < minReasonCalls || sorted[0].number == sorted[len(sorted)-1].number {
		return nil
	}
	// A cut is before or after the number of a slow example, since others only make it worse.
	var cuts []float64
	for i := range maxCuts / 2 {
		x := slow[i*(len(slow)-1)/(maxCuts/2-1)]
		if below, ok := before(sorted, x); ok {
			cuts = append(cuts, below)
		}
		cuts = append(cuts, x)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	best, gained := 0.0, 0.0
	for _, cut := range cuts { // values up to it are below
		s := float64(upTo(slow, cut)) / float64(len(slow))
		u := 0.0
		if k := upTo(usual, cut); k > 0 {
			u = weights[k-1] / total
		}
		if g := gain(s, u); g > gained {
			best, gained = cut, g
		}
	}
	r.tried += 2 * len(cuts)
	if gained == 0 {
		return nil
	}
	over := func(x *example) bool { return x.isNumber && x.number > best }
	upper := measured(f, ">", "", examples, over)
	lower := measured(f, "<=", "", examples, func(x *example) bool { return x.isNumber && x.number <= best })
	t := upper
	if lower.apart() > upper.apart() {
		t = lower
	}
	next := math.Inf(1)
	for _, x := range sorted {
		if x.number > best {
			next = x.number
			break
		}
	}
	t.Value = f.written(round(best, next))
	return t
}

// before returns the largest number of sorted examples below x.
func before(sorted []*example, x float64) (float64, bool) {
	at, _ := slices.BinarySearchFunc(sorted, x, func(e *example, x float64) int { return cmp.Compare(e.number, x) })
	if at == 0 {
		return 0, false
	}
	return sorted[at-1].number, true
}

// upTo returns how many of sorted numbers are at most x.
func upTo(sorted []float64, x float64) int {
	at, _ := slices.BinarySearchFunc(sorted, x, func(n, x float64) int {
		if n <= x {
			return -1
		}
		return 1
	})
	return at
}

// gain is the information in bits that a condition gives about whether a call is slow, if half of all are. It holds
// for the shares s of the slow calls and u of the others.
func gain(s, u float64) float64 {
	entropy := func(p float64) float64 {
		if p <= 0 || p >= 1 {
			return 0
		}
		return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
	}
	holds := (s + u) / 2
	g := 1.0
	if holds > 0 {
		g -= holds * entropy(s/(s+u))
	}
	if holds < 1 {
		g -= (1 - holds) * entropy((1-s)/(2-s-u))
	}
	return max(0, g)
}

// round returns the number with the fewest digits from low up to, but without, high. All of them divide the calls in
// the same way. Powers of two come first.
func round(low, high float64) float64 {
	if low != math.Trunc(low) || math.Abs(low) > 1<<53 {
		return low
	}
	if low >= 1 {
		if p := math.Ldexp(1, bits.Len64(uint64(low)-1)); p >= low && p < high {
			return p
		}
	}
	for unit := 1e15; unit > 1; unit /= 10 {
		if n := math.Ceil(low/unit) * unit; n >= low && n < high && (n != 0 || low == 0) {
			return n
		}
	}
	return low
}

// written returns a threshold as text.
func (f *feature) written(x float64) string {
	if f.Format == "duration" && !f.length {
		for _, u := range []struct {
			name string
			ns   float64
		}{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}} {
			if math.Abs(x) >= u.ns {
				return strconv.FormatFloat(x/u.ns, 'g', 6, 64) + u.name
			}
		}
		return strconv.FormatFloat(x, 'g', 6, 64) + "ns"
	}
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// measured tests a condition.
func measured(f feature, op, text string, examples []*example, holds func(*example) bool) *test {
	t := &test{feature: f, holds: holds}
	t.Condition = Condition{f.Func, f.Expression.Expression, f.Exit, f.length, op, text}
	all, with := 0.0, 0.0
	usual := 0
	for _, x := range examples {
		is := holds(x)
		if x.slow {
			t.of++
			if is {
				t.count++
			}
			continue
		}
		t.sample++
		all += x.weight
		if is {
			usual++
			with += x.weight
		}
	}
	if all > 0 {
		t.usual = with / all
	}
	t.chance = max(hypergeometricTail(t.of+t.sample, t.count+usual, t.of, t.count), inStretches(examples, holds))
	return t
}

// inStretches returns an upper limit of the probability that so many slow examples satisfy a condition, if in each
// stretch of time they satisfy it as often as all of the stretch. Stretches without usual examples do not count.
// If there are few usual examples, neighbours count as one stretch.
//
// The numbers of the stretches are hypergeometric. The limit is Chernoff's, with the larger moments of binomial numbers.
func inStretches(examples []*example, holds func(*example) bool) float64 {
	type count struct{ slow, all, with int }
	counts := make(map[stretch]*count)
	usual, last := 0, 0
	for _, x := range examples {
		if last = max(last, x.stretch.number); !x.slow {
			usual++
		}
	}
	together := max(1, 2*(last+1)/max(1, usual))
	at := func(x *example) stretch { return stretch{x.stretch.number / together, x.stretch.burst} }
	for _, x := range examples {
		s := counts[at(x)]
		if s == nil {
			s = new(count)
			counts[at(x)] = s
		}
		s.all++
		if x.slow {
			s.slow++
		}
		if holds(x) {
			s.with++
		}
	}
	observed := 0
	for _, x := range examples {
		if s := counts[at(x)]; x.slow && s.all > s.slow && holds(x) {
			observed++
		}
	}
	// The number of stretches with n slow examples and the probability p.
	type kind struct {
		n int
		p float64
	}
	kinds := make(map[kind]float64)
	expected := 0.0
	for _, s := range counts {
		if s.slow == 0 || s.all == s.slow {
			continue
		}
		k := kind{s.slow, float64(s.with) / float64(s.all)}
		kinds[k]++
		expected += float64(s.slow) * k.p
	}
	if float64(observed) <= expected {
		return 1
	}
	order := make([]kind, 0, len(kinds)) // for equal results in each run
	for k := range kinds {
		order = append(order, k)
	}
	slices.SortFunc(order, func(a, b kind) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.p, b.p)) })
	least := 0.0 // logarithm
	for t := 0.125; t < 20; t *= 1.25 {
		l := -t * float64(observed)
		for _, k := range order {
			l += kinds[k] * float64(k.n) * math.Log1p(k.p*math.Expm1(t))
		}
		least = min(least, l)
	}
	return math.Exp(least)
}

// together returns conditions on a and b that together distinguish slow calls clearly better than that of a alone, or
// nil. The counts of the second one are of both. Each threshold is the one among calls that satisfy the other condition:
// alone it may divide other calls, too.
func (r *reasoner) together(a, b *test) (first, second *test) {
	if a.feature.Expression == b.feature.Expression {
		return nil, nil
	}
	second, first = r.best(b.feature, b.examples, a), r.best(a.feature, a.examples, b)
	if second == nil || first == nil || max(first.chance, second.chance)*float64(r.tried) > maxReasonChance {
		return nil, nil
	}
	if refined := r.best(a.feature, a.examples, second); refined != nil {
		first = refined
	}
	var list []*example
	both := make(map[*example]bool)
	for i := range b.examples {
		if x, y := &b.examples[i], &a.examples[i]; x.known && y.known {
			list = append(list, x)
			both[x] = second.holds(x) && first.holds(y)
		}
	}
	t := measured(b.feature, second.Op, second.Value, list, func(x *example) bool { return both[x] })
	if t.apart() < a.apart()+0.01 {
		return nil, nil
	}
	return first, t
}

// timeOf returns the time of a call of a test's function that the lead is about.
func (r *reasoner) timeOf(t *test) func(*pick) float64 {
	if r.lead.kind == Slower && t.Func == r.lead.fn {
		return func(p *pick) float64 { return float64(p.self) }
	}
	return func(p *pick) float64 { return float64(p.ticks) }
}

// trend describes how the time of the function's calls depends on a number, or returns nil if it hardly does.
func (r *reasoner) trend(t *test) *Trend {
	time := r.timeOf(t)
	sample := r.c.valued.samples[t.Func]
	if sample == nil {
		return nil
	}
	list := slices.Clone(*sample)
	slices.SortFunc(list, func(a, b sampled) int { return cmp.Compare(a.hash, b.hash) })
	var x, y []float64
	for i := range list {
		if _, v := t.feature.value([]pick{list[i].pick}); v != nil {
			if n, ok := numberOf(v, t.feature.length); ok {
				x, y = append(x, n), append(y, time(&list[i].pick))
			}
		}
	}
	found := &Trend{Func: t.Func}
	chance := 1.0
	found.Rank, chance = rankCorrelation(x, y)
	if r.tried++; found.Rank < minRank || chance*float64(r.tried) > maxReasonChance {
		return nil
	}
	// The slow calls belong to the fit: they have the large values.
	var slowX, slowY, usualX, usualY []float64
	collect := func(picks []pick, xs, ys *[]float64) {
		if p, v := t.feature.value(picks); v != nil {
			if n, ok := numberOf(v, t.feature.length); ok {
				*xs, *ys = append(*xs, n), append(*ys, time(p))
			}
		}
	}
	for _, i := range r.lead.dominated {
		collect(r.ev.slow[i].picks, &slowX, &slowY)
	}
	for i := range r.c.valued.controls {
		for k := range r.c.valued.controls[i].kept {
			collect(r.c.valued.controls[i].kept[k].picks, &usualX, &usualY)
		}
	}
	x, y = append(x, slowX...), append(y, slowY...)
	if len(slowX) == 0 || len(usualX) == 0 {
		return nil
	}
	lost := mean(slowY) - mean(usualY)
	residuals := [3]float64{}
	fits := [3][2]float64{}
	for power := 1; power <= 2; power++ {
		base, each := fit(x, y, power)
		fits[power] = [2]float64{base, each}
		var off []float64
		for i := range x {
			off = append(off, math.Abs(y[i]-base-each*math.Pow(x[i], float64(power)))/max(1, y[i]))
		}
		slices.Sort(off)
		residuals[power] = off[len(off)/2]
		if each <= 0 {
			residuals[power] = math.Inf(1)
		}
	}
	power := 1
	if residuals[2] < 0.7*residuals[1] {
		power = 2
	}
	base, each := fits[power][0], fits[power][1]
	model := func(xs []float64) float64 {
		s := 0.0
		for _, x := range xs {
			s += base + each*math.Pow(x, float64(power))
		}
		return s / float64(len(xs))
	}
	explained := (model(slowX) - model(usualX)) / lost
	if residuals[power] > maxResidual || lost <= 0 || explained < minTrendShare || explained > 1/minTrendShare {
		return found
	}
	found.Power, found.Base, found.Each, found.Explained = power, base, each, min(1, explained)
	return found
}

func mean(x []float64) float64 { return sum(x) / float64(len(x)) }

// fit returns the line through points (x to a power, y) with the least squares of deviations relative to y, so
// that a few calls that were interrupted hardly count.
func fit(x, y []float64, power int) (base, each float64) {
	var s, sx, sy, sxx, sxy float64
	for i := range x {
		w := 1 / max(1, y[i]) / max(1, y[i])
		v := math.Pow(x[i], float64(power))
		s += w
		sx += w * v
		sy += w * y[i]
		sxx += w * v * v
		sxy += w * v * y[i]
	}
	d := s*sxx - sx*sx
	if d <= 0 {
		return 0, 0
	}
	each = (s*sxy - sx*sy) / d
	return (sy - each*sx) / s, each
}
