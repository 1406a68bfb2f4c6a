package main

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/account"
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
	byArg     string
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
	f.StringVar(&c.byArg, "by-arg", "", "divide call paths by a recorded argument or result: `FUNCTION: EXPRESSION`")
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
	divide, texts, err := c.divide(s)
	if err != nil {
		return err
	}
	found, run, err := stacks(s, c.perThread, metric == stack.Blocked, divide)
	if err != nil {
		return err
	}
	if divide != nil {
		s.Names = symbolize.WithValues(s.Names, texts)
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
			if view.Base, baseRun, err = stacks(base, false, false, nil); err != nil {
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

// divide returns how --by-arg divides paths, and the names of the values. It makes a pass over the trace.
func (c *stacking) divide(s *session.Session) (*stack.Divide, []string, error) {
	if c.byArg == "" {
		return nil, nil, nil
	}
	if len(c.diffBase) > 0 {
		return nil, nil, cli.Usagef("--by-arg cannot be used with --diff-base")
	}
	groups, chosen, err := valueGroups(s, "by-arg", c.byArg)
	if err != nil {
		return nil, nil, err
	}
	f := &s.Scope
	return &stack.Divide{
		By: chosen.Describe, Group: groups.Of, MaxPaths: s.MaxPaths,
		Keep: calls.Filter{Func: f.Func, MinDuration: f.MinDuration, MaxDepth: f.MaxDepth}.Keeper(),
	}, groups.Texts, nil
}

// valueGroups divides the calls in scope by the expression of a flag. It makes a pass over the trace.
func valueGroups(s *session.Session, flag, text string) (*account.Groups, *calls.Expressions, error) {
	if err := s.NeedCalls(flag, true); err != nil {
		return nil, nil, err
	}
	chosen, err := s.ChooseExpressions(flag, text)
	if err != nil {
		return nil, nil, err
	}
	s.Alias = nil // values are those of functions as they were recorded
	const most = 64
	scope := s.Scope
	scope.Func, scope.MinDuration, scope.MaxDepth = nil, 0, 0
	values, _, err := session.Analyze(s, scope, calls.Options{Nested: true}, func() *account.Values { return account.NewValues(chosen) })
	if err != nil {
		return nil, nil, err
	}
	return values.Groups(most), chosen, nil
}

// stacks sums up the calls in scope by path. If joined, blocked paths continue with the path of
// the waker. That needs scheduler events, and all calls in scope. Divide may be nil.
func stacks(s *session.Session, perThread, joined bool, divide *stack.Divide) (*stack.Report, *session.Run, error) {
	if err := s.NeedCalls("per-thread", perThread); err != nil {
		return nil, nil, err
	}
	off := s.OffCPU()
	opts := stack.Options{PerThread: perThread, OffCPU: off != nil, ThreadName: s.Trace.ThreadName}
	scope, how := s.Scope, calls.Options{Paths: true, OffCPU: off}
	if divide != nil {
		opts.Divide, how.Shards = divide, 1
		scope.Func, scope.MinDuration, scope.MaxDepth = nil, 0, 0
		if err := s.NeedCalls("by-arg", true); err != nil {
			return nil, nil, err
		}
	} else if f := &s.Scope; joined && off != nil && !perThread && f.From == 0 && f.To == 0 && f.Func == nil && f.MinDuration == 0 && f.MaxDepth == 0 {
		opts.Wakers = sched.NewLogs(s.Trace)
	}
	sink, run, err := session.Analyze(s, scope, how, func() *stack.Analysis { return stack.New(opts) })
	if err != nil {
		return nil, run, err
	}
	return sink.Report(s.Clock), run, nil
}
