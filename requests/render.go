package requests

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// View says how a report is written.
type View struct {
	Base    uint64 // TSC from which times count, the smallest of the trace
	Threads label.Threads
	Trees   *Trees // of the requests that are shown
	// MinShare leaves segments and calls with less than this part of the request's time,
	// 0 to 1, out of text.
	MinShare float64
	Markdown bool
	Rows     int // most rows of a table of text; all when 0
}

// writer writes text or Markdown.
type writer struct {
	*bufio.Writer
	r     *Report
	names symbolize.Names
	v     View
}

// WriteText writes tables, as text or Markdown. It returns the error of w.
func (r *Report) WriteText(w io.Writer, names symbolize.Names, v View) error {
	out := &writer{bufio.NewWriter(w), r, names, v}
	out.head()
	if len(r.Requests) > 0 {
		out.classes()
		out.steps()
		out.comparison()
	}
	for i, q := range r.Shown {
		out.request(i+1, q)
	}
	return out.Flush()
}

func (w *writer) head() {
	r := w.r
	fmt.Fprintf(w, "%s in %s on %s", count(len(r.Requests), "request", "requests"), count(r.Segments, "segment", "segments"),
		count(r.Threads, "thread", "threads"))
	if q := &r.Durations; q.Count > 0 {
		fmt.Fprintf(w, "; median %s, p99 %s, longest %s", w.about(q, q.P50), w.about(q, q.P99), r.Clock.Format(q.Max))
	}
	w.WriteByte('\n')
	for _, note := range r.notes() {
		w.WriteString(note + "\n")
	}
}

// notes are what one must know to trust the numbers.
func (r *Report) notes() []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if r.Every > 1 {
		add("there are more than can be held: these are the requests of one key in %s, chosen by lot", label.Grouped(r.Every))
	}
	if r.Cut > 0 {
		add("%s not over when the trace ended, and left out", count(r.Cut, "more request was", "more requests were"))
	}
	if r.Reused > 0 {
		add("%s used again: what comes after a pause of more than %s is another request", count(r.Reused, "key was", "keys were"),
			r.Clock.Format(r.Pause))
	}
	if r.Outside > 0 {
		add("%s outside of all calls, and left out", label.Count(r.Outside, "event with a key was", "events with a key were"))
	}
	return notes
}

func (w *writer) title(text string) {
	if w.v.Markdown {
		text = "## " + text
	}
	fmt.Fprintf(w, "\n%s\n\n", text)
}

// table writes rows up to the most that are wanted.
func (w *writer) table(t *texttab.Table, rows int, add func(i int)) {
	shown := rows
	if w.v.Rows > 0 {
		shown = min(rows, w.v.Rows)
	}
	for i := range shown {
		add(i)
	}
	// An error of the underlying writer stays with it, and comes out at the end.
	if w.v.Markdown {
		t.WriteMarkdown(w)
	} else {
		t.WriteText(w)
	}
	if shown < rows {
		fmt.Fprintf(w, "(and %d more)\n", rows-shown)
	}
}

func (w *writer) classes() {
	list := w.r.Classes
	if len(list) == 0 {
		return
	}
	w.title("classes")
	t := &texttab.Table{Columns: columns("requests>", "slow>", "median>", "p90>", "p99>", "longest>", "class")}
	w.table(t, len(list), func(i int) {
		c := &list[i]
		name := c.Name
		if name == "" {
			name = "(none)"
		}
		t.Add(label.Grouped(c.Count), strconv.Itoa(c.Slow), w.about(&c.Quantiles, c.P50), w.about(&c.Quantiles, c.P90),
			w.about(&c.Quantiles, c.P99), w.r.Clock.Format(c.Max), name)
	})
}

// columns makes columns of titles; those with a > behind them are aligned to the right.
func columns(titles ...string) []texttab.Column {
	var list []texttab.Column
	for _, title := range titles {
		title, right := strings.CutSuffix(title, ">")
		list = append(list, texttab.Column{Title: title, Right: right})
	}
	return list
}

// about marks a quantile that is approximate.
func (w *writer) about(q *Quantiles, ticks uint64) string {
	if q.Approximate {
		return "~" + w.r.Clock.Format(ticks)
	}
	return w.r.Clock.Format(ticks)
}

func (w *writer) step(s Step) string {
	if s.Kind == Run {
		return label.Func(w.names, s.To)
	}
	return label.Func(w.names, s.From) + " -> " + label.Func(w.names, s.To)
}

