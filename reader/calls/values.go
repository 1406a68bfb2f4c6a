package calls

import (
	"sort"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/args/value"
)

// ValueNames knows what the recorded arguments and results of calls are. A nil *ValueNames knows none. It is
// safe for concurrent use.
type ValueNames struct {
	of map[valuesKey][]*reader.RecordedValues // by time, the latest first
}

type valuesKey struct {
	file int
	id   reader.FuncID
}

// Named is a recorded argument or result and what it is.
type Named struct {
	Exit bool // it is a result
	*value.Description
	value.Recorded
}

// NewValueNames returns what the files of a trace say, or nil if they say nothing.
func NewValueNames(t *reader.Trace) *ValueNames {
	n := &ValueNames{make(map[valuesKey][]*reader.RecordedValues)}
	for file := range t.Files() {
		r := t.Recording(file)
		if r == nil {
			continue
		}
		for i := range r.Values {
			v := &r.Values[i]
			k := valuesKey{file, v.ID}
			list := n.of[k]
			at := sort.Search(len(list), func(i int) bool { return list[i].Since <= v.Since })
			list = append(list, nil)
			copy(list[at+1:], list[at:])
			list[at] = v
			n.of[k] = list
		}
	}
	if len(n.of) == 0 {
		return nil
	}
	return n
}

// Append appends the arguments and results of call i of a batch that are described, in the order of the
// descriptions. Their data is valid as long as the batch.
func (n *ValueNames) Append(dst []Named, b *Batch, i int) []Named {
	if n == nil {
		return dst
	}
	c := &b.Calls[i]
	list := n.of[valuesKey{int(b.Thread.File), c.Func}]
	for len(list) > 0 && list[0].Since > c.Start {
		list = list[1:]
	}
	if len(list) == 0 || list[0].Missing != "" {
		return dst
	}
	args, values := b.ArgsOf(i), b.ValuesOf(i)
	described := func(exit bool, index int) *Value {
		for k := range values {
			if values[k].Exit == exit && int(values[k].Index) == index {
				return &values[k]
			}
		}
		return nil
	}
	for k := range list[0].Entry {
		d := &list[0].Entry[k]
		var r value.Recorded
		v := described(false, k)
		if d.Kind == value.Scalar && len(args) > 0 {
			r, args = value.Of(args[0].Value), args[1:]
		} else if v == nil {
			continue
		}
		if v != nil {
			r = v.Recorded
		}
		dst = append(dst, Named{false, d, r})
	}
	for k := range list[0].Exit {
		d := &list[0].Exit[k]
		if v := described(true, k); v != nil {
			dst = append(dst, Named{true, d, v.Recorded})
		} else if result, ok := b.resultOf(i); ok && len(list[0].Exit) == 1 {
			dst = append(dst, Named{true, d, value.Of(result)})
		}
	}
	return dst
}

// ValuesOf returns what events say about the arguments and results of call i of the batch, in order.
func (b *Batch) ValuesOf(i int) []Value {
	from := sort.Search(len(b.Values), func(k int) bool { return b.Values[k].Call >= i })
	to := from
	for to < len(b.Values) && b.Values[to].Call == i {
		to++
	}
	return b.Values[from:to]
}

func (b *Batch) resultOf(i int) (result uint64, ok bool) {
	k := sort.Search(len(b.Results), func(k int) bool { return b.Results[k].Call >= i })
	if k == len(b.Results) || b.Results[k].Call != i {
		return 0, false
	}
	return b.Results[k].Value, true
}
