package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// file describes a file.
func (o *rendering) file(i int) []report.Node {
	type T = reader.Header
	h := o.Trace.Header(i)
	r := o.Trace.Recording(i)
	packed, stored := o.Trace.Packed(i)
	facts := []report.Column[T]{
		textFact[T]("format", o.formatOf(i)),
		report.String("name", func(*T) string { return o.Trace.Files()[i] }).ForPrograms(),
		report.String("type", func(h *T) string { return h.Type.String() }).ForPrograms(),
		report.Count("format_version", func(h *T) uint64 { return uint64(h.Version) }).ForPrograms(),
		report.Bytes("size", func(*T) uint64 { return uint64(o.Trace.Size(i)) }).ForPrograms(),
		report.String("compression", func(*T) string { return packed }).ForPrograms().Missing(func(*T) bool { return packed == "" }),
		report.Bytes("stored", func(*T) uint64 { return uint64(stored) }).ForPrograms().Missing(func(*T) bool { return packed == "" }),
		report.Bytes("buffers", func(h *T) uint64 { return h.BufferSize }).
			Missing(func(h *T) bool { return h.Type != reader.FDR || h.BufferSize == 0 }),
	}
	if r == nil {
		return []report.Node{report.Facts(&h, facts...)}
	}
	if !r.Foreign() {
		facts = append(facts, recorderWords(r)...)
		facts = append(facts, textFact[T]("windows", windowWords(r, o.Stats.Last)))
		for _, c := range r.ChangesSince(o.Stats.First) {
			facts = append(facts, textFact[T]("changed", c.What+o.when(r, c.TSC)))
		}
	}
	if r.Foreign() {
		facts = append(facts, textFact[T]("profile", profileWords(r)))
	}
	facts = append(facts, textFact[T]("packed", packedWords(r)))
	return []report.Node{report.Facts(&h, facts...), report.Programs{&report.Section{Key: "recording", Body: o.recording(i, r)}}}
}

// recorderWords returns facts for people about the recorded process.
func recorderWords(r *reader.Recording) []report.Column[reader.Header] {
	type T = reader.Header
	p := &r.Process
	on, pruned := "", ""
	if p.Host != "" {
		on = " on " + p.Host
	}
	if n := r.Pruned.Calls(); n > 0 {
		pruned = fmt.Sprintf("%s of %s; the trace has only their sums", label.Count(n, "call", "calls"), label.Count(uint64(len(r.Pruned.Functions)), "function", "functions"))
	}
	return []report.Column[T]{
		textFact[T]("recorder", "xray, version "+cmp.Or(p.Recorder, "unknown")),
		textFact[T]("process", fmt.Sprintf("%d%s, user %d, child of %d", p.PID, on, p.UID, p.PPID)),
		textFact[T]("program", cmp.Or(p.Exe, "unknown")),
		textFact[T]("command", commandLine(p.Argv)),
		textFact[T]("mode", modeOf(p)),
		textFact[T]("switches", switchWords(p)),
		textFact[T]("pruned", pruned),
		textFact[T]("budget", budgetWords(r)),
		textFact[T]("profile", profileWords(r)),
		textFact[T]("scheduler", schedWords(r)),
	}
}

// budgetWords describes the calls that a recording within a budget left out.
func budgetWords(r *reader.Recording) string {
	var left LeftOut
	switch left.Add(&r.Budget); {
	case left.Unknown > 0:
		share := ""
		if r.Budget.Share > 1 { // otherwise the process does not know it
			share = budgetShare(r.Budget.Share) + "; "
		}
		return share + "the number of missing calls is unknown: " + unknownLeftOut
	case left.Known == 0:
		return ""
	}
	text := fmt.Sprintf("%s; missing calls of %s: %s counted", budgetShare(left.Share), label.Count(left.Functions, "function", "functions"), label.Grouped(left.Counted))
	if left.Estimated > 0 {
		text += fmt.Sprintf(", about %s estimated", label.Grouped(left.Estimated))
	}
	return text
}

