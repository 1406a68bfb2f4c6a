package account

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
)

// Values collects calls by the recorded values of expressions. It implements calls.Analysis, and needs
// calls.Options.Nested and no calls.Options.Alias.
type Values struct {
	of      *calls.Expressions
	by      []valuesOf // by expression
	scratch []calls.Recorded
	memory  int64
}

// valuesOf are the calls of one expression's function.
type valuesOf struct {
	rows   map[string]*ValueRow // by value
	powers map[int]*ValueRow    // numbers, by power of two
	many   bool                 // numbers have more than mostNumbers values, so rows has none of them
	// limit is a hash. Values with larger ones are in others, because there are too many.
	limit  uint64
	others *ValueRow
}

const (
	mostNumbers = 64
	mostTexts   = 1000
	otherValues = "(other values)"
)

// ValueRow are the calls of a function for which an expression has a value, or is in a range. Times are in ticks.
type ValueRow struct {
	Expression *calls.Expression
	Value      string
	Open       uint64       // calls that are only partly in the trace; nothing else includes them
	Self       quantile.Sum // time in the function without the calls that it made
	Total      quantile.Sum // durations, without those of calls inside others of the same function
	sample     quantile.Sample
	number     float64 // least number of the value
	power      int     // of a row of Values.powers
	isNumber   bool
	hash       uint64
}

// NewValues returns an empty analysis of expressions.
func NewValues(of *calls.Expressions) *Values {
	v := &Values{of: of, by: make([]valuesOf, len(of.All()))}
	for i := range v.by {
		v.by[i] = valuesOf{rows: make(map[string]*ValueRow), powers: make(map[int]*ValueRow), limit: math.MaxUint64}
	}
	return v
}

// Calls adds a batch.
func (v *Values) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		v.Call(b, i)
	}
	return nil
}

// Call adds call i of a batch.
func (v *Values) Call(b *calls.Batch, i int) {
	v.scratch = v.of.Of(b, i, v.scratch[:0])
	for k := range v.scratch {
		r := &v.scratch[k]
		by := &v.by[r.ID]
		if n, ok := r.Number(); ok {
			p := power(n)
			v.add(by.power(r.Expression, p), &b.Calls[i])
			if by.many {
				continue
			}
			row := by.row(r.Expression, r.Text())
			known := row.isNumber
			row.number, row.isNumber = n, true
			v.add(row, &b.Calls[i])
			if !known {
				by.few()
			}
			continue
		}
		v.add(by.row(r.Expression, r.Text()), &b.Calls[i])
		by.bound(2 * mostTexts)
	}
}

// Durations returns those of the calls, without Open. It must not be changed.
func (row *ValueRow) Durations() *quantile.Sample { return &row.sample }

// Memory implements [calls.MemoryUser].
func (v *Values) Memory() int64 {
	const perRow = 256
	memory := v.memory
	for i := range v.by {
		memory += perRow * int64(len(v.by[i].rows)+len(v.by[i].powers))
	}
	return memory
}

func (v *Values) add(row *ValueRow, c *calls.Call) {
	if c.Partial() {
		row.Open++
		return
	}
	row.sample.Meter = &v.memory
	row.sample.Add(c.Duration)
	row.Self.Add(c.Self)
	if !c.Nested {
		row.Total.Add(c.Duration)
	}
}

// row returns the row of a value, or that of others.
func (by *valuesOf) row(x *calls.Expression, value string) *ValueRow {
	if row := by.rows[value]; row != nil {
		return row
	}
	h := fnv.New64a()
	h.Write([]byte(value))
	row := &ValueRow{Expression: x, Value: value, hash: h.Sum64()}
	if row.hash > by.limit {
		return by.other(x)
	}
	by.rows[value] = row
	return row
}

func (by *valuesOf) other(x *calls.Expression) *ValueRow {
	if by.others == nil {
		by.others = &ValueRow{Expression: x, Value: otherValues}
	}
	return by.others
}

// bound moves values to others if there are too many. Which ones stay does not depend on their order.
func (by *valuesOf) bound(most int) {
	if len(by.rows) > most {
		var hashes []uint64
		for _, row := range by.rows {
			hashes = append(hashes, row.hash)
		}
		slices.Sort(hashes)
		by.limit = min(by.limit, hashes[mostTexts-1])
		by.evict()
	}
}

// evict moves values beyond the limit to others.
func (by *valuesOf) evict() {
	for value, row := range by.rows {
		if row.hash > by.limit {
			by.other(row.Expression).merge(row)
			delete(by.rows, value)
		}
	}
}

// few removes the single numbers if there are too many.
func (by *valuesOf) few() {
	numbers := 0
	for _, row := range by.rows {
		if row.isNumber {
			numbers++
		}
	}
	if numbers > mostNumbers {
		by.many = true
	}
	if by.many {
		for value, row := range by.rows {
			if row.isNumber {
				delete(by.rows, value)
			}
		}
	}
}

func (row *ValueRow) merge(o *ValueRow) {
	row.Open += o.Open
	row.Self.AddSum(o.Self)
	row.Total.AddSum(o.Total)
	row.sample.Merge(&o.sample)
}

// power returns the power of two of a number: k for 2^k to 2^(k+1), and a negative number of that for negative
// numbers. 0 and numbers near it have powers of their own.
func power(x float64) int {
	const bias = 2000
	if x == 0 {
		return 0
	}
	k := math.Ilogb(math.Abs(x)) + bias
	if x < 0 {
		return -k
	}
	return k
}

