package survey

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// By default, LLVM's recorders drop calls shorter than defaultThreshold, and basic mode drops
// calls deeper than defaultDepth.
const (
	defaultThreshold = 5 * time.Microsecond
	defaultDepth     = 64
)

// ShortTicks returns the duration in ticks below which LLVM's recorders drop calls by default, or 0 if
// the clock frequency is unknown.
func ShortTicks(c reader.Clock) uint64 {
	return c.Frequency / uint64(time.Second/defaultThreshold)
}

// Coverage is what a report says about a trace besides its own numbers.
type Coverage struct {
	Trace *reader.Trace
	Stats *calls.Stats // nil if calls were not rebuilt
	Clock reader.Clock
	Names symbolize.Names
	// PrunedFiles is the number of files whose sums of pruned calls are in the report. PrunedIn
	// names the numbers that include them. "" means count and total.
	PrunedFiles int
	PrunedIn    string
}

// MixedStacks says that the calls of fibers are not told apart.
const MixedStacks = "The program switches stacks (swapcontext or setcontext), and the calls of all stacks of a thread are mixed. Record it with --fibers."

// Caveats returns sentences that say which calls or times the trace lacks. Every report begins
// with them.
func (c *Coverage) Caveats() (list []string) {
	stats := c.Stats
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	var foreign, pruned, summed, lossy int
	var dropped, lost uint64
	var thresholds, depths []uint64
	var conditional, within int // files of calls with conditions, and how deep calls inside them are
	first := uint64(0)
	if stats != nil {
		first = stats.First
	}
	for i := range c.Trace.Files() {
		r := c.Trace.Recording(i)
		if r == nil || r.Foreign() {
			foreign++
			continue
		}
		if n := recordsLost(r); n > 0 {
			lost += n
			lossy++
		}
		switch {
		case r.Process.ThresholdNS > 0:
			thresholds = append(thresholds, r.Process.ThresholdNS)
			pruned++
		case slices.ContainsFunc(r.ChangesSince(first), func(change reader.Change) bool { return strings.Contains(change.What, "threshold") }):
			pruned++
		}
		if n := r.Pruned.Calls(); n > 0 {
			dropped += n
			summed++
		}
		if len(r.When) > 0 {
			conditional, within = conditional+1, max(within, int(r.Process.Depth))
		} else if r.Process.Depth > 0 {
			depths = append(depths, uint64(r.Process.Depth))
		}
	}
	if stats != nil && stats.Stacks > 0 {
		add("%s The numbers of calls are right, but callers and durations may not be.", MixedStacks)
	}
	list = append(list, c.budgetCaveats()...)
	list = append(list, c.windowCaveats(stats)...)
	numbers := cmp.Or(c.PrunedIn, "Count and total")
	const charged = "Counts are too low, and the time of missing calls counts as self time of their callers."
	if pruned > 0 {
		what := "during part of the recording"
		if len(thresholds) > 0 {
			what = "shorter than " + reader.Clock{Frequency: 1e9}.Format(slices.Max(thresholds))
		}
		switch {
		case c.PrunedFiles > 0 && c.PrunedFiles == pruned:
			add("The recorder dropped %s calls %s%s, unless they contain a longer call. %s include them, and their time counts as self time of their callers. "+
				"Min, max and percentiles cover only the recorded calls.", label.Grouped(dropped), what, c.inFiles(pruned), numbers)
		case summed == pruned:
			add("%s calls are missing%s: the recorder dropped those %s, unless they contain a longer call. %s",
				label.Grouped(dropped), c.inFiles(pruned), what, charged)
		default:
			add("Calls are missing%s: the recorder dropped calls %s, unless they contain a longer call. %s", c.inFiles(pruned), what, charged)
		}
	}
	if n := c.PrunedFiles; n > 0 && n < pruned {
		add("%s include the dropped calls of %d of these files. The others contain only the end of the recording.", numbers, n)
	}
	if lost > 0 {
		add("%s missing%s: the recorder lost them. Run `xray info` to see why. A call whose exit is missing ends with its caller.",
			are(lost, "record"), c.inFiles(lossy))
	}
	if len(depths) > 0 {
		add("Calls are missing%s: the recorder dropped calls more than %d deep. Their time counts as self time of their callers.",
			c.inFiles(len(depths)), slices.Min(depths))
	}
	if conditional > 0 {
		add("Calls are missing%s: only calls for which a condition holds were recorded (--when), and at most %d levels of calls inside.",
			c.inFiles(conditional), within)
	}
	if stats == nil {
		return list
	}
	if fact, advice := Piled(stats, foreign == len(c.Trace.Files()), c.Names); fact != "" {
		add("%s %s", fact, advice)
	}
	list = append(list, offCPUCaveats(stats, c.Clock)...)
	list = append(list, c.sumCaveats()...)
	if foreign < len(c.Trace.Files()) {
		return append(list, foldedCaveat(stats)...)
	}
	basic := c.Trace.Header(0).Type == reader.Basic
	option := "XRAY_FDR_OPTIONS"
	if basic {
		option = "XRAY_BASIC_OPTIONS"
	}
	if OnlySums(c.Trace) != "" {
		return append(list, foldedCaveat(stats)...)
	}
	if ended := stats.Calls - stats.Inferred - stats.Truncated; ShortTicks(c.Clock) > 0 && !stats.Short && ended > 100 {
		add("Calls seem to be missing: none is shorter than 5us, and LLVM's recorder drops those unless %s has func_duration_threshold_us=0. %s",
			option, charged)
	}
	if basic && stats.MaxDepth == defaultDepth {
		add("Calls seem to be missing: none is more than %d deep, and LLVM's recorder drops those unless %s has a larger max_stack_depth.",
			defaultDepth, option)
	}
	return append(list, foldedCaveat(stats)...)
}

