package why

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
)

// Rule selects slow calls: those from a quantile up, the Top longest, or those of at least
// Ticks. If Gap is set, slow calls are those beyond a gap in the durations, if there is one, or else
// those from the quantile up, and at least fewSlow calls.
type Rule struct {
	Quantile float64
	Top      uint64
	Ticks    uint64
	Gap      bool
	Text     string // as reports show it
}

// Options of [Explain].
type Options struct {
	// Root selects the functions whose outermost calls are explained. Nil selects the
	// function whose slow calls lose the most time.
	Root func(reader.FuncID) bool
	// RootLabel is the expression that selects the root, for commands in reports.
	RootLabel string
	Slow      Rule // zero means from the 99th percentile up
	// RootDepth is calls.Options.RootDepth.
	RootDepth int
	// Processes has for each file the number of the first file of the same process. nil means that
	// each file is of another process.
	Processes []int
	// Windows returns the windows of a file's recording. nil means that no recording has windows.
	Windows func(file int) []reader.RecordedWindow
	// UsualLow and UsualHigh are the quantiles between which calls are usual. If both are
	// 0, they are a quarter and three quarters.
	UsualLow, UsualHigh float64
	// UsualFrom and UsualTo are durations in ticks. They replace the quantiles if UsualTo is
	// not 0.
	UsualFrom, UsualTo uint64
	MinShare           float64 // minimum share of a named cause; 0 means 0.05
	// Role returns the effect of functions on other threads. It is called concurrently. nil
	// means Runs for all.
	Role func(reader.FuncID) Role
	// Loop returns the part of functions in event loops. It is called concurrently. nil means that there are none.
	Loop func(reader.FuncID) LoopRole
	// Argument selects functions whose logged arguments are compared: slow calls may have
	// them in common. It is called concurrently. nil selects all.
	Argument func(reader.FuncID) bool
	// Values are the recorded arguments and results, or nil. They are compared with the slow calls of causes.
	Values *calls.Expressions
	// PathDepth limits how far below the root paths go. Deeper time belongs to the last
	// function on the path. 0 means no limit.
	PathDepth int
	// Pruned is the duration in ticks below which the recorder dropped calls. If it is 0,
	// it is estimated from the calls, unless PrunedKnown is set: then the recorder dropped
	// none.
	Pruned      uint64
	PrunedKnown bool
	// From and To limit when calls begin, in ticks. If To is 0, there is no upper limit.
	From, To uint64
	// Seed is the random seed. Equal seeds give equal reports.
	Seed  uint64
	Clock reader.Clock
	// Origins are the origins of the trace's files, if these are from several machines. The
	// times of such files must not overlap, so that no thread seems to wait for another
	// machine.
	Origins []Origin
	// Sched are the scheduler events of each file of the trace, if they were recorded.
	Sched []*sched.Log
	// Quotas returns the CPU quotas of a file's process. nil means that there are none.
	Quotas func(file int) []reader.Quota
	// Slowest is the number of slowest calls of the root to keep for package slowest, if Root is nil.
	Slowest int
	// Finder has seen all calls of the trace, in a pass with the statistics FinderStats, if Root is nil. It may be nil.
	Finder      *RootFinder
	FinderStats *calls.Stats
	// MaxPaths limits the call paths, see calls.PathBudget. 0 means no limit.
	MaxPaths int
	// Calls are options for the passes. Paths and Nested are set as needed. Unmatched exits
	// are reported in one pass only.
	Calls calls.Options
}

// ErrNoInvocations means that there are no calls to explain.
var ErrNoInvocations = errors.New("there are no calls to explain")

// noInvocations is an ErrNoInvocations that says why.
type noInvocations string

func (e noInvocations) Error() string   { return string(e) }
func (noInvocations) Is(err error) bool { return err == ErrNoInvocations }

// maxSlow is the maximum number of slow calls that are kept. If there are more, a random
// sample is kept.
const maxSlow = 10_000

