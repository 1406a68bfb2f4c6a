package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/invocation"
	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

// explaining is one run of why.
type explaining struct {
	inputs            session.Inputs
	output            session.Output
	waits             waitFlags
	ids               idFlags
	requests          *tracedRequests // with ids
	root, slow, usual string
	arg               string
	depth, rootDepth  int
	minShare          float64
	exemplars         int
	slowest           int // why.Options.Slowest
	finder            *why.RootFinder
	finderStats       *calls.Stats
	all               bool
	seed              uint64
	flags             *pflag.FlagSet
}

func newExplaining() explaining {
	return explaining{
		inputs: session.Inputs{Scope: session.ByPlace, PathMemory: true, Join: true},
		slow:   autoSlow, usual: "p25..p75", minShare: 0.05, exemplars: 3, seed: 1,
	}
}

func (a *app) whyCommand() *cobra.Command {
	w := newExplaining()
	return a.overTraces(command{
		use:   "why TRACE...",
		short: "Explain why the slow calls of a function were slow",
		long: `Compare the slow calls of a function with its usual calls and account for the whole
difference: functions called more often, functions that took longer themselves, call
paths that only slow calls take, and threads that were waited for.

why reports a cause only if chance and scheduling are unlikely explanations. If it reports
none, look at the machine rather than the program.

With --id, --id-func or --id-event, explain requests, which may change threads, as xray requests
finds them: the work on the critical path of each, and its waits for the next thread, with what
that did instead. --root then selects requests by their class.

Without --root, why chooses the function whose slow calls lose the most time. In traces
from xray watch, it uses the functions that watch selected.`,
		example: `  xray why -m ./server trace.xray
  xray why -m ./server --root '^handleRequest' --slow p99.5 trace.xray
  xray why -m ./server --root '^handleRequest' --slow '>5ms' --format json trace.xray`,
		inputs: &w.inputs,
		output: &w.output,
		alias:  map[string]string{"baseline": "usual", "ordinary": "usual", "func": "root", "paths": "all"},
		flags:  w.addFlags,
		check: func() error {
			if w.minShare == 0 {
				return cli.Usagef("--min-share: must be more than 0%%")
			}
			return nil
		},
		run: w.run,
	})
}

func (w *explaining) addFlags(f *pflag.FlagSet) {
	w.flags = f
	session.AddRoot(f, &w.root)
	session.AddRootDepth(f, &w.rootDepth)
	addAutoSlow(f, &w.slow)
	f.StringVar(&w.usual, "usual", w.usual, "treat calls in this `RANGE` of percentiles or times (10us..20us) as usual")
	w.ids.add(f)
	w.waits.add(f)
	f.StringVar(&w.arg, "arg", "", "compare logged arguments only of functions that match `REGEXP`")
	cli.AddCount(f, &w.depth, "path-depth", "", 1, "analyze call paths at most `N` levels below the root")
	cli.AddShare(f, &w.minShare, "min-share", "report only causes that explain at least `PERCENT` of the lost time")
	cli.AddCount(f, &w.exemplars, "exemplars", "", 0, "show `N` slow calls as examples; without --all, only if given")
	f.BoolVar(&w.all, "all", false, "show intervals, the paths of each cause, examples, and the contribution of each call path")
	cli.AddSeed(f, &w.seed)
}

func (w *explaining) run(s *session.Session) error {
	found, run, err := w.explain(s)
	if err != nil {
		s.Fail(run)
		return err
	}
	return s.Report(&w.output, run, func(names symbolize.Names) []report.Node { return found.Body(names, w.view(s)) })
}

// explain runs the analysis. The run is nil if the flags are invalid.
func (w *explaining) explain(s *session.Session) (found *why.Report, run *session.Run, err error) {
	opts, err := w.options(s)
	if err != nil {
		return nil, nil, err
	}
	run = &session.Run{}
	err = s.Pass(func(unmatched func(*calls.Unmatched) error) (err error) {
		opts.Calls.Unmatched = unmatched
		found, run.Stats, err = why.Explain(s.Source(), opts)
		return err
	})
	if err != nil {
		if sums := s.NoCalls(); sums != nil {
			err = sums
		}
		return nil, run, err
	}
	run.Start = found.Start
	if s.Origins() == nil { // otherwise the files are of several machines
		if err := w.addDescriptors(s, found); err != nil {
			return nil, run, err
		}
	}
	if w.requests != nil {
		w.requests.addExecutors(found)
		found.Warnings = append(found.Warnings, w.requests.line.Notes()...)
	}
	if hint := found.LibcallsHint(s.Trace); hint != "" {
		found.Warnings = append(found.Warnings, hint)
	}
	return found, run, nil
}

