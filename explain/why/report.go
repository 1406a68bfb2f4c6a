package why

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/explain/iocalls"
	"github.com/xray-tools/xray/reader"
)

// Report explains why the slow calls of a function were slow. Times are in ticks.
type Report struct {
	Clock     reader.Clock
	Root      reader.FuncID   // 0 if there are several
	Roots     []reader.FuncID // all of them
	RootLabel string          // the expression that selects them, or ""
	RootDepth int             // of the options
	// Candidates are the functions that were considered if no root was given, the chosen
	// one first.
	Candidates  []Candidate
	Invocations uint64
	Threads     int
	Start       uint64 // TSC to which times in the trace are relative
	// Durations of all invocations. The error of quantiles is at most one part in 128.
	Median, P99, Longest uint64
	Slow, Usual          Cohort
	Kept                 int          // slow calls that were examined
	Excess               float64      // mean of the slow calls minus mean of the usual ones
	Causes               []Cause      // in order of their shares
	Preempted            *Preempted   // nil if the trace has no off-CPU times
	Interrupted          *Interrupted // nil if the trace has no interrupts
	// Rest is the share of the excess that is not in Preempted, Interrupted or Causes, and includes Suspects. All
	// these shares are between 0 and 1, and add up to 1.
	Rest          float64
	Meanwhile     *Holder   // what other threads did while Rest was lost; nil if nothing special
	Suspects      []Suspect // possible causes, not proven
	Loop          *Loop     // what calls waited for before they began; nil if nothing was found
	Decomposition []Part
	Exemplars     []Exemplar // typical slow calls, if no cause is named
	Warnings      []string
	// Origins are those of the options.
	Origins []Origin
	// Slowest are the slowest calls of the root, with Options.Slowest, or nil if another pass has to find them.
	Slowest *invocation.Slowest
}

// Candidate is a function that may be a root.
type Candidate struct {
	Func        reader.FuncID
	Calls       uint64
	Median, P99 uint64
	Total       float64 // of all calls
	Lost        float64 // by calls from the 99th percentile up, beyond the median
}

// Cohort is a set of invocations.
type Cohort struct {
	Rule  string
	Count uint64
	Mean  float64
}

// Cause is a named cause.
type Cause struct {
	Kind      Kind
	Func      reader.FuncID
	Lock      uint64           // address; 0 if unknown
	Taker     reader.FuncID    // the function that took the lock first; 0 if unknown
	Share     float64          // of the excess
	Low, High float64          // 95 % interval of Share
	Blocked   float64          // share of its time in which the thread was blocked; 0 if the trace has no off-CPU times
	Faulted   float64          // share of the blocked time in waits with major page faults
	Dominates int              // slow calls that are mostly due to it
	ByChance  bool             // the scheduler can be the reason for this kind of cause
	Chance    float64          // probability that it is
	Most      reader.FuncID    // of a new path: the function with most of its time; 0 if that is Func
	Between   [2]reader.FuncID // calls before and after the lost time; 0 for none
	Paths     []CausePath
	Holder    *Holder // nil if none was found
	// Spins says that the wait takes the CPU. Preempted is the share of the time that slow calls lost preempted, waiting for
	// the recorder or interrupted, in which its function was.
	Spins     bool
	Preempted float64
	Queue     *Queue // how its calls wait for each other; nil if that is not known
	blocks    bool   // the trace shows that the thread was blocked
	argued    bool   // Reason proves it
	// Incident is the number of the cause's incident, from 1 for the one with the largest share: causes that
	// have the same reason.
	Incident int
	// Descriptors are the files and sockets that I/O functions of the C library used in the calls that the cause
	// dominates: Func and Most, and those that Func calls, what took most of the time first. Explain does not set it.
	Descriptors  []Descriptor
	inside       []reader.FuncID // whose time it is: Func, and for more calls and new paths those that Func calls
	omitted      int             // paths beyond Paths
	calls        callSpans
	Associations []Association
	Reason       *Reason // what the calls were called with; nil if that distinguishes them not
	Along        []Companion
	Exemplars    []Exemplar
}

