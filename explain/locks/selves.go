package locks

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// maxSelves is the number of functions whose self times are kept apart in a path.
const maxSelves = 64

// spend adds the self times of a hold. If there are very many functions, the heaviest are
// kept, and reader.Folded stands for all others, so that the sum stays the same.
func (p *pathSum) spend(selves map[reader.FuncID]uint64) {
	folded := uint64(0)
	list := make([]selfTime, 0, min(len(selves), maxSelves))
	for fn, ticks := range selves {
		s := selfTime{fn, ticks}
		if len(list) == maxSelves {
			// The first of the list is the lightest, independent of the order of the map.
			if compareWeights(s, list[0]) < 0 {
				folded += ticks
				continue
			}
			folded += list[0].ticks
			list = list[:copy(list, list[1:])]
		}
		at := len(list)
		if len(selves) > maxSelves {
			at, _ = slices.BinarySearchFunc(list, s, compareWeights)
		}
		list = slices.Insert(list, at, s)
	}
	if folded > 0 {
		list = append(list, selfTime{reader.Folded, folded})
	}
	p.self = fold(merge(p.self, list))
}

// merge merges lists, ordered by function.
func merge(a, b []selfTime) []selfTime {
	all := append(a, b...)
	slices.SortFunc(all, func(a, b selfTime) int { return cmp.Compare(a.fn, b.fn) })
	n := 0
	for _, s := range all {
		if n > 0 && all[n-1].fn == s.fn {
			all[n-1].ticks += s.ticks
			continue
		}
		all[n] = s
		n++
	}
	return all[:n]
}

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
