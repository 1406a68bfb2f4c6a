package convert

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// firefoxProfile is what the Firefox Profiler reads.
type firefoxProfile struct {
	Meta struct {
		ProfilingStartTime, ProfilingEndTime json.Number
		Extra                                []struct {
			Entries []struct {
				Label string
				Value any
			}
		}
	}
	Threads []struct {
		Name, ProcessName, PID string
		TID                    int64
		Samples                struct {
			Length             int
			Stack              []*int
			TimeDeltas, Weight []json.Number
		}
		Markers struct {
			Length                int
			Name, Phase, Category []int
			StartTime             []json.Number
			EndTime               []*json.Number
			Data                  []firefoxMarkerData
		}
	}
	Shared struct {
		StackTable struct {
			Length int
			Frame  []int
			Prefix []*int
		}
		FrameTable struct {
			Length int
			Func   []int
			Line   []*int
		}
		FuncTable struct {
			Length     int
			Name       []int
			Source     []*int
			LineNumber []*int
		}
		Sources struct {
			Length   int
			Filename []int
		}
		StringArray []string
	}
}

type firefoxMarkerData struct {
	Type, Arguments, Text, Bytes string
	Request                      *int
	Cause                        struct{ Stack *int }
}

func parseFirefox(t rapid.TB, text string) *firefoxProfile {
	t.Helper()
	p := &firefoxProfile{}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(p); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var tables any
	if err := json.Unmarshal([]byte(text), &tables); err != nil {
		t.Fatal(err)
	}
	checkColumns(t, tables)
	return p
}

// checkColumns checks that each column of a table has as many rows as the table's length says.
func checkColumns(t rapid.TB, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			checkColumns(t, element)
		}
	case map[string]any:
		for name, column := range v {
			if rows, ok := column.([]any); ok && v["length"] != nil && float64(len(rows)) != v["length"] {
				t.Fatalf("column %s: got %d rows, want %v", name, len(rows), v["length"])
			}
			checkColumns(t, column)
		}
	}
}

// millis converts milliseconds to nanoseconds.
func millis(t rapid.TB, number json.Number) int64 {
	t.Helper()
	digits, scaled := strings.CutSuffix(string(number), "e-6")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !scaled && n != 0 {
		t.Fatalf("%s ms is not a whole number of nanoseconds", number)
	}
	return n
}

// stack returns the names of a stack, outermost first.
func (p *firefoxProfile) stack(stack *int) (names []string) {
	for ; stack != nil; stack = p.Shared.StackTable.Prefix[*stack] {
		fn := p.Shared.FrameTable.Func[p.Shared.StackTable.Frame[*stack]]
		names = append(names, p.Shared.StringArray[p.Shared.FuncTable.Name[fn]])
	}
	slices.Reverse(names)
	return names
}

// boxes returns the calls that the stack chart shows for a thread. A box reaches from the first
// sample whose stack has it to the first whose stack does not.
func (p *firefoxProfile) boxes(t rapid.TB, thread int) (all []slice) {
	t.Helper()
	samples := &p.Threads[thread].Samples
	var open []int // stacks, outermost first
	var starts []int64
	now := int64(0)
	for i, top := range samples.Stack {
		now += millis(t, samples.TimeDeltas[i])
		var stacks []int
		for ; top != nil; top = p.Shared.StackTable.Prefix[*top] {
			stacks = append(stacks, *top)
		}
		slices.Reverse(stacks)
		common := 0
		for common < min(len(open), len(stacks)) && open[common] == stacks[common] {
			common++
		}
		for j := len(open) - 1; j >= common; j-- {
			names := p.stack(&open[j])
			all = append(all, slice{Track: uint64(p.Threads[thread].TID), Name: names[j], Start: starts[j], Duration: now - starts[j]})
		}
		open, starts = stacks, starts[:common]
		for len(starts) < len(open) {
			starts = append(starts, now)
		}
		weight := millis(t, samples.Weight[i])
		if len(stacks) > 0 && (i+1 == len(samples.TimeDeltas) || weight != millis(t, samples.TimeDeltas[i+1])) ||
			len(stacks) == 0 && weight != 0 {
			t.Fatalf("sample %d of %d: %d ns", i, samples.Length, weight)
		}
	}
	if len(open) > 0 {
		t.Fatalf("%d calls stay open", len(open))
	}
	return all
}