func (by *valuesOf) power(x *calls.Expression, p int) *ValueRow {
	if row := by.powers[p]; row != nil {
		return row
	}
	const bias = 2000
	row := &ValueRow{Expression: x, Value: "0", isNumber: true, power: p}
	if p != 0 {
		low := math.Ldexp(1, max(p, -p)-bias)
		high := 2 * low
		text := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
		whole := (x.Format == "int" || x.Format == "uint") && low < 1<<53
		if whole {
			high--
			text = func(v float64) string { return label.GroupedDigits(strconv.FormatFloat(v, 'f', 0, 64)) }
		}
		unit := ""
		if x.Format == "duration" {
			unit = "ns"
		}
		row.number = low
		row.Value = fmt.Sprintf("%s..%s%s", text(low), text(high), unit)
		switch {
		case p < 0:
			row.number = -high
			row.Value = fmt.Sprintf("-%s..-%s%s", text(high), text(low), unit)
		case whole && low == 1:
			row.Value = "1"
		}
		if p < 0 && whole && low == 1 {
			row.Value = "-1"
		}
	}
	by.powers[p] = row
	return row
}

// Merge adds the calls of other, which must be of the same expressions.
func (v *Values) Merge(other *Values) {
	v.memory += other.memory
	for i := range v.by {
		to, from := &v.by[i], &other.by[i]
		to.many = to.many || from.many
		if from.limit < to.limit {
			to.limit = from.limit
			to.evict()
		}
		for value, row := range from.rows {
			if row.isNumber && to.many {
				continue
			}
			into := to.row(row.Expression, value)
			into.number, into.isNumber = row.number, row.isNumber
			into.merge(row)
		}
		for p, row := range from.powers {
			to.power(row.Expression, p).merge(row)
		}
		if from.others != nil {
			to.other(from.others.Expression).merge(from.others)
		}
		to.few()
		to.bound(2 * mostTexts)
	}
}

// ValuesReport has the calls by value. Numbers ascend, and other values with little time come last.
type ValuesReport struct {
	Rows   []*ValueRow
	Notes  []string
	self   quantile.Sum
	single bool // of one expression
}

// Report returns the rows. At most top of them, or all if it is 0.
func (v *Values) Report(top int) *ValuesReport {
	r := &ValuesReport{}
	open, expressions := uint64(0), 0
	for i := range v.by {
		by := &v.by[i]
		rows, more := by.sorted()
		if more {
			r.Notes = append(r.Notes, fmt.Sprintf("%s has more than %s values. The last row has the others.", by.others.Expression.Expression, label.Grouped(mostTexts)))
		}
		if len(rows) > 0 {
			expressions++
		}
		for _, row := range rows {
			open += row.Open
			r.self.AddSum(row.Self)
		}
		r.Rows = append(r.Rows, rows...)
	}
	if open > 0 {
		r.Notes = append(r.Notes, label.Count(open, "call is", "calls are")+" only partly in the trace, and not counted.")
	}
	r.single = expressions == 1
	if top > 0 {
		r.Rows = r.Rows[:min(top, len(r.Rows))]
	}
	return r
}

// sorted returns the rows: numbers ascend, others with much time come first, and that of all other values is the
// last one, if there is one.
func (by *valuesOf) sorted() (rows []*ValueRow, others bool) {
	by.bound(mostTexts)
	for _, row := range by.rows {
		if !row.isNumber || !by.many {
			rows = append(rows, row)
		}
	}
	if by.many {
		for _, row := range by.powers {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b *ValueRow) int {
		return cmp.Or(a.compareNumber(b), b.Total.Compare(a.Total), cmp.Compare(a.Value, b.Value))
	})
	if by.others != nil {
		rows = append(rows, by.others)
	}
	return rows, by.others != nil
}

// compareNumber orders numbers, which come before other values.
func (row *ValueRow) compareNumber(o *ValueRow) int {
	if row.isNumber != o.isNumber {
		if row.isNumber {
			return -1
		}
		return 1
	}
	return cmp.Compare(row.number, o.number)
}

// Body describes the report.
func (r *ValuesReport) Body() []report.Node {
	about := func(row **ValueRow) bool { return (*row).sample.Approximate() }
	none := func(row **ValueRow) bool { return (*row).sample.Count() == 0 }
	quantileOf := func(key string, q float64) report.Column[*ValueRow] {
		return report.Time(key, func(row **ValueRow) uint64 { return (*row).sample.Quantile(q) }).About(about).Missing(none)
	}
	return []report.Node{report.Table("values", r.Rows,
		report.Count("count", func(row **ValueRow) uint64 { return (*row).sample.Count() }),
		report.Sum("self", func(row **ValueRow) quantile.Sum { return (*row).Self }),
		report.Share("share", func(row **ValueRow) float64 { return share((*row).Self, r.self) }),
		report.Sum("total", func(row **ValueRow) quantile.Sum { return (*row).Total }),
		quantileOf("p50", 0.5), quantileOf("p99", 0.99),
		report.Time("max", func(row **ValueRow) uint64 { return (*row).sample.Max() }).Missing(none),
		report.Flag("approximate", about).ForPrograms(),
		report.Count("open", func(row **ValueRow) uint64 { return (*row).Open }).ForPrograms(),
		report.String("expression", func(row **ValueRow) string { return (*row).Expression.Expression }),
		report.String("value", func(row **ValueRow) string { return (*row).Value }),
		report.Function("function", func(row **ValueRow) reader.FuncID { return (*row).Expression.Func }),
	), report.Notes(r.Notes)}
}
