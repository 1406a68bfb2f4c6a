package main

import (
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/convert/html"
	"github.com/xray-tools/xray/internal/durations"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader/calls"
)

func (a *app) htmlCommand() *cobra.Command {
	p := htmlFlags{most: 3_000_000}
	var output string
	cmd := &cobra.Command{
		Use:   "html TRACE...",
		Short: "Write a trace as one interactive HTML page",
		Long: `html writes one file that shows a trace in a browser, without a network: a table of
all calls that sorts and filters at once, a timeline, a flame graph and a call tree
of any stretch of time, and each function's latencies and slowest calls.

A page has room for some millions of calls. Of a longer trace it holds the longest
calls, and says so; choose a part of the trace to see all of it.`,
		Example: `  xray html -m ./server -o trace.html trace.xray
  xray html -m ./server --around 'handle#1' --source -o slow.html trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(a.refuseTerminal(output, "html"), p.sourceFlags.check()); err != nil {
				return err
			}
			s, err := a.open(cmd, &p.flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			page, stats, err := p.record(s, args)
			if err != nil {
				return err
			}
			err = a.writeData(output, func(w io.Writer) error { return page.Write(w, s.names) })
			s.summary(stats)
			if p.sources != nil {
				p.sources.tell()
			}
			return err
		},
	}
	f := cmd.Flags()
	p.add(cmd)
	addOutput(f, &output)
	return cmd
}

// htmlFlags are the flags of commands that make a page.
type htmlFlags struct {
	flags traceFlags
	sourceFlags
	title   string
	most    int
	sources *sources // nil where none are wanted
}

func (p *htmlFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	p.flags.add(f)
	f.StringVar(&p.title, "title", "", "title of the page")
	addCount(f, &p.most, "max-calls", "", 1, "show the `N` longest calls at most")
	p.sourceFlags.add(f, "show the source code of functions, where its files are on this machine")
	addKeepGoing(f)
}

// record makes a page of what the command line chose.
func (p *htmlFlags) record(s *session, args []string) (*html.Recording, *calls.Stats, error) {
	var err error
	opts := &html.Options{
		Title: p.title, Frequency: s.clock.Frequency,
		ThreadName: s.trace.ThreadName, ProcessName: s.trace.ProcessName,
	}
	if opts.Title == "" {
		names := make([]string, len(args))
		for i, arg := range args {
			names[i] = filepath.Base(arg)
		}
		opts.Title = strings.Join(names, ", ")
	}
	if p.source {
		if p.sources, err = s.sources(&p.sourceFlags); err != nil {
			return nil, nil, err
		}
		opts.Source = p.sources.text
	}
	if opts.Base, err = s.start(); err != nil {
		return nil, nil, err
	}
	if r := s.trace.Recording(0); r != nil {
		opts.Epoch, _ = r.Clock.Realtime(opts.Base)
	}
	all, err := s.sumUp()
	if err != nil {
		return nil, nil, err
	}
	s.prunedIn = "Counts and totals of functions, over all threads and the whole time,"
	opts.Functions = functionsOf(all.functions.Report(s.clock.Frequency))
	var note string
	if opts.Left, note = s.keepLongest(&all.durations, p.most); note != "" {
		opts.Notes = append(opts.Notes, note)
	}
	if lost := s.trace.Losses().Records(); lost > 0 {
		opts.Notes = append(opts.Notes, plural(lost, "record", "records")+" lost")
	}
	// Entries are kept before it is known how long a call takes.
	opts.MinDuration, s.filter.MinDuration = s.filter.MinDuration, 0
	page, stats, err := analyse(s, calls.Options{Opens: true}, func() *html.Recording { return html.New(opts) })
	if err == nil {
		opts.Notes = append(s.caveats(stats), opts.Notes...)
	}
	return page, stats, err
}

// allCalls sums up the calls of a trace, also those that a page has no room for.
type allCalls struct {
	durations durations.Counts
	functions *account.Analysis
}

// Calls implements [calls.Sink].
func (a *allCalls) Calls(b *calls.Batch) error {
	return errors.Join(a.durations.Calls(b), a.functions.Calls(b))
}

func (a *allCalls) merge(other *allCalls) {
	a.durations.Merge(&other.durations)
	a.functions.Merge(other.functions)
}

// someCalls are allCalls that were chosen by time, and so know nothing of calls that were
// only added up.
type someCalls struct{ *allCalls }

func (a someCalls) Merge(other someCalls) { a.merge(other.allCalls) }

// addedCalls are allCalls with those that were only added up.
type addedCalls struct{ *allCalls }

func (a addedCalls) Merge(other addedCalls) { a.merge(other.allCalls) }

// Sums implements [calls.SumSink].
func (a addedCalls) Sums(s *calls.Sums) error { return a.functions.Sums(s) }

// sumUp takes a pass over all calls that the command line chose.
func (s *session) sumUp() (*allCalls, error) {
	all := func() *allCalls { return &allCalls{functions: account.New(account.Options{})} }
	opts := calls.Options{Nested: true}
	var sums *allCalls
	var stats *calls.Stats
	var err error
	if f := &s.filter; f.From > 0 || f.To > 0 || f.MinDuration > 0 {
		var some someCalls
		some, stats, err = analyse(s, opts, func() someCalls { return someCalls{all()} })
		sums = some.allCalls
	} else {
		var added addedCalls
		added, stats, err = analyse(s, opts, func() addedCalls { return addedCalls{all()} })
		sums = added.allCalls
	}
	if err != nil {
		return nil, err
	}
	s.addCounters(sums.functions, stats)
	return sums, s.addPruned(sums.functions, stats)
}

// functionsOf is what account says of functions.
func functionsOf(r *account.Report) []html.Function {
	time := func(s quantile.Sum) uint64 {
		if s.Hi > 0 {
			return math.MaxUint64
		}
		return r.Clock.Nanos(s.Lo)
	}
	functions := make([]html.Function, len(r.Rows))
	for i := range r.Rows {
		row := &r.Rows[i]
		nanos := r.Clock.Nanos
		functions[i] = html.Function{
			ID: row.Func, Count: row.Count, Open: row.Open, Counted: row.Untimed, Pruned: row.Pruned, Total: time(row.Total), Self: time(row.Self),
			Min: nanos(row.Min), P50: nanos(row.P50), P90: nanos(row.P90), P99: nanos(row.P99), P999: nanos(row.P999), Max: nanos(row.Max),
			Octaves: row.Octaves,
		}
	}
	return functions
}
