package shapes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
)

// mostValues is the number of values of an expression that a shape counts one by one.
const mostValues = 8

// valueCounts are the values of an expression in the invocations of a shape.
type valueCounts struct {
	*calls.Expression
	counts    map[string]uint64 // nil if there are more than mostValues
	numbers   bool              // all values are numbers
	low, high numbered
}

// numbered is a number and its text.
type numbered struct {
	number float64
	text   string
}

func (s *shape) addValues(list []calls.Recorded) {
	for i := range list {
		r := &list[i]
		if sum := s.values[r.ID]; sum != nil && sum.counts == nil {
			n, ok := r.Number()
			if !sum.numbers || ok && n >= sum.low.number && n <= sum.high.number {
				continue // a text would change nothing
			}
		}
		text := r.Text()
		one := &valueCounts{Expression: r.Expression, counts: map[string]uint64{text: 1}}
		if n, ok := r.Number(); ok {
			one.numbers, one.low, one.high = true, numbered{n, text}, numbered{n, text}
		}
		s.addCounts(one)
	}
}

func (s *shape) mergeValues(values map[int]*valueCounts) {
	for _, v := range values {
		s.addCounts(v)
	}
}

func (s *shape) addCounts(v *valueCounts) {
	if s.values == nil {
		s.values = make(map[int]*valueCounts)
	}
	sum := s.values[v.ID]
	if sum == nil {
		s.values[v.ID] = v
		return
	}
	if sum.numbers = sum.numbers && v.numbers; sum.numbers {
		if v.low.number < sum.low.number {
			sum.low = v.low
		}
		if v.high.number > sum.high.number {
			sum.high = v.high
		}
	}
	if sum.counts == nil || v.counts == nil {
		sum.counts = nil
		return
	}
	for text, n := range v.counts {
		sum.counts[text] += n
	}
	if len(sum.counts) > mostValues {
		sum.counts = nil
	}
}

// valuesText describes the values of all invocations of the shape.
func (s *shape) valuesText() string {
	var words []string
	for _, id := range slices.Sorted(maps.Keys(s.values)) {
		words = append(words, s.values[id].text())
	}
	return strings.Join(words, ", ")
}

func (v *valueCounts) text() string {
	name := v.Expression.Expression + ": "
	switch {
	case v.counts == nil && v.numbers:
		return name + v.low.text + ".." + v.high.text
	case v.counts == nil:
		return fmt.Sprintf("%smore than %d values", name, mostValues)
	}
	texts := slices.SortedFunc(maps.Keys(v.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(v.counts[b], v.counts[a]), cmp.Compare(a, b))
	})
	if len(texts) == 1 {
		return name + texts[0]
	}
	for i, text := range texts {
		texts[i] = fmt.Sprintf("%s (%s)", text, label.Grouped(v.counts[text]))
	}
	return name + strings.Join(texts, " ")
}