// Descriptor is a file or socket, and how many calls of a function used it.
type Descriptor struct {
	Func          reader.FuncID
	Name          string
	Calls, Failed uint64         // ended calls, and those whose result is negative
	errors        iocalls.Errors // of Failed, if the trace has them
	ticks         uint64         // of all calls
}

// callSpans are the times of calls by thread: when each began, and the latest end of those that began until then.
type callSpans map[reader.Thread][]span

// Dominated reports whether a thread was in a slow call that the cause dominates. It may be called concurrently.
func (c *Cause) Dominated(t reader.Thread, tsc uint64) bool {
	_, ok := c.dominatedSince(t, tsc)
	return ok
}

// dominatedSince also returns when that call began.
func (c *Cause) dominatedSince(t reader.Thread, tsc uint64) (start uint64, ok bool) {
	list := c.calls[t]
	i := sort.Search(len(list), func(i int) bool { return list[i].from > tsc })
	if i == 0 || list[i-1].to < tsc {
		return 0, false
	}
	return list[i-1].from, true
}

// inside returns the functions whose time a lead is, in the calls that it dominates: more calls and new paths include
// their callees.
func (e *evidence) inside(l *lead) (list []reader.FuncID) {
	within := make([]bool, len(e.n)) // by node
	for _, n := range l.nodes {
		within[n] = true
	}
	seen := make(map[reader.FuncID]bool)
	for n := range within { // callees come after their callers
		if parent := e.tree.steps[n].parent; (l.kind == MoreCalls || l.kind == NewPath) && n > 0 && within[parent] {
			within[n] = true
		}
	}
	for _, i := range l.dominated {
		for _, v := range e.slow[i].visits {
			if fn := e.tree.steps[v.node].fn; within[v.node] && !seen[fn] {
				seen[fn] = true
				list = append(list, fn)
			}
		}
	}
	slices.Sort(list)
	return list
}

func (e *evidence) spans(l *lead) callSpans {
	calls := make(callSpans)
	for _, i := range l.dominated {
		v := &e.slow[i]
		calls[v.id] = append(calls[v.id], span{v.start, v.start + v.duration})
	}
	for _, list := range calls {
		slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		for i := range list[1:] {
			list[i+1].to = max(list[i+1].to, list[i].to)
		}
	}
	return calls
}

// CausePath is a call path of a cause.
type CausePath struct {
	Path  []reader.FuncID // from the root
	Share float64         // of the excess
	// Usual is per usual invocation. Affected is per invocation that the cause dominates.
	// Times include all callees if Callees is set, as on new paths. If the trace has off-CPU
	// times, they exclude foreign time. They are then only CPU time if the function is slower,
	// and only blocked time if it is blocked.
	Usual, Affected Amount
	Callees         bool
}

// Amount is calls and their time in an invocation.
type Amount struct{ Calls, Ticks float64 }

// Companion is a change that rises and falls with a cause.
type Companion struct {
	Kind Kind
	Func reader.FuncID
}

// Part is the contribution of one path to the mean excess, in ticks.
type Part struct {
	Path              []reader.FuncID
	Lock              uint64
	Slower, More, New float64
	// Blocked and Preempted are 0 if the trace has no off-CPU times. Preempted includes waiting
	// for the recorder and interrupts. Slower excludes Blocked, and all others exclude
	// Preempted.
	Blocked, Preempted float64
}

// Exemplar is an example of a slow call.
type Exemplar struct {
	Thread reader.Thread
	// Number is the call's position among all calls of the root in the trace by time, from 1,
	// as in slice and slowest. It is 0 if those commands do not have the call.
	Number   uint64
	Start    uint64 // TSC
	Duration uint64
	Tree     []Row
	index    int // of the thread, as in reader.Block
	depth    uint32
	ended    int // calls of the root in the thread that ended before
}

// Row is a path of an exemplar next to the median call. Times include callees.
type Row struct {
	Func         reader.FuncID
	Depth        int
	Slow, Median Amount
	Differs      bool // has at least a tenth of the difference
}

