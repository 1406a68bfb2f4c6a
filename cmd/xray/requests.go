package main

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/explain/requests"
	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// requestsFlags are the flags of requests.
type requestsFlags struct {
	traceFlags
	id, idFunc, idEvent string
	class, pause, slow  string
	key                 string
}

func (a *app) requestsCommand() *cobra.Command {
	var (
		flags    requestsFlags
		top      = 3
		rows     = 20
		minShare = "1%"
		out      reportFlags
	)
	cmd := &cobra.Command{
		Use:   "requests TRACE...",
		Short: "Trace requests across threads",
		Long: `requests puts together what all threads did for a request, shows where its time
went along the critical path (in functions, in queues, and in handoffs between
threads), what makes slow requests slow, and the slowest ones as waterfalls.

Which request a thread works on is told by the number that a function is called
with (--id-func, whose first argument must be logged), by custom events
(--id-event), or by xray_request_begin of xray/recorder.h (--id mark). Without any,
marks are taken.`,
		Example: `  xray requests trace.xray
  xray requests -m ./server --id-func '^(accept|handle|reply)$' trace.xray
  xray requests -m ./server --id-event 'req=([0-9]+)' --class 'method=(\w+)' trace.xray
  xray requests -m ./server --id-func '^handle' --request 4711 trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			view := requests.View{Rows: rows}
			var err error
			if view.MinShare, err = parseShare("min-share", minShare); err != nil {
				return err
			}
			s, err := a.open(cmd, &flags.traceFlags, args)
			if err != nil {
				return err
			}
			defer s.close()
			choice := requests.Choice{Thread: s.filter.Thread, From: s.filter.From, To: s.filter.To}
			s.filter = calls.Filter{}
			if choice.Pause, err = parseTicks("pause", flags.pause, s.clock); err != nil {
				return err
			}
			rule, err := flags.rule(s)
			if err != nil {
				return err
			}
			opts, err := flags.options(s)
			if err != nil {
				return err
			}
			if view.Base, err = s.start(); err != nil {
				return err
			}
			collector, stats, err := analyse(s, calls.Options{}, func() *requests.Collector { return requests.NewCollector(opts) })
			if err != nil {
				return err
			}
			found := collector.Requests(choice).Report(s.clock, rule)
			found.Show(flags.key, top)
			if report.Format(out.format) != report.CSV && len(found.Shown) > 0 {
				var treeStats *calls.Stats
				view.Trees, treeStats, err = analyse(s, calls.Options{Paths: true}, func() *requests.Trees { return requests.NewTrees(found.Shown) })
				if err != nil {
					return err
				}
				stats.Folded, stats.FoldedSelf = treeStats.Folded, treeStats.FoldedSelf
			}
			view.Threads = label.Threads{Name: s.trace.ThreadName, Files: s.trace.Files()}
			s.notes = append(s.notes, func() string { return flags.nothing(found) })
			err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	flags.nameFlags.add(f)
	flags.addStrict(f)
	flags.filter.addPlace(f)
	flags.paths.add(f)
	addChoice(f, &flags.id, "id", "", "where the keys of requests come from", "mark", "event", "arg1")
	f.StringVar(&flags.idFunc, "id-func", "", "functions whose name matches `REGEXP` have the key as first argument, which is logged")
	f.StringVar(&flags.idEvent, "id-event", "", "custom events hold the key: what the group of `REGEXP` matches, or all")
	f.StringVar(&flags.class, "class", "", "class of a request: what `REGEXP` captures in its custom events, or argN of --id-func")
	f.StringVar(&flags.pause, "pause", "", "a key that comes back after `TIME` is another request; ten times the median if not said")
	f.StringVar(&flags.slow, "slow", "p99", "which requests are slow: `RULE` is a quantile (p99), top:100, or >5ms")
	f.StringVar(&flags.key, "request", "", "show the requests of `KEY`, instead of the slowest")
	addCount(f, &top, "top", "n", 0, "show the slowest `N` requests")
	addCount(f, &rows, "rows", "", 0, "show at most `N` rows of each table; 0 for all")
	f.StringVar(&minShare, "min-share", minShare, "leave out of waterfalls what takes less than `PERCENT` of a request")
	out.add(f)
	addKeepGoing(f)
	spellings(f, nil)
	return cmd
}

// options says where keys come from, by --id or by what else was given.
func (f *requestsFlags) options(s *session) (requests.Options, error) {
	opts := requests.Options{Always: f.key}
	if f.id == "" {
		switch {
		case f.idFunc != "":
			f.id = "arg1"
		case f.idEvent != "":
			f.id = "event"
		default:
			f.id = "mark"
		}
	}
	if f.idFunc != "" && f.id != "arg1" || f.idEvent != "" && f.id != "event" {
		return opts, usagef("--id-func is for --id arg1, and --id-event for --id event: choose one")
	}
	var err error
	switch f.id {
	case "arg1":
		var re *regexp.Regexp
		if re, err = regexp.Compile(f.idFunc); err != nil {
			return opts, usagef("--id-func: %w", err)
		}
		opts.IDFunc = s.chooseFuncs("id-func", re)
	case "event":
		if opts.IDEvent, err = regexp.Compile(f.idEvent); err != nil {
			return opts, usagef("--id-event: %w", err)
		}
	case "mark":
		opts.Marks = true
	}
	if f.class == "" {
		return opts, nil
	}
	if digits, ok := strings.CutPrefix(f.class, "arg"); ok && f.id == "arg1" {
		if n, err := strconv.ParseUint(digits, 10, 8); err == nil && n > 0 {
			opts.ClassArg = int(n)
			return opts, nil
		}
	}
	if opts.ClassEvent, err = regexp.Compile(f.class); err != nil {
		return opts, usagef("--class: %w", err)
	}
	return opts, nil
}

// rule reads --slow as xray why does.
func (f *requestsFlags) rule(s *session) (requests.Rule, error) {
	r, err := (&whyFlags{slow: f.slow}).rule(s)
	return requests.Rule(r), err
}

// nothing says why there is nothing to see; "" when there is.
func (f *requestsFlags) nothing(r *requests.Report) string {
	switch {
	case len(r.Requests) > 0 && f.key != "" && len(r.Shown) == 0:
		return "there is no request " + strconv.Quote(f.key)
	case len(r.Requests) > 0 || r.Cut > 0:
		return ""
	case f.id == "arg1":
		return "no call that --id-func names has a logged argument: compile these functions with the attribute xray_log_args(1)"
	case f.id == "event":
		return "no custom event has a key as --id-event says"
	}
	return "the program told no requests (xray_request_begin): say with --id-func or --id-event how to know them"
}
