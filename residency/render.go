package residency

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// View says how a report is written.
type View struct {
	Base     uint64 // TSC from which times count, the smallest of the trace
	Threads  label.Threads
	Markdown bool
	Top      int // how many functions and silences are shown; all when 0
}

// letters stand for the functions in strips, the one with most time first.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// signs stand for all states but Busy.
var signs = [states]string{None: " ", Absent: ".", Other: "+", Busy: "#", Silent: "~", Waiting: "-"}

// writer writes a report as text or Markdown.
type writer struct {
	*Report
	*bufio.Writer
	names symbolize.Names
	view  View
}

// WriteText writes a strip for each thread and tables, as text or Markdown. It
// returns the error of w.
func (r *Report) WriteText(out io.Writer, names symbolize.Names, v View) error {
	w := &writer{r, bufio.NewWriter(out), names, v}
	fmt.Fprintf(w, "%s, %s from %s on; a character is %s\n", label.Count(uint64(len(r.Threads)), "thread", "threads"),
		r.Clock.Format(r.To-r.From), w.at(r.From), r.Clock.Format(r.Cell))
	if len(r.Threads) > 0 {
		w.strips()
		w.funcs()
		w.silences()
		w.gaps()
		w.stalls()
	}
	return w.Flush()
}

func (w *writer) at(tsc uint64) string { return w.Clock.Format(tsc - min(tsc, w.view.Base)) }

func (w *writer) table(t *texttab.Table) {
	w.WriteByte('\n')
	if w.view.Markdown {
		t.WriteMarkdown(w.Writer)
	} else {
		t.WriteText(w.Writer)
	}
}

func (w *writer) some(n int) int {
	if w.view.Top > 0 {
		return min(n, w.view.Top)
	}
	return n
}

// right and left are columns of tables.
func right(titles ...string) (list []texttab.Column) {
	for _, title := range titles {
		list = append(list, texttab.Column{Title: title, Right: true})
	}
	return list
}

func left(titles ...string) (list []texttab.Column) {
	for _, title := range titles {
		list = append(list, texttab.Column{Title: title})
	}
	return list
}

// shown are the states of which there is any time, or which are always shown.
func (w *writer) shown() []State {
	list := []State{Busy, Waiting, Silent, Absent}
	for i := range w.Threads {
		if w.Threads[i].Ticks[Other] > 0 {
			return []State{Busy, Other, Waiting, Silent, Absent}
		}
	}
	return list
}

// strips draws what the threads did, and says what the characters stand for.
func (w *writer) strips() {
	signOf := make(map[reader.FuncID]string)
	for i, f := range w.Funcs[:min(len(w.Funcs), len(letters))] {
		signOf[f.Func] = letters[i : i+1]
	}
	used := make(map[string]bool)
	t := &texttab.Table{Columns: left("thread")}
	states := w.shown()
	for _, s := range states {
		t.Columns = append(t.Columns, right(s.String())...)
	}
	t.Columns = append(t.Columns, left("|")...)
	shown := w.longest(maxStrips)
	for _, i := range shown {
		th := &w.Threads[i]
		cells := []string{w.view.Threads.Of(th.Thread)}
		for _, s := range states {
			cells = append(cells, label.Percent(float64(th.Ticks[s]), float64(th.Last-th.First)))
		}
		var strip strings.Builder
		for _, run := range th.Runs() {
			sign := signs[run.State]
			if run.State == Busy && signOf[run.Func] != "" {
				sign = signOf[run.Func]
			}
			used[sign] = true
			strip.WriteString(strings.Repeat(sign, run.Cells))
		}
		bar := "|" + strip.String() + "|"
		if w.view.Markdown {
			bar = strings.TrimRight(bar, " ")
		}
		t.Add(append(cells, bar)...)
	}
	// Markdown would take the characters as its own.
	w.WriteString("\n")
	w.fence()
	t.WriteText(w.Writer)
	if n := len(w.Threads) - len(shown); n > 0 {
		fmt.Fprintf(w, "(and %s that lived no longer: --thread shows them, and so do csv and json)\n", label.Count(uint64(n), "thread", "threads"))
	}
	w.WriteString("\n")
	for _, f := range w.Funcs {
		if sign := signOf[f.Func]; sign != "" && used[sign] {
			fmt.Fprintf(w, "%s  %s\n", sign, label.Func(w.names, f.Func))
		}
	}
	for s, text := range [...]string{
		Busy: "other functions", Other: "other calls are open", Waiting: "waiting, as names tell",
		Silent: "silent: a call is open, but nothing was recorded for more than " + w.Clock.Format(w.Gap),
		Absent: "absent: no call is open",
	} {
		if text != "" && used[signs[s]] {
			fmt.Fprintf(w, "%s  %s\n", signs[s], text)
		}
	}
	w.fence()
}

