package requests

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/symbolize"
)

// waterfall shows what happened in a request.
type waterfall struct {
	q     *Request
	parts []Part
	clock reader.Clock
	names symbolize.Names
	v     View
	// offKnown is Set.OffKnown.
	offKnown bool
}

func (w *waterfall) title(n int) string {
	q := w.q
	name := printable(q.Key)
	if q.Number > 1 {
		name += fmt.Sprintf(" (no. %d)", q.Number)
	}
	if q.Class != "" {
		name += ", " + printable(q.Class)
	}
	return fmt.Sprintf("%d. Request %s: %s at %s, %s on %s", n, name, w.clock.Format(q.Duration()), w.clock.Format(q.Start-w.v.Base),
		count(len(q.Segments), "segment", "segments"), count(q.Threads(), "thread", "threads"))
}

func (w *waterfall) body() []report.Node {
	body := []report.Node{
		report.Facts(w.q,
			report.String("key", func(q *Request) string { return q.Key }),
			report.Count("number", func(q *Request) uint64 { return uint64(q.Number) }),
			report.String("class", func(q *Request) string { return q.Class }),
			report.Moment("start", func(q *Request) uint64 { return q.Start }),
			report.Time("duration", func(q *Request) uint64 { return q.Duration() }),
		).Hidden(),
		&report.Drawing{Text: w.draw, Data: report.Programs{w.segments(), w.path(), w.executors()}},
	}
	if w.v.Sleeps != nil {
		body = append(body, w.blocked()...)
	}
	if text := w.pathWords(); text != "" {
		body = append(body, report.Paragraph(text))
	}
	return body
}

// line is a segment, or a path of calls in one.
type line struct {
	Call
	of     *Segment
	depth  int // 0 for segments
	noSelf bool
}

// lines lists a segment and the calls in it. The segment's own call has no separate
// line.
func (w *waterfall) lines(s *Segment) []line {
	head := line{Call: Call{Func: s.Func, First: s.Start, Calls: 1, Total: s.End - s.Start}, of: s, noSelf: true}
	var tree []Call
	if w.v.Trees != nil {
		tree = w.v.Trees.Of(s)
	}
	deeper := 1
	if len(tree) > 0 && tree[0].First == s.Start && tree[0].Total == s.End-s.Start && tree[0].Calls == 1 {
		head.Self, head.Off, head.noSelf = tree[0].Self, tree[0].Off, false
		tree, deeper = tree[1:], 0
	}
	list := []line{head}
	for _, c := range tree {
		list = append(list, line{Call: c, of: s, depth: c.Depth + deeper})
	}
	return list
}

// segments returns the lines of all segments, for programs.
func (w *waterfall) segments() *report.TableNode {
	var list []line
	for i := range w.q.Segments {
		list = append(list, w.lines(&w.q.Segments[i])...)
	}
	return report.Tree("segments", list, func(l *line) int { return l.depth },
		report.Moment("start", func(l *line) uint64 { return l.First }),
		report.Count("calls", func(l *line) uint64 { return l.Calls }),
		report.Time("total", func(l *line) uint64 { return l.Total }),
		report.Time("self", func(l *line) uint64 { return l.Self }).Missing(func(l *line) bool { return l.noSelf }),
		report.Time("blocked", func(l *line) uint64 { return l.Off.Blocked }).Missing(func(l *line) bool { return l.noSelf }).When(w.offKnown),
		report.Time("queued", func(l *line) uint64 { return l.Off.Queued }).Missing(func(l *line) bool { return l.noSelf }).When(w.offKnown),
		report.Thread("thread", func(l *line) reader.Thread { return l.of.Thread }),
		report.Function("function", func(l *line) reader.FuncID { return l.Func }),
	)
}

// path returns the critical path, for programs.
func (w *waterfall) path() *report.TableNode {
	columns := append(stepColumns(func(p *Part) *Step { return &p.Step }),
		report.Moment("start", func(p *Part) uint64 { return p.Start }),
		report.Time("duration", func(p *Part) uint64 { return p.End - p.Start }),
		report.Time("blocked", func(p *Part) uint64 { return p.Off.Blocked }).Missing(queue(func(p *Part) *Step { return &p.Step })).When(w.offKnown),
		report.Time("queued", func(p *Part) uint64 { return p.Off.Queued }).Missing(queue(func(p *Part) *Step { return &p.Step })).When(w.offKnown),
		report.Count("segment", func(p *Part) uint64 { return uint64(p.Segment) + 1 }),
	)
	return report.Table("critical_path", w.parts, columns...)
}

