package stack

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// TextView says what the list of stacks shows.
type TextView struct {
	Metric Metric
	Top    int // number of stacks; 0 for 10, negative for all
}

// Of a stack with more frames, only the outermost and the innermost show.
const (
	textOuter = 20
	textInner = 80
)

// textStack is a path in the list.
type textStack struct {
	weight uint64
	place  int // among all stacks of the report
	thread string
	frame  Frame
	funcs  []reader.FuncID // innermost first
}

// WriteText writes the stacks that weigh most by themselves, heaviest first, and
// their share of the whole trace. With Top negative the list is kept in memory.
// It returns the error of w.
func (r *Report) WriteText(w io.Writer, names symbolize.Names, v TextView) error {
	top := v.Top
	if top == 0 {
		top = 10
	}
	var all Frame
	var list []textStack
	place, least := 0, uint64(0)
	for t := range r.Trees() {
		for i := range t.Frames {
			f := &t.Frames[i]
			all.add(f)
			place++
			weight := v.Metric.own(f)
			if weight <= least {
				continue // equals stay in the order of the tree
			}
			list = append(list, textStack{weight, place, t.Label, *f, t.path(i)})
			// Sorting rarely is cheaper than a place for each stack.
			if top > 0 && len(list) >= 2*top+64 {
				list, least = heaviest(list, top)
			}
		}
	}
	list, _ = heaviest(list, top)

	b := bufio.NewWriter(w)
	total := v.Metric.own(&all)
	r.textHead(b, &all, place, len(list))
	l := newLabels(names, texttab.Printable)
	for i := range list {
		s := &list[i]
		f := &s.frame
		fmt.Fprintf(b, "\n#%d  %s", i+1, v.Metric.format(r.Clock, s.weight))
		if v.Metric == Time {
			b.WriteString(" self")
		}
		fmt.Fprintf(b, " (%.2f%%)", share(s.weight, total))
		if v.Metric == Time {
			b.WriteString(", " + plural(f.Count+f.Open, "call"))
		} else {
			b.WriteString(", " + r.Clock.Format(addSaturating(f.Self, f.OpenSelf)) + " self")
		}
		b.WriteString(", " + r.Clock.Format(addSaturating(f.Total, f.OpenTotal)) + " total")
		if f.Open > 0 {
			b.WriteString(", " + group(f.Open) + " open at the end")
		}
		if s.thread != "" {
			b.WriteString(", thread " + s.thread)
		}
		b.WriteByte('\n')
		writeTextFrames(b, l, s.funcs)
	}
	return b.Flush()
}

func (r *Report) textHead(b *bufio.Writer, all *Frame, stacks, shown int) {
	fmt.Fprintf(b, "%s", plural(uint64(stacks), "stack"))
	if n := len(r.threads); n > 0 && r.labels[0] != "" {
		fmt.Fprintf(b, " of %s", plural(uint64(n), "thread"))
	}
	fmt.Fprintf(b, ", %s, %s", plural(all.Count+all.Open, "call"), r.Clock.Format(Time.own(all)))
	if all.Open > 0 {
		fmt.Fprintf(b, "; %s open at the end, up to their thread's last record", group(all.Open))
	}
	if !r.Clock.Known() {
		b.WriteString("; the trace does not say how many ticks make a second")
	}
	b.WriteByte('\n')
	if shown < stacks {
		fmt.Fprintf(b, "the %s:\n", plural(uint64(shown), "heaviest stack"))
	}
}

// writeTextFrames writes a stack from the outermost function on. Locations, where
// any is known, come before the names: these may be of any length, and would push
// apart what stands behind them.
func writeTextFrames(b *bufio.Writer, l *labels, funcs []reader.FuncID) {
	locations := make([]string, len(funcs))
	width := 0
	for i, fn := range funcs {
		if l.names == nil || !textShows(i, len(funcs)) {
			continue
		}
		if s, ok := l.names.Func(fn); ok && s.File != "" {
			locations[i] = texttab.Printable(symbolize.Location(l.names, fn))
			width = max(width, texttab.Width(locations[i]))
		}
	}
	for i := len(funcs) - 1; i >= 0; i-- {
		if !textShows(i, len(funcs)) {
			fmt.Fprintf(b, "        ... %s ...\n", plural(uint64(len(funcs)-textOuter-textInner), "frame"))
			i = textInner
			continue
		}
		fmt.Fprintf(b, "  %4d  ", len(funcs)-1-i)
		if width > 0 {
			b.WriteString(locations[i] + strings.Repeat(" ", width-texttab.Width(locations[i])+2))
		}
		b.WriteString(l.of(funcs[i]) + "\n")
	}
}

// textShows reports whether the frame that is i away from the innermost of n is
// printed.
func textShows(i, n int) bool {
	return n <= textOuter+textInner || i < textInner || i >= n-textOuter
}

// heaviest sorts a list and cuts it to the top ones; negative for all. It also
// gives the weight that a stack must exceed to come in.
func heaviest(list []textStack, top int) ([]textStack, uint64) {
	slices.SortFunc(list, func(x, y textStack) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.place, y.place))
	})
	if top < 0 || len(list) < top {
		return list, 0
	}
	list = list[:top]
	return list, list[top-1].weight
}

// path gives the functions of frame i, the innermost first.
func (t *Tree) path(i int) []reader.FuncID {
	var funcs []reader.FuncID
	for ; i >= 0; i = t.Frames[i].Parent {
		funcs = append(funcs, t.Frames[i].Func)
	}
	return funcs
}

// add adds the numbers of o to those of f.
func (f *Frame) add(o *Frame) {
	f.Count += o.Count
	f.Open += o.Open
	f.Self = addSaturating(f.Self, o.Self)
	f.OpenSelf = addSaturating(f.OpenSelf, o.OpenSelf)
}
