package account

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Row is a function, or a function in one thread. Times are in ticks.
type Row struct {
	Thread reader.Thread // zero unless Report.PerThread
	Func   reader.FuncID

	Count      uint64 // calls that ended
	TailExited uint64 // calls of Count that ended in a tail call
	Continued  uint64 // calls of TailExited that include the function that they called
	Inferred   uint64 // calls of Count whose end was not recorded
	Left       uint64 // calls of Count that an exception or longjmp ended
	Open       uint64 // calls that had not ended

	Self  quantile.Sum // time in the function without the calls that it made
	Total quantile.Sum // time during which a call of the function was open
	Sum   quantile.Sum // of the durations of the calls counted

	// Minimum, quantiles and maximum of the durations of the calls counted; 0 if there are none.
	// Quantile q is the value at index ⌊q·Count⌋ in ascending order.
	Min, P50, P90, P99, P999, Max uint64
	// Approximate says that quantiles may be off by quantile.RelativeError, or, with
	// Coarse, by quantile.OctaveError. Min and Max are always exact.
	Approximate, Coarse bool
	// Binned says that some durations are from summaries, which have no exact durations.
	Binned  bool
	Untimed uint64 // calls of Count without a recorded time
	// Pruned is the number of calls in Count that the recorder dropped. Total and Sum include
	// their durations. Quantiles and Self do not. Total counts the calls below them a second
	// time, and also nested calls of the same function. Their time is also in the Self of their
	// callers.
	Pruned uint64
	// Summed is the number of calls of Count that are known only by the sum of their durations:
	// those of Pruned, and of LLVM's profiles. Quantiles do not include them.
	Summed uint64
	// Octaves counts durations by their length in bits: Octaves[i] counts those of 2^(i-1)
	// to 2^i-1 ticks. It is as long as the longest duration needs.
	Octaves []uint64

	// SelfOff and TotalOff are the off-CPU parts of Self and Total, with Options.OffCPU. The rest
	// is time on CPU.
	SelfOff, TotalOff Off

	// Unrecorded are calls that a recording within a budget left out. Nothing else includes them.
	Unrecorded Unrecorded

	// Compensated is set if the cost of recording is subtracted. It affects only Self and
	// Total.
	Compensated *Compensated
}

// Unrecorded has counts and estimates of calls that are not in the trace.
type Unrecorded struct {
	Counted   uint64 // calls that were counted but not recorded
	Estimated uint64 // estimated calls while the function was off
	Error     uint64 // at least the standard error of Estimated
	// Total is an estimate of the total time of all these calls, in ticks, and TotalError its
	// standard error. Timeless says that the time of some calls is unknown.
	Total      quantile.Sum
	TotalError float64
	Timeless   bool
}

func (u *Unrecorded) merge(o *Unrecorded) {
	u.Counted += o.Counted
	u.Estimated += o.Estimated
	u.Error += o.Error
	u.Total.AddSum(o.Total)
	u.TotalError += o.TotalError
	u.Timeless = u.Timeless || o.Timeless
}

// Calls returns an estimate of the number of calls.
func (u *Unrecorded) Calls() uint64 { return u.Counted + u.Estimated }

// IsEstimate reports whether Calls is more than a count.
func (u *Unrecorded) IsEstimate() bool { return u.Estimated+u.Error > 0 }

// AllCalls returns an estimate of the number of calls, including unrecorded calls.
func (row *Row) AllCalls() uint64 { return row.Count + row.Unrecorded.Calls() }

// AllTotal returns an estimate of the total time in ticks, including unrecorded calls.
func (row *Row) AllTotal() quantile.Sum {
	t := row.Total
	t.AddSum(row.Unrecorded.Total)
	return t
}

// Margins returns halves of the 95% confidence intervals of AllCalls and AllTotal.
func (row *Row) Margins() (calls, total uint64) { return row.margin(), row.totalMargin() }

// totalMargin is like margin, for the total time.
func (row *Row) totalMargin() uint64 { return uint64(min(2*row.Unrecorded.TotalError, 1<<62)) }