// maxStrips bounds the threads that are drawn.
const maxStrips = 1000

// longest are the places of the threads that lived longest, in order.
func (w *writer) longest(n int) []int {
	list := make([]int, len(w.Threads))
	for i := range list {
		list[i] = i
	}
	if len(list) > n {
		life := func(i int) uint64 { return w.Threads[i].Last - w.Threads[i].First }
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(life(b), life(a)) })
		list = list[:n]
		slices.Sort(list)
	}
	return list
}

// fence begins or ends what Markdown must not touch.
func (w *writer) fence() {
	if w.view.Markdown {
		w.WriteString("```\n")
	}
}

func (w *writer) funcs() {
	var alive uint64
	for i := range w.Threads {
		alive += w.Threads[i].Last - w.Threads[i].First
	}
	if len(w.Funcs) == 0 {
		return
	}
	t := &texttab.Table{Columns: append(right("calls", "total", "share", "waiting", "silent", "longest", "at"), left("function")...)}
	for _, f := range w.Funcs[:w.some(len(w.Funcs))] {
		t.Add(label.Grouped(f.Count), w.Clock.Format(f.Ticks), label.Percent(float64(f.Ticks), float64(alive)), w.Clock.Format(f.Waiting),
			w.Clock.Format(f.Silent), w.Clock.Format(f.Longest), w.at(f.At), label.Func(w.names, f.Func))
	}
	w.table(t)
	w.more(len(w.Funcs), "function", "functions")
}

// more says how many rows a table does not have.
func (w *writer) more(n int, one, many string) {
	if rest := n - w.some(n); rest > 0 {
		if w.view.Markdown {
			w.WriteByte('\n')
		}
		fmt.Fprintf(w, "(and %s)\n", label.Count(uint64(rest), one, many))
	}
}

func (w *writer) silences() {
	if len(w.Silences) == 0 {
		return
	}
	t := &texttab.Table{Columns: append(right("silent", "times", "longest", "at"), left("in")...)}
	for _, s := range w.Silences[:w.some(len(w.Silences))] {
		t.Add(w.Clock.Format(s.Ticks), label.Grouped(s.Count), w.Clock.Format(s.Longest), w.at(s.At), label.Func(w.names, s.Func))
	}
	w.table(t)
	w.more(len(w.Silences), "function", "functions")
}

func (w *writer) gaps() {
	if len(w.Gaps) == 0 {
		return
	}
	t := &texttab.Table{Columns: append(right("gap", "at"), left("thread", "where")...)}
	for _, g := range w.Gaps {
		where := "in " + label.Func(w.names, g.Func)
		if g.State == Absent {
			where = fmt.Sprintf("absent, after %s and before %s", label.Func(w.names, g.Func), label.Func(w.names, g.Next))
		}
		t.Add(w.Clock.Format(g.Ticks), w.at(g.Start), w.view.Threads.Of(g.Thread), where)
	}
	w.table(t)
}

func (w *writer) stalls() {
	if w.Stalled.Count == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s of half of the threads at once, %s in all: a stall of the machine, or all wait for one thing\n",
		label.Count(w.Stalled.Count, "silence", "silences"), w.Clock.Format(w.Stalled.Ticks))
	t := &texttab.Table{Columns: right("for", "at", "silent", "of")}
	for _, s := range w.Stalls {
		t.Add(w.Clock.Format(s.Ticks), w.at(s.Start), strconv.Itoa(s.Silent), strconv.Itoa(s.Alive))
	}
	w.table(t)
}

