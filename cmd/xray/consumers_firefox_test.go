package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/firefoxprofiler"
	"github.com/xray-tools/xray/internal/tracetext"
)

// firefoxThread is a thread as the Firefox Profiler reports it.
type firefoxThread struct {
	ThreadHandle, Name, ProcessName, PID string
	TID, MarkerCount                     int
}

func firefoxThreads(p *firefoxprofiler.Profiler) []firefoxThread {
	var list struct{ Threads []firefoxThread }
	p.Ask(map[string]any{"command": "thread", "subcommand": "list", "threadListOptions": map[string]any{"sort": "index"}}, &list)
	return list.Threads
}

// The Firefox Profiler computes the same self and total times as account, for each thread. It
// counts time in calls omitted by --func as self time of their callers.
func TestTimesInFirefoxProfiler(t *testing.T) {
	kvserver := consumedTraces(t)["kvserver-fdr.xray"]
	for name, test := range map[string]struct {
		chosen, trace []string
		functions     int
	}{
		"fdr":      {nil, kvserver, 60},
		"recorded": {nil, consumedTraces(t)["kvserver-recorded.xray"], 60},
		"part":     {[]string{"--from", "1ms", "--to", "3ms", "--func", "kv::", "--max-depth", "4"}, kvserver, 30},
		"long":     {[]string{"--min-duration", "20us"}, kvserver, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "profile.json.gz")
			args := slices.Concat(test.chosen, test.trace)
			produce(t, append([]string{"convert", "-f", "firefox", "--source", "--source-root", ".", "-o", file}, args...)...)
			p := firefoxprofiler.Open(t, file)
			functions, placed := 0, false
			for _, thread := range firefoxThreads(p) {
				type times struct{ count, self, total int64 }
				want, calls := map[string]times{}, int64(0)
				var report struct {
					Functions []struct {
						Function, Location string
						Count, Open        int64
						Self               int64 `json:"self_ns"`
						Total              int64 `json:"total_ns"`
					}
				}
				account := produce(t, append([]string{"account", "--format", "json", "--thread", strconv.Itoa(thread.TID)}, args...)...)
				if err := json.Unmarshal([]byte(account), &report); err != nil {
					t.Fatal(err)
				}
				for _, row := range report.Functions {
					sum := want[row.Function]
					want[row.Function] = times{sum.count + row.Count + row.Open, sum.self + row.Self, sum.total + row.Total}
					calls += row.Count + row.Open
				}
				functions += len(want)

				var answer struct {
					WeightType string
					Functions  []struct {
						FunctionHandle, Name      string
						SelfSamples, TotalSamples float64
					}
				}
				p.Ask(map[string]any{"command": "thread", "subcommand": "functions", "thread": thread.ThreadHandle}, &answer)
				if answer.WeightType != "tracing-ms" {
					t.Fatalf("got weight type %s, want tracing-ms", answer.WeightType)
				}
				got, handles := map[string]times{}, map[string]string{}
				for _, f := range answer.Functions {
					sum := got[f.Name]
					handles[f.Name] = f.FunctionHandle
					got[f.Name] = times{0, sum.self + int64(math.Round(f.SelfSamples*1e6)), sum.total + int64(math.Round(f.TotalSamples*1e6))}
				}
				for function, w := range want {
					g := got[function]
					delete(got, function)
					// Calls begin and end at whole nanoseconds: a call's end is
					// rounded like the start of the next one.
					about := func(got, want, calls int64) bool {
						return got == want || name == "recorded" && max(got-want, want-got) <= calls
					}
					if !about(g.total, w.total, w.count) ||
						!about(g.self, w.self, calls) && !(test.chosen != nil && g.self > w.self) {
						t.Errorf("thread %d, %s: got self and total times %d and %d, want %d and %d as in account",
							thread.TID, function, g.self, g.total, w.self, w.total)
					}
				}
				for _, row := range report.Functions {
					if name == "fdr" && row.Function == "kv::serve(int, kv::Queue&)" {
						checkFirefoxPlace(t, p, thread.ThreadHandle, handles[row.Function], row.Location)
						placed = true
					}
				}
				if len(got) > 0 {
					t.Errorf("thread %d: the profiler has functions that account lacks: %v", thread.TID, got)
				}
			}
			if name == "fdr" && !placed {
				t.Error("no thread calls kv::serve")
			}
			if functions < test.functions {
				t.Errorf("got %d functions, want at least %d", functions, test.functions)
			}
		})
	}
}

