package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/xray-tools/xray/internal/test/firefoxprofiler"
	"github.com/xray-tools/xray/internal/test/traceprocessor"
	"github.com/xray-tools/xray/internal/tracetext"
)

// offCPUTrace writes the trace of a script, in which a thread is off the processor.
func offCPUTrace(t *testing.T) string {
	archive, err := txtar.ParseFile("testdata/script/offcpu.txtar")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := tracetext.Parse(string(archive.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	input := filepath.Join(t.TempDir(), "trace.xray")
	if err := os.WriteFile(input, trace, 0o666); err != nil {
		t.Fatal(err)
	}
	return input
}

// Times off the processor have a track of their own below that of the thread.
func TestOffCPUInTraceProcessor(t *testing.T) {
	input := offCPUTrace(t)
	output := filepath.Join(t.TempDir(), "trace.pftrace")
	produce(t, "convert", "-f", "perfetto", "-o", output, input)
	written, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	p := traceprocessor.Open(t, written)
	for query, want := range map[string][][]any{
		`select s.ts, dur, s.name, t.name from slice s join track t on s.track_id = t.id where t.name = 'off the processor' order by 1`: {
			{int64(110), int64(250), "blocked", "off the processor"},
			{int64(360), int64(50), "in the run queue", "off the processor"},
			{int64(600), int64(100), "blocked", "off the processor"},
			{int64(890), int64(10), "in the run queue", "off the processor"},
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

// They are markers in the Firefox Profiler.
func TestOffCPUInFirefoxProfiler(t *testing.T) {
	output := filepath.Join(t.TempDir(), "profile.json")
	produce(t, "convert", "-f", "firefox", "-o", output, offCPUTrace(t))
	threads := firefoxThreads(firefoxprofiler.Open(t, output))
	if len(threads) != 1 || threads[0].MarkerCount != 4 {
		t.Errorf("threads %+v", threads)
	}
}
