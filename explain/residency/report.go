package residency

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Report shows what threads did. Times are in ticks.
type Report struct {
	Clock    reader.Clock
	From, To uint64
	Cell     uint64 // length of a cell
	Gap      uint64 // see Options
	OffCPU   bool   // see Options
	// Threads are ordered by file, process and ID.
	Threads []Thread
	// Funcs adds up the functions of all threads, the longest sums first.
	Funcs []Func
	// Gaps are the longest times without a call or a record, the longest first.
	Gaps []Gap
	// Silences are the functions in which nothing was recorded for longer than the
	// gap, the longest sums first.
	Silences []Silence
	// Stalls has the longest stalls, the longest first. Stalled is the sum of all.
	Stalls  []Stall
	Stalled Sum
	// FineCell is the precision of the times of stalls.
	FineCell uint64
}

// Thread describes one thread.
type Thread struct {
	Thread      reader.Thread
	First, Last uint64         // of records, within the selected time
	Recorded    uint64         // the part of that time that was recorded
	Ticks       [states]uint64 // by State
	Funcs       []Func         // functions that are shown, the longest sums first
	from        *Analysis
	thread      *thread
}

// Func is the calls of a function that is shown.
type Func struct {
	Func            reader.FuncID
	Sum             // of its calls
	Waiting, Silent uint64
	Queued          uint64
}

func (f *Func) id() *reader.FuncID { return &f.Func }

// Run is a run of cells in which a thread was mostly in the same state.
type Run struct {
	State        State
	Func         reader.FuncID // the function that is shown if Busy, Silent or Waiting in one; otherwise 0
	Start, Ticks uint64
	Cells        int
}

// Gap is a time without records, or without a call.
type Gap struct {
	Thread       reader.Thread
	State        State // Silent or Absent, or with Options.OffCPU Waiting, Queued or Absent
	Start, Ticks uint64
	Func         reader.FuncID // the innermost open call; Absent: the previous call
	Next         reader.FuncID // Absent: the next call
}

// Silence is the silent times in a function.
type Silence struct {
	Func reader.FuncID
	Sum
}

// Stall is a time in which at least two threads, and half of the live ones, are silent.
type Stall struct {
	Start, Ticks  uint64
	Silent, Alive int // numbers of threads when most were silent
}

// Report makes the report.
func (a *Analysis) Report(c reader.Clock) *Report {
	r := &Report{Clock: c, From: a.opts.From, To: a.opts.To, Cell: a.width, Gap: a.opts.Gap, OffCPU: a.opts.OffCPU, Gaps: a.gaps, FineCell: a.fine}
	all := make(map[reader.FuncID]*Func)
	r.Threads = make([]Thread, 0, len(a.threads))
	for _, th := range a.threads {
		if th == nil {
			continue
		}
		if th.last < a.opts.From || th.first >= a.opts.To && th.first > a.opts.From {
			continue
		}
		t := a.threadReport(th)
		for _, f := range t.Funcs {
			if sum := all[f.Func]; sum != nil {
				sum.merge(&f.Sum)
				sum.Waiting += f.Waiting
				sum.Silent += f.Silent
				sum.Queued += f.Queued
			} else {
				all[f.Func] = &f
			}
		}
		r.Threads = append(r.Threads, t)
	}
	slices.SortFunc(r.Threads, func(a, b Thread) int { return compareThreads(a.Thread, b.Thread) })
	for _, f := range all {
		r.Funcs = append(r.Funcs, *f)
	}
	sortFuncs(r.Funcs)
	for fn, sum := range a.silent {
		r.Silences = append(r.Silences, Silence{fn, *sum})
	}
	slices.SortFunc(r.Silences, func(a, b Silence) int {
		return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), cmp.Compare(a.Func, b.Func))
	})
	a.stalls(r)
	return r
}

func sortFuncs(list []Func) {
	slices.SortFunc(list, func(a, b Func) int {
		return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Func, b.Func))
	})
}

func (a *Analysis) threadReport(th *thread) Thread {
	t := Thread{Thread: th.id, Ticks: th.ticks, from: a, thread: th}
	t.First, t.Last = a.clip(th.first, th.last)
	open := th.ticks[Other]
	t.Ticks[Other] = open - min(open, th.ticks[Busy]+th.ticks[Silent]+th.ticks[Queued]+th.ticks[Recorder]+th.ticks[Waiting])
	t.Recorded = a.recorded(th.id, t.First, t.Last)
	t.Ticks[Absent] = t.Recorded - min(t.Recorded, open)
	// In place, because many threads may have a list each.
	t.Funcs = slices.DeleteFunc(th.funcs.list, func(f Func) bool { return f.Count == 0 })
	th.funcs.list = t.Funcs
	sortFuncs(t.Funcs)
	return t
}

