package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/residency"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// residing is one run of residency.
type residing struct {
	inputs   session.Inputs
	output   session.Output
	waits    waitFlags
	function string
	gap      string
	cells    int // 0 for as many as fit the output
	top      int
}

func (a *app) residencyCommand() *cobra.Command {
	c := residing{inputs: session.Inputs{Scope: session.ByPlace}, top: 10}
	return a.overTraces(command{
		use:   "residency TRACE...",
		short: "Show what each thread was doing over time",
		long: `Draw a strip per thread that shows its outermost function over time, or with --func, the
matching functions. Show how much of its time each thread was busy, waiting, silent or
absent. List the functions with their shares and longest calls, the longest gaps, and the
times when at least half of the threads were silent at once.

A thread is silent if a call is open but the thread recorded nothing for longer than
--gap: it computes without calling anything, or it is stopped. If the trace has off-CPU
times, the thread is shown as busy, waiting or queued instead.

With --last, --around and other flags that select a time range, residency shows all calls
that were open in that range, including calls that began earlier.`,
		example: `  xray residency -m ./server trace.xray
  xray residency -m ./server --func '^handleRequest' --from 1s --to 1.2s trace.xray
  xray residency -m ./server --around 'handleRequest#slowest:1' --margin 1ms trace.xray
  xray residency -m ./server --format csv -o runs.csv trace.xray`,
		inputs: &c.inputs,
		output: &c.output,
		flags:  c.addFlags,
		run:    c.run,
	})
}

func (c *residing) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.function, "func", "", "show functions that match `REGEXP` instead of the outermost")
	c.waits.addWait(f)
	f.StringVar(&c.gap, "gap", "", "treat a thread as silent after `TIME` without a record (default 100us)")
	cli.AddCount(f, &c.cells, "cells", "", 1, "divide the time into `N` cells (default: the width of the terminal, or 1000 for csv and json)")
	f.Lookup("cells").DefValue = ""
	cli.AddTop(f, &c.top, "functions")
}

// kept is the number of gaps and stalls in a report.
const kept = 10

func (c *residing) run(s *session.Session) error {
	span, err := s.Span()
	if err != nil {
		return err
	}
	opts := residency.Options{Top: kept, From: max(s.Scope.From, span.First), To: span.Last, Cells: c.cells}
	if s.Scope.To > 0 {
		opts.To = min(span.Last, s.Scope.To)
	}
	opts.To = max(opts.From, opts.To)
	opts.Recorded = s.Trace.RecordedTicks()
	if opts.Func, err = s.ChooseFuncs("func", c.function); err != nil {
		return err
	}
	roles, err := c.waits.roles(s.Names)
	if err != nil {
		return err
	}
	opts.Wait = func(fn reader.FuncID) bool { return roles(fn).Waits() }
	if opts.Gap, err = c.gapTicks(s); err != nil {
		return err
	}
	if opts.Cells == 0 {
		opts.Cells = c.fittingCells(s)
	}
	wanted := opts.Cells
	if opts.Cells, err = affordableCells(s, span, &opts); err != nil {
		return err
	}
	sink, run, err := residencyOf(s, opts)
	if err != nil {
		return err
	}
	found := sink.Report(s.Clock)
	if opts.Cells < wanted {
		run.Caveats = append(run.Caveats, fmt.Sprintf("The time is divided into %s cells instead of %s because there are too many threads. "+
			"Select threads with --thread.", label.Grouped(uint64(opts.Cells)), label.Grouped(uint64(wanted))))
	}
	view := residency.View{Top: c.top, Base: span.First, Threads: s.ThreadNames()}
	return s.Report(&c.output, run, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
}

// affordableCells returns the number of cells that fit into memory.
func affordableCells(s *session.Session, span reader.Extent, opts *residency.Options) (int, error) {
	if span.Threads == 0 || opts.Cells <= residency.MaxCells/span.Threads {
		return opts.Cells, nil
	}
	defer s.Progress()()
	lives, err := residency.Lives(s.Trace, s.Scope.Thread)
	return residency.FitCells(opts.Cells, opts.From, opts.To, lives), err
}

// residencyOf runs the analysis by call paths. If there are too many, it uses the entries of
// calls, which has the same result but takes longer.
func residencyOf(s *session.Session, opts residency.Options) (*residency.Analysis, *session.Run, error) {
	newSink := func() *residency.Analysis { return residency.New(opts) }
	off := s.OffCPU()
	opts.OffCPU = off != nil
	sink, run, err := session.Analyze(s, s.Scope.OfThreads(), calls.Options{Paths: true, OffCPU: off}, newSink)
	if errors.Is(err, residency.ErrPaths) {
		opts.OffCPU = false
		return session.Analyze(s, s.Scope.OfThreads(), calls.Options{Opens: true}, newSink)
	}
	return sink, run, err
}

// gapTicks parses --gap.
func (c *residing) gapTicks(s *session.Session) (uint64, error) {
	switch {
	case c.gap != "":
		return s.ParseTicks("gap", c.gap)
	case !s.Clock.Known():
		return 100_000, nil
	}
	return s.Clock.Frequency / 10_000, nil
}

// fittingCells returns the number of time cells that fit the output.
func (c *residing) fittingCells(s *session.Session) int {
	switch format := report.Format(c.output.Format); {
	case format == report.CSV || format == report.JSON:
		return 1000
	case format != report.Text || !s.ToTerminal(c.output.Path):
		return 80
	}
	// The columns before the strips take some 55 characters.
	return min(max(cli.TerminalWidth(s.Stdout.Raw)-55, 40), 400)
}
