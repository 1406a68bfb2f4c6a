package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/internal/test/firefoxprofiler"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/test/traceprocessor"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/sched"
)

// offCPUTrace writes the trace of testdata/script/offcpu.txtar, whose thread is off CPU
// at times.
func offCPUTrace(t *testing.T) string { return offCPUFile(t, "trace.txt") }

// offCPUFile writes a trace of testdata/script/offcpu.txtar.
func offCPUFile(t *testing.T, name string) string {
	archive, err := txtar.ParseFile("testdata/script/offcpu.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name == name {
			return textTrace(t, string(f.Data))
		}
	}
	t.Fatalf("no %s", name)
	return ""
}

// Perfetto shows off-CPU times on a track below the thread's.
func TestOffCPUInTraceProcessor(t *testing.T) {
	t.Parallel()
	p := inTraceProcessor(t, converted(t, "perfetto", offCPUTrace(t)))
	for query, want := range map[string][][]any{
		`select s.ts, dur, s.name, t.name from slice s join track t on s.track_id = t.id where t.name = 'off CPU' order by 1`: {
			{int64(110), int64(250), "blocked", "off CPU"},
			{int64(360), int64(50), "in the run queue", "off CPU"},
			{int64(600), int64(100), "blocked", "off CPU"},
			{int64(890), int64(10), "in the run queue", "off CPU"},
		},
		`select count(*) from slice where name like '#%'`:                 {{int64(3)}},
		`select distinct string_value from args where key = 'debug.when'`: {{"up to 90ns earlier"}},
	} {
		if diff := cmp.Diff(want, p.Query(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

// The Firefox Profiler shows off-CPU times as markers.
func TestOffCPUInFirefoxProfiler(t *testing.T) {
	output := filepath.Join(t.TempDir(), "profile.json")
	produce(t, "convert", "-f", "firefox", "-o", output, offCPUTrace(t))
	threads := firefoxThreads(firefoxprofiler.Open(t, output))
	if len(threads) != 1 || threads[0].MarkerCount != 4 {
		t.Errorf("got threads %+v, want one with 4 markers", threads)
	}
}

// The page splits self times by off-CPU time as account does, and says when threads were off CPU.
func TestHTMLOffCPU(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	for _, test := range []struct {
		trace, function, waits, self, lane, text string
		cpu                                      float64
	}{
		{"trace.txt", "#2", "410: 250 ns blocked, 50 ns in the run queue, up to 10 ns earlier|700: 100 ns blocked|900: 10 ns in the run queue, up to 90 ns earlier",
			"100 ns on CPU, 250 ns blocked, 50 ns in the run queue", "running blocked queued running blocked running queued running", "in the run queue", 200},
		{"recorder.txt", "#1", "600: 200 ns blocked, 300 ns waiting for the recorder, up to 100 ns earlier",
			"500 ns on CPU, 200 ns blocked, 300 ns waiting for the recorder", "running blocked recorder running", "waiting for the recorder", 500},
		{"sealed.txt", "#1", "100: 100 ns unknown", "100 ns on CPU, 100 ns unknown", "unknown running", "self on CPU", 200},
	} {
		input := offCPUFile(t, test.trace)
		page := openHTML(t, htmlOf(t, "", input), "")
		want, _, _ := accountOf(t, input)
		if diff := cmp.Diff(want, functionsIn(page)); diff != "" {
			t.Errorf("%s: account (-) and page (+):\n%s", test.trace, diff)
		}
		if got := want[test.function].CPU; got != test.cpu {
			t.Errorf("%s: account: %s was on CPU for %v ns, want %v", test.trace, test.function, got, test.cpu)
		}
		var got struct{ Waits, Self, Lane, Text string }
		page.Eval(`(async () => { const func = meta.functions.findIndex(f => f.name === "`+test.function+`"), call = calls.func.indexOf(func);
			change({tab: "function", func, call}); await settled();
			const w = calls.waits, waits = Array.from(w.end, (end, k) => end + ": " + page.waitParts(calls.threads[0], end, end));
			return {Waits: waits.join("|"), Self: page.selfParts(call), Lane: timeline.kinds(timeline.layout.lanes[0]).join(" "), Text: $("function").innerText}; })()`, &got)
		if got.Waits != test.waits || got.Self != test.self || got.Lane != test.lane || !strings.Contains(got.Text, test.text) {
			t.Errorf("%s: got %+v", test.trace, got)
		}
	}
}

// Perfetto's lanes have what is known of a CPU, say what is not, and keep waits that began before.
func TestLanesInTraceProcessor(t *testing.T) {
	t.Parallel()
	lanes := func(lost, from, to uint64) *traceprocessor.Processor {
		var logs []*sched.Log
		switched := func(tsc uint64, cpu uint16, from, to uint32, state byte) reader.SchedEvent {
			return reader.SchedEvent{TSC: tsc, Task: from, Other: to, CPU: cpu, Kind: reader.Switched, State: state}
		}
		for _, pid := range []int32{7, 8, 7} {
			tasks := []reader.Task{{PID: pid, TID: pid, Name: "prog"}, {PID: 30, TID: 31, Name: "hog"}, {PID: 8, TID: 8, Name: "other"}, {Name: "idle"}}
			events := []reader.SchedEvent{
				switched(100, 0, 1, 2, 'S'),
				{TSC: 150, CPU: 1, Task: 3, Other: 1, Kind: reader.Waking, Flags: reader.WokenBySoftIRQ},
				switched(300, 0, 2, 3, 'R'), switched(400, 0, 3, 1, 'D'), switched(500, 0, 1, 4, 'S'),
			}
			if pid == 8 { // it has the same turn as process 7 has of another task
				events = []reader.SchedEvent{switched(300, 0, 2, 1, 'R'), switched(400, 0, 1, 4, 'D'), switched(900, 1, 4, 1, 'R')}
			}
			logs = append(logs, sched.New(&reader.Recording{Process: reader.Process{PID: pid}, Sched: reader.Sched{
				Tasks: tasks, Parts: []reader.SchedPart{{From: 60, To: 1000, Lost: lost, Events: events}},
			}}))
		}
		var out bytes.Buffer
		p := convert.NewPerfetto(&out, convert.Options{
			Header: reader.Header{CycleFrequency: 1e9}, Base: 50, From: from, To: to, Sched: logs, Files: []string{"a", "b", "c"},
		})
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		return traceprocessor.Open(t, out.Bytes())
	}
	const complaints = `select name, value from stats where severity in ('error', 'data_loss') and value > 0`
	const turns = `select cpu, sched.ts, sched.dur, tid, end_state from sched join thread using (utid) order by 1, 2`
	const states = `select s.ts, s.dur, state, w.tid from thread_state s join thread t using (utid) left join thread w on s.waker_utid = w.utid where t.tid = 7 order by 1`
	none, n, s := any(nil), func(n int64) any { return n }, func(s string) any { return s }
	const unknown0, unknown1 = 1 << 30, 1<<30 + 1
	whole := lanes(0, 0, 0)
	for query, want := range map[string][][]any{
		complaints: nil,
		turns: {
			{n(0), n(10), n(40), n(7), s("S")}, {n(0), n(50), n(50), n(unknown0), s("R")}, {n(0), n(100), n(150), n(31), s("R")},
			{n(0), n(250), n(100), n(8), s("D")}, {n(0), n(350), n(100), n(7), s("S")}, {n(0), n(450), n(-1), n(unknown0), none},
			{n(1), n(850), n(-1), n(8), none},
		},
		states: {
			{n(10), n(40), s("Running"), none}, {n(50), n(50), s("S"), none}, {n(100), n(250), s("R"), n(8)},
			{n(350), n(100), s("Running"), none}, {n(450), n(-1), s("S"), none},
		},
		`select tid, process.name from thread join process using (upid) where tid > 0 order by 1`: {
			{n(7), s("process of a")}, {n(8), s("process of b")}, {n(30), s("hog (outside the trace; states unknown)")},
			{n(31), s("hog (outside the trace; states unknown)")},
			{n(unknown0), s("unknown tasks")},
			{n(unknown1), s("unknown tasks")},
		},
		`select name from slice`: {{s("The lanes of CPUs lack c: another trace has its process or thread IDs.")}},
	} {
		if diff := cmp.Diff(want, whole.Query(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	// A part begins in a wait, in which the thread was woken before, and ends in a turn.
	part := lanes(0, 200, 450)
	for query, want := range map[string][][]any{
		complaints: nil,
		turns: {
			{n(0), n(150), n(0), n(7), s("R")}, {n(0), n(150), n(100), n(31), s("R")}, {n(0), n(250), n(100), n(8), s("D")}, {n(0), n(350), n(-1), n(7), none},
		},
		states: {{n(150), n(0), s("Running"), none}, {n(150), n(200), s("R"), none}, {n(350), n(-1), s("Running"), none}},
	} {
		if diff := cmp.Diff(want, part.Query(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if got := lanes(1, 0, 0).Query(complaints); len(got) == 0 {
		t.Error("Perfetto does not say that events are lost")
	}
}
