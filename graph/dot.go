package graph

import (
	"fmt"
	"io"
	"math"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what a graph shows. The zero value shows names only, in white.
type View struct {
	FunctionLabels, EdgeLabels []Column // one line each
	FunctionColor, EdgeColor   Column
	NameLimit                  int      // bytes of a name in a label; 0 for 60
	Notes                      []string // paragraphs at the end of the caption
	Screen                     bool     // pictures have the heaviest functions, as many as a screen has room for
}

// DefaultView is the view if the user selects nothing.
func DefaultView() View {
	return View{
		FunctionLabels: []Column{Self, Sum, Count},
		EdgeLabels:     []Column{Sum, Count},
		FunctionColor:  Self,
		EdgeColor:      Sum,
	}
}

func (v *View) nameLimit() int {
	if v.NameLimit <= 0 {
		return 60
	}
	return v.NameLimit
}

// WriteDOT writes the graph for Graphviz. Tooltips have full names and source locations. It
// returns the error of w.
func (r *Report) WriteDOT(w io.Writer, names symbolize.Names, v View) error {
	return r.draw(names, &v).writeDOT(w)
}

// caption describes the graph and what it omits.
func (r *Report) caption(v *View) []string {
	var open, inferred uint64
	approximate, coarse := false, false
	for i := range r.Edges {
		s := &r.Edges[i].Stats
		open, inferred = open+s.Open, inferred+s.Inferred
		approximate, coarse = approximate || s.Approximate, coarse || s.Coarse
	}
	lines := []string{fmt.Sprintf("%s, %s, %s of self time",
		label.Count(uint64(len(r.Functions)), "function", "functions"), label.Count(uint64(len(r.Edges)), "edge", "edges"), r.Clock.Format(r.Self))}
	if left := r.Left.caption(); left != "" {
		lines = append(lines, left)
	}
	if open > 0 {
		lines = append(lines, label.Count(open, "call", "calls")+" open at the end, counted in self time only")
	}
	if inferred > 0 {
		lines = append(lines, label.Count(inferred, "call", "calls")+" without an exit record, ended with the caller")
	}
	if approximate && wantsQuantiles(v) {
		lines = append(lines, relativeError(coarse))
	}
	return v.withNotes(lines)
}

// withNotes adds the notes to the lines of a caption.
func (v *View) withNotes(lines []string) []string {
	const width = 100 // columns
	for _, note := range v.Notes {
		lines = append(lines, texttab.Wrap(note, "", "", width)...)
	}
	return lines
}

func (l Left) caption() string {
	if l.Functions == 0 && l.Edges == 0 {
		return ""
	}
	return fmt.Sprintf("not shown, too small: %s, %s",
		label.Count(uint64(l.Functions), "function", "functions"), label.Count(uint64(l.Edges), "edge", "edges"))
}

func wantsQuantiles(v *View) bool {
	for _, columns := range [][]Column{v.FunctionLabels, v.EdgeLabels, {v.FunctionColor, v.EdgeColor}} {
		for _, c := range columns {
			if c.IsQuantile() {
				return true
			}
		}
	}
	return false
}

// lines are the numbers of a label. Only functions show shares, which are of all self time.
func (r *Report) lines(s *Stats, columns []Column, share bool) []string {
	var lines []string
	for _, c := range columns {
		if c == None {
			continue
		}
		line := value(s, c, r.Clock)
		if c != Count {
			line = c.String() + " " + line
		}
		if share && c == Self && r.Self > 0 {
			line += fmt.Sprintf(" (%.1f%%)", 100*float64(s.Self)/float64(r.Self))
		}
		lines = append(lines, line)
	}
	if s.Open > 0 {
		lines = append(lines, label.Grouped(s.Open)+" open")
	}
	return lines
}

// value is a number with its unit.
func value(s *Stats, c Column, k reader.Clock) string {
	if c != Count {
		return k.Format(s.Value(c))
	}
	return label.Count(s.Count, "call", "calls")
}

// amount is a number in calls or seconds, or in ticks if the frequency is unknown.
func amount(s *Stats, c Column, k reader.Clock) float64 {
	v := float64(s.Value(c))
	if c != Count && k.Known() {
		v /= float64(k.Frequency)
	}
	return v
}

func penWidth(v, most float64) float64 {
	if most <= 0 {
		return 1
	}
	return 1 + 4*math.Sqrt(v/most)
}

// edgeInk returns the color of a line. It skips the palest fifth of the scale, which is
// invisible on paper.
func edgeInk(v, most float64) rgb {
	if most <= 0 {
		return orRd[3]
	}
	return pick(orRd, 0.3+0.7*math.Sqrt(v/most))
}
