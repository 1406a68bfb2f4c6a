package report

import (
	"math"
	"strings"

	"github.com/xray-tools/xray/report/label"
)

// TableNode is a table or a tree, made by [Table] or [Tree].
type TableNode struct {
	key, title string
	columns    []column
	length     int
	cell       func(row, column int) cell
	level      func(row int) int // of trees: 0 for roots
	top        int               // how many rows people see; 0 for all
	next       func() bool       // whether another row has come; nil if length is known
	transposed bool              // people see columns as rows
}

// Table is a table with a row for each element of list. Its key names an array in JSON. The
// rows must not change until the report is written.
func Table[T any](key string, list []T, columns ...Column[T]) *TableNode {
	return Computed(key, len(list), func(row int) *T { return &list[row] }, columns...)
}

// Computed is [Table] for rows that are not all in memory. at returns a row, which is valid
// until the next call. Each pass over the table asks for the rows in ascending order from
// 0, and may ask for a row several times.
func Computed[T any](key string, length int, at func(row int) *T, columns ...Column[T]) *TableNode {
	t := &TableNode{key: key, length: length}
	for _, c := range columns {
		t.columns = append(t.columns, c.column)
	}
	t.cell = func(row, col int) cell {
		return columns[col].of(at(row))
	}
	return t
}

// Streamed is a table whose rows come one after the other, for JSON and CSV, which write
// each before they ask for the next. next returns nil after the last one. The document can
// be written only once.
func Streamed[T any](key string, next func() *T, columns ...Column[T]) *TableNode {
	var now *T
	t := Computed(key, 0, func(int) *T { return now }, columns...)
	t.next = func() bool {
		now = next()
		return now != nil
	}
	return t
}

// has reports whether there is a row. It is called for each row once, in ascending order.
func (t *TableNode) has(row int) bool {
	if t.next != nil {
		return t.next()
	}
	return row < t.length
}

// of returns the cell of a row.
func (c *Column[T]) of(row *T) cell {
	if c.missing != nil && c.missing(row) {
		return cell{missing: true}
	}
	v := c.value(row)
	v.about = c.about != nil && c.about(row)
	if c.high != nil {
		v.to = c.high(row)
	}
	switch c.kind {
	case number, share, mean:
		v.missing = math.IsNaN(v.f) || math.IsNaN(v.to)
	}
	return v
}

// Tree is a table whose rows are the nodes of trees, each before its children. level is 0
// for roots, and at most one more than that of the previous row. For people, it indents the
// functions, or otherwise the first column with text. In JSON, children are arrays in their
// parents. CSV has a column "level".
func Tree[T any](key string, list []T, level func(*T) int, columns ...Column[T]) *TableNode {
	t := Table(key, list, columns...)
	t.level = func(row int) int { return level(&list[row]) }
	return t
}

// Titled puts a heading above the table, unless the table is empty.
func (t *TableNode) Titled(title string) *TableNode { t.title = title; return t }

// Transposed shows people the columns as rows. The cells of the first column are the
// titles.
func (t *TableNode) Transposed() *TableNode { t.transposed = true; return t }

// Top shows people the first n rows, and the number of further rows. 0 shows all.
func (t *TableNode) Top(n int) *TableNode { t.top = n; return t }

// shown returns how many rows people see. more returns how many they do not see.
func (t *TableNode) shown() int {
	if t.top > 0 {
		return min(t.top, t.length)
	}
	return t.length
}

func (t *TableNode) more() string {
	if n := t.length - t.shown(); n > 0 {
		return "(" + label.Count(uint64(n), "more row", "more rows") + ")"
	}
	return ""
}

// Len is the number of rows.
func (t *TableNode) Len() int { return t.length }

func titleOf(key string) string { return strings.ReplaceAll(key, "_", " ") }

// Facts are single values. Each is a column whose only row is of type T.
func Facts[T any](of *T, columns ...Column[T]) *FactList {
	l := &FactList{}
	for i := range columns {
		l.list = append(l.list, fact{columns[i].column, columns[i].of(of)})
	}
	return l
}

// Hidden hides facts from people, because the prose has them.
func (l *FactList) Hidden() Programs { return Programs{l} }
