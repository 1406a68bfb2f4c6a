package sql

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"modernc.org/sqlite/vtab"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/tables"
)

// plan is how SQLite wants to read the table calls: it passes from BestIndex to Filter as
// text. SQLite checks every condition itself, too, so a plan may let more calls through than
// its conditions do, and never fewer.
type plan struct {
	used  uint64     // columns that the query needs, a bit each
	order []ordering // empty for any order
	conds []condition
}

// ordering is a column that calls are ordered by.
type ordering struct {
	column int
	desc   bool
}

// condition is a column that is compared with a value that Filter gets.
type condition struct {
	column int
	op     vtab.ConstraintOp
}

func (p *plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", p.used)
	for _, o := range p.order {
		desc := 0
		if o.desc {
			desc = 1
		}
		fmt.Fprintf(&b, " o %d %d", o.column, desc)
	}
	for _, c := range p.conds {
		fmt.Fprintf(&b, " c %d %d", c.column, c.op)
	}
	return b.String()
}

func parsePlan(text string) (p plan, err error) {
	words := strings.Fields(text)
	bad := fmt.Errorf("bad plan %q", text)
	if len(words)%3 != 1 {
		return p, bad
	}
	if p.used, err = strconv.ParseUint(words[0], 10, 64); err != nil {
		return p, bad
	}
	for words = words[1:]; len(words) > 0; words = words[3:] {
		column, err1 := strconv.Atoi(words[1])
		n, err2 := strconv.Atoi(words[2])
		switch {
		case err1 != nil || err2 != nil:
			return p, bad
		case words[0] == "o":
			p.order = append(p.order, ordering{column, n == 1})
		default:
			p.conds = append(p.conds, condition{column, vtab.ConstraintOp(n)})
		}
	}
	return p, nil
}

func (p *plan) uses(column int) bool { return p.used>>column&1 != 0 }

// typicalCalls is the number of calls that costs are estimated for. The planner needs only
// to know that a pass over the calls costs more than anything else.
const typicalCalls = 10_000_000

// bestIndex makes a plan. Reading the trace costs a fifth of what SQLite does with the calls.
func bestIndex(info *vtab.IndexInfo) error {
	p := plan{used: info.ColUsed}
	if p.used>>63 != 0 {
		p.used = math.MaxUint64 // the last bit represents all further columns
	}
	rows := float64(typicalCalls)
	args := 0
	for i := range info.Constraints {
		c := &info.Constraints[i]
		part, ok := selectivity(c.Column, c.Op)
		if !ok || !c.Usable {
			continue
		}
		c.ArgIndex = args
		args++
		p.conds = append(p.conds, condition{c.Column, c.Op})
		rows *= part
	}
	cost := 0.2*typicalCalls + rows
	if p.order = orderings(info.OrderBy); p.order != nil {
		info.OrderByConsumed = true
		cost += rows / 2
	}
	info.IdxStr = p.String()
	info.EstimatedRows = int64(max(rows, 1))
	info.EstimatedCost = cost
	return nil
}

// orderings returns the order that SQLite asks for if there may be buckets for it, else nil.
func orderings(list []vtab.OrderBy) (order []ordering) {
	for _, o := range list {
		if !bucketable(o.Column) || len(list) > mostKeys {
			return nil
		}
		order = append(order, ordering{o.Column, o.Desc})
	}
	return order
}

// selectivity is the assumed part of the calls that pass a condition, if the reader can use it.
func selectivity(column int, op vtab.ConstraintOp) (float64, bool) {
	switch op {
	case vtab.OpEQ:
		switch column {
		case colFunctionID, colFunction:
			return 1. / 200, true
		case colThread, colThreadName:
			return 1. / 16, true
		case colTrace, colProcess:
			return 1. / 2, true
		case colCallerID, colCaller, colPath:
			return 1. / 200, true
		case colStart, colDuration, colDepth:
			return 1. / 100, true
		}
	case vtab.OpGT, vtab.OpGE, vtab.OpLT, vtab.OpLE:
		switch column {
		case colStart, colDuration, colSelf, colDepth:
			return 1. / 4, true
		}
	case vtab.OpLIKE, vtab.OpREGEXP:
		if column == colFunction {
			return 1. / 20, true
		}
	}
	return 1, false
}

