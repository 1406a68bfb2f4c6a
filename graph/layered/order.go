package layered

import (
	"cmp"
	"slices"
)

const (
	// sweeps is the number of passes that improve the order of ranks. Large drawings get
	// fewer passes, so that about orderWork items are visited.
	sweeps    = 24
	orderWork = 600_000
	// swapRounds limits the exchanges of neighbours of a rank in a sweep.
	swapRounds = 8
)

// order orders each rank so that few links cross.
func (l *layout) order() {
	l.firstOrder()
	best := l.copyRanks()
	fewest := l.crossings()
	rounds := min(sweeps, max(2, orderWork/(1+len(l.items))))
	for round := 0; round < rounds && fewest > 0; round++ {
		// Try both orders of items with equal medians.
		down, equal := round%2 == 0, round%4 >= 2
		for i := range l.ranks {
			if !down {
				i = len(l.ranks) - 1 - i
			}
			l.byMedian(i, down, equal)
		}
		for i := range l.ranks {
			l.swap(i, equal)
		}
		if n := l.crossings(); n < fewest {
			fewest = n
			best = l.copyRanks()
		}
	}
	l.ranks = best
	for i := range l.ranks {
		l.number(i)
	}
}

func (l *layout) copyRanks() [][]int32 {
	ranks := make([][]int32, len(l.ranks))
	for i, rank := range l.ranks {
		ranks[i] = slices.Clone(rank)
	}
	return ranks
}

// number sets the positions of the items of a rank.
func (l *layout) number(rank int) {
	for i, n := range l.ranks[rank] {
		l.items[n].pos = i
	}
}

// firstOrder fills the ranks in the order of a traversal from the top, so that connected
// items are side by side.
func (l *layout) firstOrder() {
	deepest := -1
	for i := range l.items {
		deepest = max(deepest, l.items[i].rank)
	}
	l.ranks = make([][]int32, deepest+1)
	seen := make([]bool, len(l.items))
	var stack []int32
	walk := func(root int32) {
		stack = append(stack[:0], root)
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[at] {
				continue
			}
			seen[at] = true
			x := &l.items[at]
			x.pos = len(l.ranks[x.rank])
			l.ranks[x.rank] = append(l.ranks[x.rank], at)
			for _, to := range slices.Backward(x.down) {
				stack = append(stack, to)
			}
		}
	}
	for i := range l.items {
		if len(l.items[i].up) == 0 {
			walk(int32(i))
		}
	}
}

// byMedian sorts a rank by the median position of the items' neighbours in the rank above
// or below. Items without neighbours keep their positions. Items with equal medians keep
// their order. If equal is set, their order is reversed.
func (l *layout) byMedian(rank int, above, equal bool) {
	type sorted struct {
		item   int32
		median float64
	}
	var move []sorted
	var slots []int // positions of the items that move
	var places []int
	for i, n := range l.ranks[rank] {
		places = l.placesOf(places[:0], n, above)
		if len(places) > 0 {
			move = append(move, sorted{n, median(places)})
			slots = append(slots, i)
		}
	}
	if equal {
		slices.Reverse(move)
	}
	slices.SortStableFunc(move, func(a, b sorted) int { return cmp.Compare(a.median, b.median) })
	for i, slot := range slots {
		l.ranks[rank][slot] = move[i].item
	}
	l.number(rank)
}

// placesOf appends the positions of an item's neighbours in the rank above or below, in
// ascending order.
func (l *layout) placesOf(to []int, n int32, above bool) []int {
	neighbours := l.items[n].down
	if above {
		neighbours = l.items[n].up
	}
	start := len(to)
	for _, other := range neighbours {
		to = append(to, l.items[other].pos)
	}
	slices.Sort(to[start:])
	return to
}

// median returns the median of positions. If their number is even, the median is weighted
// towards the side where they are denser.
func median(places []int) float64 {
	n := len(places)
	low, high := float64(places[(n-1)/2]), float64(places[n/2])
	if n <= 2 || n%2 == 1 {
		return (low + high) / 2
	}
	left, right := low-float64(places[0]), float64(places[n-1])-high
	if left+right == 0 {
		return (low + high) / 2
	}
	return (low*right + high*left) / (left + right)
}

// swap exchanges neighbours of a rank as long as that reduces crossings. If equal is set,
// it starts with exchanges that keep the number of crossings.
func (l *layout) swap(rank int, equal bool) {
	items := l.ranks[rank]
	if len(items) < 2 {
		return
	}
	// The positions in the neighbouring ranks do not change here.
	up, down := make([][]int, len(items)), make([][]int, len(items))
	var all []int
	for i, n := range items {
		start := len(all)
		all = l.placesOf(all, n, true)
		middle := len(all)
		all = l.placesOf(all, n, false)
		up[i], down[i] = all[start:middle:middle], all[middle:len(all):len(all)]
	}
	for round := range swapRounds {
		better := false
		for i := range len(items) - 1 {
			now := crossingPairs(up[i], up[i+1]) + crossingPairs(down[i], down[i+1])
			if now == 0 {
				continue
			}
			then := crossingPairs(up[i+1], up[i]) + crossingPairs(down[i+1], down[i])
			if then < now || then == now && equal && round == 0 {
				items[i], items[i+1] = items[i+1], items[i]
				up[i], up[i+1] = up[i+1], up[i]
				down[i], down[i+1] = down[i+1], down[i]
				better = true
			}
		}
		if !better {
			break
		}
	}
	l.number(rank)
}

// crossingPairs returns how many links of an item cross those of the next one. left and
// right are the positions of the links' other ends, in ascending order.
func crossingPairs(left, right []int) int {
	n, behind := 0, 0
	for _, place := range left {
		for behind < len(right) && right[behind] < place {
			behind++
		}
		n += behind
	}
	return n
}

// crossings returns the number of pairs of links that cross.
func (l *layout) crossings() int {
	n := 0
	var ends, tree []int
	for i, rank := range l.ranks[:max(0, len(l.ranks)-1)] {
		// Collect the positions of the ends of links, ordered by their starts. Each link
		// crosses the earlier ones that end further right.
		ends = ends[:0]
		for _, at := range rank {
			ends = l.placesOf(ends, at, false)
		}
		tree = append(tree[:0], make([]int, len(l.ranks[i+1])+1)...)
		for seen, end := range ends {
			notRight := 0
			for k := end + 1; k > 0; k &= k - 1 {
				notRight += tree[k]
			}
			n += seen - notRight
			for k := end + 1; k < len(tree); k += k & -k {
				tree[k]++
			}
		}
	}
	return n
}
