package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// traceFlags are the flags of subcommands that read traces.
type traceFlags struct {
	nameFlags
	group  bool
	strict bool
	filter filterFlags
	paths  pathFlags
}

func (f *traceFlags) add(flags *pflag.FlagSet) {
	f.nameFlags.add(flags)
	f.addGroup(flags)
	f.addStrict(flags)
	f.filter.add(flags)
}

func (f *traceFlags) addGroup(flags *pflag.FlagSet) {
	flags.BoolVar(&f.group, "group-templates", false, "take all instances of a template for one function")
}

func (f *traceFlags) addStrict(flags *pflag.FlagSet) {
	flags.BoolVar(&f.strict, "strict", false, "fail when anything of the trace was lost")
}

// filterFlags are the flags that choose calls.
type filterFlags struct {
	threads  []string
	function string
	timeFlags
	minDuration string
	maxDepth    int
}

func (f *filterFlags) add(flags *pflag.FlagSet) {
	f.addPlace(flags)
	flags.StringVar(&f.function, "func", "", "only calls of functions whose name matches `REGEXP`")
	flags.StringVar(&f.minDuration, "min-duration", "", "only calls that take at least `TIME`")
	addCount(flags, &f.maxDepth, "max-depth", "", 1, "only calls made at most `N` deep; 1 are the outermost")
}

// addPlace adds the flags that choose calls by thread and time.
func (f *filterFlags) addPlace(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.threads, "thread", nil, "only calls of this `THREAD`: an id, or PROCESS/THREAD; repeatable")
	f.timeFlags.add(flags)
}

// session is one run over a trace: the trace, its names and its clock.
type session struct {
	app    *app
	name   string // of the subcommand
	style  string // of names; "" unless it was given
	trace  *reader.Trace
	names  symbolize.Names                   // nil without a map
	packed bool                              // names are from the trace itself
	tables func(object int) *symbolize.Table // of names, by object; nil without a map
	clock  reader.Clock
	// trusted are the tables whose debug information may name files to be read.
	trusted []*symbolize.Table
	// alias says which function each one is taken for; nil where each is itself.
	alias  func(reader.FuncID) reader.FuncID
	strict bool
	// prunedAdded is how many files' sums of pruned calls are in the report, and prunedIn
	// which of its numbers have them; "" for those that account has.
	prunedAdded int
	prunedIn    string
	added       []string // caveats of the command
	paths       int      // how many call paths a tree may have; 0 is no bound
	filter      calls.Filter
	spans       []convert.Span // the times that the filter is about; at least one
	// notes say, after a run, where a filter chose nothing; "" when it did.
	notes []func() string
	// first and last are the smallest and largest TSC, once they are known.
	first, last uint64
	spanKnown   bool
	threads     int // how many there are, once the span is known
	// missing are the recorded objects that names has no file of.
	missing    []symbolize.Missing
	closeNames func() error // nil while there are none
}

