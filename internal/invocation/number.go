package invocation

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Numbering finds the numbers of some invocations: the place of each among all by
// time, from 1 on. Which those are must be known before the first is seen.
type Numbering struct {
	keys   []Key
	before []uint64 // by place in keys: invocations since the one before it
	met    []bool
}

// NewNumbering returns a numbering that has seen nothing. It keeps a copy of keys,
// which may come in any order.
func NewNumbering(keys []Key) *Numbering {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, Key.Compare)
	keys = slices.Compact(keys)
	return &Numbering{keys: keys, before: make([]uint64, len(keys)), met: make([]bool, len(keys))}
}

// See counts an invocation, and reports whether it is one of those that get a
// number.
func (n *Numbering) See(k Key) bool {
	place, found := slices.BinarySearchFunc(n.keys, k, Key.Compare)
	switch {
	case found:
		n.met[place] = true
	case place < len(n.before):
		n.before[place]++
	}
	return found
}

// Merge takes over what a numbering of the same invocations has seen.
func (n *Numbering) Merge(o *Numbering) {
	for i := range o.before {
		n.before[i] += o.before[i]
		n.met[i] = n.met[i] || o.met[i]
	}
}

// Number is the number of an invocation, and false for one that was not seen.
func (n *Numbering) Number(k Key) (uint64, bool) {
	place, found := slices.BinarySearchFunc(n.keys, k, Key.Compare)
	if !found || !n.met[place] {
		return 0, false
	}
	number := uint64(1)
	for i := range place {
		number += n.before[i]
		if n.met[i] {
			number++
		}
	}
	return number + n.before[place], true
}

// Numbers is a Numbering of the roots' invocations, as an analysis.
type Numbers struct {
	*Tracker
	*Numbering
}

// NewNumbers returns an analysis that has seen nothing. No filter but root applies:
// numbers count all invocations of the trace.
func NewNumbers(root func(reader.FuncID) bool, keys []Key) *Numbers {
	n := &Numbers{Numbering: NewNumbering(keys)}
	n.Tracker = NewTracker(Options{Root: root}, func(v *Invocation, _ bool) { n.See(v.Key) })
	return n
}

// Merge implements calls.Analysis.
func (n *Numbers) Merge(o *Numbers) { n.Numbering.Merge(o.Numbering) }

var _ calls.Analysis[*Numbers] = (*Numbers)(nil)