// Explain compares the slow calls of a function with its usual ones. It reads src several
// times. Memory grows with threads times depth, different paths, and the paths of at most
// 10,000 slow calls. The error is that of src, or [ErrNoInvocations].
func Explain(src calls.Source, opts Options) (*Report, *calls.Stats, error) {
	opts = opts.withDefaults()
	e := &explainer{opts: opts, plain: src, src: src}
	if opts.MaxPaths > 0 {
		e.budget = calls.NewPathBudget(opts.MaxPaths)
	}
	if err := e.chooseRoot(); err != nil {
		return nil, nil, err
	}
	d, stats, err := e.measure()
	if err != nil {
		return nil, stats, err
	}
	r, of, err := e.explain(d)
	if stats == nil {
		stats = of
	}
	if r != nil {
		r.Slowest = e.slowest
	}
	return r, stats, err
}

// FindRoots returns the functions that may be the root, as [Explain] does without Options.Root: the one whose
// slow calls lose the most time first, and with Options.Slowest the slowest calls of that one, or nil if another pass
// has to find them. The error is that of src, or [ErrNoInvocations].
func FindRoots(src calls.Source, opts Options) ([]Candidate, *invocation.Slowest, error) {
	opts.Root = nil
	e := &explainer{opts: opts.withDefaults(), plain: src, src: src}
	err := e.chooseRoot()
	return e.candidates, e.slowest, err
}

func (o Options) withDefaults() Options {
	if o.Slow == (Rule{}) {
		o.Slow = Rule{Quantile: 0.99, Text: "p99"}
	}
	if o.UsualLow == 0 && o.UsualHigh == 0 {
		o.UsualLow, o.UsualHigh = 0.25, 0.75
	}
	if o.MinShare == 0 {
		o.MinShare = 0.05
	}
	if o.Role == nil {
		o.Role = func(reader.FuncID) Role { return Runs }
	}
	if o.Calls.Shards <= 0 {
		o.Calls.Shards = runtime.GOMAXPROCS(0)
	}
	o.Calls.Nested, o.Calls.Paths = false, false
	return o
}

// explainer is a run of Explain.
type explainer struct {
	opts       Options
	plain      calls.Source // the unmodified trace
	src        calls.Source // with the ends of calls where records are missing
	prepared   bool         // the first pass has ended
	start      uint64       // TSC of the trace's first event
	last       uint64       // of the last one
	threads    int
	lossPoints lossPoints
	candidates []Candidate
	durations  *durations          // of the root, if the pass that chose it has found them
	slowest    *invocation.Slowest // the same for its slowest calls
	budget     *calls.PathBudget   // of passes that examine the root; nil for no limit
	// numbers are those of the slow calls, if the pass over other threads has found them. May be nil.
	numbers *invocation.Numbering
}

// run is a pass over the calls. Unmatched exits are reported only in the first. If that shows that
// records are missing, it is repeated with calls that end there.
func run[S calls.Analysis[S]](e *explainer, want calls.Options, newSink func() S) (S, *calls.Stats, error) {
	o := e.opts.Calls
	o.Nested, o.Paths, o.Roots, o.RootDepth, o.Budget, o.OffCPU = want.Nested, want.Paths, want.Roots, want.RootDepth, want.Budget, want.OffCPU
	sink, stats, err := calls.Run(e.src, o, newSink)
	e.opts.Calls.Unmatched, o.Unmatched = nil, nil
	if err != nil || e.prepared {
		return sink, stats, err
	}
	e.prepared = true
	if err = e.prepare(stats); err != nil || len(e.lossPoints) == 0 {
		return sink, stats, err
	}
	if e.budget != nil {
		e.budget = calls.NewPathBudget(e.opts.MaxPaths)
		if o.Budget != nil {
			o.Budget = e.budget
		}
	}
	return calls.Run(e.src, o, newSink)
}

// rooted returns the options of passes that examine the root and its callees.
func (e *explainer) rooted() calls.Options {
	return calls.Options{Paths: true, Roots: e.opts.Root, RootDepth: e.opts.RootDepth, Budget: e.budget, OffCPU: e.opts.Calls.OffCPU}
}

// nested reports whether calls of the root inside others are explained, too.
func (e *explainer) nested() bool { return e.opts.RootDepth == calls.EveryRoot }