// filter has the conditions that a pass can use, with the values in args.
func (db *DB) filter(p *plan, args []vtab.Value) (calls.Filter, error) {
	var f calls.Filter
	var threads []func(reader.Thread) bool
	var funcs []func(reader.FuncID) bool
	for i, c := range p.conds {
		if i >= len(args) {
			break
		}
		switch c.column {
		case colTrace, colProcess, colThread, colThreadName:
			if want := args[i]; natural(c.column, want) {
				threads = append(threads, func(t reader.Thread) bool {
					info := db.opts.ThreadOf(t)
					return tables.Calls.Value(&db.opts.Source, &tables.Call{Thread: &info}, c.column) == want
				})
			}
		case colFunctionID:
			if want, ok := args[i].(int64); ok {
				funcs = append(funcs, func(id reader.FuncID) bool { return int64(id) == want })
			}
		case colFunction:
			if match := db.matcher(c.op, args[i]); match != nil {
				funcs = append(funcs, func(id reader.FuncID) bool { return match(symbolize.Label(db.opts.Names, id)) })
			}
		case colStart:
			if err := db.limitStart(&f, c.op, args[i]); err != nil {
				return f, err
			}
		case colDuration, colSelf: // a call takes at least its self time
			if n, ok := number(args[i]); ok && n > 1 && (c.op == vtab.OpGT || c.op == vtab.OpGE || c.op == vtab.OpEQ) {
				f.MinDuration = max(f.MinDuration, db.ticksBelow(n))
			}
		case colDepth:
			if n, ok := number(args[i]); ok && n >= 0 && n < 1<<30 && (c.op == vtab.OpLT || c.op == vtab.OpLE || c.op == vtab.OpEQ) {
				f.MaxDepth = lesser(f.MaxDepth, uint32(n)+1)
			}
		}
	}
	if len(threads) > 0 {
		f.Thread = all(threads)
	}
	if len(funcs) > 0 {
		f.Func = all(funcs)
	}
	return f, nil
}

// all reports whether all of a list report true.
func all[T any](list []func(T) bool) func(T) bool {
	return func(v T) bool {
		for _, ok := range list {
			if !ok(v) {
				return false
			}
		}
		return true
	}
}

// lesser is the smaller of two limits. 0 means no limit.
func lesser[T uint32 | uint64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// natural reports whether a value has the type of a column's values, so that SQLite
// compares it without converting it.
func natural(column int, v vtab.Value) bool {
	switch v.(type) {
	case int64:
		return tables.Calls.Columns[column].SQL() == tables.SQLInteger
	case string:
		return tables.Calls.Columns[column].SQL() == tables.SQLText
	}
	return false
}

// number returns a value as a number of the size of a time.
func number(v vtab.Value) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, !math.IsNaN(v)
	}
	return 0, false
}

// matcher returns the condition that an operator and a pattern stand for. It may accept
// more, and is nil if it would accept all.
func (db *DB) matcher(op vtab.ConstraintOp, pattern vtab.Value) func(string) bool {
	text, ok := pattern.(string)
	if !ok {
		return nil
	}
	switch op {
	case vtab.OpEQ:
		return func(s string) bool { return s == text }
	case vtab.OpREGEXP:
		if re, err := db.expressions.get(text); err == nil {
			return re.MatchString
		}
	case vtab.OpLIKE:
		return likeMatcher(text)
	}
	return nil
}

// mostLike is the longest pattern that a pass uses. A pass without conditions is only slower.
const mostLike = 1 << 12

// likeMatcher accepts at least what SQLite's LIKE does, whose case is that of ASCII.
func likeMatcher(pattern string) func(string) bool {
	if len(pattern) > mostLike {
		return nil
	}
	var b strings.Builder
	b.WriteString("(?is)^")
	for _, r := range pattern {
		switch r {
		case '%':
			b.WriteString(".*")
		case '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	re, err := regexp.Compile(b.String() + "$")
	if err != nil {
		return nil
	}
	return re.MatchString
}

// slack bounds the relative error of converting a time to a floating-point number.
const slack = 1e-9

// ticksBelow returns a number of ticks that is not more than n of the table's unit of time.
func (db *DB) ticksBelow(n float64) uint64 {
	return db.ticks(n*(1-slack) - 1)
}

// ticks converts the table's unit of time to ticks, rounded down.
func (db *DB) ticks(n float64) uint64 {
	if n <= 0 {
		return 0
	}
	if n >= 1<<62 {
		n = 1 << 62
	}
	if !db.opts.Clock.Known() {
		return uint64(n)
	}
	hi, lo := bits.Mul64(uint64(n), db.opts.Clock.Frequency)
	if hi >= 1e9 {
		return math.MaxUint64
	}
	t, _ := bits.Div64(hi, lo, 1e9)
	return t
}

// limitStart limits the entries of calls by a condition on start.
func (db *DB) limitStart(f *calls.Filter, op vtab.ConstraintOp, arg vtab.Value) error {
	n, ok := number(arg)
	if !ok {
		return nil
	}
	base, err := db.start0()
	if err != nil {
		return err
	}
	if op == vtab.OpGT || op == vtab.OpGE || op == vtab.OpEQ {
		if from := base + db.ticksBelow(n); n > 1 && from >= base {
			f.StartFrom = max(f.StartFrom, from)
		}
	}
	if op == vtab.OpLT || op == vtab.OpLE || op == vtab.OpEQ {
		if to := base + db.ticks(max(n, 0)*(1+slack)+2) + 2; to > base {
			f.StartTo = lesser(f.StartTo, to)
		}
	}
	return nil
}
