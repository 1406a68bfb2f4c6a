// Package exclude chooses functions to exclude from a recording, so that its overhead
// stays within a budget, and predicts the effect.
//
// An [Analysis] counts calls, from which [Analysis.Plan] chooses:
//
//   - Recording f costs calls(f) times the cost of a call. The overhead is the cost of
//     all calls, plus the other costs of recording, relative to the time that the program
//     would take without recording.
//   - The value of f is its self time without the cost of recording, as its row in a report
//     shows it. If f is excluded, this time becomes self time of its callers.
//   - The function with the highest cost for its value is excluded first, but only after all
//     functions that it calls: excluding a leaf loses only its own row. If all remaining
//     functions call functions that stay, it is excluded anyway.
//   - What then fits into the budget again is put back, the functions with the highest value for
//     their cost first. Their callers may stay excluded.
package exclude

import (
	"math"
	"slices"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Analysis counts the calls of a shard. It is a calls.Analysis. Memory grows with the
// number of threads, of functions, and of pairs of functions that call each other.
type Analysis struct {
	functions map[reader.FuncID]*counted
	edges     map[edge]uint64 // calls
	threads   map[int]*span
	events    uint64 // custom and typed events
	payload   uint64 // bytes in these events
}

// edge is a function and its caller.
type edge struct{ caller, callee reader.FuncID }

// counted has the counts of a function's calls.
type counted struct {
	calls, args uint64
	pruned      uint64 // calls that the recorder dropped
	self        quantile.Sum
}

// span is the time from a thread's first call to the end of its last.
type span struct{ from, to uint64 }

// New returns an empty analysis.
func New() *Analysis {
	return &Analysis{
		functions: make(map[reader.FuncID]*counted), edges: make(map[edge]uint64), threads: make(map[int]*span),
	}
}

// Memory implements [calls.MemoryUser].
func (a *Analysis) Memory() int64 {
	const perFunction, perEdge, perThread = 320, 64, 96
	return perFunction*int64(len(a.functions)) + perEdge*int64(len(a.edges)) + perThread*int64(len(a.threads))
}

// Calls adds a batch.
func (a *Analysis) Calls(b *calls.Batch) error {
	time := span{math.MaxUint64, 0}
	for i := range b.Calls {
		c := &b.Calls[i]
		f := a.function(c.Func)
		f.calls++
		f.self.Add(c.Self)
		time = span{min(time.from, c.Start), max(time.to, c.Start+c.Duration)}
		if c.Caller != 0 {
			a.edges[edge{c.Caller, c.Func}]++
		}
	}
	if len(b.Calls) > 0 {
		a.extend(b.Index, time)
	}
	for _, arg := range b.Args {
		a.function(b.Calls[arg.Call].Func).args++
	}
	for i := range b.Events {
		a.events++
		a.payload += uint64(len(b.Events[i].Data))
	}
	return nil
}

func (a *Analysis) function(id reader.FuncID) *counted {
	f := a.functions[id]
	if f == nil {
		f = new(counted)
		a.functions[id] = f
	}
	return f
}

func (a *Analysis) extend(thread int, s span) {
	if t := a.threads[thread]; t != nil {
		s = span{min(s.from, t.from), max(s.to, t.to)}
	}
	a.threads[thread] = &s
}

// Pruned adds calls of a function that the recorder dropped. They cost as much as recorded calls.
func (a *Analysis) Pruned(_ reader.Thread, _ int, fn reader.FuncID, n, _ uint64) {
	a.function(fn).pruned += n
}

// Count returns the number of calls of a function, including those that the recorder
// dropped.
func (a *Analysis) Count(id reader.FuncID) uint64 {
	if f := a.functions[id]; f != nil {
		return f.calls + f.pruned
	}
	return 0
}

func (a *Analysis) count() uint64 {
	var n uint64
	for _, f := range a.functions {
		n += f.calls + f.pruned
	}
	return n
}

// Merge implements calls.Analysis.
func (a *Analysis) Merge(o *Analysis) {
	for id, of := range o.functions {
		f := a.function(id)
		f.calls += of.calls
		f.args += of.args
		f.pruned += of.pruned
		f.self.AddSum(of.self)
	}
	for e, n := range o.edges {
		a.edges[e] += n
	}
	for i, s := range o.threads {
		a.extend(i, *s)
	}
	a.events += o.events
	a.payload += o.payload
}

// Sizes are the sizes of records in a trace, in bytes.
type Sizes struct {
	Call  uint64 // entry and exit
	Arg   uint64
	Event uint64 // without its payload
}

// SizesIn returns the sizes of records in traces like t. The size of an event does not include its padding to a
// multiple of 8 bytes.
func SizesIn(t *reader.Trace) Sizes {
	if t.Header(0).Type == reader.Basic {
		return Sizes{Call: 64, Arg: 32}
	}
	return Sizes{Call: 16, Arg: 16, Event: 16}
}

// Options of a plan.
type Options struct {
	// Budget is the maximum overhead of calls, for example 0.03 for 3 %. Spent.Fixed does
	// not count, because it does not depend on the choice of functions.
	Budget float64
	Cost   calls.ProbeCost
	// Keep selects functions that are never left out. Always selects functions with the
	// attribute xray_always_instrument, which are never left out either. Both may be nil.
	Keep, Always func(reader.FuncID) bool
	Sizes        Sizes
	Clock        reader.Clock
	// CPU is the CPU time of the program while it was recorded, in ticks. If it is 0, the
	// time from each thread's first call to the end of its last is used.
	CPU   uint64
	Spent Spent
	// Least is the minimum time of a call without recording, in thousandths of ticks.
	Least uint64
	// Baseline is the CPU time of the program without recording, in ticks, if Most is not
	// 0. It determines the cost of a call, and Cost is not used.
	Baseline Range
}

// Spent is the time of recording except for the cost of calls, in ticks. Fixed and Chunks
// are part of Options.CPU. Writing is CPU time of the process that writes the trace.
type Spent struct {
	Fixed   uint64 // does not depend on what is recorded
	Chunks  uint64 // proportional to the size of the records
	Writing uint64 // proportional to the size of the records
	// Waiting is the wall time that threads waited for that process. It is proportional to the
	// size of the records.
	Waiting uint64
}

// Range is an estimate with bounds.
type Range struct{ Least, Likely, Most uint64 }

// Plan is a choice of functions to leave out. The caller owns it.
type Plan struct {
	Options
	Before, After Recording
	// Call is the assumed cost of recording a call, in thousandths of ticks, between the
	// bounds of Options.Cost.
	Call    uint64
	Threads int
	Time    uint64 // Options.CPU, or the total time of threads from their first call to the end of their last, in ticks
	// Functions are the functions to leave out, in the order in which they were chosen.
	Functions []Function
	// Remaining are the functions that are still recorded, in ascending order.
	Remaining []reader.FuncID
	estimate  *estimate
	self      uint64 // self time of all functions
	// Kept is the number of functions that Options.Keep and Options.Always select. Marked are
	// those that Options.Always selects.
	Kept   int
	Marked []reader.FuncID
}

// Recording is the cost and the contents of a recording.
type Recording struct {
	Functions int
	Calls     uint64
	Bytes     uint64 // size of the records
	// Time is the time of all threads without recording, in ticks. Cost is the time that
	// recording adds.
	Time, Cost uint64
	// Least and Most are bounds of the overhead.
	Least, Most float64
	// Writing and Waiting are as in Spent.
	Writing, Waiting uint64
	// Covered is the part of all self time, without the cost of recording, that belongs to
	// recorded functions, from 0 to 1. It is 0 if there is no self time.
	Covered float64
}

// Overhead is the cost relative to the time without recording. It is infinite if that time
// is 0.
func (r *Recording) Overhead() float64 { return overhead(r.Cost, r.Time) }

func overhead(cost, time uint64) float64 {
	if cost == 0 {
		return 0
	}
	return float64(cost) / float64(time)
}

// Function is a function to leave out.
type Function struct {
	ID    reader.FuncID
	Calls uint64
	Cost  uint64 // cost of recording the calls, in ticks
	Self  uint64 // self time without the cost of recording, in ticks
	// Caller is the most frequent caller, whose self time the function's time becomes, or 0.
	// Callers is the number of callers.
	Caller  reader.FuncID
	Callers int
	// Leaf says that it calls nothing that is still recorded.
	Leaf  bool
	Bytes uint64 // size of its records
}

// Plan chooses functions. The analysis may be used again.
func (a *Analysis) Plan(opts Options) *Plan {
	p := &Plan{Options: opts, Threads: len(a.threads)}
	for _, s := range a.threads {
		p.Time += s.to - s.from
	}
	if opts.CPU > 0 {
		p.Time = opts.CPU
	}
	e := newEstimate(&opts, p.Time, a.count())
	p.estimate = e
	p.Call, p.Cost = e.likely.call, calls.ProbeCost{Low: e.least.call, High: e.most.call}
	opts.Cost = calls.ProbeCost{Low: p.Call, High: p.Call}
	g := newGreedy(a, &opts)
	p.self = g.self
	p.Before = a.before(p, g)
	e.bytes = p.Before.Bytes
	e.predict(&p.Before)
	p.After = p.Before
	var chosen []*node
	for !p.fits(&p.After) {
		f := g.next()
		if f == nil {
			break
		}
		chosen = append(chosen, f)
		p.After = without(p.After, &f.Function)
		e.predict(&p.After)
	}
	// Put back functions whose exclusion was unnecessary, those with the most self time for their
	// cost first. This also finds what remains useful below a function that costs too much.
	back := slices.Clone(chosen)
	slices.SortStableFunc(back, func(a, b *node) int {
		if excludedBefore(b, a) {
			return -1
		}
		return 1
	})
	for _, f := range back {
		more := with(p.After, &f.Function)
		if e.predict(&more); p.fits(&more) {
			f.excluded = false
			p.After = more
		}
	}
	for _, f := range chosen {
		f.Leaf = true
	}
	for _, f := range g.nodes {
		for _, caller := range f.callers {
			caller.Leaf = caller.Leaf && f.excluded
		}
	}
	for _, f := range chosen {
		if f.excluded {
			p.Functions = append(p.Functions, f.Function)
		}
	}
	covered := uint64(0)
	for _, f := range g.nodes {
		if f.excluded {
			continue
		}
		p.Remaining = append(p.Remaining, f.ID)
		covered += f.Self
		if f.keep {
			p.Kept++
		}
		if f.always {
			p.Marked = append(p.Marked, f.ID)
		}
	}
	if g.self > 0 {
		p.After.Covered = float64(covered) / float64(g.self)
	}
	return p
}

// fits reports whether the part of a recording's cost that depends on the choice of
// functions is within the budget.
func (p *Plan) fits(r *Recording) bool {
	return overhead(r.Cost-min(r.Cost, p.Spent.Fixed), r.Time) <= p.Budget
}

// without returns a recording minus a function.
func without(r Recording, f *Function) Recording {
	return Recording{Functions: r.Functions - 1, Calls: r.Calls - f.Calls, Bytes: r.Bytes - f.Bytes}
}

// with returns a recording plus a function.
func with(r Recording, f *Function) Recording {
	return Recording{Functions: r.Functions + 1, Calls: r.Calls + f.Calls, Bytes: r.Bytes + f.Bytes}
}

// PutBack puts back functions that a list cannot name, and predicts the effect of leaving
// out the others.
func (p *Plan) PutBack(skipped []Skipped) {
	stays := make(map[reader.FuncID]bool, len(skipped))
	for _, s := range skipped {
		stays[s.ID] = true
	}
	covered := p.After.Covered
	var functions []Function
	for i := range p.Functions {
		f := &p.Functions[i]
		if !stays[f.ID] {
			functions = append(functions, *f)
			continue
		}
		p.After = with(p.After, f)
		p.Remaining = append(p.Remaining, f.ID)
		if p.self > 0 {
			covered += float64(f.Self) / float64(p.self)
		}
	}
	slices.Sort(p.Remaining)
	p.Functions = functions
	p.estimate.predict(&p.After)
	p.After.Covered = covered
}

func (a *Analysis) before(p *Plan, g *greedy) Recording {
	r := Recording{Functions: len(g.nodes)}
	r.Bytes = a.events*p.Sizes.Event + a.payload
	for _, f := range g.nodes {
		r.Calls += f.Calls
		r.Bytes += f.Bytes
	}
	if g.self > 0 {
		r.Covered = 1
	}
	return r
}

// ticks returns the cost of n calls, at most 1<<64 - 1.
func ticks(n, cost uint64) uint64 { return saturate(calls.ProbeTicks(n, cost)) }

func saturate(s quantile.Sum) uint64 {
	if s.Hi > 0 {
		return math.MaxUint64
	}
	return s.Lo
}

var _ calls.Analysis[*Analysis] = (*Analysis)(nil)