// LeftOut is what recordings within a budget left out.
type LeftOut struct {
	Counted, Estimated uint64 // calls
	Functions          uint64
	Share              uint64 // the largest budget, in millionths of the CPU time
	Known, Unknown     int    // recordings
}

// unknownLeftOut is why the number of calls that a recording left out is unknown.
const unknownLeftOut = "the trace was made before the end of the recording, or xray was killed"

// Add adds a recording.
func (l *LeftOut) Add(b *reader.Budget) {
	switch {
	case !b.Limited():
	case !b.Known():
		l.Unknown++
	default:
		counted, estimated := b.Calls()
		l.Counted, l.Estimated = l.Counted+counted, l.Estimated+estimated
		l.Functions += uint64(len(b.Functions))
		l.Share = max(l.Share, b.Share)
		l.Known++
	}
}

// Calls returns the number of calls that were left out.
func (l *LeftOut) Calls() uint64 { return l.Counted + l.Estimated }

// With formats the number of these and other calls, which is an estimate if this one is.
func (l *LeftOut) With(others uint64) string {
	about := ""
	if l.Estimated > 0 {
		about = "about "
	}
	return about + label.Grouped(l.Calls()+others)
}

// budgetShare formats a budget.
func budgetShare(share uint64) string { return fmt.Sprintf("%g%% of the CPU time", float64(share)/1e4) }

// budgetCaveats returns sentences about calls that recordings within a budget left out, if there are any.
func (c *Coverage) budgetCaveats() (list []string) {
	var left LeftOut
	for _, r := range c.Trace.Recordings() {
		left.Add(&r.Budget)
	}
	const charged = "The time of missing calls counts as self time of their callers."
	if left.Unknown > 0 {
		list = append(list, fmt.Sprintf("An unknown number of calls is missing%s: the recording has a budget, and %s. %s", c.inFiles(left.Unknown), unknownLeftOut, charged))
	}
	if left.Calls() > 0 {
		list = append(list, fmt.Sprintf("Calls are missing%s: the recording had a budget of %s and did not record %s calls of %s. "+
			"A function without calls may have been called while it was not being recorded. %s",
			c.inFiles(left.Known), budgetShare(left.Share), left.With(0), label.Count(left.Functions, "function", "functions"), charged))
	}
	return list
}

// windowWords says how much of the time a recording with windows covers, or "" if it has none. last is
// the TSC of the last record, or 0.
func windowWords(r *reader.Recording, last uint64) string {
	if r.Process.EveryNS == 0 && len(r.Windows) < 2 || r.Process.Watched != nil {
		return "" // there were none in this part of the recording, or it is of one moment
	}
	sums := r.WindowSums(last)
	if sums.Count == 0 {
		return "none recorded"
	}
	of, clock := "", reader.Clock{Frequency: r.Clock.Frequency}
	if ns := r.Process.WindowNS; ns > 0 {
		of = " of " + time.Duration(min(ns, math.MaxInt64)).String()
	}
	return fmt.Sprintf("%s%s, %v in %v (%.3g%%)", label.Count(uint64(sums.Count), "window", "windows"), of, rounded(clock, sums.Ticks), rounded(clock, sums.Span),
		100*float64(sums.Ticks)/float64(max(sums.Span, 1)))
}

// rounded converts ticks to a duration of about four digits.
func rounded(c reader.Clock, ticks uint64) time.Duration {
	d, unit := time.Duration(min(c.Nanos(ticks), math.MaxInt64)), time.Duration(1)
	for d/unit >= 10_000 {
		unit *= 10
	}
	return d.Round(unit)
}

// windowCaveats returns a sentence about recordings with windows, if there are any.
func (c *Coverage) windowCaveats(stats *calls.Stats) []string {
	n, words, how, ends := 0, "", "", false
	last := uint64(0)
	if stats != nil {
		last = stats.Last
	}
	for _, r := range c.Trace.Recordings() {
		if text := windowWords(r, last); text != "" {
			n++
			words, how, ends = text, "has windows", ends || r.IsEnd()
			if r.Process.EveryNS == 0 {
				how = "was paused"
			}
		}
	}
	text := fmt.Sprintf("The recording %s: %s", how, words)
	switch {
	case n == 0:
		return nil
	case n > 1:
		text = fmt.Sprintf("The recording has windows in %d of %d files", n, len(c.Trace.Files()))
	}
	text += ". Counts, times and shares cover only the windows."
	if ends {
		text += " The rings held only the last records of each thread."
	}
	if stats != nil && stats.Cut > 0 {
		text += fmt.Sprintf(" Calls open at the end include those open at the end of a window (%s).", label.Count(stats.Cut, "call", "calls"))
	}
	if stats != nil && stats.Before > 0 {
		text += fmt.Sprintf(" The report excludes calls that were open when a window began (%s).", label.Count(stats.Before, "call", "calls"))
	}
	return []string{text}
}

