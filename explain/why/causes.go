package why

import (
	"cmp"
	"math"
	"slices"
)

const (
	maxGroups  = 64    // maximum number of candidates for causes
	minGroup   = 0.005 // minimum share of the excess of such a group
	dominance  = 0.3   // minimum share of a call's excess of the cause that dominates it
	minLow     = 0.02  // minimum lower bound of a named cause's share
	minCalls   = 3     // minimum number of slow calls that a cause dominates
	minFar     = 2     // the same if these lose far more than usual calls vary
	maxChance  = 1e-4  // maximum probability that the scheduler caused it
	maxBeside  = 1e-8  // the same, counting only calls that named causes do not dominate
	maxAlone   = 1e-2  // the same if all disturbances elsewhere are far smaller
	minDensity = 4     // minimum ratio of a lead's density to that of leads that are not named
	minApart   = 20    // the same by number of calls, if these are as slow as the others
	mostExcess = 0.99  // share of the excess in the slow calls that count as evidence
)

// lead is a candidate for a cause: a group, with the groups that rise and fall with it.
type lead struct {
	group
	along     []group
	nodes     []node
	x         []float64 // by slow call
	own       []float64 // x of only the group
	share     float64   // of the excess without foreign time
	low, high float64   // 95 % interval of share
	dominated []int     // slow calls
	chance    float64
	// likely is the probability that a thread that is stopped at a random moment loses the
	// time here.
	likely float64
	named  bool
	unheld bool // a wait for a lock that nobody is known to hold
	behind bool // a wait for a thread that was preempted
	argued bool // an argument shows that it is no disturbance
	waits  Kind // Wait or LockWait if the name says so
	spins  bool // it may wait on the CPU: the trace shows that the thread was not blocked
	queue  *Queue
	// releases is set if it waits for a lock or a condition, so for another thread.
	releases bool
	// blocked is the part of the lead's time in which the thread was blocked, in the calls
	// that the lead dominates.
	blocked float64
	// faulted is the part of that time in waits with major page faults.
	faulted float64
}

// evidence is how much time the slow calls lost, and where.
type evidence struct {
	*model
	slow   []rootCall
	offCPU bool // the trace says when threads were off CPU
	// Foreign time belongs to no function, so it is kept apart. By slow call:
	excess     []float64 // without foreign time
	foreign    []float64 // foreign time minus the usual mean
	total      float64   // of excess
	foreignSum float64   // of foreign
	// amounts are sums over the slow calls, by kind and node.
	amounts   [parts][]float64
	foreignIn []float64 // foreign time minus the usual mean, by node
	leads     []*lead
	// pruned means that the recorder dropped short calls. Such a call appears in the trace if
	// its thread is stopped in it.
	pruned bool
	// Self time and calls of all paths, per usual invocation.
	selfAll, callsAll float64
	// spread is the difference between the durations of the shortest and the longest usual
	// calls.
	spread float64
}

func newEvidence(m *model, slow []rootCall, offCPU bool) *evidence {
	e := &evidence{model: m, slow: slow, offCPU: offCPU}
	for k := range e.amounts {
		e.amounts[k] = make([]float64, len(m.n))
	}
	e.foreignIn = make([]float64, len(m.n))
	d := newDecomposer(m)
	for i := range slow {
		out := float64(slow[i].foreign) - m.meanForeign
		e.foreign = append(e.foreign, out)
		e.excess = append(e.excess, float64(slow[i].duration)-m.mean-out)
		d.split(&slow[i], func(k Kind, n node, x float64) { e.amounts[k][n] += x })
		for _, v := range slow[i].visits {
			e.foreignIn[v.node] += float64(foreign(v.off))
		}
	}
	for n, out := range m.foreign {
		e.foreignIn[n] -= out * float64(len(slow))
	}
	e.total, e.foreignSum = sum(e.excess), sum(e.foreign)
	e.group(d)
	e.merge()
	e.dominate()
	return e
}

// lost returns how much each slow call lost, including foreign time.
func (e *evidence) lost() []float64 {
	if !e.offCPU {
		return e.excess
	}
	lost := slices.Clone(e.excess)
	for i, x := range e.foreign {
		lost[i] += x
	}
	return lost
}

