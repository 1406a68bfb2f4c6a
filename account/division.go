package account

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader/calls"
)

// Division is how calls divide by the values of one expression. It is valid until the Values that it is of change.
type Division struct{ by *valuesOf }

// Division returns that of an expression, which must be one of those that v is of.
func (v *Values) Division(x *calls.Expression) Division { return Division{&v.by[x.ID]} }

// AlignedRow has the calls with a value in several divisions.
type AlignedRow struct {
	Value string
	Rows  []*ValueRow // by division; nil for none
}

// Align divides several divisions of the same expression, as of several traces, in the same way: by single numbers
// or by their powers of two in all of them. Numbers ascend, and other values are in the order of their texts. A
// value has no row if one of the divisions has too many values and does not have this one any more.
func Align(list []Division) []AlignedRow {
	numbers, many := make(map[string]bool), false
	for _, d := range list {
		d.by.bound(mostTexts)
		many = many || d.by.many
		for value, row := range d.by.rows {
			if row.isNumber {
				numbers[value] = true
			}
		}
	}
	many = many || len(numbers) > mostNumbers
	rows := make(map[string][]*ValueRow)
	add := func(i int, row *ValueRow) {
		if rows[row.Value] == nil {
			rows[row.Value] = make([]*ValueRow, len(list))
		}
		rows[row.Value][i] = row
	}
	limit := list[0].by.limit
	for _, d := range list {
		limit = min(limit, d.by.limit)
	}
	for i, d := range list {
		for _, row := range d.by.rows {
			if row.hash <= limit && !(row.isNumber && many) {
				add(i, row)
			}
		}
		if many {
			for _, row := range d.by.powers {
				add(i, row)
			}
		}
	}
	var aligned []AlignedRow
	for value, of := range rows {
		aligned = append(aligned, AlignedRow{value, of})
	}
	slices.SortFunc(aligned, func(a, b AlignedRow) int {
		return cmp.Or(a.any().compareNumber(b.any()), cmp.Compare(a.Value, b.Value))
	})
	return aligned
}

// any returns one of the rows.
func (a *AlignedRow) any() *ValueRow {
	return a.Rows[slices.IndexFunc(a.Rows, func(row *ValueRow) bool { return row != nil })]
}