// open opens the traces and maps that a command line names.
func (a *app) open(cmd *cobra.Command, f *traceFlags, paths []string) (s *session, err error) {
	if err := f.filter.check(); err != nil {
		return nil, err
	}
	s = &session{app: a, name: cmd.Name(), style: f.style, strict: f.strict, paths: f.paths.most()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.trace, err = reader.Open(reader.Options{Stdin: a.stdin}, paths...); err != nil {
		return s, explainTrace(err)
	}
	if err = s.openNames(&f.nameFlags); err != nil {
		return s, err
	}
	if f.group {
		if s.names == nil {
			return s, usagef("--group-templates: the functions have no names: give the traced program with -m")
		}
		templates := symbolize.GroupTemplates(s.names)
		s.names, s.alias = templates, templates.Alias
	}
	frequency, err := s.trace.CycleFrequency()
	if err != nil {
		return s, err
	}
	s.clock = reader.Clock{Frequency: frequency}
	s.filter, err = f.filter.build(s)
	return s, err
}

func (s *session) close() error {
	var err error
	if s.trace != nil {
		err = s.trace.Close()
	}
	if s.closeNames != nil {
		err = errors.Join(err, s.closeNames())
	}
	return err
}

// analyse runs one analysis over the calls of the trace that the command line
// chose. What opts says of the choice and of aliases is overwritten.
func analyse[S calls.Analysis[S]](s *session, opts calls.Options, newSink func() S) (S, *calls.Stats, error) {
	opts.Filter, opts.Alias, opts.Short = s.filter, s.alias, s.shortTicks()
	if s.paths > 0 && opts.Budget == nil {
		opts.Budget = calls.NewPathBudget(s.paths)
	}
	first := &firstUnmatched{}
	if s.strict && opts.Unmatched == nil {
		opts.Unmatched = first.see
	}
	stop := s.app.progress(s.name, s.trace)
	sink, stats, err := calls.Run(calls.Source(s.trace), opts, newSink)
	stop()
	if err != nil {
		return sink, stats, err
	}
	if to, ok := any(sink).(calls.SumSink); ok {
		if err := calls.RunSums(s.trace, opts, to, stats); err != nil {
			return sink, stats, err
		}
	}
	return sink, stats, s.checkStrict(first)
}

// checkStrict is the error of a run under --strict that lost something.
func (s *session) checkStrict(unmatched *firstUnmatched) error {
	if !s.strict {
		return nil
	}
	losses := s.trace.Losses()
	if first, ok := losses.First(); ok {
		return fmt.Errorf("%v (%d in all)", first, losses.Count())
	}
	if n := unmatched.count; n > 0 {
		u := unmatched.first
		return fmt.Errorf("%s: thread %d/%d: exit of %s at %d ticks has no entry (%d in all)",
			s.trace.Files()[u.thread.File], u.thread.Process, u.thread.Thread,
			symbolize.Label(s.names, u.event.Func), u.event.TSC, n)
	}
	return nil
}

// firstUnmatched finds the unmatched exit that is reported, which must not
// depend on how the trace was shared among goroutines.
type firstUnmatched struct {
	mu    sync.Mutex
	count int
	first struct {
		thread reader.Thread
		event  reader.Event
	}
}

func (f *firstUnmatched) see(u *calls.Unmatched) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if f.count == 1 || u.Event.TSC < f.first.event.TSC {
		f.first.thread, f.first.event = u.Thread, u.Event
	}
	return nil
}

// summary tells on standard error, in one line, what the report does not
// cover. stats is nil when no calls were rebuilt.
func (s *session) summary(stats *calls.Stats) {
	for _, note := range s.notes {
		if text := note(); text != "" {
			fmt.Fprintf(s.app.stderr, "xray: %s\n", text)
		}
	}
	var parts []string
	losses := s.trace.Losses()
	if n := losses.Count(); n > 0 {
		var causes []string
		for c, total := range losses.Total {
			if total.Losses > 0 {
				causes = append(causes, fmt.Sprintf("%d %v", total.Losses, reader.Cause(c)))
			}
		}
		parts = append(parts, fmt.Sprintf("%s: %s", plural(n, "loss", "losses"), strings.Join(causes, ", ")))
	}
	if stats != nil && stats.Calls == 0 {
		if sums := s.sums(); sums != "" {
			parts = append(parts, sums)
		}
	}
	if stats != nil && stats.Unmatched > 0 {
		parts = append(parts, plural(int64(stats.Unmatched), "exit", "exits")+" without an entry")
	}
	if len(parts) > 0 {
		s.app.say("%s; `xray info %s` says more",
			strings.Join(parts, "; "), strings.Join(s.trace.Files(), " "))
	}
}

// sums says what the recorder did with calls instead of recording them; "" when it
// recorded them.
func (s *session) sums() string {
	for i := range s.trace.Files() {
		switch r := s.trace.Recording(i); {
		case r == nil:
		case len(r.Counters) > 0:
			return "calls were only counted"
		case len(r.Profiles) > 0:
			return "calls were only added up, by path"
		}
	}
	return ""
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// start is the smallest timestamp of the trace, from a pass of its own.
func (s *session) start() (uint64, error) {
	if s.spanKnown {
		return s.first, nil
	}
	stop := s.app.progress(s.name, s.trace)
	defer stop()
	var mu sync.Mutex
	first, last, threads := uint64(math.MaxUint64), uint64(0), 0
	err := s.trace.Each(0, func(_ int, b *reader.Block) error {
		least, most := uint64(math.MaxUint64), uint64(0)
		for i := range b.Events {
			least, most = min(least, b.Events[i].TSC), max(most, b.Events[i].TSC)
		}
		mu.Lock()
		defer mu.Unlock()
		first, last, threads = min(first, least), max(last, most), max(threads, b.Index+1)
		return nil
	})
	if first == math.MaxUint64 {
		first = 0
	}
	s.first, s.last, s.threads, s.spanKnown = first, last, threads, true
	return first, err
}

// build turns flags into a filter, which may take a pass over the trace.
func (f *filterFlags) build(s *session) (calls.Filter, error) {
	filter := calls.Filter{MaxDepth: uint32(f.maxDepth)}
	var err error
	if filter.MinDuration, err = parseTicks("min-duration", f.minDuration, s.clock); err != nil {
		return filter, err
	}
	if f.function != "" {
		re, err := regexp.Compile(f.function)
		if err != nil {
			return filter, usagef("--func: %w", err)
		}
		filter.Func = s.chooseFuncs("func", re)
	}
	if filter.Thread, err = s.chooseThreads(f.threads); err != nil {
		return filter, err
	}
	if s.spans, err = f.timeFlags.spans(s); err != nil {
		return filter, err
	}
	filter.From, filter.To = s.spans[0].From, s.spans[len(s.spans)-1].To
	return filter, nil
}

func saturatingAdd(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}

// parseTicks reads a time of the command line: a duration as Go writes it, or a
// number of ticks.
func parseTicks(flag, s string, c reader.Clock) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	if digits, ok := strings.CutSuffix(s, "ticks"); ok {
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 64)
		if err != nil {
			return 0, usagef("--%s: %q is no number of ticks", flag, s)
		}
		return n, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, usagef("--%s: %q is no time: write 1.5s, 200ms, 3us or 1000ticks", flag, s)
	}
	if !c.Known() {
		return 0, usagef("--%s: the trace does not say how long a tick is: write %q in ticks, as in 1000ticks", flag, s)
	}
	hi, lo := bits.Mul64(uint64(d), c.Frequency)
	if hi >= uint64(time.Second) {
		return math.MaxUint64, nil
	}
	ticks, _ := bits.Div64(hi, lo, uint64(time.Second))
	return ticks, nil
}

