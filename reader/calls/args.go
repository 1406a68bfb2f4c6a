package calls

import "sort"

// ArgsOf returns the logged arguments of call i of the batch, in order, or nil if it has
// none.
func (b *Batch) ArgsOf(i int) []Arg {
	if !b.Calls[i].Args {
		return nil
	}
	from := b.first(i, len(b.Args), func(k int) int { return b.Args[k].Call })
	to := from
	for to < len(b.Args) && b.Args[to].Call == i {
		to++
	}
	return b.Args[from:to]
}

// first returns the first k of n for which of(k), which ascends, is at least i. The calls of a trace often have
// about equally many arguments, so it begins near the place that they would then have, and widens the search.
func (b *Batch) first(i, n int, of func(k int) int) int {
	if n == 0 {
		return 0
	}
	low, high := 0, n // those below low are less than i, and those from high on are not
	if k := min(n-1, i*n/len(b.Calls)); of(k) < i {
		low = k + 1
		for step := 1; low+step <= n; step *= 2 {
			if k := low + step - 1; of(k) >= i {
				high = k
				break
			}
			low += step
		}
	} else {
		high = k
		for step := 1; high > 0; step *= 2 {
			k := max(0, high-step)
			if of(k) < i {
				low = k + 1
				break
			}
			high = k
		}
	}
	return low + sort.Search(high-low, func(k int) bool { return of(low+k) >= i })
}
