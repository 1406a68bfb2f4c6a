package calls

import "github.com/xray-tools/xray/reader"

// A recorder with a budget switches functions off. It records the ends of their open calls for a
// while, and then gives these calls up. How long they went on is unknown. They went on at least until the last
// of the calls inside them ended that were open at that time.

// recorded is a Source that knows what its recorders left out.
type recorded interface {
	Files() []string
	Recording(file int) *reader.Recording
}

// cuts are the moments at which a recorder gave up open calls.
type cuts struct {
	all   []reader.BudgetChange    // in order of time
	first map[reader.FuncID]uint64 // when, for each function
}

// had reports whether calls of a function were given up before tsc.
func (c cuts) had(fn reader.FuncID, tsc uint64) bool {
	first, ok := c.first[fn]
	return ok && first <= tsc
}

// cutsOf returns when the recorders of a source gave up open calls, by file. It is nil if no
// recording had a budget.
func cutsOf(src Source) map[int32]cuts {
	if in, ok := src.(inOrder); ok {
		src = in.trace
	}
	t, ok := src.(recorded)
	if !ok {
		return nil
	}
	var of map[int32]cuts
	for i := range t.Files() {
		r := t.Recording(i)
		if r == nil || !r.Budget.Limited() {
			continue
		}
		if of == nil {
			of = make(map[int32]cuts)
		}
		c := cuts{first: make(map[reader.FuncID]uint64)}
		for _, change := range r.Budget.Changes {
			if change.To != reader.FunctionCut {
				continue
			}
			c.all = append(c.all, change)
			if _, ok := c.first[change.Func]; !ok {
				c.first[change.Func] = change.TSC
			}
		}
		of[int32(i)] = c
	}
	return of
}

// cut gives up the calls that the recorder gave up before tsc.
func (s *shard) cut(th *thread, tsc uint64) error {
	for len(th.cuts) > 0 && th.cuts[0].TSC <= tsc {
		fn := th.cuts[0].Func
		th.cuts = th.cuts[1:]
		if s.opts.Alias != nil {
			fn = s.opts.Alias(fn)
		}
		for depth := s.stack.depth; depth > 0; depth-- {
			if f := s.stack.at(depth); f.fn() == fn {
				f.key |= cut
			}
		}
		if err := s.popCut(th); err != nil {
			return err
		}
	}
	return s.popCut(th)
}

// popCut ends the innermost calls that were given up.
func (s *shard) popCut(th *thread) error {
	for s.stack.depth > 0 && s.stack.top().key&cut != 0 {
		if err := s.popTo(th, s.stack.depth-1, Truncated); err != nil {
			return err
		}
	}
	return nil
}
