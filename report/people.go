package report

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// mostOfPath is the maximum number of functions of a path that people see. They are the
// innermost ones.
const mostOfPath = 8

// words returns a cell as text for people.
func (d *Doc) words(c *column, v cell) string {
	if v.missing {
		return "-"
	}
	if c.interval {
		end := *c
		end.interval = false
		return d.words(&end, cell{f: v.f, about: v.about}) + " to " + d.words(&end, cell{f: v.to, about: v.about})
	}
	about := ""
	if v.about {
		about = "~"
	}
	switch c.kind {
	case text, rows:
		return v.s
	case value:
		return valueWords(v.v)
	case count:
		return about + label.Grouped(v.n)
	case number, share, mean:
		s := d.realWords(c.kind, v.f)
		switch zero := !strings.ContainsAny(s, "123456789∞"); {
		case zero:
			s = strings.TrimPrefix(s, "-") // a negative number that rounds to 0 has no sign
		case c.signed && v.f > 0:
			about += "+"
		}
		return about + s
	case duration:
		return about + Duration(d.Clock, quantile.Sum{Hi: v.high, Lo: v.n})
	case moment:
		return about + label.GroupedDigits(d.Clock.Format(v.n-d.Start))
	case size:
		return about + label.Bytes(v.n)
	case flag:
		if v.n == 0 {
			return ""
		}
		return "yes"
	case function:
		return d.label(functionOf(v))
	case path:
		switch n := len(v.path); {
		case n == 0:
			return "(no function)"
		case n > mostOfPath:
			return "… > " + d.pathNames(v.path[n-mostOfPath:])
		}
		return d.pathNames(v.path)
	case namePath:
		return strings.Join(v.names, " > ")
	case thread:
		return d.Threads.Of(v.thread)
	}
	panic("unknown kind of cell")
}

// valueWords returns a value of a database. Numbers have a form that queries accept.
func valueWords(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case float64:
		if abs := math.Abs(v); abs >= 1 && abs < 1e15 {
			return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 3, 64), "0"), ".")
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return valueDatum(v).s
}

// Duration returns a sum of ticks as text for people, in a suitable unit. Sums of many
// years are in whole seconds.
func Duration(c reader.Clock, s quantile.Sum) string {
	if s.Hi == 0 {
		return label.GroupedDigits(c.Format(s.Lo))
	}
	sum, unit := s.Big(), " ticks"
	if c.Known() {
		sum, unit = sum.Div(sum, new(big.Int).SetUint64(c.Frequency)), "s"
	}
	return label.GroupedDigits(sum.String() + unit)
}

func functionOf(v cell) reader.FuncID { return reader.FuncID(int32(uint32(v.n))) }

func (d *Doc) pathNames(ids []reader.FuncID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = d.label(id)
	}
	return strings.Join(names, " > ")
}

// realWords returns a value that may have a fraction.
func (d *Doc) realWords(k kind, f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "∞"
	case math.IsInf(f, -1):
		return "-∞"
	case k == share:
		return fmt.Sprintf("%.1f%%", 100*f)
	case k == mean:
		return label.Ticks(d.Clock, f)
	}
	return numberWords(f)
}

// numberWords returns a number with three significant digits, or with all digits of its
// integer part. Exponents have no leading zeros.
func numberWords(f float64) string {
	switch abs := math.Abs(f); {
	case f < 0:
		return "-" + numberWords(abs)
	case abs >= 999.5 && abs < 1e15:
		return label.GroupedDigits(strconv.FormatFloat(f, 'f', 0, 64))
	}
	return label.ShortExponent(strconv.FormatFloat(f, 'g', 3, 64))
}

// isRight says whether a column is aligned to the right.
func (c *column) isRight() bool {
	switch c.kind {
	case text, rows, function, path, namePath, thread, flag:
		return false
	case value:
		return c.right
	}
	return true
}

// cut returns the side on which cells may be cut.
func (c *column) cut() texttab.Side {
	switch c.kind {
	case function, path, namePath:
		return texttab.Left
	case text, rows:
		return texttab.Right
	case value:
		if !c.right {
			return texttab.Right
		}
	}
	return texttab.None
}

func (d *Doc) named(id reader.FuncID) *named {
	n := d.known[id]
	if n == nil {
		n = &named{label: symbolize.Label(d.Names, id)}
		d.known[id] = n
	}
	return n
}

func (d *Doc) label(id reader.FuncID) string { return d.named(id).label }

// place returns the location of a function, or "" if it is unknown.
func (d *Doc) place(v cell) string {
	if v.missing {
		return ""
	}
	n := d.named(functionOf(v))
	if !n.placed {
		n.placed = true
		n.place = symbolize.Location(d.Names, functionOf(v))
	}
	return n.place
}

// layout converts a table's cells to text. It omits columns without a value in any row.
func (d *Doc) layout(t *TableNode) *texttab.Table {
	out := &texttab.Table{}
	var from []int   // columns of t, by columns of out
	var place []bool // whether it is the location
	hasValue := func(f func(cell) bool, i int) bool {
		for row := range t.shown() {
			if f(t.cell(row, i)) {
				return true
			}
		}
		return false
	}
	for i := range t.columns {
		c := &t.columns[i]
		if !c.people {
			continue
		}
		if !hasValue(func(v cell) bool { return !v.missing && d.words(c, v) != "" }, i) {
			continue
		}
		if c.place && hasValue(func(v cell) bool { return d.place(v) != "" }, i) {
			title := "location"
			if c.key != "function" {
				title = c.title + " at"
			}
			out.Columns = append(out.Columns, texttab.Column{Title: title, Optional: true, Least: true})
			from, place = append(from, i), append(place, true)
		}
		out.Columns = append(out.Columns, texttab.Column{Title: c.title, Right: c.isRight(), Cut: c.cut(), Optional: c.optional, Least: c.least})
		out.Columns[len(out.Columns)-1].Part = c.kind == share && !c.signed && !c.interval
		from, place = append(from, i), append(place, false)
	}
	indented := t.indented(from)
	cells := make([]string, len(from))
	for row := range t.shown() {
		for j, i := range from {
			v := t.cell(row, i)
			if place[j] {
				cells[j] = d.place(v)
				continue
			}
			cells[j] = d.words(&t.columns[i], v)
			if j == indented {
				cells[j] = label.Indent(t.level(row)) + cells[j]
			}
		}
		out.Add(cells...)
	}
	if t.transposed {
		return transposed(out)
	}
	return out
}

// transposed makes a row of each column. The cells of the first column are the titles.
func transposed(t *texttab.Table) *texttab.Table {
	var grid [][]string
	t.Each(func(s string) string { return s }, func(row []string) { grid = append(grid, slices.Clone(row)) })
	out := &texttab.Table{Columns: []texttab.Column{{}}}
	for _, row := range grid[1:] {
		out.Columns = append(out.Columns, texttab.Column{Title: row[0], Right: true})
	}
	for i := 1; i < len(t.Columns); i++ {
		var cells []string
		for _, row := range grid {
			cells = append(cells, row[i])
		}
		out.Add(cells...)
	}
	return out
}

// indented returns the column that shows the levels of a tree: the first with functions, or
// otherwise the first with text, or -1 for none.
func (t *TableNode) indented(shown []int) int {
	if t.level == nil {
		return -1
	}
	if i := slices.IndexFunc(shown, func(i int) bool { return t.columns[i].kind == function }); i >= 0 {
		return i
	}
	return slices.IndexFunc(shown, func(i int) bool { return !t.columns[i].isRight() })
}
