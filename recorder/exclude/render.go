package exclude

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what a report about a plan shows.
type View struct {
	Ring       uint64 // bytes of each thread's ring
	Top        int    // number of functions to show; 0 for all
	CostSource string // source of the cost
}

// Body returns the body of the report. names is for function names in sentences.
func (p *Plan) Body(names symbolize.Names, v View) []report.Node {
	cost := func(thousandths uint64) float64 { return float64(thousandths) / 1000 }
	summary := p.Summary()
	columns := p.columns(v)
	// CSV output is the table of functions, which comes last.
	return []report.Node{
		report.Paragraph(strings.ToUpper(summary[:1]) + summary[1:] + "."),
		report.Facts(p,
			report.Share("budget", func(p *Plan) float64 { return p.Budget }),
			report.Mean("probe_cost", func(p *Plan) float64 { return cost(p.Call) }),
			report.Mean("probe_cost", func(p *Plan) float64 { return cost(p.Cost.Low) }).To(func(p *Plan) float64 { return cost(p.Cost.High) }),
			report.String("probe_cost_source", func(*Plan) string { return v.CostSource }),
			report.Count("thread_count", func(p *Plan) uint64 { return uint64(p.Threads) }),
			report.Time("time", func(p *Plan) uint64 { return p.Before.Time }),
			report.Flag("is_cpu_time", func(p *Plan) bool { return p.CPU > 0 }),
			report.Time("memory_time", func(p *Plan) uint64 { return p.Spent.Chunks }),
			report.Time("fixed_time", func(p *Plan) uint64 { return p.Spent.Fixed }),
			report.Bytes("ring", func(*Plan) uint64 { return v.Ring }),
			report.Count("kept_count", func(p *Plan) uint64 { return uint64(p.Kept) }),
		).Hidden(),
		report.Programs{
			&report.Section{Key: "present", Body: []report.Node{report.Facts(&p.Before, columns...)}},
			&report.Section{Key: "predicted", Body: []report.Node{report.Facts(&p.After, columns...)}},
		},
		report.People{p.comparison(columns)},
		report.Notes(p.notes(names, v)),
		p.functions(v),
	}
}

// Summary describes the effect of leaving out the functions, in one line.
func (p *Plan) Summary() string {
	before, after := percent(p.Before.Overhead()), percent(p.After.Overhead())
	all := label.Count(uint64(p.Before.Functions), "function", "functions")
	var s string
	switch {
	case p.Before.Calls == 0:
		return "no call was recorded"
	case len(p.Functions) == 0 && p.Before.Overhead() <= p.Budget:
		return fmt.Sprintf("recording all %s costs %s, within the budget of %s", all, before, percent(p.Budget))
	case len(p.Functions) == 0:
		s = fmt.Sprintf("recording all %s costs %s", all, before)
	default:
		s = fmt.Sprintf("without %d of %s, recording costs %s instead of %s", len(p.Functions), all, after, before)
	}
	switch {
	case p.After.Overhead() <= p.Budget:
		s += ", within the budget of " + percent(p.Budget)
	case p.fits(&p.After):
		fixed := overhead(p.Spent.Fixed, p.After.Time)
		verdict := "the rest is within the budget of"
		if fixed > p.Budget {
			verdict = "no choice of functions meets the budget of"
		}
		s += fmt.Sprintf(", including %s that does not depend on calls: %s %s", percent(fixed), verdict, percent(p.Budget))
	default:
		s += fmt.Sprintf(": this exceeds the budget of %s, but no other function can be excluded", percent(p.Budget))
	}
	return s
}

// Listed says what a list of the plan's functions achieves that lacks the skipped ones, a sentence each. It puts these
// back, see [Plan.PutBack].
func (p *Plan) Listed(names symbolize.Names, skipped []Skipped) []string {
	p.PutBack(skipped)
	lines := []string{p.Summary()}
	const most = 5
	for i, f := range skipped {
		if i == most {
			lines = append(lines, label.Count(uint64(len(skipped)-i), "more function is", "more functions are")+" also not in the list")
			break
		}
		lines = append(lines, symbolize.Label(names, f.ID)+" is not in the list: "+f.Why)
	}
	return lines
}

// comparison is a table of the recordings before and after.
func (p *Plan) comparison(columns []report.Column[Recording]) *report.TableNode {
	list := []Recording{p.Before, p.After}
	title := report.String("when", func(r *Recording) string {
		if r == &list[0] {
			return "before"
		}
		return "after"
	})
	return report.Table("recordings", list, slices.Insert(columns, 0, title)...).Transposed()
}