// facts reports whether the trace says when threads were off CPU.
func (e *explainer) facts() bool { return e.opts.Calls.OffCPU != nil }

// microsecond returns a microsecond in ticks, or 1000 if the frequency is unknown.
func (e *explainer) microsecond() uint64 {
	if !e.opts.Clock.Known() {
		return 1000
	}
	return max(1, e.opts.Clock.Frequency/1_000_000)
}

// prepare finds the start of the trace and where records are missing, after the first pass over it.
// It makes the source for calls, in which all calls end where records are missing.
func (e *explainer) prepare(stats *calls.Stats) (err error) {
	e.start, e.last, e.threads = stats.First, stats.Last, stats.Threads
	if !e.opts.Calls.Filter.All() {
		if e.start, err = firstTSC(e.plain); err != nil {
			return err
		}
	}
	if e.lossPoints, err = findLossPoints(e.src); len(e.lossPoints) > 0 {
		e.src = closedAtLosses{e.src, e.lossPoints}
	}
	return err
}

// firstTSC returns the smallest TSC of a trace.
func firstTSC(src calls.Source) (uint64, error) {
	first := uint64(math.MaxUint64)
	err := src.Each(1, func(_ int, b *reader.Block) error {
		if len(b.Events) > 0 {
			first = min(first, b.Events[0].TSC)
		}
		return nil
	})
	return first, err
}

func (e *explainer) span() span { return span{e.opts.From, e.opts.To} }

// part names the part of the trace whose calls are explained.
func (e *explainer) part() string {
	if o := &e.opts; o.From > 0 || o.To > 0 || o.Calls.Filter.Thread != nil {
		return "the selected part of the trace"
	}
	return "the trace"
}

// chooseRoot finds a root if none was given.
func (e *explainer) chooseRoot() error {
	if e.opts.Root != nil {
		return nil
	}
	finder := e.opts.Finder
	if finder != nil {
		e.prepared = true
		if err := e.prepare(e.opts.FinderStats); err != nil {
			return err
		}
	}
	if finder == nil || len(e.lossPoints) > 0 {
		var err error
		finder, _, err = run(e, calls.Options{Nested: true, OffCPU: e.opts.Calls.OffCPU}, func() *RootFinder { return NewRootFinder(e.opts) })
		if err != nil {
			return err
		}
	}
	if !finder.any {
		return noInvocations("no call ended in " + e.part())
	}
	e.candidates = finder.propose(e.opts.Role)
	if len(e.candidates) == 0 {
		return noInvocations(fmt.Sprintf("no function was called %d times in %s: name the function to explain with --root", minRootCalls, e.part()))
	}
	best := e.candidates[0].Func
	e.opts.Root = func(fn reader.FuncID) bool { return fn == best }
	// Another pass would find the lengths of calls that the recorder may have dropped, and which calls have losses.
	if o := &e.opts; o.RootDepth <= 1 && o.RootDepth != calls.EveryRoot && o.PrunedKnown && o.Pruned == 0 && len(e.lossPoints) == 0 {
		e.durations = durationsOf(e, finder, best)
	}
	if o := &e.opts; o.Slowest > 0 && o.RootDepth <= 1 && o.RootDepth != calls.EveryRoot && len(e.lossPoints) == 0 {
		of := finder.funcs[best]
		e.slowest = &invocation.Slowest{List: of.slowest, Threads: len(of.threads), Durations: &of.Sample}
	}
	return nil
}

// measure finds the durations of the root, unless the pass that chose it has found them. The statistics are nil then.
func (e *explainer) measure() (*durations, *calls.Stats, error) {
	if e.durations != nil {
		return e.durations, nil, nil
	}
	d, stats, err := run(e, e.rooted(), func() *durations { return newDurations(e) })
	if err != nil {
		return d, stats, err
	}
	if d.sample.Count() == 0 {
		return d, stats, noInvocations("no call of the root ended in " + e.part())
	}
	return d, stats, nil
}

