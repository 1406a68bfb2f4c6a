package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/requests"
	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/sched"
)

// idFlags say which request a thread works on.
type idFlags struct {
	id              string // mark, event, arg1 or value
	idValues        []string
	idFunc, idEvent string
}

func (f *idFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.idValues, "id", nil, "identify requests by `SOURCE`: mark, event, arg1, or FUNCTION: EXPRESSION for a recorded argument or result; repeatable")
	flags.StringVar(&f.idFunc, "id-func", "", "use the logged first argument of functions that match `REGEXP` as the request key")
	flags.StringVar(&f.idEvent, "id-event", "", "use custom events as the request key: the text that the group in `REGEXP` captures, or the whole text")
}

// given reports whether any of the flags is set.
func (f *idFlags) given() bool { return len(f.idValues) > 0 || f.idFunc != "" || f.idEvent != "" }

// options determines where keys come from, by --id or other flags.
func (f *idFlags) options(s *session.Session) (opts requests.Options, err error) {
	if len(f.idValues) == 1 && slices.Contains([]string{"mark", "event", "arg1"}, f.idValues[0]) {
		f.id = f.idValues[0]
	}
	if f.id == "" {
		switch {
		case len(f.idValues) > 0:
			f.id = "value"
		case f.idFunc != "":
			f.id = "arg1"
		case f.idEvent != "":
			f.id = "event"
		default:
			f.id = "mark"
		}
	}
	if f.idFunc != "" && f.id != "arg1" || f.idEvent != "" && f.id != "event" {
		return opts, cli.Usagef("--id-func implies --id arg1, and --id-event implies --id event: use only one of them")
	}
	switch f.id {
	case "arg1":
		if opts.IDFunc, err = s.ChooseFuncs("id-func", f.idFunc); err != nil {
			return opts, err
		}
	case "event":
		if opts.IDEvent, err = regexp.Compile(f.idEvent); err != nil {
			return opts, cli.Usagef("--id-event: %w", err)
		}
	case "value":
		if opts.IDValue, err = s.ChooseExpressions("id", f.idValues...); err != nil {
			return opts, err
		}
	case "mark":
		opts.Marks = true
	}
	return opts, nil
}

// nothing says that no request was found, and why.
func (f *idFlags) nothing() string {
	switch f.id {
	case "arg1":
		return "no call that matches --id-func has a logged argument: compile these functions with the attribute xray_log_args(1)"
	case "value":
		return "no call has a value that --id selects"
	case "event":
		return "no custom event matches --id-event"
	}
	return "the program marks no requests with xray_request_begin: identify requests with --id-func or --id-event"
}

// words are the flags as words of a command.
func (f *idFlags) words() string {
	var list []string
	add := func(name, value string) {
		if value != "" {
			list = append(list, name, why.ShellQuote(value))
		}
	}
	switch {
	case f.idFunc != "":
		add("--id-func", f.idFunc)
	case f.idEvent != "":
		add("--id-event", f.idEvent)
	default:
		for _, value := range f.idValues {
			add("--id", value)
		}
	}
	return strings.Join(list, " ")
}

// tracedRequests are requests that a session shows as calls.
type tracedRequests struct {
	set  *requests.Set
	line *requests.Timeline
	ids  *idFlags
}

// asCalls makes the session's source the requests of the trace, each as a call of [reader.Request]. class is an expression for
// those wanted, "" for all. within is requests.TimelineOptions.Within.
func (f *idFlags) asCalls(s *session.Session, class string, within bool) (*tracedRequests, error) {
	opts, err := f.options(s)
	if err != nil {
		return nil, err
	}
	classes, err := regexp.Compile(class)
	if err != nil {
		return nil, cli.Usagef("--root: %w", err)
	}
	want := func(r *requests.Request) bool { return class == "" || classes.MatchString(r.Class) }
	collector, _, err := session.Analyze(s, session.Scope{}, calls.Options{}, func() *requests.Collector { return requests.NewCollector(opts) })
	if err != nil {
		return nil, err
	}
	set := collector.Requests(requests.Choice{Thread: s.Scope.Thread, From: s.Scope.From, To: s.Scope.To, Wakers: sched.NewLogs(s.Trace)})
	var list []*requests.Request
	for i := range set.Requests {
		if r := &set.Requests[i]; want(r) {
			list = append(list, r)
		}
	}
	switch {
	case len(list) == 0 && len(set.Requests) > 0:
		return nil, cli.Usagef("--root: with --id, %q is matched with the classes of requests, and no class matches", class)
	case len(list) == 0:
		return nil, cli.Usagef("%s", f.nothing())
	}
	occupants := requests.NewOccupants(list, set)
	if _, _, err = session.Analyze(s, session.Scope{}, calls.Options{}, func() *requests.Occupants { return occupants }); err != nil {
		return nil, err
	}
	found := &tracedRequests{set: set, ids: f}
	found.line, err = requests.NewTimeline(s.Source(), set, requests.TimelineOptions{
		Clock: s.Clock, OffCPU: s.OffCPU() != nil, Marks: opts.Marks, Occupants: occupants, Within: within, Want: want,
	})
	if err != nil {
		return nil, err
	}
	s.Replace(found.line)
	return found, nil
}

// addExecutors adds to causes what the awaited threads did.
func (t *tracedRequests) addExecutors(found *why.Report) {
	found.AddExecutors(func(at func(reader.Thread, uint64) bool, atMost bool) *why.Holder {
		r := t.line.Ran(at, atMost)
		if r.Self == 0 {
			return nil
		}
		return &why.Holder{Evidence: why.ByExecutor, Self: r.Self, Scope: r.Scope, Covered: r.Covered, SelfShare: r.SelfShare, Other: r.Other, OtherClass: r.OtherClass}
	})
}

// isRequest is the root that asCalls makes.
func isRequest(fn reader.FuncID) bool { return fn == reader.Request }

// said are the notes for a report.
func (t *tracedRequests) said() []report.Node { return []report.Node{report.Notes(t.line.Notes())} }

// command is the command that shows the request that begins at a time.
func (t *tracedRequests) command(tsc uint64) string {
	for i := range t.set.Requests {
		if r := &t.set.Requests[i]; r.Start == tsc {
			return "xray requests " + t.ids.words() + " --request " + why.ShellQuote(r.Key)
		}
	}
	return ""
}
