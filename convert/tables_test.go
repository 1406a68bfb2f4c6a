package convert

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

var tableOptions = Options{
	Header: oneGHz, Names: names{1: "main", 2: `operator"" _q`, 3: "f(int, int)"}, Base: 1_000_000,
}

func tableBatches() []*calls.Batch {
	return []*calls.Batch{
		{
			Thread: reader.Thread{Process: 77, Thread: 78},
			Calls: []calls.Call{
				{Start: 1_002_003, Duration: 4_567, Self: 4_567, Func: 2, Caller: 1, Depth: 1, Args: true},
				{Start: 1_010_000, Duration: 300, Self: 300, Func: 3, Caller: 1, Depth: 1, End: calls.TailExited},
				{Start: 999_999, Duration: 1_000_000, Self: 995_133, Func: 1, End: calls.Truncated, Args: true},
			},
			Args: []calls.Arg{{Call: 0, Value: 100}, {Call: 0, Value: math.MaxUint64}, {Call: 2, Value: 7}},
		},
		{
			Index: 1, Thread: reader.Thread{File: 1, Process: 77, Thread: 78},
			Calls: []calls.Call{{Start: 1_000_000, Duration: 1, Self: 1, Func: -7, Caller: 3, Depth: 1, End: calls.Inferred}},
		},
	}
}