// group finds the groups with most of the excess, and their amounts by slow call.
func (e *evidence) group(d *decomposer) {
	totals := make(map[group]*lead)
	for k := range Kind(parts) {
		for n, x := range e.amounts[k] {
			if x == 0 {
				continue
			}
			g := e.model.group(k, node(n))
			l := totals[g]
			if l == nil {
				l = &lead{group: g}
				totals[g] = l
			}
			l.share += x / e.total
			l.nodes = append(l.nodes, node(n))
		}
	}
	for _, l := range totals {
		if l.share >= minGroup {
			e.leads = append(e.leads, l)
		}
	}
	slices.SortFunc(e.leads, func(a, b *lead) int {
		return cmp.Or(cmp.Compare(b.share, a.share), a.group.compare(b.group))
	})
	e.leads = e.leads[:min(len(e.leads), maxGroups)]
	chosen := make(map[group]*lead)
	for _, l := range e.leads {
		k := l.kind
		slices.SortFunc(l.nodes, func(a, b node) int {
			return cmp.Or(cmp.Compare(e.amounts[k][b], e.amounts[k][a]), cmp.Compare(a, b))
		})
		l.x = make([]float64, len(e.slow))
		chosen[l.group] = l
	}
	for i := range e.slow {
		d.split(&e.slow[i], func(k Kind, n node, x float64) {
			if x == 0 {
				return
			}
			if l := chosen[e.model.group(k, n)]; l != nil {
				l.x[i] += x
			}
		})
	}
	for _, l := range e.leads {
		l.own = slices.Clone(l.x)
	}
}

func (g group) compare(h group) int {
	return cmp.Or(cmp.Compare(g.fn, h.fn), cmp.Compare(g.kind, h.kind), cmp.Compare(g.lock, h.lock))
}

// merge adds groups that rise and fall with a larger one to it.
func (e *evidence) merge() {
	e.moreFirst()
	var leads []*lead
	for _, g := range e.leads {
		at := slices.IndexFunc(leads, func(l *lead) bool { return e.belongTogether(l, g) })
		if at < 0 {
			leads = append(leads, g)
			continue
		}
		l := leads[at]
		l.along = append(l.along, g.group)
		for i := range l.x {
			l.x[i] += g.own[i]
		}
	}
	for _, l := range leads {
		l.share = sum(l.x) / e.total
	}
	slices.SortStableFunc(leads, func(a, b *lead) int { return cmp.Compare(b.share, a.share) })
	e.leads = leads
}

// moreFirst puts a group of more calls before the larger group in which the same function
// is slower, if the number of calls grows by a larger factor than the time per call. More
// calls also take longer because threads are stopped in them more often.
func (e *evidence) moreFirst() {
	for at, more := range e.leads {
		to := slices.IndexFunc(e.leads[:at], func(l *lead) bool { return e.multiplied(more, l) || e.repeats(l, more) })
		if to >= 0 {
			e.leads = slices.Insert(slices.Delete(e.leads, at, at+1), to, more)
		}
	}
}

// minMore is the minimum share of a group of more calls that moreFirst moves.
const minMore = 0.05

// multiplied reports whether a function is slower mostly where it is called more often, and
// the number of calls grows by a larger factor than the time per call.
func (e *evidence) multiplied(more, slower *lead) bool {
	if more.kind != MoreCalls || slower.kind != Slower || more.fn != slower.fn || more.share < minMore {
		return false
	}
	usual := 0.0
	for _, n := range more.nodes {
		usual += e.n[n] * e.v[n]
	}
	number, lost := 0, 0.0
	for i, x := range more.own {
		y := max(0, slower.own[i])
		if x > dominance*(e.excess[i]-y) && x*(usual+x) > y*usual {
			number++
			lost += y
		}
	}
	return number >= minCalls && 2*lost > sum(slower.own)
}

// manyRepeats is the minimum ratio of a function's calls in a slow call to those in a usual one that make a loop of it.
const manyRepeats = 10

// repeats reports whether a function is slower because it calls another one again and again: it takes about the same
// time for each of these calls in addition.
func (e *evidence) repeats(slower, more *lead) bool {
	if more.kind != MoreCalls || slower.kind != Slower || !slices.ContainsFunc(more.nodes, func(n node) bool {
		return e.tree.steps[e.tree.steps[n].parent].fn == slower.fn
	}) {
		return false
	}
	usual := 0.0
	for _, n := range more.nodes {
		usual += e.n[n]
	}
	var each []float64
	in, all := 0.0, 0.0
	for i := range e.slow {
		number := -usual
		for _, v := range e.slow[i].visits {
			if slices.Contains(more.nodes, v.node) {
				number += float64(v.calls)
			}
		}
		own := max(0, slower.own[i])
		all += own
		if number >= manyRepeats*max(1, usual) && own > 0 {
			in += own
			each = append(each, own/number)
		}
	}
	return len(each) >= minCalls && in > 0.9*all && spreads(each) < 1
}

