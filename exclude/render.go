package exclude

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/internal/probecost"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/symbolize"
)

// View says how a plan is written.
type View struct {
	Ring       uint64 // bytes of each thread's ring
	Top        int    // how many functions to show; all when 0
	CostSource string // where the cost is from
}

// WriteText writes what changes, and then the functions that are to be left out. It
// returns the error of w.
func (p *Plan) WriteText(w io.Writer, names symbolize.Names, v View) error {
	return p.write(w, names, v, (*texttab.Table).WriteText)
}

// WriteMarkdown writes the same as Markdown.
func (p *Plan) WriteMarkdown(w io.Writer, names symbolize.Names, v View) error {
	return p.write(w, names, v, (*texttab.Table).WriteMarkdown)
}

func (p *Plan) write(w io.Writer, names symbolize.Names, v View, table func(*texttab.Table, io.Writer) error) error {
	if _, err := io.WriteString(w, p.Summary()+"\n\n"); err != nil {
		return err
	}
	if err := table(p.comparison(v), w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"+p.costNote(v)+"\n"+p.markedNote(names)); err != nil {
		return err
	}
	if len(p.Functions) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\nto be left out, those first that cost most for what they tell\n\n"); err != nil {
		return err
	}
	if err := table(p.table(names, v), w); err != nil {
		return err
	}
	if shown := p.shown(v); shown < len(p.Functions) {
		_, err := fmt.Fprintf(w, "\n%s\n", label.Count(uint64(len(p.Functions)-shown), "more function", "more functions"))
		return err
	}
	return nil
}

// Summary says in a line what leaving the functions out brings.
func (p *Plan) Summary() string {
	before, after := percent(p.Before.Overhead()), percent(p.After.Overhead())
	var s string
	switch {
	case p.Before.Calls == 0:
		return "no call was recorded"
	case len(p.Functions) == 0 && p.Before.Overhead() <= p.Budget:
		return fmt.Sprintf("recording all %s costs %s, which is within the budget of %s",
			label.Count(uint64(p.Before.Functions), "function", "functions"), before, percent(p.Budget))
	case len(p.Functions) == 0:
		s = fmt.Sprintf("recording all %s costs %s", label.Count(uint64(p.Before.Functions), "function", "functions"), before)
	default:
		s = fmt.Sprintf("without %d of %s, recording costs %s instead of %s",
			len(p.Functions), label.Count(uint64(p.Before.Functions), "function", "functions"), after, before)
	}
	switch {
	case p.After.Overhead() <= p.Budget:
	case p.fits(&p.After):
		s += fmt.Sprintf(", of which %s is not for calls", percent(overhead(p.Spent.Fixed, p.After.Time)))
	default:
		s += fmt.Sprintf(": more than the budget of %s, but nothing else may be left out", percent(p.Budget))
	}
	return s
}

// comparison is the table of what changes.
func (p *Plan) comparison(v View) *texttab.Table {
	t := &texttab.Table{Columns: []texttab.Column{{Title: ""}, {Title: "before", Right: true}, {Title: "after", Right: true}}}
	row := func(title string, value func(r *Recording) string) { t.Add(title, value(&p.Before), value(&p.After)) }
	row("functions", func(r *Recording) string { return label.Grouped(uint64(r.Functions)) })
	row("calls", func(r *Recording) string { return label.Grouped(r.Calls) })
	if p.Clock.Known() {
		row("calls a second"+p.of(), func(r *Recording) string { return label.Grouped(uint64(math.Round(p.rate(r, r.Calls)))) })
	}
	row("overhead", func(r *Recording) string { return percent(r.Overhead()) })
	if p.Before.Least != p.Before.Most {
		row("overhead between", func(r *Recording) string { return percent(r.Least) + " and " + percent(r.Most) })
	}
	if p.Spent.Writing > 0 {
		row("CPU time to write the trace", func(r *Recording) string { return p.Clock.Format(r.Writing) })
	}
	if p.Spent.Waiting > 0 {
		row("time threads wait for that", func(r *Recording) string { return p.Clock.Format(r.Waiting) })
	}
	row("size of the records", func(r *Recording) string { return bytes(float64(r.Bytes)) })
	if p.Clock.Known() {
		row("bytes a second"+p.of(), func(r *Recording) string { return bytes(p.rate(r, r.Bytes)) })
	}
	row("a ring of "+bytes(float64(v.Ring))+" holds", func(r *Recording) string { return p.formatHorizon(r, v) })
	row("self time covered", func(r *Recording) string { return percent(r.Covered) })
	return t
}

