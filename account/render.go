package account

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what a report shows.
type View struct {
	Histogram bool // draws a small histogram of durations in each row
	Objects   bool // adds the file that each function is in
}

// Body describes the report. Names are for the files of [View.Objects].
func (r *Report) Body(names symbolize.Names, v View) []report.Node {
	v.Histogram = v.Histogram && !r.OnlyCounted()
	nodes := []report.Node{
		r.head(),
		report.Facts(r,
			report.Count("function_count", func(r *Report) uint64 { return uint64(r.Functions) }),
			report.Count("calls", func(r *Report) uint64 { return r.Calls }),
			report.Sum("self", func(r *Report) quantile.Sum { return r.Self }).Missing((*Report).OnlyCounted),
			report.Number("relative_error", (*Report).relativeError),
		).Hidden(),
	}
	if r.Cost != nil {
		nodes = append(nodes, report.Facts(r,
			report.Mean("probe_cost", func(r *Report) float64 { return float64(r.Cost.Low) / 1000 }).
				To(func(r *Report) float64 { return float64(r.Cost.High) / 1000 }),
			report.String("probe_cost_source", func(r *Report) string { return r.CostSource }),
		).Hidden())
	}
	return append(nodes, r.table(names, v), report.Notes(r.notes(v)))
}

func (r *Report) table(names symbolize.Names, v View) *report.TableNode {
	columns := []report.Column[Row]{
		report.Thread("thread", func(row *Row) reader.Thread { return row.Thread }).When(r.PerThread),
		report.Count("count", func(row *Row) uint64 { return row.Count }),
	}
	estimated := func(row *Row) bool { return row.Unrecorded.IsEstimate() }
	columns = append(columns,
		report.Count("all_calls", (*Row).AllCalls).Titled("all calls").About(estimated).When(r.Limited),
		report.Count("margin", (*Row).margin).Titled("±").Missing(func(row *Row) bool { return !estimated(row) }).When(r.Limited),
		report.Sum("all_total", (*Row).AllTotal).Titled("all total").About(func(row *Row) bool { return row.Unrecorded.Calls() > 0 }).
			Missing(func(row *Row) bool { return row.Unrecorded.Timeless }).When(r.Limited),
		report.Time("total_margin", (*Row).totalMargin).Titled("±").
			Missing(func(row *Row) bool { return row.Unrecorded.Timeless || row.Unrecorded.Calls() == 0 }).When(r.Limited),
		report.Count("counted", func(row *Row) uint64 { return row.Unrecorded.Counted }).ForPrograms().When(r.Limited),
		report.Count("estimated", func(row *Row) uint64 { return row.Unrecorded.Estimated }).ForPrograms().When(r.Limited),
	)
	columns = append(columns, r.times()...)
	first, last := r.octaves()
	columns = append(columns,
		report.Flag("approximate", func(row *Row) bool { return row.Approximate }).ForPrograms(),
		report.Count("inferred", func(row *Row) uint64 { return row.Inferred }).ForPrograms(),
		report.Count("left", func(row *Row) uint64 { return row.Left }).ForPrograms(),
		report.Count("open", func(row *Row) uint64 { return row.Open }).ForPrograms(),
		report.Count("pruned", func(row *Row) uint64 { return row.Pruned }).ForPrograms(),
		report.Count("summed", func(row *Row) uint64 { return row.Summed }).ForPrograms(),
		report.Count("tail_exited", tailExited).ForPrograms(),
		report.Count("tail_exited", tailExited).ForPeople().Titled("tail calls").Optional().When(slices.ContainsFunc(r.Rows, func(row Row) bool { return row.TailExited > 0 })),
		report.String("histogram", func(row *Row) string { return row.histogram(first, last) }).ForPeople().When(v.Histogram),
		report.Rows("histogram", octaves, r.octaveWords).ForPrograms(),
		report.String("object", func(row *Row) string { return symbolize.ObjectName(names, row.Func) }).When(v.Objects),
		report.Function("function", func(row *Row) reader.FuncID { return row.Func }).WithLocation(),
	)
	return report.Table("functions", r.Rows, columns...)
}

