package session

import (
	"github.com/xray-tools/xray/reader/calls"
)

// feed gives an analysis what traces have besides records of calls, if it takes that: see
// [calls.CountSink], [calls.PrunedSink] and [calls.BudgetSink]. An analysis for which sums say nothing
// says so by OnlyCalls.
func (s *Session) feed(scope Scope, run *Run, sink any) (err error) {
	if c, ok := sink.(calls.CountSink); ok {
		if s.summed != nil {
			s.summed.feedCounts(c, run.Stats)
		}
		// The pass may choose more functions than the report shows.
		calls.FeedCounts(s.Trace, calls.Options{Filter: s.Scope.Filter, Alias: s.Alias}, c, run.Stats)
		err = calls.CheckMemory(sink, s.TableMemory)
	}
	if o, ok := sink.(interface{ OnlyCalls() bool }); ok && o.OnlyCalls() {
		return err
	}
	if scope.From > 0 || scope.To > 0 || scope.Thread != nil || scope.MinDuration > 0 || scope.MaxDepth > 0 {
		return err // what follows covers all threads, times and depths
	}
	opts := calls.Options{Filter: scope.Filter, Alias: s.Alias}
	if p, ok := sink.(calls.PrunedSink); ok && err == nil {
		if s.summed != nil {
			s.summed.feedPruned(p, run.Stats)
		}
		run.PrunedFiles += calls.FeedPruned(s.Trace, opts, p, run.Stats)
		err = calls.CheckMemory(sink, s.TableMemory)
	}
	if b, ok := sink.(calls.BudgetSink); ok && err == nil {
		run.Limited = calls.FeedUnrecorded(s.Trace, opts, b, run.Stats)
	}
	return err
}

// Limited reports whether a recording had a budget.
func (s *Session) Limited() bool {
	for _, r := range s.Trace.Recordings() {
		if r.Budget.Limited() {
			return true
		}
	}
	return false
}
