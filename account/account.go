// Package account shows per-function call counts and latency: count, self time, total time
// and percentiles.
//
// The steps are those of every analysis:
//
//  1. [New] makes an [Analysis] for each shard. calls.Run feeds and merges them.
//     It needs calls.Options.Nested.
//  2. [Analysis.Report] turns the merged analysis into a [Report]: rows of integers, in ticks.
//  3. [Report.Sort] and [Report.Top] select what is shown.
//  4. [Report.Body] describes the report for output, which adds names and units.
//
// # What counts
//
// A call counts once it has ended: by its own exit, by a tail call, or because the exit of
// an outer call showed that it must have ended (Inferred). Count, minimum, maximum and
// quantiles are those of such calls, including recursive ones.
//
// Calls that are still open at the end of the trace are counted separately, as Open. Only a
// lower bound of their duration is known, so they are not in the quantiles. But the time
// was spent, so it is part of self and total. Otherwise, a program that is traced while it
// runs would seem to spend no time in its outermost functions.
//
// Self is the time in a function without the calls that it made. The self times of all
// functions add up to the time of all outermost calls. Total is the time during which at
// least one call of the function was open in its thread: a call inside another one of the
// same function adds nothing to it. Sum is the plain sum of the durations of the calls that
// count, as llvm-xray shows it.
package account

