package session

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
)

// By default, LLVM's recorders drop calls shorter than defaultThreshold, and basic mode drops
// calls deeper than defaultDepth.
const (
	defaultThreshold = 5 * time.Microsecond
	defaultDepth     = 64
)

// ShortTicks returns defaultThreshold in ticks, or 0 if the clock frequency is unknown.
func (s *Session) ShortTicks() uint64 {
	return s.Clock.Frequency / uint64(time.Second/defaultThreshold)
}

// Caveats returns sentences that say which calls or times the trace lacks. Every report begins
// with them. run.Stats is nil if calls were not rebuilt.
func (s *Session) Caveats(run *Run) []string {
	if s.summed != nil {
		return s.summedCaveats(run)
	}
	list, stats := slices.Clone(run.Caveats), run.Stats
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	var foreign, pruned, summed, lossy int
	var dropped, lost uint64
	var thresholds, depths []uint64
	first := uint64(0)
	if stats != nil {
		first = stats.First
	}
	for i := range s.Trace.Files() {
		r := s.Trace.Recording(i)
		if r == nil || r.Foreign() {
			foreign++
			continue
		}
		if n := survey.RecordsLost(r); n > 0 {
			lost += n
			lossy++
		}
		switch {
		case r.Process.ThresholdNS > 0:
			thresholds = append(thresholds, r.Process.ThresholdNS)
			pruned++
		case slices.ContainsFunc(r.ChangesSince(first), func(c reader.Change) bool { return strings.Contains(c.What, "threshold") }):
			pruned++
		}
		if n := r.Pruned.Calls(); n > 0 {
			dropped += n
			summed++
		}
		if r.Process.Depth > 0 {
			depths = append(depths, uint64(r.Process.Depth))
		}
	}
	list = append(list, s.budgetCaveats()...)
	list = append(list, s.windowCaveats(stats)...)
	numbers := cmp.Or(run.PrunedIn, "Count and total")
	const charged = "Counts are too low, and the time of missing calls counts as self time of their callers."
	if pruned > 0 {
		what := "during part of the recording"
		if len(thresholds) > 0 {
			what = "shorter than " + reader.Clock{Frequency: 1e9}.Format(slices.Max(thresholds))
		}
		switch {
		case run.PrunedFiles > 0 && run.PrunedFiles == pruned:
			add("The recorder dropped %s calls %s%s, unless they contain a longer call. %s include them, and their time counts as self time of their callers. "+
				"Min, max and percentiles cover only the recorded calls.", label.Grouped(dropped), what, s.inFiles(pruned), numbers)
		case summed == pruned:
			add("%s calls are missing%s: the recorder dropped those %s, unless they contain a longer call. %s",
				label.Grouped(dropped), s.inFiles(pruned), what, charged)
		default:
			add("Calls are missing%s: the recorder dropped calls %s, unless they contain a longer call. %s", s.inFiles(pruned), what, charged)
		}
	}
	if n := run.PrunedFiles; n > 0 && n < pruned {
		add("%s include the dropped calls of %d of these files. The others contain only the end of the recording.", numbers, n)
	}
	if lost > 0 {
		add("%s missing%s: the recorder lost them. Run `xray info` to see why. A call whose exit is missing ends with its caller.",
			are(lost, "record"), s.inFiles(lossy))
	}
	if len(depths) > 0 {
		add("Calls are missing%s: the recorder dropped calls more than %d deep. Their time counts as self time of their callers.",
			s.inFiles(len(depths)), slices.Min(depths))
	}
	if stats == nil {
		return list
	}
	if fact, advice := survey.Piled(stats, foreign == len(s.Trace.Files()), s.Names); fact != "" {
		add("%s %s", fact, advice)
	}
	list = append(list, offCPUCaveats(stats, s.Clock)...)
	list = append(list, s.sumCaveats()...)
	if foreign < len(s.Trace.Files()) {
		return append(list, foldedCaveat(stats)...)
	}
	basic := s.Trace.Header(0).Type == reader.Basic
	option := "XRAY_FDR_OPTIONS"
	if basic {
		option = "XRAY_BASIC_OPTIONS"
	}
	if s.OnlySums() != "" {
		return append(list, foldedCaveat(stats)...)
	}
	if ended := stats.Calls - stats.Inferred - stats.Truncated; s.ShortTicks() > 0 && !stats.Short && ended > 100 {
		add("Calls seem to be missing: none is shorter than 5us, and LLVM's recorder drops those unless %s has func_duration_threshold_us=0. %s",
			option, charged)
	}
	if basic && stats.MaxDepth == defaultDepth {
		add("Calls seem to be missing: none is more than %d deep, and LLVM's recorder drops those unless %s has a larger max_stack_depth.",
			defaultDepth, option)
	}
	return append(list, foldedCaveat(stats)...)
}

