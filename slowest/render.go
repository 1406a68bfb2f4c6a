package slowest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// View says how a report is written.
type View struct {
	Base uint64 // TSC from which times count, the smallest of the trace
	// MinShare leaves out paths with less than this part of the invocation's time,
	// 0 to 1, from text.
	MinShare float64
	// Markdown puts the trees into blocks of Markdown.
	Markdown bool
	// ThreadName names threads; it may be nil.
	ThreadName func(reader.Thread) string
	// Files are the names of the traces, shown where there are several.
	Files []string
}

// WriteText writes a tree for each invocation, as a block of Markdown if the view
// says so. It returns the error of w.
func (r *Report) WriteText(w io.Writer, names symbolize.Names, v View) error {
	b := bufio.NewWriter(w)
	about := ""
	if r.Approximate {
		about = "about "
	}
	fmt.Fprintf(b, "%s on %s", plural(int(r.Invocations), "invocation"), plural(r.Threads, "thread"))
	if r.Invocations > 0 {
		fmt.Fprintf(b, "; median %s%s, p99 %s%s, longest %s\n", about, r.Clock.Format(r.Median), about, r.Clock.Format(r.P99),
			r.Clock.Format(r.Longest))
		fmt.Fprintf(b, "usual: the mean of the %d from p25 to p75, %s", r.Ordinary.Count, r.time(r.usualDuration()))
	}
	b.WriteByte('\n')
	fence := ""
	if v.Markdown {
		fence = "```\n"
	}
	for i := range r.Slowest {
		s := &r.Slowest[i]
		fmt.Fprintf(b, "\n%s%d. %s at %s on %s: %s#%d\n", fence, i+1, r.Clock.Format(s.Duration), r.Clock.Format(s.Start-v.Base),
			v.thread(s.Thread), texttab.Printable(symbolize.Label(names, s.Root)), s.Number)
		if err := r.table(s, names, v).WriteText(b); err != nil {
			return err
		}
		b.WriteString(fence)
	}
	return b.Flush()
}

func (r *Report) usualDuration() float64 {
	if r.Ordinary.Count == 0 {
		return 0
	}
	return float64(r.Ordinary.Duration) / float64(r.Ordinary.Count)
}

// table is the tree of an invocation.
func (r *Report) table(s *Slow, names symbolize.Names, v View) *texttab.Table {
	t := &texttab.Table{Columns: []texttab.Column{
		{Title: "calls", Right: true}, {Title: "total", Right: true}, {Title: "self", Right: true},
		{Title: "usual calls", Right: true}, {Title: "usual total", Right: true}, {Title: "x", Right: true}, {Title: "  function"},
	}}
	small := 0
	for _, row := range s.Rows {
		if row.Depth > 0 && float64(row.Total) < v.MinShare*float64(s.Duration) {
			small++
			continue
		}
		usualCalls, usualTotal, ratio := "-", "-", "new"
		if row.UsualCalls > 0 {
			usualCalls, usualTotal = strconv.FormatFloat(row.UsualCalls, 'f', 2, 64), r.time(row.UsualTotal)
			ratio = strconv.FormatFloat(row.Ratio(), 'f', 1, 64)
		}
		t.Add(strconv.FormatUint(row.Calls, 10), r.Clock.Format(row.Total), r.Clock.Format(row.Self), usualCalls, usualTotal, ratio,
			label.Indent(row.Depth+1)+symbolize.Label(names, row.Func)+row.held(names))
	}
	if small > 0 {
		t.Add("", "", "", "", "", "", fmt.Sprintf("  (and %s of less than %g %%)", plural(small, "path"), 100*v.MinShare))
	}
	return t
}

// held says who had the lock that a row waited for.
func (r *Row) held(names symbolize.Names) string {
	text := ""
	for i, h := range r.Holders {
		if i == 3 || 20*h.Ticks < r.Waited {
			break
		}
		text += fmt.Sprintf(", %s for %.0f %%", symbolize.Label(names, h.Func), 100*float64(h.Ticks)/float64(r.Waited))
	}
	if text == "" {
		return ""
	}
	return "  (held by " + text[2:] + " of the wait)"
}

// time formats a mean, to the nearest tick.
func (r *Report) time(ticks float64) string { return r.Clock.Format(uint64(math.Round(ticks))) }

func (v *View) thread(t reader.Thread) string {
	text := fmt.Sprintf("thread %d/%d", t.Process, t.Thread)
	if v.ThreadName != nil {
		if name := v.ThreadName(t); name != "" {
			text += " " + texttab.Printable(name)
		}
	}
	if len(v.Files) > 1 {
		text += " of " + texttab.Printable(v.Files[t.File])
	}
	return text
}