// margin is twice the standard error of the estimated calls, half of a 95% confidence interval.
func (row *Row) margin() uint64 { return 2 * row.Unrecorded.Error }

// CPU returns the part of Self that was on CPU. It needs Options.OffCPU.
func (row *Row) CPU() quantile.Sum { return row.SelfOff.onCPU(row.Self) }

// Off is off-CPU time.
type Off struct {
	Blocked quantile.Sum // the thread slept or waited for something
	Queued  quantile.Sum // the thread waited for a processor
	// Recorder is the time in which the recorder blocked the thread.
	Recorder quantile.Sum
	// Interrupted is the time in which interrupts ran in place of the thread.
	Interrupted quantile.Sum
}

func (o *Off) add(w calls.Off) {
	o.Blocked.Add(w.Blocked)
	o.Queued.Add(w.Queued)
	o.Recorder.Add(w.Recorder)
	o.Interrupted.Add(w.Interrupted)
}

func (o *Off) merge(p *Off) {
	o.Blocked.AddSum(p.Blocked)
	o.Queued.AddSum(p.Queued)
	o.Recorder.AddSum(p.Recorder)
	o.Interrupted.AddSum(p.Interrupted)
}

// onCPU returns the rest of a time, which was on CPU.
func (o *Off) onCPU(of quantile.Sum) quantile.Sum {
	return of.Minus(o.Blocked).Minus(o.Queued).Minus(o.Recorder).Minus(o.Interrupted)
}

// Report is the result of an analysis. The caller owns it. It shares no memory with the analysis.
type Report struct {
	Clock     reader.Clock
	PerThread bool
	// OffCPU says that times are split by where the thread was.
	OffCPU bool
	// Interrupts says that the trace has the interrupts of threads.
	Interrupts bool
	Rows       []Row
	// Functions is the number of different functions before [Report.Top].
	Functions int
	// Calls is the sum of their counts.
	Calls uint64
	// Self is the self time of all functions, the base of shares.
	Self quantile.Sum
	// Open, Inferred, Left, TailExited, Continued, Untimed and Pruned are sums over the rows,
	// before [Report.Top].
	Open, Inferred, Left, TailExited, Continued, Untimed, Pruned uint64
	// Earlier is how many of Open began before what was selected.
	Earlier uint64
	// Limited says that the recording had a budget, and UnrecordedCalls how many calls it left out.
	Limited         bool
	UnrecordedCalls uint64
	// Cost is the overhead subtracted from times, or nil. CostSource names its source, and may
	// be set before writing.
	Cost       *calls.ProbeCost
	CostSource string
}

// Report returns the results so far, ordered by thread and function ID. frequency is the
// trace's clock frequency in ticks per second, or 0 if unknown.
func (a *Analysis) Report(frequency uint64) *Report {
	r := &Report{Clock: reader.Clock{Frequency: frequency}, PerThread: a.opts.PerThread, OffCPU: a.opts.OffCPU, Interrupts: a.opts.Interrupts}
	rows := 0
	for _, t := range a.tables {
		if t != nil {
			rows += len(t.ids)
		}
	}
	r.Rows = make([]Row, rows)
	var of []probes // of the rows, if probes are counted
	rows = 0
	for _, t := range a.tables {
		if t == nil {
			continue
		}
		first := r.Rows[rows:]
		rows += len(t.ids)
		t.durations.Each(func(i int, d *quantile.Sample) { first[i] = t.row(i, d) })
		for i := range t.ids {
			row := &first[i]
			r.Calls += row.Count
			r.Open += row.Open
			if s := t.specials[i]; s != nil {
				r.Earlier += s.earlier
			}
			r.Inferred += row.Inferred
			r.TailExited += row.TailExited
			r.Continued += row.Continued
			r.Left += row.Left
			r.Untimed += row.Untimed
			r.Pruned += row.Pruned
			r.UnrecordedCalls += row.Unrecorded.Calls()
			if a.prober != nil {
				of = append(of, t.special(i).probes)
			}
		}
	}
	if a.prober != nil {
		r.Cost = &a.opts.Compensation.Cost
		r.compensate(*r.Cost, of)
	}
	for i := range r.Rows {
		r.Self.AddSum(r.Rows[i].Self)
	}
	r.sort(compareIDs)
	r.countFunctions()
	return r
}