// pathWords returns the critical path as a sentence, without steps that take little time.
func (w *waterfall) pathWords() string {
	if len(w.parts) < 2 {
		return ""
	}
	var words []string
	for i := range w.parts {
		p := &w.parts[i]
		if w.small(p.End - p.Start) {
			continue
		}
		word := p.Kind.String()
		if p.Kind == Run {
			word = label.Func(w.names, p.To)
		}
		words = append(words, word+" "+w.clock.Format(p.End-p.Start))
	}
	return "Critical path: " + strings.Join(words, ", ") + "."
}

// blocked returns the times in which the threads slept, and what ended them: all for programs,
// and only the longer ones for people.
func (w *waterfall) blocked() []report.Node {
	all := w.v.Sleeps.of[w.q]
	table := func(list []*Blocked) *report.TableNode {
		noThread := func(b **Blocked) bool { return (*b).By != sched.ByThread }
		return report.Table("sleeps", list,
			report.Moment("start", func(b **Blocked) uint64 { return (*b).Start }).ForPrograms(),
			report.Time("start", func(b **Blocked) uint64 { return (*b).Start - w.q.Start }).Titled("at").ForPeople(),
			report.Time("duration", func(b **Blocked) uint64 { return (*b).End - (*b).Start }).Titled("blocked"),
			report.Count("segment", func(b **Blocked) uint64 { return uint64((*b).Segment) + 1 }).ForPrograms(),
			report.Function("function", func(b **Blocked) reader.FuncID { return (*b).Func }).Missing(func(b **Blocked) bool { return (*b).Func == 0 }).Titled("in"),
			report.String("woken_by", func(b **Blocked) string { return wakerNames[(*b).By] }).Titled("woken by"),
			report.Thread("waker", func(b **Blocked) reader.Thread { return (*b).Waker }).Missing(noThread).Titled("thread"),
			report.String("waker_key", func(b **Blocked) string { return printable((*b).WakerOwner.Key) }).
				Missing(func(b **Blocked) bool { return (*b).WakerOwner == nil }).Titled("request"),
			report.Function("waker_function", func(b **Blocked) reader.FuncID { return (*b).WakerFunc }).
				Missing(func(b **Blocked) bool { return (*b).WakerFunc == 0 }).Titled("in its function"),
		)
	}
	large := slices.DeleteFunc(slices.Clone(all), func(b *Blocked) bool { return w.small(b.End - b.Start) })
	return []report.Node{report.Programs{table(all)}, report.People{table(large).Top(w.v.Rows)}}
}

var wakerNames = [...]string{sched.ByUnknown: "unknown", sched.ByThread: "thread", sched.ByProcess: "another process", sched.ByInterrupt: "interrupt"}

func (w *waterfall) small(ticks uint64) bool {
	return float64(ticks) < w.v.MinShare*float64(w.q.Duration())
}

// occupant is what the awaited thread did in a wait.
type occupant struct {
	Occupant
	depth int
}

// meanwhile returns what the thread did that a part waits for, without what took little time.
func (w *waterfall) meanwhile(part int) (list []occupant) {
	if _, first := w.q.executorWait(w.parts, part); !first {
		return nil
	}
	var open []uint64 // ends
	for _, o := range w.v.Occupants.Of(w.q, &w.parts[part]) {
		for len(open) > 0 && open[len(open)-1] <= o.Start {
			open = open[:len(open)-1]
		}
		if !w.small(o.End - o.Start) {
			list = append(list, occupant{o, len(open)})
			open = append(open, o.End)
		}
	}
	return list
}

// executors returns what the threads did that the request waited for, for programs.
func (w *waterfall) executors() *report.TableNode {
	var list []occupant
	for i := range w.parts {
		list = append(list, w.meanwhile(i)...)
	}
	return report.Tree("executors", list, func(o *occupant) int { return o.depth },
		report.Moment("start", func(o *occupant) uint64 { return o.Start }),
		report.Time("duration", func(o *occupant) uint64 { return o.End - o.Start }),
		report.String("key", func(o *occupant) string { return o.Key }).Missing(func(o *occupant) bool { return o.Key == "" }),
		report.Function("function", func(o *occupant) reader.FuncID { return o.Func }),
	)
}

