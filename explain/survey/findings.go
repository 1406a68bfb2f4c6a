package survey

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// Finding is a warning about a trace. Text and Remedy are sentences.
type Finding struct {
	Name   string // identifies the kind of finding to programs
	Text   string
	Remedy string
}

// Findings returns what is unusual about the trace: losses first, the rest by
// importance. names may be nil.
func (r *Report) Findings(t *reader.Trace, names symbolize.Names) []Finding {
	var all []Finding
	add := func(name, remedy, format string, args ...any) {
		all = append(all, Finding{name, fmt.Sprintf(format, args...), remedy})
	}
	losses := t.Losses()
	for c, total := range losses.Total {
		cause := reader.Cause(c)
		if total.Losses > 0 {
			text := cause.Text() + ": " + label.Count(uint64(total.Losses), "time", "times")
			if total.Bytes > 0 {
				text += ", " + label.Count(uint64(total.Bytes), "byte", "bytes") + " lost"
			}
			add(cause.String(), sentence(r.remedy(cause, t.Header(0))), "%s", sentence(text))
		}
	}
	recorded, counted, leftOff, whole := false, false, false, t.Whole()
	for i := range t.Files() {
		recording := t.Recording(i)
		counted = counted || recording != nil && len(recording.Counters)+len(recording.Profiles) > 0
		if recording != nil && !recording.Foreign() {
			recorded = true
			leftOff = leftOff || leavesAllOff(recording)
			recordingFindings(recording, add)
			clock, _ := t.Clock() // without a frequency, times are ticks
			lateFindings(recording, clock, r.Stats.First, add)
		}
	}
	header := t.Header(0)
	s := &r.Stats
	if s.Events > 0 || header.Type == reader.Profiling {
		r.clockFindings(header, add)
	}
	if s.Events == 0 {
		// Perhaps all records were lost.
		if losses.Count() == 0 && !counted {
			add("no-records", noRecords(header.Type, recorded, leftOff), "The trace has no records.")
		}
		return all
	}
	if !whole {
		r.unmatchedFindings(header, recorded, add)
	}
	r.callFindings(header, recorded, add)
	if fact, advice := Piled(s, !recorded, names); fact != "" {
		add("piled-calls", advice, "%s", fact)
	}
	r.nameFindings(header, recorded, names, add)
	return all
}

// remedy says what to do about a loss, considering the rest of the trace.
func (r *Report) remedy(c reader.Cause, h reader.Header) string {
	switch {
	case c == reader.ShortBlock && h.Version < 3:
		return "the log is damaged there: inspect it with fdr-dump"
	case c == reader.ShortBlock && r.Kinds[reader.Typed] == 0:
		return "the log is damaged there, or the record was a typed event, which LLVM's recorder miscounts. Nothing else is affected"
	case c == reader.DuplicateRun && h.Type == reader.Basic:
		return "no action needed: a forked process wrote records of its parent again, and xray ignores the copies"
	}
	return c.Remedy()
}

// sentence makes a sentence of words that begin in lower case.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

type addFinding func(name, remedy, format string, args ...any)

// noRecords says why a trace is empty.
func noRecords(t reader.Type, recorded, leftOff bool) string {
	if leftOff {
		return "The recorder left off all instrumented functions. See below for the reasons."
	}
	if recorded {
		return "The program called no instrumented function while it was recorded. `xray ctl PID status` counts the instrumented functions. " +
			"Build with -fxray-instruction-threshold=1 to instrument short functions too."
	}
	if t == reader.FDR {
		return "FDR (flight data recorder) mode records nothing by itself. Call __xray_log_init_mode(\"xray-fdr\", ...) and __xray_patch at the start, " +
			"and __xray_log_finalize and __xray_log_flushLog at the end."
	}
	return "Set XRAY_OPTIONS=\"patch_premain=true xray_mode=xray-basic\" and build with -fxray-instruction-threshold=1. " +
		"Let the program end by exit: _exit and crashes lose unwritten records."
}

// leavesAllOff reports whether the recorder records none of the functions with sleds.
func leavesAllOff(recording *reader.Recording) bool {
	var functions, left uint64
	for _, o := range recording.Objects {
		functions += uint64(o.Count)
		for _, l := range o.LeftOff {
			if !l.Counted {
				left += uint64(l.Count)
			}
		}
	}
	return functions > 0 && left == functions
}

func (r *Report) clockFindings(h reader.Header, add addFinding) {
	s := &r.Stats
	// The recorder uses the wall clock in nanoseconds if it does not know the
	// frequency of the TSC. The present is about 1.8e18 ns. A TSC takes decades to
	// get there.
	const year2001 = 1e18
	switch {
	case h.CycleFrequency == 0:
		add("unknown-frequency", "Times are in ticks. If you know the frequency, pass it with --clock-rate. On the machine of the recording, `dmesg | grep -i tsc` shows it.",
			"The header does not state the frequency of the clock.")
	case h.CycleFrequency < 1e3 || h.CycleFrequency > 1e11:
		add("odd-frequency", "If the header is wrong, all times are wrong. Compare them with times that you know, or use ticks.",
			"The header states an implausible clock frequency: %d ticks per second.", h.CycleFrequency)
	case h.CycleFrequency == 1e9 && r.MaxCPU == 0 && s.First > year2001:
		add("emulated-clock", "Each read costs tens of nanoseconds, so durations below about 100 ns are unreliable. "+
			"If the kernel reports the frequency of the TSC, the recorder uses the TSC.",
			"The trace uses the wall clock, not the TSC, as is common in virtual machines.")
	}
	if s.ClockSteps > 0 {
		add("clock-steps", "A step counts as no time. Durations around it are too short or too long by its size.",
			"The clock went backwards %s, by %s in total.", label.Count(s.ClockSteps, "time", "times"), reader.Clock{Frequency: h.CycleFrequency}.Format(s.ClockBack))
	}
}

