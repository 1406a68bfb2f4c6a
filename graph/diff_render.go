package graph

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
)

// WriteDOT writes the graph for Graphviz: what costs more in B is pink, what
// costs less is green, what is in one trace only is drawn with dashes. It
// returns the error of w.
func (d *Diff) WriteDOT(w io.Writer, v View) error {
	return d.draw(&v).writeDOT(w)
}

// caption tells what the graph is of, and what is not in it.
func (d *Diff) caption(v *View) []string {
	lines := []string{fmt.Sprintf("%s, %s; pink: more in B, green: less, dashed: in one trace only",
		plural(uint64(len(d.Functions)-1), "function"), plural(uint64(len(d.Edges)), "edge"))}
	if left := d.Left.caption(); left != "" {
		lines = append(lines, left)
	}
	if d.ClockA.Known() != d.ClockB.Known() {
		lines = append(lines, "only one trace states the frequency of its clock: times do not compare")
	}
	if approximate, coarse := d.approximate(); approximate && wantsQuantiles(v) {
		lines = append(lines, relativeError(coarse))
	}
	return lines
}

// approximate reports whether any quantile is, and whether by octaves.
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

// cost is the colour of a change for someone who wants less.
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

// percent writes a relative change in parentheses, nothing for none.
func percent(r float64) string {
	switch {
	case r == 0 || math.IsInf(r, 0):
		return ""
	case r >= 10:
		return fmt.Sprintf(" (x%.0f)", 1+r)
	}
	return fmt.Sprintf(" (%+.1f%%)", 100*r)
}

// WriteJSON writes one object: "unit_a" and "unit_b" ("ns" or "ticks"),
// "left_out", "functions" ("name", "a" and "b") and "edges" ("caller" and
// "callee", which are names, empty for no caller; "a" and "b"). The numbers of a
// trace are those of [Report.WriteJSON], or null. It returns the error of w.
func (d *Diff) WriteJSON(w io.Writer) error {
	side := func(s *Stats, k reader.Clock) *statsJSON {
		if s == nil {
			return nil
		}
		v := newStatsJSON(s, k, d.Quantiles)
		return &v
	}
	functions := d.Functions[1:] // the root is no function of the program
	j := newDocument(w)
	j.field("unit_a", d.ClockA.Unit())
	j.field("unit_b", d.ClockB.Unit())
	j.field("left_out", leftJSON{d.Left.Functions, d.Left.Edges})
	j.list("functions", len(functions), func(i int) any {
		f := &functions[i]
		return struct {
			Name string     `json:"name"`
			A    *statsJSON `json:"a"`
			B    *statsJSON `json:"b"`
		}{f.Name, side(f.A, d.ClockA), side(f.B, d.ClockB)}
	})
	j.list("edges", len(d.Edges), func(i int) any {
		e := &d.Edges[i]
		return struct {
			Caller string     `json:"caller"`
			Callee string     `json:"callee"`
			A      *statsJSON `json:"a"`
			B      *statsJSON `json:"b"`
		}{d.Functions[e.Caller].Name, d.Functions[e.Callee].Name, side(e.A, d.ClockA), side(e.B, d.ClockB)}
	})
	return j.close()
}

// WriteCSV writes the edges, one a row: the numbers of A, those of B, and the
// relative changes, B / A − 1. Fields are empty where a trace does not have the
// edge or there is no finite change. It returns the error of w.
func (d *Diff) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	columns := csvColumns(d.Quantiles)
	header := []string{"caller", "callee"}
	for _, side := range []struct{ name, unit string }{{"a", d.ClockA.Unit()}, {"b", d.ClockB.Unit()}} {
		for _, name := range csvHeader(columns, side.unit) {
			header = append(header, side.name+"_"+name)
		}
	}
	for _, column := range columns {
		header = append(header, "change_"+column.String())
	}
	c.Write(header)
	blank := make([]string, len(columns))
	for i := range d.Edges {
		e := &d.Edges[i]
		row := []string{texttab.CSVText(d.Functions[e.Caller].Name), texttab.CSVText(d.Functions[e.Callee].Name)}
		if e.A != nil {
			row = csvValues(row, e.A, columns, d.ClockA)
		} else {
			row = append(row, blank...)
		}
		if e.B != nil {
			row = csvValues(row, e.B, columns, d.ClockB)
		} else {
			row = append(row, blank...)
		}
		for _, column := range columns {
			field := ""
			if r, ok := d.change(e.A, e.B, column); ok && !math.IsInf(r, 0) {
				field = strconv.FormatFloat(r, 'f', 6, 64)
			}
			row = append(row, field)
		}
		c.Write(row)
	}
	c.Flush()
	return c.Error()
}
