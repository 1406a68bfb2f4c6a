package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/stack"
)

func (a *app) stackCommand() *cobra.Command {
	var (
		flags     traceFlags
		format    = "text"
		metric    = "time"
		title     string
		output    string
		top       = 10
		all       bool
		inclusive bool
		perThread bool
	)
	cmd := &cobra.Command{
		Use:   "stack TRACE...",
		Short: "Say where time went by call path; draw flame graphs",
		Long: `stack adds calls up by the path of calls that leads to them.

Folded stacks hold self values, which is what flame graph tools add up. With
--total they hold what a path and all that it calls took. Calls that are still
open when the trace ends count up to its end.`,
		Example: `  xray stack -m ./server trace.xray
  xray stack -m ./server --format folded trace.xray | flamegraph.pl > flame.svg
  xray stack -m ./server --format svg -o flame.svg trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if inclusive && format != "folded" {
				return usagef("--total is for --format folded: the others show both values")
			}
			m, err := stack.ParseMetric(metric)
			if err != nil {
				return usageError{err}
			}
			s, err := a.open(cmd, &flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			sink, stats, err := analyse(s, calls.Options{Paths: true}, func() *stack.Analysis {
				return stack.New(stack.Options{PerThread: perThread, ThreadName: s.trace.ThreadName})
			})
			if err != nil {
				return err
			}
			report := sink.Report(s.clock)
			if all {
				top = -1
			}
			err = a.writeOutput(output, func(w io.Writer) error {
				switch format {
				case "folded":
					return report.WriteFolded(w, s.names, stack.FoldedView{Metric: m, Inclusive: inclusive})
				case "svg":
					return report.WriteSVG(w, s.names, stack.SVGView{Metric: m, Title: title})
				case "json":
					return report.WriteJSON(w, s.names)
				}
				return report.WriteText(w, s.names, stack.TextView{Metric: m, Top: top})
			})
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.add(f)
	addChoice(f, &format, "format", "f", "what to write", "text", "folded", "svg", "json").
		synonyms = map[string]string{"human": "text", "flame": "folded"}
	addChoice(f, &metric, "metric", "", "what stacks are weighed by", "time", "count")
	f.StringVar(&title, "title", "", "title of an SVG flame graph")
	addCount(f, &top, "top", "n", 1, "text: how many stacks to list")
	f.BoolVar(&all, "all-stacks", false, "text: list all stacks")
	f.BoolVar(&inclusive, "total", false, "folded: inclusive values instead of self values")
	f.BoolVar(&perThread, "per-thread", false, "keep threads apart")
	addOutput(f, &output)
	addKeepGoing(f)
	ignored(f, "aggregate-threads", "")
	spellings(f, map[string]string{
		"stack-format": "format", "aggregation-type": "metric", "per-thread-stacks": "per-thread", "all": "all-stacks",
	})
	return cmd
}
