package graph

import (
	"fmt"
	"io"
	"math"

	"github.com/xray-tools/xray/report/label"
)

// WriteDOT writes the graph for Graphviz. Functions and edges that cost more in B are pink, those
// that cost less are green, and those that only one trace has are dashed. It returns the error of w.
func (d *Diff) WriteDOT(w io.Writer, v View) error {
	return d.draw(&v).writeDOT(w)
}

// caption describes the graph and what it omits.
func (d *Diff) caption(v *View) []string {
	lines := []string{fmt.Sprintf("%s, %s; pink: more in B, green: less in B, dashed: only in one trace",
		label.Count(uint64(len(d.Functions)-1), "function", "functions"), label.Count(uint64(len(d.Edges)), "edge", "edges"))}
	if left := d.Left.caption(); left != "" {
		lines = append(lines, left)
	}
	if d.ClockA.Known() != d.ClockB.Known() {
		lines = append(lines, "only one trace states its clock frequency: times cannot be compared")
	}
	if approximate, coarse := d.approximate(); approximate && wantsQuantiles(v) {
		lines = append(lines, relativeError(coarse))
	}
	return v.withNotes(lines)
}

// approximate reports whether any quantile is approximate, and whether any is by octaves.
func (d *Diff) approximate() (approximate, coarse bool) {
	for i := range d.Functions {
		for _, s := range []*Stats{d.Functions[i].A, d.Functions[i].B} {
			if s != nil {
				approximate, coarse = approximate || s.Approximate, coarse || s.Coarse
			}
		}
	}
	return approximate, coarse
}

// cost returns the color of a change if less is better.
func (d *Diff) cost(a, b *Stats, c Column) rgb {
	switch {
	case a == nil:
		return changeColor(-1)
	case b == nil:
		return changeColor(1)
	}
	r, _ := d.change(a, b, c)
	return changeColor(-r)
}

// lines are the numbers of a label, before and after.
func (d *Diff) lines(a, b *Stats, columns []Column) []string {
	var lines []string
	switch {
	case a == nil:
		lines = append(lines, "only in B")
	case b == nil:
		lines = append(lines, "only in A")
	}
	for _, c := range columns {
		var text string
		switch {
		case c == None:
			continue
		case a == nil:
			text = value(b, c, d.ClockB)
		case b == nil:
			text = value(a, c, d.ClockA)
		default:
			r, _ := d.change(a, b, c)
			text = value(a, c, d.ClockA) + " -> " + value(b, c, d.ClockB) + percent(r)
		}
		if c != Count {
			text = c.String() + " " + text
		}
		lines = append(lines, text)
	}
	return lines
}

// percent returns a relative change in parentheses, or nothing if there is none.
func percent(r float64) string {
	switch {
	case math.Abs(r) < 0.0005 || math.IsInf(r, 0): // rounds to 0.0%
		return ""
	case r >= 10:
		return fmt.Sprintf(" (x%.0f)", 1+r)
	}
	return fmt.Sprintf(" (%+.1f%%)", 100*r)
}