// The stack chart of the Firefox Profiler shows every call that is long enough at its original
// position. Events and arguments are markers.
func TestFirefoxShowsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := genBatches(t)
		opts := Options{Header: reader.Header{CycleFrequency: 3_000_000_001}, Names: hostile}
		opts.Base = rapid.Uint64Range(0, 2_000_000).Draw(t, "base")
		genShortest(t, &opts, batches)
		axis := opts.timeline()
		// shown returns a string as a reader of the JSON sees it.
		shown := func(s string) (name string) {
			if err := json.Unmarshal(appendJSON(nil, s), &name); err != nil {
				t.Fatal(err)
			}
			return name
		}
		var want []slice
		var markers []string
		for _, b := range batches {
			setOpens(b)
			track := uint64(b.Thread.Thread)
			for i, c := range b.Calls {
				if c.Duration < opts.Shortest {
					continue
				}
				start, end := axis.at(c.Start), axis.at(c.Start+c.Duration)
				want = append(want, slice{Track: track, Name: shown(opts.label(c.Func)), Start: start, Duration: end - start})
				if c.Args {
					markers = append(markers, fmt.Sprintf("%d %s from %d to %d: %d arguments",
						track, shown(opts.label(c.Func)), start, end, len(b.ArgsOf(i))))
				}
			}
			for _, r := range runsOf(b, opts) {
				start := axis.at(r.start)
				want = append(want, slice{Track: track, Name: leftOutName, Start: start, Duration: axis.at(r.end) - start})
			}
			for _, e := range b.Events {
				var stack []string // calls come before their callers
				for _, c := range b.Calls {
					if c.Duration >= opts.Shortest && c.Start < e.TSC && e.TSC <= c.Start+c.Duration {
						stack = append(stack, shown(opts.label(c.Func)))
					}
				}
				slices.Reverse(stack)
				markers = append(markers, fmt.Sprintf("%d %s at %d in %q", track, shown(e.Name()), axis.at(e.TSC), stack))
			}
		}
		p := parseFirefox(t, write(t, NewFirefox, opts, batches...))
		var got []slice
		var marked []string
		for i := range p.Threads {
			thread := &p.Threads[i]
			got = append(got, p.boxes(t, i)...)
			for j, name := range thread.Markers.Name {
				at := fmt.Sprintf("at %d in %q", millis(t, thread.Markers.StartTime[j]), p.stack(thread.Markers.Data[j].Cause.Stack))
				if end := thread.Markers.EndTime[j]; end != nil {
					at = fmt.Sprintf("from %d to %d: %d arguments", millis(t, thread.Markers.StartTime[j]), millis(t, *end),
						1+strings.Count(thread.Markers.Data[j].Arguments, ","))
				}
				marked = append(marked, fmt.Sprintf("%d %s %s", thread.TID, p.Shared.StringArray[name], at))
			}
		}
		if diff := gocmp.Diff(sortSlices(want), sortSlices(got)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		slices.Sort(markers)
		slices.Sort(marked)
		if !slices.Equal(markers, marked) {
			t.Fatalf("got markers %q, want %q", marked, markers)
		}
	})
}

