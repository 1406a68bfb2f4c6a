package calls

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/args/value"
)

// Expression is something whose value was recorded at the entries or exits of a function.
type Expression struct {
	Func reader.FuncID
	Exit bool // read when the function returns
	// ID numbers the expressions of a trace from 0, in the order of Func, Exit and the text. An expression has
	// the same ID in all files and at all times.
	ID int
	value.Description
	key []byte // the text of the expression and a colon, as JSON
}

// Recorded is the value of an expression for one call. It is valid as long as the batch.
type Recorded struct {
	*Expression
	scalar   uint64
	isScalar bool // it has no event
	event    value.Recorded
}

// Expressions are those of a trace. nil has none. They do not change, so any goroutine may use them.
type Expressions struct {
	list []*Expression // by ID; the first one of each
	have []bool        // by function, for speed, up to maxDense
	sets map[valuesOf][]valueSet
	only []bool // by ID; nil for all
}

type valuesOf struct {
	file int32
	fn   reader.FuncID
}

// valueSet is what is recorded of a function from a TSC on. Damaged descriptions are nil.
type valueSet struct {
	since       uint64
	entry, exit []*Expression
}

// maxDense limits the memory of Expressions.have.
const maxDense = 1 << 16

// ExpressionsOf returns the expressions of a trace, by the recordings of its files, which are nil for files of
// other recorders. Without expressions, it returns nil.
func ExpressionsOf(recordings ...*reader.Recording) *Expressions {
	e := &Expressions{sets: make(map[valuesOf][]valueSet)}
	var all []*Expression
	for file, r := range recordings {
		if r == nil {
			continue
		}
		for i := range r.Values {
			v := &r.Values[i]
			set := valueSet{since: v.Since}
			if v.Missing == "" {
				set.entry, set.exit = describe(v.ID, false, v.Entry), describe(v.ID, true, v.Exit)
			}
			for _, x := range slices.Concat(set.entry, set.exit) {
				if x != nil {
					all = append(all, x)
				}
			}
			k := valuesOf{int32(file), v.ID}
			e.sets[k] = append(e.sets[k], set)
			if id := int(v.ID); id >= 0 && id < maxDense {
				e.have = append(e.have, make([]bool, max(0, id+1-len(e.have)))...)
				e.have[id] = true
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, sets := range e.sets {
		slices.SortStableFunc(sets, func(a, b valueSet) int { return cmp.Compare(a.since, b.since) })
	}
	slices.SortStableFunc(all, (*Expression).compare)
	for i, x := range all {
		if i == 0 || x.compare(all[i-1]) != 0 {
			e.list = append(e.list, x)
		}
		x.ID = len(e.list) - 1
	}
	return e
}

func describe(fn reader.FuncID, exit bool, list []value.Description) []*Expression {
	found := make([]*Expression, len(list))
	for i := range list {
		if list[i].Expression != "" {
			var key bytes.Buffer
			to := json.NewEncoder(&key)
			to.SetEscapeHTML(false)
			_ = to.Encode(list[i].Expression) // a string can always be written
			found[i] = &Expression{Func: fn, Exit: exit, Description: list[i], key: append(bytes.TrimSpace(key.Bytes()), ':')}
		}
	}
	return found
}

func (x *Expression) compare(y *Expression) int {
	exit := func(x *Expression) int {
		if x.Exit {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(x.Func, y.Func), cmp.Compare(exit(x), exit(y)), cmp.Compare(x.Expression, y.Expression))
}

// All returns the expressions by ID. Another file may describe one of them with another type.
func (e *Expressions) All() []*Expression {
	if e == nil {
		return nil
	}
	return e.list
}

// Describe reports whether there are expressions of a function.
func (e *Expressions) Describe(fn reader.FuncID) bool {
	if e == nil {
		return false
	}
	if id := uint32(fn); id < maxDense {
		return int(id) < len(e.have) && e.have[id]
	}
	return slices.ContainsFunc(e.list, func(x *Expression) bool { return x.Func == fn && (e.only == nil || e.only[x.ID]) })
}

// Only returns the expressions for which keep holds, with the same numbers, or nil if there are none.
func (e *Expressions) Only(keep func(*Expression) bool) *Expressions {
	if e == nil {
		return nil
	}
	o := &Expressions{list: e.list, have: make([]bool, len(e.have)), sets: e.sets, only: make([]bool, len(e.list))}
	some := false
	for i, x := range e.list {
		if !keep(x) {
			continue
		}
		o.only[i], some = true, true
		if int(x.Func) >= 0 && int(x.Func) < len(o.have) {
			o.have[x.Func] = true
		}
	}
	if !some {
		return nil
	}
	return o
}

// Of appends what was recorded of call i of a batch to list: values at its entry, then those at its exit, each
// in the order in which they were asked for. It needs calls without Options.Alias.
func (e *Expressions) Of(b *Batch, i int, list []Recorded) []Recorded {
	c := &b.Calls[i]
	if !e.Describe(c.Func) {
		return list
	}
	sets := e.sets[valuesOf{b.Thread.File, c.Func}]
	at := len(sets) - 1
	for at >= 0 && sets[at].since > c.Start {
		at--
	}
	if at < 0 {
		return list
	}
	set, values := &sets[at], b.ValuesOf(i)
	var args []Arg
	if !slices.Contains(set.entry, nil) { // else nobody knows which argument is whose
		args = b.ArgsOf(i)
	}
	for k, x := range set.entry {
		r := Recorded{Expression: x}
		if x != nil && x.Kind == value.Scalar && len(args) > 0 {
			r.scalar, r.isScalar, args = args[0].Value, true, args[1:]
		}
		list = e.append(list, r, values, k) // a scalar that is missing is an argument of 0, too
	}
	for k, x := range set.exit {
		r := Recorded{Expression: x}
		if x != nil && x.Kind == value.Scalar && len(set.exit) == 1 {
			r.scalar, r.isScalar = b.resultOf(i)
		}
		list = e.append(list, r, values, k)
	}
	return list
}

// append appends a value of which an event may say more, unless it is not wanted or does not exist.
func (e *Expressions) append(list []Recorded, r Recorded, values []Value, index int) []Recorded {
	if r.Expression == nil || e.only != nil && !e.only[r.ID] {
		return list
	}
	for k := range values {
		if v := &values[k]; v.Exit == r.Exit && int(v.Index) == index {
			return append(list, Recorded{Expression: r.Expression, event: v.Value.Recorded})
		}
	}
	if r.isScalar {
		list = append(list, r)
	}
	return list
}

// ValuesOf returns what events say about the arguments and results of call i of the batch, in order.
func (b *Batch) ValuesOf(i int) []Value {
	from := b.first(i, len(b.Values), func(k int) int { return b.Values[k].Call })
	to := from
	for to < len(b.Values) && b.Values[to].Call == i {
		to++
	}
	return b.Values[from:to]
}

func (b *Batch) resultOf(i int) (result uint64, ok bool) {
	k := b.first(i, len(b.Results), func(k int) int { return b.Results[k].Call })
	if k == len(b.Results) || b.Results[k].Call != i {
		return 0, false
	}
	return b.Results[k].Value, true
}

// recorded returns the value as package value takes it.
func (r *Recorded) recorded(scalar *[8]byte) value.Recorded {
	if r.isScalar {
		binary.LittleEndian.PutUint64(scalar[:], r.scalar)
		return value.Recorded{Data: scalar[:]}
	}
	return r.event
}

// Exists reports whether the value could be read. Otherwise it has only a text, which says why.
func (r *Recorded) Exists() bool {
	return r.isScalar || r.event.Flags&(value.Unreadable|value.None) == 0
}

// Truncated reports whether the value is only the first bytes of a string.
func (r *Recorded) Truncated() bool { return r.event.Flags&value.Truncated != 0 }

// Text returns the value as one line of text.
func (r *Recorded) Text() string {
	var scalar [8]byte
	return r.Description.Text(r.recorded(&scalar))
}

// JSON returns the value as JSON: null if it does not exist.
func (r *Recorded) JSON() json.RawMessage {
	var scalar [8]byte
	return r.Description.JSON(r.recorded(&scalar))
}

// Number returns the value of a quantity, rounded to a double. It is false for what is no quantity, such as
// strings, pointers and enumerators, and for values that do not exist. Durations are in nanoseconds.
func (r *Recorded) Number() (float64, bool) {
	if !r.IsNumber() {
		return 0, false
	}
	if r.isScalar {
		return r.NumberOf(r.scalar)
	}
	var scalar [8]byte
	return r.Description.Number(r.recorded(&scalar))
}

// Length returns the length of a string in bytes. It is false for what is no string, and if it is unknown.
func (r *Recorded) Length() (uint64, bool) {
	n, known := r.event.FullLength()
	return n, known && r.Kind == value.Bytes && r.Exists()
}

// ValuesText returns values with their expressions as one line of text.
func ValuesText(list []Recorded) string {
	var words []string
	for i := range list {
		words = append(words, list[i].Expression.Expression+": "+list[i].Text())
	}
	return strings.Join(words, ", ")
}

// AppendValues appends those of some values that are arguments, or results, as a JSON object by expression. It
// appends nothing if there are none.
func AppendValues(dst []byte, list []Recorded, results bool) []byte {
	begin := byte('{')
	for i := range list {
		if list[i].Exit == results {
			dst = append(append(dst, begin), list[i].key...)
			dst = append(dst, list[i].JSON()...)
			begin = ','
		}
	}
	if begin == ',' {
		dst = append(dst, '}')
	}
	return dst
}

// Keep returns a copy that stays valid. Of a string, it has at most that many bytes.
func (r *Recorded) Keep(most int) Recorded {
	k := *r
	if len(k.event.Data) > most {
		k.event.Data, k.event.Flags = k.event.Data[:most], k.event.Flags|value.Truncated
	}
	k.event.Data = slices.Clone(k.event.Data)
	return k
}

// SplitExpression splits FUNCTION: EXPRESSION at the last colon that is not one of two. Without one,
// all is the function.
func SplitExpression(text string) (function, expression string) {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] != ':' {
			continue
		}
		if i > 0 && text[i-1] == ':' {
			i--
			continue
		}
		return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+1:])
	}
	return text, ""
}