// WriteCSV writes a row for each run of each thread. It returns the error of w.
func (r *Report) WriteCSV(out io.Writer, names symbolize.Names, v View) error {
	unit := "_" + r.Clock.Unit()
	w := bufio.NewWriter(out)
	w.WriteString(texttab.CSVRow("file", "process", "thread", "name", "start"+unit, "duration"+unit, "state", "id", "function"))
	for i := range r.Threads {
		th := &r.Threads[i]
		id := th.Thread
		for _, run := range th.Runs() {
			if run.State == None {
				continue
			}
			number, function := "", ""
			if run.Func != 0 {
				number, function = strconv.Itoa(int(run.Func)), symbolize.Label(names, run.Func)
			}
			start, duration := r.stretch(run.Start, run.Ticks, v.Base)
			w.WriteString(texttab.CSVRow(strconv.Itoa(int(id.File)+1), strconv.Itoa(int(id.Process)), strconv.Itoa(int(id.Thread)), v.Threads.NameOf(id),
				strconv.FormatUint(start, 10), strconv.FormatUint(duration, 10), run.State.String(), number, function))
		}
	}
	return w.Flush()
}

// stretch converts a stretch so that it ends where the next one begins.
func (r *Report) stretch(start, ticks, base uint64) (from, duration uint64) {
	from = r.Clock.Nanos(start - min(start, base))
	return from, r.Clock.Nanos(start-min(start, base)+ticks) - from
}

// jsonReport is what WriteJSON writes. Times are integers in Unit, moments are
// since the start of the trace.
type jsonReport struct {
	Unit      string       `json:"unit"` // ns or ticks
	From      uint64       `json:"from"`
	Duration  uint64       `json:"duration"`
	Cell      uint64       `json:"cell"`
	Gap       uint64       `json:"gap"`
	Threads   []jsonThread `json:"threads"`
	Functions []jsonFunc   `json:"functions"`
	Silent    []jsonFunc   `json:"silent_in"`
	Gaps      []jsonGap    `json:"gaps"`
	Stalls    jsonStalls   `json:"stalls"`
}

type jsonThread struct {
	File      int32      `json:"file"` // position on the command line, from 1
	Process   int32      `json:"process"`
	Thread    int32      `json:"thread"`
	Name      string     `json:"name,omitempty"`
	From      uint64     `json:"from"`
	Duration  uint64     `json:"duration"`
	Busy      uint64     `json:"busy"`
	Other     uint64     `json:"other"`
	Waiting   uint64     `json:"waiting"`
	Silent    uint64     `json:"silent"`
	Absent    uint64     `json:"absent"`
	Functions []jsonFunc `json:"functions"`
	Runs      []jsonRun  `json:"runs"`
}

type jsonFunc struct {
	ID       reader.FuncID `json:"id"`
	Function string        `json:"function"`
	Count    uint64        `json:"count"`
	Total    uint64        `json:"total"`
	Waiting  uint64        `json:"waiting,omitempty"`
	Silent   uint64        `json:"silent,omitempty"`
	Longest  uint64        `json:"longest"`
	At       uint64        `json:"longest_at"`
}

type jsonRun struct {
	Start    uint64        `json:"start"`
	Duration uint64        `json:"duration"`
	State    string        `json:"state"`
	ID       reader.FuncID `json:"id,omitempty"`
	Function string        `json:"function,omitempty"`
}

type jsonGap struct {
	Process  int32  `json:"process"`
	Thread   int32  `json:"thread"`
	Start    uint64 `json:"start"`
	Duration uint64 `json:"duration"`
	State    string `json:"state"`
	Function string `json:"function"`
	Next     string `json:"next,omitempty"`
}

type jsonStalls struct {
	Count   uint64      `json:"count"`
	Total   uint64      `json:"total"`
	Longest []jsonStall `json:"longest"`
}