// columns returns the columns of tables of recordings.
func (p *Plan) columns(v View) []report.Column[Recording] {
	of := " and thread"
	if p.CPU > 0 {
		of = " of CPU time"
	}
	known := p.Clock.Known()
	bytes := func(r *Recording) float64 { return p.rate(r, r.Bytes) }
	return []report.Column[Recording]{
		report.Count("function_count", func(r *Recording) uint64 { return uint64(r.Functions) }).Titled("functions"),
		report.Count("calls", func(r *Recording) uint64 { return r.Calls }),
		report.Count("calls_per_second", func(r *Recording) uint64 { return uint64(math.Round(p.rate(r, r.Calls))) }).Titled("calls per second" + of).When(known),
		report.Time("cost", func(r *Recording) uint64 { return r.Cost }).ForPrograms(),
		report.Time("cpu", func(r *Recording) uint64 { return r.Time + r.Cost }).Titled("CPU time").When(p.CPU > 0),
		report.Share("overhead", (*Recording).Overhead),
		report.Share("overhead", func(r *Recording) float64 { return r.Least }).To(func(r *Recording) float64 { return r.Most }).
			Titled("overhead, range").ForPrograms(),
		report.Share("overhead", func(r *Recording) float64 { return r.Least }).To(func(r *Recording) float64 { return r.Most }).
			Titled("overhead, range").ForPeople().When(p.Before.Least != p.Before.Most),
		report.Time("writing", func(r *Recording) uint64 { return r.Writing }).ForPrograms(),
		report.Time("waiting", func(r *Recording) uint64 { return r.Waiting }).ForPrograms(),
		report.Time("writing", func(r *Recording) uint64 { return r.Writing }).Titled("CPU time to write the trace").ForPeople().When(p.Spent.Writing > 0),
		report.Time("waiting", func(r *Recording) uint64 { return r.Waiting }).Titled("time threads wait for writing").ForPeople().When(p.Spent.Waiting > 0),
		report.Bytes("size", func(r *Recording) uint64 { return r.Bytes }).Titled("size of the records"),
		report.Number("bytes_per_second", bytes).ForPrograms().When(known),
		report.Bytes("bytes_per_second", func(r *Recording) uint64 { return uint64(math.Round(bytes(r))) }).
			Titled("size per second" + of).ForPeople().When(known),
		report.Time("ring_span", func(r *Recording) uint64 { ticks, _ := p.horizon(r, v); return ticks }).Titled("time that a ring covers").
			Missing(func(r *Recording) bool { return r.Bytes == 0 }),
		report.Share("covered", func(r *Recording) float64 { return r.Covered }).Titled("self time covered"),
	}
}

// rate returns n per second of CPU time or, if that is unknown, per second and thread.
func (p *Plan) rate(r *Recording, n uint64) float64 {
	time := float64(r.Time) + float64(r.Cost)
	if time == 0 {
		return 0
	}
	return float64(n) * float64(p.Clock.Frequency) / time
}

// horizon returns how many ticks of a thread fit into its ring. It returns false if there is nothing to
// record.
func (p *Plan) horizon(r *Recording, v View) (uint64, bool) {
	if r.Bytes == 0 {
		return 0, false
	}
	ticks := (float64(r.Time) + float64(r.Cost)) * float64(v.Ring) / float64(r.Bytes)
	return uint64(min(ticks, math.MaxInt64)), true
}

// notes returns what the reader must know about the prediction.
func (p *Plan) notes(names symbolize.Names, v View) []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	unit := p.Clock.Unit()
	s := "Recording a call costs " + calls.FormatProbeCost(p.Call, p.Clock) + " " + unit
	if p.Cost.High > p.Cost.Low {
		s += ", between " + calls.FormatProbeCost(p.Cost.Low, p.Clock) + " and " + calls.FormatProbeCost(p.Cost.High, p.Clock)
	}
	if v.CostSource != "" {
		s += " (" + v.CostSource + ")"
	}
	add("%s.", s)
	if p.Spent.Chunks > 0 {
		add("Managing memory for records took %s.", p.Clock.Format(p.Spent.Chunks))
	}
	if p.Spent.Fixed > 0 {
		add("Starting the recorder and tracking exceptions and longjmp took %s.", p.Clock.Format(p.Spent.Fixed))
	}
	if p.CPU > 0 {
		add("The overhead is relative to the other %s of CPU time.", p.Clock.Format(p.Before.Time))
	} else {
		add("The CPU time is unknown. The overhead is relative to %s: %s of wall time of %s, minus the recording cost.",
			p.Clock.Format(p.Before.Time), p.Clock.Format(p.Time), label.Count(uint64(p.Threads), "thread", "threads"))
	}
	add("The ring of each thread has %s.", label.Count(v.Ring, "byte", "bytes"))
	if p.Kept > 0 {
		add("%s stay.", label.Count(uint64(p.Kept), "function must", "functions must"))
	}
	return append(notes, p.marked(names)...)
}

// marked returns a note that names functions with the attribute xray_always_instrument.
func (p *Plan) marked(names symbolize.Names) []string {
	const most = 5
	if len(p.Marked) == 0 {
		return nil
	}
	var list []string
	for _, id := range p.Marked[:min(len(p.Marked), most)] {
		list = append(list, label.Func(names, id))
	}
	s := "Kept because they are marked xray_always_instrument: " + strings.Join(list, ", ")
	if more := len(p.Marked) - most; more > 0 {
		s += fmt.Sprintf(", and %d more", more)
	}
	return []string{s + "."}
}

// functions returns the table of functions to leave out.
func (p *Plan) functions(v View) *report.TableNode {
	return report.Table("functions", p.Functions,
		report.Count("calls", func(f *Function) uint64 { return f.Calls }),
		report.Time("cost", func(f *Function) uint64 { return f.Cost }),
		report.Time("self", func(f *Function) uint64 { return f.Self }),
		report.Flag("leaf", func(f *Function) bool { return f.Leaf }).ForPrograms(),
		report.Count("callers", func(f *Function) uint64 { return uint64(f.Callers) }).Optional(),
		report.Function("caller", func(f *Function) reader.FuncID { return f.Caller }).Missing(func(f *Function) bool { return f.Caller == 0 }).Titled("its time moves to"),
		report.Function("function", func(f *Function) reader.FuncID { return f.ID }),
	).Titled("Functions to exclude, highest cost per unit of information first").Top(v.Top)
}

func percent(part float64) string {
	switch {
	case math.IsInf(part, 0):
		return "all of the time"
	case part != 0 && part < 0.01:
		return strconv.FormatFloat(100*part, 'g', 2, 64) + "%"
	}
	return strconv.FormatFloat(100*part, 'f', 1, 64) + "%"
}