func (t *table) row(at int, d *quantile.Sample) Row {
	row := Row{
		Thread: t.thread, Func: t.ids[at],
		Count: d.Count(), Self: t.durations.Weight(at), Total: d.Sum(), Sum: d.Sum(),
		Min: d.Min(), Max: d.Max(), Approximate: d.Approximate(), Coarse: d.Coarse(), Binned: d.Binned(),
	}
	if s := t.specials[at]; s != nil {
		row.TailExited, row.Continued = s.tailExited+s.continued, s.continued
		row.Inferred, row.Left, row.Open = s.inferred, s.left, s.open
		row.Untimed, row.Pruned, row.Summed = s.untimed, s.pruned, s.summed
		row.Unrecorded = s.unrecorded
		row.Count += s.untimed + s.summed
		row.Sum.AddSum(s.summedSum)
		row.Total = row.Sum.Minus(s.nested)
		row.Total.AddSum(s.openTotal)
		row.SelfOff, row.TotalOff = s.self, s.total
	}
	var q [4]uint64
	d.Quantiles(q[:], 0.5, 0.9, 0.99, 0.999)
	row.P50, row.P90, row.P99, row.P999 = q[0], q[1], q[2], q[3]
	row.Octaves = d.Octaves()
	return row
}

// OnlyCounted reports whether only the number of calls is known.
func (r *Report) OnlyCounted() bool { return r.Untimed > 0 && r.Untimed == r.Calls && r.Open == 0 }

// timed reports whether durations of some calls that ended are known.
func (row *Row) timed() bool { return row.Count > row.Untimed+row.Summed }

// onlyPruned reports whether no call was recorded, so that the self time is unknown.
func (row *Row) onlyPruned() bool { return row.Pruned > 0 && row.Pruned == row.Count && row.Open == 0 }

func (r *Report) countFunctions() {
	seen := make(map[reader.FuncID]struct{}, len(r.Rows))
	for i := range r.Rows {
		seen[r.Rows[i].Func] = struct{}{}
	}
	r.Functions = len(seen)
}

// compareIDs orders rows by thread and function. No two rows are equal.
func compareIDs(a, b *Row) int {
	return cmp.Or(
		cmp.Compare(a.Thread.File, b.Thread.File),
		cmp.Compare(a.Thread.Process, b.Thread.Process),
		cmp.Compare(a.Thread.Thread, b.Thread.Thread),
		cmp.Compare(a.Func, b.Func),
	)
}

// Column is a sort key for rows.
type Column uint8

// The columns, in the order of [Columns].
const (
	ByID Column = iota // thread, then function id
	ByName
	ByCount
	BySelf // also the order by share
	ByTotal
	BySum
	ByMin
	ByP50
	ByP90
	ByP99
	ByP999
	ByMax
	ByInferred
	ByTailExited
	ByOpen
	ByCPU // by parts of self times, like the following columns
	ByBlocked
	ByQueued
	ByInterrupted
	ByAllCalls // for recordings within a budget, including estimates
	ByAllTotal
)

// columnNames has the name of each column, followed by its other names, for example those
// of llvm-xray.
var columnNames = [...][]string{
	ByID:          {"id", "funcid"},
	ByName:        {"function", "func", "name"},
	ByCount:       {"count"},
	BySelf:        {"self", "share"},
	ByTotal:       {"total"},
	BySum:         {"sum"},
	ByMin:         {"min"},
	ByP50:         {"p50", "med", "median"},
	ByP90:         {"p90", "90p"},
	ByP99:         {"p99", "99p"},
	ByP999:        {"p999", "p99.9"},
	ByMax:         {"max"},
	ByInferred:    {"inferred"},
	ByTailExited:  {"tail-exited"},
	ByOpen:        {"open"},
	ByCPU:         {"cpu"},
	ByBlocked:     {"blocked"},
	ByQueued:      {"queued"},
	ByInterrupted: {"interrupted"},
	ByAllCalls:    {"all-calls"},
	ByAllTotal:    {"all-total"},
}