// addDescriptors adds to causes which files and sockets their I/O functions of the C library used. It makes a pass over
// the trace if there are some.
func (w *explaining) addDescriptors(s *session.Session, found *why.Report) error {
	descriptors := why.NewDescriptors(found, s.Trace, s.Names)
	if descriptors == nil {
		return nil
	}
	opts := calls.Options{Paths: true, Roots: func(fn reader.FuncID) bool { return slices.Contains(found.Roots, fn) }, RootDepth: w.rootDepth}
	all, _, err := session.Analyze(s, session.Scope{}, opts, descriptors)
	if err == nil {
		all.Add()
	}
	return err
}

func (w *explaining) view(s *session.Session) why.View {
	v := why.View{Exemplars: w.exemplars, All: w.all, Files: w.files(s.Operands()), Full: s.FullNames(), Locks: namesOfLocks(s), Library: why.LibraryCalls(s.Trace)}
	if w.requests != nil {
		v.Request, v.IDs = w.requests.command, w.ids.words()
	}
	if !w.all && (w.flags == nil || !w.flags.Changed("exemplars")) {
		v.Exemplars = 0
	}
	return v
}

// files returns the traces and the flags for names, for commands that read the same trace.
func (w *explaining) files(traces []string) string {
	words := w.inputs.Words()
	for _, file := range traces {
		if file == "-" {
			file = "TRACE"
		}
		words = append(words, file)
	}
	for i := range words {
		words[i] = why.ShellQuote(words[i])
	}
	return strings.Join(words, " ")
}

// watched applies what the traces of watch say about their calls, unless a flag says otherwise.
func (w *explaining) watched(s *session.Session) {
	found := s.Trace.Watched()
	if found == nil || w.flags == nil || w.flags.Changed("root") || w.flags.Changed("slow") {
		return
	}
	w.root = found.Root
	if found.OverNS > 0 {
		w.slow = ">" + duration(found.OverNS).String()
	}
	if found.UsualToNS > found.UsualFromNS && !w.flags.Changed("usual") {
		w.usual = duration(found.UsualFromNS).String() + ".." + duration(found.UsualToNS).String()
	}
}

// chooseRoot returns the functions that the expression of --root selects. Without one, it chooses a function
// as why does. chosen describes the choice. top is how many of its slowest calls found should have. It is nil if another
// pass has to find them.
func chooseRoot(s *session.Session, expression string, top int) (root func(reader.FuncID) bool, found *invocation.Slowest, chosen func(symbolize.Names) []report.Node, err error) {
	if watched := s.Trace.Watched(); watched != nil && expression == "" {
		expression = watched.Root
	}
	w := newExplaining()
	w.root, w.slowest = expression, top
	opts, err := w.options(s)
	if err != nil {
		return nil, nil, nil, err
	}
	if opts.Root != nil {
		return opts.Root, nil, func(symbolize.Names) []report.Node { return nil }, nil
	}
	var list []why.Candidate
	err = s.Pass(func(func(*calls.Unmatched) error) (err error) {
		list, found, err = why.FindRoots(s.Source(), opts)
		return err
	})
	if err != nil {
		return nil, nil, nil, err
	}
	return func(fn reader.FuncID) bool { return fn == list[0].Func }, found,
		func(names symbolize.Names) []report.Node {
			return []report.Node{report.Paragraph(why.Chosen(names, list))}
		}, nil
}

// duration converts a number of a file to a duration.
func duration(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }

