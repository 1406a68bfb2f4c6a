package main

import (
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/exclude"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// excludeFlags are the flags of exclude.
type excludeFlags struct {
	traceFlags
	waitFlags
	costFlags
	budget, keep string
}

func (a *app) excludeCommand() *cobra.Command {
	var (
		flags = excludeFlags{budget: "3%"}
		view  = exclude.View{Ring: 1 << 20}
		ring  = int64(view.Ring)
		write string
		out   reportFlags

		baselines []string
	)
	view.Top = 20
	cmd := &cobra.Command{
		Use:   "exclude TRACE...",
		Short: "Find functions to exclude to reduce overhead",
		Long: `Choose functions to leave out of the next recording, so that recording costs no
more than --budget. Functions that cost most for the time they account for go
first. A function goes only after all functions that it calls. exclude predicts
what the recording will cost then, how large it will be, and how much of the time
it will still show.

The prediction is an estimate with a range. Pass --baseline with a recording by
xray record --count of the same load to make it precise.

Functions that wait for other threads, functions that release locks, functions
marked xray_always_instrument, and those that match --keep always stay.

Use --write to print the choice as a list for a compiler or a recorder.`,
		Example: `  xray exclude -m ./server --budget 3% trace.xray
  xray exclude -m ./server --write attr-list -o exclude.txt trace.xray
  clang++ -fxray-instrument -fxray-attr-list=exclude.txt server.cc -o server
  xray record --exclude "$(xray exclude --write regexp trace.xray)" ./server`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if write != "" && flags.style != "" && flags.style != "full" {
				return usagef("--names is for reports: a list has the names that its reader knows")
			}
			s, err := a.open(cmd, &flags.traceFlags, args)
			if err != nil {
				return err
			}
			defer s.close()
			opts, source, err := flags.options(s)
			if err != nil {
				return err
			}
			view.Ring, view.CostSource = uint64(ring), source
			sink, stats, err := analyse(s, calls.Options{}, exclude.New)
			if err != nil {
				return err
			}
			s.prunedIn = "Calls and cost"
			if err := s.addPruned(sink, stats); err != nil {
				return err
			}
			if err := s.addTimes(&opts, stats); err != nil {
				return err
			}
			if len(baselines) > 0 {
				view.CostSource = "from the baseline"
				if err := s.addBaseline(&opts, baselines, sink); err != nil {
					return err
				}
			}
			plan := sink.Plan(opts)
			if write == "" {
				err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node { return plan.Body(names, view) })
				s.summary(stats)
				return err
			}
			var skipped []exclude.Skipped
			err = s.writeFile(out.output, stats, func(w io.Writer) (err error) {
				skipped, err = s.writeExclusions(w, plan, write)
				return err
			})
			if err == nil {
				s.tellExclusions(plan, skipped)
			}
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.nameFlags.add(f)
	flags.addStrict(f)
	flags.filter.addPlace(f)
	f.StringVar(&flags.budget, "budget", flags.budget, "recording calls may cost `PERCENT` of the CPU time")
	flags.costFlags.add(f)
	f.StringArrayVar(&baselines, "baseline", nil, "CPU time without recording: a `TIME`, or traces of the same load by xray record --count")
	f.StringVar(&flags.keep, "keep", "", "never leave out functions whose name matches `REGEXP`")
	flags.waitFlags.add(f)
	addSize(f, &ring, "ring", "how much each thread's ring holds is told for rings of `SIZE`")
	addCount(f, &view.Top, "top", "p", 0, "show only the first `N` functions; 0 for all")
	addChoice(f, &write, "write", "w", "print only the list, for", append(exclude.Forms(), filterForm)...)
	out.add(f)
	addKeepGoing(f)
	spellings(f, map[string]string{"cost": "probe-cost"})
	return cmd
}

func (f *excludeFlags) options(s *session) (exclude.Options, string, error) {
	opts := exclude.Options{Clock: s.clock, Sizes: recordSizes(s.trace)}
	var err error
	if opts.Budget, err = parseShare("budget", f.budget); err != nil {
		return opts, "", err
	}
	var keep *regexp.Regexp
	if f.keep != "" {
		if keep, err = regexp.Compile(f.keep); err != nil {
			return opts, "", usagef("--keep: %w", err)
		}
	}
	role, err := f.roles(s)
	if err != nil {
		return opts, "", err
	}
	opts.Keep = func(id reader.FuncID) bool {
		return role(id) != why.Runs || keep != nil && keep.MatchString(symbolize.Label(s.names, id))
	}
	opts.Always = symbolize.AlwaysInstrumented(s.names)
	var source string
	opts.Cost, source, err = f.measured(s)
	s.notes = append(s.notes, s.unrecorded)
	return opts, source, err
}

// recordSizes are the sizes of records in traces like this one; that of an event is
// without what carries it over to a multiple of 8 bytes.
func recordSizes(t *reader.Trace) exclude.Sizes {
	if t.Header(0).Type == reader.Basic {
		return exclude.Sizes{Call: 64, Arg: 32}
	}
	return exclude.Sizes{Call: 16, Arg: 16, Event: 16}
}

// filterForm is the list that the recorder itself reads.
const filterForm = "filter"

// writeExclusions writes a list, and returns the functions that are not on it.
func (s *session) writeExclusions(w io.Writer, plan *exclude.Plan, form string) ([]exclude.Skipped, error) {
	if form == filterForm {
		return s.writeExcludingFilter(w, plan)
	}
	return plan.WriteList(w, exclude.Form(form), s.names)
}

// tellExclusions tells on standard error what a list is worth.
func (s *session) tellExclusions(plan *exclude.Plan, skipped []exclude.Skipped) {
	plan.PutBack(skipped)
	s.app.say("%s", plan.Summary())
	const most = 5
	for i, f := range skipped {
		if i == most {
			s.app.say("%s not on the list either", plural(int64(len(skipped)-i), "more function is", "more functions are"))
			break
		}
		s.app.say("%s is not on the list: %s", symbolize.Label(s.names, f.ID), f.Why)
	}
}

// writeExcludingFilter writes the filter that xray record --exclude would write.
func (s *session) writeExcludingFilter(w io.Writer, plan *exclude.Plan) ([]exclude.Skipped, error) {
	objects, _, err := s.trace.Objects()
	if err != nil {
		return nil, err
	}
	paths := objectPaths(objects)
	if len(paths) == 0 {
		if table := symbolize.TableOf(s.names, 1); table != nil {
			paths = append(paths, table.Object().Path)
		}
	}
	var expression strings.Builder
	skipped, err := plan.WriteList(&expression, exclude.Regexp, s.names)
	if err != nil {
		return nil, err
	}
	filter := &recorder.Filter{}
	if text := strings.TrimSpace(expression.String()); text != "" {
		if filter.Exclude, err = regexp.Compile(text); err != nil {
			return nil, err
		}
	}
	_, err = filter.Write(w, paths)
	return skipped, err
}
