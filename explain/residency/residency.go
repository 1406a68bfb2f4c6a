// Package residency shows what each thread was doing over time: which functions it ran, and
// when it waited, was silent, or had no call open.
//
// The time of a thread, from its first record to its last, is divided into
//
//   - [Waiting]: a function is open that waits, according to its name;
//   - [Silent]: a call is open, but nothing was recorded for longer than a given gap:
//     a function computes without calling anything, or the thread is stopped;
//   - [Busy]: one of the functions that are shown is open, and neither applies;
//   - [Other]: only calls of functions that are not shown are open;
//   - [Absent]: no call is open.
//
// If the trace has off-CPU times (Options.OffCPU), nothing is inferred. Then a thread is
// [Waiting] while it is blocked in a call, [Queued] while it is runnable but not running, and
// never Silent. Within a time without records, it is assumed to be off CPU at the end, first
// blocked and then queued.
//
// These sums are exact. For pictures, the time of the trace is divided into cells, and each
// cell of a thread shows what it did most of the time. Runs of equal cells are merged.
//
// If at least two threads, and half of the live threads, are silent at the same time for
// longer than the gap, the machine may have stalled.
package residency

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// State is what a thread is doing.
type State uint8

const (
	None     State = iota // the thread has not begun, or has ended
	Absent                // no call is open
	Other                 // only calls that are not shown are open
	Busy                  // in a function that is shown
	Silent                // a call is open, but nothing was recorded for longer than the gap
	Queued                // runnable, and waits for a processor; only with Options.OffCPU
	Recorder              // waits for the recorder, which is nobody's time; only with Options.OffCPU
	Waiting               // in a function that waits, or blocked
	states   = iota
)

// String returns the name of the state in reports.
func (s State) String() string {
	return [states]string{"none", "absent", "other", "busy", "silent", "queued", "recorder", "waiting"}[s]
}

// Options select what to show. Times are in ticks.
type Options struct {
	// From and To limit the time. Calls that cross a limit are cut. To is not less than
	// From.
	From, To uint64
	// Func selects the functions that are shown: if they are nested, the outermost. nil
	// selects all. Wait selects functions that wait, and may be nil. Both are called once for each
	// function and shard, concurrently.
	Func, Wait func(reader.FuncID) bool
	// OffCPU takes waiting times from calls.Options.OffCPU instead of Wait. It needs
	// calls.Options.Paths.
	OffCPU bool
	// Recorded, if not nil, returns how many ticks of a time a file covers. Recordings may consist of
	// windows.
	Recorded func(file int32, from, to uint64) uint64
	Gap      uint64 // a thread is silent after this time without a record
	Cells    int    // number of cells, at least 1
	Top      int    // number of the longest gaps and stalls to keep
}

// fineCells is the maximum number of cells for finding stalls.
const fineCells = 1 << 20

// Analysis is a calls.Analysis. It needs calls.Options.Paths or Opens, with the same
// results, and a filter may only select threads. Paths takes half the time, but fails
// with [ErrPaths] if the trace has more than a million call paths. Memory grows with threads, and
// by 72 bytes with each cell in which a thread lives; see [FitCells].
type Analysis struct {
	opts    Options
	width   uint64     // ticks per cell
	fine    uint64     // ticks per fine cell
	threads []*thread  // by index; nil for those of other shards
	inside  []pathInfo // by path, with calls.Options.Paths
	kinds   map[reader.FuncID]pathInfo
	gaps    []Gap // the longest first
	silent  map[reader.FuncID]*Sum
	memory  int64   // bytes of the threads' functions and cells
	quiet   []int32 // by fine cell: how many more threads are silent than in the previous one; nil for none
}

// ErrPaths means that the trace has too many call paths: run the analysis with
// calls.Options.Opens instead of Paths.
var ErrPaths = errors.New("residency: too many call paths")

// maxPaths is the maximum number of paths of a shard.
const maxPaths = 1 << 20

// pathInfo describes a call path.
type pathInfo struct {
	shown, top  bool // the path has a function that is shown; its last function is the first of them
	waits, rest bool // the same for functions that wait
}

// Sum adds up times.
type Sum struct {
	Count, Ticks, Longest uint64
	At                    uint64 // start of the longest
}

func (s *Sum) add(start, ticks uint64) {
	s.merge(&Sum{1, ticks, ticks, start})
}

// merge adds another sum. Of equally long times, the earliest is kept.
func (s *Sum) merge(o *Sum) {
	if o.Longest > s.Longest || s.Count == 0 || o.Longest == s.Longest && o.At < s.At {
		s.Longest, s.At = o.Longest, o.At
	}
	s.Count += o.Count
	s.Ticks += o.Ticks
}