func (e *evidence) belongTogether(l, g *lead) bool {
	if g.kind == Slower && l.kind == MoreCalls && (g.fn == l.fn || e.repeats(g, l)) {
		return true
	}
	r, cosine := correlation(l.own, g.own)
	return r > 0.8 || cosine > 0.85 && e.related(l, g)
}

// related reports whether a path of one is a parent, child or sibling of one of the other.
func (e *evidence) related(l, g *lead) bool {
	few := func(n []node) []node { return n[:min(len(n), 8)] }
	for _, a := range few(l.nodes) {
		for _, b := range few(g.nodes) {
			p, q := e.tree.steps[a].parent, e.tree.steps[b].parent
			if a == b || a == q || b == p || p == q {
				return true
			}
		}
	}
	return false
}

// dominate finds the lead that each slow call is mostly due to.
func (e *evidence) dominate() {
	for i := range e.slow {
		var best *lead
		for _, l := range e.leads {
			if best == nil || l.x[i] > best.x[i] {
				best = l
			}
		}
		if best != nil && e.slow[i].late && best.x[i] > dominance*e.excess[i] {
			best.dominated = append(best.dominated, i)
		}
	}
	for _, l := range e.leads {
		l.blocked, l.faulted = e.blockedIn(l)
	}
}

// name decides which leads are causes, starting with the largest.
func (e *evidence) name(minShare float64, seed uint64) {
	for i := range e.n {
		e.selfAll += e.s[i] - e.b[i]
		e.callsAll += e.n[i]
	}
	for _, l := range e.leads {
		if l.share >= minShare {
			l.low, l.high = interval(l.x, e.excess, seed)
		}
	}
	for again := true; again; {
		again = false
		for _, l := range e.leads {
			if !l.named && l.share >= minShare && e.enough(l) && e.isSignificant(l) {
				l.named, again = true, true
			}
		}
	}
}

// enough reports whether a lead dominates enough slow calls. Two are enough if the scheduler
// cannot be the reason and they lose far more than usual calls vary.
func (e *evidence) enough(l *lead) bool {
	if e.offCPU && !e.byChance(l) && e.lossOf(l) > farBeyond*e.spread {
		return len(l.dominated) >= minFar
	}
	if len(l.dominated) < minCalls {
		return false
	}
	// The interval does not test magnitude: many resamples of few slow calls miss those that
	// matter.
	return l.low >= minLow || e.isAlone(l)
}

// lossOf returns the mean loss of the calls that a lead dominates.
func (e *evidence) lossOf(l *lead) float64 {
	x := 0.0
	for _, i := range l.dominated {
		x += l.x[i]
	}
	return x / float64(max(1, len(l.dominated)))
}

// Multiples of the difference between the longest and the shortest usual calls.
const (
	clearly   = 2  // more than durations vary
	farBeyond = 10 // far more
)

// judge computes the probability that the scheduler caused a lead of kind Slower, or of any
// kind if calls were dropped: that threads stopped at random moments are stopped there this
// often. Calls that named causes dominate may hide a lead, so judge also tries without them.
// It then requires a smaller probability, because a few long stops weigh heavily.
func (e *evidence) judge(l *lead) {
	l.likely = e.likely(l)
	l.chance = e.chance(l, make([]bool, len(e.slow)))
	if beside := e.chance(l, e.explained()); l.chance > maxChance && beside <= maxBeside {
		l.chance = beside
	}
}

// chance returns the probability for judge, counting slow calls that are not explained.
func (e *evidence) chance(l *lead, explained []bool) float64 {
	dominating := 0
	for _, o := range e.leads {
		if len(o.dominated) >= minCalls {
			dominating++
		}
	}
	counts, all := e.mainCalls(explained)
	its := 0
	for _, i := range l.dominated {
		if counts[i] {
			its++
		}
	}
	p := binomialTail(all, its, l.likely)
	if e.offCPU {
		p = min(p, e.amongLargest(l, counts))
	}
	return min(1, p*float64(dominating))
}

// amongLargest returns the probability that so many of the largest losses are a lead's by
// chance. It tries several numbers of losses, and corrects the smallest probability for
// that.
func (e *evidence) amongLargest(l *lead, counts []bool) float64 {
	var order []int
	for i := range e.slow {
		if counts[i] {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(e.excess[b], e.excess[a]) })
	least, tried, its := 1.0, 0, 0
	for k, i := range order {
		if _, is := slices.BinarySearch(l.dominated, i); is {
			its++
		}
		if n := k + 1; n >= minCalls && n&(n-1) == 0 || n == minCalls {
			tried++
			least = min(least, binomialTail(n, its, l.likely))
		}
	}
	return least * float64(tried)
}

