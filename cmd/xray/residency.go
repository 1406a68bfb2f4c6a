package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/explain/residency"
	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) residencyCommand() *cobra.Command {
	var (
		flags    traceFlags
		waits    waitFlags
		function string
		gap      string
		opts     residency.Options
		view     residency.View
		out      reportFlags
	)
	opts.Top, view.Top = 10, 10
	cmd := &cobra.Command{
		Use:   "residency TRACE...",
		Short: "Show what each thread was doing over time",
		Long: `residency draws a strip for every thread that shows which outermost function it was
in, or with --func which of the functions that match, and how much of its time it
was busy, waiting, silent or absent. It lists the functions with their shares and
longest calls, the longest gaps, and times in which half of the threads were
silent at once.

A thread is silent when a call is open, but nothing was recorded for longer than
--gap: it computes without calling anything, or is stopped.

Of a stretch of time, as of --last or --around, it shows all that was open then,
whenever it began.`,
		Example: `  xray residency -m ./server trace.xray
  xray residency -m ./server --func '^handleRequest' --from 1s --to 1.2s trace.xray
  xray residency -m ./server --around 'handleRequest#slowest:1' --margin 1ms trace.xray
  xray residency -m ./server --format csv -o runs.csv trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.filter.function = function
			s, err := a.open(cmd, &flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			if view.Base, err = s.start(); err != nil {
				return err
			}
			opts.Func, opts.From, opts.To = s.filter.Func, max(s.filter.From, s.first), s.last
			if s.filter.To > 0 {
				opts.To = min(s.last, s.filter.To)
			}
			opts.To = max(opts.From, opts.To)
			s.filter = calls.Filter{Thread: s.filter.Thread}
			roles, err := waits.roles(s)
			if err != nil {
				return err
			}
			opts.Wait = func(fn reader.FuncID) bool {
				r := roles(fn)
				return r == why.Waits || r == why.Locks || r == why.WaitsUnlocked
			}
			if opts.Gap, err = s.gap(gap); err != nil {
				return err
			}
			if opts.Cells == 0 {
				opts.Cells = a.cells(&out)
			}
			wanted := opts.Cells
			if opts.Cells, err = s.fitCells(&opts); err != nil {
				return err
			}
			sink, stats, err := s.residency(opts)
			if err != nil {
				return err
			}
			found := sink.Report(s.clock)
			view.Threads = label.Threads{Name: s.trace.ThreadName, Files: s.trace.Files()}
			if opts.Cells < wanted {
				s.added = append(s.added, fmt.Sprintf("The time is cut into %s parts instead of %s: for more, there are too many threads. "+
					"Choose some with --thread.", label.Grouped(uint64(opts.Cells)), label.Grouped(uint64(wanted))))
			}
			err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.nameFlags.add(f)
	flags.addStrict(f)
	flags.filter.addPlace(f)
	f.StringVar(&function, "func", "", "show functions whose name matches `REGEXP` instead of the outermost")
	f.StringVar(&waits.wait, "wait", waitNames, "functions whose name matches `REGEXP` wait")
	f.Lookup("wait").DefValue = "" // too long for the help, and documented
	waits.unlock = unlockNames
	f.StringVar(&gap, "gap", "", "a thread is silent after `TIME` without a record (default 100us)")
	f.Var(&count{&opts.Cells, 1}, "cells", "cut the time into `N` parts (default as the terminal is wide; csv, json: 1000)")
	f.Lookup("cells").DefValue = ""
	addCount(f, &view.Top, "top", "n", 1, "show `N` functions")
	out.add(f)
	addKeepGoing(f)
	spellings(f, nil)
	return cmd
}

// fitCells is how many cells there is memory for.
func (s *session) fitCells(opts *residency.Options) (int, error) {
	if s.threads == 0 || opts.Cells <= residency.MaxCells/s.threads {
		return opts.Cells, nil
	}
	stop := s.app.progress(s.name, s.trace)
	defer stop()
	lives, err := residency.Lives(s.trace, s.filter.Thread)
	return residency.FitCells(opts.Cells, opts.From, opts.To, lives), err
}

// residency runs the analysis: by call paths, or where there are too many of them by the
// entries of calls, which gives the same but takes longer.
func (s *session) residency(opts residency.Options) (*residency.Analysis, *calls.Stats, error) {
	newSink := func() *residency.Analysis { return residency.New(opts) }
	sink, stats, err := analyse(s, calls.Options{Paths: true}, newSink)
	if errors.Is(err, residency.ErrPaths) {
		return analyse(s, calls.Options{Opens: true}, newSink)
	}
	return sink, stats, err
}

// gap reads --gap.
func (s *session) gap(text string) (uint64, error) {
	switch {
	case text != "":
		return parseTicks("gap", text, s.clock)
	case !s.clock.Known():
		return 100_000, nil
	}
	return s.clock.Frequency / 10_000, nil
}

// cells is how many parts of time there are when none are asked for.
func (a *app) cells(out *reportFlags) int {
	switch format := report.Format(out.format); {
	case format == report.CSV || format == report.JSON:
		return 1000
	case format != report.Text || !a.toTerminal(out):
		return 80
	}
	// What stands before the strips takes some 55 columns.
	return min(max(terminalWidth(a.stdout.raw)-55, 40), 400)
}
