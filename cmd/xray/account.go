package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// addCounters adds the functions whose calls were only counted, each process as one
// more thread.
func (s *session) addCounters(sink *account.Analysis, stats *calls.Stats) {
	for i := range s.trace.Files() {
		r := s.trace.Recording(i)
		if r == nil || len(r.Counters) == 0 {
			continue
		}
		thread := reader.Thread{File: int32(i), Process: r.Process.PID}
		for _, c := range r.Counters {
			if s.alias != nil {
				c.Func = s.alias(c.Func)
			}
			if s.filter.Func != nil && !s.filter.Func(c.Func) {
				continue
			}
			sink.Count(thread, stats.Threads, c.Func, c.Calls)
			stats.Calls += c.Calls
		}
		stats.Threads++
	}
}

// addPruned adds the sums of calls that recorders left out, each process as one more thread,
// where the choice of calls is one that sums can follow, and they are of the same time as
// the calls.
func (s *session) addPruned(sink prunedSink, stats *calls.Stats) error {
	f := &s.filter
	if f.From > 0 || f.To > 0 || f.Thread != nil || f.MinDuration > 0 || f.MaxDepth > 0 {
		return nil
	}
	for i := range s.trace.Files() {
		r := s.trace.Recording(i)
		if r == nil || len(r.Pruned.Functions) == 0 || isEnd(r) {
			continue
		}
		thread := reader.Thread{File: int32(i), Process: r.Process.PID}
		for _, p := range r.Pruned.Functions {
			if s.alias != nil {
				p.Func = s.alias(p.Func)
			}
			if f.Func == nil || f.Func(p.Func) {
				sink.Pruned(thread, stats.Threads, p.Func, p.Calls, p.Ticks)
				stats.Calls += p.Calls
			}
		}
		stats.Threads++
		s.prunedAdded++
	}
	return nil
}

// prunedSink is an analysis that counts calls which the recorder dropped.
type prunedSink interface {
	Pruned(th reader.Thread, index int, fn reader.FuncID, n, ticks uint64)
}

// isEnd reports whether a trace has only the end of the calls that were recorded, as those
// of rings have, while its sums of pruned calls are of all of the time.
func isEnd(r *reader.Recording) bool {
	return slices.ContainsFunc(r.Threads, func(t reader.ThreadInfo) bool { return t.Overwritten > 0 })
}

func (a *app) accountCommand() *cobra.Command {
	var (
		flags traceFlags
		match matchFlags
		opts  account.Options
		view  account.View
		out   reportFlags
		sort  = "self"
		order string
		top   int
		cost  costFlags
	)
	cmd := &cobra.Command{
		Use:   "account TRACE...",
		Short: "Show per-function call counts and latency",
		Long: `Show for each function the number of calls, the self time and its share of all
self time, the total time including callees, and quantiles of call durations.

Quantiles are exact while a function has few different durations. Approximate
quantiles are marked with ~.`,
		Example: `  xray account -m ./server trace.xray
  xray account -m ./server --sort p99 --top 20 --hist trace.xray
  xray account -m ./server --func '^kv::' --from 1s --to 2s trace.xray
  xray account -m ./server --format csv -o calls.csv trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			column, err := account.ParseColumn(sort)
			if err != nil {
				return usagef("--sort: %w", err)
			}
			descending := order == "dsc" || order == "" && column != account.ByID && column != account.ByName
			s, err := a.open(cmd, &flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			var costSource string
			if opts.Compensation, costSource, err = cost.compensation(s, opts.RecursiveOnly); err != nil {
				return err
			}
			sink, stats, err := analyse(s, calls.Options{Nested: true, Policy: match.policy()}, func() *account.Analysis {
				return account.New(opts)
			})
			if err != nil {
				return err
			}
			s.addCounters(sink, stats)
			if !opts.RecursiveOnly && opts.Compensation == nil {
				if err := s.addPruned(sink, stats); err != nil {
					return err
				}
			}
			found := sink.Report(s.clock.Frequency)
			found.CostSource = costSource
			if found.OnlyCounted() && !cmd.Flags().Changed("sort") {
				column = account.ByCount
			}
			found.Sort(column, descending, s.names)
			found.Top(top)
			err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.add(f)
	match.add(f)
	f.StringVarP(&sort, "sort", "s", "self", "order by `COLUMN`: "+strings.Join(account.Columns(), ", "))
	addChoice(f, &order, "order", "r", "ascending or descending; names and ids ascend by default, numbers descend", "asc", "dsc")
	addCount(f, &top, "top", "p", 0, "show only the first `N` functions")
	f.BoolVar(&view.Histogram, "hist", false, "show a histogram of the durations of each function")
	f.BoolVar(&view.Objects, "objects", false, "show the program or shared object of each function")
	f.BoolVar(&opts.PerThread, "per-thread", false, "show one row per function and thread")
	f.BoolVar(&opts.Exact, "exact", false, "never approximate quantiles; needs more memory")
	f.BoolVar(&opts.RecursiveOnly, "recursive-calls-only", false, "count only calls that are part of a recursion")
	f.BoolVar(&cost.compensate, "compensate", false, "subtract the cost of recording from self and total")
	cost.add(f)
	completeColumns(cmd, "sort", account.Columns(), false)
	out.add(f)
	addKeepGoing(f)
	spellings(f, map[string]string{"sortorder": "order"})
	return cmd
}