// explained returns the slow calls that named causes dominate.
func (e *evidence) explained() []bool {
	explained := make([]bool, len(e.slow))
	for _, l := range e.leads {
		if l.named {
			for _, i := range l.dominated {
				explained[i] = true
			}
		}
	}
	return explained
}

// mainCalls returns the fewest slow calls without an explanation that have nearly all of
// their excess, and their number. Calls that are hardly slow would only hide what the
// others have in common.
func (e *evidence) mainCalls(explained []bool) (counts []bool, number int) {
	var order []int
	total := 0.0
	for i := range e.slow {
		if !explained[i] && e.slow[i].late {
			order = append(order, i)
			total += e.excess[i]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(e.excess[b], e.excess[a]) })
	counts = make([]bool, len(e.slow))
	for got := 0.0; number < len(order) && got < mostExcess*total; number++ {
		got += e.excess[order[number]]
		counts[order[number]] = true
	}
	return counts, number
}

// byChance reports whether stopped threads can look like the lead. A stop adds no calls,
// except one that the recorder would have dropped. Each of these needs a stop of its own.
func (e *evidence) byChance(l *lead) bool {
	return l.kind == Slower || l.kind != Blocked && e.pruned && e.callsOf(l) < manyStops*len(l.dominated)
}

// clearShare is a share of the excess that clearly exceeds the usual variation.
const clearShare = 0.2

// varies reports whether the lead may be normal variation: usual calls also differ in how
// often they call the function, and the longer ones call it more often.
func (e *evidence) varies(l *lead) bool {
	usual := 0.0
	for _, n := range l.nodes {
		usual += e.n[n]
	}
	return l.share < clearShare && float64(e.callsOf(l)) < 2*usual*float64(len(l.dominated))
}

// manyStops is a number of stops that does not occur within one call of the root.
const manyStops = 30

// callsOf returns how many calls of a lead's function there are in the slow calls that the
// lead dominates.
func (e *evidence) callsOf(l *lead) int {
	n := 0
	for _, i := range l.dominated {
		for _, v := range e.slow[i].visits {
			if slices.Contains(l.nodes, v.node) {
				n += int(v.calls)
			}
		}
	}
	return n
}

// exceeds reports whether the calls that a lead dominates lose clearly more to it, on
// average, than usual durations vary.
func (e *evidence) exceeds(l *lead) bool { return e.lossOf(l) > clearly*e.spread }

// blockedIn returns the part of a lead's time in which the thread was blocked, in the calls
// that the lead dominates, and the part of that in waits with major page faults.
func (e *evidence) blockedIn(l *lead) (part, faulty float64) {
	if !e.offCPU {
		return 0, 0
	}
	var blocked, faulted, all uint64
	for _, i := range l.dominated {
		for _, v := range e.slow[i].visits {
			at := v.node
			if l.kind == NewPath {
				at = e.rare[at]
			}
			if slices.Contains(l.nodes, at) {
				blocked += v.off.Blocked
				faulted += v.faulted
				all += v.self - foreign(v.off)
			}
		}
	}
	return float64(blocked) / float64(max(1, all)), float64(min(faulted, blocked)) / float64(max(1, blocked))
}

// likely returns the share of a lead's functions in usual CPU time or in usual calls,
// whichever is larger, because time lost to the recorder follows calls. The time of dropped
// calls belongs to their callers. If the recorder may have dropped most calls of a function,
// the shares of its callers count too, because a call appears if its thread is stopped in it.
func (e *evidence) likely(l *lead) float64 {
	var self, calls float64
	groups := append([]group{l.group}, l.along...)
	var callers []node
	for _, n := range l.nodes {
		if last := e.mostlyDropped(n); last != 0 {
			callers = append(callers, e.callersUpTo(n, last)...)
		} else if l.kind != Slower {
			callers = append(callers, e.tree.steps[n].parent)
		}
	}
	for i := range e.n {
		if slices.ContainsFunc(groups, func(g group) bool {
			return g.fn == e.tree.steps[i].fn && g.lock == e.tree.steps[i].lock
		}) || slices.Contains(callers, node(i)) {
			self += e.s[i] - e.b[i]
			calls += e.n[i]
		}
	}
	return max(self/e.selfAll, calls/e.callsAll)
}

