package locks

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// maxSelves is the number of functions whose self times are kept apart in a path.
const maxSelves = 64

// selves are the self times of a thread's calls while it holds locks, in the order in which the calls
// ended. They are added up now and then, so that memory grows with the number of functions. Ops are
// processed later than they are recognized: the list begins with the self times before those of ops that
// are not processed yet.
type selves struct {
	list   []selfTime
	passed int // those before ops that have been processed
	fresh  int // where those since the latest op begin
	most   int // length at which those since the latest op are added up
	kept   int // passed after which those before ops that have been processed are added up
}

// leastSelves is the least number of self times that are worth adding up.
const leastSelves = 256

// add appends a self time.
func (t *selves) add(a *adder, s selfTime) {
	if t.list = append(t.list, s); len(t.list) >= t.most {
		t.list = t.list[:t.fresh+len(a.sum(t.list[t.fresh:]))]
		t.most = 2*len(t.list) - t.fresh + leastSelves
	}
}

// emit returns the number of self times since the previous op.
func (t *selves) emit() int {
	n := len(t.list) - t.fresh
	t.fresh = len(t.list)
	t.most = t.fresh + leastSelves
	return n
}

// pass moves on to an op that is processed.
func (t *selves) pass(n int) { t.passed += n }

// trim drops self times that no hold needs, and adds up those between the beginnings of holds.
func (th *thread) trim(a *adder) {
	t := &th.selves
	if t.passed < t.kept {
		return
	}
	to, from := 0, t.passed
	for _, h := range th.holds {
		from = min(from, h.since)
	}
	for from < t.passed {
		next := t.passed
		for _, h := range th.holds {
			if h.since > from {
				next = min(next, h.since)
			}
		}
		n := copy(t.list[to:], a.sum(t.list[from:next]))
		for _, h := range th.holds {
			if h.since == from {
				h.since = -to - 1 // until all are moved
			}
		}
		to, from = to+n, next
	}
	for _, h := range th.holds {
		if h.since < 0 {
			h.since = -h.since - 1
		} else {
			h.since = to
		}
	}
	t.list = t.list[:to+copy(t.list[to:], t.list[t.passed:])]
	t.fresh -= t.passed - to
	t.most -= t.passed - to
	t.passed, t.kept = to, 2*to+leastSelves
}

// adder adds up self times. Its zero value is ready.
type adder struct {
	small []uint32 // by ID: 1 + index in the list at hand; 0 between lists
	large map[reader.FuncID]uint32
	sums  []selfTime
}

// since returns the sums of the self times since a hold began, until the next call.
func (a *adder) since(t *selves, from int) []selfTime {
	a.sums = append(a.sums[:0], t.list[from:t.passed]...)
	return a.sum(a.sums)
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