// Runs returns what the thread did between From and To, in order. Each call computes them
// again.
func (t *Thread) Runs() []Run {
	var runs []Run
	add := func(r Run) {
		if n := len(runs); n > 0 {
			if last := &runs[n-1]; last.State == r.State && last.Func == r.Func {
				last.Ticks += r.Ticks
				last.Cells += r.Cells
				return
			}
		}
		runs = append(runs, r)
	}
	a, th := t.from, t.thread
	span := a.opts.To - a.opts.From
	cells := int(max((span+a.width-1)/a.width, 1))
	// The cells before and after the thread's life are empty.
	first := max(int((t.First-a.opts.From)/a.width)-1, 0)
	last := min(int((t.Last-a.opts.From)/a.width)+1, cells-1)
	none := func(from, to int) {
		if from < to {
			start, end := uint64(from)*a.width, min(uint64(to)*a.width, span)
			add(Run{Start: a.opts.From + start, Ticks: end - start, Cells: to - from})
		}
	}
	none(0, first)
	for i := first; i <= last; i++ {
		var c cell
		if at := i - th.firstCell; at >= 0 && at < len(th.cells) {
			c = th.cells[at]
		}
		start := uint64(i) * a.width
		end := min(start+a.width, span)
		if a.recorded(t.Thread, a.opts.From+start, a.opts.From+end) == 0 {
			none(i, i+1)
			continue
		}
		add(c.run(a.opts.From+start, a.opts.From+end, t.First, t.Last))
	}
	none(last+1, cells)
	return runs
}

// run returns the main state of a cell from start to end, for a thread that lives from first
// to last.
func (c *cell) run(start, end, first, last uint64) Run {
	r := Run{Start: start, Ticks: end - start, Cells: 1}
	from, to := max(start, first), min(end, last)
	if from > to || from == to && c.open == 0 && first != last {
		return r
	}
	var ticks [states]uint64
	ticks[Waiting], ticks[Silent], ticks[Queued], ticks[Recorder] = c.waiting, c.silent, c.queued, c.recorder
	ticks[Busy] = c.shown - min(c.shown, c.idle)
	ticks[Other] = c.open - min(c.open, ticks[Busy]+c.waiting+c.silent+c.queued+c.recorder)
	ticks[Absent] = to - from - min(to-from, c.open)
	// If states are equally common, the more informative one counts.
	for s := Absent; s < states; s++ {
		if r.State == None || ticks[s] >= ticks[r.State] && ticks[s] > 0 {
			r.State = s
		}
	}
	if r.State >= Busy && c.shown > 0 {
		r.Func = c.fn
	}
	return r
}

// stalls finds the stalls.
func (a *Analysis) stalls(r *Report) {
	if a.quiet == nil {
		return
	}
	alive := make([]int32, len(a.quiet))
	for i := range r.Threads {
		t := &r.Threads[i]
		alive[(t.First-a.opts.From)/a.fine]++
		alive[a.fineUp(t.Last)]--
	}
	var silent, living int32
	var stall Stall
	end := func(at uint64) {
		if stall.Silent > 0 {
			if stall.Ticks = at - stall.Start; stall.Ticks > a.opts.Gap {
				r.Stalls = append(r.Stalls, stall)
				r.Stalled.add(stall.Start, stall.Ticks)
			}
		}
		stall = Stall{}
	}
	for i := range a.quiet {
		silent, living = silent+a.quiet[i], living+alive[i]
		at := a.opts.To
		if uint64(i) <= (a.opts.To-a.opts.From)/a.fine {
			at = a.opts.From + uint64(i)*a.fine
		}
		if silent < 2 || 2*silent < living {
			end(at)
			continue
		}
		if stall.Silent == 0 {
			stall.Start = at
		}
		if int(silent) > stall.Silent {
			stall.Silent, stall.Alive = int(silent), int(living)
		}
		if len(r.Stalls) > 2*a.opts.Top {
			r.keepLongest(a.opts.Top)
		}
	}
	r.keepLongest(a.opts.Top)
}

// keepLongest keeps the longest stalls.
func (r *Report) keepLongest(n int) {
	slices.SortFunc(r.Stalls, func(a, b Stall) int { return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), cmp.Compare(a.Start, b.Start)) })
	r.Stalls = r.Stalls[:min(len(r.Stalls), n)]
}