// fewSlow is the number of slow calls below which a report has a warning.
const fewSlow = 20

// report returns the report without paths.
func (e *explainer) report(d *durations, c *cohorts) *Report {
	o := &e.opts
	var q [2]uint64
	d.sample.Quantiles(q[:], 0.5, 0.99)
	r := &Report{
		Clock: o.Clock, RootDepth: o.RootDepth, Root: c.plan.rootFunc, RootLabel: o.RootLabel, Candidates: e.candidates,
		Invocations: d.sample.Count(), Start: e.start, Median: q[0], P99: q[1], Longest: d.sample.Max(),
		Slow:  Cohort{Rule: o.Slow.Text, Count: c.slowCount},
		Usual: Cohort{Rule: fmt.Sprintf("p%g..p%g", 100*o.UsualLow, 100*o.UsualHigh), Count: c.usual.count},
		Kept:  len(c.slow),
		Rest:  1,
	}
	if o.UsualTo > 0 {
		r.Usual.Rule = o.Clock.Format(o.UsualFrom) + ".." + o.Clock.Format(o.UsualTo)
	}
	threads := make(map[reader.Thread]bool)
	for _, t := range c.threads {
		if t != nil && t.total > 0 {
			threads[c.plan.identity(t.id)] = true
		}
	}
	r.Threads = len(threads)
	for fn := range d.roots {
		r.Roots = append(r.Roots, fn)
	}
	slices.Sort(r.Roots)
	if c.slowCount > 0 {
		r.Slow.Mean = float64(c.slowTicks) / float64(c.slowCount)
	}
	if c.usual.count > 0 {
		r.Usual.Mean = float64(c.usual.ticks) / float64(c.usual.count)
	}
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if e.nested() {
		warn("Calls of the root inside others count, too, so their times overlap.")
	}
	switch {
	case c.usual.count == 0 || len(c.slow) == 0:
		warn("The durations differ too little to tell slow calls from usual ones.")
	case c.slowCount == 1:
		warn("There is only 1 slow call, too few to report rare causes.")
	case c.slowCount < fewSlow:
		warn("There are only %d slow calls, too few to report rare causes.", c.slowCount)
	}
	if uint64(len(c.slow)) < c.slowCount {
		warn("xray analyzed a sample of %d of the %d slow calls.", len(c.slow), c.slowCount)
	}
	if p := d.pruned(e); p > 0 && o.Pruned > 0 {
		warn("The recorder dropped calls shorter than %s. The trace does not show when they ran, and their time is part of their callers'.",
			o.Clock.Format(p))
	} else if p > 0 {
		warn("No call is shorter than %s, so the recorder probably dropped short calls. Their number is unknown, and their "+
			"time is part of their callers'.", o.Clock.Format(p))
	} else if p := d.shortest(e); p > 0 {
		warn("Hardly any call is shorter than %s. If the recorder dropped short calls, their number is unknown, and a cause may "+
			"name their callers instead.", o.Clock.Format(p))
	}
	if p := d.pruned(e); p > 0 && d.sample.Count() > 0 && d.sample.Quantile(0.005) < 2*p {
		warn("Calls of the root that are shorter than %s are missing, so the usual calls seem longer than they are. Record with a threshold "+
			"below the usual duration of the root.", o.Clock.Format(p))
	}
	if d.partial > 0 {
		warn("%s ignored because records are missing inside.", callsOfRoot(uint64(d.partial), "was", "were"))
	}
	if d.truncated > 0 {
		warn("%s ignored because the trace has only a part of them: they began before it or were still open at its end.", callsOfRoot(uint64(d.truncated), "was", "were"))
	}
	if d.inferred > 0 {
		warn("%s an inferred end, which may be too late.", callsOfRoot(uint64(d.inferred), "has", "have"))
	}
	return r
}