// times are the columns for durations. In text reports without the cost of recording,
// bounds of self and total replace quantiles.
func (r *Report) times() []report.Column[Row] {
	bound := func(key, title string, f func(*Compensated) quantile.Sum) report.Column[Row] {
		return report.Sum(key, func(row *Row) quantile.Sum { return f(row.Compensated) }).
			Titled(title).Missing((*Row).onlyCounted).When(r.Cost != nil)
	}
	list := []report.Column[Row]{
		report.Sum("self", func(row *Row) quantile.Sum { return row.Self }).Missing((*Row).selfUnknown),
		bound("self_low", "at least", func(c *Compensated) quantile.Sum { return c.SelfLow }).Optional(),
		bound("self_high", "at most", func(c *Compensated) quantile.Sum { return c.SelfHigh }).Optional(),
		report.Share("share", func(row *Row) float64 { return share(row.Self, r.Self) }).Missing((*Row).selfUnknown),
		r.off("on_cpu", func(row *Row) quantile.Sum { return row.CPU() }).Titled("cpu").Optional(),
		r.off("blocked", func(row *Row) quantile.Sum { return row.SelfOff.Blocked }).Optional(),
		r.off("queued", func(row *Row) quantile.Sum { return row.SelfOff.Queued }).Optional(),
		r.off("interrupted", func(row *Row) quantile.Sum { return row.SelfOff.Interrupted }).Optional().When(r.Interrupts),
		report.Sum("total", func(row *Row) quantile.Sum { return row.Total }).Missing((*Row).onlyCounted),
		r.off("total_blocked", func(row *Row) quantile.Sum { return row.TotalOff.Blocked }).ForPrograms(),
		r.off("total_queued", func(row *Row) quantile.Sum { return row.TotalOff.Queued }).ForPrograms(),
		r.off("recorder", func(row *Row) quantile.Sum { return row.SelfOff.Recorder }).ForPrograms(),
		r.off("total_recorder", func(row *Row) quantile.Sum { return row.TotalOff.Recorder }).ForPrograms(),
		r.off("total_interrupted", func(row *Row) quantile.Sum { return row.TotalOff.Interrupted }).ForPrograms().When(r.Interrupts),
		bound("total_low", "at least", func(c *Compensated) quantile.Sum { return c.TotalLow }).Optional(),
		bound("total_high", "at most", func(c *Compensated) quantile.Sum { return c.TotalHigh }).Optional(),
		bound("recorded_self", "recorded self", func(c *Compensated) quantile.Sum { return c.RecordedSelf }).Least(),
		bound("recorded_total", "recorded total", func(c *Compensated) quantile.Sum { return c.RecordedTotal }).Least(),
		report.Sum("sum", func(row *Row) quantile.Sum { return row.Sum }).Missing((*Row).onlyCounted).ForPrograms(),
	}
	quantiles := []report.Column[Row]{
		report.Time("min", func(row *Row) uint64 { return row.Min }).Least(),
		report.Time("p50", func(row *Row) uint64 { return row.P50 }).About((*Row).isApproximate).Optional(),
		report.Time("p90", func(row *Row) uint64 { return row.P90 }).About((*Row).isApproximate).Least(),
		report.Time("p99", func(row *Row) uint64 { return row.P99 }).About((*Row).isApproximate).Optional(),
		report.Time("p999", func(row *Row) uint64 { return row.P999 }).Titled("p99.9").About((*Row).isApproximate).Least(),
		report.Time("max", func(row *Row) uint64 { return row.Max }).Optional(),
	}
	for _, c := range quantiles {
		if c = c.Missing((*Row).untimed); r.Cost != nil {
			c = c.ForPrograms()
		}
		list = append(list, c)
	}
	return list
}