// unmatchedFindings tells about exits without an entry. If the trace has all records since its recording
// began, they say nothing new: the calls began before.
func (r *Report) unmatchedFindings(h reader.Header, recorded bool, add addFinding) {
	s := &r.Stats
	if s.Unmatched > 0 {
		remedy := "Recording began in the middle of these calls. Their durations are unknown."
		switch {
		case recorded:
			remedy += " A larger ring keeps more of the past (--ring)."
		case h.Type == reader.FDR:
			remedy += " Larger or more buffers keep more of the past (buffer_size, buffer_max)."
		}
		add("unmatched-exits", remedy, "%s no entry.", label.Count(s.Unmatched, "exit has", "exits have"))
	}
	var onlyExits int
	for _, t := range r.Threads {
		if t.Entries == 0 && t.Unmatched > 0 {
			onlyExits++
		}
	}
	if onlyExits > 0 {
		add("only-exits", "The entries were overwritten, or belong to the process that forked.",
			"%s exits but no entries.", label.Count(uint64(onlyExits), "thread has", "threads have"))
	}
}

func (r *Report) callFindings(h reader.Header, recorded bool, add addFinding) {
	s := &r.Stats
	if s.Earlier > 0 {
		add("earlier-calls", "Only their time in the trace counts, and they are not among calls that returned.",
			"%s before the trace.", label.Count(s.Earlier, "call began", "calls began"))
	}
	if open := s.Truncated - s.Cut; open > 0 {
		add("open-calls", "stack, convert, and the self and total times of account count them up to the last record of their thread. graph counts only their self time.",
			"%s still open at the end of the trace.", label.Count(open, "call is", "calls are"))
	}
	if s.Inferred > 0 {
		add("inferred-ends", inferredRemedy(recorded),
			"%s no exit record.", label.Count(s.Inferred, "call has", "calls have"))
	}
	if s.Stacks > 0 {
		add("mixed-stacks", "The numbers of calls are right. Callers and durations may not be: a call may end when one of another stack does.",
			"%s", MixedStacks)
	}
	if h.Type != reader.Basic {
		return
	}
	// Defaults of the recorder that hide calls.
	threshold := h.CycleFrequency / 200_000 // 5 microseconds
	if threshold > 0 && r.Shortest != math.MaxUint64 && r.Shortest >= threshold && r.Exited > 100 {
		add("duration-filter", "Set func_duration_threshold_us=0 in XRAY_BASIC_OPTIONS to record all calls.",
			"No call is shorter than 5us. By default, the recorder drops shorter calls.")
	}
	if s.MaxDepth == 64 {
		add("depth-limit", "Raise max_stack_depth in XRAY_BASIC_OPTIONS to record them.",
			"Calls are at most 64 deep. By default, the recorder drops deeper calls.")
	}
}

// inferredRemedy says why calls have no exit, and how xray ends them.
func inferredRemedy(recorded bool) string {
	if recorded {
		return "Tail calls cause this, and exceptions and longjmp in static programs. xray ends such a call when its caller ends."
	}
	return "Tail calls, exceptions and longjmp cause this. xray ends such a call when its caller ends."
}

func (r *Report) nameFindings(h reader.Header, recorded bool, names symbolize.Names, add addFinding) {
	objects := map[uint32]int{}
	unknown, nameless := unnamed(r.Funcs, names)
	for _, id := range r.Funcs {
		if object := uint32(id) >> 24; object != 0 && !recorded {
			objects[object]++
		}
	}
	if len(objects) > 0 {
		var list []string
		for object := range uint32(256) {
			if n := objects[object]; n > 0 {
				list = append(list, fmt.Sprintf("object %d (%d)", object, n))
			}
		}
		remedy := "Pass the file of each object with --object N=FILE, or the program with --object auto. Objects are numbered from 1 in the order in which they were loaded."
		if h.Type == reader.FDR {
			remedy += " FDR logs keep only 4 bits of the number, so object 16 looks like the program."
		}
		add("shared-objects", remedy, "The trace has functions of shared objects: %s.", strings.Join(list, ", "))
	}
	switch {
	case names == nil:
		add("no-map", "Pass the traced binary, or a map from `xray extract`, with -m.",
			"Functions are shown by ID.")
	case len(unknown) > 0:
		add("unknown-functions", "Pass the map of the exact build that was traced. Shared objects need their own maps.",
			"%s not in the map: %s.", label.Count(uint64(len(unknown)), "function is", "functions are"), idList(unknown))
	}
	if len(nameless) > 0 {
		add("nameless-functions", "The binary is stripped. Pass the one with symbols.",
			"%s no symbol: %s.", label.Count(uint64(len(nameless)), "function has", "functions have"), idList(nameless))
	}
}

// unnamed returns the functions that are not in the map, and those that are in it
// without a name.
func unnamed(ids []reader.FuncID, names symbolize.Names) (unknown, nameless []reader.FuncID) {
	if names == nil {
		return nil, nil
	}
	for _, id := range ids {
		switch sym, ok := names.Func(id); {
		case !ok:
			unknown = append(unknown, id)
		case sym.Name == "":
			nameless = append(nameless, id)
		}
	}
	return unknown, nameless
}

// idList shows the first few ids.
func idList(ids []reader.FuncID) string {
	const shown = 8
	var list []string
	for _, id := range ids[:min(len(ids), shown)] {
		list = append(list, fmt.Sprintf("#%d", id))
	}
	if len(ids) > shown {
		list = slices.Concat(list, []string{"..."})
	}
	return strings.Join(list, " ")
}
