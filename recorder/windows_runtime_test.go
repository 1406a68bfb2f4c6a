//go:build linux && amd64

package recorder_test

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/observe"
)

// Functions of testdata/windows.c.
const (
	windowsLeaf reader.FuncID = iota + 1
	windowsStep
)

// windowsSeen counts the contents of a trace of testdata/windows.c.
type windowsSeen struct {
	recording *reader.Recording
	size      int64
	events    uint64
	steps     int         // steps that have begun
	full      int         // windows in which a thread made several steps
	bad       map[int]int // by window: steps that do not follow the previous one, or lack leaves
}

// checkWindows checks that a trace has all calls in its windows and no others: in each window, the steps
// of a thread are consecutive, and each has its leaves.
func checkWindows(t *testing.T, path string) (seen windowsSeen) {
	t.Helper()
	seen = inspectWindows(t, path)
	for i, n := range seen.bad {
		t.Errorf("%s: %d of %d steps, in window %d, are not whole, or do not follow the one before", path, n, seen.steps, i)
	}
	checkWindowCalls(t, path)
	return seen
}

func inspectWindows(t *testing.T, path string) (seen windowsSeen) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	seen.recording, seen.size, seen.bad = trace.Recording(0), trace.Size(0), make(map[int]int)
	windows := seen.recording.Windows
	for i := range windows {
		if w := &windows[i]; w.From == 0 || w.To != 0 && w.To <= w.From || i > 0 && w.From <= windows[i-1].To || w.To == 0 && i+1 < len(windows) {
			t.Fatalf("%s: window %d of %d is %+v", path, i, len(windows), *w)
		}
	}
	type thread struct {
		inside              bool
		last, leaves, steps int
	}
	threads := make(map[reader.Thread]*thread)
	err = trace.Each(1, func(_ int, b *reader.Block) error {
		th := threads[b.Thread]
		if th == nil {
			th = new(thread)
			threads[b.Thread] = th
		}
		args := b.Args
		for i := range b.Events {
			e := &b.Events[i]
			if edge, ok := b.Edge(i); ok {
				if th.inside == bool(edge) {
					t.Fatalf("%s: thread %v has two edges in a row", path, b.Thread)
				}
				if th.steps > 2 {
					seen.full++
				}
				*th = thread{inside: bool(edge)}
				continue
			}
			seen.events++
			if !th.inside {
				t.Fatalf("%s: thread %v has a record at %d, outside of windows", path, b.Thread, e.TSC)
			}
			switch {
			case e.Kind.IsEnter() && e.Func == windowsLeaf:
				th.leaves++
			case e.Kind == reader.EnterArg && e.Func == windowsStep:
				for args[0].Event < i {
					args = args[1:]
				}
				n := int(args[0].Value)
				if th.last != 0 && (n != th.last+1 || th.leaves != 3) || th.leaves > 3 {
					at, _ := slices.BinarySearchFunc(windows, e.TSC+1, func(w reader.RecordedWindow, tsc uint64) int { return cmp.Compare(w.From, tsc) })
					seen.bad[at-1]++
				}
				th.last, th.leaves = n, 0
				th.steps++
				seen.steps++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := trace.Losses().Count(); n > 0 {
		t.Errorf("%s: %d losses: %v", path, n, trace.Losses().Samples())
	}
	if len(seen.recording.Losses) > 0 {
		t.Errorf("%s: the recorder lost %v", path, seen.recording.Losses)
	}
	return seen
}

// inWindows counts the calls that were only partly recorded.
type inWindows struct {
	recording *reader.Recording
	across    *int
}

func (c inWindows) Merge(inWindows) {}

func (c inWindows) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		call := &b.Calls[i]
		if call.Duration > 0 && c.recording.RecordedTicks(call.Start, call.Start+call.Duration) != call.Duration {
			*c.across++
		}
	}
	return nil
}

// checkWindowCalls checks that each call in a window ends there, or is truncated at the end of the window.
func checkWindowCalls(t *testing.T, path string) {
	t.Helper()
	if stats, across := windowCalls(t, path); across+int(stats.Unmatched+stats.Inferred) > 0 || stats.Left == 0 || stats.Cut > stats.Truncated {
		t.Errorf("%s: got %+v, and %d calls of which not all was recorded", path, *stats, across)
	}
}

// windowCalls rebuilds the calls of a trace with windows, and counts those that were only partly recorded.
func windowCalls(t *testing.T, path string) (stats *calls.Stats, across int) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	_, stats, err = calls.Run(calls.Source(trace), calls.Options{Shards: 1}, func() inWindows { return inWindows{trace.Recording(0), &across} })
	if err != nil {
		t.Fatal(err)
	}
	return stats, across
}