// switchWords says whether the recorder noticed when threads were off CPU.
func switchWords(p *reader.Process) string {
	switch {
	case p.OffCPU != "":
		return "recorded (" + p.OffCPU + ")"
	case p.NoOffCPU != "":
		return "not recorded: " + p.NoOffCPU
	}
	return ""
}

// schedWords says how many scheduler events a file has.
func schedWords(r *reader.Recording) string {
	n := r.Sched.Events()
	if n == 0 {
		return ""
	}
	from, to := r.Sched.Span()
	clock := reader.Clock{Frequency: r.Clock.Frequency}
	interrupts := ""
	if in := r.Sched.Interrupts(); in > 0 {
		interrupts = fmt.Sprintf(" (%s)", label.Count(in, "interrupt", "interrupts"))
	}
	text := fmt.Sprintf("%s%s of %s in %s, from tick %d to %d", label.Count(n, "event", "events"), interrupts,
		label.Count(uint64(len(r.Sched.Tasks)), "task", "tasks"), clock.Format(to-from), from, to)
	if lost := r.Sched.Lost(); lost > 0 {
		text += fmt.Sprintf(", up to %s lost", label.Grouped(lost))
	}
	return text
}

// recording describes the recording of a file, for programs.
func (o *rendering) recording(file int, r *reader.Recording) []report.Node {
	type P = reader.Process
	count := func(key string, f func(p *P) uint64) report.Column[P] { return report.Count(key, f) }
	memoryOf := func(p *P) *reader.Memory { return cmp.Or(p.Memory, &reader.Memory{}) }
	memory := func(key string, f func(m *reader.Memory) uint64) report.Column[P] {
		return report.Bytes(key, func(p *P) uint64 { return f(memoryOf(p)) })
	}
	sums := r.WindowSums(o.Stats.Last)
	facts := report.Facts(&r.Process,
		count("process", func(p *P) uint64 { return uint64(p.PID) }),
		count("parent_process", func(p *P) uint64 { return uint64(p.PPID) }),
		count("user", func(p *P) uint64 { return uint64(p.UID) }),
		report.String("program", func(p *P) string { return p.Exe }),
		report.NamePath("arguments", func(p *P) []string { return p.Argv }),
		report.String("build_id", func(p *P) string { return p.BuildID }),
		report.String("host", func(p *P) string { return p.Host }),
		report.Bytes("page", func(p *P) uint64 { return p.PageSize }),
		report.String("mode", func(p *P) string { return p.Mode }),
		report.String("offcpu", func(p *P) string { return p.OffCPU }),
		report.String("no_offcpu", func(p *P) string { return p.NoOffCPU }),
		count("threshold_ns", func(p *P) uint64 { return p.ThresholdNS }),
		count("depth_limit", func(p *P) uint64 { return uint64(p.Depth) }),
		count("window_ns", func(p *P) uint64 { return p.WindowNS }),
		count("every_ns", func(p *P) uint64 { return p.EveryNS }),
		count("window_count", func(*P) uint64 { return uint64(sums.Count) }),
		count("window_ticks", func(*P) uint64 { return sums.Ticks }),
		count("window_cpu_ns", func(*P) uint64 { return sums.CPUNS }),
		report.String("recorder_version", func(p *P) string { return p.Recorder }),
		count("session", func(p *P) uint64 { return p.Session }),
		count("cpu_ns", func(p *P) uint64 { return p.CPUNS }),
		count("cpu_first_tick", func(p *P) uint64 { return p.CPUFrom }),
		count("cpu_last_tick", func(p *P) uint64 { return p.CPUTo }),
		report.Number("probe_ticks", func(p *P) float64 { return float64(p.Probe) / 1000 }),
		count("setup_ns", func(p *P) uint64 { return p.SetupNS }),
		count("chunks_ns", func(p *P) uint64 { return p.ChunksNS }),
		count("landings_ns", func(p *P) uint64 { return p.LandingsNS }),
		count("waiting_ns", func(p *P) uint64 { return p.WaitedNS }),
		count("writing_ns", func(p *P) uint64 { return p.WritingNS }),
		memory("memory_limit", func(m *reader.Memory) uint64 { return m.Limit }),
		memory("memory_peak", func(m *reader.Memory) uint64 { return m.Peak }),
		memory("thread_memory_least", func(m *reader.Memory) uint64 { return m.Least }),
		memory("thread_memory_most", func(m *reader.Memory) uint64 { return m.Most }),
		memory("memory_given_up", func(m *reader.Memory) uint64 { return m.BytesGivenUp }),
		count("rings_given_up", func(p *P) uint64 { return memoryOf(p).RingsGivenUp }),
		report.Flag("complete", func(p *P) bool { return p.Complete }),
		count("sched_events", func(*P) uint64 { return r.Sched.Events() }),
		count("sched_interrupts", func(*P) uint64 { return r.Sched.Interrupts() }),
		count("sched_tasks", func(*P) uint64 { return uint64(len(r.Sched.Tasks)) }),
		count("sched_lost", func(*P) uint64 { return r.Sched.Lost() }),
		count("sched_first_tick", func(*P) uint64 { from, _ := r.Sched.Span(); return from }),
		count("sched_last_tick", func(*P) uint64 { _, to := r.Sched.Span(); return to }),
		report.String("no_sched", func(p *P) string { return p.NoSched }),
		count("ticks_per_second", func(*P) uint64 { return r.Clock.Frequency }),
		report.Flag("invariant_clock", func(*P) bool { return r.Clock.Invariant }),
	)
	tables := []report.Node{facts,
		report.Table("anchors", r.Clock.Anchors,
			report.Count("tick", func(a *reader.Anchor) uint64 { return a.TSC }),
			report.Count("monotonic_ns", func(a *reader.Anchor) uint64 { return a.Raw }),
			report.Count("realtime_ns", func(a *reader.Anchor) uint64 { return a.Real }),
			report.Count("width_ticks", func(a *reader.Anchor) uint64 { return a.Width })),
		objectTable(r.Objects),
		report.Table("recorded_threads", r.Threads,
			report.Thread("thread", func(t *reader.ThreadInfo) reader.Thread {
				return reader.Thread{File: int32(file), Process: t.PID, Thread: t.TID}
			}),
			report.String("name", func(t *reader.ThreadInfo) string { return t.Name }),
			report.Count("first_tick", func(t *reader.ThreadInfo) uint64 { return t.First }),
			report.Count("last_tick", func(t *reader.ThreadInfo) uint64 { return t.Last }),
			report.Count("lost_records", func(t *reader.ThreadInfo) uint64 { return t.Dropped }),
			report.Count("truncated", func(t *reader.ThreadInfo) uint64 { return t.Truncated })),
		report.Table("recorder_losses", r.Losses,
			report.String("loss", func(l *reader.RecordedLoss) string { return l.Cause }),
			report.Count("count", func(l *reader.RecordedLoss) uint64 { return l.Count })),
		report.Table("refusals", r.Refusals,
			report.String("name", func(r *reader.Refusal) string { return r.Path }),
			report.String("reason", func(r *reader.Refusal) string { return r.Why })),
		report.Table("recorder_changes", r.ChangesSince(o.Stats.First),
			report.Count("tick", func(c *reader.Change) uint64 { return c.TSC }),
			report.String("what", func(c *reader.Change) string { return c.What })),
		report.Table("counters", r.Counters,
			report.Count("calls", func(c *reader.Counter) uint64 { return c.Calls }),
			report.Function("function", func(c *reader.Counter) reader.FuncID { return c.Func })),
	}
	profiles := report.Table("profiles", r.Profiles,
		report.Thread("thread", func(p *reader.Profile) reader.Thread {
			return reader.Thread{File: int32(file), Process: p.Process, Thread: p.Thread}
		}),
		report.Count("path_count", pathsOf),
		report.Count("folded_calls", (*reader.Profile).FoldedCalls),
		report.Count("lost_calls", func(p *reader.Profile) uint64 { return p.Lost }))
	pruned := report.Table("pruned_functions", r.Pruned.Functions,
		report.Count("calls", func(f *reader.PrunedFunction) uint64 { return f.Calls }),
		report.Time("total", func(f *reader.PrunedFunction) uint64 { return f.Ticks }),
		report.Function("function", func(f *reader.PrunedFunction) reader.FuncID { return f.Func }))
	type B = reader.BudgetFunction
	unrecorded := report.Table("unrecorded_functions", r.Budget.Functions,
		report.Count("counted", func(f *B) uint64 { return f.Counted }),
		report.Count("estimated", func(f *B) uint64 { return f.Estimated }),
		report.Count("standard_error", func(f *B) uint64 { return f.Error }),
		report.Count("calls_per_second", func(f *B) uint64 { return f.Rate }),
		report.Time("mean", func(f *B) uint64 { return f.Mean }),
		report.Time("mean_error", func(f *B) uint64 { return f.MeanError }),
		report.Count("off_ns", func(f *B) uint64 { return f.OffNS }),
		report.Function("function", func(f *B) reader.FuncID { return f.Func }))
	switched := report.Table("budget_changes", r.Budget.Changes,
		report.Count("tick", func(c *reader.BudgetChange) uint64 { return c.TSC }),
		report.String("to", func(c *reader.BudgetChange) string { return c.To.String() }),
		report.Function("function", func(c *reader.BudgetChange) reader.FuncID { return c.Func }))
	windows := report.Table("recorded_windows", r.Windows,
		report.Count("first_tick", func(w *reader.RecordedWindow) uint64 { return w.From }),
		report.Count("last_tick", func(w *reader.RecordedWindow) uint64 { return w.To }).Missing(func(w *reader.RecordedWindow) bool { return w.To == 0 }),
		report.Count("cpu_ns", func(w *reader.RecordedWindow) uint64 { return w.CPUNS }))
	return append(tables, profiles, pruned, unrecorded, switched, windows)
}