// widestBar is the maximum width of a waterfall's bars. On a narrow terminal they take a
// quarter of it.
const widestBar = 40

// draw writes the waterfall for a terminal with this many columns.
func (w *waterfall) draw(out io.Writer, width int) error {
	cells := widestBar
	if width > 0 {
		cells = max(min(width/4, widestBar), 10)
	}
	t := &texttab.Table{Columns: []texttab.Column{
		{Title: "at", Right: true}, {Title: "for", Right: true}, {Title: "self", Right: true, Optional: true},
		{Title: "blocked", Right: true, Optional: true}, {Title: "queued", Right: true, Optional: true},
		{Title: "thread", Optional: true, Least: true}, {}, {Title: "function", Cut: texttab.Left},
	}}
	if !w.offKnown {
		t.Columns = slices.Delete(t.Columns, 3, 5)
	}
	add := func(cells ...string) {
		if !w.offKnown {
			cells = slices.Delete(cells, 3, 5)
		}
		t.Add(cells...)
	}
	q, format := w.q, w.clock.Format
	small, next := 0, 0
	for i := range q.Segments {
		for ; next < len(w.parts) && w.parts[next].Segment <= i; next++ {
			if p := &w.parts[next]; p.Kind != Run && !w.small(p.End-p.Start) {
				blocked, queued := "", ""
				if p.offKnown() {
					blocked, queued = format(p.Off.Blocked), format(p.Off.Queued)
				}
				add(format(p.Start-q.Start), format(p.End-p.Start), "", blocked, queued, "", w.bar(cells, -1, p.Start, p.End), p.Kind.String())
				for _, o := range w.meanwhile(next) {
					name := label.Func(w.names, o.Func)
					if o.Key != "" {
						name += " " + printable(o.Key)
					}
					add(format(o.Start-q.Start), format(o.End-o.Start), "", "", "", w.v.Threads.Of(q.Segments[p.Segment].Thread), "",
						label.Indent(o.depth+1)+name)
				}
			}
		}
		s := &q.Segments[i]
		if w.small(s.End - s.Start) {
			small++
			continue
		}
		for _, l := range w.lines(s) {
			self, blocked, queued := format(l.Self), format(l.Off.Blocked), format(l.Off.Queued)
			thread, bar, name := "", "", label.Indent(l.depth)+label.Func(w.names, l.Func)
			if l.noSelf {
				self, blocked, queued = "", "", ""
			}
			switch {
			case l.depth == 0:
				thread, bar = w.v.Threads.Of(s.Thread), w.bar(cells, i, s.Start, s.End)
			case w.small(l.Total):
				continue
			case l.Calls > 1:
				name += fmt.Sprintf(" %dx", l.Calls)
			}
			add(format(l.First-q.Start), format(l.Total), self, blocked, queued, thread, bar, name)
		}
	}
	if _, err := t.WriteFitted(out, width); err != nil || small == 0 {
		return err
	}
	_, err := fmt.Fprintf(out, "(and %s of less than %g%% of the time)\n", count(small, "segment", "segments"), 100*w.v.MinShare)
	return err
}

// bar draws a stretch of time of a request: full where segment i is on the critical
// path, light where it is not, and dotted for a wait, for which i is -1.
func (w *waterfall) bar(width, i int, start, end uint64) string {
	q := w.q
	if q.Duration() == 0 {
		return ""
	}
	scale := float64(width) / float64(q.Duration())
	cell := func(tsc uint64) float64 { return float64(tsc-q.Start) * scale }
	from, to := int(cell(start)), int(math.Ceil(cell(end)))
	from = min(from, width-1)
	cells := []rune(strings.Repeat(" ", from) + strings.Repeat("░", max(to-from, 1)))
	if i < 0 {
		return strings.ReplaceAll(string(cells), "░", "·")
	}
	for _, p := range w.parts {
		if p.Kind == Run && p.Segment == i {
			first := min(int(cell(p.Start)), len(cells)-1)
			for at := first; at < min(max(int(math.Ceil(cell(p.End))), first+1), len(cells)); at++ {
				cells[at] = '█'
			}
		}
	}
	return string(cells)
}