// off is a column for an off-CPU part of self or total times.
func (r *Report) off(key string, value func(*Row) quantile.Sum) report.Column[Row] {
	return report.Sum(key, value).Missing((*Row).selfUnknown).When(r.OffCPU)
}

func tailExited(row *Row) uint64     { return row.TailExited }
func (row *Row) isApproximate() bool { return row.Approximate }
func (row *Row) untimed() bool       { return !row.timed() }

// onlyCounted reports whether only the number of calls is known.
func (row *Row) onlyCounted() bool {
	return row.Untimed > 0 && row.Untimed == row.Count && row.Open == 0
}

// selfUnknown reports whether the self time is unknown.
func (row *Row) selfUnknown() bool { return row.onlyPruned() || row.onlyCounted() }

func share(part, whole quantile.Sum) float64 {
	if whole == (quantile.Sum{}) {
		return 0
	}
	return part.Float64() / whole.Float64()
}

// octave is a range of durations in a row's histogram, in ticks. to is where the next one begins.
type octave struct {
	from  uint64
	to    float64 // may exceed 64 bits
	count uint64
}

func (row *Row) octaves() []octave {
	var list []octave
	for o, n := range row.Octaves {
		if n > 0 {
			list = append(list, octave{octaveStart(o), math.Ldexp(1, o), n})
		}
	}
	return list
}

// octaves is the histogram of a row, for programs. Limits are not rounded to nanoseconds: rounded
// ranges can overlap.
func octaves(row *Row) *report.TableNode {
	return report.Table("histogram", row.octaves(),
		report.Mean("from", func(o *octave) float64 { return float64(o.from) }),
		report.Mean("to", func(o *octave) float64 { return o.to }),
		report.Count("count", func(o *octave) uint64 { return o.count }),
	)
}

// octaveWords is the histogram in CSV: FROM:COUNT for each octave.
func (r *Report) octaveWords(row *Row) string {
	var words []string
	for _, o := range row.octaves() {
		words = append(words, fmt.Sprintf("%d:%d", r.Clock.Nanos(o.from), o.count))
	}
	return strings.Join(words, " ")
}

// head is the sentence above the table.
func (r *Report) head() report.Paragraph {
	text := label.Count(uint64(r.Functions), "function", "functions") + ", " + label.Count(r.Calls, "call", "calls")
	if !r.OnlyCounted() {
		text += ", " + report.Duration(r.Clock, r.Self) + " of self time"
		if r.Cost != nil {
			text += " after subtracting the recording overhead"
		}
	}
	text += "."
	if shown := r.shown(); shown < r.Functions {
		text += " The table has " + label.Count(uint64(shown), "function", "functions") + "."
	}
	return report.Paragraph(text)
}

// shown is the number of different functions in the rows.
func (r *Report) shown() int {
	part := Report{Rows: r.Rows}
	part.countFunctions()
	return part.Functions
}

// relativeError is the bound of the error of approximate quantiles.
func (r *Report) relativeError() float64 {
	for i := range r.Rows {
		if r.Rows[i].Coarse {
			return quantile.OctaveError
		}
	}
	return quantile.RelativeError
}

