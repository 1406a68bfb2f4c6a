package main

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/exclude"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// excluding is one run of exclude.
type excluding struct {
	inputs    session.Inputs
	output    session.Output
	waits     waitFlags
	cost      costFlags
	budget    float64
	keep      string
	baselines []string
	ring      int64
	top       int
	write     string // the form of the list; "" for the report
}

func (a *app) excludeCommand() *cobra.Command {
	c := excluding{inputs: session.Inputs{Scope: session.ByPlace}, budget: 0.03, ring: 1 << 20, top: 20}
	return a.overTraces(command{
		use:   "exclude TRACE...",
		short: "Find functions to exclude to reduce overhead",
		long: `Choose functions to exclude from the next recording, so that its overhead stays
within --budget. exclude first drops the functions that cost the most relative to
the time they account for. It drops a function only after all functions that it
calls. Then it predicts the overhead and the size of the next recording, and the
share of the time that the recording will still show.

The prediction is an estimate with a range. To narrow it, record the same load with
xray record --count and pass that recording with --baseline.

exclude always keeps functions that wait for other threads, functions that release
locks, functions marked xray_always_instrument, and functions that match --keep.

To print a list for a compiler or a recorder, use --write.`,
		example: `  xray exclude -m ./server --budget 3% trace.xray
  xray exclude -m ./server --write attr-list -o exclude.txt trace.xray
  clang++ -fxray-instrument -fxray-attr-list=exclude.txt server.cc -o server
  xray record --exclude "$(xray exclude --write regexp trace.xray)" ./server`,
		inputs: &c.inputs,
		output: &c.output,
		alias:  map[string]string{"cost": "probe-cost"},
		flags:  c.addFlags,
		check: func() error {
			if c.write != "" && c.inputs.Style != "" && c.inputs.Style != "full" {
				return cli.Usagef("--names cannot be used with --write: the list syntax determines the names")
			}
			return nil
		},
		run: c.run,
	})
}

func (c *excluding) addFlags(f *pflag.FlagSet) {
	cli.AddShare(f, &c.budget, "budget", "allow an overhead of `PERCENT` of the CPU time")
	c.cost.add(f)
	f.StringArrayVar(&c.baselines, "baseline", nil, "CPU time without recording: a `TIME`, or traces of the same load from xray record --count")
	f.StringVar(&c.keep, "keep", "", "keep functions that match `REGEXP`")
	c.waits.add(f)
	cli.AddSize(f, &c.ring, "ring", "show how much time a ring of `SIZE` per thread covers")
	cli.AddTop(f, &c.top, "functions")
	cli.AddChoice(f, &c.write, "write", "w", "print only the list, in the syntax `SYNTAX`", append(exclude.Forms(), filterForm)...)
}

func (c *excluding) run(s *session.Session) error {
	opts, source, err := c.options(s)
	if err != nil {
		return err
	}
	view := exclude.View{Ring: uint64(c.ring), CostSource: source, Top: c.top}
	sink, run, err := session.Analyze(s, s.Scope, calls.Options{}, exclude.New)
	if err != nil {
		return err
	}
	run.PrunedIn = "Calls and cost"
	if s.Limited() {
		// What a budget left out cost nothing in this recording, from whose cost exclude predicts.
		run.Caveats = append(run.Caveats, "The prediction does not include calls that a budget left out: use a recording without --budget.")
	}
	if f := &s.Scope; f.From == 0 && f.To == 0 && f.Thread == nil && len(f.Spans) < 2 {
		opts.Measured(s.Trace)
	}
	if len(c.baselines) > 0 {
		view.CostSource = "from the baseline"
		if err := c.addBaseline(s, &opts, sink); err != nil {
			return err
		}
	}
	plan := sink.Plan(opts)
	if c.write == "" {
		return s.Report(&c.output, run, func(names symbolize.Names) []report.Node { return plan.Body(names, view) })
	}
	var skipped []exclude.Skipped
	s.TellCaveats("", run)
	err = s.WriteText(c.output.Path, func(w io.Writer) (err error) {
		skipped, err = writeExclusions(s, w, plan, c.write)
		return err
	})
	if err == nil {
		for _, line := range plan.Listed(s.Names, skipped) {
			s.Say("%s", line)
		}
	}
	s.Summary(run.Stats)
	return err
}

func (c *excluding) options(s *session.Session) (exclude.Options, string, error) {
	opts := exclude.Options{Clock: s.Clock, Sizes: exclude.SizesIn(s.Trace), Budget: c.budget}
	keep, err := session.Regexp("keep", c.keep)
	if err != nil {
		return opts, "", err
	}
	role, err := c.waits.roles(s.Names)
	if err != nil {
		return opts, "", err
	}
	opts.Keep = func(id reader.FuncID) bool {
		return role(id) != why.Runs || keep != nil && symbolize.Matches(keep, symbolize.Label(s.Names, id))
	}
	opts.Always = symbolize.AlwaysInstrumented(s.Names)
	if all := symbolize.IDs(s.Names); len(all) > 0 && !slices.ContainsFunc(all, func(id reader.FuncID) bool { return !opts.Always(id) }) {
		s.Note(func() string { return "warning: no function can be excluded, because " + launch.MarksText })
	}
	var source string
	opts.Cost, source, err = c.cost.measured(s)
	s.Note(func() string { return unrecorded(s) })
	return opts, source, err
}

// addBaseline adds --baseline: durations, or traces of count mode.
func (c *excluding) addBaseline(s *session.Session, opts *exclude.Options, sink *exclude.Analysis) (err error) {
	if opts.CPU == 0 {
		return cli.Usagef("--baseline: the CPU time of the selected part of the recording is unknown")
	}
	var traces []string
	var given time.Duration
	for _, b := range c.baselines {
		if d, err := time.ParseDuration(b); err == nil {
			given += d
		} else {
			traces = append(traces, b)
		}
	}
	switch {
	case given > 0 && len(traces) == 0:
		err = opts.GivenBaseline(given)
	case given != 0 || len(traces) == 0:
		return cli.Usagef("--baseline requires a time above 0, or traces")
	default:
		counts, failed := s.OpenTrace(traces...)
		if failed != nil {
			return failed
		}
		err = errors.Join(opts.CountedBaseline(s.Trace, counts, sink), counts.Close())
	}
	if err != nil {
		return cli.Usage(err)
	}
	return nil
}

// filterForm is the format of the list that the recorder reads.
const filterForm = "filter"

// writeExclusions writes a list, and returns the functions that are not on it.
func writeExclusions(s *session.Session, w io.Writer, plan *exclude.Plan, form string) ([]exclude.Skipped, error) {
	if form == filterForm {
		return launch.WriteExclusions(w, plan, s.Trace, s.Names)
	}
	return plan.WriteList(w, exclude.Form(form), s.Names)
}