// awaitWindows waits until a process has recorded in this many windows.
func awaitWindows(t *testing.T, pid int, n float64) {
	t.Helper()
	reach(t, pid)
	await(t, pid, "status", func(answer map[string]any) bool {
		w, ok := answer["windows"].(map[string]any)
		return ok && w["count"].(float64) >= n
	})
}

// A trace of many short windows has exactly the calls in them, for a process and its child, however the
// process ends.
func TestWindows(t *testing.T) {
	l := library(t)
	program := buildProgram(t, "clang-22", "windows.c", "-O2", "-fxray-instruction-threshold=1")
	t.Run("observed", func(t *testing.T) {
		traces := observeWindows(t, l, program, 1000, false, func(r *running, pids []int) { r.end(t) })
		for _, path := range traces {
			seen := checkWindows(t, path)
			if n := len(seen.recording.Windows); n < 900 || seen.full < 100 {
				t.Errorf("%s: %d windows, of which %d have several steps of a thread", path, n, seen.full)
			}
			// 8 bytes for a record, 16 for the argument of a step and for a switch, and the windows.
			most := 24*seen.events + 64*uint64(len(seen.recording.Windows)) + 256<<10
			if uint64(seen.size) > most {
				t.Errorf("%s: %d bytes, want less than %d", path, seen.size, most)
			}
		}
	})
	t.Run("killed", func(t *testing.T) {
		// A compressed trace has the windows in its frames.
		traces := observeWindows(t, l, program, 200, true, func(r *running, pids []int) {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		})
		for _, path := range traces {
			if seen := checkWindows(t, path); len(seen.recording.Windows) < 100 || seen.full == 0 {
				t.Errorf("%s: %d windows", path, len(seen.recording.Windows))
			}
		}
	})
	t.Run("own file, killed", func(t *testing.T) {
		r := variant{program, &l}.run(t, "control=1,window=1000000,every=3000000", program)
		pid, _ := strconv.Atoi(r.line(t))
		awaitWindows(t, pid, 20)
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		if seen := checkWindows(t, filepath.Join(r.dir, strconv.Itoa(pid))); len(seen.recording.Windows) < 20 || seen.full == 0 {
			t.Errorf("got %d windows", len(seen.recording.Windows))
		}
	})
	t.Run("rings", func(t *testing.T) {
		r := variant{program, &l}.run(t, "control=1,stream=0,window=1000000,every=3000000", program)
		pid, _ := strconv.Atoi(r.line(t))
		awaitWindows(t, pid, 20)
		file, path := createFile(t)
		mustAsk(t, pid, "snapshot", file)
		if seen := checkWindows(t, path); len(seen.recording.Windows) < 2 || seen.full == 0 {
			t.Errorf("got %d windows", len(seen.recording.Windows))
		}
	})
	t.Run("paused and restarted", func(t *testing.T) { checkWindowsWithCommands(t, l, program) })
}

