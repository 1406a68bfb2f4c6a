package main

import (
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/convert/html"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) htmlCommand() *cobra.Command {
	p := newPage()
	var output string
	return a.overTraces(command{
		use:   "html TRACE...",
		short: "Write a trace as one interactive HTML page",
		long: `Write a trace as one HTML file that works offline: a table of all calls to sort and
filter, a timeline, a flame graph and a call tree of any time range, and the latencies and
slowest calls of each function.

A page holds a few million calls. If the trace has more, the page contains the longest
calls and says so. To see all calls, select part of the trace, for example with --from
and --to.`,
		example: `  xray html -m ./server -o trace.html trace.xray
  xray html -m ./server --around 'handle#1' --source -o slow.html trace.xray`,
		inputs: &p.inputs,
		flags: func(f *pflag.FlagSet) {
			p.add(f)
			cli.AddOutput(f, &output)
		},
		check: func() error { return errors.Join(a.RefuseTerminal(output, "html"), p.source.Check()) },
		run: func(s *session.Session) error {
			page, run, err := p.record(s)
			if err != nil {
				return err
			}
			err = s.WriteData(output, func(w io.Writer) error { return page.Write(w, symbolize.WithOthers(s.FullNames())) })
			s.Summary(run.Stats)
			p.sources.Tell()
			return err
		},
	})
}

// page is one run of a command that makes a page.
type page struct {
	inputs  session.Inputs
	source  session.SourceFlags
	title   string
	most    int
	sources *session.Sources // nil if none are wanted
}

func newPage() page {
	return page{inputs: session.Inputs{Scope: session.ByCall, Templates: true}, most: 3_000_000}
}

func (p *page) add(f *pflag.FlagSet) {
	cli.AddTitle(f, &p.title, "")
	cli.AddMaxCalls(f, &p.most, "")
	p.source.AddFlags(f, "include the source code of functions if the source files are on this machine")
}

// record makes a page of the calls in scope.
func (p *page) record(s *session.Session) (*html.Page, *session.Run, error) {
	var err error
	opts := &html.Options{
		Title: p.title, Frequency: s.Clock.Frequency,
		ThreadName: s.Trace.ThreadName, ProcessName: s.Trace.ProcessName,
	}
	if opts.Title == "" {
		names := make([]string, len(s.Trace.Files()))
		for i, arg := range s.Trace.Files() {
			names[i] = filepath.Base(arg)
		}
		opts.Title = strings.Join(names, ", ")
	}
	if p.sources, err = s.Sources(&p.source); err != nil {
		return nil, nil, err
	}
	if p.sources != nil {
		opts.Source = p.sources.Text
	}
	if s.Alias == nil {
		opts.Values = s.Expressions()
	}
	if opts.Base, err = s.Start(); err != nil {
		return nil, nil, err
	}
	if r := s.Trace.Recording(0); r != nil {
		opts.Epoch, _ = r.Clock.Realtime(opts.Base)
	}
	off := s.OffCPU()
	all, sums, err := session.Analyze(s, s.Scope, calls.Options{Nested: true, OffCPU: off}, func() *allCalls {
		return &allCalls{Analysis: account.New(account.Options{OffCPU: off != nil})}
	})
	if err != nil {
		return nil, nil, err
	}
	opts.OffCPU = off != nil
	opts.Functions, opts.Limited = functionsOf(all.Report(s.Clock.Frequency)), sums.Limited
	scope, choice, note := keepLongest(s, &all.durations, p.most)
	if opts.Left = choice.Left; note != "" {
		opts.Notes = append(opts.Notes, note)
	}
	if err := s.Hold(choice.Kept, html.BytesPerCall, "keep the longest calls with --max-calls"); err != nil {
		return nil, nil, err
	}
	if lost := s.Trace.Losses().Records(); lost > 0 {
		opts.Notes = append(opts.Notes, label.Count(uint64(lost), "record", "records")+" lost")
	}
	// A page stores the entry of a call before its duration is known.
	opts.MinDuration = scope.MinDuration
	page, run, err := session.Analyze(s, scope.OfAnyDuration(), calls.Options{Opens: true, OffCPU: off}, func() *html.Page { return html.New(opts) })
	if err == nil {
		run.PrunedFiles, run.PrunedIn = sums.PrunedFiles, "Counts and totals of functions, over all threads and the whole time,"
		opts.Notes = append(s.Caveats(run), opts.Notes...)
	}
	return page, run, err
}

// allCalls sums up all calls of a trace, including those that a page has no room for.
type allCalls struct {
	*account.Analysis
	durations convert.LengthCounts
}

// Calls implements [calls.Sink].
func (a *allCalls) Calls(b *calls.Batch) error {
	return errors.Join(a.durations.Calls(b), a.Analysis.Calls(b))
}

// Merge implements [calls.Analysis].
func (a *allCalls) Merge(other *allCalls) {
	a.durations.Merge(&other.durations)
	a.Analysis.Merge(other.Analysis)
}

// functionsOf returns the sums of account for functions.
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
			Blocked: time(row.SelfOff.Blocked), Queued: time(row.SelfOff.Queued), Recorder: time(row.SelfOff.Recorder), Min: nanos(row.Min), P50: nanos(row.P50), P90: nanos(row.P90), P99: nanos(row.P99), P999: nanos(row.P999), Max: nanos(row.Max),
			Octaves: row.Octaves, AllCalls: row.AllCalls(), AllTotal: time(row.AllTotal()), Estimated: row.Unrecorded.IsEstimate(), Timeless: row.Unrecorded.Timeless,
		}
		if r.OffCPU {
			functions[i].CPU = time(row.CPU())
		}
		functions[i].CallsMargin, functions[i].TotalMargin = row.Margins()
		functions[i].TotalMargin = nanos(functions[i].TotalMargin)
	}
	return functions
}
