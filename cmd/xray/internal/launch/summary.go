package launch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/args/value"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/observe"
	"github.com/xray-tools/xray/report/label"
)

// Recorded is the result of a recording.
type Recorded struct {
	paths      []string
	Bytes      int64
	calls      uint64
	threads    int
	functions  uint64            // that could have been recorded
	lost       map[string]uint64 // by cause
	refusals   []reader.Refusal
	leftOff    map[leftOff]uint32
	unread     map[value.Refused]bool
	uncalled   string // a function with values of which no call was recorded, one of nuncalled
	nuncalled  int
	mode       string
	incomplete int // traces whose process wrote them itself, and was killed
	waited     time.Duration
	memory     reader.Memory // the sums and extremes of all processes
	left       bool          // instrumented programs could not load the recorder
	running    []observe.Process
	unreadable error
	cost       recordingCost
	windows    int // of the recording with the most
	budget     survey.LeftOut
}

// ownTrace opens traces of this recording, with any number of threads.
var ownTrace = reader.Options{MaxThreads: math.MaxInt32}

// Read reads the traces of a recording.
func Read(paths []string) (*Recorded, error) {
	r := &Recorded{lost: make(map[string]uint64), leftOff: make(map[leftOff]uint32), unread: make(map[value.Refused]bool)}
	for _, path := range paths {
		recording, err := recordingOf(path)
		switch {
		case err != nil:
			r.unreadable = errors.Join(r.unreadable, session.ExplainTrace(err))
		case recording != nil: // nil for traces of other recorders
			r.add(path, recording)
		}
	}
	if len(r.paths) == 0 {
		return r, nil
	}
	return r, r.count()
}

// recordingOf reads what the recorder says about a trace.
func recordingOf(path string) (*reader.Recording, error) {
	t, err := reader.Open(ownTrace, path)
	if err != nil {
		return nil, err
	}
	return t.Recording(0), t.Close()
}

// leftOff are functions of an object that the recorder leaves off.
type leftOff struct {
	path, why string
	counted   bool
}

func (r *Recorded) add(path string, recording *reader.Recording) {
	r.paths = append(r.paths, path)
	r.mode = recording.Process.Mode
	for _, l := range recording.Losses {
		r.lost[l.Cause] += l.Count
	}
	r.refusals = append(r.refusals, recording.Refusals...)
	if !recording.Process.Complete {
		r.incomplete++
	}
	r.cost.add(recording)
	if recording.Process.EveryNS > 0 {
		r.windows = max(r.windows, len(recording.Windows))
	}
	if m := recording.Process.Memory; m != nil {
		all := &r.memory
		if all.Limit = max(all.Limit, m.Limit); m.Most > 0 && (all.Most == 0 || m.Least < all.Least) {
			all.Least = m.Least
		}
		all.Peak, all.Most = max(all.Peak, m.Peak), max(all.Most, m.Most)
		all.RingsGivenUp += m.RingsGivenUp
		all.BytesGivenUp += m.BytesGivenUp
	}
	r.budget.Add(&recording.Budget)
	r.waited += time.Duration(recording.Process.WaitedNS)
	for _, o := range recording.Objects {
		r.functions += uint64(o.Count)
		for _, l := range o.LeftOff {
			r.leftOff[leftOff{o.Path, l.Why, l.Counted}] = l.Count
		}
	}
	for _, u := range recording.Unread {
		r.unread[u] = true
	}
	r.functions += uint64(len(recording.Addresses))
	r.calls += survey.Summed(recording)
}

// Count reads traces of any recorder, and counts their calls.
func Count(paths ...string) (*Recorded, error) {
	r := &Recorded{paths: paths, lost: make(map[string]uint64)}
	return r, r.count()
}