func (w *writer) steps() {
	list := w.r.Steps
	w.title("where the time goes, along the critical path")
	t := &texttab.Table{Columns: columns("time>", "share>", "requests>", "median>", "p90>", "p99>", "longest>", "", "segment")}
	w.table(t, len(list), func(i int) {
		s := &list[i]
		t.Add(w.r.Clock.Format(s.Time.Lo), label.Percent(s.Time.Float64(), w.r.Time.Float64()), label.Grouped(s.Count),
			w.about(&s.Quantiles, s.P50), w.about(&s.Quantiles, s.P90), w.about(&s.Quantiles, s.P99), w.r.Clock.Format(s.Max),
			s.Kind.String(), w.step(s.Step))
	})
}

func (w *writer) comparison() {
	c := &w.r.Slow
	w.title("what makes the slow ones slow")
	if len(c.Steps) == 0 {
		fmt.Fprintf(w, "%s slow (%s), and %d ordinary: nothing to compare\n", count(c.Slow, "request is", "requests are"), c.Rule, c.Ordinary)
		return
	}
	excess := c.SlowMean - c.OrdinaryMean
	fmt.Fprintf(w, "slow: %s (%s), mean %s; ordinary: %s (p25..p75), mean %s; to explain: %s\n\n",
		label.Grouped(uint64(c.Slow)), c.Rule, w.mean(c.SlowMean), label.Grouped(uint64(c.Ordinary)), w.mean(c.OrdinaryMean), w.signed(excess))
	t := &texttab.Table{Columns: columns("longer by>", "share>", "slow>", "ordinary>", "dominates>", "", "segment")}
	w.table(t, len(c.Steps), func(i int) {
		s := &c.Steps[i]
		more := s.SlowMean - s.OrdinaryMean
		t.Add(w.signed(more), label.Percent(more, excess), w.mean(s.SlowMean), w.mean(s.OrdinaryMean),
			fmt.Sprintf("%d of %d", s.Dominates, c.Slow), s.Kind.String(), w.step(s.Step))
	})
}

func (w *writer) mean(ticks float64) string { return w.r.Clock.Format(uint64(math.Round(ticks))) }

func (w *writer) signed(ticks float64) string {
	if ticks < 0 {
		return "-" + w.mean(-ticks)
	}
	return w.mean(ticks)
}

// request draws a waterfall.
func (w *writer) request(n int, q *Request) {
	name := texttab.Printable(q.Key)
	if q.Number > 1 {
		name += fmt.Sprintf(" (no. %d)", q.Number)
	}
	if q.Class != "" {
		name += ", " + texttab.Printable(q.Class)
	}
	w.title(fmt.Sprintf("%d. request %s: %s at %s, %s on %s", n, name, w.r.Clock.Format(q.Duration()), w.r.Clock.Format(q.Start-w.v.Base),
		count(len(q.Segments), "segment", "segments"), count(q.Threads(), "thread", "threads")))
	parts := q.Path()
	t := &texttab.Table{Columns: columns("at>", "for>", "self>", "thread", "", "segment")}
	small := 0
	next := 0
	waits := func(upTo int) {
		for ; next < len(parts) && parts[next].Segment <= upTo; next++ {
			p := &parts[next]
			if p.Kind != Run && !w.small(q, p.End-p.Start) {
				t.Add(w.r.Clock.Format(p.Start-q.Start), w.r.Clock.Format(p.End-p.Start), "", "", q.bar(parts, -1, p.Start, p.End),
					p.Kind.String())
			}
		}
	}
	for i := range q.Segments {
		waits(i)
		s := &q.Segments[i]
		if w.small(q, s.End-s.Start) {
			small++
			continue
		}
		w.segment(t, q, i, parts)
	}
	if small > 0 {
		t.Add("", "", "", "", "", fmt.Sprintf("(and %s of less than %g %%)", count(small, "segment", "segments"), 100*w.v.MinShare))
	}
	// Bars need a fixed pitch.
	fence := ""
	if w.v.Markdown {
		fence = "```\n"
	}
	w.WriteString(fence)
	t.WriteText(w)
	w.WriteString(fence)
	w.path(q, parts)
}

func (w *writer) small(q *Request, ticks uint64) bool {
	return float64(ticks) < w.v.MinShare*float64(q.Duration())
}