import (
	"errors"
	"math"
	"math/bits"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Options of an analysis. The zero value is usable.
type Options struct {
	// Exact keeps every different duration, so that no quantile is approximate. It costs 16
	// to 32 bytes per different duration of a function.
	Exact bool
	// PerThread keeps the calls of different threads apart.
	PerThread bool
	// RecursiveOnly counts only calls that are part of a recursion: those inside another
	// call of the same function, and those that had such a call inside. It excludes
	// Compensation.
	RecursiveOnly bool
	// OffCPU splits self and total times into time on the processor, blocked, and in the run
	// queue. It needs calls.Options.OffCPU, and excludes RecursiveOnly and Compensation.
	OffCPU bool
	// Interrupts adds the time in which interrupts ran. It needs OffCPU and
	// calls.Options.Interrupts.
	Interrupts bool
	// Compensation subtracts the cost of recording from times, unless it is nil.
	Compensation *Compensation
}

// Analysis collects the calls of one shard. It implements calls.Analysis.
type Analysis struct {
	opts   Options
	tables []*table // by thread index; one for all unless Options.PerThread
	kept   []calls.Call
	prober *prober // nil unless Options.Compensation
	// recursive marks functions that have an open call in a thread, and a nested call that has
	// ended.
	recursive map[mark]struct{}
	memory    int64 // sum of the tables' memory
}

type mark struct {
	thread int
	fn     reader.FuncID
}

// New returns an empty analysis.
func New(opts Options) *Analysis {
	a := &Analysis{opts: opts, recursive: make(map[mark]struct{})}
	if opts.Compensation != nil {
		a.prober = newProber(opts.Compensation)
	}
	return a
}

// special counts properties that few calls have.
type special struct {
	nested     quantile.Sum // the part of durations inside another call
	openTotal  quantile.Sum // durations of calls that are open and not nested
	open       uint64
	earlier    uint64 // of open: they began before what was selected
	inferred   uint64
	left       uint64
	tailExited uint64
	continued  uint64 // calls with their tail calls inside
	untimed    uint64 // calls that were only counted
	pruned     uint64 // calls that the recorder dropped
	// summed counts calls that are known only by the sum of their durations, including pruned.
	summed     uint64
	summedSum  quantile.Sum
	unrecorded Unrecorded
	self       Off    // part of self times, with Options.OffCPU
	total      Off    // part of totals
	probes     probes // with Options.Compensation
}

// Calls adds a batch.
func (a *Analysis) Calls(b *calls.Batch) error {
	t, list := a.table(b), b.Calls
	if a.opts.OffCPU {
		t.waits(b)
	}
	switch {
	case a.prober != nil:
		list = a.prober.count(b, t)
	case a.opts.RecursiveOnly:
		list = a.recursions(b)
	}
	for i := range list {
		c := &list[i]
		at := t.known(c.Func)
		if at < 0 {
			at = t.search(c.Func)
		}
		if c.End != calls.Exited || c.Nested || c.Earlier {
			if t.special(at).add(c); c.Partial() {
				t.durations.AddWeight(at, c.Self)
				continue
			}
		}
		if !t.durations.Add(at, c.Duration, c.Self) {
			t.durations.AddSlowly(at, c.Duration, c.Self)
		}
	}
	a.measure(t)
	return nil
}

// Memory returns the approximate size of the rows in bytes, including a report. See [calls.MemoryUser].
func (a *Analysis) Memory() int64 { return a.memory + markBytes*int64(len(a.recursive)) }

const (
	// rowBytes is the measured size of a row in a report and in a table, without its durations.
	rowBytes = 640
	// tableBytes is the size of a table without rows.
	tableBytes = 256
	markBytes  = 64
)

// measure updates the size of a table.
func (a *Analysis) measure(t *table) {
	memory := tableBytes + rowBytes*int64(len(t.ids)) + t.durations.Memory()
	a.memory += memory - t.memory
	t.memory = memory
}

// waits adds the off-CPU times of a batch.
func (t *table) waits(b *calls.Batch) {
	for i := range b.Waits {
		w := &b.Waits[i]
		c := &b.Calls[w.Call]
		s := t.special(t.index(c.Func))
		s.self.add(w.Self)
		if !c.Nested {
			s.total.add(w.Total)
		}
	}
}

// Sums adds the calls of a thread that the recorder summed up. It returns an error if the options
// need individual calls.
func (a *Analysis) Sums(s *calls.Sums) error {
	if a.opts.RecursiveOnly {
		return errors.New("a profile does not record which calls are recursive: record without --profile")
	}
	if a.prober != nil {
		return errors.New("cannot subtract the cost of recording from a profile: record without --profile")
	}
	t := a.table(&calls.Batch{Thread: s.Thread, Index: s.Index})
	for p := range s.Functions() {
		if p.Count == 0 && p.Open == 0 {
			continue
		}
		at := t.index(p.Func)
		t.durations.AddWeight(at, p.Self)
		t.durations.AddWeight(at, p.OpenSelf)
		if a.opts.OffCPU {
			t.special(at).self.add(p.SelfOff)
			if p.Nested+p.OpenNested == 0 {
				t.special(at).total.add(p.TotalOff)
			}
		}
		switch spread := p.Spread(); {
		case spread == 0 && p.Count > 0:
			t.special(at).sum(p.Count, p.Total)
		case spread < p.Count:
			t.special(at).sum(p.Count-spread, 0) // their time is in the sum of the others
			fallthrough
		default:
			p.AddDurations(t.durations.Binned(at))
		}
		if p.Open+p.Nested+p.Inferred+p.Left+p.TailExited+p.Continued == 0 {
			continue
		}
		special := t.special(at)
		special.open += p.Open
		special.inferred += p.Inferred
		special.left += p.Left
		special.tailExited += p.TailExited
		special.continued += p.Continued
		special.nested.Add(p.Nested)
		special.openTotal.Add(p.OpenTotal - min(p.OpenNested, p.OpenTotal))
	}
	a.measure(t)
	return nil
}

// OnlyCalls reports whether the options need single calls, so that sums of calls say nothing.
func (a *Analysis) OnlyCalls() bool { return a.opts.RecursiveOnly || a.prober != nil }

// Count adds n calls of a function that were only counted.
func (a *Analysis) Count(th reader.Thread, index int, fn reader.FuncID, n uint64) {
	t := a.table(&calls.Batch{Thread: th, Index: index})
	t.special(t.index(fn)).untimed += n
}

// Pruned adds n calls of a function that the recorder dropped, which took ticks in total.
func (a *Analysis) Pruned(th reader.Thread, index int, fn reader.FuncID, n, ticks uint64) {
	t := a.table(&calls.Batch{Thread: th, Index: index})
	s := t.special(t.index(fn))
	s.pruned += n
	s.sum(n, ticks)
}

// Unrecorded adds counts and estimates of calls that a recording within a budget left out.
func (a *Analysis) Unrecorded(th reader.Thread, index int, of *reader.BudgetFunction, fn reader.FuncID) {
	t := a.table(&calls.Batch{Thread: th, Index: index})
	u := &t.special(t.index(fn)).unrecorded
	n := of.Counted + of.Estimated
	hi, lo := bits.Mul64(of.Mean, n)
	u.merge(&Unrecorded{
		Counted: of.Counted, Estimated: of.Estimated, Error: of.Error, Total: quantile.Sum{Hi: hi, Lo: lo},
		TotalError: math.Hypot(float64(n)*float64(of.MeanError), float64(of.Mean)*float64(of.Error)), Timeless: of.Mean == 0,
	})
}

// sum adds n calls that took ticks in total.
func (s *special) sum(n, ticks uint64) {
	s.summed += n
	s.summedSum.Add(ticks)
}

// recursions returns the calls of the batch that are part of a recursion. They are valid
// until the next batch.
func (a *Analysis) recursions(b *calls.Batch) []calls.Call {
	a.kept = a.kept[:0]
	for i := range b.Calls {
		if c := &b.Calls[i]; a.isRecursive(b.Index, c) {
			a.kept = append(a.kept, *c)
		}
	}
	return a.kept
}

// add counts the special properties of a call.
func (s *special) add(c *calls.Call) {
	if c.Partial() {
		s.open++
		if c.Earlier {
			s.earlier++
		}
		if !c.Nested {
			s.openTotal.Add(c.Duration)
		}
		return
	}
	switch c.End {
	case calls.TailExited:
		s.tailExited++
	case calls.Continued:
		s.continued++
	case calls.Inferred:
		s.inferred++
	case calls.Left:
		s.left++
	}
	if c.Nested {
		s.nested.Add(c.Duration)
	}
}

// isRecursive reports whether the call is part of a recursion. Calls arrive in the order of their
// ends, so it has already seen all calls inside.
func (a *Analysis) isRecursive(thread int, c *calls.Call) bool {
	m := mark{thread, c.Func}
	if c.Nested {
		a.recursive[m] = struct{}{}
		return true
	}
	_, ok := a.recursive[m]
	delete(a.recursive, m)
	return ok
}

// table returns the table for the thread of the batch.
func (a *Analysis) table(b *calls.Batch) *table {
	at := 0
	if a.opts.PerThread {
		at = b.Index
	}
	for at >= len(a.tables) {
		a.tables = append(a.tables, nil)
	}
	if a.tables[at] == nil {
		a.tables[at] = newTable(a.opts.Exact)
		if a.opts.PerThread {
			a.tables[at].thread = b.Thread
		}
	}
	return a.tables[at]
}

// Merge adds the calls of other. Other must have the same options and other threads, and must
// not be used afterwards.
func (a *Analysis) Merge(other *Analysis) {
	for at, t := range other.tables {
		switch {
		case t == nil:
		case at >= len(a.tables):
			a.tables = append(a.tables, make([]*table, at+1-len(a.tables))...)
			a.tables[at] = t
			a.memory += t.memory
		case a.tables[at] == nil:
			a.tables[at] = t
			a.memory += t.memory
		default:
			to := a.tables[at]
			places := make([]int, len(t.ids))
			for i, id := range t.ids {
				places[i] = to.index(id)
				if o := t.specials[i]; o != nil {
					to.special(places[i]).merge(o)
				}
			}
			to.durations.Merge(&t.durations, places)
			a.measure(to)
		}
	}
}

func (s *special) merge(o *special) {
	s.nested.AddSum(o.nested)
	s.openTotal.AddSum(o.openTotal)
	s.open += o.open
	s.earlier += o.earlier
	s.inferred += o.inferred
	s.left += o.left
	s.tailExited += o.tailExited
	s.continued += o.continued
	s.untimed += o.untimed
	s.pruned += o.pruned
	s.summed += o.summed
	s.summedSum.AddSum(o.summedSum)
	s.unrecorded.merge(&o.unrecorded)
	s.self.merge(&o.self)
	s.total.merge(&o.total)
	s.probes.add(&o.probes)
}