// thread is the state of a thread.
type thread struct {
	id          reader.Thread
	first, last uint64 // of records
	levels      []level
	before      reader.FuncID // the outermost call that ended last
	ticks       [states]uint64
	funcs       byFunc[Func]
	waited      uint64 // in functions that are shown, since the end of the latest one
	silent      uint64 // in the same
	queued      uint64 // in the same
	recorder    uint64 // in the same
	cells       []cell // from firstCell to the last one in which the thread did anything
	firstCell   int
	now         int // the cell of now
	nowFuncs    byFunc[funcTicks]
	memory      int64      // the thread's part of Analysis.memory
	open        []pathInfo // of the open calls, the outermost first; with calls.Options.Opens
}

// level describes the calls made at a depth, from within the same call.
type level struct {
	any        bool
	first, end uint64 // start of the first, end of the last
}

type funcTicks struct {
	fn    reader.FuncID
	ticks uint64
}

func (f *funcTicks) id() *reader.FuncID { return &f.fn }

// cell is the time that a thread spent in each state during a part of the trace, in ticks.
type cell struct {
	open, shown, waiting, silent, queued, recorder uint64
	idle                                           uint64 // of shown, waiting, silent, queued or recorder
	fn                                             reader.FuncID
	most                                           uint64 // in fn
}

// New returns an empty analysis.
func New(opts Options) *Analysis {
	span := max(opts.To-opts.From, 1)
	opts.Cells = max(opts.Cells, 1)
	return &Analysis{
		opts: opts, width: (span-1)/uint64(opts.Cells) + 1, fine: (span-1)/fineCells + 1,
		inside: make([]pathInfo, 1), kinds: make(map[reader.FuncID]pathInfo), silent: make(map[reader.FuncID]*Sum),
	}
}

// learn examines new paths.
func (a *Analysis) learn(paths *calls.Paths) {
	for id := calls.PathID(len(a.inside)); int(id) < paths.Len(); id++ {
		a.inside = append(a.inside, a.called(a.inside[paths.Parent(id)], paths.Func(id)))
	}
}

// called returns the path of a call of a function from another path.
func (a *Analysis) called(caller pathInfo, fn reader.FuncID) pathInfo {
	kind, known := a.kinds[fn]
	if !known {
		kind = pathInfo{shown: a.opts.Func == nil || a.opts.Func(fn), waits: a.opts.Wait != nil && !a.opts.OffCPU && a.opts.Wait(fn)}
		a.kinds[fn] = kind
	}
	shown := !caller.waits && kind.shown
	return pathInfo{
		shown: caller.shown || shown, top: shown && !caller.shown,
		waits: caller.waits || kind.waits, rest: kind.waits && !caller.waits,
	}
}

func (a *Analysis) thread(b *calls.Batch) *thread {
	if n := b.Index + 1 - len(a.threads); n > 0 {
		a.threads = append(a.threads, make([]*thread, n)...)
	}
	th := a.threads[b.Index]
	if th == nil {
		th = &thread{id: b.Thread, first: ^uint64(0), now: -1}
		a.threads[b.Index] = th
	}
	return th
}

// cell returns the cell with this number. In a large trace, many threads live in few
// cells. An outer call ends after its callees, and may begin cells before them.
func (th *thread) cell(i int) *cell {
	switch n := len(th.cells); {
	case n == 0:
		th.firstCell, th.cells = i, make([]cell, 1)
	case i < th.firstCell:
		th.cells = slices.Concat(make([]cell, th.firstCell-i), th.cells)
		th.firstCell = i
	case i >= th.firstCell+n:
		th.cells = append(th.cells, make([]cell, i-th.firstCell-n+1)...)
	}
	return &th.cells[i-th.firstCell]
}

// Calls implements calls.Sink.
func (a *Analysis) Calls(b *calls.Batch) error {
	th := a.thread(b)
	if b.Paths != nil {
		if b.Paths.Len() > maxPaths {
			return ErrPaths
		}
		a.learn(b.Paths)
		gaps := b.Gaps
		for i := range b.Calls {
			c := &b.Calls[i]
			gaps = a.offUntil(th, gaps, c.Start+c.Duration)
			a.call(th, c, a.inside[c.Path], a.inside[b.Paths.Parent(c.Path)])
		}
		a.offUntil(th, gaps, math.MaxUint64)
	} else {
		a.replay(b, th)
	}
	if b.Last {
		th.settle()
		th.nowFuncs, th.levels, th.open = byFunc[funcTicks]{}, nil, nil
	}
	a.measure(th)
	return nil
}

// Memory implements [calls.MemoryUser].
func (a *Analysis) Memory() int64 {
	const perThread, perFunc = 256, 128
	return a.memory + perThread*int64(len(a.threads)) + perFunc*int64(len(a.kinds)+len(a.silent)) + 4*int64(len(a.quiet))
}

