package survey

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Finding is something about a trace that one should know.
type Finding struct {
	Name   string // of the kind of finding, for programs
	Text   string
	Remedy string
}

// Findings says what is odd about the trace: what was lost first, the rest in
// the order in which it matters. names may be nil.
func (r *Report) Findings(t *reader.Trace, names symbolize.Names) []Finding {
	var all []Finding
	add := func(name, remedy, format string, args ...any) {
		all = append(all, Finding{name, fmt.Sprintf(format, args...), remedy})
	}
	losses := t.Losses()
	for c, total := range losses.Total {
		cause := reader.Cause(c)
		if total.Losses > 0 {
			text := fmt.Sprintf("%s: %s", times(uint64(total.Losses)), cause.Text())
			if total.Bytes > 0 {
				text += fmt.Sprintf("; %d %s lost", total.Bytes, plural(uint64(total.Bytes), "byte", "bytes"))
			}
			add(cause.String(), r.remedy(cause, t.Header(0)), "%s", text)
		}
	}
	recorded, counted := false, false
	for i := range t.Files() {
		if recording := t.Recording(i); recording != nil && !recording.Foreign() {
			recorded = true
			counted = counted || len(recording.Counters)+len(recording.Profiles) > 0
			recordingFindings(recording, add)
			clock, _ := t.Clock() // without a frequency, times are ticks
			lateFindings(recording, clock, r.Stats.First, add)
		}
	}
	header := t.Header(0)
	s := &r.Stats
	if s.Events == 0 {
		// What was lost may have been all records.
		if losses.Count() == 0 && !counted {
			add("no-records", noRecords(header.Type, recorded), "the trace has no records")
		}
		return all
	}
	r.clockFindings(header, add)
	r.callFindings(header, recorded, add)
	if fact, advice := Piled(s, !recorded, names); fact != "" {
		add("piled-calls", advice, "%s", fact)
	}
	r.nameFindings(header, recorded, names, add)
	return all
}

// remedy says what to do about a loss, as far as the rest of the trace tells.
func (r *Report) remedy(c reader.Cause, h reader.Header) string {
	switch {
	case c == reader.ShortBlock && h.Version < 3:
		return "the log is damaged there: look at it with fdr-dump"
	case c == reader.ShortBlock && r.Kinds[reader.Typed] == 0:
		return "the log is damaged there, or the record was a typed event, with which the recorder miscounts; nothing else is affected"
	case c == reader.DuplicateRun && h.Type == reader.Basic:
		return "none needed: a process that forked wrote records of its parent again, and the copies are left out"
	}
	return c.Remedy()
}

type addFinding func(name, remedy, format string, args ...any)

// noRecords says how an empty trace comes about.
func noRecords(t reader.Type, recorded bool) string {
	if recorded {
		return "the program called no instrumented function while it was recorded: `xray ctl PID status` counts them; " +
			"build with -fxray-instruction-threshold=1 to instrument short ones too"
	}
	if t == reader.FDR {
		return "flight data recorder mode records nothing by itself: call __xray_log_init_mode(\"xray-fdr\", ...) and __xray_patch, " +
			"and at the end __xray_log_finalize and __xray_log_flushLog"
	}
	return "set XRAY_OPTIONS=patch_premain=true xray_mode=xray-basic, build with -fxray-instruction-threshold=1, " +
		"and let the program end by exit: _exit and crashes lose what was not written"
}

func (r *Report) clockFindings(h reader.Header, add addFinding) {
	s := &r.Stats
	// The recorder takes the wall clock in nanoseconds where it cannot tell how
	// fast the TSC is. Now is about 1.8e18 of those; a TSC gets there after
	// decades.
	const year2001 = 1e18
	switch {
	case h.CycleFrequency == 0:
		add("unknown-frequency", "times are shown in ticks; nothing else is affected",
			"the header does not say how many ticks make a second")
	case h.CycleFrequency < 1e3 || h.CycleFrequency > 1e11:
		add("odd-frequency", "times are wrong if the header is: compare them with what you know of the program, or go by the ticks",
			"no clock makes %d ticks a second, as the header says", h.CycleFrequency)
	case h.CycleFrequency == 1e9 && r.MaxCPU == 0 && s.First > year2001:
		add("emulated-clock", "reading it costs tens of nanoseconds a record, so do not trust the shortest calls; "+
			"on a machine whose kernel tells the TSC's frequency the recorder uses that",
			"the clock is the wall clock in nanoseconds, not a processor's counter: usual in virtual machines")
	}
	if s.ClockSteps > 0 {
		add("clock-steps", "steps count as no time at all; durations around them are too short or too long by as much",
			"the clock went backwards %s, by %s in all", times(s.ClockSteps), reader.Clock{Frequency: h.CycleFrequency}.Format(s.ClockBack))
	}
}

