package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// column is a column of functions, and an order.
type column struct {
	name  string
	title string // with the unit, if it is per second
	width int    // with the space before it
	less  int    // columns with more go first if the terminal is narrow
	off   bool
	rate  bool
	count bool
	value func(*Function) uint64
}

var columns = []column{
	{name: "calls", title: "calls", width: 8, rate: true, count: true, value: func(f *Function) uint64 { return f.Calls }},
	{name: "self", title: "self", width: 7, rate: true, value: func(f *Function) uint64 { return f.Self }},
	{name: "total", title: "total", width: 8, less: 5, rate: true, value: func(f *Function) uint64 { return f.Total }},
	{name: "cpu", title: "cpu", width: 7, less: 4, off: true, rate: true, value: func(f *Function) uint64 { return f.CPU }},
	{name: "blocked", title: "block", width: 8, less: 3, off: true, rate: true, value: func(f *Function) uint64 { return f.Blocked }},
	{name: "p50", title: "p50", width: 7, less: 6, value: func(f *Function) uint64 { return f.P50 }},
	{name: "p99", title: "p99", width: 7, less: 1, value: func(f *Function) uint64 { return f.P99 }},
	{name: "max", title: "max", width: 7, less: 2, value: func(f *Function) uint64 { return f.Max }},
	{name: "name", title: "function"},
}

// Columns returns the names of the columns that functions can be ordered by.
func Columns() []string {
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}

func columnNamed(name string) int {
	return slices.IndexFunc(columns, func(c column) bool { return c.name == name })
}

// Sort orders functions by a column of [Columns]: the largest first, and names ascending.
func Sort(functions []Function, by string, reversed bool) error {
	at := columnNamed(by)
	if at < 0 {
		return fmt.Errorf("unknown column %q: the columns are %s", by, strings.Join(Columns(), ", "))
	}
	slices.SortStableFunc(functions, func(a, b Function) int { return compare(&a, &b, at, reversed) })
	return nil
}

func compare(a, b *Function, by int, reversed bool) int {
	order := 0
	if value := columns[by].value; value != nil {
		order = cmp.Compare(value(b), value(a))
	} else {
		order = cmp.Compare(a.Name, b.Name)
	}
	if reversed {
		order = -order
	}
	return cmp.Or(order, cmp.Compare(a.ID, b.ID))
}

// leastName is the least width of the name column. Other columns are hidden to make room for it.
const leastName = 16

// fitting returns the columns that fit, except the name, and the width left for the name.
func (m *Model) fitting() (shown []int, room int) {
	for i, c := range columns {
		if c.value != nil && (!c.off || m.data.OffCPU) {
			shown = append(shown, i)
		}
	}
	for {
		room = m.width - 1
		widest, drop := 0, -1
		for at, i := range shown {
			room -= columns[i].width
			if i != m.by && columns[i].less > widest {
				widest, drop = columns[i].less, at
			}
		}
		if room >= leastName || drop < 0 {
			return shown, max(room, 1)
		}
		shown = slices.Delete(shown, drop, drop+1)
	}
}

// cells joins the cells of a function's row.
func (m *Model) cells(f *Function, shown []int) string {
	var b strings.Builder
	for _, i := range shown {
		c := &columns[i]
		v := c.value(f)
		text := ""
		switch {
		case c.count:
			text = shortCount(m.data.perSecond(v))
		case c.rate:
			text = m.data.shortTime(m.data.perSecond(v))
		case f.Calls == 0:
			text = "-"
		default:
			text = m.data.shortTime(float64(v))
		}
		b.WriteString(right(text, c.width))
	}
	return b.String() + " "
}

// titles joins the titles of the columns. An arrow marks the one that functions are ordered by.
func (m *Model) titles(shown []int) string {
	var b strings.Builder
	for _, i := range shown {
		b.WriteString(right(m.titleOf(i), columns[i].width))
	}
	return b.String() + " " + m.titleOf(len(columns)-1)
}

func (m *Model) titleOf(i int) string {
	title := columns[i].title
	if columns[i].rate && m.data.Observed > 0 {
		title += "/s"
	}
	if i != m.by {
		return title
	}
	if m.reversed {
		return "↑" + title
	}
	return "↓" + title
}
