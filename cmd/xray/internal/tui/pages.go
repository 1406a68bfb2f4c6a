package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
)

// kind is a kind of page.
type kind uint8

const (
	functionsPage kind = iota
	treePage
	threadsPage
	functionPage // callers, callees and histogram of a function
	textPage
)

// page is a list with a cursor.
type page struct {
	kind           kind
	fn             reader.FuncID
	cursor, offset int
	title          string
	text           []string // of a textPage
	visible        []node   // of the tree; nil if it must be made again
}

// list is what a page shows.
type list struct {
	head []string
	n    int
	at   func(int) item
}

// item is a row.
type item struct {
	text  string
	key   string // identifies the row in other data
	fn    reader.FuncID
	style style
}

func (m *Model) list(p *page) list {
	switch p.kind {
	case treePage:
		return m.tree(p)
	case threadsPage:
		return m.threads()
	case functionPage:
		return m.function(p.fn)
	case textPage:
		return list{head: []string{p.title}, n: len(p.text), at: func(i int) item { return item{text: p.text[i]} }}
	}
	return m.functions()
}

func (m *Model) functions() list {
	shown, _ := m.fitting()
	return list{head: []string{m.titles(shown)}, n: len(m.chosen), at: func(i int) item {
		f := &m.data.Functions[m.chosen[i]]
		return item{text: m.cells(f, shown) + f.Name, key: f.Name, fn: f.ID}
	}}
}

func (m *Model) threads() list {
	unit := ""
	if m.data.Observed > 0 {
		unit = "/s"
	}
	head := right("calls"+unit, 7) + " " + right("cpu"+unit, 6) + " " + right("block"+unit, 7) + " " + right("queue"+unit, 7) + " "
	if !m.data.OffCPU {
		head = right("calls"+unit, 7) + " " + right("time"+unit, 6) + " "
	}
	time := func(ticks uint64) string { return m.data.shortTime(m.data.perSecond(ticks)) }
	return list{head: []string{head + left("thread", 24) + " most time in"}, n: len(m.data.Threads), at: func(i int) item {
		t := &m.data.Threads[i]
		text := right(shortCount(m.data.perSecond(t.Calls)), 7) + " "
		if m.data.OffCPU {
			text += right(time(t.CPU), 6) + " " + right(time(t.Blocked), 7) + " " + right(time(t.Queued), 7) + " "
		} else {
			text += right(time(t.Self), 6) + " "
		}
		return item{text: text + left(cut(t.Name, 24), 24) + " " + m.name(t.Busiest), key: t.Name, fn: t.Busiest}
	}}
}

// edge is the calls of a function from another one.
type edge struct {
	fn          reader.FuncID
	calls, time uint64
}

// neighbors sums up the callers and callees of a function. Times are those of the callee.
func (m *Model) neighbors(fn reader.FuncID) (callers, callees []edge) {
	up, down := make(map[reader.FuncID]*edge), make(map[reader.FuncID]*edge)
	add := func(to map[reader.FuncID]*edge, other reader.FuncID, f *Frame) {
		if to[other] == nil {
			to[other] = &edge{fn: other}
		}
		to[other].calls += f.Calls
		to[other].time += f.Total
	}
	for i := range m.data.Frames {
		f := &m.data.Frames[i]
		caller := reader.FuncID(0)
		if f.Parent >= 0 {
			caller = m.data.Frames[f.Parent].Func
		}
		if f.Func == fn {
			add(up, caller, f)
		}
		if caller == fn && fn != 0 {
			add(down, f.Func, f)
		}
	}
	sorted := func(of map[reader.FuncID]*edge) (list []edge) {
		for _, e := range of {
			list = append(list, *e)
		}
		slices.SortFunc(list, func(a, b edge) int {
			return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(b.calls, a.calls), cmp.Compare(a.fn, b.fn))
		})
		return list
	}
	return sorted(up), sorted(down)
}

// function is a page about one function.
func (m *Model) function(fn reader.FuncID) list {
	var items []item
	say := func(style style, format string, args ...any) {
		items = append(items, item{text: fmt.Sprintf(format, args...), key: format, style: style})
	}
	f := m.names[fn]
	if f == nil {
		say(styleDim, "the selected part has no call of this function")
		f = &Function{ID: fn, Name: m.name(fn)}
	}
	if f.Location != "" {
		say(styleDim, "%s", f.Location)
	}
	shown, _ := m.fitting()
	items = append(items, item{text: strings.TrimSuffix(m.titles(shown), m.titleOf(len(columns)-1)), style: styleHeading}, item{text: m.cells(f, shown)})
	if f.Open > 0 {
		say(styleDim, "%s still open. self and total include the time so far.", label.Count(f.Open, "call has", "calls have"))
	}
	callers, callees := m.neighbors(fn)
	unit := ""
	if m.data.Observed > 0 {
		unit = "/s"
	}
	edges := func(title string, list []edge) {
		say(styleHeading, "%s", right("calls"+unit, 7)+" "+right("total"+unit, 7)+" "+title)
		for _, e := range list {
			name := m.name(e.fn)
			if e.fn == 0 {
				name = "(none: an outermost call)"
			}
			items = append(items, item{
				text: right(shortCount(m.data.perSecond(e.calls)), 7) + " " + right(m.data.shortTime(m.data.perSecond(e.time)), 7) + " " + name,
				key:  title + name, fn: e.fn,
			})
		}
	}
	edges("callers", callers)
	edges("callees", callees)
	say(styleHeading, "%s", right("calls", 7)+" "+left("durations", 18))
	return list{head: []string{f.Name}, n: len(items) + len(m.histogram(f)), at: func(i int) item {
		if i < len(items) {
			return items[i]
		}
		return item{text: m.histogram(f)[i-len(items)], key: "histogram" + strconv.Itoa(i-len(items))}
	}}
}

