package convert

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

func TestChrome(t *testing.T) {
	paths := calls.NewPaths()
	opts := Options{
		Header: reader.Header{Version: 5, Type: reader.FDR, CycleFrequency: 1_000_000_000},
		Names:  names{1: "main", 2: `operator"" _q`}, Base: 1_000_000,
	}
	got := write(t, NewChrome, opts,
		&calls.Batch{
			Thread: reader.Thread{Process: 77, Thread: 77}, Paths: paths,
			Calls: []calls.Call{
				{Start: 1_002_003, Duration: 4_567, Func: 2, Depth: 2, Args: true},
				{Start: 1_002_003, Duration: 4_567, Func: 3, Depth: 1, End: calls.TailExited},
				{Start: 999_999, Duration: 1_000_000, Func: 1, End: calls.Truncated, Args: true},
			},
			Args: []calls.Arg{{Call: 0, Value: 100}, {Call: 0, Value: math.MaxUint64}, {Call: 2, Value: 7}},
			Events: []calls.Event{
				{TSC: 1_002_004, Kind: reader.Custom, Depth: 3, Data: []byte("say \"hello\"\n")},
				{TSC: 1_002_005, Kind: reader.Typed, Type: 513, Depth: 3, Data: []byte{0, 0xFF}},
			},
		},
		&calls.Batch{
			Index: 1, Thread: reader.Thread{Process: 77, Thread: 78},
			Calls: []calls.Call{{Start: 1_000_000, Duration: 1, Func: 2, End: calls.Inferred}},
		},
	)
	want := `{"displayTimeUnit":"ns","otherData":{"format":"XRay fdr log, version 5","cycle-frequency":"1000000000","tsc-of-time-0":"1000000"},
"traceEvents":[
{"name":"process_name","ph":"M","pid":77,"tid":77,"args":{"name":"process"}},
{"name":"thread_name","ph":"M","pid":77,"tid":77,"args":{"name":"main thread"}},
{"name":"custom event","ph":"i","s":"t","ts":2.004,"pid":77,"tid":77,"args":{"text":"say \"hello\"\n"}},
{"name":"typed event 513","ph":"i","s":"t","ts":2.005,"pid":77,"tid":77,"args":{"hex":"00ff"}},
{"name":"operator\"\" _q","ph":"X","ts":2.003,"dur":4.567,"pid":77,"tid":77,"args":{"arguments":[100,"0xffffffffffffffff"]}},
{"name":"#3","ph":"X","ts":2.003,"dur":4.568,"pid":77,"tid":77},
{"name":"main","ph":"X","ts":-0.001,"dur":1000.000,"pid":77,"tid":77,"args":{"arguments":[7],"end":"truncated"}},
{"name":"thread_name","ph":"M","pid":77,"tid":78,"args":{"name":"thread"}},
{"name":"operator\"\" _q","ph":"X","ts":0.000,"dur":0.001,"pid":77,"tid":78,"args":{"end":"inferred"}}
]}
`
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChromeOfUnknownFrequency(t *testing.T) {
	got := parseChrome(t, write(t, NewChrome, Options{Base: 10}, &calls.Batch{
		Calls: []calls.Call{{Start: 12, Duration: 1234, Func: 1}},
	}))
	call := got.TraceEvents[len(got.TraceEvents)-1]
	if call.Ts != "2" || *call.Dur != "1234" {
		t.Errorf("got ts %s, dur %s, want 2 and 1234 ticks", call.Ts, *call.Dur)
	}
	if !strings.Contains(got.OtherData["unit-of-time"], "ticks") {
		t.Errorf("otherData does not say that times are ticks: %v", got.OtherData)
	}
}

// TestChromeClosesOpenCallsAfterTheLastRecord has a thread whose last records enter a function and
// log an event. If the caller ended at that time, viewers would show both outside it.
func TestChromeClosesOpenCallsAfterTheLastRecord(t *testing.T) {
	for _, frequency := range []uint64{1_000_000_000, 0} {
		got := parseChrome(t, write(t, NewChrome, Options{Header: reader.Header{CycleFrequency: frequency}}, &calls.Batch{
			Calls: []calls.Call{
				{Start: 9, Func: 2, Depth: 1, End: calls.Truncated},
				{Start: 1, Duration: 8, Func: 1, End: calls.Truncated},
			},
			Events: []calls.Event{{TSC: 9, Kind: reader.Custom, Depth: 2}},
		}))
		caller := got.TraceEvents[len(got.TraceEvents)-1]
		callerEnd := nanos(t, caller.Ts) + nanos(t, *caller.Dur)
		if caller.Name != "#1" {
			t.Fatalf("got last event %v, want the caller", caller)
		}
		for _, e := range got.TraceEvents {
			if e.Ph != "M" && nanos(t, e.Ts) >= callerEnd {
				t.Errorf("%s at %s is not before its caller's end", e.Name, e.Ts)
			}
		}
	}
}

func TestChromeWithoutCalls(t *testing.T) {
	if got := parseChrome(t, write(t, NewChrome, Options{})); len(got.TraceEvents) != 0 {
		t.Errorf("got events %v", got.TraceEvents)
	}
}

// TestChromeKeepsProcessesApart has several traces with the same IDs.
func TestChromeKeepsProcessesApart(t *testing.T) {
	var batches []*calls.Batch
	for i, thread := range []reader.Thread{
		{File: 0, Process: 5, Thread: 6}, {File: 0, Process: 5, Thread: 7}, {File: 1, Process: 5, Thread: 6},
		{File: 0, Process: 0, Thread: 6}, {File: 1, Process: 0, Thread: 6},
	} {
		batches = append(batches, &calls.Batch{Index: i, Thread: thread})
	}
	got := parseChrome(t, write(t, NewChrome, Options{Files: []string{"a.xray", "b.xray"}}, batches...))
	processes := map[int64]string{}
	for _, e := range got.TraceEvents {
		if e.Name == "process_name" {
			processes[e.Pid] = e.Args["name"].(string)
		}
	}
	want := map[int64]string{
		5: "process of a.xray", 4194305: "process 5 of b.xray", 4194306: "process of a.xray", 4194307: "process of b.xray",
	}
	if diff := gocmp.Diff(want, processes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// chromeTrace is what a viewer reads. Numbers keep their text.
type chromeTrace struct {
	DisplayTimeUnit string            `json:"displayTimeUnit"`
	OtherData       map[string]string `json:"otherData"`
	TraceEvents     []chromeEvent     `json:"traceEvents"`
}

type chromeEvent struct {
	Name, Ph, S string
	Ts          json.Number
	Dur         *json.Number
	Pid, Tid    int64
	Args        map[string]any
}

// parseChrome reads a trace as strictly as the specification of the format allows.
func parseChrome(t rapid.TB, text string) chromeTrace {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("not UTF-8: %q", text)
	}
	var trace chromeTrace
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&trace); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	named := map[[2]int64]bool{}
	for _, e := range trace.TraceEvents {
		id := [2]int64{e.Pid, e.Tid}
		switch {
		case e.Ph == "M" && (e.Name == "process_name" || e.Name == "thread_name"):
			if _, ok := e.Args["name"].(string); !ok {
				t.Fatalf("%v has no name", e)
			}
			if e.Name == "thread_name" && named[id] {
				t.Fatalf("thread %v is named twice", id)
			}
			named[id] = named[id] || e.Name == "thread_name"
		case e.Ph == "X" && e.Ts != "" && e.Dur != nil && named[id]:
			if strings.HasPrefix(e.Dur.String(), "-") {
				t.Fatalf("%v has a negative duration", e)
			}
		case e.Ph == "C" && e.Ts != "" && named[id]:
		case e.Ph == "i" && e.Ts != "" && e.S == "t" && named[id]:
		default:
			t.Fatalf("invalid event %+v", e)
		}
	}
	return trace
}

// nanos converts microseconds to nanoseconds. It allows a tiny difference.
func nanos(t rapid.TB, micros json.Number) int64 {
	r, ok := new(big.Rat).SetString(micros.String())
	if !ok {
		t.Fatalf("invalid time %s", micros)
	}
	r.Mul(r, big.NewRat(1000, 1))
	nearest := new(big.Rat).Add(r, big.NewRat(1, 2))
	whole := new(big.Int).Div(nearest.Num(), nearest.Denom())
	if r.Sub(r, new(big.Rat).SetInt(whole)).Abs(r).Cmp(big.NewRat(1, 10)) > 0 {
		t.Fatalf("time %s is not a whole number of ns", micros)
	}
	return whole.Int64()
}

// chromeSlice is a call, a run or an instant as viewers see it.
type chromeSlice struct {
	name       string
	start, end int64
	call       int // index of the call; -1 for others
}

// chromeParents finds the slice around each slice by times alone, as viewers do.
func chromeParents(list []chromeSlice) []int {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(list[i].start, list[j].start), cmp.Compare(list[j].end, list[i].end))
	})
	parents := make([]int, len(list))
	var open []int
	for _, i := range order {
		for len(open) > 0 && list[open[len(open)-1]].end <= list[i].start {
			open = open[:len(open)-1]
		}
		parents[i] = -1
		if len(open) > 0 {
			parents[i] = open[len(open)-1]
		}
		open = append(open, i)
	}
	return parents
}