func TestFirefox(t *testing.T) {
	request := append([]byte(reader.MetadataHead), byte(reader.MetadataRequest), 0, 7, 0, 0, 0, 0, 0, 0, 0)
	request = append(request, "checkout"...)
	b := &calls.Batch{
		Thread: reader.Thread{Process: 77, Thread: 77},
		Calls: []calls.Call{
			{Start: 1_000_100, Duration: 50, Func: 2, Depth: 1, Args: true},
			{Start: 1_000_150, Duration: 0, Func: 2, Depth: 1, End: calls.Inferred},
			{Start: 1_000_000, Duration: 1_150, Func: 1, End: calls.Truncated},
		},
		Args: []calls.Arg{{Call: 0, Value: 42}, {Call: 0, Value: 1 << 60}},
		Events: []calls.Event{
			{TSC: 1_000_050, Kind: reader.Custom, Data: []byte("a")},
			{TSC: 1_000_120, Kind: reader.Custom, Data: request},
			{TSC: 1_002_000, Kind: reader.Typed, Type: 3, Data: []byte{0xFF}},
		},
	}
	setOpens(b)
	opts := Options{
		Header: oneGHz, Names: names{1: "main", 2: "f"}, Files: []string{"a.xray"},
		Base: 1_000_000, Epoch: 1_700_000_000_000_000_000,
	}
	read := func(path string) ([]byte, error) {
		if path == "/src/f.cc" {
			return []byte("int f() {\n}\n"), nil
		}
		return nil, fs.ErrNotExist
	}
	text := write(t, func(w io.Writer, opts Options) *Firefox {
		opts.Lost, opts.Source = func() int64 { return 3 }, read
		return NewFirefox(w, opts)
	}, opts, b)
	for _, want := range []string{
		`"product":"a.xray","startTime":1700000000000000000e-6,"profilingStartTime":0,"profilingEndTime":2000e-6,`,
		`"initialSelectedThreads":[0],"initialVisibleThreads":[0],`,
		`"entries":[{"label":"Calls","format":"integer","value":3},` +
			`{"label":"Calls that were open at the end","format":"integer","value":1},` +
			`{"label":"Calls without an exit record","format":"integer","value":1},` +
			`{"label":"Records lost","format":"integer","value":3}]`,
		`"name":"main thread","processName":"process 77","isMainThread":true,"pid":"77","tid":77,
"samples":{"weightType":"tracing-ms","length":7,
"stack":[0,1,0,1,0,null,null],
"timeDeltas":[0,100e-6,50e-6,0,0,1000e-6,850e-6],
"weight":[100e-6,50e-6,0,0,1000e-6,0,0]},
"markers":{"length":4,
"name":[0,2,3,4],
"startTime":[50e-6,120e-6,100e-6,2000e-6],
"endTime":[null,null,150e-6,null],
"phase":[0,0,1,0],
"category":[0,0,1,0],
"data":[{"type":"event","text":"a","cause":{"stack":0}},{"type":"request","request":1,"text":"checkout","cause":{"stack":1}},` +
			`{"type":"call","arguments":"42, 0x1000000000000000","cause":{"stack":1}},{"type":"event","bytes":"ff"}]}}`,
		`"stackTable":{"length":2,
"frame":[0,1],
"prefix":[null,0]}`,
		`"stringArray":[
"custom event",
"7",
"request",
"f",
"typed event 3",
"main",
"/src/main.cc",
"/src/f.cc"]`,
		`"source":[0,1],
"lineNumber":[10,20]`,
		`"filename":[6,7],
"content":[null,"int f() {\n}\n"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want\n%s\nin\n%s", want, text)
		}
	}
	p := parseFirefox(t, text)
	if diff := gocmp.Diff([]string{"main", "f"}, p.stack(p.Threads[0].Samples.Stack[1])); diff != "" {
		t.Error(diff)
	}
}

// The numbers of calls include those that are too short to be shown.
func TestFirefoxCountsShortCalls(t *testing.T) {
	b := &calls.Batch{Calls: []calls.Call{
		{Start: 100, Duration: 5, Func: 2, Depth: 1, End: calls.Inferred},
		{Start: 105, Duration: 50, Func: 2, Depth: 1, End: calls.Inferred},
		{Start: 160, Duration: 5, Func: 2, Depth: 1, End: calls.Left},
		{Start: 100, Duration: 70, Func: 1},
	}}
	setOpens(b)
	text := write(t, NewFirefox, Options{Header: oneGHz, Shortest: 50}, b)
	got := map[string]any{}
	for _, e := range parseFirefox(t, text).Meta.Extra[0].Entries {
		got[e.Label] = e.Value
	}
	want := map[string]any{
		"Calls":                                  json.Number("4"),
		"Calls too short to be shown":            json.Number("2"),
		"Calls without an exit record":           json.Number("2"),
		"Calls ended by an exception or longjmp": json.Number("1"),
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A trace without calls or names gives a valid profile.
func TestFirefoxOfLittle(t *testing.T) {
	if p := parseFirefox(t, write(t, NewFirefox, Options{})); len(p.Threads) != 1 || p.Threads[0].Samples.Length != 1 {
		t.Errorf("got %d threads", len(p.Threads)) // the profiler refuses profiles without threads
	}
	text := write(t, NewFirefox, Options{}, &calls.Batch{Thread: reader.Thread{Thread: 5}}, &calls.Batch{
		Thread: reader.Thread{Thread: 6}, Index: 1, Events: []calls.Event{{TSC: 30, Kind: reader.Custom, Data: []byte("a")}},
	})
	if p := parseFirefox(t, text); len(p.Threads) != 1 || p.Threads[0].TID != 6 || p.Threads[0].Samples.Length != 1 {
		t.Errorf("want one thread with a sample at its end: %s", text)
	}
	if !strings.Contains(text, "1 ns stands for 1 tick") {
		t.Errorf("the unit is missing: %s", text)
	}
}

// Of many threads, the profile shows the busiest ones.
func TestFirefoxVisibleThreads(t *testing.T) {
	var batches []*calls.Batch
	for i := range firefoxVisible + 10 {
		b := &calls.Batch{
			Thread: reader.Thread{Process: 1, Thread: int32(i)}, Index: i,
			Calls: []calls.Call{{Start: 10, Duration: uint64(i * 7 % 11), Func: 1}},
		}
		setOpens(b)
		batches = append(batches, b)
	}
	text := write(t, NewFirefox, Options{Header: oneGHz}, batches...)
	const want = `"initialSelectedThreads":[3],"initialVisibleThreads":[3,14,25,36,47,58,6,17,28,39,50,9,`
	if !strings.Contains(text, want) {
		t.Errorf("no %s in %.3000s", want, text)
	}
}
