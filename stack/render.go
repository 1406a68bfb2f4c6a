package stack

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects the stacks that a report lists for people. Programs get all stacks.
type View struct {
	Metric Metric // orders the stacks
	Top    int    // number of stacks in the list; 0 for all
}

// Stacks with more frames show only the outermost and the innermost.
const (
	outerFrames = 20
	innerFrames = 80
)

// Body describes the report: the stacks with the most self value, and all paths. Names are
// for the flame graph on a page. If Top is 0, the list is kept in memory.
func (r *Report) Body(names symbolize.Names, v View) []report.Node {
	rows := &pathRows{report: r}
	list, all := rows.heaviest(v)
	people := report.People{r.head(&all, rows.length()), report.Picture(func(w io.Writer) error {
		return r.WriteSVG(w, names, SVGView{Metric: v.Metric})
	})}
	switch {
	case len(list) == 0 && rows.length() > 0:
		people = append(people, report.Paragraph("No call path has "+metricWords[v.Metric]+"."))
	case len(list) < rows.length():
		people = append(people, report.Paragraph("The "+heaviestStacks(len(list))+":"))
	}
	for i := range list {
		people = append(people, r.section(v.Metric, &list[i], i+1, v.Metric.own(&all)))
	}
	return []report.Node{
		people,
		report.Facts(&all,
			report.Count("stack_count", func(*Frame) uint64 { return uint64(rows.length()) }),
			report.Count("calls", func(f *Frame) uint64 { return f.Count + f.Open }),
			report.Count("open", func(f *Frame) uint64 { return f.Open }),
			report.Time("self", Time.own),
		).Hidden(),
		report.Programs{report.Computed("stacks", rows.length(), rows.at,
			report.Thread("thread", func(p *pathRow) reader.Thread { return p.tree.Thread }).When(r.perThread()),
			report.Count("id", func(p *pathRow) uint64 { return uint64(p.first + p.index + 1) }),
			report.Count("parent", func(p *pathRow) uint64 { return uint64(p.first + p.Parent + 1) }).
				Missing(func(p *pathRow) bool { return p.Parent < 0 }),
			report.Count("depth", func(p *pathRow) uint64 { return uint64(p.Depth) }),
			report.Count("count", func(p *pathRow) uint64 { return p.Count }),
			report.Time("self", func(p *pathRow) uint64 { return p.Self }),
			report.Time("total", func(p *pathRow) uint64 { return p.Total }),
			report.Time("min", func(p *pathRow) uint64 { return p.Min }).Missing(unspread).When(r.Spreads),
			report.Time("p50", func(p *pathRow) uint64 { return p.P50 }).Missing(unspread).When(r.Spreads),
			report.Time("p99", func(p *pathRow) uint64 { return p.P99 }).Missing(unspread).When(r.Spreads),
			report.Time("max", func(p *pathRow) uint64 { return p.Max }).Missing(unspread).When(r.Spreads),
			report.Time("on_cpu", func(p *pathRow) uint64 { return CPU.own(p.Frame) }).When(r.OffCPU),
			report.Time("blocked", func(p *pathRow) uint64 { return p.Off.Blocked }).When(r.OffCPU),
			report.Time("queued", func(p *pathRow) uint64 { return p.Off.Queued }).When(r.OffCPU),
			report.Time("recorder", func(p *pathRow) uint64 { return p.Off.Recorder }).When(r.OffCPU),
			report.Count("open", func(p *pathRow) uint64 { return p.Open }),
			report.Time("open_self", func(p *pathRow) uint64 { return p.OpenSelf }),
			report.Time("open_total", func(p *pathRow) uint64 { return p.OpenTotal }),
			report.Function("function", func(p *pathRow) reader.FuncID { return p.Func }).WithLocation(),
			report.Path("path", func(p *pathRow) []reader.FuncID { return p.tree.path(p.index) }).
				Missing(func(p *pathRow) bool { return p.Depth >= maxFrames }).Flat(),
		)},
	}
}

func unspread(p *pathRow) bool { return p.Spread == 0 }

func heaviestStacks(n int) string {
	if n == 1 {
		return "heaviest stack"
	}
	return label.Grouped(uint64(n)) + " heaviest stacks"
}

// head is the sentence above the stacks.
func (r *Report) head(all *Frame, stacks int) report.Paragraph {
	text := label.Count(uint64(stacks), "stack", "stacks")
	if r.perThread() {
		text += " of " + label.Count(uint64(len(r.threads)), "thread", "threads")
	}
	text += ", " + label.Count(all.Count+all.Open, "call", "calls") + ", " + Time.format(r.Clock, Time.own(all))
	if r.OffCPU {
		text += fmt.Sprintf(" (%s on CPU, %s blocked, %s in the run queue)",
			CPU.format(r.Clock, CPU.own(all)), Blocked.format(r.Clock, all.Off.Blocked), Queued.format(r.Clock, all.Off.Queued))
	}
	text += "."
	if n := all.Open; n > 0 {
		text += fmt.Sprintf(" %s %s ", label.Count(n, "call", "calls"), calls.OpenWords(n, min(r.earlier, n)))
		switch {
		case r.earlier > 0:
			text += "Only the time that was selected counts."
		case n == 1:
			text += "It counts up to the last record of its thread."
		default:
			text += "They count up to the last record of their thread."
		}
	}
	if !r.Clock.Known() {
		text += " The trace does not state its clock frequency, so times are in ticks."
	}
	return report.Paragraph(text)
}