// TestChromeShowsEveryCall checks that each of some random calls with hostile names is there, with
// its time, and that viewers place it in its caller, whatever times are equal. Times are exact but
// for the nanoseconds that this takes.
func TestChromeShowsEveryCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := names{}
		for id := range reader.FuncID(8) {
			n[id] = genHostileName.Draw(t, "name")
		}
		frequency := rapid.SampledFrom([]uint64{1_000_000_000, 3_000_000_001, 24_000_000, 7}).Draw(t, "frequency")
		base := rapid.Uint64Range(0, 2_000_000).Draw(t, "base")
		opts := Options{Header: reader.Header{CycleFrequency: frequency}, Names: n, Base: base}
		batches := genBatches(t)
		genShortest(t, &opts, batches)
		for _, b := range batches {
			placeEvents(b)
		}
		trace := parseChrome(t, write(t, NewChrome, opts, batches...))

		got := map[int64][]chromeSlice{}
		leftOut := map[int64]uint64{}
		for _, e := range trace.TraceEvents {
			switch e.Ph {
			case "X":
				start := nanos(t, e.Ts)
				got[e.Tid] = append(got[e.Tid], chromeSlice{e.Name, start, start + nanos(t, *e.Dur), 0})
			case "C":
				n, err := e.Args["calls"].(json.Number).Int64()
				if err != nil {
					t.Fatal(err)
				}
				leftOut[e.Tid] += uint64(n)
			case "i":
				data, text := e.Args["text"].(string)
				if !text {
					b, err := hex.DecodeString(e.Args["hex"].(string))
					if err != nil {
						t.Fatal(err)
					}
					data = string(b)
				}
				start := nanos(t, e.Ts)
				got[e.Tid] = append(got[e.Tid], chromeSlice{data, start, start, -1})
			}
		}
		for _, b := range batches {
			tid := int64(b.Thread.Thread)
			if want := leftOutOf(b, opts); leftOut[tid] != want {
				t.Fatalf("thread %d: got %d calls omitted, want %d", tid, leftOut[tid], want)
			}
			checkChromeThread(t, b, &opts, got[tid])
		}
	})
}

