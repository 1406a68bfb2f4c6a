package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/xray-tools/xray/internal/test/firefoxprofiler"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/internal/test/traceprocessor"
)

// offCPUTrace writes the trace of testdata/script/offcpu.txtar, whose thread is off CPU
// at times.
func offCPUTrace(t *testing.T) string {
	archive, err := txtar.ParseFile("testdata/script/offcpu.txtar")
	if err != nil {
		t.Fatal(err)
	}
	input := textTrace(t, string(archive.Files[0].Data))
	return input
}

// Perfetto shows off-CPU times on a track below the thread's.
func TestOffCPUInTraceProcessor(t *testing.T) {
	t.Parallel()
	input := offCPUTrace(t)
	output := filepath.Join(t.TempDir(), "trace.pftrace")
	produce(t, "convert", "-f", "perfetto", "-o", output, input)
	written, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	p := traceprocessor.Open(t, written)
	for query, want := range map[string][][]any{
		`select s.ts, dur, s.name, t.name from slice s join track t on s.track_id = t.id where t.name = 'off CPU' order by 1`: {
			{int64(110), int64(250), "blocked", "off CPU"},
			{int64(360), int64(50), "in the run queue", "off CPU"},
			{int64(600), int64(100), "blocked", "off CPU"},
			{int64(890), int64(10), "in the run queue", "off CPU"},
		},
		`select count(*) from slice where name like '#%'`:                                      {{int64(3)}},
		`select name, value from stats where severity in ('error', 'data_loss') and value > 0`: nil,
		`select distinct string_value from args where key = 'debug.or'`:                        {{"up to 90ns earlier"}},
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

// The page splits self times by off-CPU time as account does, and lists the times as events.
func TestHTMLOffCPU(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	input := offCPUTrace(t)
	page := openHTML(t, htmlOf(t, "", input), "#tab=function&function=1")
	want, _, _ := accountOf(t, input)
	if want["#2"].Blocked != 350 {
		t.Errorf("account: got %+v, want 350 ns blocked", want["#2"])
	}
	if diff := cmp.Diff(want, functionsIn(page)); diff != "" {
		t.Errorf("account (-) and page (+):\n%s", diff)
	}
	var events []string
	page.Eval(`meta.events.map(e => e.at + " " + e.text)`, &events)
	if diff := cmp.Diff([]string{
		"410 was off CPU: blocked 250ns, in the run queue 50ns",
		"700 was off CPU: blocked 100ns", "900 was off CPU: in the run queue 10ns",
	}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	var text string
	page.Eval(`(async () => { change({tab: "function", func: 1}); await settled(); return document.querySelector("#panels > section:not([hidden])").innerText; })()`, &text)
	if !strings.Contains(text, "in the run queue") {
		t.Errorf("no run queue in the function's view: %s", text)
	}
}