// checkFirefoxPlace checks that the profiler attributes the function's time to its source file and
// line.
func checkFirefoxPlace(t *testing.T, p *firefoxprofiler.Profiler, thread, function, place string) {
	t.Helper()
	var ignored any
	p.Ask(map[string]any{"command": "thread", "subcommand": "select", "thread": thread}, &ignored)
	var answer struct {
		TotalSelfSamples float64
		SrcAnnotation    struct {
			Filename string
			Lines    []struct {
				LineNumber  int
				SelfSamples float64
			}
		}
	}
	p.Ask(map[string]any{"command": "function", "subcommand": "annotate", "function": function, "annotateMode": "src"}, &answer)
	for _, line := range answer.SrcAnnotation.Lines {
		at := fmt.Sprintf("%s:%d", filepath.Base(answer.SrcAnnotation.Filename), line.LineNumber)
		if at == place && answer.TotalSelfSamples > 0 && math.Abs(line.SelfSamples-answer.TotalSelfSamples) < 1e-6 {
			return
		}
	}
	t.Errorf("the profiler does not place the function at %s: %+.1000v", place, answer)
}

// The Firefox Profiler shows names, source locations, arguments and events, and says what the
// profile lacks.
func TestEventsInFirefoxProfiler(t *testing.T) {
	trace, err := tracetext.Parse(`xray fdr version=5 frequency=1000000000
thread 7 pid=7 wall=1.000020 cpu=0 tsc=1000
enter-arg 1 +5
arg 42
arg 0xffff800000001000
enter 2 +10
exit 2 +10
metadata 17 "\x05\x00\x00\x00\x00\x00\x00\x00" +5
exit 1 +5000
end-of-buffer
zeros auto
thread 12 pid=7 wall=1.000020 cpu=0 tsc=1000
enter 2 +50
metadata 17 "\x05\x00\x00\x00\x00\x00\x00\x00checkout" +5
custom "step one" +1
typed 513 "\x00\xff" +1
enter 3 +3000
end-of-buffer
`)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	input, output := filepath.Join(dir, "trace.xray"), filepath.Join(dir, "profile.json")
	if err := os.WriteFile(input, trace, 0o666); err != nil {
		t.Fatal(err)
	}
	produce(t, "convert", "-f", "firefox", "--max-calls", "2", "-o", output, input)
	p := firefoxprofiler.Open(t, output)

	var meta struct {
		Product, ImportedFrom string
		Symbolicated          bool
		DurationMs            float64
		Extra                 []struct {
			Entries []struct{ Label, Formatted string }
		}
	}
	p.Ask(map[string]any{"command": "profile", "subcommand": "meta"}, &meta)
	if meta.Product != input || meta.ImportedFrom != "xray" || !meta.Symbolicated || math.Round(meta.DurationMs*1e6) != 5025 || len(meta.Extra) != 1 {
		t.Errorf("wrong metadata: %+v", meta)
	}
	said := fmt.Sprint(meta.Extra)
	for _, want := range []string{"{Calls 4}", "{Calls too short to be shown 2}", "{Calls that were open at the end 2}", "{Records lost 2}", "{Omitted 2 calls shorter than "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %s in the description of the trace: %s", want, said)
		}
	}

	threads := firefoxThreads(p)
	wantThreads := []firefoxThread{{"t-0", "main thread", "process 7", "7", 7, 2}, {"t-1", "thread 12", "process 7", "7", 12, 3}}
	if diff := cmp.Diff(wantThreads, threads); diff != "" {
		t.Fatalf("threads, -want +got:\n%s", diff)
	}
	type marker struct {
		Name, Label, MarkerType string
		Start                   float64
		Duration                *float64
		HasStack                bool
	}
	ns := func(n float64) *float64 { return &n }
	for _, want := range [][]marker{
		{{"#1", "42, 0xffff800000001000", "call", 0, ns(5025), true}, {"request", "5", "request", 25, nil, true}},
		{{"request", "5: checkout", "request", 50, nil, true}, {"custom event", "step one", "event", 51, nil, true}, {"typed event 513", "00ff", "event", 52, nil, true}},
	} {
		var got struct{ FlatMarkers []marker }
		p.Ask(map[string]any{"command": "thread", "subcommand": "markers", "thread": threads[0].ThreadHandle, "markerFilters": map[string]any{"list": true}}, &got)
		threads = threads[1:]
		for i := range got.FlatMarkers {
			m := &got.FlatMarkers[i]
			m.Start = math.Round(m.Start * 1e6)
			if m.Duration != nil {
				m.Duration = ns(math.Round(*m.Duration * 1e6))
			}
		}
		if diff := cmp.Diff(want, got.FlatMarkers); diff != "" {
			t.Errorf("markers, -want +got:\n%s", diff)
		}
	}
}
