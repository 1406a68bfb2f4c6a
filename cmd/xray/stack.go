package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/stack"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) stackCommand() *cobra.Command {
	var (
		flags     traceFlags
		out       reportFlags
		metric    = "time"
		title     string
		top       = 10
		all       bool
		inclusive bool
		perThread bool
		diffBase  []string
	)
	cmd := &cobra.Command{
		Use:   "stack TRACE...",
		Short: "Show time by call path; draw flame graphs",
		Long: `Sum up calls by call path. Text lists the heaviest stacks. CSV and JSON have all of
them. HTML has a flame graph, too.

Folded stacks hold self values, which flame graph tools add up. With --total they
include callees. Calls that are still open when the trace ends count up to its end.`,
		Example: `  xray stack -m ./server trace.xray
  xray stack -m ./server --format folded trace.xray | flamegraph.pl > flame.svg
  xray stack -m ./server --format svg -o flame.svg trace.xray
  xray stack -m ./server --format svg --diff-base before.xray -o diff.svg after.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if inclusive && out.format != "folded" {
				return usagef("--total is for --format folded: the others show both values")
			}
			if len(diffBase) > 0 && (out.format != "svg" || perThread) {
				return usagef("--diff-base is for --format svg, without --per-thread")
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
			found, stats, err := s.stacks(perThread)
			if err != nil {
				return err
			}
			view := stack.SVGView{Metric: m, Title: title}
			if len(diffBase) > 0 {
				base, err := a.open(cmd, &flags, diffBase)
				if err != nil {
					return err
				}
				defer base.close()
				var baseStats *calls.Stats
				if view.Base, baseStats, err = base.stacks(false); err != nil {
					return err
				}
				view.BaseNames = base.names
				defer base.summary(baseStats)
				defer a.tellBase(base.caveats(baseStats))
			}
			if all {
				top = -1
			}
			switch out.format {
			case "folded":
				err = s.writeFile(out.output, stats, func(w io.Writer) error {
					return found.WriteFolded(w, s.names, stack.FoldedView{Metric: m, Inclusive: inclusive})
				})
			case "svg":
				err = s.writeFile(out.output, stats, func(w io.Writer) error { return found.WriteSVG(w, s.names, view) })
			default:
				err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node {
					return found.Body(names, stack.View{Metric: m, Top: top})
				})
			}
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.add(f)
	flags.paths.add(f)
	out.add(f, "folded", "svg").synonyms = map[string]string{"human": "text", "flame": "folded"}
	addChoice(f, &metric, "metric", "", "order stacks by time or by number of calls", "time", "count")
	f.StringArrayVar(&diffBase, "diff-base", nil,
		"svg: colour frames by how much more or less they are than in `TRACE`; repeatable")
	f.StringVar(&title, "title", "", "title of an SVG flame graph")
	addCount(f, &top, "top", "n", 1, "list the `N` heaviest stacks")
	f.BoolVar(&all, "all-stacks", false, "list all stacks")
	f.BoolVar(&inclusive, "total", false, "folded: inclusive values instead of self values")
	f.BoolVar(&perThread, "per-thread", false, "keep threads apart")
	addKeepGoing(f)
	ignored(f, "aggregate-threads", "")
	spellings(f, map[string]string{
		"stack-format": "format", "aggregation-type": "metric", "per-thread-stacks": "per-thread", "all": "all-stacks",
	})
	return cmd
}

// stacks adds the chosen calls up by path.
func (s *session) stacks(perThread bool) (*stack.Report, *calls.Stats, error) {
	sink, stats, err := analyse(s, calls.Options{Paths: true}, func() *stack.Analysis {
		return stack.New(stack.Options{PerThread: perThread, ThreadName: s.trace.ThreadName})
	})
	if err != nil {
		return nil, stats, err
	}
	return sink.Report(s.clock), stats, nil
}