// of is what seconds are of.
func (p *Plan) of() string {
	if p.CPU > 0 {
		return " of CPU time"
	}
	return " and thread"
}

// rate is n a second of CPU time, or a second and thread, at the speed at which the threads run when they are
// recorded so.
func (p *Plan) rate(r *Recording, n uint64) float64 {
	time := float64(r.Time) + float64(r.Cost)
	if time == 0 {
		return 0
	}
	return float64(n) * float64(p.Clock.Frequency) / time
}

// horizon is how many ticks of a thread its ring holds, and false where it holds all.
func (p *Plan) horizon(r *Recording, v View) (uint64, bool) {
	if r.Bytes == 0 {
		return 0, false
	}
	ticks := (float64(r.Time) + float64(r.Cost)) * float64(v.Ring) / float64(r.Bytes)
	return uint64(min(ticks, math.MaxInt64)), true
}

func (p *Plan) formatHorizon(r *Recording, v View) string {
	if ticks, ok := p.horizon(r, v); ok {
		return p.Clock.Format(ticks)
	}
	return "all"
}

func (p *Plan) costNote(v View) string {
	s := "a call costs " + probecost.Format(p.Call, p.Clock) + " " + p.Clock.Unit()
	if p.Cost.High > p.Cost.Low {
		s += ", between " + probecost.Format(p.Cost.Low, p.Clock) + " and " + probecost.Format(p.Cost.High, p.Clock)
	}
	if v.CostSource != "" {
		s += " (" + v.CostSource + ")"
	}
	if p.Spent.Chunks > 0 {
		s += "; memory for records took " + p.Clock.Format(p.Spent.Chunks)
	}
	if p.Spent.Fixed > 0 {
		s += "; the recorder's start, exceptions and longjmp took " + p.Clock.Format(p.Spent.Fixed)
	}
	if p.CPU > 0 {
		s += fmt.Sprintf("; overhead relative to the rest of %s of CPU time", p.Clock.Format(p.Time))
	} else {
		s += fmt.Sprintf("; overhead relative to %s of wall time of %s, as the CPU time is not known",
			p.Clock.Format(p.Time), label.Count(uint64(p.Threads), "thread", "threads"))
	}
	if p.Kept > 0 {
		s += fmt.Sprintf("; %s may not be left out", label.Count(uint64(p.Kept), "function", "functions"))
	}
	return s
}

// markedNote names the functions that their source keeps.
func (p *Plan) markedNote(names symbolize.Names) string {
	const most = 5
	if len(p.Marked) == 0 {
		return ""
	}
	s := "marked xray_always_instrument, and so not left out: "
	for i, id := range p.Marked {
		if i == most {
			return s + fmt.Sprintf(", and %d more\n", len(p.Marked)-most)
		}
		if i > 0 {
			s += ", "
		}
		s += label.Func(names, id)
	}
	return s + "\n"
}

func (p *Plan) shown(v View) int {
	if v.Top > 0 {
		return min(v.Top, len(p.Functions))
	}
	return len(p.Functions)
}

// table is the functions that become invisible.
func (p *Plan) table(names symbolize.Names, v View) *texttab.Table {
	t := &texttab.Table{Columns: []texttab.Column{
		{Title: "calls", Right: true}, {Title: "cost", Right: true}, {Title: "self", Right: true},
		{Title: "function"}, {Title: "its time goes to"},
	}}
	for i := range p.Functions[:p.shown(v)] {
		f := &p.Functions[i]
		to := "-"
		if f.Caller != 0 {
			to = label.Func(names, f.Caller)
		}
		if f.Callers > 1 {
			to += fmt.Sprintf(" and %d more", f.Callers-1)
		}
		t.Add(label.Grouped(f.Calls), p.Clock.Format(f.Cost), p.Clock.Format(f.Self), label.Func(names, f.ID), to)
	}
	return t
}

// WriteCSV writes the functions that are to be left out. It returns the error of w.
func (p *Plan) WriteCSV(w io.Writer, names symbolize.Names) error {
	unit := "_" + p.Clock.Unit()
	t := new(texttab.Table)
	for _, title := range []string{"id", "function", "calls", "cost" + unit, "self" + unit, "leaf", "callers", "caller_id", "caller"} {
		t.Columns = append(t.Columns, texttab.Column{Title: title})
	}
	for i := range p.Functions {
		f := &p.Functions[i]
		id, caller := "", ""
		if f.Caller != 0 {
			id, caller = strconv.Itoa(int(f.Caller)), symbolize.Label(names, f.Caller)
		}
		t.Add(strconv.Itoa(int(f.ID)), symbolize.Label(names, f.ID), strconv.FormatUint(f.Calls, 10),
			strconv.FormatUint(p.Clock.Nanos(f.Cost), 10), strconv.FormatUint(p.Clock.Nanos(f.Self), 10),
			strconv.FormatBool(f.Leaf), strconv.Itoa(f.Callers), id, caller)
	}
	return t.WriteCSV(w)
}