// fill adds the results of the pass over paths.
func (e *explainer) fill(r *Report, c *cohorts, ev *evidence, f found) {
	kept := float64(len(ev.slow))
	r.Excess = (ev.total + ev.foreignSum) / kept
	if ev.offCPU {
		var interrupted *Interrupted
		r.Preempted, interrupted = ev.apart()
		r.Preempted.Instead = e.instead(ev.slow)
		r.Preempted.Throttled = e.throttled(ev.slow)
		if e.opts.Calls.Interrupts != nil {
			r.Interrupted, interrupted.By = interrupted, e.interruptedBy(ev.slow)
		}
		if r.Preempted.Recorder >= preemptedShare {
			r.Warnings = append(r.Warnings, "Threads waited for the recorder. Record fewer calls, or use --ring or --drop.")
		}
	}
	for n := range ev.n {
		p := Part{Path: ev.tree.functions(node(n)), Lock: ev.tree.steps[n].lock}
		p.Slower, p.More, p.New = ev.amounts[Slower][n]/kept, ev.amounts[MoreCalls][n]/kept, ev.amounts[NewPath][n]/kept
		p.Blocked, p.Preempted = ev.amounts[Blocked][n]/kept, ev.foreignIn[n]/kept
		if p.Slower != 0 || p.More != 0 || p.New != 0 || p.Blocked != 0 || p.Preempted != 0 {
			r.Decomposition = append(r.Decomposition, p)
		}
	}
	for _, l := range ev.leads {
		// A lock that nobody is known to hold may have been held by a thread that was preempted.
		h := f.holders[l]
		l.behind = l.named && f.behind[l] == behindOne
		l.unheld = l.named && !l.behind && ev.offCPU && (l.waits == LockWait && l.share < halfOfLoss && h == nil ||
			f.behind[l] == overload && (h == nil || h.Covered < headline) ||
			ev.waitsAsUsual(l) && len(ev.fleet(l, c)) == 0 && (h == nil || h.Covered < headline) && !ev.isHolder(l, &f))
		if l.unheld && c.valued != nil && l.waits == Slower && ev.isArgued(l, c) {
			l.unheld, l.argued = false, true
		}
		l.named = l.named && !l.unheld && !l.behind
	}
	r.Suspects = ev.suspects(c)
	for _, l := range ev.leads {
		if l.named {
			r.Causes = append(r.Causes, e.cause(l, c, ev, &f))
		}
	}
	r.Meanwhile = f.rest
	r.bound()
	r.link()
	r.gather()
	if len(r.Causes) > 0 {
		return
	}
	all := make([]int, len(ev.slow))
	for i := range all {
		all[i] = i
	}
	r.Exemplars = ev.exemplars(all, ev.excess, &c.middle)
}

// halfOfLoss is the share of the excess from which a wait for a lock is a cause even if nobody is known to hold it.
const halfOfLoss = 0.5

// bound makes all shares at least 0 and their sum, with the rest, 1. What slow calls gained elsewhere is
// taken from all losses in proportion.
func (r *Report) bound() {
	var shares []*float64
	for i := range r.Causes {
		shares = append(shares, &r.Causes[i].Share)
	}
	for i := range r.Suspects {
		shares = append(shares, &r.Suspects[i].Share)
	}
	if r.Preempted != nil {
		shares = append(shares, &r.Preempted.Share, &r.Preempted.Recorder)
	}
	if r.Interrupted != nil {
		shares = append(shares, &r.Interrupted.Share)
	}
	lost := 0.0
	for _, x := range shares {
		*x = max(0, *x)
		lost += *x
	}
	scale := 1 / max(1, lost)
	for _, x := range shares {
		*x *= scale
	}
	within := func(x float64) float64 { return min(1, max(0, x*scale)) }
	for i := range r.Causes {
		c := &r.Causes[i]
		c.Low, c.High = min(c.Share, within(c.Low)), max(c.Share, within(c.High))
		for j := range c.Paths {
			c.Paths[j].Share = min(c.Share, within(c.Paths[j].Share))
		}
	}
	r.Rest = max(0, 1-lost*scale)
	for i := range r.Suspects {
		r.Rest += r.Suspects[i].Share
	}
}