// histogram has a line for each octave of durations.
func (m *Model) histogram(f *Function) (lines []string) {
	first, highest := -1, uint64(0)
	for o, n := range f.Octaves {
		if n > 0 && first < 0 {
			first = o
		}
		highest = max(highest, n)
	}
	if first < 0 {
		return []string{"no call ended"}
	}
	for o := first; o < len(f.Octaves); o++ {
		from := 0.0
		if o > 0 {
			from = float64(uint64(1) << (o - 1))
		}
		span := m.data.shortTime(from) + " to " + m.data.shortTime(float64(uint64(1)<<o))
		lines = append(lines, right(shortCount(float64(f.Octaves[o])), 7)+" "+left(span, 18)+" "+bar(f.Octaves[o], highest, max(1, m.width-28)))
	}
	return lines
}

// node is a visible frame of the call tree.
type node struct {
	frame, depth int
	key          string
}

// below returns the positions of the frames below one, or of the outermost ones for -1: those with
// the most time first.
func (m *Model) below(frame int) []int {
	if m.children == nil {
		m.children = make([][]int, len(m.data.Frames)+1)
		for i, f := range m.data.Frames {
			m.children[f.Parent+1] = append(m.children[f.Parent+1], i)
		}
		for _, list := range m.children {
			slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(m.data.Frames[b].Total, m.data.Frames[a].Total) })
		}
	}
	return m.children[frame+1]
}

// nodes returns the visible frames.
func (m *Model) nodes(p *page) []node {
	if p.visible != nil {
		return p.visible
	}
	p.visible = []node{}
	type todo struct {
		frame, depth int
		above        string
	}
	var stack []todo
	push := func(frame, depth int, key string) {
		for _, i := range slices.Backward(m.below(frame)) {
			stack = append(stack, todo{i, depth, key})
		}
	}
	push(-1, 0, "")
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := node{t.frame, t.depth, t.above + "/" + strconv.Itoa(int(m.data.Frames[t.frame].Func))}
		p.visible = append(p.visible, n)
		if m.expanded[n.key] {
			push(t.frame, t.depth+1, n.key)
		}
	}
	return p.visible
}

func (m *Model) tree(p *page) list {
	nodes := m.nodes(p)
	all := uint64(0)
	for _, i := range m.below(-1) {
		all += m.data.Frames[i].Total
	}
	unit := ""
	if m.data.Observed > 0 {
		unit = "/s"
	}
	head := right("total"+unit, 7) + " " + right("share", 6) + " " + right("self"+unit, 6) + " " + right("calls"+unit, 7) + " call tree"
	return list{head: []string{head}, n: len(nodes), at: func(i int) item {
		n := nodes[i]
		f := &m.data.Frames[n.frame]
		mark := "  "
		if len(m.below(n.frame)) > 0 {
			if mark = "+ "; m.expanded[n.key] {
				mark = "- "
			}
		}
		time := func(ticks uint64) string { return m.data.shortTime(m.data.perSecond(ticks)) }
		text := right(time(f.Total), 7) + " " + right(label.Percent(float64(f.Total), float64(all)), 6) + " " + right(time(f.Self), 6) + " " +
			right(shortCount(m.data.perSecond(f.Calls)), 7) + " " + label.Indent(n.depth) + mark + m.name(f.Func)
		return item{text: text, key: n.key, fn: f.Func}
	}}
}

// open opens or closes the row at the cursor.
func (m *Model) open(p *page, k key) {
	if p.kind != treePage {
		if fn := m.selected(p); fn != 0 && k == keyEnter && p.kind != textPage {
			m.pages = append(m.pages, &page{kind: functionPage, fn: fn})
		}
		return
	}
	nodes := m.nodes(p)
	if p.cursor >= len(nodes) {
		return
	}
	n := nodes[p.cursor]
	isOpen := m.expanded[n.key]
	switch {
	case k == keyLeft && !isOpen:
		for at := p.cursor; at >= 0; at-- {
			if nodes[at].depth < n.depth {
				p.cursor = at
				return
			}
		}
	case k == keyLeft, k == keyEnter && isOpen:
		delete(m.expanded, n.key)
	default:
		m.expanded[n.key] = true
	}
	p.visible = nil
}

// openHottest opens the path with the most time below the cursor.
func (m *Model) openHottest(p *page) {
	nodes := m.nodes(p)
	if p.kind != treePage || p.cursor >= len(nodes) {
		return
	}
	const deepest = 64
	key, frame := nodes[p.cursor].key, nodes[p.cursor].frame
	for range deepest {
		below := m.below(frame)
		if len(below) == 0 {
			break
		}
		m.expanded[key] = true
		frame = below[0]
		key += "/" + strconv.Itoa(int(m.data.Frames[frame].Func))
	}
	p.visible = nil
}
