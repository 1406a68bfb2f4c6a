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
	spare [][]selfTime // empty lists of tallies that ended
	kept  []selfTime   // memory for keep
}

// leastTally is the least length of a tally that is worth adding up.
const leastTally = 64

// add appends to a tally. It adds up tallies that have doubled, so that their memory grows with the
// number of functions.
func (a *adder) add(t *tally, selves ...selfTime) {
	if last := len(a.spare) - 1; t.list == nil && last >= 0 {
		t.list, a.spare = a.spare[last], a.spare[:last]
	}
	if t.list = append(t.list, selves...); len(t.list) > t.most {
		if t.most > 0 {
			t.list = a.sum(t.list)
		}
		t.most = 2*len(t.list) + leastTally
	}
}

// end empties a tally. Others use its memory.
func (a *adder) end(t *tally) {
	if t.list != nil {
		a.spare = append(a.spare, t.list[:0])
	}
	*t = tally{}
}

// keep returns a copy of the sum of a list.
func (a *adder) keep(list []selfTime) []selfTime {
	list = a.sum(list)
	if len(list) > cap(a.kept)-len(a.kept) {
		a.kept = make([]selfTime, 0, max(512, len(list)))
	}
	n := len(a.kept)
	a.kept = append(a.kept, list...)
	return a.kept[n:len(a.kept):len(a.kept)]
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

// merge adds b to a, and changes b. Both are ordered by function, and so is the result.
func merge(a, b []selfTime) []selfTime {
	n, i := len(a), 0
	fresh := b[:0]
	for _, s := range b {
		for i < n && a[i].fn < s.fn {
			i++
		}
		switch last := len(fresh) - 1; {
		case i < n && a[i].fn == s.fn:
			a[i].ticks += s.ticks
		case last >= 0 && fresh[last].fn == s.fn:
			fresh[last].ticks += s.ticks
		default:
			fresh = append(fresh, s)
		}
	}
	a = append(a, fresh...)
	for i, to := n-1, len(a)-1; len(fresh) > 0; to-- {
		if last := len(fresh) - 1; i < 0 || a[i].fn < fresh[last].fn {
			a[to], fresh = fresh[last], fresh[:last]
		} else {
			a[to] = a[i]
			i--
		}
	}
	return a
}

func compareFunctions(a, b selfTime) int { return cmp.Compare(a.fn, b.fn) }

// fold keeps the heaviest of a list that is ordered by function, and the order. It changes list.
func fold(list []selfTime) []selfTime {
	first := 0
	if len(list) > 0 && list[0].fn == reader.Folded { // the smallest of all IDs
		first = 1
	}
	light := len(list) - first - maxSelves
	if light <= 0 {
		return list
	}
	var memory [2 * maxSelves]selfTime // few holds need more
	lightest := heavier(append(memory[:0], list[first:]...), light)
	folded := selfTime{fn: reader.Folded}
	to := len(list)
	for i := len(list) - 1; i >= 0; i-- {
		if s := list[i]; i >= first && compareWeights(s, lightest) >= 0 {
			to--
			list[to] = s
		} else {
			folded.ticks += s.ticks
		}
	}
	to--
	list[to] = folded
	return list[:copy(list, list[to:])]
}

// heavier returns the element of list that is heavier than n others, and changes the order. n is less
// than the length of list, which has no equal elements and is short.
func heavier(list []selfTime, n int) selfTime {
	for len(list) > 1 {
		last := len(list) - 1
		list[len(list)/2], list[last] = list[last], list[len(list)/2]
		less := 0 // elements that are lighter than the last one
		for i, s := range list[:last] {
			if compareWeights(s, list[last]) < 0 {
				list[i], list[less] = list[less], s
				less++
			}
		}
		switch {
		case less == n:
			return list[last]
		case less > n:
			list = list[:less]
		default:
			list[less], list[last] = list[last], list[less]
			list, n = list[less+1:], n-less-1
		}
	}
	return list[0]
}

// compareWeights orders the lightest first, and of equal ones those with higher IDs.
func compareWeights(a, b selfTime) int {
	return cmp.Or(cmp.Compare(a.ticks, b.ticks), cmp.Compare(b.fn, a.fn))
}