// objectTable lists the objects that functions are in, for programs.
func objectTable(list []reader.Object) report.Node {
	type T = reader.Object
	hex := func(a reader.Address) string { return fmt.Sprintf("%#x", uint64(a)) }
	return report.Table("objects", list,
		report.String("name", func(o *T) string { return o.Path }),
		report.Count("first_id", func(o *T) uint64 { return uint64(o.First) }),
		report.Count("function_count", func(o *T) uint64 { return uint64(o.Count) }),
		report.String("build_id", func(o *T) string { return o.BuildID }),
		report.String("bias", func(o *T) string { return hex(o.Bias) }),
		report.String("text_start", func(o *T) string { return hex(o.Text[0]) }),
		report.String("text_end", func(o *T) string { return hex(o.Text[1]) }),
		report.Count("loaded_tick", func(o *T) uint64 { return o.Loaded }),
		report.Count("unloaded_tick", func(o *T) uint64 { return o.Unloaded }).Missing(func(o *T) bool { return o.Unloaded == 0 }),
		report.String("state", func(o *T) string { return o.State }),
		report.String("reason", func(o *T) string { return o.Why }),
		report.Count("opened", func(o *T) uint64 { return o.Opened }),
		report.Count("absent_tick", func(o *T) uint64 { return o.Absent }),
		report.Count("recorded_tick", func(o *T) uint64 { return o.Recorded }),
		report.Count("missed_ticks", func(o *T) uint64 { return o.Missed }),
	)
}