// budgetCaveats returns sentences about calls that recordings within a budget left out, if there are any.
func (s *Session) budgetCaveats() []string {
	var list []string
	var n, unknown int
	var missing, functions, share uint64
	estimated := false
	for _, r := range s.recordings() {
		if !r.Budget.Limited() {
			continue
		}
		if !r.Budget.Known() {
			unknown++
			continue
		}
		counted, guessed := r.Budget.Calls()
		n++
		share = max(share, r.Budget.Share)
		missing += counted + guessed
		functions += uint64(len(r.Budget.Functions))
		estimated = estimated || guessed > 0
	}
	if unknown > 0 {
		list = append(list, fmt.Sprintf("An unknown number of calls is missing%s: the recording has a budget, and the trace was made before its end, or xray was killed. "+
			"The time of missing calls counts as self time of their callers.", s.inFiles(unknown)))
	}
	if n == 0 || missing == 0 {
		return list
	}
	about := ""
	if estimated {
		about = "about "
	}
	return append(list, fmt.Sprintf("Calls are missing%s: the recording had a budget of %g%% of the CPU time and did not record %s%s calls of %s. "+
		"A function without calls may have been called while it was not being recorded. The time of missing calls counts as self time of their callers.",
		s.inFiles(n), float64(share)/1e4, about, label.Grouped(missing), label.Count(functions, "function", "functions")))
}

// WindowWords says how much of the time a recording with windows covers, or "" if it has none. last is
// the TSC of the last record, or 0.
func WindowWords(r *reader.Recording, last uint64) string {
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

// RecordedTicks returns a function that says how much of a time was recorded in a file, or nil if no
// recording has windows.
func (s *Session) RecordedTicks() func(file int32, from, to uint64) uint64 {
	if s.Trace == nil || !slices.ContainsFunc(s.recordings(), (*reader.Recording).Windowed) {
		return nil
	}
	return func(file int32, from, to uint64) uint64 {
		if r := s.Trace.Recording(int(file)); r != nil {
			return r.RecordedTicks(from, to)
		}
		return to - from
	}
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
func (s *Session) windowCaveats(stats *calls.Stats) []string {
	n, words, how, ends := 0, "", "", false
	last := uint64(0)
	if stats != nil {
		last = stats.Last
	}
	for _, r := range s.recordings() {
		if text := WindowWords(r, last); text != "" {
			n++
			words, how, ends = text, "has windows", ends || IsEnd(r)
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
		text = fmt.Sprintf("The recording has windows in %d of %d files", n, len(s.Trace.Files()))
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
func (s *Session) sumCaveats() []string {
	files := s.Trace.Files()
	n := 0
	for i := range files {
		if r := s.Trace.Recording(i); r != nil && r.Foreign() && len(r.Profiles) > 0 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("LLVM's profiling mode records only the number of calls of each path and their total time%s: min, max and percentiles are unknown. "+
		"It omits calls that were open at the end.", s.inFiles(n))
	if s.Trace.Losses().Total[reader.ManyRoots].Losses > 0 {
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
func (s *Session) inFiles(n int) string {
	if all := len(s.Trace.Files()); n < all {
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

// TellCaveats writes caveats to standard error, each after the prefix where.
func TellCaveats(streams *cli.Streams, where string, caveats []string) {
	for _, caveat := range caveats {
		streams.Say("%s%s", where, caveat)
	}
}

// TellCaveats writes the caveats of a run to standard error, each after the prefix where.
func (s *Session) TellCaveats(where string, run *Run) {
	TellCaveats(s.Streams, where, s.Caveats(run))
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