// link finds the causes that make the holders of other causes slow.
func (r *Report) link() {
	for i := range r.Causes {
		h := r.Causes[i].Holder
		if h == nil {
			continue
		}
		for j := range r.Causes {
			if c := &r.Causes[j]; j != i && h.Cause == 0 && c.runs(h) {
				h.Cause = j + 1
			}
		}
	}
}

// runs reports whether a cause is the holder's function, or on a path inside its scope.
func (c *Cause) runs(h *Holder) bool {
	if c.Func == h.Self || c.Func == h.Scope {
		return true
	}
	for _, p := range c.Paths {
		if slices.Contains(p.Path[1:], h.Scope) {
			return true
		}
	}
	return false
}

// exemplars returns all exemplars of the report.
func (r *Report) exemplars() []*Exemplar {
	var list []*Exemplar
	for i := range r.Exemplars {
		list = append(list, &r.Exemplars[i])
	}
	for i := range r.Causes {
		for j := range r.Causes[i].Exemplars {
			list = append(list, &r.Causes[i].Exemplars[j])
		}
	}
	return list
}

// Shown selects up to n exemplars: the most typical ones of every cause in turn, or typical
// slow calls if no cause is named. Each call occurs once. causes has the number of each
// exemplar's cause, from 1, or 0 without a cause.
func (r *Report) Shown(n int) (list []*Exemplar, causes []int) {
	add := func(e *Exemplar, cause int) {
		if !slices.ContainsFunc(list, func(o *Exemplar) bool { return o.Thread == e.Thread && o.Start == e.Start }) {
			list, causes = append(list, e), append(causes, cause)
		}
	}
	for i := range r.Exemplars {
		add(&r.Exemplars[i], 0)
	}
	for turn := range exemplarsOfCause {
		for i := range r.Causes {
			if of := r.Causes[i].Exemplars; turn < len(of) {
				add(&of[turn], i+1)
			}
		}
	}
	n = min(n, len(list))
	return list[:n], causes[:n]
}

// exemplarsOfCause is the maximum number of exemplars of a cause.
const exemplarsOfCause = 3

func (e *explainer) cause(l *lead, c *cohorts, ev *evidence, f *found) Cause {
	h := f.holders[l]
	k := Cause{
		Kind: l.kind, Func: l.fn, Lock: l.lock, Taker: f.taken[l], Share: l.share * ev.total / (ev.total + ev.foreignSum),
		Spins: l.spins && (l.waits != Slower || h != nil), Queue: l.queue,
		Blocked: l.blocked, Faulted: l.faulted, blocks: l.kind == Blocked, argued: l.argued,
		Dominates: len(l.dominated), Chance: l.chance, ByChance: ev.byChance(l), Holder: h,
		Associations: ev.associate(l, c), Exemplars: ev.exemplars(l.dominated, l.x, &c.middle),
		omitted: max(0, len(l.nodes)-maxPaths), calls: ev.spans(l), inside: ev.inside(l),
	}
	k.Low, k.High = interval(l.x, ev.lost(), e.opts.Seed)
	if l.kind == Slower {
		k.Between = ev.between(l)
	}
	switch {
	case l.waits != Slower && l.kind != MoreCalls:
		k.Kind = l.waits
	case h != nil && l.kind != NewPath:
		k.Kind = Wait
	}
	if l.kind == NewPath {
		k.Most = ev.mostOf(l)
	}
	if k.Spins && ev.foreignSum > 0 {
		for _, n := range l.nodes {
			k.Preempted += max(0, ev.foreignIn[n]) / ev.foreignSum
		}
		k.Preempted = min(1, k.Preempted)
	}
	k.Reason = ev.reason(l, c, k.Kind)
	for _, a := range l.along {
		k.Along = append(k.Along, Companion{a.kind, a.fn})
	}
	for _, n := range l.nodes[:min(len(l.nodes), maxPaths)] {
		k.Paths = append(k.Paths, ev.path(l, n))
	}
	return k
}

