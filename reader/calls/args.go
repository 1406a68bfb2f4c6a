package calls

import "sort"

// ArgsOf returns the logged arguments of call i of the batch, in order, or nil if it has
// none.
func (b *Batch) ArgsOf(i int) []Arg {
	if !b.Calls[i].Args {
		return nil
	}
	from := sort.Search(len(b.Args), func(k int) bool { return b.Args[k].Call >= i })
	to := from
	for to < len(b.Args) && b.Args[to].Call == i {
		to++
	}
	return b.Args[from:to]
}