// section is a stack of the list.
func (r *Report) section(m Metric, s *heavyStack, number int, total uint64) report.Node {
	f := &s.frame
	title := fmt.Sprintf("#%d  %s", number, m.format(r.Clock, s.weight))
	switch m {
	case Time:
		title += " self"
	case CPU:
		title += " on CPU"
	case Blocked, Queued:
		title += " " + m.String()
	}
	title += fmt.Sprintf(" (%.1f%%)", share(s.weight, total))
	if m == Time {
		title += ", " + Count.format(r.Clock, Count.own(f))
	} else {
		title += ", " + Time.format(r.Clock, Time.own(f)) + " self"
	}
	title += ", " + Time.format(r.Clock, addSaturating(f.Total, f.OpenTotal)) + " total"
	if f.Open > 0 {
		title += ", " + label.Grouped(f.Open) + " open at the end"
	}
	if f.Spread > 0 {
		title += fmt.Sprintf(", min %s, p50 ~%s, p99 ~%s, max %s",
			Time.format(r.Clock, f.Min), Time.format(r.Clock, f.P50), Time.format(r.Clock, f.P99), Time.format(r.Clock, f.Max))
	}
	if s.thread != "" {
		title += ", thread " + s.thread
	}
	section := &report.Section{Title: title}
	frames := make([]stackFrame, 0, len(s.path))
	for depth, fn := range s.path {
		frames = append(frames, stackFrame{depth, fn})
	}
	if hidden := len(frames) - outerFrames - innerFrames; hidden > 0 {
		section.Body = append(section.Body, report.Paragraph(fmt.Sprintf("Depths %d to %d are not shown.", outerFrames, outerFrames+hidden-1)))
		frames = slices.Delete(frames, outerFrames, outerFrames+hidden)
	}
	section.Body = append(section.Body, report.Table("frames", frames,
		report.Count("depth", func(f *stackFrame) uint64 { return uint64(f.depth) }),
		report.Function("function", func(f *stackFrame) reader.FuncID { return f.fn }).WithLocation(),
	))
	return section
}

type stackFrame struct {
	depth int
	fn    reader.FuncID
}

// heavyStack is a path in the list.
type heavyStack struct {
	weight uint64
	place  int // among all stacks of the report
	thread string
	frame  Frame
	path   []reader.FuncID
}

// heaviest returns the stacks of the list and the sums over all stacks. It also counts the
// rows.
func (p *pathRows) heaviest(v View) (list []heavyStack, all Frame) {
	top := v.Top
	place, least := 0, uint64(0)
	for number := range p.report.threads {
		t := p.load(number)
		p.ends = append(p.ends, p.length()+len(t.Frames))
		for i := range t.Frames {
			f := &t.Frames[i]
			all.add(f)
			place++
			weight := v.Metric.own(f)
			if weight <= least {
				continue // equal ones stay in the order of the tree
			}
			list = append(list, heavyStack{weight, place, t.Label, *f, t.path(i)})
			// Sorting rarely is cheaper than finding a place for each stack.
			if top > 0 && len(list) >= 2*top+64 {
				list, least = heaviest(list, top)
			}
		}
	}
	list, _ = heaviest(list, top)
	return list, all
}

// heaviest sorts a list and cuts it to the top ones, or keeps all if top is negative. It
// also returns the weight that a stack must exceed to enter the list.
func heaviest(list []heavyStack, top int) ([]heavyStack, uint64) {
	slices.SortFunc(list, func(x, y heavyStack) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.place, y.place))
	})
	if top == 0 || len(list) < top {
		return list, 0
	}
	list = list[:top]
	return list, list[top-1].weight
}

// path returns the functions of frame i, the outermost first.
func (t *Tree) path(i int) []reader.FuncID {
	funcs := make([]reader.FuncID, t.Frames[i].Depth+1)
	for ; i >= 0; i = t.Frames[i].Parent {
		funcs[t.Frames[i].Depth] = t.Frames[i].Func
	}
	return funcs
}

// add adds the numbers of o to those of f.
func (f *Frame) add(o *Frame) {
	f.Count += o.Count
	f.Open += o.Open
	f.Self = addSaturating(f.Self, o.Self)
	f.OpenSelf = addSaturating(f.OpenSelf, o.OpenSelf)
	f.Off.Add(o.Off)
}

// pathRow is a row of the table of all paths.
type pathRow struct {
	*Frame
	tree  *Tree
	index int // of the frame in its tree
	first int // row of the tree's first frame
}

// pathRows makes the rows of the trees one after the other, so that only one tree is in
// memory.
type pathRows struct {
	report   *Report
	ends     []int // of the trees' rows
	tree     Tree
	loaded   int // number of the tree, from 1; 0 for none
	position []int
	row      pathRow
	made     int // number of the row, from 1; 0 for none
}

func (p *pathRows) length() int {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[len(p.ends)-1]
}

func (p *pathRows) at(row int) *pathRow {
	if p.made == row+1 {
		return &p.row
	}
	tree := sort.SearchInts(p.ends, row+1)
	first := 0
	if tree > 0 {
		first = p.ends[tree-1]
	}
	t := p.load(tree)
	p.made = row + 1
	p.row = pathRow{&t.Frames[row-first], t, row - first, first}
	return &p.row
}

// load returns a tree, which is valid until another one is loaded.
func (p *pathRows) load(number int) *Tree {
	if p.loaded == number+1 {
		return &p.tree
	}
	if p.position == nil && p.report.paths != nil {
		p.position = make([]int, p.report.paths.Len())
	}
	p.report.load(&p.tree, number, p.position)
	p.loaded = number + 1
	return &p.tree
}
