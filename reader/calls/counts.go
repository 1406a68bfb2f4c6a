package calls

import "github.com/xray-tools/xray/reader"

// CountSink is an analysis that takes calls that were only counted.
type CountSink interface {
	Count(th reader.Thread, index int, fn reader.FuncID, calls uint64)
}

// PrunedSink is an analysis that takes sums of calls that the recorder dropped. Times are in ticks.
type PrunedSink interface {
	Pruned(th reader.Thread, index int, fn reader.FuncID, calls, ticks uint64)
}

// BudgetSink is an analysis of calls that recordings within a budget left out. fn is the function
// that of counts for.
type BudgetSink interface {
	Unrecorded(th reader.Thread, index int, of *reader.BudgetFunction, fn reader.FuncID)
}

// FeedCounts feeds a sink the calls that were only counted, and adds them to the statistics of a
// previous [Run]. Each process counts as one more thread. Of the options, Alias and the function of
// the filter apply.
func FeedCounts(t *reader.Trace, opts Options, sink CountSink, stats *Stats) {
	feedProcesses(t, stats, func(r *reader.Recording) bool { return len(r.Counters) > 0 }, func(th reader.Thread, r *reader.Recording) {
		for _, c := range r.Counters {
			if fn, ok := opts.counted(c.Func); ok {
				sink.Count(th, stats.Threads, fn, c.Calls)
				stats.Calls += c.Calls
			}
		}
	})
}

// FeedPruned is [FeedCounts] for the sums of calls that recorders dropped. The sums cover all
// threads and the whole recording, so those of a trace with only the end of the recording do not count.
// It returns the number of files that have sums.
func FeedPruned(t *reader.Trace, opts Options, sink PrunedSink, stats *Stats) (files int) {
	return feedProcesses(t, stats, func(r *reader.Recording) bool { return len(r.Pruned.Functions) > 0 && !r.IsEnd() }, func(th reader.Thread, r *reader.Recording) {
		for _, p := range r.Pruned.Functions {
			if fn, ok := opts.counted(p.Func); ok {
				sink.Pruned(th, stats.Threads, fn, p.Calls, p.Ticks)
				stats.Calls += p.Calls
			}
		}
	})
}

// FeedUnrecorded is [FeedCounts] for the counts and estimates of calls that recordings within a budget
// left out. It adds no calls to the statistics. It reports whether it fed any: all recordings
// must know these numbers.
func FeedUnrecorded(t *reader.Trace, opts Options, sink BudgetSink, stats *Stats) bool {
	for _, r := range t.Recordings() {
		if r.Budget.Limited() && !r.Budget.Known() {
			return false
		}
	}
	return 0 < feedProcesses(t, stats, func(r *reader.Recording) bool { return r.Budget.Limited() && !r.IsEnd() }, func(th reader.Thread, r *reader.Recording) {
		for k := range r.Budget.Functions {
			of := &r.Budget.Functions[k]
			if fn, ok := opts.counted(of.Func); ok && of.Counted+of.Estimated+of.Error > 0 {
				sink.Unrecorded(th, stats.Threads, of, fn)
			}
		}
	})
}

// feedProcesses calls feed for each process whose recording has something, and returns their number.
func feedProcesses(t *reader.Trace, stats *Stats, has func(*reader.Recording) bool, feed func(reader.Thread, *reader.Recording)) (n int) {
	for i, r := range t.Recordings() {
		if has(r) {
			feed(reader.Thread{File: int32(i), Process: r.Process.PID}, r)
			stats.Threads++
			n++
		}
	}
	return n
}

// counted returns the function that a sum of calls counts for, if it is chosen.
func (o *Options) counted(fn reader.FuncID) (reader.FuncID, bool) {
	if o.Alias != nil {
		fn = o.Alias(fn)
	}
	return fn, o.Filter.Func == nil || o.Filter.Func(fn)
}