// jsonPlan is what WriteJSON writes. Times are in Unit.
type jsonPlan struct {
	Unit      string        `json:"unit"` // ns or ticks
	Budget    float64       `json:"budget"`
	CallCost  jsonCost      `json:"call_cost"`
	Threads   int           `json:"threads"`
	Time      uint64        `json:"time"` // CPU time, or that of all threads
	CPU       bool          `json:"cpu"`
	Before    jsonRecording `json:"before"`
	After     jsonRecording `json:"after"`
	Functions []jsonExclude `json:"functions"`
}

type jsonCost struct {
	Mean float64 `json:"mean"` // what is taken
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

type jsonRecording struct {
	Functions int      `json:"functions"`
	Calls     uint64   `json:"calls"`
	Bytes     uint64   `json:"bytes"`
	Cost      uint64   `json:"cost"`
	Overhead  *float64 `json:"overhead"` // null where it is all of the time
	Least     *float64 `json:"least"`    // of the overhead, likewise
	Most      *float64 `json:"most"`
	Writing   uint64   `json:"writing"` // CPU time of the process that writes the trace
	Waiting   uint64   `json:"waiting"` // time of threads that wait for it
	Covered   float64  `json:"covered"`
	Horizon   *uint64  `json:"horizon"` // null where the ring holds all
}

type jsonExclude struct {
	ID       int32  `json:"id"`
	Function string `json:"function"`
	Calls    uint64 `json:"calls"`
	Cost     uint64 `json:"cost"`
	Self     uint64 `json:"self"`
	Leaf     bool   `json:"leaf"`
	Callers  int    `json:"callers"`
	Caller   string `json:"caller,omitempty"`
}

// WriteJSON writes an object. It returns the error of w.
func (p *Plan) WriteJSON(w io.Writer, names symbolize.Names, v View) error {
	out := jsonPlan{
		Unit: p.Clock.Unit(), Budget: p.Budget, Threads: p.Threads, Time: p.Clock.Nanos(p.Time), CPU: p.CPU > 0,
		CallCost: jsonCost{
			probecost.PerCall(p.Call, p.Clock), probecost.PerCall(p.Cost.Low, p.Clock), probecost.PerCall(p.Cost.High, p.Clock),
		},
		Before: p.jsonRecording(&p.Before, v), After: p.jsonRecording(&p.After, v), Functions: []jsonExclude{},
	}
	for i := range p.Functions {
		f := &p.Functions[i]
		j := jsonExclude{
			ID: int32(f.ID), Function: symbolize.Label(names, f.ID), Calls: f.Calls, Cost: p.Clock.Nanos(f.Cost),
			Self: p.Clock.Nanos(f.Self), Leaf: f.Leaf, Callers: f.Callers,
		}
		if f.Caller != 0 {
			j.Caller = symbolize.Label(names, f.Caller)
		}
		out.Functions = append(out.Functions, j)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(out)
}

func (p *Plan) jsonRecording(r *Recording, v View) jsonRecording {
	j := jsonRecording{Functions: r.Functions, Calls: r.Calls, Bytes: r.Bytes, Cost: p.Clock.Nanos(r.Cost), Covered: r.Covered, Writing: p.Clock.Nanos(r.Writing), Waiting: p.Clock.Nanos(r.Waiting)}
	finite := func(o float64) *float64 {
		if math.IsInf(o, 0) {
			return nil
		}
		return &o
	}
	j.Overhead, j.Least, j.Most = finite(r.Overhead()), finite(r.Least), finite(r.Most)
	if ticks, ok := p.horizon(r, v); ok {
		ns := p.Clock.Nanos(ticks)
		j.Horizon = &ns
	}
	return j
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

// bytes is a size in units of 1024.
func bytes(n float64) string {
	unit := 0
	for ; n >= 9999.5 && unit < 4; unit++ {
		n /= 1024
	}
	return label.Grouped(uint64(math.Round(n))) + [...]string{" B", " KiB", " MiB", " GiB", " TiB"}[unit]
}
