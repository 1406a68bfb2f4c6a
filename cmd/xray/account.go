package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// accounting is one run of account.
type accounting struct {
	inputs session.Inputs
	output session.Output
	opts   account.Options
	view   account.View
	cost   costFlags
	sort   string // "" for the default
	order  string
	top    int
	by     string
}

func (a *app) accountCommand() *cobra.Command {
	c := accounting{inputs: session.Inputs{Scope: session.ByCall, Templates: true, Summaries: true, Siblings: true}}
	cmd := a.overTraces(command{
		use:   "account TRACE...",
		short: "Show per-function call counts and latency",
		long: `Show the number of calls of each function, its self time and share of all self time,
its total time including callees, and percentiles of its call durations.

Percentiles are exact for functions with few distinct durations. A ~ marks
approximate percentiles.`,
		example: `  xray account -m ./server trace.xray
  xray account -m ./server --sort p99 --top 20 --hist trace.xray
  xray account -m ./server --by '^kv::get: key.size()' trace.xray
  xray account -m ./server --func '^kv::' --from 1s --to 2s trace.xray
  xray account -m ./server --format csv -o calls.csv trace.xray`,
		inputs: &c.inputs,
		output: &c.output,
		alias:  map[string]string{"sortorder": "order"},
		flags:  c.addFlags,
		check: func() error {
			_, err := c.column()
			return err
		},
		run: c.run,
	})
	cli.CompleteColumns(cmd, "sort", account.Columns(), false)
	return cmd
}

func (c *accounting) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&c.sort, "sort", "s", "", "sort by `COLUMN` (default self): "+strings.Join(account.Columns(), ", "))
	cli.AddChoice(f, &c.order, "order", "r", "sort `ORDER`; by default, names and IDs ascend and numbers descend", "asc", "dsc")
	cli.AddTop(f, &c.top, "functions")
	f.StringVar(&c.by, "by", "", "show the calls of a function by a recorded argument or result: `FUNCTION: EXPRESSION`")
	f.BoolVar(&c.view.Histogram, "hist", false, "show a histogram of the durations of each function")
	f.BoolVar(&c.view.Objects, "objects", false, "show the program or shared object of each function")
	cli.AddPerThread(f, &c.opts.PerThread, "")
	cli.AddExact(f, &c.opts.Exact)
	f.BoolVar(&c.opts.RecursiveOnly, "recursive-calls-only", false, "count only calls that are part of a recursion")
	f.BoolVar(&c.cost.compensate, "compensate", false, "subtract the recording overhead from self and total")
	c.cost.add(f)
}

// column returns the column to sort by.
func (c *accounting) column() (account.Column, error) {
	if c.sort == "" {
		return account.BySelf, nil
	}
	column, err := account.ParseColumn(c.sort)
	if err != nil {
		return column, cli.Usagef("--sort: %w", err)
	}
	return column, nil
}

func (c *accounting) run(s *session.Session) error {
	if c.by != "" {
		return c.runBy(s)
	}
	column, err := c.column()
	if err != nil {
		return err
	}
	scope, costSource := s.Scope, ""
	err = cmp.Or(s.NeedCalls("recursive-calls-only", c.opts.RecursiveOnly), s.NeedCalls("per-thread", c.opts.PerThread),
		s.NeedCalls("compensate", c.cost.asked()))
	if err != nil {
		return err
	}
	if c.cost.asked() {
		if c.opts.RecursiveOnly {
			return cli.Usagef("--compensate cannot be used with --recursive-calls-only")
		}
		if c.opts.Compensation, costSource, err = c.cost.compensation(s); err != nil {
			return err
		}
		scope = scope.OfThreads() // the compensation chooses calls, after it has corrected them
	}
	opts := calls.Options{Nested: true, Policy: c.inputs.Policy()}
	if !c.cost.asked() && !c.opts.RecursiveOnly {
		opts.OffCPU = s.OffCPU()
		c.opts.OffCPU = opts.OffCPU != nil
		if c.opts.OffCPU {
			opts.Interrupts = s.Interrupts()
			c.opts.Interrupts = opts.Interrupts != nil
		}
	}
	if column.NeedsOffCPU() && opts.OffCPU == nil {
		return cli.Usagef("--sort %v: %s", column, s.NoOffCPU())
	}
	if column == account.ByInterrupted && opts.Interrupts == nil {
		return cli.Usagef("--sort %v: the trace has no interrupts: record it with `xray record --sched=irq`", column)
	}
	sink, run, err := session.Analyze(s, scope, opts, func() *account.Analysis {
		return account.New(c.opts)
	})
	if err != nil {
		return err
	}
	if !run.Limited && (column == account.ByAllCalls || column == account.ByAllTotal) {
		return cli.Usagef("--sort %v: there are only estimates of whole recordings within a budget (`xray record --budget`)", column)
	}
	found := sink.Report(s.Clock.Frequency)
	found.Limited = run.Limited
	found.CostSource = costSource
	if found.OnlyCounted() && c.sort == "" {
		column = account.ByCount
	}
	descending := c.order == "dsc" || c.order == "" && column != account.ByID && column != account.ByName
	found.Sort(column, descending, s.Names)
	found.Top(c.top)
	if s.Names == nil && found.Functions > 0 {
		s.Note(func() string {
			return "functions are shown by number: pass the traced binary, or a map of xray extract, with -m"
		})
	}
	return s.Report(&c.output, run, func(names symbolize.Names) []report.Node { return found.Body(names, c.view) })
}

// runBy shows calls by the values of an expression.
func (c *accounting) runBy(s *session.Session) error {
	if err := s.NeedCalls("by", true); err != nil {
		return err
	}
	chosen, err := s.ChooseExpressions("by", c.by)
	if err != nil {
		return err
	}
	s.Alias = nil // values are those of functions as they were recorded
	sink, run, err := session.Analyze(s, s.Scope, calls.Options{Nested: true, Policy: c.inputs.Policy()}, func() *account.Values {
		return account.NewValues(chosen)
	})
	if err != nil {
		return err
	}
	found := sink.Report(c.top)
	return s.Report(&c.output, run, func(symbolize.Names) []report.Node { return found.Body() })
}