type jsonStall struct {
	Start    uint64 `json:"start"`
	Duration uint64 `json:"duration"`
	Silent   int    `json:"silent"`
	Alive    int    `json:"alive"`
}

// WriteJSON writes an object with all that the report has. It returns the error of
// w.
func (r *Report) WriteJSON(w io.Writer, names symbolize.Names, v View) error {
	ns := r.Clock.Nanos
	at := func(tsc uint64) uint64 { return ns(tsc - min(tsc, v.Base)) }
	toFunc := func(fn reader.FuncID, s Sum) jsonFunc {
		return jsonFunc{ID: fn, Function: symbolize.Label(names, fn), Count: s.Count, Total: ns(s.Ticks), Longest: ns(s.Longest), At: at(s.At)}
	}
	toFuncs := func(list []Func) []jsonFunc {
		out := []jsonFunc{}
		for _, f := range list {
			j := toFunc(f.Func, f.Sum)
			j.Waiting, j.Silent = ns(f.Waiting), ns(f.Silent)
			out = append(out, j)
		}
		return out
	}
	out := jsonReport{
		Unit: r.Clock.Unit(), From: at(r.From), Duration: ns(r.To - r.From), Cell: ns(r.Cell), Gap: ns(r.Gap), Threads: []jsonThread{},
		Functions: toFuncs(r.Funcs), Silent: []jsonFunc{}, Gaps: []jsonGap{},
		Stalls: jsonStalls{r.Stalled.Count, ns(r.Stalled.Ticks), []jsonStall{}},
	}
	thread := func(th *Thread) jsonThread {
		j := jsonThread{
			File: th.Thread.File + 1, Process: th.Thread.Process, Thread: th.Thread.Thread, Name: v.Threads.NameOf(th.Thread),
			From: at(th.First), Duration: ns(th.Last - th.First), Busy: ns(th.Ticks[Busy]), Other: ns(th.Ticks[Other]),
			Waiting: ns(th.Ticks[Waiting]), Silent: ns(th.Ticks[Silent]), Absent: ns(th.Ticks[Absent]), Functions: toFuncs(th.Funcs),
		}
		for _, run := range th.Runs() {
			start, duration := r.stretch(run.Start, run.Ticks, v.Base)
			jr := jsonRun{Start: start, Duration: duration, State: run.State.String(), ID: run.Func}
			if run.Func != 0 {
				jr.Function = symbolize.Label(names, run.Func)
			}
			j.Runs = append(j.Runs, jr)
		}
		return j
	}
	for _, s := range r.Silences {
		out.Silent = append(out.Silent, toFunc(s.Func, s.Sum))
	}
	for _, g := range r.Gaps {
		j := jsonGap{g.Thread.Process, g.Thread.Thread, at(g.Start), ns(g.Ticks), g.State.String(), symbolize.Label(names, g.Func), ""}
		if g.State == Absent {
			j.Next = symbolize.Label(names, g.Next)
		}
		out.Gaps = append(out.Gaps, j)
	}
	for _, s := range r.Stalls {
		out.Stalls.Longest = append(out.Stalls.Longest, jsonStall{at(s.Start), ns(s.Ticks), s.Silent, s.Alive})
	}
	// Of the threads, which may be very many, one at a time is in memory.
	text, err := indented("", out)
	if err != nil {
		return err
	}
	const threads = "\n \"threads\": [" // no text of JSON has such a line
	head, tail, _ := bytes.Cut(text, []byte(threads+"]"))
	b := bufio.NewWriter(w)
	b.Write(head)
	b.WriteString(threads)
	for i := range r.Threads {
		text, err := indented("  ", thread(&r.Threads[i]))
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(bytes.TrimSuffix(text, []byte("\n")))
		if i == len(r.Threads)-1 {
			b.WriteString("\n ")
		}
	}
	b.WriteByte(']')
	b.Write(tail)
	return b.Flush()
}

// indented is a value as JSON whose lines but the first begin with a prefix.
func indented(prefix string, v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, " ")
	err := e.Encode(v)
	return b.Bytes(), err
}
