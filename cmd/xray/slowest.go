package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/slowest"
)

func (a *app) slowestCommand() *cobra.Command {
	var (
		flags     rootFlags
		top       = 5
		perThread bool
		minShare  = "1%"
		format    = "text"
		output    string
	)
	cmd := &cobra.Command{
		Use:   "slowest TRACE... --root REGEXP",
		Short: "Show the slowest calls of a function, each with its tree",
		Long: `slowest shows the slowest outermost calls of the functions that --root names,
each with its thread, the time since the trace's start and the tree of what it
called, beside what an ordinary call does on average: ordinary are those from the
first to the third quartile. Calls that the trace's end cut off are left out.

Each is named by its place among all by time, as in handleRequest#4711, which is
what xray slice --around takes.`,
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
			if view.Base, err = s.start(); err != nil {
				return err
			}
			found, stats, err := s.searchSlowest(opts)
			if err != nil {
				return err
			}
			trees, _, err := analyse(s, calls.Options{Paths: true}, func() *slowest.Trees { return slowest.NewTrees(found) })
			if err != nil {
				return err
			}
			report := trees.Report(s.clock)
			view.ThreadName, view.Files = s.trace.ThreadName, s.trace.Files()
			err = a.writeOutput(output, func(w io.Writer) error {
				if format == "json" {
					return report.WriteJSON(w, s.names, view)
				}
				return report.WriteText(w, s.names, view)
			})
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.add(f)
	addCount(f, &top, "top", "n", 1, "how many calls to show")
	f.BoolVar(&perThread, "per-thread", false, "show as many of each thread")
	f.StringVar(&minShare, "min-share", minShare, "text: leave out paths with less than `PERCENT` of the call's time")
	addChoice(f, &format, "format", "f", "what to write", "text", "json")
	addOutput(f, &output)
	spellings(f, map[string]string{"func": "root"})
	return cmd
}

// parseShare reads a percentage, as a number from 0 to 1.
func parseShare(flag, s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return 0, usagef("--%s: %q is no percentage: write 1%% or 0.1%%", flag, s)
	}
	return v / 100, nil
}
