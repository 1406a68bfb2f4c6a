package reader_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/args/value"
)

// sample returns a recording with something of every kind.
func sample() *reader.Recording {
	return &reader.Recording{
		Process: reader.Process{PID: 700, PPID: 1, UID: 1000, Exe: "/usr/bin/server", Argv: []string{"server", "--port", "80 80"},
			BuildID: "00ff", Host: "box", PageSize: 4096, Mode: "record", ThresholdNS: 5000, Depth: 3, Recorder: "1", Complete: true,
			Quotas: []reader.Quota{{Group: "/web", QuotaNS: 5e7, PeriodNS: 1e8, Samples: []reader.QuotaSample{{TSC: 1000, Throttled: 3, ThrottledNS: 5e6}}}},
			Ends:   []reader.OtherEnd{{Inode: 77, Write: true, PID: 8, Name: "logrotate"}}},
		Objects: []reader.Object{
			{First: 1, Count: 10, Path: "/usr/bin/server", BuildID: "00ff", Bias: 0x5500_0000_0000, Text: [2]reader.Address{0x5500_0000_1000, 0x5500_0000_2000}, Loaded: 900, State: "ready"},
			{First: 11, Count: 5, Path: "/usr/lib/libplugin.so", Loaded: 1000, Unloaded: 2000, State: "gone", Why: "closed"},
		},
		Threads: []reader.ThreadInfo{{PID: 700, TID: 700, Name: "server", First: 1000, Last: 1500}, {PID: 700, TID: 701, Name: "worker 1", Dropped: 7, Truncated: 2}},
		Clock: reader.RecordedClock{Frequency: 2_000_000_000, Invariant: true, Anchors: []reader.Anchor{
			{TSC: 1000, Raw: 5_000_000_000, Real: 1_700_000_000_000_000_000, Width: 30},
			{TSC: 20_000_001_000, Raw: 15_000_000_100, Real: 1_700_000_010_000_000_050, Width: 31},
		}},
		Losses:    []reader.RecordedLoss{{Cause: "limit", Count: 12}},
		Refusals:  []reader.Refusal{{Path: "/usr/lib/libx.so", Why: "its sleds are patched already"}},
		Addresses: []uint64{0x5500_0000_1010, 0x7f00_0000_0000},
		Counters:  []reader.Counter{{Func: 3, Calls: 1 << 40}, {Func: 4, Calls: 2}},
		Changes:   []reader.Change{{TSC: 1200, What: "mode count"}},
		Windows:   []reader.RecordedWindow{{From: 1, To: 9, CPUNS: 5}, {From: 20}},
		Profiles: []reader.Profile{{Process: 7, Thread: 8, First: 1000, Last: 5000, Lost: 2, Paths: []reader.ProfilePath{
			{Func: 1, Parent: -1, Open: 1, OpenTotal: 4000, Octaves: []uint64{}},
			{Func: 2, Parent: 0, Count: 3, Total: 17, Min: 1, Max: 9, Octaves: []uint64{0, 1, 0, 1, 1}},
		}}},
		Sched: reader.Sched{
			Parts: []reader.SchedPart{
				{From: 1000, To: 2000, Lost: 3, Origin: reader.SchedTracefs, Events: []reader.SchedEvent{
					{TSC: 1100, Task: 1, Other: 2, CPU: 513, Kind: reader.Switched, State: 'S', Flags: reader.Preempted},
					{TSC: 1090, Task: 2, Other: 1, Kind: reader.Waking, Flags: reader.WokenByInterrupt},
				}},
				{From: 2000, To: 2500, Events: []reader.SchedEvent{}},
			},
			Tasks: []reader.Task{{PID: 700, TID: 701, Name: "worker 1"}, {TID: 9, Name: "sixteen letters."}},
		},
		Values: []reader.RecordedValues{
			{ID: 3, Entry: []value.Description{{Expression: "n", Kind: value.Scalar}}, Missing: "it has no exits"},
			{ID: 3, Since: 1100, Exit: []value.Description{{Expression: "result.a"}, {Type: "int", Enumerators: map[string]string{"3": "GET"}}}},
		},
		When:   []reader.RecordedWhen{{ID: 3, Since: 5, Condition: "n == 3"}, {ID: 4, Condition: "key ^= 'a'"}},
		Unread: []value.Refused{{Function: "serve", Expression: "p->q", Why: "it was removed"}},
		Functions: []reader.NamedFunction{
			{ID: 3, Name: "_Z5servev", File: "/src/<server>.cc", Line: 12, Column: 3, Address: 0x1010, Object: "/usr/bin/server", BuildID: "00ff"},
			{ID: 11, Address: 0x2000, Object: "/usr/lib/libplugin.so"},
		},
		Sources: []reader.SourceText{
			{File: "/src/<server>.cc", First: 10, Text: "// serve serves.\n\nvoid serve() {\n}", MD5: "d41d8cd98f00b204e9800998ecf8427e"},
			{File: "/src/<server>.cc", First: 20, Text: "\xc3\xa9"},
		},
	}
}

