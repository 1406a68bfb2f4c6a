package calls

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Pile describes nested calls of a function. The zero value has none.
type Pile struct {
	Calls uint64 // at least 8
	Func  reader.FuncID
}

// leastPile is how many nested calls of a function make a pile. Fewer occur wherever exits
// are missing, and hardly distort a report.
const leastPile = 8

// take keeps the larger pile, or of equal ones that with the lower ID, in any order.
func (p *Pile) take(o Pile) {
	if cmp.Or(cmp.Compare(o.Calls, p.Calls), cmp.Compare(p.Func, o.Func)) > 0 {
		*p = o
	}
}

// pile records the calls deeper than depth, which are about to end without an exit record.
// It takes as much time as ending them.
func (s *shard) pile(depth int, to *Pile) {
	if s.stack.depth-depth < leastPile {
		return
	}
	fns := s.piled[:0]
	for d := depth + 1; d <= s.stack.depth; d++ {
		fns = append(fns, s.stack.at(d).fn())
	}
	s.piled = fns
	slices.Sort(fns)
	for len(fns) > 0 {
		n := 1
		for n < len(fns) && fns[n] == fns[0] {
			n++
		}
		if n >= leastPile {
			to.take(Pile{uint64(n), fns[0]})
		}
		fns = fns[n:]
	}
}
