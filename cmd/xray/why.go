package main

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) whyCommand() *cobra.Command {
	w := whyFlags{}
	var out reportFlags
	cmd := &cobra.Command{
		Use:   "why TRACE...",
		Short: "Explain why the slow calls of a function were slow",
		Long: `why compares the slow calls of a function with its usual calls and accounts for the
whole difference: which functions were called more often, which took longer
themselves, which paths only slow calls take, and which threads were waited for. why
reports a cause only if chance and scheduling are unlikely explanations. If it reports
none, look at the machine rather than the program.

Without --root, why chooses the function whose slow calls lose the most time.`,
		Example: `  xray why -m ./server trace.xray
  xray why -m ./server --root '^handleRequest' --slow p99.5 trace.xray
  xray why -m ./server --root '^handleRequest' --slow '>5ms' --format json trace.xray`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.open(cmd, &w.flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			found, stats, err := w.explain(s)
			if err != nil {
				s.summary(stats)
				if stats != nil {
					a.tellCaveats(s.caveats(stats))
				}
				return err
			}
			view := why.View{Exemplars: w.exemplars, All: w.all, Files: w.files(args), Full: s.names}
			s.first = found.Start
			err = s.writeDoc(&out, stats, func(names symbolize.Names) []report.Node { return found.Body(names, view) })
			s.summary(stats)
			return err
		},
	}
	f := cmd.Flags()
	w.flags.nameFlags.add(f)
	w.flags.addStrict(f)
	w.flags.filter.addPlace(f)
	w.flags.paths.add(f)
	f.StringVar(&w.root, "root", "", "explain the outermost calls of functions that match `REGEXP`")
	f.StringVar(&w.slow, "slow", "p99", "which calls are slow: `RULE` is a percentile (p99), top:100, or >5ms")
	f.StringVar(&w.usual, "usual", "p25..p75", "which calls are usual: a `RANGE` of percentiles")
	w.waits.add(f)
	f.StringVar(&w.arg, "arg", "", "look for common arguments of slow calls only in functions that match `REGEXP`")
	addCount(f, &w.depth, "path-depth", "", 1, "look at call paths at most `N` deep below the root")
	f.StringVar(&w.minShare, "min-share", "5%", "report only causes that explain at least `PERCENT` of the lost time")
	w.exemplars = 3
	addCount(f, &w.exemplars, "exemplars", "", 0, "show `N` example slow calls next to the median call")
	f.BoolVar(&w.all, "all", false, "list what each call path contributes")
	f.Uint64Var(&w.seed, "seed", 1, "random seed")
	out.add(f)
	addKeepGoing(f)
	spellings(f, map[string]string{"baseline": "usual", "ordinary": "usual", "func": "root"})
	return cmd
}

// whyFlags are the flags of why.
type whyFlags struct {
	flags             traceFlags
	waits             waitFlags
	root, slow, usual string
	arg               string
	depth             int
	minShare          string
	exemplars         int
	all               bool
	seed              uint64
}

// files are the traces and the options of names for commands that look at the same
// trace.
func (w *whyFlags) files(args []string) string {
	var words []string
	option := func(name string, values ...string) {
		for _, v := range values {
			words = append(words, name, why.ShellQuote(v))
		}
	}
	option("-m", w.flags.maps...)
	option("--symbols", w.flags.symbols...)
	if w.flags.sysroot != "" {
		option("--sysroot", w.flags.sysroot)
	}
	for _, file := range args {
		if file == "-" {
			file = "TRACE"
		}
		words = append(words, why.ShellQuote(file))
	}
	return strings.Join(words, " ")
}

// explain runs the analysis.
func (w *whyFlags) explain(s *session) (*why.Report, *calls.Stats, error) {
	opts, err := w.options(s)
	if err != nil {
		return nil, nil, err
	}
	first := &firstUnmatched{}
	if s.strict {
		opts.Calls.Unmatched = first.see
	}
	stop := s.app.progress(s.name, s.trace)
	report, stats, err := why.Explain(s.trace, opts)
	stop()
	if err == nil {
		err = s.checkStrict(first)
	} else if sums := s.sums(); sums != "" {
		err = usagef("%s: there are no single calls to compare: record the calls themselves", sums)
	}
	return report, stats, err
}