// notes are the lines below a table. They say how far to trust it.
func (r *Report) notes(v View) []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if first, last := r.octaves(); v.Histogram && last >= first {
		add("The histograms range from %s to %s. Each character covers durations twice as long as the previous one. Heights are relative to the tallest bar of the row.",
			report.Duration(r.Clock, quantile.NewSum(octaveStart(first))), report.Duration(r.Clock, quantile.NewSum(octaveEnd(last))))
	}
	notes = append(notes, r.quantileNotes()...)
	if r.OnlyCounted() {
		add("The recording has only call counts. Times are unknown.")
		return notes
	}
	notes = append(notes, r.costNotes()...)
	if r.Limited {
		add("The columns all calls and all total include %s calls that were not recorded. Values marked ~ are estimates, and ± is their 95%% confidence interval. "+
			"The other columns cover recorded calls only.", label.Grouped(r.UnrecordedCalls))
	}
	// say adds a sentence about n calls, in singular or plural.
	say := func(n uint64, one, many string) {
		if n == 1 {
			add("1 call %s", one)
		} else if n > 1 {
			add("%s calls %s", label.Grouped(n), many)
		}
	}
	say(r.Untimed, "has no recorded time. Only count includes it.", "have no recorded time. Only count includes them.")
	if r.Pruned > 0 {
		add("For recursive functions, total counts the time of dropped calls more than once.")
	}
	say(r.Open, calls.OpenWords(r.Open, r.Earlier)+" Its time is part of self and total, but not of count, min, max and percentiles.",
		calls.OpenWords(r.Open, r.Earlier)+" Their time is part of self and total, but not of count, min, max and percentiles.")
	switch others := r.TailExited - r.Continued; {
	case others == 0:
		say(r.Continued, "ended in a tail call. Its time includes the function that it called.", "ended in tail calls. Their times include the functions that they called.")
	case r.Continued == 0:
		say(others, "ended in a tail call. Its time excludes the function that it called.", "ended in tail calls. Their times exclude the functions that they called.")
	default:
		add("%s calls ended in tail calls: the times of %s include the function that was called, and those of %s do not, because it has no sled or is not known.",
			label.Grouped(r.TailExited), label.Grouped(r.Continued), label.Grouped(others))
	}
	say(r.Left, "was ended by an exception or longjmp.", "were ended by an exception or longjmp.")
	say(r.Inferred, "has no exit record. xray ends it when its caller ends.", "have no exit record. xray ends them when their callers end.")
	if !r.Clock.Known() {
		add("The trace does not state its clock frequency, so times are in ticks.")
	}
	return notes
}

// quantileNotes explain the mark ~ if the table has it.
func (r *Report) quantileNotes() (notes []string) {
	if r.Cost != nil { // then the report has no quantiles
		return nil
	}
	var approximate, binned, coarse uint64
	for i := range r.Rows {
		switch row := &r.Rows[i]; {
		case row.Coarse:
			coarse++
		case row.Binned:
			binned++
		case row.Approximate:
			approximate++
		}
	}
	if approximate > 0 {
		notes = append(notes, fmt.Sprintf("Percentiles marked ~ are approximate, at most %.1f%% off, in %s with many different durations. --exact makes them exact and needs more memory.",
			100*quantile.RelativeError, label.Count(approximate, "row", "rows")))
	}
	if binned > 0 {
		notes = append(notes, fmt.Sprintf("Percentiles marked ~ are approximate, at most %.1f%% off, in %s of a summary. Summaries have histograms of durations.",
			100*quantile.RelativeError, label.Count(binned, "row", "rows")))
	}
	if coarse > 0 {
		notes = append(notes, fmt.Sprintf("Percentiles marked ~ are approximate, at most a third off, in %s of a profile. Profiles count durations by powers of two.",
			label.Count(coarse, "row", "rows")))
	}
	return notes
}

// costNotes are the notes about the cost of recording.
func (r *Report) costNotes() []string {
	if r.Cost == nil {
		return nil
	}
	text := "Subtracted: " + calls.FormatProbeCost(r.Cost.Low, r.Clock)
	if r.Cost.High > r.Cost.Low {
		text += " to " + calls.FormatProbeCost(r.Cost.High, r.Clock)
	}
	text += " " + r.Clock.Unit() + " per call"
	if r.CostSource != "" {
		text += " (" + r.CostSource + ")"
	}
	notes := []string{text + ", a third to two thirds of it inside the call and the rest in its caller."}
	exceeds := uint64(0)
	for i := range r.Rows {
		if r.Rows[i].Compensated.Exceeds {
			exceeds++
		}
	}
	if exceeds > 0 {
		notes = append(notes, fmt.Sprintf("In %s, the subtracted cost exceeds the recorded time. The real cost is lower than assumed, or it varies.",
			label.Count(exceeds, "row", "rows")))
	}
	return notes
}
