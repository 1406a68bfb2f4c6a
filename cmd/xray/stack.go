package main

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/stack"
	"github.com/xray-tools/xray/symbolize"
)

// stacking is one run of stack.
type stacking struct {
	inputs    session.Inputs
	output    session.Output
	metric    string
	title     string
	top       int
	inclusive bool
	perThread bool
	diffBase  []string
}

func (a *app) stackCommand() *cobra.Command {
	c := stacking{
		inputs: session.Inputs{Scope: session.ByCall, Templates: true, Summaries: true, PathMemory: true},
		metric: "time", top: 10,
	}
	return a.overTraces(command{
		use:   "stack TRACE...",
		short: "Show time by call path, and draw flame graphs",
		long: `Aggregate calls by call path. Text output lists the heaviest call paths. CSV and JSON
list all of them. HTML adds a flame graph.

Folded output has self values, which flame graph tools add up. With --total, values
include callees. A call that is open when the trace ends counts up to that point.`,
		example: `  xray stack -m ./server trace.xray
  xray stack -m ./server --format folded trace.xray | flamegraph.pl > flame.svg
  xray stack -m ./server --format svg -o flame.svg trace.xray
  xray stack -m ./server --metric blocked --format svg -o off-cpu.svg trace.xray
  xray stack -m ./server --format svg --diff-base before.xray -o diff.svg after.xray`,
		inputs:   &c.inputs,
		output:   &c.output,
		formats:  []string{"folded", "svg"},
		synonyms: map[string]string{"human": "text", "flame": "folded"},
		alias:    map[string]string{"stack-format": "format", "aggregation-type": "metric", "by": "metric", "per-thread-stacks": "per-thread"},
		flags:    c.addFlags,
		check:    c.check,
		run:      c.run,
	})
}

func (c *stacking) addFlags(f *pflag.FlagSet) {
	cli.AddChoice(f, &c.metric, "metric", "", "show `METRIC` per call path", append(stack.Metrics(), "wall")...)
	f.StringArrayVar(&c.diffBase, "diff-base", nil,
		"svg: color frames by how much they differ from those in `TRACE`; repeatable")
	cli.AddTitle(f, &c.title, "svg: ")
	cli.AddTop(f, &c.top, "stacks")
	f.BoolVar(&c.inclusive, "total", false, "folded: inclusive values instead of self values")
	cli.AddPerThread(f, &c.perThread, "")
	cli.Ignored(f, "aggregate-threads", "")
	f.BoolFunc("all-stacks", "", func(string) error {
		c.top = 0
		return nil
	})
	_ = f.MarkHidden("all-stacks")
}

func (c *stacking) check() error {
	if c.inclusive && c.output.Format != "folded" {
		return cli.Usagef("--total requires --format folded: other formats show both values")
	}
	if len(c.diffBase) > 0 && (c.output.Format != "svg" || c.perThread) {
		return cli.Usagef("--diff-base requires --format svg, without --per-thread")
	}
	return nil
}

func (c *stacking) run(s *session.Session) error {
	if c.metric == "wall" {
		c.metric = stack.Time.String()
	}
	metric, err := stack.ParseMetric(c.metric)
	if err != nil {
		return err
	}
	if why := s.NoOffCPU(); metric.NeedsOffCPU() && why != "" {
		return cli.Usagef("--metric %v: %s", metric, why)
	}
	if len(c.diffBase) > 0 {
		s.MaxPaths = (s.MaxPaths + 1) / 2 // for each of two trees
	}
	found, run, err := stacks(s, c.perThread, metric == stack.Blocked)
	if err != nil {
		return err
	}
	switch c.output.Format {
	case "folded":
		return s.WriteForm(c.output.Path, run, func(w io.Writer) error {
			return found.WriteFolded(w, s.FullNames(), stack.FoldedView{Metric: metric, Inclusive: c.inclusive})
		})
	case "svg":
		view := stack.SVGView{Metric: metric, Title: c.title, Notes: s.Caveats(run)}
		if len(c.diffBase) > 0 {
			base, err := c.inputs.Open(s.Streams, s.Command, c.diffBase...)
			if err != nil {
				return err
			}
			defer base.Close()
			base.MaxPaths = s.MaxPaths
			var baseRun *session.Run
			if view.Base, baseRun, err = stacks(base, false, false); err != nil {
				return err
			}
			view.BaseNames = base.Names
			defer base.Summary(baseRun.Stats)
			defer base.TellCaveats("in the base: ", baseRun)
			for _, note := range base.Caveats(baseRun) {
				view.Notes = append(view.Notes, "In the base: "+note)
			}
		}
		return s.WriteForm(c.output.Path, run, func(w io.Writer) error { return found.WriteSVG(w, symbolize.WithOthers(s.FullNames()), view) })
	}
	return s.Report(&c.output, run, func(names symbolize.Names) []report.Node {
		return found.Body(names, stack.View{Metric: metric, Top: c.top})
	})
}

// stacks sums up the calls in scope by path. If joined, blocked paths continue with the path of
// the waker. That needs scheduler events, and all calls in scope.
func stacks(s *session.Session, perThread, joined bool) (*stack.Report, *session.Run, error) {
	if err := s.NeedCalls("per-thread", perThread); err != nil {
		return nil, nil, err
	}
	off := s.OffCPU()
	opts := stack.Options{PerThread: perThread, OffCPU: off != nil, ThreadName: s.Trace.ThreadName}
	if f := &s.Scope; joined && off != nil && !perThread && f.From == 0 && f.To == 0 && f.Func == nil && f.MinDuration == 0 && f.MaxDepth == 0 {
		opts.Wakers = sched.NewLogs(s.Trace)
	}
	sink, run, err := session.Analyze(s, s.Scope, calls.Options{Paths: true, OffCPU: off}, func() *stack.Analysis {
		return stack.New(opts)
	})
	if err != nil {
		return nil, run, err
	}
	return sink.Report(s.Clock), run, nil
}