func (w *whyFlags) options(s *session) (why.Options, error) {
	opts := why.Options{
		Seed: w.seed, Clock: s.clock, From: s.filter.From, To: s.filter.To,
		PathDepth: w.depth, MaxPaths: s.paths,
	}
	var err error
	if opts.MinShare, err = parseShare("min-share", w.minShare); err != nil {
		return opts, err
	}
	if opts.MinShare == 0 {
		return opts, usagef("--min-share: must be more than 0%%")
	}
	opts.Calls.Filter.Thread, opts.Calls.Short = s.filter.Thread, s.shortTicks()
	if w.root != "" {
		re, err := regexp.Compile(w.root)
		if err != nil {
			return opts, usagef("--root: %w", err)
		}
		opts.Root, opts.RootLabel = s.chooseFuncs("root", re), w.root
	}
	if w.arg != "" {
		re, err := regexp.Compile(w.arg)
		if err != nil {
			return opts, usagef("--arg: %w", err)
		}
		opts.Argument = s.chooseFuncs("arg", re)
	}
	if opts.Pruned, opts.PrunedKnown, err = s.pruned(); err != nil {
		return opts, err
	}
	if opts.Role, err = w.waits.roles(s); err != nil {
		return opts, err
	}
	if opts.Slow, err = w.rule(s); err != nil {
		return opts, err
	}
	low, high, ok := strings.Cut(strings.ReplaceAll(w.usual, "..", "-"), "-")
	opts.UsualLow, err = parseQuantile(low)
	if err == nil {
		opts.UsualHigh, err = parseQuantile(high)
	}
	if !ok || err != nil || opts.UsualLow >= opts.UsualHigh {
		return opts, usagef("--usual: %q is no range of percentiles like p25..p75", w.usual)
	}
	return opts, nil
}

// rule reads --slow.
func (w *whyFlags) rule(s *session) (r why.Rule, err error) {
	r.Text = w.slow
	if n, ok := strings.CutPrefix(w.slow, "top:"); ok {
		if r.Top, err = strconv.ParseUint(n, 10, 32); err != nil || r.Top == 0 {
			err = usagef("--slow: %q is no number of calls", n)
		}
		return r, err
	}
	if t, ok := strings.CutPrefix(w.slow, ">"); ok {
		if r.Ticks, err = parseTicks("slow", t, s.clock); err == nil && r.Ticks == 0 {
			err = usagef("--slow: %q is no time", t)
		}
		return r, err
	}
	if r.Quantile, err = parseQuantile(w.slow); err != nil {
		err = usagef("--slow: %q is neither a quantile (p99), nor top:N, nor a time (>5ms)", w.slow)
	}
	return r, err
}

// parseQuantile reads p99.5.
func parseQuantile(text string) (float64, error) {
	digits, ok := strings.CutPrefix(text, "p")
	q, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(q >= 0 && q <= 100) {
		return 0, usagef("%q is no quantile like p99", text)
	}
	return q / 100, nil
}

// pruned is the duration in ticks below which the recorder left out calls; known says
// that all of the trace's files say whether it did, and for all of their time.
func (s *session) pruned() (ticks uint64, known bool, err error) {
	ns := uint64(0)
	known = true
	for i := range s.trace.Files() {
		r := s.trace.Recording(i)
		if r == nil {
			known = false
			continue
		}
		ns = max(ns, r.Process.ThresholdNS)
		for _, c := range r.Changes {
			known = known && !strings.Contains(c.What, "threshold") // for some of the time
		}
	}
	if ns == 0 {
		return 0, known, nil
	}
	ticks, err = parseTicks("pruned", time.Duration(min(ns, math.MaxInt64)).String(), s.clock)
	return ticks, known, err
}