// packedWords says what `xray pack` added to a file.
func packedWords(r *reader.Recording) string {
	if len(r.Functions) == 0 {
		return ""
	}
	text := "names of " + label.Count(uint64(len(r.Functions)), "function", "functions")
	if len(r.Sources) > 0 {
		files := make(map[string]bool)
		for i := range r.Sources {
			files[r.Sources[i].File] = true
		}
		text += ", source of " + label.Count(uint64(len(files)), "file", "files")
	}
	return text
}

// commandLine quotes arguments so that they can be told apart.
func commandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = arg
		if arg == "" || strings.ContainsFunc(arg, func(r rune) bool { return r <= ' ' || !strconv.IsPrint(r) || strings.ContainsRune("\"'\\", r) }) {
			words[i] = strconv.Quote(arg)
		}
	}
	return strings.Join(words, " ")
}

func modeOf(p *reader.Process) string {
	text := cmp.Or(p.Mode, "unknown")
	if p.ThresholdNS > 0 {
		text += ", calls of at least " + reader.Clock{Frequency: 1e9}.Format(p.ThresholdNS)
	}
	if p.Depth > 0 {
		text += fmt.Sprintf(", %d deep at most", p.Depth)
	}
	return text
}

// when formats the wall-clock time of a TSC, to be appended to a line. It returns "" if the time
// is unknown.
func (o *rendering) when(r *reader.Recording, tsc uint64) string {
	if r == nil {
		return ""
	}
	ns, ok := r.Clock.Realtime(tsc)
	if !ok {
		return ""
	}
	return ", " + time.Unix(int64(ns/1e9), int64(ns%1e9)).UTC().Format("2006-01-02 15:04:05.000000 UTC")
}