// segment adds a segment and what was called in it.
func (w *writer) segment(t *texttab.Table, q *Request, i int, parts []Part) {
	s := &q.Segments[i]
	var tree []Call
	if w.v.Trees != nil {
		tree = w.v.Trees.Of(s)
	}
	self := ""
	if len(tree) > 0 && tree[0].First == s.Start && tree[0].Total == s.End-s.Start && tree[0].Calls == 1 {
		self, tree = w.r.Clock.Format(tree[0].Self), tree[1:]
	} else {
		for j := range tree {
			tree[j].Depth++
		}
	}
	t.Add(w.r.Clock.Format(s.Start-q.Start), w.r.Clock.Format(s.End-s.Start), self, w.v.Threads.Of(s.Thread),
		q.bar(parts, i, s.Start, s.End), label.Func(w.names, s.Func))
	for j := range tree {
		c := &tree[j]
		if w.small(q, c.Total) {
			continue
		}
		name := label.Indent(c.Depth) + label.Func(w.names, c.Func)
		if c.Calls > 1 {
			name += fmt.Sprintf(" %dx", c.Calls)
		}
		t.Add(w.r.Clock.Format(c.First-q.Start), w.r.Clock.Format(c.Total), w.r.Clock.Format(c.Self), "", "", name)
	}
}

// barCells is how wide the bars of a waterfall are.
const barCells = 40

// bar draws a stretch of time of a request: full where segment i is on the critical
// path, light where it is not, and dotted for a wait, for which i is -1.
func (q *Request) bar(parts []Part, i int, start, end uint64) string {
	if q.Duration() == 0 {
		return ""
	}
	scale := float64(barCells) / float64(q.Duration())
	cell := func(tsc uint64) float64 { return float64(tsc-q.Start) * scale }
	from, to := int(cell(start)), int(math.Ceil(cell(end)))
	from = min(from, barCells-1)
	cells := []rune(strings.Repeat(" ", from) + strings.Repeat("░", max(to-from, 1)))
	if i < 0 {
		return strings.ReplaceAll(string(cells), "░", "·")
	}
	for _, p := range parts {
		if p.Kind == Run && p.Segment == i {
			first := min(int(cell(p.Start)), len(cells)-1)
			for at := first; at < min(max(int(math.Ceil(cell(p.End))), first+1), len(cells)); at++ {
				cells[at] = '█'
			}
		}
	}
	return string(cells)
}

// path writes the critical path in a line, without what takes hardly any time.
func (w *writer) path(q *Request, parts []Part) {
	if len(parts) < 2 {
		return
	}
	var words []string
	for i := range parts {
		p := &parts[i]
		if w.small(q, p.End-p.Start) {
			continue
		}
		word := p.Kind.String()
		if p.Kind == Run {
			word = label.Func(w.names, p.To)
		}
		words = append(words, word+" "+w.r.Clock.Format(p.End-p.Start))
	}
	fmt.Fprintf(w, "\ncritical path: %s\n", strings.Join(words, ", "))
}

func count(n int, one, many string) string { return label.Count(uint64(n), one, many) }

// WriteCSV writes a row for each request. It returns the error of w.
func (r *Report) WriteCSV(w io.Writer, v View) error {
	unit := "_" + r.Clock.Unit()
	t := &texttab.Table{Columns: columns("key", "number", "class", "file", "process", "thread", "start"+unit, "duration"+unit,
		"run"+unit, "queue"+unit, "handoff"+unit, "segments", "threads")}
	for i := range r.Requests {
		q := &r.Requests[i]
		var sums [3]uint64
		for _, p := range q.Path() {
			sums[p.Kind] += p.End - p.Start
		}
		first := q.Segments[0].Thread
		t.Add(q.Key, strconv.Itoa(q.Number), q.Class, strconv.Itoa(int(first.File)+1), strconv.Itoa(int(first.Process)),
			strconv.Itoa(int(first.Thread)), nanos(r.Clock, q.Start-v.Base), nanos(r.Clock, q.Duration()),
			nanos(r.Clock, sums[Run]), nanos(r.Clock, sums[Queue]), nanos(r.Clock, sums[Handoff]),
			strconv.Itoa(len(q.Segments)), strconv.Itoa(q.Threads()))
	}
	return t.WriteCSV(w)
}

func nanos(c reader.Clock, ticks uint64) string { return strconv.FormatUint(c.Nanos(ticks), 10) }
