package residency

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what people see of a report.
type View struct {
	Base    uint64 // TSC to which times are relative, the smallest of the trace
	Threads label.Threads
	Top     int // number of functions and silences shown; 0 for all
}

// letters stand for the functions in strips, the one with the most time first.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// signs stand for all states except Busy.
var signs = [states]string{None: " ", Absent: ".", Other: "+", Busy: "#", Silent: "~", Queued: "=", Recorder: "*", Waiting: "-"}

// Body describes the report. Names are for the legend of the strips.
func (r *Report) Body(names symbolize.Names, v View) []report.Node {
	head := fmt.Sprintf("%s, %s from %s.", label.Count(uint64(len(r.Threads)), "thread", "threads"),
		r.Clock.Format(r.To-r.From), r.Clock.Format(r.From-min(r.From, v.Base)))
	if len(r.Threads) > 0 {
		head += fmt.Sprintf(" Each character of a strip covers %s.", r.Clock.Format(r.Cell))
	}
	body := []report.Node{
		report.Paragraph(head),
		report.Facts(r,
			report.Count("thread_count", func(r *Report) uint64 { return uint64(len(r.Threads)) }),
			report.Moment("start", func(r *Report) uint64 { return r.From }),
			report.Time("duration", func(r *Report) uint64 { return r.To - r.From }),
			report.Time("cell", func(r *Report) uint64 { return r.Cell }),
			report.Time("gap", func(r *Report) uint64 { return r.Gap }),
			report.Count("stall_count", func(r *Report) uint64 { return r.Stalled.Count }),
			report.Time("stall_total", func(r *Report) uint64 { return r.Stalled.Ticks }),
		).Hidden(),
		report.Programs{r.runs(), r.threads()},
	}
	if len(r.Threads) > 0 {
		s := &strips{r, names, v}
		body = append(body, &report.Drawing{Text: s.draw})
	}
	body = append(body, r.functions(v), r.silences(v), r.gaps())
	if r.Stalled.Count > 0 {
		body = append(body, report.Paragraph(fmt.Sprintf("At least half of the threads were silent at the same time %s, for %s in total. Either the machine stalled, or the threads waited for the same thing.",
			label.Count(r.Stalled.Count, "time", "times"), r.Clock.Format(r.Stalled.Ticks))))
	}
	return append(body, r.stalls())
}

// threadRun is a run of a thread.
type threadRun struct {
	Run
	thread reader.Thread
}

// runs returns a table of the runs of all threads. Only one thread's runs are in memory at a time.
func (r *Report) runs() report.Node {
	of := func(i int) []Run {
		return slices.DeleteFunc(r.Threads[i].Runs(), func(run Run) bool { return run.State == None })
	}
	length := 0
	for i := range r.Threads {
		length += len(of(i))
	}
	var row threadRun
	var list []Run
	thread, first := -1, 0 // the list is of this thread, and begins with this row
	at := func(i int) *threadRun {
		if i < first {
			list, thread, first = nil, -1, 0
		}
		for i >= first+len(list) {
			first += len(list)
			thread++
			list = of(thread)
		}
		row = threadRun{list[i-first], r.Threads[thread].Thread}
		return &row
	}
	return report.Computed("runs", length, at,
		report.Thread("thread", func(t *threadRun) reader.Thread { return t.thread }),
		report.Moment("start", func(t *threadRun) uint64 { return t.Start }),
		report.Time("duration", func(t *threadRun) uint64 { return t.Ticks }),
		report.String("state", func(t *threadRun) string { return t.State.String() }),
		report.Function("function", func(t *threadRun) reader.FuncID { return t.Func }).Missing(func(t *threadRun) bool { return t.Func == 0 }),
	)
}

// threads returns a table of the threads, for programs. People see them as strips.
func (r *Report) threads() report.Node {
	ticks := func(s State) report.Column[Thread] {
		return report.Time(s.String(), func(t *Thread) uint64 { return t.Ticks[s] })
	}
	return report.Table("threads", r.Threads,
		report.Thread("thread", func(t *Thread) reader.Thread { return t.Thread }),
		report.Moment("start", func(t *Thread) uint64 { return t.First }),
		report.Time("duration", func(t *Thread) uint64 { return t.Last - t.First }),
		ticks(Busy), ticks(Other), ticks(Waiting), ticks(Silent).When(!r.OffCPU), ticks(Queued).When(r.OffCPU), ticks(Recorder).When(r.OffCPU), ticks(Absent),
		report.Rows("functions", func(t *Thread) *report.TableNode {
			return report.Table("functions", t.Funcs, r.functionColumns(t.Recorded)...)
		}, nil),
	)
}

func (r *Report) functions(v View) report.Node {
	var alive uint64
	for i := range r.Threads {
		alive += r.Threads[i].Recorded
	}
	return report.Table("functions", r.Funcs, r.functionColumns(alive)...).Top(v.Top)
}

// functionColumns returns the columns of functions, relative to a given time of threads.
func (r *Report) functionColumns(alive uint64) []report.Column[Func] {
	return []report.Column[Func]{
		report.Count("count", func(f *Func) uint64 { return f.Count }).Titled("calls"),
		report.Time("total", func(f *Func) uint64 { return f.Ticks }),
		report.Share("share", func(f *Func) float64 {
			if alive == 0 {
				return 0
			}
			return float64(f.Ticks) / float64(alive)
		}),
		report.Time("waiting", func(f *Func) uint64 { return f.Waiting }),
		report.Time("silent", func(f *Func) uint64 { return f.Silent }).Optional().When(!r.OffCPU),
		report.Time("queued", func(f *Func) uint64 { return f.Queued }).Optional().When(r.OffCPU),
		report.Time("max", func(f *Func) uint64 { return f.Longest }).Optional(),
		report.Moment("max_start", func(f *Func) uint64 { return f.At }).Titled("max at").Least(),
		report.Function("function", func(f *Func) reader.FuncID { return f.Func }),
	}
}