// String is the column's name.
func (c Column) String() string { return columnNames[c][0] }

// Columns returns the names of all columns.
func Columns() []string {
	names := make([]string, len(columnNames))
	for i := range columnNames {
		names[i] = columnNames[i][0]
	}
	return names
}

// ParseColumn finds a column by any of its names, including those of llvm-xray.
func ParseColumn(name string) (Column, error) {
	for c, names := range columnNames {
		if slices.Contains(names, name) {
			return Column(c), nil
		}
	}
	return 0, fmt.Errorf("unknown column %q: use one of %s", name, strings.Join(Columns(), ", "))
}

// NeedsOffCPU reports whether the column needs Options.OffCPU.
func (c Column) NeedsOffCPU() bool { return c >= ByCPU && c <= ByQueued }

// compare orders two rows by a column other than ByName.
func (c Column) compare(a, b *Row) int {
	switch c {
	case ByCount:
		return cmp.Compare(a.Count, b.Count)
	case BySelf:
		return a.Self.Compare(b.Self)
	case ByTotal:
		return a.Total.Compare(b.Total)
	case BySum:
		return a.Sum.Compare(b.Sum)
	case ByMin:
		return cmp.Compare(a.Min, b.Min)
	case ByP50:
		return cmp.Compare(a.P50, b.P50)
	case ByP90:
		return cmp.Compare(a.P90, b.P90)
	case ByP99:
		return cmp.Compare(a.P99, b.P99)
	case ByP999:
		return cmp.Compare(a.P999, b.P999)
	case ByMax:
		return cmp.Compare(a.Max, b.Max)
	case ByInferred:
		return cmp.Compare(a.Inferred, b.Inferred)
	case ByTailExited:
		return cmp.Compare(a.TailExited, b.TailExited)
	case ByOpen:
		return cmp.Compare(a.Open, b.Open)
	case ByAllCalls:
		return cmp.Compare(a.AllCalls(), b.AllCalls())
	case ByAllTotal:
		at, bt := a.AllTotal(), b.AllTotal()
		return at.Compare(bt)
	case ByCPU:
		return a.CPU().Compare(b.CPU())
	case ByBlocked:
		return a.SelfOff.Blocked.Compare(b.SelfOff.Blocked)
	case ByQueued:
		return a.SelfOff.Queued.Compare(b.SelfOff.Queued)
	case ByInterrupted:
		return a.SelfOff.Interrupted.Compare(b.SelfOff.Interrupted)
	}
	return compareIDs(a, b)
}

// Sort orders the rows by a column, the largest first if descending. Rows with equal values
// stay in ascending order of their IDs. Names are only needed for ByName.
func (r *Report) Sort(by Column, descending bool, names symbolize.Names) {
	compare := by.compare
	if by == ByName {
		labels := make(map[reader.FuncID]string, r.Functions)
		for i := range r.Rows {
			labels[r.Rows[i].Func] = symbolize.Label(names, r.Rows[i].Func)
		}
		compare = func(a, b *Row) int { return cmp.Compare(labels[a.Func], labels[b.Func]) }
	}
	r.sort(func(a, b *Row) int {
		order := compare(a, b)
		if descending {
			order = -order
		}
		return cmp.Or(order, compareIDs(a, b))
	})
}

// sort compares rows in place, because they are large.
func (r *Report) sort(compare func(a, b *Row) int) {
	sort.Slice(r.Rows, func(i, j int) bool { return compare(&r.Rows[i], &r.Rows[j]) < 0 })
}

// Top keeps only the first n rows, or all if n is not positive.
func (r *Report) Top(n int) {
	if n > 0 && n < len(r.Rows) {
		r.Rows = r.Rows[:n]
	}
}

// Ended removes functions without calls that ended. llvm-xray does not show them. Call Ended before
// writing the output of llvm-xray.
func (r *Report) Ended() {
	r.Rows = slices.DeleteFunc(r.Rows, func(row Row) bool { return row.Count == 0 })
	r.countFunctions()
}
