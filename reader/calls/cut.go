package calls

import (
	"slices"
	"sync"

	"github.com/xray-tools/xray/reader"
)

// A recorder with a budget switches functions off. It records the ends of their open calls for a
// while, and then gives these calls up. Their durations are unknown. Each lasted at least until
// the last call inside it ended that was open at that time.

// recorded is a Source that knows what its recorders left out.
type recorded interface {
	Files() []string
	Recording(file int) *reader.Recording
}

// cuts are the moments at which a recorder gave up open calls.
type cuts struct {
	all   []reader.BudgetChange    // in order of time
	first map[reader.FuncID]uint64 // when, for each function
	// partly are the functions with missing calls, if they are known.
	partly  []reader.BudgetFunction
	unknown bool
	certain *sync.Map // by function: whether its tail calls are certain
}

// cutsByFile are those of the recordings that had a budget.
type cutsByFile map[int32]cuts

// had reports whether calls of a function were given up before tsc.
func (c cuts) had(fn reader.FuncID, tsc uint64) bool {
	first, ok := c.first[fn]
	return ok && first <= tsc
}

// cutsOf returns when the recorders of a source gave up open calls, by file. It is nil if no
// recording had a budget.
func cutsOf(src Source) cutsByFile {
	if in, ok := src.(inOrder); ok {
		src = in.trace
	}
	t, ok := src.(recorded)
	if !ok {
		return nil
	}
	var of cutsByFile
	for i := range t.Files() {
		r := t.Recording(i)
		if r == nil || !r.Budget.Limited() {
			continue
		}
		if of == nil {
			of = make(cutsByFile)
		}
		c := cuts{first: make(map[reader.FuncID]uint64), partly: r.Budget.Functions, unknown: !r.Budget.Known(), certain: new(sync.Map)}
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

// isCertain reports whether a tail call of a function continues in the next call of its thread, if that may be
// its target. Calls may be missing between two recorded calls. So no calls may be missing, in the same file, of
// any function that the tail call may lead to.
func (of cutsByFile) isCertain(file int32, from reader.FuncID, continues func(from, to reader.FuncID) bool) bool {
	c, ok := of[file]
	if !ok {
		return true
	}
	if is, ok := c.certain.Load(from); ok {
		return is.(bool)
	}
	is := !c.unknown && !slices.ContainsFunc(c.partly, func(f reader.BudgetFunction) bool { return continues(from, f.Func) })
	c.certain.Store(from, is)
	return is
}

// cut gives up the calls that the recorder gave up before tsc.
func (s *shard) cut(th *thread, tsc uint64) error {
	for len(th.cuts) > 0 && th.cuts[0].TSC <= tsc {
		if err := s.stopAwaiting(th); err != nil {
			return err
		}
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