func (r *Report) callFindings(h reader.Header, recorded bool, add addFinding) {
	s := &r.Stats
	if s.Unmatched > 0 {
		remedy := "recording began in the middle of calls: the durations of those calls are unknown"
		switch {
		case recorded:
			remedy += "; a larger ring keeps more of the past (--ring)"
		case h.Type == reader.FDR:
			remedy += "; larger or more buffers keep more of the past (xray_fdr_log buffer_size, buffer_max)"
		}
		add("unmatched-exits", remedy, "%s no entry", have(s.Unmatched, "exit", "exits"))
	}
	var onlyExits int
	for _, t := range r.Threads {
		if t.Entries == 0 && t.Exits > 0 {
			onlyExits++
		}
	}
	if onlyExits > 0 {
		add("only-exits", "their entries were overwritten, or belong to the process that forked",
			"%s exits and not one entry", have(uint64(onlyExits), "thread", "threads"))
	}
	if s.Truncated > 0 {
		add("open-calls", "stack, convert, and the self and total times of account count them up to their thread's last record; graph leaves them out",
			"%s still open when the trace ends", are(s.Truncated, "call", "calls"))
	}
	if s.Inferred > 0 {
		add("inferred-ends", inferredRemedy(recorded),
			"%s no exit record", have(s.Inferred, "call", "calls"))
	}
	if h.Type != reader.Basic {
		return
	}
	// Defaults of the recorder that hide calls.
	threshold := h.CycleFrequency / 200_000 // 5 microseconds
	if threshold > 0 && r.Shortest != math.MaxUint64 && r.Shortest >= threshold && r.Exited > 100 {
		add("duration-filter", "set func_duration_threshold_us=0 in XRAY_BASIC_OPTIONS to record all calls",
			"no call is shorter than 5us: by default, the recorder drops those")
	}
	if s.MaxDepth == 64 {
		add("depth-limit", "set max_stack_depth in XRAY_BASIC_OPTIONS",
			"calls are 64 deep at most: by default, the recorder drops deeper ones")
	}
}

// inferredRemedy says why calls have no exit, and what becomes of them.
func inferredRemedy(recorded bool) string {
	if recorded {
		return "tail calls leave functions without an exit record, and so do exceptions and longjmp in static programs; " +
			"xray ends such a call when its caller ends"
	}
	return "tail calls, exceptions and longjmp leave functions without an exit record; xray ends such a call when its caller ends"
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
		remedy := "give the file of each object with --object N=FILE, or the program and --object auto; they are numbered in the order in which they were loaded, from 1"
		if h.Type == reader.FDR {
			remedy += "; this format keeps only 4 bits of the number, so that object 16 looks like the program itself"
		}
		add("shared-objects", remedy, "functions of shared objects: %s", strings.Join(list, ", "))
	}
	switch {
	case names == nil:
		add("no-map", "give the traced binary, or the map that `xray extract` made of it, with -m",
			"functions are shown by number")
	case len(unknown) > 0:
		add("unknown-functions", "is the map of the very build that was traced? shared objects need maps of their own",
			"%s not in the map: %s", are(uint64(len(unknown)), "function", "functions"), idList(unknown))
	}
	if len(nameless) > 0 {
		add("nameless-functions", "the binary was stripped: use the one with symbols",
			"%s no symbol: %s", have(uint64(len(nameless)), "function", "functions"), idList(nameless))
	}
}

// unnamed picks the functions that are not in the map, and those that are but
// have no name.
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

func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func are(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one + " is"
	}
	return fmt.Sprintf("%d %s are", n, many)
}

func have(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one + " has"
	}
	return fmt.Sprintf("%d %s have", n, many)
}