// measure updates what a thread holds, also in a report.
func (a *Analysis) measure(th *thread) {
	const perFunc, perCell = 208, 80
	memory := perFunc*int64(len(th.funcs.list)) + perCell*int64(len(th.cells))
	a.memory += memory - th.memory
	th.memory = memory
}

// offUntil adds the off-CPU times that end by a time, and returns the others.
func (a *Analysis) offUntil(th *thread, gaps []calls.Gap, tsc uint64) []calls.Gap {
	for ; len(gaps) > 0 && gaps[0].To <= tsc; gaps = gaps[1:] {
		g := &gaps[0]
		if !a.opts.OffCPU || g.Depth == 0 {
			continue
		}
		shown := a.inside[g.Path].shown
		queued := g.To - g.Queued
		recorder := queued - g.Recorder
		a.spend(th, recorder, queued, Recorder, shown)
		for _, part := range []struct {
			from, to uint64
			state    State
		}{{recorder - g.Blocked, recorder, Waiting}, {queued, g.To, Queued}} {
			a.spend(th, part.from, part.to, part.state, shown)
			if from, to := a.clip(part.from, part.to); to-from > a.opts.Gap {
				a.gap(Gap{Thread: th.id, State: part.state, Start: from, Ticks: to - from, Func: g.Func})
			}
		}
	}
	return gaps
}

// replay adds calls by their entries.
func (a *Analysis) replay(b *calls.Batch, th *thread) {
	innermost := func() pathInfo {
		if n := len(th.open); n > 0 {
			return th.open[n-1]
		}
		return pathInfo{}
	}
	b.Replay(
		func(o *calls.Open) { th.open = append(th.open, a.called(innermost(), o.Func)) },
		func(c *calls.Call, _ []calls.Arg) {
			in := innermost()
			th.open = th.open[:len(th.open)-1]
			a.call(th, c, in, innermost())
		},
		func(*calls.Event) {})
}

// call adds a call that ended, after the calls that it made. in and around are the paths of the
// call and of its caller.
func (a *Analysis) call(th *thread, c *calls.Call, in, around pathInfo) {
	end := c.Start + c.Duration
	th.first, th.last = min(th.first, c.Start), max(th.last, end)
	depth := int(c.Depth)
	for len(th.levels) < depth+2 {
		th.levels = append(th.levels, level{})
	}
	if inner := &th.levels[depth+1]; inner.any {
		a.pause(th, c.Start, inner.first, in, c.Func)
		a.pause(th, inner.end, end, in, c.Func)
		inner.any = false
	} else {
		a.pause(th, c.Start, end, in, c.Func)
	}
	own := &th.levels[depth]
	switch {
	case !own.any:
		own.any, own.first = true, c.Start
	case depth > 0:
		a.pause(th, own.end, c.Start, around, c.Caller)
	default:
		a.absence(th, own.end, c)
	}
	own.end = end

	if in.rest {
		a.spend(th, c.Start, end, Waiting, in.shown)
	}
	if in.top {
		a.stay(th, c)
	}
	if depth == 0 {
		th.before = c.Func
		a.each(c.Start, end, func(i int, ticks uint64) { th.cell(i).open += ticks })
		from, to := a.clip(c.Start, end)
		th.ticks[Other] += to - from // excluding the time in them
	}
}

// recorded returns how much of a time of a thread was recorded.
func (a *Analysis) recorded(th reader.Thread, from, to uint64) uint64 {
	if a.opts.Recorded == nil {
		return to - from
	}
	return a.opts.Recorded(th.File, from, to)
}

// clip limits a time to the selected time.
func (a *Analysis) clip(from, to uint64) (uint64, uint64) {
	from = min(max(from, a.opts.From), a.opts.To)
	return from, max(from, min(to, a.opts.To))
}

// each calls f with the cells of a time and its ticks in each.
func (a *Analysis) each(from, to uint64, f func(i int, ticks uint64)) {
	from, to = a.clip(from, to)
	for from < to {
		since := from - a.opts.From
		ticks := min(to-from, a.width-since%a.width)
		f(int(since/a.width), ticks)
		from += ticks
	}
}

// spend adds waiting, silence, or time in the run queue.
func (a *Analysis) spend(th *thread, from, to uint64, s State, shown bool) {
	start, end := a.clip(from, to)
	th.ticks[s] += end - start
	if shown {
		switch s {
		case Waiting:
			th.waited += end - start
		case Silent:
			th.silent += end - start
		case Queued:
			th.queued += end - start
		case Recorder:
			th.recorder += end - start
		}
	}
	a.each(from, to, func(i int, ticks uint64) {
		c := th.cell(i)
		switch s {
		case Waiting:
			c.waiting += ticks
		case Silent:
			c.silent += ticks
		case Queued:
			c.queued += ticks
		case Recorder:
			c.recorder += ticks
		}
		if shown {
			c.idle += ticks
		}
	})
}

