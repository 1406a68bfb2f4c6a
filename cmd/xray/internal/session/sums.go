package session

import (
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// CountSink is an analysis that takes calls that were only counted.
type CountSink interface {
	Count(th reader.Thread, index int, fn reader.FuncID, calls uint64)
}

// PrunedSink is an analysis that takes sums of calls that the recorder dropped.
type PrunedSink interface {
	Pruned(th reader.Thread, index int, fn reader.FuncID, calls, ticks uint64)
}

// feed gives an analysis what traces have besides records of calls, if it takes that: see [CountSink],
// [PrunedSink] and [BudgetSink]. An analysis for which sums say nothing says so by
// OnlyCalls.
func (s *Session) feed(scope Scope, run *Run, sink any) (err error) {
	if c, ok := sink.(CountSink); ok {
		err = s.addCounters(s.Scope, run, c) // the pass may choose more functions than the report shows
	}
	if o, ok := sink.(interface{ OnlyCalls() bool }); ok && o.OnlyCalls() {
		return err
	}
	if p, ok := sink.(PrunedSink); ok && err == nil {
		err = s.addPruned(scope, run, p)
	}
	if b, ok := sink.(BudgetSink); ok && err == nil {
		run.Limited = s.addBudget(scope, run, b)
	}
	return err
}

// addCounters adds the calls in scope that were only counted. Each process counts as one more
// thread.
func (s *Session) addCounters(scope Scope, run *Run, sink CountSink) error {
	if s.summed != nil {
		for _, c := range s.summed.counts {
			if c.untimed > 0 {
				sink.Count(reader.Thread{}, run.Threads, c.fn, c.untimed)
				run.Calls += c.untimed
			}
		}
	}
	for i := range s.Trace.Files() {
		r := s.Trace.Recording(i)
		if r == nil || len(r.Counters) == 0 {
			continue
		}
		thread := reader.Thread{File: int32(i), Process: r.Process.PID}
		for _, c := range r.Counters {
			if fn, ok := s.counted(scope, c.Func); ok {
				sink.Count(thread, run.Threads, fn, c.Calls)
				run.Calls += c.Calls
			}
		}
		run.Threads++
	}
	return calls.CheckMemory(sink, s.TableMemory)
}

// addPruned adds the sums of the calls that recorders dropped. Each process counts as one more
// thread. The sums cover all threads and the whole recording. So addPruned adds nothing if the
// scope selects by anything other than function, or if the trace has only the end of the
// recording.
func (s *Session) addPruned(scope Scope, run *Run, sink PrunedSink) error {
	if scope.From > 0 || scope.To > 0 || scope.Thread != nil || scope.MinDuration > 0 || scope.MaxDepth > 0 {
		return nil
	}
	if s.summed != nil {
		for _, c := range s.summed.counts {
			if c.pruned > 0 {
				sink.Pruned(reader.Thread{}, run.Threads, c.fn, c.pruned, c.prunedTime)
				run.Calls += c.pruned
			}
		}
	}
	for i := range s.Trace.Files() {
		r := s.Trace.Recording(i)
		if r == nil || len(r.Pruned.Functions) == 0 || r.IsEnd() {
			continue
		}
		thread := reader.Thread{File: int32(i), Process: r.Process.PID}
		for _, p := range r.Pruned.Functions {
			if fn, ok := s.counted(scope, p.Func); ok {
				sink.Pruned(thread, run.Threads, fn, p.Calls, p.Ticks)
				run.Calls += p.Calls
			}
		}
		run.Threads++
		run.PrunedFiles++
	}
	return calls.CheckMemory(sink, s.TableMemory)
}

// BudgetSink is an analysis of calls that recordings within a budget left out.
type BudgetSink interface {
	Unrecorded(th reader.Thread, index int, of *reader.BudgetFunction, fn reader.FuncID)
}

// Limited reports whether a recording had a budget.
func (s *Session) Limited() bool {
	return s.Trace != nil && slices.ContainsFunc(s.recordings(), func(r *reader.Recording) bool { return r.Budget.Limited() })
}

func (s *Session) recordings() (list []*reader.Recording) {
	for i := range s.Trace.Files() {
		if r := s.Trace.Recording(i); r != nil {
			list = append(list, r)
		}
	}
	return list
}

// addBudget adds the counts and estimates of calls that recordings within a budget left out. Each
// process counts as one more thread. It reports whether it added any: the numbers must be known, and
// the scope must select by nothing other than function, as for addPruned.
func (s *Session) addBudget(scope Scope, run *Run, sink BudgetSink) bool {
	unknown := func(r *reader.Recording) bool { return r.Budget.Limited() && !r.Budget.Known() }
	if !s.Limited() || slices.ContainsFunc(s.recordings(), unknown) || scope.From > 0 || scope.To > 0 || scope.Thread != nil || scope.MinDuration > 0 || scope.MaxDepth > 0 {
		return false
	}
	added := false
	for i := range s.Trace.Files() {
		r := s.Trace.Recording(i)
		if r == nil || !r.Budget.Limited() || r.IsEnd() {
			continue
		}
		thread := reader.Thread{File: int32(i), Process: r.Process.PID}
		for k := range r.Budget.Functions {
			if of := &r.Budget.Functions[k]; of.Counted+of.Estimated+of.Error > 0 {
				if fn, ok := s.counted(scope, of.Func); ok {
					sink.Unrecorded(thread, run.Threads, of, fn)
				}
			}
		}
		run.Threads++
		added = true
	}
	return added
}

// counted returns the function that a sum of calls counts for, if it is in scope.
func (s *Session) counted(scope Scope, fn reader.FuncID) (reader.FuncID, bool) {
	if s.Alias != nil {
		fn = s.Alias(fn)
	}
	return fn, scope.Func == nil || scope.Func(fn)
}