// chooseFuncs keeps the functions whose name matches what a flag says. An expression with a # may
// also mean the id of a function that has a name.
func (s *session) chooseFuncs(flag string, re *regexp.Regexp) func(reader.FuncID) bool {
	byID := s.names != nil && strings.Contains(re.String(), "#")
	var found atomic.Bool
	s.notes = append(s.notes, func() string {
		switch {
		case found.Load():
			return ""
		case s.names == nil:
			return fmt.Sprintf("no function matches --%s %q; without a map (-m) functions are called by number, like #18", flag, re)
		}
		return fmt.Sprintf("no function that was called matches --%s %q", flag, re)
	})
	return func(id reader.FuncID) bool {
		keep := re.MatchString(symbolize.Label(s.names, id)) || byID && re.MatchString(symbolize.Label(nil, id))
		if keep {
			found.Store(true)
		}
		return keep
	}
}

// chooseThreads makes a filter of --thread flags; nil when there are none.
func (s *session) chooseThreads(args []string) (func(reader.Thread) bool, error) {
	if len(args) == 0 {
		return nil, nil
	}
	type wanted struct {
		process, thread int32
		anyProcess      bool
	}
	var list []wanted
	for _, arg := range args {
		process, thread, pair := strings.Cut(arg, "/")
		if !pair {
			process, thread = "0", arg
		}
		p, err1 := strconv.ParseInt(process, 10, 32)
		t, err2 := strconv.ParseInt(thread, 10, 32)
		if err1 != nil || err2 != nil {
			return nil, usagef("--thread: %q is neither a thread id nor PROCESS/THREAD", arg)
		}
		list = append(list, wanted{int32(p), int32(t), !pair})
	}
	matches := func(w wanted, t reader.Thread) bool {
		return w.thread == t.Thread && (w.anyProcess || w.process == t.Process)
	}
	var mu sync.Mutex
	seen := make(map[reader.Thread]bool)
	for i, w := range list {
		s.notes = append(s.notes, func() string {
			var there []reader.Thread
			for t := range seen {
				if matches(w, t) {
					return ""
				}
				there = append(there, t)
			}
			return fmt.Sprintf("no thread %s; the threads are %s", args[i], threadList(there))
		})
	}
	return func(t reader.Thread) bool {
		mu.Lock()
		seen[t] = true
		mu.Unlock()
		return slices.ContainsFunc(list, func(w wanted) bool { return matches(w, t) })
	}, nil
}

// threadList names the first few threads as --thread takes them.
func threadList(threads []reader.Thread) string {
	slices.SortFunc(threads, func(a, b reader.Thread) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Thread, b.Thread))
	})
	var words []string
	for _, t := range threads {
		words = append(words, fmt.Sprintf("%d/%d", t.Process, t.Thread))
	}
	return shortList(slices.Compact(words), 20)
}

// streamed makes an analysis of a sink that cannot be merged, for runs with one
// shard.
type streamed struct{ calls.Sink }

// Merge is never called: there is nothing to merge with one shard.
func (streamed) Merge(streamed) {}