// numberedObject is an object of the trace.
type numberedObject struct {
	reader.Object
	number  int
	unnamed bool
}

// objects shows people which objects the IDs of the trace belong to.
func (o *rendering) objects() report.Node {
	objects, _, err := o.Trace.Objects()
	if err != nil {
		objects = nil
	}
	var list []numberedObject
	for i, object := range objects {
		unnamed := slices.ContainsFunc(o.Missing, func(m symbolize.Missing) bool { return m.Number == i && !m.Given })
		list = append(list, numberedObject{object, i, unnamed})
	}
	type T = numberedObject
	return report.Table("objects", list,
		report.String("object", func(t *T) string { return strconv.Itoa(t.number) }),
		report.Count("functions", func(t *T) uint64 { return uint64(t.Count) }),
		report.String("first ID", func(t *T) string { return strconv.Itoa(int(t.First)) }).Optional(),
		report.String("build ID", func(t *T) string { return cmp.Or(t.BuildID[:min(len(t.BuildID), 12)], "none") }).Optional(),
		report.String("names", func(t *T) string {
			if t.unnamed {
				return "no"
			}
			return "yes"
		}),
		report.String("file", func(t *T) string {
			if t.Unloaded != 0 {
				return t.Path + " (closed)"
			}
			return t.Path
		}),
	)
}

// pathsOf returns the number of paths of a profile, without folded ones.
func pathsOf(p *reader.Profile) (n uint64) {
	for i := range p.Paths {
		if p.Paths[i].Func != reader.Folded {
			n++
		}
	}
	return n
}

// profileWords says how large the profiles of a file are.
func profileWords(r *reader.Recording) string {
	if len(r.Profiles) == 0 {
		return ""
	}
	paths := 0
	for i := range r.Profiles {
		paths += int(pathsOf(&r.Profiles[i]))
	}
	return fmt.Sprintf("%s, %s, %s", label.Count(Summed(r), "call", "calls"), label.Count(uint64(paths), "path", "paths"), label.Count(uint64(len(r.Profiles)), "thread", "threads"))
}

// maxCounts bounds the table of counts for people.
const maxCounts = 20

// counted reports totals for traces whose recordings have only call counts.
func (o *rendering) counted() string {
	counters := o.counters()
	if len(counters) == 0 {
		return ""
	}
	var all uint64
	for _, c := range counters {
		all += c.Calls
	}
	return fmt.Sprintf("%s of %s", label.Count(all, "call", "calls"), label.Count(uint64(len(counters)), "function", "functions"))
}

// counts shows people the most frequent functions of traces whose recordings have only call counts.
func (o *rendering) counts() report.Node {
	return report.Table("counters", o.counters(),
		report.Count("calls", func(c *reader.Counter) uint64 { return c.Calls }),
		report.Function("function", func(c *reader.Counter) reader.FuncID { return c.Func }),
	).Top(maxCounts)
}