// plan sets the limits of the cohorts. Foreign time, such as time in the run queue, says
// nothing about the program, so it does not count for usual calls. Slow calls are those
// that are slow with or without it.
func (e *explainer) plan(d *durations) *plan {
	o := &e.opts
	p := &plan{
		root: o.Root, locks: d.locks(), depth: o.PathDepth, charged: d.charged(d.pruned(e)), args: o.Argument,
		span: e.span(), lost: e.lossPoints, origins: o.Origins, processes: o.processes(), keep: math.MaxUint64, offCPU: e.facts(), nested: e.nested(),
	}
	p.values = o.Values
	if len(d.roots) == 1 {
		for fn := range d.roots {
			p.rootFunc = fn
		}
	}
	own := &d.sample
	if p.offCPU {
		own, p.pruned = &d.own, d.pruned(e)
	}
	var q [3]uint64
	own.Quantiles(q[:], o.UsualLow, 0.5, o.UsualHigh)
	p.low, p.median, p.high = q[0], q[1], q[2]
	if own.Approximate() && p.high-p.low <= p.high/128 {
		// Similar durations share a value, which may differ from all of them.
		p.low -= p.low / 128
		p.high += p.high / 128
	}
	if o.UsualTo > 0 {
		p.low, p.high = o.UsualFrom, o.UsualTo
		p.median = own.Quantile(0.5)
	}
	o.Slow = o.Slow.settled(own, p.high, o.Clock)
	var slow, ownSlow uint64
	p.slow, slow = o.Slow.limit(&d.sample, p.high)
	p.ownSlow = p.slow
	if p.offCPU {
		p.ownSlow, ownSlow = o.Slow.limit(own, p.high)
	}
	p.divide(e.start, e.last)
	if slow += ownSlow; slow > maxSlow {
		p.keep = uint64(float64(maxSlow) / float64(slow) * math.MaxUint64)
	}
	return p
}

// processes returns Processes, or nil if each file is of another process.
func (o *Options) processes() []int {
	for file, first := range o.Processes {
		if file != first {
			return o.Processes
		}
	}
	return nil
}

// settled returns the rule without Gap, for durations of which those up to high are usual.
//
// A gap divides the calls if those beyond it take at least three times as long as those before it,
// and are at least as many as those from the quantile up, but not more than one in twenty. In small
// samples, 20 calls may be one in ten. So a gap never hides calls that the quantile would find slow.
func (r Rule) settled(sample *quantile.Sample, high uint64, clock reader.Clock) Rule {
	if !r.Gap {
		return r
	}
	r.Gap = false
	all := sample.Count()
	least := max(uint64(math.Ceil((1-r.Quantile)*float64(all))), leastBeyond)
	most := max(all/20, min(fewSlow, all/10))
	before, last := uint64(0), uint64(0)
	for v, n := range sample.All() {
		beyond := all - before
		if last > 0 && v > high && beyond >= least && beyond <= most && v/3 >= last {
			r.Ticks, r.Text = v, fmt.Sprintf("no call takes between %s and %s", clock.Format(last), clock.Format(v))
			if sample.Approximate() {
				r.Ticks -= v / 128
			}
			return r
		}
		before, last = before+n, v
	}
	if rate := min(float64(fewSlow)/float64(all), 0.1); rate > 1-r.Quantile {
		r.Quantile = 1 - rate
		r.Text = fmt.Sprintf("p%.3g", 100*r.Quantile)
	}
	return r
}

// leastBeyond is the least number of calls beyond a gap. Fewer may be slow for reasons of their own.
const leastBeyond = 5

// limit returns the duration above high from which calls are slow, and the number of those
// calls.
func (r *Rule) limit(sample *quantile.Sample, high uint64) (slow, number uint64) {
	switch {
	case r.Top > 0:
		rest := sample.Count()
		for v, n := range sample.All() {
			slow = v
			if rest -= n; rest < r.Top {
				break
			}
		}
		// Values may be approximate. Excess calls are removed later.
		slow -= slow / 64
	case r.Ticks > 0:
		slow = r.Ticks
	default:
		slow = sample.Quantile(r.Quantile)
		if sample.Approximate() {
			// Similar durations share a value, which may be above all of them.
			slow -= slow / 128
		}
	}
	slow = max(slow, high+1)
	for v, n := range sample.All() {
		if v >= slow {
			number += n
		}
	}
	return slow, number
}

