package main

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/requests"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/symbolize"
)

// requestTracing is one run of requests.
type requestTracing struct {
	inputs             session.Inputs
	output             session.Output
	ids                idFlags
	class, pause, slow string
	key                string
	top, exemplars     int
	minShare           float64
}

func (a *app) requestsCommand() *cobra.Command {
	c := requestTracing{
		inputs: session.Inputs{Scope: session.ByPlace, PathMemory: true},
		slow:   "p99", top: 20, exemplars: 3, minShare: 0.01,
	}
	return a.overTraces(command{
		use:   "requests TRACE...",
		short: "Trace requests across threads",
		long: `Follow requests from thread to thread. Show where the time of requests went along the
critical path (in functions, in queues, and in handoffs between threads), what makes slow
requests slow, and the slowest requests as waterfalls.

xray identifies the request that a thread is working on by the argument of
xray_request_begin in xray/recorder.h (--id mark, the default), by a recorded argument or
result (--id 'FUNCTION: EXPRESSION', once for each function), by the logged first argument
of a function (--id-func), or by the text of custom events (--id-event).`,
		example: `  xray requests trace.xray
  xray requests -m ./server --id-func '^(accept|handle|reply)$' trace.xray
  xray requests --id '^accept: conn->id' --id '^worker::run: job->conn_id' trace.xray
  xray requests -m ./server --id-event 'req=([0-9]+)' --class 'method=(\w+)' trace.xray
  xray requests -m ./server --id-func '^handle' --request 4711 trace.xray`,
		inputs: &c.inputs,
		output: &c.output,
		alias:  map[string]string{"rows": "top"},
		flags:  c.addFlags,
		run:    c.run,
	})
}

func (c *requestTracing) addFlags(f *pflag.FlagSet) {
	c.ids.add(f)
	f.StringVar(&c.class, "class", "", "classify requests by the text that `REGEXP` captures in their custom events, or by argN of --id-func")
	f.StringVar(&c.pause, "pause", "", "treat a key that reappears after `TIME` as a new request (default 10 times the median)")
	cli.AddSlow(f, &c.slow)
	f.StringVar(&c.key, "request", "", "show the requests of `KEY` instead of the slowest")
	cli.AddTop(f, &c.top, "rows of each table")
	cli.AddCount(f, &c.exemplars, "exemplars", "", 0, "show the `N` slowest requests")
	cli.AddShare(f, &c.minShare, "min-share", "omit calls that take less than `PERCENT` of a request")
}

func (c *requestTracing) run(s *session.Session) error {
	choice := requests.Choice{Thread: s.Scope.Thread, From: s.Scope.From, To: s.Scope.To, Wakers: sched.NewLogs(s.Trace)}
	var err error
	if choice.Pause, err = s.ParseTicks("pause", c.pause); err != nil {
		return err
	}
	rule, err := slowRule(s, c.slow)
	if err != nil {
		return err
	}
	opts, err := c.options(s)
	if err != nil {
		return err
	}
	view := requests.View{Rows: c.top, MinShare: c.minShare, Threads: s.ThreadNames()}
	if view.Base, err = s.Start(); err != nil {
		return err
	}
	collector, run, err := session.Analyze(s, session.Scope{}, calls.Options{}, func() *requests.Collector { return requests.NewCollector(opts) })
	if err != nil {
		return err
	}
	set, off := collector.Requests(choice), s.OffCPU()
	if off != nil {
		waits := requests.NewWaits(set)
		if _, _, err = session.Analyze(s, session.Scope{}, calls.Options{OffCPU: off}, func() *requests.Waits { return waits }); err != nil {
			return err
		}
	}
	found := set.Report(s.Clock, requests.Rule{Quantile: rule.Quantile, Top: rule.Top, Ticks: rule.Ticks, Text: rule.Text})
	key := c.key
	if n, err := strconv.ParseUint(key, 0, 64); err == nil && (c.ids.id == "arg1" || c.ids.id == "mark") {
		key = label.Argument(n) // an address may also be given as a decimal number
	}
	found.Show(key, c.exemplars)
	if report.Format(c.output.Format) != report.CSV && len(found.Shown) > 0 {
		var trees *session.Run
		view.Sleeps = requests.NewSleeps(set, found.Shown)
		view.Trees, trees, err = session.Analyze(s, session.Scope{}, calls.Options{Paths: true, OffCPU: off}, func() *requests.Trees {
			return requests.NewTrees(found.Shown, view.Sleeps)
		})
		if err != nil {
			return err
		}
		run.Folded, run.FoldedSelf = trees.Folded, trees.FoldedSelf
		view.Occupants = requests.NewOccupants(found.Shown, set)
		if _, _, err = session.Analyze(s, session.Scope{}, calls.Options{}, func() *requests.Occupants { return view.Occupants }); err != nil {
			return err
		}
	}
	s.Note(func() string { return c.nothing(found) })
	return s.Report(&c.output, run, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
}

// options determines where keys and classes come from.
func (f *requestTracing) options(s *session.Session) (requests.Options, error) {
	opts, err := f.ids.options(s)
	if opts.Always = f.key; err != nil {
		return opts, err
	}
	if f.class == "" {
		return opts, nil
	}
	if digits, ok := strings.CutPrefix(f.class, "arg"); ok && f.ids.id == "arg1" {
		if n, err := strconv.ParseUint(digits, 10, 8); err == nil && n > 0 {
			opts.ClassArg = int(n)
			return opts, nil
		}
	}
	if opts.ClassEvent, err = regexp.Compile(f.class); err != nil {
		return opts, cli.Usagef("--class: %w", err)
	}
	return opts, nil
}

// nothing returns why there are no requests, or "" if there are some.
func (f *requestTracing) nothing(r *requests.Report) string {
	switch {
	case len(r.Requests) > 0 && f.key != "" && len(r.Shown) == 0:
		return "there is no request " + strconv.Quote(f.key)
	case len(r.Requests) > 0 || r.Cut > 0:
		return ""
	case r.Elsewhere > 0:
		return "no request begins in the selected part of the trace"
	}
	return f.ids.nothing()
}