func TestCSV(t *testing.T) {
	const want = `process,thread,function_id,function,depth,caller_id,caller,start_ns,duration_ns,self_ns,end,args
77,78,2,"operator"""" _q",1,1,main,2003,4567,4567,exited,100 18446744073709551615
77,78,3,"f(int, int)",1,1,main,10000,300,300,tail-exited,
77,78,1,main,0,,,-1,1000000,995133,truncated,7
77,78,-7,#-7,1,3,"f(int, int)",0,1,1,inferred,
`
	if diff := cmp.Diff(want, write(t, NewCSV, tableOptions, tableBatches()...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCSVOfSeveralTraces(t *testing.T) {
	opts := Options{Files: []string{"a,b.xray", "c.xray"}} // and an unknown frequency
	const want = `trace,process,thread,function_id,function,depth,caller_id,caller,start_ticks,duration_ticks,self_ticks,end,args
"a,b.xray",77,78,2,#2,1,1,#1,1002003,4567,4567,exited,100 18446744073709551615
"a,b.xray",77,78,3,#3,1,1,#1,1010000,300,300,tail-exited,
"a,b.xray",77,78,1,#1,0,,,999999,1000000,995133,truncated,7
c.xray,77,78,-7,#-7,1,3,#3,1000000,1,1,inferred,
`
	if diff := cmp.Diff(want, write(t, NewCSV, opts, tableBatches()...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONLines(t *testing.T) {
	const want = `{"process":77,"thread":78,"function_id":2,"function":"operator\"\" _q","depth":1,"caller_id":1,"caller":"main","start_ns":2003,"duration_ns":4567,"self_ns":4567,"end":"exited","args":[100,18446744073709551615]}
{"process":77,"thread":78,"function_id":3,"function":"f(int, int)","depth":1,"caller_id":1,"caller":"main","start_ns":10000,"duration_ns":300,"self_ns":300,"end":"tail-exited"}
{"process":77,"thread":78,"function_id":1,"function":"main","depth":0,"start_ns":-1,"duration_ns":1000000,"self_ns":995133,"end":"truncated","args":[7]}
{"process":77,"thread":78,"function_id":-7,"function":"#-7","depth":1,"caller_id":3,"caller":"f(int, int)","start_ns":0,"duration_ns":1,"self_ns":1,"end":"inferred"}
`
	if diff := cmp.Diff(want, write(t, NewJSONLines, tableOptions, tableBatches()...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONLinesOfSeveralTraces(t *testing.T) {
	opts := Options{Files: []string{`a"b.xray`, "c.xray"}}
	got := write(t, NewJSONLines, opts, tableBatches()[1])
	const want = `{"trace":"c.xray","process":77,"thread":78,"function_id":-7,"function":"#-7","depth":1,"caller_id":3,"caller":"#3","start_ticks":1000000,"duration_ticks":1,"self_ticks":1,"end":"inferred"}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// row is a call as both tables show it.
type row struct {
	Process, Thread, FunctionID int32
	Function                    string
	Depth                       uint32
	CallerID                    int32
	Caller                      string
	Start                       int64
	Duration, Self              uint64
	End                         string
	Args                        []uint64
}

// TestTables reads back tables of random calls with hostile names.
func TestTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := names{}
		for id := range reader.FuncID(8) {
			n[id] = genHostileName.Draw(t, "name")
		}
		frequency := rapid.SampledFrom([]uint64{1_000_000_000, 3_000_000_001, 24_000_000}).Draw(t, "frequency")
		opts := Options{Header: reader.Header{CycleFrequency: frequency}, Names: n, Base: 1_000_000}
		c := reader.Clock{Frequency: frequency}
		batches := genBatches(t)
		var want []row
		for _, b := range batches {
			for i, call := range b.Calls {
				r := row{
					Process: b.Thread.Process, Thread: b.Thread.Thread, FunctionID: int32(call.Func), Function: opts.label(call.Func),
					Depth: call.Depth, CallerID: int32(call.Caller), Start: int64(c.Nanos(call.Start - opts.Base)),
					Duration: c.Nanos(call.Duration), Self: c.Nanos(call.Self), End: call.End.String(),
				}
				if call.Caller != 0 {
					r.Caller = opts.label(call.Caller)
				}
				for _, a := range b.Args {
					if a.Call == i {
						r.Args = append(r.Args, a.Value)
					}
				}
				want = append(want, r)
			}
		}
		text := write(t, NewCSV, opts, batches...)
		if diff := cmp.Diff(mapNames(mapNames(want, texttab.CSVText), crlf), mapNames(parseCSV(t, text), crlf)); diff != "" {
			t.Fatalf("csv (-want +got):\n%s\n%s", diff, text)
		}
		text = write(t, NewJSONLines, opts, batches...)
		if diff := cmp.Diff(mapNames(want, replaceBadBytes), parseJSONLines(t, text)); diff != "" {
			t.Fatalf("json (-want +got):\n%s\n%s", diff, text)
		}
	})
}

// crlf changes line ends as encoding/csv does within quotes.
func crlf(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

func replaceBadBytes(s string) string { return string([]rune(s)) }

func mapNames(rows []row, fn func(string) string) []row {
	mapped := append([]row(nil), rows...)
	for i := range mapped {
		mapped[i].Function, mapped[i].Caller = fn(mapped[i].Function), fn(mapped[i].Caller)
	}
	return mapped
}

func parseCSV(t rapid.TB, text string) []row {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	number := func(s string) int64 {
		if s == "" {
			return 0
		}
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var rows []row
	for _, r := range records[1:] {
		parsed := row{
			Process: int32(number(r[0])), Thread: int32(number(r[1])), FunctionID: int32(number(r[2])), Function: r[3],
			Depth: uint32(number(r[4])), CallerID: int32(number(r[5])), Caller: r[6],
			Start: number(r[7]), Duration: uint64(number(r[8])), Self: uint64(number(r[9])), End: r[10],
		}
		for a := range strings.FieldsSeq(r[11]) {
			v, err := strconv.ParseUint(a, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			parsed.Args = append(parsed.Args, v)
		}
		rows = append(rows, parsed)
	}
	return rows
}

func parseJSONLines(t rapid.TB, text string) []row {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("not UTF-8: %q", text)
	}
	var rows []row
	for line := range strings.Lines(text) {
		var r struct {
			Process    int32
			Thread     int32
			FunctionID int32 `json:"function_id"`
			Function   string
			Depth      uint32
			CallerID   int32 `json:"caller_id"`
			Caller     string
			Start      int64  `json:"start_ns"`
			Duration   uint64 `json:"duration_ns"`
			Self       uint64 `json:"self_ns"`
			End        string
			Args       []uint64
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		rows = append(rows, row(r))
	}
	return rows
}