// counters returns the counters of all files, the largest first.
func (o *rendering) counters() []reader.Counter {
	var all []reader.Counter
	for _, r := range o.Trace.Recordings() {
		all = append(all, r.Counters...)
	}
	slices.SortFunc(all, func(a, b reader.Counter) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Func, b.Func))
	})
	return all
}

// leftOff says which functions the recorder left off, and why.
func (o *rendering) leftOff() []Finding {
	objects, _, err := o.Trace.Objects()
	if err != nil {
		return nil
	}
	const most = 10 // functions named
	known := symbolize.WithOthers(o.Names)
	var all []Finding
	for i := range objects {
		for _, l := range objects[i].LeftOff {
			var names []string
			for _, n := range l.Functions[:min(len(l.Functions), most)] {
				names = append(names, symbolize.Label(known, objects[i].First+reader.FuncID(n)-1))
			}
			if int(l.Count) > len(names) {
				names = append(names, label.Grouped(uint64(int(l.Count)-len(names)))+" more")
			}
			lack, remedy := "not recorded", "Their time is that of their callers."
			if l.Counted {
				lack, remedy = "without times", "Their calls are counted. Compile them with -fxray-instrumentation-bundle=function."
			}
			all = append(all, Finding{
				Name:   "functions-left-off",
				Text:   fmt.Sprintf("%s of %s %s (%s): %s.", label.Count(uint64(l.Count), "function", "functions"), objects[i].Path, lack, l.Why, strings.Join(names, ", ")),
				Remedy: remedy,
			})
		}
	}
	return all
}

// conditional says which calls were recorded, if conditions select them.
func (o *rendering) conditional() []Finding {
	const most = 10 // named
	var list []string
	for file := range o.Trace.Files() {
		if r := o.Trace.Recording(file); r != nil {
			for _, w := range r.When {
				list = append(list, w.Condition)
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) == 0 {
		return nil
	}
	if n := len(list) - most; n > 0 {
		list = append(list[:most], label.Grouped(uint64(n))+" more")
	}
	return []Finding{{
		Name: "conditional",
		Text: fmt.Sprintf("Only calls for which a condition holds were recorded, and calls inside them: %s.", strings.Join(list, "; ")),
	}}
}

// unread says which arguments and results were asked for and are not recorded, and why.
func (o *rendering) unread() []Finding {
	const most = 10 // named
	var lines []string
	n := 0
	for file := range o.Trace.Files() {
		r := o.Trace.Recording(file)
		if r == nil {
			continue
		}
		for _, u := range r.Unread {
			if n++; len(lines) < most {
				lines = append(lines, fmt.Sprintf("%s: %s: %s", u.Function, u.Expression, u.Why))
			}
		}
	}
	if n == 0 {
		return nil
	}
	if n > most {
		lines = append(lines, label.Grouped(uint64(n-most))+" more")
	}
	return []Finding{{
		Name: "values-not-recorded",
		Text: fmt.Sprintf("%s not recorded: %s.", label.Count(uint64(n), "argument or result is", "arguments or results are"), strings.Join(lines, "; ")),
	}}
}

// missing says which objects have no names, or perhaps wrong ones, and why.
func (o *rendering) missing() []Finding {
	var all []Finding
	for _, m := range o.Missing {
		f := Finding{
			Name:   "missing-object",
			Text:   fmt.Sprintf("No names for object %d: %v.", m.Number, m.Err),
			Remedy: fmt.Sprintf("Pass the file with -m %d=FILE, or its location with --sysroot or --symbols.", m.Number),
		}
		if m.Changed {
			f.Name = "changed-object"
			f.Text = fmt.Sprintf("No names for object %d: %s does not match the recording: %v.", m.Number, m.Path, m.Err)
		}
		if m.Given {
			f.Text = fmt.Sprintf("Names of object %d may be wrong: %s does not match the recording: %v.", m.Number, m.Path, m.Err)
		}
		all = append(all, f)
	}
	return all
}