func (r *Report) silences(v View) report.Node {
	return report.Table("silent_in", r.Silences,
		report.Time("total", func(s *Silence) uint64 { return s.Ticks }).Titled("silent"),
		report.Count("count", func(s *Silence) uint64 { return s.Count }).Titled("times"),
		report.Time("max", func(s *Silence) uint64 { return s.Longest }),
		report.Moment("max_start", func(s *Silence) uint64 { return s.At }).Titled("max at").Optional(),
		report.Function("function", func(s *Silence) reader.FuncID { return s.Func }).Titled("in"),
	).Top(v.Top)
}

func (r *Report) gaps() report.Node {
	return report.Table("gaps", r.Gaps,
		report.Time("duration", func(g *Gap) uint64 { return g.Ticks }).Titled("gap"),
		report.Moment("start", func(g *Gap) uint64 { return g.Start }).Titled("at"),
		report.Thread("thread", func(g *Gap) reader.Thread { return g.Thread }).Optional(),
		report.String("state", func(g *Gap) string { return g.State.String() }),
		report.Function("function", func(g *Gap) reader.FuncID { return g.Func }).Titled("in, or after"),
		report.Function("next", func(g *Gap) reader.FuncID { return g.Next }).Titled("before").Missing(func(g *Gap) bool { return g.State != Absent }),
	)
}

func (r *Report) stalls() report.Node {
	return report.Table("stalls", r.Stalls,
		report.Time("duration", func(s *Stall) uint64 { return s.Ticks }).Titled("for"),
		report.Moment("start", func(s *Stall) uint64 { return s.Start }).Titled("at"),
		report.Count("silent_threads", func(s *Stall) uint64 { return uint64(s.Silent) }),
		report.Count("live_threads", func(s *Stall) uint64 { return uint64(s.Alive) }),
	)
}

// strips draws the states of threads over time.
type strips struct {
	*Report
	names symbolize.Names
	view  View
}

// shown returns the states to show. Other and Recorder are shown only if a thread has time in them.
func (s *strips) shown() []State {
	list := []State{Busy, Waiting, Silent, Absent}
	if s.OffCPU {
		list[2] = Queued
	}
	has := func(state State) bool {
		return slices.ContainsFunc(s.Threads, func(t Thread) bool { return t.Ticks[state] > 0 })
	}
	if has(Recorder) {
		list = slices.Insert(list, 3, Recorder)
	}
	if has(Other) {
		list = slices.Insert(list, 1, Other)
	}
	return list
}

// draw writes the strips and their legend.
func (s *strips) draw(w io.Writer, width int) error {
	signOf := make(map[reader.FuncID]string)
	for i, f := range s.Funcs[:min(len(s.Funcs), len(letters))] {
		signOf[f.Func] = letters[i : i+1]
	}
	used := make(map[string]bool)
	t := &texttab.Table{Columns: []texttab.Column{{Title: "thread"}}}
	states := s.shown()
	for _, state := range states {
		t.Columns = append(t.Columns, texttab.Column{Title: state.String(), Right: true, Optional: true, Least: state != Busy})
	}
	t.Columns = append(t.Columns, texttab.Column{Title: "|"})
	shown := s.longest(maxStrips)
	for _, i := range shown {
		th := &s.Threads[i]
		cells := []string{s.view.Threads.Of(th.Thread)}
		for _, state := range states {
			cells = append(cells, label.Percent(float64(th.Ticks[state]), float64(th.Recorded)))
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
		t.Add(append(cells, "|"+strip.String()+"|")...)
	}
	if _, err := t.WriteFitted(w, width); err != nil {
		return err
	}
	var text strings.Builder
	if n := len(s.Threads) - len(shown); n > 0 {
		fmt.Fprintf(&text, "(and %s; to see them, use --thread, or --format csv or json)\n", label.Count(uint64(n), "shorter-lived thread", "shorter-lived threads"))
	}
	text.WriteByte('\n')
	for _, f := range s.Funcs {
		if sign := signOf[f.Func]; sign != "" && used[sign] {
			fmt.Fprintf(&text, "%s  %s\n", sign, label.Func(s.names, f.Func))
		}
	}
	waiting := "waiting, according to function names"
	if s.OffCPU {
		waiting = "waiting: blocked or asleep"
	}
	for state, words := range [...]string{
		Busy: "other functions", Other: "other calls are open", Queued: "queued: the thread is runnable but not running", Waiting: waiting, Recorder: "recorder: the thread waits for the recorder",
		Silent: "silent: a call is open, but nothing was recorded for more than " + s.Clock.Format(s.Gap),
		Absent: "absent: no call is open",
	} {
		if words != "" && used[signs[state]] {
			fmt.Fprintf(&text, "%s  %s\n", signs[state], words)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// maxStrips is the maximum number of threads that are drawn.
const maxStrips = 1000

// longest returns the indices of the threads that lived longest, in order.
func (s *strips) longest(n int) []int {
	list := make([]int, len(s.Threads))
	for i := range list {
		list[i] = i
	}
	if len(list) > n {
		life := func(i int) uint64 { return s.Threads[i].Last - s.Threads[i].First }
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(life(b), life(a)) })
		list = list[:n]
		slices.Sort(list)
	}
	return list
}