// sumCaveats returns a sentence about what files of LLVM's profiling mode lack, if there are any.
func (c *Coverage) sumCaveats() []string {
	n := 0
	for _, r := range c.Trace.Recordings() {
		if r.Foreign() && len(r.Profiles) > 0 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("LLVM's profiling mode records only the number of calls of each path and their total time%s: min, max and percentiles are unknown. "+
		"It omits calls that were open at the end.", c.inFiles(n))
	if c.Trace.Losses().Total[reader.ManyRoots].Losses > 0 {
		text += " Calls may be missing: an outermost function is in a profile many times."
	}
	return []string{text}
}

// are formats a count with its noun and verb, for example "2 records are".
func are(n uint64, one string) string {
	if n == 1 {
		return "1 " + one + " is"
	}
	return label.Grouped(n) + " " + one + "s are"
}

// inFiles returns " in n of all files", or nothing if n is all of them.
func (c *Coverage) inFiles(n int) string {
	if all := len(c.Trace.Files()); n < all {
		return fmt.Sprintf(" in %d of %d files", n, all)
	}
	return ""
}

func foldedCaveat(stats *calls.Stats) (list []string) {
	if stats == nil {
		return nil
	}
	if n := stats.FoldedInProfile; n > 0 {
		list = append(list, fmt.Sprintf("The program has more call paths than the recorder keeps. The others are combined into nodes named (folded), "+
			"which have %s. Counts and times of functions are exact.", label.Count(n, "call", "calls")))
	}
	if n := stats.Folded - stats.FoldedInProfile; n > 0 {
		list = append(list, fmt.Sprintf("The trace has more call paths than fit into --path-memory. The lightest are combined into nodes named (folded), "+
			"which have %s.", label.Count(n, "call", "calls")))
	}
	return list
}

// offCPUCaveats returns caveats about the off-CPU times.
func offCPUCaveats(stats *calls.Stats, clock reader.Clock) (list []string) {
	if stats == nil {
		return nil
	}
	if n := stats.Off.Unknown; n > 0 {
		list = append(list, fmt.Sprintf("%s an unknown length because a seccomp filter was in place. That time counts as CPU time.",
			label.Count(n, "off-CPU period has", "off-CPU periods have")))
	}
	if n := stats.Off.Unqueued; n > 0 {
		list = append(list, fmt.Sprintf("For %s, the kernel did not say how long the thread was runnable. All of that time counts as blocked.",
			label.Count(n, "off-CPU period", "off-CPU periods")))
	}
	if ticks := stats.Off.Recorder; ticks > 0 {
		list = append(list, fmt.Sprintf("Threads waited %s for the recorder. This time counts neither as blocked nor as CPU time.", clock.Format(ticks)))
	}
	return list
}

// OnlySums says how the recorder summarized calls instead of recording them. It returns "" if
// it recorded them.
func OnlySums(t *reader.Trace) string {
	for _, r := range t.Recordings() {
		switch {
		case len(r.Counters) > 0:
			return "the recording has only call counts"
		case len(r.Profiles) > 0:
			return "the recording has only sums per call path"
		}
	}
	return ""
}

// NoOffCPU returns why a trace does not say when threads were off CPU, or "" if it does. All files must say it,
// because unknown times would look like time on the processor.
func NoOffCPU(t *reader.Trace) string {
	for i, file := range t.Files() {
		r := t.Recording(i)
		if r != nil && r.Process.OffCPU != "" {
			continue
		}
		if r != nil && r.Process.NoOffCPU != "" {
			return fmt.Sprintf("%s has no off-CPU times: %s", file, r.Process.NoOffCPU)
		}
		return fmt.Sprintf("%s has no off-CPU times: record it with `xray record`", file)
	}
	return ""
}

// SharedCaveats collects the caveats of several traces that are read one after the other.
type SharedCaveats struct {
	texts []string // each once
	of    map[string]int
}

// Add adds the caveats of a trace.
func (c *SharedCaveats) Add(caveats []string) {
	if c.of == nil {
		c.of = make(map[string]int)
	}
	for _, text := range caveats {
		if c.of[text]++; c.of[text] == 1 {
			c.texts = append(c.texts, text)
		}
	}
}

// List returns the caveats. Those that do not hold for all traces name the number for which they
// do.
func (c *SharedCaveats) List(traces int) []string {
	var list []string
	for _, text := range c.texts {
		if n := c.of[text]; n < traces {
			text = fmt.Sprintf("In %d of %d traces: %s", n, traces, text)
		}
		list = append(list, text)
	}
	return list
}