// checkWindowsWithCommands checks windows between pauses, and recordings with and without windows in one
// process.
func checkWindowsWithCommands(t *testing.T, l build.Library, program string) {
	r := variant{program, &l}.run(t, "control=1,start=0", program)
	pid, _ := strconv.Atoi(r.line(t))
	reach(t, pid)
	snapshot := func() windowsSeen {
		file, path := createFile(t)
		mustAsk(t, pid, "snapshot", file)
		return checkWindows(t, path)
	}
	mustAsk(t, pid, "start") // without windows
	await(t, pid, "status", func(a map[string]any) bool { return a["threads"].(map[string]any)["live"].(float64) >= 2 })
	mustAsk(t, pid, "stop")
	mustAsk(t, pid, "start window=1000000 every=3000000")
	awaitWindows(t, pid, 5)
	mustAsk(t, pid, "mode off")
	status := mustAsk(t, pid, "status")
	if w := status["windows"].(map[string]any); w["open"] != false || status["patched"].(float64) != 0 {
		t.Errorf("while paused: %v", status)
	}
	mustAsk(t, pid, "mode on")
	awaitWindows(t, pid, status["windows"].(map[string]any)["count"].(float64)+3)
	if n := len(snapshot().recording.Windows); n < 8 {
		t.Errorf("%d windows, including the recording without them", n)
	}
	for _, command := range []string{"mode depth depth=3", "mode profile", "mode prune threshold=2000000"} {
		if answer := ask(t, pid, command); answer["ok"] != false {
			t.Errorf("%s: %v", command, answer)
		}
	}
	mustAsk(t, pid, "stop")
	if answer := mustAsk(t, pid, "status"); answer["windows"] != nil {
		t.Errorf("after the recording: %v", answer)
	}
	mustAsk(t, pid, "start")
	file, path := createFile(t)
	mustAsk(t, pid, "snapshot", file)
	if seen := checkWindows(t, path); seen.recording.Process.EveryNS != 0 || seen.recording.Windows[len(seen.recording.Windows)-1].To != 0 {
		t.Errorf("a recording without windows, after one with: %+v", seen.recording.Process)
	}
	for _, command := range []string{"start window=5 every=10000000", "start window=10000000 every=10500000", "start window=1", "start mode=depth depth=2 window=1000000 every=9000000"} {
		mustAsk(t, pid, "stop")
		if answer := ask(t, pid, command); answer["ok"] != false {
			t.Errorf("%s: %v", command, answer)
		}
	}
}

// observeWindows records a program and its child in short windows with an observer. When both have had
// some windows, it calls end and returns the traces.
func observeWindows(t *testing.T, l build.Library, program string, least float64, compress bool, end func(r *running, pids []int)) (traces []string) {
	t.Helper()
	o := observe.Options{Session: uint64(time.Now().UnixNano()), Key: observe.NewKey(), Output: filepath.Join(t.TempDir(), "%p"), Compress: compress}
	_, settle := startObserver(t, o)
	options := "control=1,window=1000000,every=2000000,observer=" + o.Address() + ",session=" + strconv.FormatUint(o.Session, 10)
	r := variant{program, &l}.run(t, options, program, "fork")
	var pids []int
	for range 2 {
		pid, _ := strconv.Atoi(r.line(t))
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		awaitWindows(t, pid, least)
	}
	end(r, pids)
	observed, err := settle()
	if err != nil || len(observed.Traces) != len(pids) {
		t.Fatalf("%v; %+v", err, observed)
	}
	for _, trace := range observed.Traces {
		if trace.Problem != "" {
			t.Errorf("%+v", trace)
		}
		traces = append(traces, trace.Path)
	}
	return traces
}

var (
	// slowSwitch makes the runtime switch sleds slowly, and hastySleds lets those that are on record
	// before all are.
	slowSwitch = edit{"patch.c", "static void write_head(const struct pen *pen, const struct target *t)\n{\n", "static void write_head(const struct pen *pen, const struct target *t)\n{\n" +
		"	struct { int64_t s, ns; } rest = {0, 300000};\n	xr_sys2(SYS_nanosleep, (intptr_t)&rest, 0);\n"}
	hastySleds = edit{"patch.c", "	int on = patched_on && !switching;\n", "	int on = 1;\n"}
)

