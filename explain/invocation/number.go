package invocation

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Numbering numbers some invocations of a trace: their positions among all by time, from 1.
// These invocations must be known before the first one is seen.
type Numbering struct {
	keys   []Key
	before []uint64 // by index in keys: invocations since the previous key
	seen   []bool
}

// NewNumbering returns a Numbering that has seen no invocations. It copies keys, which may
// be in any order.
func NewNumbering(keys []Key) *Numbering {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, Key.Compare)
	keys = slices.Compact(keys)
	return &Numbering{keys: keys, before: make([]uint64, len(keys)), seen: make([]bool, len(keys))}
}

// See counts an invocation, and reports whether it is one that should be numbered.
func (n *Numbering) See(k Key) bool {
	place, found := slices.BinarySearchFunc(n.keys, k, Key.Compare)
	switch {
	case found:
		n.seen[place] = true
	case place < len(n.before):
		n.before[place]++
	}
	return found
}

// Merge adds the counts of o, a numbering of the same invocations.
func (n *Numbering) Merge(o *Numbering) {
	for i := range o.before {
		n.before[i] += o.before[i]
		n.seen[i] = n.seen[i] || o.seen[i]
	}
}

// Number returns the number of an invocation, or false if it was not seen.
func (n *Numbering) Number(k Key) (uint64, bool) {
	place, found := slices.BinarySearchFunc(n.keys, k, Key.Compare)
	if !found || !n.seen[place] {
		return 0, false
	}
	number := uint64(1)
	for i := range place {
		number += n.before[i]
		if n.seen[i] {
			number++
		}
	}
	return number + n.before[place], true
}

// Numbers is a Numbering of the invocations of roots, as an analysis.
type Numbers struct {
	*Tracker
	*Numbering
}

// NewNumbers returns an analysis without invocations. root is its only filter: numbers
// count all invocations of the trace.
func NewNumbers(root func(reader.FuncID) bool, nested bool, keys []Key) *Numbers {
	n := &Numbers{Numbering: NewNumbering(keys)}
	n.Tracker = NewTracker(Options{Root: root, Nested: nested}, func(v *Invocation, _ bool) { n.See(v.Key) })
	return n
}

// Merge implements calls.Analysis.
func (n *Numbers) Merge(o *Numbers) { n.Numbering.Merge(o.Numbering) }

var _ calls.Analysis[*Numbers] = (*Numbers)(nil)
