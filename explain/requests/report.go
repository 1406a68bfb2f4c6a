package requests

import (
	"cmp"
	"maps"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Rule selects slow requests: those from a quantile up, the Top longest, or those of at
// least Ticks, whichever is not 0.
type Rule struct {
	Quantile float64
	Top      uint64
	Ticks    uint64
	Text     string // as reports show it
}

// Report sums up requests. Times are in ticks.
type Report struct {
	Clock reader.Clock
	*Set
	Durations Quantiles
	Time      quantile.Sum // of all requests
	Classes   []Class      // the most frequent first; none if requests have no class
	Steps     []StepRow    // ordered by time, the longest first
	Slow      Comparison
	// Shown are the requests that are shown individually, the slowest first.
	Shown []*Request
}

// Quantiles describes durations. If Approximate is set, the relative error of percentiles is at
// most quantile.RelativeError.
type Quantiles struct {
	Count                    uint64
	P50, P90, P99, Max, Mean uint64
	Approximate              bool
}

func quantilesOf(s *quantile.Sample) Quantiles {
	q := Quantiles{Count: s.Count()}
	if q.Count > 0 {
		q.P50, q.P90, q.P99, q.Max, q.Approximate = s.Quantile(0.5), s.Quantile(0.9), s.Quantile(0.99), s.Max(), s.Approximate()
		q.Mean = uint64(s.Sum().Float64()/float64(q.Count) + 0.5)
	}
	return q
}

// Class sums up the requests of a class.
type Class struct {
	Name string
	Quantiles
	Slow int // number of slow requests
}

// StepRow sums up a step over requests.
type StepRow struct {
	Step
	// The time of the step on the critical path, over the requests that have it.
	Quantiles
	Time quantile.Sum
	Off  calls.Off // of Time, if Set.OffKnown
}

// Comparison compares slow with usual requests. The differences of the steps add up to the
// difference of the requests.
type Comparison struct {
	Rule                string
	Slow, Usual         int
	SlowMean, UsualMean float64 // durations
	Steps               []StepDifference
}

// StepDifference is the mean difference of a step in slow requests.
type StepDifference struct {
	Step
	SlowMean, UsualMean float64
	// Blocked and Queued are the differences of the mean off-CPU times, if
	// Set.OffKnown.
	Blocked, Queued float64
	// Dominates is the number of slow requests in which it is most of the extra time.
	Dominates int
}

// Report sums up the requests.
func (s *Set) Report(c reader.Clock, rule Rule) *Report {
	r := &Report{Clock: c, Set: s}
	var all quantile.Sample
	for i := range s.Requests {
		all.Add(s.Requests[i].Duration())
	}
	r.Durations, r.Time = quantilesOf(&all), all.Sum()
	if len(s.Requests) == 0 {
		return r
	}
	bounds := s.bounds(&all, rule)
	r.sumSteps()
	r.compare(rule, bounds)
	r.sumClasses(bounds)
	return r
}

// bounds returns the ranges of durations of slow and usual requests.
type bounds struct{ low, high, slow uint64 }

func (b *bounds) isSlow(r *Request) bool { return r.Duration() >= b.slow }

func (b *bounds) isUsual(r *Request) bool {
	d := r.Duration()
	return d >= b.low && d <= b.high && d < b.slow
}

func (s *Set) bounds(all *quantile.Sample, rule Rule) *bounds {
	b := &bounds{low: all.Quantile(0.25), high: all.Quantile(0.75)}
	switch {
	case rule.Top > 0:
		durations := make([]uint64, len(s.Requests))
		for i := range s.Requests {
			durations[i] = s.Requests[i].Duration()
		}
		slices.Sort(durations)
		b.slow = durations[len(durations)-int(min(rule.Top, uint64(len(durations))))]
	case rule.Ticks > 0:
		b.slow = rule.Ticks
	default:
		b.slow = all.Quantile(rule.Quantile)
	}
	return b
}

// times returns the time of each step in a request.
func (r *Request) times() map[Step]uint64 {
	m := make(map[Step]uint64)
	for _, p := range r.Path() {
		m[p.Step] += p.End - p.Start
	}
	return m
}

// offs returns the off-CPU times in each step of a request.
func (r *Request) offs() map[Step]calls.Off {
	if r.off == nil {
		return nil
	}
	m := make(map[Step]calls.Off)
	for _, p := range r.Path() {
		sum := m[p.Step]
		sum.Add(p.Off)
		m[p.Step] = sum
	}
	return m
}

func (r *Report) sumSteps() {
	offs := make(map[Step]calls.Off)
	samples := make(map[Step]*quantile.Sample)
	for i := range r.Requests {
		for step, t := range r.Requests[i].times() {
			if samples[step] == nil {
				samples[step] = new(quantile.Sample)
			}
			samples[step].Add(t)
		}
		for step, off := range r.Requests[i].offs() {
			sum := offs[step]
			sum.Add(off)
			offs[step] = sum
		}
	}
	for step, s := range samples {
		r.Steps = append(r.Steps, StepRow{step, quantilesOf(s), s.Sum(), offs[step]})
	}
	slices.SortFunc(r.Steps, func(a, b StepRow) int { return cmp.Or(b.Time.Compare(a.Time), a.Step.compare(b.Step)) })
}

func (s Step) compare(o Step) int {
	return cmp.Or(cmp.Compare(s.Kind, o.Kind), cmp.Compare(s.From, o.From), cmp.Compare(s.To, o.To))
}

// compare compares slow requests with usual ones.
func (r *Report) compare(rule Rule, b *bounds) {
	c := &r.Slow
	c.Rule = rule.Text
	slow, usualSums := make(map[Step]quantile.Sum), make(map[Step]quantile.Sum)
	var slowTime, usualTime quantile.Sum
	slowOff, usualOff := make(map[Step]calls.Off), make(map[Step]calls.Off)
	for i := range r.Requests {
		q := &r.Requests[i]
		sums, time, offs := slow, &slowTime, slowOff
		switch {
		case b.isSlow(q):
			c.Slow++
		case b.isUsual(q):
			c.Usual++
			sums, time, offs = usualSums, &usualTime, usualOff
		default:
			continue
		}
		time.Add(q.Duration())
		for step, t := range q.times() {
			sum := sums[step]
			sum.Add(t)
			sums[step] = sum
		}
		for step, off := range q.offs() {
			sum := offs[step]
			sum.Add(off)
			offs[step] = sum
		}
	}
	if c.Slow == 0 || c.Usual == 0 {
		return
	}
	mean := func(s quantile.Sum, n int) float64 { return s.Float64() / float64(n) }
	c.SlowMean, c.UsualMean = mean(slowTime, c.Slow), mean(usualTime, c.Usual)
	usual := make(map[Step]float64)
	for step, s := range usualSums {
		usual[step] = mean(s, c.Usual)
		if _, ok := slow[step]; !ok {
			slow[step] = quantile.Sum{}
		}
	}
	dominates := make(map[Step]int)
	for i := range r.Requests {
		if q := &r.Requests[i]; b.isSlow(q) {
			if step, ok := q.dominant(usual, c.UsualMean); ok {
				dominates[step]++
			}
		}
	}
	for step, s := range slow {
		more := func(slow, usual uint64) float64 {
			return float64(slow)/float64(c.Slow) - float64(usual)/float64(c.Usual)
		}
		a, b := slowOff[step], usualOff[step]
		c.Steps = append(c.Steps, StepDifference{
			Step: step, SlowMean: mean(s, c.Slow), UsualMean: usual[step], Dominates: dominates[step],
			Blocked: more(a.Blocked, b.Blocked), Queued: more(a.Queued, b.Queued),
		})
	}
	slices.SortFunc(c.Steps, func(x, y StepDifference) int {
		return cmp.Or(cmp.Compare(y.SlowMean-y.UsualMean, x.SlowMean-x.UsualMean), x.Step.compare(y.Step))
	})
}

// leastDominant is the minimum part of a request's extra time that a step needs to dominate
// it.
const leastDominant = 0.3

// dominant returns the step with most of a request's extra time.
func (r *Request) dominant(usual map[Step]float64, mean float64) (best Step, ok bool) {
	times := r.times()
	most := leastDominant * (float64(r.Duration()) - mean)
	for _, step := range slices.SortedFunc(maps.Keys(times), Step.compare) {
		if more := float64(times[step]) - usual[step]; more > most {
			best, most, ok = step, more, true
		}
	}
	return best, ok
}

func (r *Report) sumClasses(b *bounds) {
	type sums struct {
		durations quantile.Sample
		slow      int
	}
	classes := make(map[string]*sums)
	for i := range r.Requests {
		q := &r.Requests[i]
		c := classes[q.Class]
		if c == nil {
			c = new(sums)
			classes[q.Class] = c
		}
		c.durations.Add(q.Duration())
		if b.isSlow(q) {
			c.slow++
		}
	}
	if len(classes) == 1 && classes[""] != nil {
		return
	}
	for name, c := range classes {
		r.Classes = append(r.Classes, Class{name, quantilesOf(&c.durations), c.slow})
	}
	slices.SortFunc(r.Classes, func(a, b Class) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
}

// mostShown limits the requests of a key that are shown.
const mostShown = 100

// Show selects the requests to show: the slowest of a key, or of all if key is "".
func (r *Report) Show(key string, top int) {
	for i := range r.Requests {
		if q := &r.Requests[i]; key == "" || q.Key == key {
			r.Shown = append(r.Shown, q)
		}
	}
	slices.SortStableFunc(r.Shown, func(a, b *Request) int { return cmp.Compare(b.Duration(), a.Duration()) })
	if key != "" {
		top = mostShown
	}
	r.Shown = r.Shown[:min(top, len(r.Shown))]
}