func (w *explaining) options(s *session.Session) (why.Options, error) {
	w.watched(s)
	if w.ids.given() {
		if s.Origins() != nil {
			return why.Options{}, cli.Usagef("--id requires traces of one machine")
		}
		var err error
		if w.requests, err = w.ids.asCalls(s, w.root, false); err != nil {
			return why.Options{}, err
		}
		w.root = ""
	}
	opts := why.Options{
		Seed: w.seed, Clock: s.Clock, From: s.Scope.From, To: s.Scope.To,
		PathDepth: w.depth, MaxPaths: s.MaxPaths, MinShare: w.minShare, RootLabel: w.root, RootDepth: w.rootDepth,
		Processes: s.Trace.Processes(), Values: s.Expressions(), Slowest: w.slowest, Finder: w.finder, FinderStats: w.finderStats,
	}
	opts.Windows = func(file int) []reader.RecordedWindow {
		if r := s.Trace.Recording(file); r != nil {
			return r.Windows
		}
		return nil
	}
	opts.Calls.Filter.Thread, opts.Calls.Short, opts.Calls.OffCPU = s.Scope.Thread, s.ShortTicks(), s.OffCPU()
	opts.Calls.Code, opts.Calls.Memory = s.Code, s.TableMemory
	opts.Origins = s.Origins()
	if opts.Origins == nil { // otherwise the events have the clocks of their machines
		opts.Sched = s.Sched()
		opts.Quotas = func(file int) []reader.Quota {
			if r := s.Trace.Recording(file); r != nil {
				return r.Process.Quotas
			}
			return nil
		}
		if opts.Calls.OffCPU != nil {
			opts.Calls.Interrupts = s.Interrupts()
		}
	}
	var err error
	if opts.Root, err = s.ChooseFuncs("root", w.root); err != nil {
		return opts, err
	}
	if w.requests != nil {
		// Requests are on threads of their own, which were selected already.
		opts.Root, opts.Calls.Filter.Thread, opts.Sched, opts.Calls.Interrupts = isRequest, nil, nil, nil
	}
	if opts.Argument, err = s.ChooseFuncs("arg", w.arg); err != nil {
		return opts, err
	}
	ns, known := why.RecordedThreshold(s.Trace)
	if opts.PrunedKnown = known; ns > 0 {
		if opts.Pruned, err = s.ParseTicks("pruned", duration(ns).String()); err != nil {
			return opts, err
		}
	}
	if opts.Role, err = w.waits.roles(s.Names); err != nil {
		return opts, err
	}
	opts.Loop = why.LoopsByName(s.Names)
	if w.slow == autoSlow {
		opts.Slow = why.Rule{Quantile: 0.99, Gap: true, Text: "p99"}
	} else if opts.Slow, err = slowRule(s, w.slow); err != nil {
		return opts, err
	}
	low, high, ok := strings.Cut(strings.ReplaceAll(w.usual, "..", "-"), "-")
	if ok && !strings.HasPrefix(low, "p") {
		return opts, w.usualTimes(s, &opts, low, high)
	}
	opts.UsualLow, err = cli.ParseQuantile(low)
	if err == nil {
		opts.UsualHigh, err = cli.ParseQuantile(high)
	}
	if !ok || err != nil || opts.UsualLow >= opts.UsualHigh {
		return opts, cli.Usagef("--usual: %q is not a range of percentiles like p25..p75, or of times like 10us..20us", w.usual)
	}
	return opts, nil
}

// usualTimes parses --usual as two times.
func (w *explaining) usualTimes(s *session.Session, opts *why.Options, low, high string) (err error) {
	if opts.UsualFrom, err = s.ParseTicks("usual", low); err != nil {
		return err
	}
	if opts.UsualTo, err = s.ParseTicks("usual", high); err != nil {
		return err
	}
	if opts.UsualFrom >= opts.UsualTo {
		return cli.Usagef("--usual: %q is not a range of times", w.usual)
	}
	return nil
}

// autoSlow is the default of --slow in why and report.
const autoSlow = "auto"

func addAutoSlow(f *pflag.FlagSet, rule *string) {
	cli.AddSlow(f, rule)
	f.Lookup("slow").Usage = "treat calls as slow by `RULE`: above a percentile (p99), top:100, >5ms, or auto: beyond a gap in the durations, else p99"
}

// slowRule parses --slow.
func slowRule(s *session.Session, text string) (r why.Rule, err error) {
	r.Text = text
	if n, ok := strings.CutPrefix(text, "top:"); ok {
		if r.Top, err = strconv.ParseUint(n, 10, 32); err != nil || r.Top == 0 {
			err = cli.Usagef("--slow: %q is not a number of calls", n)
		}
		return r, err
	}
	if t, ok := strings.CutPrefix(text, ">"); ok {
		if r.Ticks, err = s.ParseTicks("slow", t); err == nil && r.Ticks == 0 {
			err = cli.Usagef("--slow: %q is not a time", t)
		}
		return r, err
	}
	if r.Quantile, err = cli.ParseQuantile(text); err != nil {
		err = cli.Usagef("--slow: %q is neither a percentile (p99), nor top:N, nor a time (>5ms)", text)
	}
	return r, err
}