// checkChromeThread compares the slices of a thread with its calls, runs and events.
func checkChromeThread(t *rapid.T, b *calls.Batch, opts *Options, got []chromeSlice) {
	time := opts.timeline()
	var want, runs, events []chromeSlice
	for i, call := range b.Calls {
		if call.Duration >= opts.Shortest {
			// Replace each byte that is not UTF-8 by one character, as the writer does.
			name := string([]rune(opts.label(call.Func)))
			want = append(want, chromeSlice{name, time.at(call.Start), time.at(call.Start + call.Duration), i})
		}
	}
	for _, r := range runsOf(b, *opts) {
		start := time.at(r.start)
		runs = append(runs, chromeSlice{leftOutName, start, max(start, time.at(r.end)-1), -1})
	}
	var innermost []int // shown call around an event
	for i := range b.Events {
		e := &b.Events[i]
		if opts.LeftOut != "" && !shows(b, e, *opts) {
			continue
		}
		events = append(events, chromeSlice{string(e.Data), time.at(e.TSC), time.at(e.TSC), -1})
		around := -1
		for j, c := range slices.Backward(b.Calls) {
			if c.Duration >= opts.Shortest && c.Depth < e.Depth && c.Start < e.TSC && e.TSC <= c.Start+c.Duration {
				around = j
			}
		}
		innermost = append(innermost, around)
	}
	byStart := func(a, b chromeSlice) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.name, b.name)) }
	slices.SortStableFunc(runs, byStart)
	moved := int64(len(b.Calls) + len(b.Events))
	next := func(list *[]chromeSlice, kind string, s *chromeSlice) {
		if len(*list) == 0 {
			t.Fatalf("unexpected %s %+v", kind, *s)
		}
		w := (*list)[0]
		*list = (*list)[1:]
		if s.name != w.name || s.start < w.start || s.start > w.start+moved || s.end < w.end || s.end > w.end+moved {
			t.Fatalf("got %s %+v, want %+v", kind, *s, w)
		}
		s.call = w.call
	}
	var gotRuns, gotEvents []chromeSlice
	for i := range got {
		switch s := &got[i]; {
		case s.call < 0:
			gotEvents = append(gotEvents, *s)
		case s.name == leftOutName && opts.LeftOut != "":
			s.call = -1
			gotRuns = append(gotRuns, *s)
		default:
			next(&want, "call", s)
		}
	}
	slices.SortStableFunc(gotRuns, byStart)
	for i := range gotRuns {
		next(&runs, "run", &gotRuns[i])
	}
	if opts.LeftOut != "" { // events are written when it is known whether their call is shown
		slices.SortStableFunc(gotEvents, byStart)
		slices.SortStableFunc(events, byStart)
	}
	for i := range gotEvents {
		next(&events, "event", &gotEvents[i])
	}
	if len(want)+len(runs)+len(events) > 0 {
		t.Fatalf("missing %v %v %v", want, runs, events)
	}
	instants := 0
	for i, parent := range chromeParents(got) {
		s, in := got[i], -1
		if s.call < 0 && opts.LeftOut != "" {
			continue
		}
		if parent >= 0 {
			if in = got[parent].call; in < 0 {
				t.Fatalf("%+v is inside %+v", s, got[parent])
			}
		}
		around := -1
		if s.call >= 0 {
			around = shownCaller(b, s.call, opts)
		} else {
			around = innermost[instants]
			instants++
		}
		if in != around {
			t.Fatalf("%+v is inside call %d, want %d:\n%+v", s, in, around, got)
		}
	}
}

// shownCaller returns the innermost shown call around a call, or -1.
func shownCaller(b *calls.Batch, call int, opts *Options) int {
	depth := b.Calls[call].Depth
	for i := call + 1; i < len(b.Calls) && depth > 0; i++ {
		if c := b.Calls[i]; c.Depth < depth {
			if depth = c.Depth; c.Duration >= opts.Shortest {
				return i
			}
		}
	}
	return -1
}