// count reads all of the traces and counts their calls.
func (r *Recorded) count() (err error) {
	t, err := reader.Open(ownTrace, r.paths...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for i := range r.paths {
		if _, stored := t.Packed(i); stored > 0 {
			r.Bytes += stored
		} else {
			r.Bytes += t.Size(i)
		}
	}
	values := functionsWithValues(t, len(r.paths))
	sink, stats, err := calls.Run(calls.Source(t), calls.Options{}, func() *called { return &called{values: values, functions: make(map[reader.FuncID]bool)} })
	if err != nil {
		return err
	}
	if r.uncalled, r.nuncalled, err = sink.uncalled(t); err != nil {
		return err
	}
	r.calls += stats.Calls
	r.threads = stats.Threads
	if n := t.Losses().Count(); n > 0 {
		r.lost["damaged"] += uint64(n)
	}
	return nil
}

// maxListed limits the files that a summary names.
const maxListed = 5

// Summary returns a line about the traces and the next step. sleds reports whether the program is
// known to be instrumented.
func (r *Recorded) Summary(sleds bool) string {
	switch {
	case r.unreadable != nil && len(r.paths) == 0:
		return r.unreadable.Error()
	case len(r.paths) == 0 && len(r.running) > 0:
		return r.stillRunning()
	case len(r.paths) == 0 && r.left:
		return "nothing was recorded: see above"
	case len(r.paths) == 0 && !sleds:
		return "nothing was recorded: " + build.ErrNotInstrumented.Error()
	case len(r.paths) == 0:
		return "nothing was recorded: the program exited before the recorder was ready"
	}
	files := strings.Join(NearNames(r.paths), " ")
	if n := len(r.paths); n > maxListed {
		if files = globOf(NearNames(r.paths)); files == "" {
			files = fmt.Sprintf("%s ... (%d files)", strings.Join(NearNames(r.paths[:maxListed]), " "), n)
		}
	}
	parts := []string{fmt.Sprintf("%s, %s in %s", r.What(), label.Bytes(uint64(r.Bytes)), files)}
	parts = append(parts, r.warnings()...)
	next := "account"
	if r.calls == 0 {
		next = "info"
	}
	if r.calls > 0 && r.mode != "count" && r.mode != "profile" {
		files += ", or xray why --root FUNCTION " + files
	}
	return fmt.Sprintf("%s; next: xray %s %s", strings.Join(parts, "; "), next, files)
}

// globOf returns a pattern of the shell for exactly these files, or "".
func globOf(names []string) string {
	names = slices.Sorted(slices.Values(names))
	first, last := names[0], names[len(names)-1]
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	prefix := first[:n]
	if strings.ContainsAny(prefix, "*?[]{}\\\"'`$&|;<>() \t\n") {
		return ""
	}
	// Process IDs may begin with the same digits.
	for _, text := range []string{strings.TrimRight(prefix, "0123456789"), prefix} {
		text += "*" + filepath.Ext(first)
		if found, err := filepath.Glob(text); err == nil && slices.Equal(found, names) {
			return text
		}
	}
	return ""
}

// NearNames shortens the paths of files in the working directory.
func NearNames(paths []string) []string {
	near := slices.Clone(paths)
	dir, err := os.Getwd()
	if err != nil {
		return near
	}
	for i, path := range paths {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			near[i] = rel
		}
	}
	return near
}

// recordingCost is what recordings have cost their processes.
type recordingCost struct {
	cpu, spent time.Duration // CPU time, and the part of it for recording besides probes and the start
	call       float64       // ns to record a call
	pruned     uint64        // calls that were recorded and dropped
	unknown    bool          // some traces do not state the cost
}

func (c *recordingCost) add(r *reader.Recording) {
	p := &r.Process
	mode := recorder.Mode(p.Mode)
	if r.Budget.Limited() || r.IsEnd() || mode != recorder.Record && mode != recorder.Prune || p.CPUNS == 0 || p.Probe == 0 || r.Clock.Frequency == 0 {
		c.unknown = true
		return
	}
	c.cpu += time.Duration(p.CPUNS)
	c.spent += time.Duration(p.ChunksNS + p.LandingsNS)
	c.call = max(c.call, float64(p.Probe)/1000*1e9/float64(r.Clock.Frequency))
	c.pruned += r.Pruned.Calls()
}

// The summary states the cost of recording if it is at least this share of the program's own CPU
// time, and at least this time: for a program that does little, any cost is a large share.
const (
	worthSaying  = 0.25
	leastSayable = 20 * time.Millisecond
	leastCall    = 1.0 // ns that a call takes without recording
	leastPart    = 0.7 // of the time of two probes in a row, that recording a call takes
)

// text describes the overhead of this many recorded calls. It returns "" if the overhead is
// small or unknown.
func (c *recordingCost) text(calls uint64) string {
	// In programs, calls usually cost somewhat less than two probes in a row; see exclude. On a
	// busy machine they cost up to 2.4 times as much, because records displace the program's own data. The
	// recorder cannot tell the two apart, so say what recording added at least: leastPart of the probes held
	// for each program that was measured.
	n := float64(calls + c.pruned)
	added := func(part float64) (cost, share float64) {
		cost = float64(c.spent) + n*c.call*part
		return cost, cost / max(float64(c.cpu)-cost, n*leastCall, 1)
	}
	cost, share := added(7. / 8)
	if c.unknown || cost < float64(leastSayable) || share < worthSaying {
		return ""
	}
	much := "took most of"
	if _, least := added(leastPart); least < 10 {
		much = fmt.Sprintf("added at least %.0f%% to", 100*least)
	}
	return "recording " + much + " the CPU time (limit the overhead with --budget 3%)"
}

// What says how many calls there are.
func (r *Recorded) What() string {
	calls := label.Count(r.calls, "call", "calls")
	if r.budget.Calls() > 0 {
		calls = fmt.Sprintf("%s of %s calls", label.Grouped(r.calls), r.budget.With(r.calls))
	}
	if r.windows > 0 {
		calls = label.Count(uint64(r.windows), "window", "windows") + ", " + calls
	}
	switch recorder.Mode(r.mode) {
	case recorder.Count:
		return calls + " counted"
	case recorder.Profile:
		return calls + " profiled"
	}
	return fmt.Sprintf("%s of %s", calls, label.Count(uint64(r.threads), "thread", "threads"))
}