// write makes a trace with one call in thread 701 and a mark inside it.
func write(r *reader.Recording) []byte {
	var out bytes.Buffer
	w := tracewrite.NewFDR(&out, reader.Header{CycleFrequency: 2_000_000_000}, tracewrite.Options{Recording: r, First: 1000})
	err := w.Block(&reader.Block{
		Thread: reader.Thread{Process: 700, Thread: 701},
		Events: []reader.Event{
			{TSC: 1000, Func: 3, Kind: reader.Enter},
			{TSC: 1010, Func: 3, Kind: reader.Custom, Side: true},
			{TSC: 1500, Func: 3, Kind: reader.Exit},
		},
		Payloads: []reader.Payload{{Event: 1, Data: tracewrite.AppendMark(nil, reader.Mark{Request: true, ID: 9, Text: "GET /"})}},
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	return out.Bytes()
}

func TestRecordingRoundTrip(t *testing.T) {
	want := sample()
	b := write(want)
	for _, mark := range []bool{true, false} {
		if !mark {
			clear(b[24:32]) // recognized by its content, too
		}
		tr := openBytes(t, b)
		if tr.Header(0).Recorder != mark {
			t.Errorf("got recorder=%v, want %v", tr.Header(0).Recorder, mark)
		}
		if diff := cmp.Diff(want, tr.Recording(0)); diff != "" {
			t.Errorf("(-written +read)\n%s", diff)
		}
		threads := map[reader.Thread]int{}
		var note reader.Mark
		for block, err := range tr.Blocks(reader.ThreadOrder) {
			if err != nil {
				t.Fatal(err)
			}
			if _, edge := block.Edge(0); edge {
				continue // of the window, which the trace does not have as a record
			}
			threads[block.Thread] += len(block.Events)
			note, _ = reader.ParseMark(block.Payloads[0].Data)
		}
		if want := map[reader.Thread]int{{Process: 700, Thread: 701}: 3}; !cmp.Equal(threads, want) {
			t.Errorf("got threads %v, want %v", threads, want)
		}
		if got := note.String(); got != "request 9: GET /" {
			t.Errorf("got mark %q", got)
		}
		if got := tr.ThreadName(reader.Thread{Process: 700, Thread: 701}); got != "worker 1" {
			t.Errorf("got thread name %q", got)
		}
		if n := tr.Losses().Count(); n != 0 && mark || n != tr.Losses().Total[reader.Checksum].Losses {
			t.Errorf("got %d losses: %v", n, tr.Losses().Samples())
		}
	}
}

// A trace without metadata has no recording. Thread 0 of process 0 in a handwritten trace is an
// ordinary thread.
func TestNoRecording(t *testing.T) {
	b, err := tracetext.Parse("xray fdr\nthread 0 pid=0 tsc=100\ncustom \"note\" +1\nenter 1 +1\nexit 1 +1\n")
	if err != nil {
		t.Fatal(err)
	}
	tr := openBytes(t, b)
	if r := tr.Recording(0); r != nil {
		t.Errorf("got recording %+v", r)
	}
	n := 0
	for block := range tr.Blocks(reader.FileOrder) {
		n += len(block.Events)
	}
	if n != 3 {
		t.Errorf("got %d events, want 3", n)
	}
}

// text assembles a file of the recorder with a metadata block that holds the lines, and a thread
// with a call.
func text(t *testing.T, lines ...string) []byte {
	t.Helper()
	b, err := tracetext.Parse("xray fdr free=5852594d46445231 frequency=2000000000\nthread 0 tsc=100\n" + strings.Join(lines, "\n") +
		"\nthread 8 pid=7 tsc=100\nenter 1 +1\nexit 1 +1\n")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func metadata(kind reader.MetadataKind, body string) string {
	return fmt.Sprintf("custom %q", tracewrite.AppendMetadata(nil, kind, []byte(body)))
}

func TestMetadataDamage(t *testing.T) {
	table := func(n uint64, size int) string {
		return string(append(binary.LittleEndian.AppendUint64(nil, n), make([]byte, size)...))
	}
	process := metadata(reader.MetadataProcess, `{"pid":7,"mode":"record"}`)
	for _, c := range []struct {
		name   string
		lines  []string
		cause  reader.Cause
		detail string
	}{
		{"no JSON", []string{metadata(reader.MetadataThreads, `{"threads":[{"pid"`)}, reader.BadMetadata, "threads: unexpected end of JSON"},
		{"wrong type", []string{metadata(reader.MetadataThreads, `{"threads":[{"pid":"seven"}]}`)}, reader.BadMetadata, "field threads.pid: unexpected string"},
		{"number too large", []string{metadata(reader.MetadataThreads, `{"threads":[{"pid":99999999999}]}`)}, reader.BadMetadata, "field threads.pid: unexpected number 99999999999"},
		{"too many items", []string{metadata(reader.MetadataThreads, `{"threads":[`+strings.Repeat(`{},`, 1<<18)+`{}]}`)}, reader.BadMetadata, "262146 objects of JSON"},
		{"address", []string{metadata(reader.MetadataObjects, `{"objects":[{"first":1,"count":1,"bias":"zero"}]}`)}, reader.BadMetadata, `address "zero"`},
		{"ids shared", []string{metadata(reader.MetadataObjects, `{"objects":[{"first":1,"count":5,"path":"a"},{"first":5,"count":5,"path":"b"}]}`)}, reader.BadMetadata, "objects a and b share ID 5"},
		{"ids too large", []string{metadata(reader.MetadataObjects, `{"objects":[{"first":268435455,"count":2,"path":"a"}]}`)}, reader.BadMetadata, "object a: 2 functions from ID 268435455 on"},
		{"ids negative", []string{metadata(reader.MetadataObjects, `{"objects":[{"first":-5,"count":2,"path":"a"}]}`)}, reader.BadMetadata, "from ID -5 on"},
		{"table cut off", []string{metadata(reader.MetadataAddresses, table(3, 16))}, reader.BadMetadata, "a table declares 3 entries but contains 2"},
		{"table of a wild length", []string{metadata(reader.MetadataCounters, table(1<<60, 16))}, reader.BadMetadata, "contains 1"},
		{"table without a length", []string{metadata(reader.MetadataCounters, "1")}, reader.BadMetadata, "too short for its number of entries"},
		{"clock that stands", []string{metadata(reader.MetadataClock, `{"anchors":[{"tsc":5,"raw":5},{"tsc":5,"raw":6}]}`)}, reader.BadMetadata, "clock anchor 1"},
		{"clocks that disagree", []string{metadata(reader.MetadataClock, `{"anchors":[{"tsc":1,"raw":1},{"tsc":1000000001,"raw":1000000001}]}`)}, reader.BadMetadata, "1000000000 ticks per second, and the header 2000000000"},
		{"function out of range", []string{metadata(reader.MetadataFunctions, `{"functions":[{"id":0,"name":"f"}]}`)}, reader.BadMetadata, "function 0 at 0:0"},
		{"line out of range", []string{metadata(reader.MetadataFunctions, `{"functions":[{"id":1,"line":-1}]}`)}, reader.BadMetadata, "function 1 at -1:0"},
		{"no functions", []string{metadata(reader.MetadataFunctions, `{"functions":7}`)}, reader.BadMetadata, "unexpected number"},
		{"source far down", []string{metadata(reader.MetadataSources, `{"sources":[{"file":"a.c","first":2147483647,"text":"}"}]}`)}, reader.BadMetadata, "source of a.c from line 2147483647 on"},
		{"source before the first line", []string{metadata(reader.MetadataSources, `{"sources":[{"file":"a.c","text":"}"}]}`)}, reader.BadMetadata, "source of a.c from line 0 on"},
		{"kind of the future", []string{metadata(1000, "x")}, reader.NewerVersion, "kind 1000"},
		{"schema of the future", []string{`custom "XRYM\x02\x00\x01\x00{}"`}, reader.NewerVersion, "schema 2"},
		{"scheduler events that are missing", []string{fmt.Sprintf("metadata sched %q", reader.AppendSched(nil, &reader.SchedPart{Events: make([]reader.SchedEvent, 2)})[:70])}, reader.BadMetadata, "kind 0"},
		{"scheduler events without a header", []string{`metadata sched "abc"`}, reader.BadMetadata, "without a header"},
		{"scheduler events that end before they begin", []string{fmt.Sprintf("metadata sched %q", reader.AppendSched(nil, &reader.SchedPart{From: 2, To: 1}))}, reader.BadMetadata, "begin at TSC 2 end at 1"},
		{"tasks out of range", []string{fmt.Sprintf("metadata tasks %q", reader.AppendTasks(nil, 1<<20, make([]reader.Task, 2)))}, reader.BadMetadata, "exceed the range"},
		{"tasks after a gap", []string{fmt.Sprintf("metadata tasks %q", reader.AppendTasks(nil, 3, make([]reader.Task, 1)))}, reader.BadMetadata, "1 to 2"},
		{"not metadata", []string{`custom "hello"`}, reader.BadMetadata, "CustomEvent record among metadata"},
		{"function", []string{"enter 3 +4"}, reader.BadMetadata, "Function record among metadata"},
		{"bytes behind the block", []string{"bytes ff00000000000000"}, reader.BadBlock, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := openBytes(t, text(t, append([]string{process}, c.lines...)...))
			got := tr.Losses().Samples()
			if len(got) != 1 || got[0].Cause != c.cause || !strings.Contains(got[0].Detail, c.detail) {
				t.Errorf("got losses %v, want one of %v with %q", got, c.cause, c.detail)
			}
			if r := tr.Recording(0); r == nil || r.Process.Mode != "record" {
				t.Errorf("intact metadata were lost: %+v", r)
			}
		})
	}
}

// The last event of each kind counts, wherever it is in the file, unless it is damaged. An object
// that was closed and opened again counts once.
func TestMetadataLastCounts(t *testing.T) {
	b := text(t, metadata(reader.MetadataProcess, `{"pid":7,"complete":false}`),
		metadata(reader.MetadataObjects, `{"objects":[]}`))
	more, err := tracetext.Parse("xray fdr\nthread 0 tsc=100\n" + metadata(reader.MetadataProcess, `{"pid":7,"complete":true}`) + "\n" +
		metadata(reader.MetadataObjects, `{"objects":[{"path":"refused"},{"first":3,"count":2,"path":"b"},{"first":1,"count":2,"path":"a"},{"first":3,"count":2,"path":"b","unloaded":9}]}`) + "\n" +
		metadata(reader.MetadataProcess, `{"pid":`) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	tr := openBytes(t, append(b, more[32:]...))
	r := tr.Recording(0)
	if !r.Process.Complete {
		t.Error("got the first block's metadata, want the last")
	}
	var paths []string
	for _, o := range r.Objects {
		paths = append(paths, o.Path)
	}
	if strings.Join(paths, " ") != "a b refused" {
		t.Errorf("got objects %v, want a b refused", paths)
	}
	if n := tr.Losses().Count(); n != 1 {
		t.Errorf("got %d losses, want 1", n)
	}
}

// A file that ends inside its metadata loses nothing else.
func TestMetadataCutOff(t *testing.T) {
	b := write(sample())
	for n := 32; n < len(b); n += 7 {
		tr := openBytes(t, b[:n])
		for range tr.Blocks(reader.ThreadOrder) {
		}
		if got := tr.Losses().Count(); n > 32 && got > 1 {
			t.Errorf("cut off at %d: got %d losses: %v", n, got, tr.Losses().Samples())
		}
	}
}

func TestMeasuredFrequency(t *testing.T) {
	// 20,000,000,000 ticks in 10.0000001 s.
	const want = 1_999_999_980
	tr := openBytes(t, write(sample()))
	if f, err := tr.CycleFrequency(); err != nil || f != want {
		t.Errorf("got %d ticks per second, error %v; want %d", f, err, want)
	}
	if f := tr.Header(0).CycleFrequency; f != 2_000_000_000 {
		t.Errorf("the header was changed to %d", f)
	}
	short := sample()
	short.Clock.Anchors[1] = reader.Anchor{TSC: 2000, Raw: 5_000_000_500, Real: 1_700_000_000_000_000_500}
	if f, _ := openBytes(t, write(short)).CycleFrequency(); f != 2_000_000_000 {
		t.Errorf("half a microsecond of ticks: got %d ticks per second", f)
	}
}

func TestRealtime(t *testing.T) {
	c := reader.RecordedClock{Frequency: 2_000_000_000}
	if ns, ok := c.Realtime(5); ok {
		t.Errorf("without an anchor: got %d ns", ns)
	}
	c.Anchors = []reader.Anchor{{TSC: 1000, Raw: 500, Real: 1_000_000}}
	check := func(tsc, want uint64) {
		t.Helper()
		if ns, ok := c.Realtime(tsc); !ok || ns != want {
			t.Errorf("at %d: got %d, %v; want %d", tsc, ns, ok, want)
		}
	}
	check(1000, 1_000_000)
	check(3000, 1_001_000)
	check(0, 999_500)
	// The second interval runs at 1 GHz and the third at 3 GHz. The wall clock is set back
	// before the third.
	c.Anchors = append(c.Anchors, reader.Anchor{TSC: 2000, Raw: 1500, Real: 1_001_000}, reader.Anchor{TSC: 5000, Raw: 2500, Real: 900_000})
	check(1500, 1_000_500)
	check(3500, 1_001_500)
	check(5003, 900_001)
	check(0, 999_000)
	if ns, ok := c.Realtime(1<<63 + 1<<62); !ok || ns < 1<<61 {
		t.Errorf("far away: got %d, %v", ns, ok)
	}
}

// FuzzMetadata puts any payload into a block of metadata. The result must be consistent, and must
// be the same after it was written and read again.
func FuzzMetadata(f *testing.F) {
	for block, err := range openBytes(f, write(sample())).Records(0) {
		if err == nil && block.Kind == reader.CustomEvent {
			f.Add(bytes.Clone(block.Data))
		}
	}
	f.Add([]byte(reader.MetadataHead + "\x02\x00" + `{"objects":[{"first":1,"count":4294967295}]}`))
	pruned := reader.AppendPruned(nil, &reader.Pruned{From: 10, To: 900, Functions: []reader.PrunedFunction{{Func: 3, Calls: 7, Ticks: 70}, {Func: 4, Calls: 1 << 40, Ticks: 1 << 50}}})
	f.Add(metadataEvent(reader.MetadataPruned, string(pruned)))
	events := reader.AppendSched(nil, &reader.SchedPart{From: 1, To: 9, Lost: 2, Origin: reader.SchedTracefs, Events: []reader.SchedEvent{
		{TSC: 3, Task: 1, Other: 2, CPU: 1, Kind: reader.Switched, State: 'S'}, {TSC: 4, Task: 2, Other: 1, Kind: reader.Waking, Flags: reader.WokenBySoftIRQ}}})
	f.Add(metadataEvent(reader.MetadataSched, string(events)))
	f.Add(metadataEvent(reader.MetadataTasks, string(reader.AppendTasks(nil, 2, []reader.Task{{PID: 7, TID: 8, Name: "a"}}))))
	f.Add(metadataEvent(reader.MetadataLanding, "\x01\x00\x00\x00\x02\x00\x00\x00"))
	for kind, body := range (&reader.Recording{Windows: []reader.RecordedWindow{{From: 5, To: 9, CPUNS: 3}, {From: 11}}}).Metadata() {
		if kind == reader.MetadataWindows {
			f.Add(metadataEvent(kind, string(body)))
		}
	}
	f.Add(reader.AppendStack(nil, 1<<30-1, 1<<47))
	for _, payloads := range hostileMetadata(1000) {
		for _, p := range payloads {
			f.Add(p)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		defer time.AfterFunc(20*time.Second, func() { panic("reading does not come to an end") }).Stop()
		if n, most := allocated(func() { checkMetadata(t, payload) }), uint64(128<<20+1024*len(payload)); n > most {
			t.Errorf("got %d bytes of memory for %d of input", n, len(payload))
		}
	})
}

// checkMetadata reads a trace with a metadata payload, writes the result and reads it again.
func checkMetadata(t *testing.T, payload []byte) {
	tr := openBytes(t, withMetadata(payload))
	r := tr.Recording(0)
	next := reader.FuncID(1)
	for _, o := range r.Objects {
		if o.Count == 0 && o.First == 0 {
			continue
		}
		if o.First < next || o.Count == 0 {
			t.Fatalf("got objects %+v", r.Objects)
		}
		next = o.First + reader.FuncID(o.Count)
	}
	frequency, err := tr.CycleFrequency()
	if err != nil || frequency == 0 {
		t.Fatalf("got frequency %d, error %v", frequency, err)
	}
	last := uint64(0)
	for _, a := range r.Clock.Anchors {
		if a.TSC < last {
			t.Fatalf("got anchors %+v", r.Clock.Anchors)
		}
		last = a.TSC
		r.Clock.Realtime(a.TSC + 3)
		r.Clock.TSC(reader.Monotonic, a.Real+3)
	}
	reader.ParseMark(payload)
	reader.ParseLanding(payload)
	once := make(map[reader.FuncID]bool)
	for _, p := range r.Pruned.Functions {
		if p.Func < 1 || once[p.Func] {
			t.Fatalf("got pruned functions %+v", r.Pruned.Functions)
		}
		once[p.Func] = true
	}
	again := openBytes(t, write(r)).Recording(0)
	one, err1 := json.Marshal(r)
	two, err2 := json.Marshal(again)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if !equalJSON(one, two) {
		t.Errorf("written\n%s\nread\n%s", one, two)
	}
}

// withMetadata returns a trace with one block of metadata.
func withMetadata(payloads ...[]byte) []byte {
	h := reader.Header{Type: reader.FDR, Version: 5, Recorder: true, CycleFrequency: 1_000_000}
	b := tracewrite.AppendHeader(nil, &h)
	extents := 4 * 16
	for _, p := range payloads {
		extents += 16 + len(p)
	}
	records := []reader.Record{
		{Kind: reader.BufferExtents, Value: uint64(extents)},
		{Kind: reader.NewBuffer}, {Kind: reader.WallClock}, {Kind: reader.PID}, {Kind: reader.NewCPUID, TSC: 1},
	}
	for _, p := range payloads {
		records = append(records, reader.Record{Kind: reader.CustomEvent, Data: p})
	}
	for _, r := range records {
		b = tracewrite.AppendRecord(b, &h, &r)
	}
	return b
}

// metadataEvent returns a metadata payload.
func metadataEvent(kind reader.MetadataKind, body string) []byte {
	return append(binary.LittleEndian.AppendUint16([]byte(reader.MetadataHead), uint16(kind)), body...)
}

// hostileMetadata are payloads meant to exhaust memory, or smaller ones of the same structure.
func hostileMetadata(scale int) map[string][][]byte {
	list := func(kind reader.MetadataKind, name, item string, n int) []byte {
		return metadataEvent(kind, `{"`+name+`":[`+strings.Repeat(item+",", n-1)+item+"]}")
	}
	// Sums of as many functions as fit.
	var sums string
	{
		var b []byte
		for id := range uint64(1 << 20 / 24 / scale) {
			b = append(binary.LittleEndian.AppendUint64(b, id+1), make([]byte, 16)...)
		}
		sums = string(b)
	}
	many := string(binary.LittleEndian.AppendUint64(nil, 1<<60))
	most, large := 1<<18/scale-1, 1<<14/scale-1 // with the brace around the list
	return map[string][][]byte{
		"objects":          {list(reader.MetadataObjects, "objects", `{}`, large)},
		"threads":          {list(reader.MetadataThreads, "threads", `{}`, most)},
		"anchors":          {list(reader.MetadataClock, "anchors", `{}`, most)},
		"losses":           {list(reader.MetadataLosses, "losses", `{}`, most)},
		"changes":          {list(reader.MetadataChanges, "changes", `{}`, most)},
		"too many":         {list(reader.MetadataObjects, "objects", `{}`, most), list(reader.MetadataFunctions, "functions", `{}`, most)},
		"functions":        {list(reader.MetadataFunctions, "functions", `{}`, large)},
		"sources":          {list(reader.MetadataSources, "sources", `{}`, large)},
		"argv":             {list(reader.MetadataProcess, "argv", `0`, most), list(reader.MetadataProcess, "argv", `""`, most)},
		"nested":           {metadataEvent(reader.MetadataProcess, `{"argv":`+strings.Repeat("[", 1<<20/scale))},
		"counters":         {metadataEvent(reader.MetadataCounters, many)},
		"addresses":        {metadataEvent(reader.MetadataAddresses, many)},
		"profiles":         {metadataEvent(reader.MetadataProfile, many+strings.Repeat("\x00", 1<<20/scale))},
		"pruned":           {metadataEvent(reader.MetadataPruned, many+strings.Repeat("\x00", 1<<20/scale))},
		"functions pruned": {metadataEvent(reader.MetadataPruned, string(binary.LittleEndian.AppendUint64(nil, uint64(len(sums)/24)))+strings.Repeat("\x00", 16)+sums)},
		"sched":            {metadataEvent(reader.MetadataSched, strings.Repeat("\x00", 28)+"\xff\xff\xff\xff"+strings.Repeat("\x01\x01\x01\x00\x00\x00", 1<<20/scale))},
		"tasks":            {metadataEvent(reader.MetadataTasks, "\x00\x00\x10\x00\x01\x00\x00\x00"+strings.Repeat("a", 24))},
		"paths":            {metadataEvent(reader.MetadataProfile, "\x01\x00\x00\x00\x00\x00\x00\x00"+strings.Repeat("\x00", 32)+many)},
	}
}

// A small file must not make its reader allocate without bound, whatever it claims.
func TestMetadataMemory(t *testing.T) {
	for name, payloads := range hostileMetadata(1) {
		t.Run(name, func(t *testing.T) {
			b := withMetadata(payloads...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tr := openBytes(t, b)
			tr.Functions()
			tr.Objects()
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 192<<20 {
				t.Errorf("got %d MB allocated for a file of %d KB", got>>20, len(b)>>10)
			}
		})
	}
}

// equalJSON treats null and an empty list as equal.
func equalJSON(a, b []byte) bool {
	plain := func(b []byte) string { return strings.ReplaceAll(string(b), "[]", "null") }
	return plain(a) == plain(b)
}

func FuzzValue(f *testing.F) {
	for _, text := range []string{
		"XRYM\x01\x00\x1c\x00\x01\x00\x01\x00\x20\x00\x00\x00some text",
		"XRYM\x01\x00\x1c\x00\x00\x00\x0c\x00\x01\x00\x00\x00",
		"XRYM\x01\x00\x1c\x00\x00\x00\x02\x00\xff\xff\xff\xffab\x00\x00",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		v, ok := reader.ParseValue(payload)
		if ok && (len(v.Data) > len(payload) || v.Flags&value.None != 0 && v.Data != nil) {
			t.Errorf("got %+v", v)
		}
		for _, d := range []value.Description{{Kind: value.Bytes, Format: value.String}, {Kind: value.Scalar, Format: value.Int, Size: 8}, {Kind: value.Wide, Format: value.Float, Size: 10}} {
			if ok && d.Text(v.Recorded) == "" {
				t.Errorf("%+v has no text as %+v", v, d)
			}
		}
	})
}
