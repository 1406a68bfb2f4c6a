package main

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/explain/slowest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) slowestCommand() *cobra.Command {
	var (
		flags     rootFlags
		which     lockFlags
		top       = 5
		perThread bool
		minShare  = "1%"
		out       reportFlags
	)
	cmd := &cobra.Command{
		Use:   "slowest TRACE... --root REGEXP",
		Short: "Show the slowest calls of a function and what they did",
		Long: `slowest shows the slowest outermost calls of the functions that --root selects. For
each call it shows the thread, the time since the start of the trace, and the tree of
calls that it made, next to the mean of usual calls. Usual calls are those from the
first to the third quartile. Calls that are open at the end of the trace do not count.

If a call waited for a lock, the tree shows who held the lock at that time. Lock
functions are recognized by name, as in xray locks.

The number of a call is its place among all calls of the function in the trace. Pass
it to xray slice --around, as in handleRequest#4711.`,
		Example: `  xray slowest -m ./server --root '^handleRequest' trace.xray
  xray slowest -m ./server --root '^handleRequest' --top 1 --format json trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			view := slowest.View{}
			var err error
			if view.MinShare, err = parseShare("min-share", minShare); err != nil {
				return err
			}
			s, opts, err := flags.open(a, cmd, args)
			if err != nil {
				return err
			}
			defer s.close()
			opts.Top, opts.PerThread = top, perThread
			if _, err = s.start(); err != nil {
				return err
			}
			found, _, err := s.searchSlowest(opts)
			if err != nil {
				return err
			}
			trees, stats, err := analyse(s, calls.Options{Paths: true, Roots: opts.Root}, func() *slowest.Trees { return slowest.NewTrees(found) })
			if err != nil {
				return err
			}
			slow := trees.Report(s.clock)
			if err := s.findHolders(slow, &which); err != nil {
				return err
			}
			err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node { return slow.Body(names, view) })
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.add(f)
	flags.paths.add(f)
	which.add(f)
	addCount(f, &top, "top", "n", 1, "show the `N` slowest calls")
	f.BoolVar(&perThread, "per-thread", false, "show the slowest calls of each thread")
	f.StringVar(&minShare, "min-share", minShare, "hide paths with less than `PERCENT` of the call's time; JSON has all")
	out.add(f)
	spellings(f, map[string]string{"func": "root", "min-depth-time": "min-share"})
	return cmd
}

// findHolders adds who held the locks that the slowest calls waited for, if they did.
func (s *session) findHolders(report *slowest.Report, which *lockFlags) error {
	functions, err := which.functions(s)
	if err != nil {
		return err
	}
	threads := make(map[reader.Thread]bool)
	opts := locks.Options{
		Function: functions, Clock: s.clock, From: math.MaxUint64, MaxPaths: (s.paths + lockPathCost - 1) / lockPathCost,
		Thread: func(t reader.Thread) bool { return threads[t] },
		Waited: func(w *locks.Wait) {
			var holders []slowest.Holder
			for _, h := range w.Holders {
				if n := len(h.Path); n > 0 {
					holders = append(holders, slowest.Holder{Func: h.Path[n-1], Ticks: h.Ticks})
				}
			}
			report.AddWait(w.Thread, w.Start, w.Ticks, w.Path, w.Func, holders)
		},
	}
	for i := range report.Slowest {
		slow := &report.Slowest[i]
		if slices.ContainsFunc(slow.Rows, func(r slowest.Row) bool { return functions(r.Func).Role == locks.Lock }) {
			threads[slow.Thread] = true
			opts.From, opts.To = min(opts.From, slow.Start), max(opts.To, slow.Start+slow.Duration+1)
		}
	}
	if len(threads) == 0 {
		return nil
	}
	stop := s.app.progress(s.name, s.trace)
	defer stop()
	_, _, err = locks.Analyze(s.trace, opts)
	return err
}

// parseShare reads a percentage, as a number from 0 to 1.
func parseShare(flag, s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return 0, usagef("--%s: %q is no percentage: write 1%% or 0.1%%", flag, s)
	}
	return v / 100, nil
}