// jsonReport is what WriteJSON writes. Times are integers in Unit, means may have
// decimals.
type jsonReport struct {
	Unit        string     `json:"unit"` // ns or ticks
	Invocations uint64     `json:"invocations"`
	Threads     int        `json:"threads"`
	P50         uint64     `json:"p50"`
	P99         uint64     `json:"p99"`
	Max         uint64     `json:"max"`
	Approximate bool       `json:"approximate"`
	Ordinary    jsonUsual  `json:"ordinary"`
	Slowest     []jsonSlow `json:"slowest"`
}

type jsonUsual struct {
	Rule  string  `json:"rule"`
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean"`
}

type jsonSlow struct {
	Index      uint64  `json:"index"`
	File       int32   `json:"file"` // position on the command line, from 1
	Process    int32   `json:"process"`
	Thread     int32   `json:"thread"`
	ThreadName string  `json:"thread_name,omitempty"`
	Start      uint64  `json:"start"` // since the start of the trace
	Duration   uint64  `json:"duration"`
	Tree       jsonRow `json:"tree"`
}

type jsonRow struct {
	ID       int32       `json:"id"`
	Function string      `json:"function"`
	Calls    uint64      `json:"calls"`
	Total    uint64      `json:"total"`
	Self     uint64      `json:"self"`
	Ordinary jsonRowMean `json:"ordinary"`
	Ratio    *float64    `json:"ratio"` // of total; null where ordinary invocations have none
	// Waited is how long the calls waited for locks, and HeldBy who had these.
	Waited   uint64       `json:"waited,omitempty"`
	HeldBy   []jsonHolder `json:"held_by,omitempty"`
	Children []jsonRow    `json:"children"`
}

type jsonHolder struct {
	ID       int32  `json:"id"`
	Function string `json:"function"`
	Waited   uint64 `json:"waited"`
}

type jsonRowMean struct {
	Calls float64 `json:"calls"`
	Total float64 `json:"total"`
	Self  float64 `json:"self"`
}

// WriteJSON writes an object with all invocations, callees as children of their
// callers. It returns the error of w.
func (r *Report) WriteJSON(w io.Writer, names symbolize.Names, v View) error {
	out := jsonReport{
		Unit: r.Clock.Unit(), Invocations: r.Invocations, Threads: r.Threads, P50: r.Clock.Nanos(r.Median), P99: r.Clock.Nanos(r.P99),
		Max: r.Clock.Nanos(r.Longest), Approximate: r.Approximate,
		Ordinary: jsonUsual{"p25..p75", r.Ordinary.Count, r.nanos(r.usualDuration())}, Slowest: []jsonSlow{},
	}
	for i := range r.Slowest {
		s := &r.Slowest[i]
		start := r.Clock.Nanos(s.Start - v.Base)
		tree, _ := r.jsonTree(s.Rows, names)
		slow := jsonSlow{s.Number, s.Thread.File + 1, s.Thread.Process, s.Thread.Thread, "", start, r.Clock.Nanos(s.Duration), tree}
		if v.ThreadName != nil {
			slow.ThreadName = v.ThreadName(s.Thread)
		}
		out.Slowest = append(out.Slowest, slow)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(out)
}

// jsonTree is the first of rows with those below it, and what is left of rows.
func (r *Report) jsonTree(rows []Row, names symbolize.Names) (jsonRow, []Row) {
	row := &rows[0]
	out := jsonRow{
		ID: int32(row.Func), Function: symbolize.Label(names, row.Func),
		Calls: row.Calls, Total: r.Clock.Nanos(row.Total), Self: r.Clock.Nanos(row.Self),
		Ordinary: jsonRowMean{row.UsualCalls, r.nanos(row.UsualTotal), r.nanos(row.UsualSelf)}, Children: []jsonRow{},
	}
	if ratio := row.Ratio(); ratio > 0 {
		out.Ratio = &ratio
	}
	out.Waited = r.Clock.Nanos(row.Waited)
	for _, h := range row.Holders {
		out.HeldBy = append(out.HeldBy, jsonHolder{int32(h.Func), symbolize.Label(names, h.Func), r.Clock.Nanos(h.Ticks)})
	}
	rest := rows[1:]
	for len(rest) > 0 && rest[0].Depth > row.Depth {
		var child jsonRow
		child, rest = r.jsonTree(rest, names)
		out.Children = append(out.Children, child)
	}
	return out, rest
}

// nanos converts a mean.
func (r *Report) nanos(ticks float64) float64 {
	if !r.Clock.Known() {
		return ticks
	}
	return ticks * 1e9 / float64(r.Clock.Frequency)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