// pause adds a time without records during a call, however short.
func (a *Analysis) pause(th *thread, from, to uint64, in pathInfo, fn reader.FuncID) {
	if to-from <= a.opts.Gap || in.waits || a.opts.OffCPU {
		return
	}
	from, to = a.clip(from, to)
	if to-from <= a.opts.Gap {
		return
	}
	a.spend(th, from, to, Silent, in.shown)
	sum := a.silent[fn]
	if sum == nil {
		sum = new(Sum)
		a.silent[fn] = sum
	}
	sum.add(from, to-from)
	a.gap(Gap{Thread: th.id, State: Silent, Start: from, Ticks: to - from, Func: fn})
	first, end := a.fineUp(from), (to-a.opts.From)/a.fine
	if first < end {
		a.makeQuiet()
		a.quiet[first]++
		a.quiet[end]--
	}
}

// makeQuiet allocates quiet.
func (a *Analysis) makeQuiet() {
	if a.quiet == nil {
		a.quiet = make([]int32, (a.opts.To-a.opts.From)/a.fine+2)
	}
}

// fineUp returns the first fine cell that does not begin before a time.
func (a *Analysis) fineUp(tsc uint64) uint64 {
	since := tsc - a.opts.From
	if since%a.fine > 0 {
		return since/a.fine + 1
	}
	return since / a.fine
}

// absence adds the time between two outermost calls.
func (a *Analysis) absence(th *thread, from uint64, c *calls.Call) {
	from, to := a.clip(from, c.Start)
	if to-from > a.opts.Gap && a.recorded(th.id, from, to) == to-from {
		a.gap(Gap{Thread: th.id, State: Absent, Start: from, Ticks: to - from, Func: th.before, Next: c.Func})
	}
}

// stay adds a call of a function that is shown.
func (a *Analysis) stay(th *thread, c *calls.Call) {
	sum := place(&th.funcs, c.Func)
	end := c.Start + c.Duration
	from, to := a.clip(c.Start, end)
	if from < to || c.Duration == 0 && c.Start >= a.opts.From && c.Start <= a.opts.To {
		sum.add(from, to-from)
	}
	sum.Waiting += th.waited
	sum.Silent += th.silent
	sum.Queued += th.queued
	th.ticks[Busy] += to - from - min(to-from, th.waited+th.silent+th.queued+th.recorder)
	th.waited, th.silent, th.queued, th.recorder = 0, 0, 0, 0
	a.each(c.Start, end, func(i int, ticks uint64) {
		if i != th.now {
			th.settle()
			th.now = i
		}
		th.cell(i).shown += ticks
		place(&th.nowFuncs, c.Func).ticks += ticks
	})
}

// settle finds what a cell mostly is.
func (th *thread) settle() {
	if th.now < 0 {
		return
	}
	c := th.cell(th.now)
	for _, f := range th.nowFuncs.list {
		if f.ticks > c.most || f.ticks == c.most && f.fn < c.fn {
			c.fn, c.most = f.fn, f.ticks
		}
	}
	th.nowFuncs.reset()
}

// gap keeps a gap if it is among the longest.
func (a *Analysis) gap(g Gap) {
	at, _ := slices.BinarySearchFunc(a.gaps, g, compareGaps)
	if at >= a.opts.Top {
		return
	}
	a.gaps = slices.Insert(a.gaps, at, g)
	a.gaps = a.gaps[:min(len(a.gaps), a.opts.Top)]
}

// compareGaps orders the longest first.
func compareGaps(a, b Gap) int {
	return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), cmp.Compare(a.Start, b.Start), compareThreads(a.Thread, b.Thread), cmp.Compare(a.Func, b.Func))
}

func compareThreads(a, b reader.Thread) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Thread, b.Thread))
}

// Merge implements calls.Analysis.
func (a *Analysis) Merge(o *Analysis) {
	if n := len(o.threads) - len(a.threads); n > 0 {
		a.threads = append(a.threads, make([]*thread, n)...)
	}
	for index, th := range o.threads {
		if th != nil {
			a.threads[index] = th
			a.memory += th.memory
		}
	}
	for _, g := range o.gaps {
		a.gap(g)
	}
	for fn, sum := range o.silent {
		if mine := a.silent[fn]; mine != nil {
			mine.merge(sum)
		} else {
			a.silent[fn] = sum
		}
	}
	if o.quiet != nil {
		a.makeQuiet()
	}
	for i, n := range o.quiet {
		a.quiet[i] += n
	}
}

var _ calls.Analysis[*Analysis] = (*Analysis)(nil)