// explain compares the cohorts. The statistics are those of the pass over paths.
func (e *explainer) explain(d *durations) (*Report, *calls.Stats, error) {
	p := e.plan(d)
	want := e.rooted()
	want.Nested = d.loops && e.opts.Origins == nil // for loops
	c, stats, err := run(e, want, func() *cohorts {
		c := newCohorts(p)
		if want.Nested {
			c.loops = newLoops(&e.opts, max(p.ownSlow, farBeyond*p.median), d.polls)
		}
		return c
	})
	if err != nil {
		return nil, stats, err
	}
	c.settle()
	if top := e.opts.Slow.Top; top > 0 {
		c.cut(int(min(top, maxSlow)))
	}
	r := e.report(d, c)
	if c.usual.count == 0 || len(c.slow) == 0 {
		return r, stats, nil
	}
	ev := newEvidence(newModel(c), c.slow, e.facts())
	ev.spread = float64(p.high - p.low)
	ev.pruned = d.shortest(e) > 0
	ev.name(e.opts.MinShare, e.opts.Seed)
	ev.argue(c, e.opts.Role)
	meanwhile, err := e.meanwhile(d, ev)
	if err != nil {
		return nil, stats, err
	}
	e.fill(r, c, ev, meanwhile)
	if c.loops != nil {
		r.Loop = c.loops.found()
	}
	if o := e.opts.Origins; o != nil {
		r.Origins = o
		r.Warnings = append(r.Warnings, fmt.Sprintf("The traces are from %d hosts. xray did not analyze what other threads did at the same time, "+
			"and did not look for bursts. For these, run xray why with the traces of one host.", hosts(o)))
		return r, stats, nil
	}
	return r, stats, e.number(r.exemplars())
}

// rootNumbers numbers calls of a function that are not inside others of it.
type rootNumbers struct {
	*invocation.Numbering
	root reader.FuncID
}

func (n *rootNumbers) see(b *calls.Batch) {
	for i := range b.Calls {
		if c := &b.Calls[i]; c.Func == n.root && !c.Nested && !c.Partial() {
			n.See(invocation.Key{Start: c.Start, Index: b.Index})
		}
	}
}

// whole reports whether the passes have all calls, as they are in the unmodified trace.
func (e *explainer) whole() bool {
	return e.span() == (span{}) && e.opts.Calls.Filter.All() && len(e.lossPoints) == 0 && !e.nested()
}

// numbered returns the slow calls, if a pass over all calls can number them without call paths, and the root.
func (e *explainer) numbered(d *durations, ev *evidence) (root reader.FuncID, list []invocation.Key) {
	if !e.whole() || e.threads == 1 || len(d.roots) != 1 || e.opts.RootDepth > 1 || e.opts.Origins != nil {
		return 0, nil
	}
	for root = range d.roots {
		for i := range ev.slow {
			v := &ev.slow[i]
			list = append(list, invocation.Key{Start: v.start, Index: v.thread})
		}
	}
	return root, list
}

// number finds the numbers of exemplars in the unmodified trace, as other commands count.
func (e *explainer) number(list []*Exemplar) error {
	if e.threads == 1 && e.whole() {
		for _, x := range list {
			x.Number = uint64(x.ended) + 1
		}
		return nil
	}
	keys := make([]invocation.Key, len(list))
	for i, x := range list {
		keys[i] = invocation.Key{Start: x.Start, Index: x.index, Depth: x.depth}
	}
	numbers := e.numbers
	if numbers == nil {
		opts := calls.Options{
			Shards: e.opts.Calls.Shards, Paths: true, Roots: e.opts.Root, RootDepth: e.opts.RootDepth, Budget: calls.RootsOnly(), Code: e.opts.Calls.Code,
		}
		found, _, err := calls.Run(e.plain, opts, func() *invocation.Numbers { return invocation.NewNumbers(e.opts.Root, e.nested(), keys) })
		if err != nil {
			return err
		}
		numbers = found.Numbering
	}
	for i, x := range list {
		x.Number, _ = numbers.Number(keys[i])
	}
	return nil
}
