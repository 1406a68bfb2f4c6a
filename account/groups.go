package account

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader/calls"
)

// Groups divides calls by the values of expressions. It does not change, so any goroutine may use it.
type Groups struct {
	of *calls.Expressions
	by []groupsOf // by expression
	// Texts describe the groups: EXPRESSION = VALUE. The first one is that of calls without values, "".
	Texts []string
}

// groupsOf are the groups of one expression. 0 is no group.
type groupsOf struct {
	values map[string]int
	powers map[int]int // of numbers, by power of two; nil if each has its own group
	others int
}

// Groups returns the groups that the rows of a report are, or fewer: at most most for each expression, those with
// the most time. The others are one group more.
func (v *Values) Groups(most int) *Groups {
	g := &Groups{of: v.of, by: make([]groupsOf, len(v.by)), Texts: []string{""}}
	for i := range v.by {
		by := &v.by[i]
		rows, _ := by.sorted()
		chosen := slices.Clone(rows)
		slices.SortStableFunc(chosen, func(a, b *ValueRow) int { return b.Total.Compare(a.Total) })
		chosen = chosen[:min(most, len(chosen))]
		to := &g.by[i]
		to.values = make(map[string]int)
		if by.many {
			to.powers = make(map[int]int)
		}
		add := func(row *ValueRow) int {
			g.Texts = append(g.Texts, row.Expression.Expression+" = "+row.Value)
			return len(g.Texts) - 1
		}
		for _, row := range rows {
			switch {
			case !slices.Contains(chosen, row):
			case by.many && row.isNumber:
				to.powers[row.power] = add(row)
			case row != by.others:
				to.values[row.Value] = add(row)
			}
		}
		if len(rows) > len(chosen) || by.others != nil {
			to.others = add(&ValueRow{Expression: rows[0].Expression, Value: otherValues})
		}
	}
	return g
}

// Of returns the group of call i of a batch, or 0 if it has none. Scratch may be nil, and is returned for the next
// call.
func (g *Groups) Of(b *calls.Batch, i int, scratch []calls.Recorded) (int, []calls.Recorded) {
	scratch = g.of.Of(b, i, scratch[:0])
	if len(scratch) == 0 {
		return 0, scratch
	}
	r := &scratch[0]
	by := &g.by[r.ID]
	if n, ok := r.Number(); ok && by.powers != nil {
		return cmp.Or(by.powers[power(n)], by.others), scratch
	}
	return cmp.Or(by.values[r.Text()], by.others), scratch
}