func (r *Recorded) warnings() []string {
	var parts []string
	if r.functions == 0 && r.refusals == nil {
		parts = append(parts, build.ErrNotInstrumented.Error())
	}
	if r.memory.Most > 0 {
		parts = append(parts, memoryText(&r.memory))
	}
	if len(r.lost) > 0 {
		var causes []string
		for _, cause := range slices.Sorted(maps.Keys(r.lost)) {
			causes = append(causes, fmt.Sprintf("%s (%s)", label.Grouped(r.lost[cause]), texttab.Printable(cause)))
		}
		parts = append(parts, "lost: "+strings.Join(causes, ", "))
	}
	if n := len(r.refusals); n > 0 {
		parts = append(parts, fmt.Sprintf("not recorded: %s (%s)", r.refusals[0].Path, r.refusals[0].Why))
	}
	for _, l := range slices.SortedFunc(maps.Keys(r.leftOff), func(a, b leftOff) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.why, b.why)) }) {
		lack := "not recorded"
		if l.counted {
			lack = "no times"
		}
		parts = append(parts, fmt.Sprintf("%s: %s of %s (%s), which xray info names",
			lack, label.Count(uint64(r.leftOff[l]), "function", "functions"), texttab.Printable(l.path), texttab.Printable(l.why)))
	}
	if len(r.unread) > 0 {
		u := slices.MinFunc(slices.Collect(maps.Keys(r.unread)), func(a, b value.Refused) int {
			return cmp.Or(cmp.Compare(a.Function, b.Function), cmp.Compare(a.Expression, b.Expression), cmp.Compare(a.Why, b.Why))
		})
		text := fmt.Sprintf("not recorded: %s of %s (%s)", texttab.Printable(u.Expression), texttab.Printable(u.Function), texttab.Printable(u.Why))
		if n := len(r.unread) - 1; n > 0 {
			text += fmt.Sprintf(", and %s, which xray info names", label.Count(uint64(n), "other value", "other values"))
		}
		parts = append(parts, text)
	}
	if r.uncalled != "" && r.budget.Calls() == 0 {
		text := "no call of " + texttab.Printable(r.uncalled)
		if n := r.nuncalled - 1; n > 0 {
			text += fmt.Sprintf(" and %s", label.Count(uint64(n), "other function with values", "other functions with values"))
		}
		parts = append(parts, text+" was recorded: if the program calls it, these calls are inlined, and __attribute__((noinline)) prevents that")
	}
	if r.incomplete > 0 {
		parts = append(parts, "a process that writes its own trace was killed, executes another program or is still running, so the last records of each thread are missing")
	}
	if r.waited >= time.Millisecond {
		parts = append(parts, fmt.Sprintf("threads waited %v in total for the trace to be written (with --drop, they drop records instead)", r.waited.Round(time.Millisecond)))
	}
	if text := r.cost.text(r.calls); text != "" {
		parts = append(parts, text)
	}
	if len(r.running) > 0 {
		parts = append(parts, r.stillRunning())
	}
	if r.unreadable != nil {
		parts = append(parts, r.unreadable.Error())
	}
	return parts
}

// memoryText says how the memory was shared out.
func memoryText(m *reader.Memory) string {
	each := label.Bytes(m.Least)
	if m.Most > m.Least {
		each += " to " + label.Bytes(m.Most)
	}
	text := fmt.Sprintf("memory: %s of %s at most, %s for a thread", label.Bytes(m.Peak), label.Bytes(m.Limit), each)
	if m.RingsGivenUp > 0 {
		text += fmt.Sprintf(", %s of ended threads given up with %s", label.Count(m.RingsGivenUp, "ring", "rings"), label.Bytes(m.BytesGivenUp))
	}
	return text
}

// stillRunning returns a note about processes that still run.
func (r *Recorded) stillRunning() string {
	who, traces := "process %d is still running: its trace is complete when it exits", []string(nil)
	for _, p := range r.running {
		if p.Trace != "" {
			traces = append(traces, p.Trace)
		}
	}
	n := r.running[0].PID
	if len(r.running) > 1 {
		who, n = "%d processes are still running: their traces are complete when they exit", len(r.running)
	}
	sortPaths(traces)
	text := fmt.Sprintf(who, n)
	if len(traces) > 0 {
		text += " (" + strings.Join(NearNames(traces[:min(len(traces), maxListed)]), " ") + ")"
	}
	return text
}

// templatePattern matches the base names of the traces of a template. The recorder appends
// numbers to names that exist.
func templatePattern(base string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for i := 0; i < len(base); i++ {
		if base[i] != '%' || i+1 == len(base) {
			b.WriteString(regexp.QuoteMeta(base[i : i+1]))
			continue
		}
		i++
		b.WriteString(map[byte]string{'%': "%", 'p': `\d+`, 'e': `.+`}[base[i]])
	}
	b.WriteString(`(\.\d+){0,2}$`)
	return regexp.MustCompile(b.String())
}
