package convert

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

// llvmTrace is trace_event JSON in the form of llvm-xray.
type llvmTrace struct {
	TraceEvents     []llvmEvent          `json:"traceEvents"`
	DisplayTimeUnit string               `json:"displayTimeUnit"`
	StackFrames     map[string]llvmFrame `json:"stackFrames"`
}

type llvmEvent struct{ Name, Ph, Tid, Pid, Ts, Sf string }

type llvmFrame struct{ Name, Parent string }

func parseLLVMTrace(t rapid.TB, text string) llvmTrace {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("not UTF-8: %q", text)
	}
	var trace llvmTrace
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&trace); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return trace
}

func TestTraceEvents(t *testing.T) {
	opts := Options{Header: oneGHz, Names: names{1: "main", 2: `"q" \`, 3: "leaf"}}
	const tsc = 1795215991362020957
	got := writeBlocks(t, NewTraceEvents, opts,
		&reader.Block{Thread: reader.Thread{Process: 9, Thread: 10}, Events: []reader.Event{
			{TSC: tsc, Func: 3, Kind: reader.Exit}, // matches no call
			{TSC: tsc, Func: 1},
			{TSC: tsc + 43, Func: 2, Kind: reader.EnterArg},
			{TSC: tsc + 50, Func: 4},
			{TSC: tsc + 60, Func: 5, Kind: reader.Custom},
			{TSC: tsc + 70, Func: 3, Kind: reader.Exit},       // matches no call
			{TSC: tsc + 1043, Func: 2, Kind: reader.TailExit}, // matches the caller
		}},
		&reader.Block{Index: 1, Thread: reader.Thread{Process: 9, Thread: 11}, Events: []reader.Event{
			{TSC: 1, Func: 1}, {TSC: 2, Func: 3}, {TSC: 3, Func: 3, Kind: reader.Exit}, {TSC: 4, Func: 1, Kind: reader.Exit},
		}},
		&reader.Block{Thread: reader.Thread{Process: 9, Thread: 10}, Events: []reader.Event{
			{TSC: tsc + 2000, Func: 3},
		}},
	)
	want := `{
  "traceEvents": [
    { "name" : "main", "ph" : "B", "tid" : "10", "pid" : "9", "ts" : "1795215991362020.9570", "sf" : "0" },
    { "name" : "\"q\" \\", "ph" : "B", "tid" : "10", "pid" : "9", "ts" : "1795215991362021.0000", "sf" : "1" },
    { "name" : "#4", "ph" : "B", "tid" : "10", "pid" : "9", "ts" : "1795215991362021.0070", "sf" : "2" },
    { "name" : "#4", "ph" : "E", "tid" : "10", "pid" : "9", "ts" : "1795215991362022.0000", "sf" : "2" },
    { "name" : "\"q\" \\", "ph" : "E", "tid" : "10", "pid" : "9", "ts" : "1795215991362022.0000", "sf" : "1" },
    { "name" : "main", "ph" : "B", "tid" : "11", "pid" : "9", "ts" : "0.0010", "sf" : "0" },
    { "name" : "leaf", "ph" : "B", "tid" : "11", "pid" : "9", "ts" : "0.0020", "sf" : "3" },
    { "name" : "leaf", "ph" : "E", "tid" : "11", "pid" : "9", "ts" : "0.0030", "sf" : "3" },
    { "name" : "main", "ph" : "E", "tid" : "11", "pid" : "9", "ts" : "0.0040", "sf" : "0" },
    { "name" : "leaf", "ph" : "B", "tid" : "10", "pid" : "9", "ts" : "1795215991362022.9570", "sf" : "3" },
    { "name" : "leaf", "ph" : "E", "tid" : "10", "pid" : "9", "ts" : "1795215991362022.9570", "sf" : "3" },
    { "name" : "main", "ph" : "E", "tid" : "10", "pid" : "9", "ts" : "1795215991362022.9570", "sf" : "0" }
  ],
  "displayTimeUnit": "ns",
  "stackFrames": {
    "0" : { "name" : "main" },
    "1" : { "name" : "\"q\" \\", "parent": "0" },
    "2" : { "name" : "#4", "parent": "1" },
    "3" : { "name" : "leaf", "parent": "0" }
  }
}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTraceEventsOfOldVersion(t *testing.T) {
	block := &reader.Block{Thread: reader.Thread{Process: 9, Thread: 10}, Events: []reader.Event{{TSC: 5, Func: 7}}}
	got := writeBlocks(t, NewTraceEvents, Options{Header: reader.Header{Version: 2}}, block)
	want := `    { "name" : "7", "ph" : "B", "tid" : "10", "pid" : "1", "ts" : "5.000", "sf" : "0" },` + "\n"
	if !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
}

func TestTraceEventsWithoutRecords(t *testing.T) {
	got := writeBlocks(t, NewTraceEvents, Options{}, &reader.Block{})
	want := "{\n  \"traceEvents\": [\n\n  ],\n  \"displayTimeUnit\": \"ns\",\n  \"stackFrames\": {\n  }\n}\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTraceEventsAreLLVMs compares random traces without calls that stay open: llvm-xray's file
// ends there.
func TestTraceEventsAreLLVMs(t *testing.T) {
	testenv.Need(t, "llvm-xray-22")
	file := filepath.Join(t.TempDir(), "trace.yaml")
	checkFew(t, func(t *rapid.T) {
		opts := Options{Header: reader.Header{
			Version:        1,
			CycleFrequency: rapid.SampledFrom([]uint64{1_000_000, 4_000_000, 1_000_000_000}).Draw(t, "frequency"),
		}}
		blocks := withoutUnmatchedExits(genBlocks(t, false))
		got := writeBlocks(t, NewTraceEvents, opts, blocks...)
		want := llvmConvert(t, file, writeBlocks(t, NewYAML, opts, blocks...), "-f", "trace_event")
		gotTrace, wantTrace := parseLLVMTrace(t, got), parseLLVMTrace(t, want)
		n := len(wantTrace.TraceEvents)
		for _, e := range gotTrace.TraceEvents[n:] {
			if e.Ph != "E" {
				t.Errorf("llvm-xray lacks %v", e)
			}
		}
		gotTrace.TraceEvents = append([]llvmEvent(nil), gotTrace.TraceEvents[:n]...)
		wantTrace.TraceEvents = append([]llvmEvent(nil), wantTrace.TraceEvents...)
		if diff := cmp.Diff(wantTrace, gotTrace); diff != "" {
			t.Fatalf("(-llvm-xray +this package):\n%s\n%s", diff, got)
		}
		// Compare the text, too, not only the values.
		common, _, _ := strings.Cut(want, "\n  ],")
		if !strings.HasPrefix(got, common) {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// withoutUnmatchedExits drops the unmatched exits, which llvm-xray handles incorrectly.
func withoutUnmatchedExits(blocks []*reader.Block) []*reader.Block {
	open := map[int]map[reader.FuncID]int{}
	stacks := map[int][]reader.FuncID{}
	for _, b := range blocks {
		if open[b.Index] == nil {
			open[b.Index] = map[reader.FuncID]int{}
		}
		for i := range b.Events {
			e := &b.Events[i]
			switch {
			case e.Kind.IsEnter():
				open[b.Index][e.Func]++
				stacks[b.Index] = append(stacks[b.Index], e.Func)
			case e.Kind.IsExit() && open[b.Index][e.Func] == 0:
				e.Kind, e.Side = reader.Custom, false
			case e.Kind.IsExit():
				for ended := false; !ended; {
					s := stacks[b.Index]
					top := s[len(s)-1]
					stacks[b.Index] = s[:len(s)-1]
					open[b.Index][top]--
					ended = top == e.Func
				}
			}
		}
	}
	return blocks
}

// TestTraceEventsOfCorpus compares whole traces with the output of llvm-xray, except timestamps,
// which llvm-xray rounds.
func TestTraceEventsOfCorpus(t *testing.T) {
	timestamp := regexp.MustCompile(`"ts" : "([0-9.]+)"`)
	for trace, want := range corpus(t, ".trace_event.json.txt") {
		t.Run(filepath.Base(trace), func(t *testing.T) {
			got := writeTrace(t, NewTraceEvents, trace, reader.TimeOrder)
			gotTimes, wantTimes := timestamp.FindAllStringSubmatch(got, -1), timestamp.FindAllStringSubmatch(want, -1)
			for i := range min(len(gotTimes), len(wantTimes)) {
				g, err1 := strconv.ParseFloat(gotTimes[i][1], 64)
				w, err2 := strconv.ParseFloat(wantTimes[i][1], 64)
				if err1 != nil || err2 != nil || g < w-0.25 || g > w+0.25 {
					t.Fatalf("event %d: got %s us, want %s as in llvm-xray", i, gotTimes[i][1], wantTimes[i][1])
				}
			}
			want = strings.TrimSuffix(want, "[exit status 0]\n")
			wantTrace := parseLLVMTrace(t, timestamp.ReplaceAllString(want, `"ts":""`))
			gotTrace := parseLLVMTrace(t, timestamp.ReplaceAllString(got, `"ts":""`))
			if diff := cmp.Diff(wantTrace, gotTrace); diff != "" {
				t.Errorf("(-llvm-xray +this package):\n%s", diff)
			}
		})
	}
}

// TestTraceEventsBalance checks for all kinds of traces that names and times are valid and that
// every call ends.
func TestTraceEventsBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := names{}
		for id := range reader.FuncID(4) {
			n[id] = genHostileName.Draw(t, "name")
		}
		opts := Options{Names: n, Header: reader.Header{Version: 3, CycleFrequency: rapid.SampledFrom([]uint64{0, 3_000_000_001}).Draw(t, "frequency")}}
		trace := parseLLVMTrace(t, writeBlocks(t, NewTraceEvents, opts, genBlocks(t, true)...))
		open := map[string][]string{}
		for _, e := range trace.TraceEvents {
			if _, err := strconv.ParseFloat(e.Ts, 64); err != nil {
				t.Fatal(err)
			}
			frame, ok := trace.StackFrames[e.Sf]
			if !ok || frame.Name != e.Name {
				t.Fatalf("%v: wrong stack frame %v", e, frame)
			}
			stack := open[e.Tid]
			if e.Ph == "B" {
				parent := ""
				if len(stack) > 0 {
					parent = stack[len(stack)-1]
				}
				if frame.Parent != parent {
					t.Fatalf("%v begins in frame %q, but its parent frame is %q", e, parent, frame.Parent)
				}
				open[e.Tid] = append(stack, e.Sf)
				continue
			}
			if len(stack) == 0 || stack[len(stack)-1] != e.Sf {
				t.Fatalf("%v ends out of order; open: %v", e, stack)
			}
			open[e.Tid] = stack[:len(stack)-1]
		}
		for tid, stack := range open {
			if len(stack) > 0 {
				t.Fatalf("thread %s: %v did not end", tid, stack)
			}
		}
	})
}

// TestTraceEventsOfDeepStack has unmatched exits on a deep stack. Searching the whole stack for
// each would take too long.
func TestTraceEventsOfDeepStack(t *testing.T) {
	const depth = 50_000
	b := &reader.Block{}
	for i := range depth {
		b.Events = append(b.Events, reader.Event{Func: reader.FuncID(1 + i%1000)})
	}
	for range depth {
		b.Events = append(b.Events, reader.Event{Func: 2000, Kind: reader.Exit})
	}
	for i := range depth {
		b.Events = append(b.Events, reader.Event{Func: reader.FuncID(1 + (depth-1-i)%1000), Kind: reader.Exit})
	}
	b.Events = append(b.Events,
		reader.Event{Func: 7, TSC: 97}, reader.Event{Func: 8, Kind: reader.Exit, TSC: 98},
		reader.Event{Func: 7, Kind: reader.Exit, TSC: 99}, reader.Event{Func: 7, Kind: reader.Exit, TSC: 100})
	trace := parseLLVMTrace(t, writeBlocks(t, NewTraceEvents, Options{}, b))
	if got, want := len(trace.TraceEvents), 2*depth+2; got != want {
		t.Fatalf("got %d events, want %d", got, want)
	}
	if last := trace.TraceEvents[2*depth+1]; last.Ph != "E" || last.Ts != "99.000" {
		t.Errorf("got last event %v", last)
	}
}