// A recording begins and ends at once, no matter how slowly sleds are switched. A runtime whose sleds
// record before all are on, or after the first is off, fails.
func TestRecordingBeginsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		edits []edit
		bad   bool
	}{
		"right": {nil, false},
		"hasty": {[]edit{hastySleds}, true},
	} {
		t.Run(name, func(t *testing.T) {
			program := buildLinked(t, "clang-22", buildArchive(t, append(c.edits, slowSwitch)...), "controlled.c", "-fxray-instruction-threshold=1")
			r := variant{program, nil}.run(t, "control=1,start=0", program)
			pid := r.cmd.Process.Pid
			reach(t, pid)
			worst := 0
			for range 5 {
				file, path := createFile(t)
				mustAsk(t, pid, "start stream=1", file)
				await(t, pid, "status", func(a map[string]any) bool { return a["threads"].(map[string]any)["live"] == 2.0 })
				mustAsk(t, pid, "stop")
				got := readTrace(t, path)
				worst = max(worst, got.unmatched, got.orphan)
			}
			r.end(t)
			if (worst > 4) != c.bad {
				t.Errorf("%d entries or exits are missing", worst)
			}
		})
	}
}

// If sleds record while they are switched, there are incomplete records around windows, which readers
// ignore. A runtime whose windows begin too early or end too late fails.
func TestWindowsFindsWrongEdges(t *testing.T) {
	for name, c := range map[string]struct {
		edits []edit
		bad   bool
	}{
		"right":     {nil, false},
		"too early": {[]edit{{"window.c", "	xr_patch(1);\n	begin(xr_rdtsc());\n", "	begin(xr_rdtsc());\n	xr_patch(1);\n"}}, true},
		"too late":  {[]edit{{"window.c", "end(paused_at);", "end(xr_rdtsc());"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			program := buildLinked(t, "clang-22", buildArchive(t, append(c.edits, slowSwitch, hastySleds)...), "windows.c", "-fxray-instruction-threshold=1")
			r := variant{program, nil}.run(t, "control=1,window=5000000,every=15000000", program)
			pid, _ := strconv.Atoi(r.line(t))
			awaitWindows(t, pid, 40)
			r.end(t)
			seen := inspectWindows(t, filepath.Join(r.dir, strconv.Itoa(pid)))
			if (len(seen.bad) > 0) != c.bad {
				t.Errorf("%d of %d steps in %d windows are not as they should be", seen.bad, seen.steps, len(seen.recording.Windows))
			}
		})
	}
}

// A call that is left by longjmp right after a window has begun ends there. A runtime that begins to
// record landings later fails.
func TestWindowsBeginWithLandings(t *testing.T) {
	const opened = "	list((struct xr_window){.from = from});\n}\n"
	slow := edit{"window.c", opened, strings.Replace(opened, "\n}",
		"\n	struct { int64_t s, ns; } rest = {0, 2000000};\n	xr_sys2(SYS_nanosleep, (intptr_t)&rest, 0);\n}", 1)}
	const first = "	xr_windows.quiet = 0; /* record landings and events as soon as the first sled is on */\n"
	const begin = "	xr_patch(1);\n	begin(xr_rdtsc());\n"
	jumps := filepath.Join(t.TempDir(), "jumps.o") // the archive does not contain it
	if out, err := exec.Command("gcc", "-O2", "-c", "-o", jumps, "runtime/jumps.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for name, c := range map[string]struct {
		edits []edit
		bad   bool
	}{
		"right":    {nil, false},
		"too late": {[]edit{{"window.c", first + begin, begin + first}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			archive := buildArchive(t, append(c.edits, slow)...)
			program := buildLinked(t, "clang-22", archive, "windows.c", "-fxray-instruction-threshold=1", jumps)
			r := variant{program, nil}.run(t, "control=1,window=5000000,every=15000000", program)
			pid, _ := strconv.Atoi(r.line(t))
			awaitWindows(t, pid, 40)
			r.end(t)
			stats, across := windowCalls(t, filepath.Join(r.dir, strconv.Itoa(pid)))
			if (stats.MaxDepth > 4) != c.bad || stats.Left == 0 || (across > 0 && !c.bad) { // calls that do not end pile up
				t.Errorf("got %+v, and %d calls of which not all was recorded", *stats, across)
			}
		})
	}
}