// mostlyDropped returns the outermost path on the way to n whose calls the recorder may have
// mostly dropped, or 0 if there is none. Most calls of its caller do not have such a call.
func (e *evidence) mostlyDropped(n node) (outermost node) {
	for ; e.pruned && n != 0; n = e.tree.steps[n].parent {
		if e.r[n] < 0.5 {
			outermost = n
		}
	}
	return outermost
}

// callersUpTo returns the callers of the paths from n up to last.
func (e *evidence) callersUpTo(n, last node) (callers []node) {
	for {
		callers = append(callers, e.tree.steps[n].parent)
		if n == last {
			return callers
		}
		n = e.tree.steps[n].parent
	}
}

// isSignificant reports whether a lead is more than an effect of the scheduler. The scheduler
// stops functions in proportion to their time. An exception are threads that are interrupted
// a fixed time after they woke up, and therefore always in the same function. But then they
// lose as much time there as elsewhere.
func (e *evidence) isSignificant(l *lead) bool {
	if e.offCPU && !e.exceeds(l) {
		return false
	}
	if !e.byChance(l) {
		return l.kind != MoreCalls || !e.varies(l)
	}
	limit := maxChance
	if e.isAlone(l) {
		limit = maxAlone
	}
	if e.judge(l); l.chance > limit {
		return false
	}
	unnamed := 0.0
	for _, o := range e.leads {
		if o != l && !o.named && e.byChance(o) {
			unnamed += max(0, o.share)
		}
	}
	if l.likely >= 1 {
		return false
	}
	if l.likely == 0 {
		return true
	}
	odds := (1 - l.likely) / l.likely
	if l.share*odds < minDensity*math.Max(0.01, unnamed) {
		return false
	}
	its, others, alike := e.sameAsOthers(l)
	return !alike && !(e.offCPU && e.isRegular(l)) || float64(its)*odds >= minApart*float64(others)
}

// enough is the number of slow calls needed to compare their durations with others.
const enough = 8

// isAlone reports whether a lead stands out by magnitude, in a trace with off-CPU times. The
// calls that it dominates lose far more to it, on average, than usual calls vary. Each loses
// at least 3 times as much as any call loses to another lead that may be chance and is not
// named.
func (e *evidence) isAlone(l *lead) bool {
	if !e.offCPU || e.lossOf(l) <= farBeyond*e.spread {
		return false
	}
	least := math.Inf(1)
	for _, i := range l.dominated {
		least = min(least, l.x[i])
	}
	for _, o := range e.leads {
		if o == l || o.named || !e.byChance(o) {
			continue
		}
		for _, x := range o.x {
			if x > least/3 {
				return false
			}
		}
	}
	return true
}

// isRegular reports whether the lost time is always the same, and ends a fixed time after
// the call of the root began. An interrupt caused by waking the thread looks like this.
func (e *evidence) isRegular(l *lead) bool {
	var offsets, lengths []float64
	for _, i := range l.dominated {
		if h, ok := e.holeOf(l, i); ok {
			offsets = append(offsets, float64(h.end-e.slow[i].start))
			lengths = append(lengths, float64(h.ticks()))
		}
	}
	return len(offsets) >= minCalls && spreads(offsets) < regular && spreads(lengths) < regular
}

// regular is the spread below which times count as the same.
const regular = 0.05

// spreads returns the distance of the quartiles of x, relative to the median. It sorts x.
func spreads(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	return (x[3*n/4] - x[n/4]) / x[n/2]
}

// sameAsOthers reports whether the durations of the calls that a lead dominates cannot be
// distinguished from those of the others that no named lead dominates, and the numbers of
// both.
func (e *evidence) sameAsOthers(l *lead) (its, others int, alike bool) {
	explained := e.explained()
	var x, y []float64
	for _, i := range l.dominated {
		explained[i] = true
		x = append(x, e.excess[i])
	}
	for i, excess := range e.excess {
		if !explained[i] {
			y = append(y, excess)
		}
	}
	return len(x), len(y), len(x) >= enough && len(y) >= enough && sameDistribution(x, y) > 0.01
}

// most descends from a new path while one child has most of the time.
func (e *evidence) most(n node, inv []int) node {
	self := make([]float64, len(e.n))
	for _, i := range inv {
		for _, v := range e.slow[i].visits {
			self[v.node] += float64(v.self)
		}
	}
	for i := len(self) - 1; i > 0; i-- {
		self[e.tree.steps[i].parent] += self[i]
	}
	whole := self[n]
	for {
		next := node(-1)
		for _, c := range e.children[n] {
			if self[c] >= 0.7*whole && self[c] > 0 {
				next = c
			}
		}
		if next < 0 {
			return n
		}
		n, whole = next, self[next]
	}
}
