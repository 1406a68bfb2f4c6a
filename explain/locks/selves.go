package locks

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// maxSelves is the number of functions whose self times are kept apart in a path.
const maxSelves = 64

// tally is self times of functions, in the order in which they come. A function may be in it several
// times.
type tally struct {
	list []selfTime
	most int // length at which it is added up
}

// adder adds up tallies. Its zero value is ready.
type adder struct {
	small []uint32 // by ID: 1 + index in the list at hand; 0 between lists
	large map[reader.FuncID]uint32
}

// leastTally is the least length of a tally that is worth adding up.
const leastTally = 64

// add appends to a tally. It adds up tallies that have doubled, so that their memory grows with the
// number of functions.
func (a *adder) add(t *tally, selves ...selfTime) {
	if t.list = append(t.list, selves...); len(t.list) > t.most {
		if t.most > 0 {
			t.list = a.sum(t.list)
		}
		t.most = 2*len(t.list) + leastTally
	}
}

// sum adds up the times of each function, in place.
func (a *adder) sum(list []selfTime) []selfTime {
	n := uint32(0)
	for _, s := range list {
		if at := a.place(s.fn); at > 0 {
			list[at-1].ticks += s.ticks
			continue
		}
		list[n] = s
		n++
		a.setPlace(s.fn, n)
	}
	for _, s := range list[:n] {
		a.setPlace(s.fn, 0)
	}
	clear(a.large)
	return list[:n]
}

func (a *adder) place(fn reader.FuncID) uint32 {
	if i := uint32(fn); int(i) < len(a.small) {
		return a.small[i]
	}
	return a.large[fn]
}

func (a *adder) setPlace(fn reader.FuncID, at uint32) {
	switch i := uint32(fn); {
	case int(i) < len(a.small):
		a.small[i] = at
	case i < smallIDs:
		a.small = append(a.small, make([]uint32, i+1-uint32(len(a.small)))...)
		a.small[i] = at
	default:
		if a.large == nil {
			a.large = make(map[reader.FuncID]uint32)
		}
		a.large[fn] = at
	}
}

// spend adds the self times of a hold, each function once, and changes their order. If there are very
// many functions, the heaviest are kept, and reader.Folded stands for all others, so that the sum stays
// the same.
func (p *pathSum) spend(list []selfTime) {
	if light := len(list) - maxSelves; light > 0 {
		slices.SortFunc(list, compareWeights)
		folded := uint64(0)
		for _, s := range list[:light] {
			folded += s.ticks
		}
		if list = list[light:]; folded > 0 {
			list = append(list, selfTime{reader.Folded, folded})
		}
	}
	slices.SortFunc(list, compareFunctions)
	p.self = fold(merge(p.self, list))
}

// merge adds b to a. Both are ordered by function, and so is the result.
func merge(a, b []selfTime) []selfTime {
	n, i := len(a), 0
	for _, s := range b {
		for i < n && a[i].fn < s.fn {
			i++
		}
		switch last := len(a) - 1; {
		case i < n && a[i].fn == s.fn:
			a[i].ticks += s.ticks
		case last >= n && a[last].fn == s.fn:
			a[last].ticks += s.ticks
		default:
			a = append(a, s)
		}
	}
	if len(a) > n {
		slices.SortFunc(a, compareFunctions)
	}
	return a
}

func compareFunctions(a, b selfTime) int { return cmp.Compare(a.fn, b.fn) }

// fold keeps the heaviest of a list that is ordered by function, and the order.
func fold(list []selfTime) []selfTime {
	weights := slices.Clone(list)
	if len(weights) > 0 && weights[0].fn == reader.Folded { // the smallest of all IDs
		weights = weights[1:]
	}
	if len(weights) <= maxSelves {
		return list
	}
	slices.SortFunc(weights, compareWeights)
	lightest := weights[len(weights)-maxSelves]
	folded := uint64(0)
	kept := slices.DeleteFunc(list, func(s selfTime) bool {
		out := s.fn == reader.Folded || compareWeights(s, lightest) < 0
		if out {
			folded += s.ticks
		}
		return out
	})
	return merge(slices.Clip(kept), []selfTime{{reader.Folded, folded}})
}

// compareWeights orders the lightest first, and of equal ones those with higher IDs.
func compareWeights(a, b selfTime) int {
	return cmp.Or(cmp.Compare(a.ticks, b.ticks), cmp.Compare(b.fn, a.fn))
}