// mostOf returns the function that has most of the time of a new path, or 0 if that is the
// path's first new function.
func (e *evidence) mostOf(l *lead) reader.FuncID {
	if most := e.tree.steps[e.most(l.nodes[0], l.dominated)].fn; most != l.fn {
		return most
	}
	return 0
}

// maxPaths is the maximum number of paths of a cause.
const maxPaths = 5

// path describes a path of a lead.
func (e *evidence) path(l *lead, n node) CausePath {
	p := CausePath{Path: e.tree.functions(n), Share: e.amounts[l.kind][n] / (e.total + e.foreignSum), Callees: l.kind == NewPath}
	p.Usual = Amount{e.n[n], e.s[n]}
	switch l.kind {
	case NewPath:
		p.Usual.Ticks = e.n[n] * e.v[n]
	case Blocked:
		p.Usual.Ticks = e.b[n]
	case Slower:
		p.Usual.Ticks -= e.b[n]
	}
	for _, i := range l.dominated {
		for _, v := range e.slow[i].visits {
			if v.node == n {
				p.Affected.Calls += float64(v.calls)
			} else if !p.Callees || e.rare[v.node] != n {
				continue
			}
			ticks := v.self - foreign(v.off)
			switch l.kind {
			case Blocked:
				ticks = v.off.Blocked
			case Slower:
				ticks -= v.off.Blocked
			}
			p.Affected.Ticks += float64(ticks)
		}
	}
	count := float64(max(1, len(l.dominated)))
	p.Affected.Calls /= count
	p.Affected.Ticks /= count
	return p
}

// between returns the calls around the longest hole of most calls that a lead dominates, or
// zeros.
func (e *evidence) between(l *lead) [2]reader.FuncID {
	count := make(map[[2]reader.FuncID]int)
	for _, i := range l.dominated {
		if h, ok := e.holeOf(l, i); ok {
			count[[2]reader.FuncID{h.before, h.after}]++
		}
	}
	for b, k := range count {
		if 2*k > len(l.dominated) {
			return b
		}
	}
	return [2]reader.FuncID{}
}

// exemplars returns the calls with the median and the quartiles of x, the median first.
func (e *evidence) exemplars(calls []int, x []float64, middle *rootCall) []Exemplar {
	order := slices.Clone(calls)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	var list []Exemplar
	last := -1
	for _, at := range []int{len(order) / 2, len(order) / 4, 3 * len(order) / 4} {
		i := order[at]
		if i == last {
			continue
		}
		last = i
		v := &e.slow[i]
		list = append(list, Exemplar{
			Thread: v.id, Start: v.start, Duration: v.duration, Tree: e.sideBySide(v, middle), index: v.thread, depth: v.depth, ended: v.index,
		})
	}
	return list
}

// sideBySide puts a slow call next to a usual one. Subtrees that hardly differ are one row.
func (e *evidence) sideBySide(slow, usual *rootCall) []Row {
	a, b := e.inclusive(slow), e.inclusive(usual)
	whole := a[0].Ticks - b[0].Ticks
	var rows []Row
	var visit func(n node, depth int)
	visit = func(n node, depth int) {
		d := max(a[n].Ticks, b[n].Ticks) - min(a[n].Ticks, b[n].Ticks)
		rows = append(rows, Row{e.tree.steps[n].fn, depth, a[n], b[n], d >= whole/10})
		if d < whole/100 {
			return
		}
		for _, c := range e.children[n] {
			if a[c].Calls > 0 || b[c].Calls > 0 {
				visit(c, depth+1)
			}
		}
	}
	visit(0, 0)
	return rows
}

// inclusive returns calls and total time, by node.
func (e *evidence) inclusive(v *rootCall) []Amount {
	a := make([]Amount, len(e.n))
	for _, w := range v.visits {
		a[w.node] = Amount{float64(w.calls), float64(w.self)}
	}
	for i := len(a) - 1; i > 0; i-- {
		a[e.tree.steps[i].parent].Ticks += a[i].Ticks
	}
	return a
}
