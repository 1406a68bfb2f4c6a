package tracewrite

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

// event is an event with all that belongs to it, for comparing traces.
type event struct {
	Process, Thread int32
	Kind            reader.Kind
	Func            reader.FuncID // 0 for custom and typed events
	CPU             uint16
	TSC             uint64
	Args            []uint64
	Type            uint16
	Data            string
}

// flatten returns the events of blocks that keep accepts, by process and thread, in order.
func flatten(blocks []*reader.Block, keep func(e *event) bool) []event {
	var all []event
	for _, b := range blocks {
		for i, e := range b.Events {
			ev := event{Process: b.Thread.Process, Thread: b.Thread.Thread, Kind: e.Kind, Func: e.Func, CPU: e.CPU, TSC: e.TSC}
			for _, a := range b.Args {
				if a.Event == i {
					ev.Args = append(ev.Args, a.Value)
				}
			}
			for _, p := range b.Payloads {
				if p.Event == i {
					ev.Type, ev.Data = p.Type, string(p.Data)
				}
			}
			if e.Kind > reader.EnterArg {
				ev.Func = 0
			}
			if keep(&ev) {
				all = append(all, ev)
			}
		}
	}
	return byThread(all)
}

func byThread(all []event) []event {
	slices.SortStableFunc(all, func(a, b event) int {
		if a.Process != b.Process {
			return int(a.Process) - int(b.Process)
		}
		return int(a.Thread) - int(b.Thread)
	})
	return all
}

// drawBlocks draws blocks of a few threads with all contents that blocks can have.
func drawBlocks(t *rapid.T) []*reader.Block {
	var blocks []*reader.Block
	for range rapid.IntRange(0, 6).Draw(t, "blocks") {
		b := &reader.Block{Thread: reader.Thread{
			Process: rapid.Int32Range(1, 2).Draw(t, "process"),
			Thread:  rapid.Int32Range(1, 3).Draw(t, "thread"),
		}}
		tsc := rapid.Uint64().Draw(t, "start")
		for i := range rapid.IntRange(0, 30).Draw(t, "events") {
			tsc += rapid.OneOf(rapid.Uint64Range(0, 100), rapid.Uint64Range(maxDelta-1, maxDelta+1), rapid.Uint64()).Draw(t, "step")
			e := reader.Event{
				Kind: reader.Kind(rapid.IntRange(0, int(reader.Typed)).Draw(t, "kind")),
				Func: reader.FuncID(rapid.OneOf(rapid.Int32Range(1, 5), rapid.Int32()).Draw(t, "function")),
				CPU:  rapid.SampledFrom([]uint16{0, 0, 0, 1, 255}).Draw(t, "cpu"), TSC: tsc,
			}
			if e.Func&maxFDRFunc == 0 {
				e.Func++ // 0 is no function, and looks like padding
			}
			if e.Kind > reader.EnterArg {
				e.Side = true
				p := reader.Payload{Event: i, Data: rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data")}
				if e.Kind == reader.Typed {
					p.Type = rapid.Uint16().Draw(t, "type")
				}
				b.Payloads = append(b.Payloads, p)
			} else if e.Kind == reader.EnterArg || rapid.IntRange(0, 5).Draw(t, "odd") == 0 {
				for range rapid.IntRange(0, 3).Draw(t, "arguments") {
					e.Side = true
					b.Args = append(b.Args, reader.Arg{Event: i, Value: rapid.Uint64().Draw(t, "argument")})
				}
			}
			b.Events = append(b.Events, e)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// parseAll splits a trace after its header into records.
func parseAll(t testing.TB, data []byte, h *reader.Header) []reader.Record {
	var all []reader.Record
	for data = data[HeaderSize:]; len(data) > 0; {
		var r reader.Record
		n, err := reader.ParseRecord(data, h, &r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
		data = data[n:]
	}
	return all
}

func TestBasicHoldsWhatItCan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		blocks := drawBlocks(rt)
		var out bytes.Buffer
		w := NewBasic(&out, reader.Header{CycleFrequency: 9, Type: reader.FDR, Version: 5})
		for _, b := range blocks {
			if err := w.Block(b); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		var dropped int64
		want := flatten(blocks, func(e *event) bool {
			if e.Kind > reader.EnterArg {
				dropped++
				return false
			}
			if !e.Kind.IsEnter() {
				dropped += int64(len(e.Args))
				e.Args = nil
			}
			return true
		})
		h := reader.Header{Version: 3, Type: reader.Basic, CycleFrequency: 9}
		if diff := cmp.Diff(AppendHeader(nil, &h), out.Bytes()[:HeaderSize]); diff != "" {
			rt.Fatal(diff)
		}
		var got []event
		for _, r := range parseAll(t, out.Bytes(), &fixedBasic) {
			if r.Kind == reader.BasicArgument {
				last := &got[len(got)-1]
				if last.Func != r.Func || last.Thread != r.Thread || last.Process != r.Process {
					rt.Fatalf("payload %+v after %+v", r, last)
				}
				last.Args = append(last.Args, r.Value)
				continue
			}
			got = append(got, event{Process: r.Process, Thread: r.Thread, Kind: r.FuncKind, Func: r.Func, CPU: r.CPU, TSC: r.TSC})
		}
		if diff := cmp.Diff(want, byThread(got)); diff != "" {
			rt.Fatal(diff)
		}
		if w.Dropped != dropped {
			rt.Fatalf("got %d dropped, want %d", w.Dropped, dropped)
		}
	})
}

var fixedBasic = reader.Header{Version: 3, ByteOrder: fdrV5.ByteOrder}

// TestFDRHoldsWhatItCan decodes the output by the rules of the format, and checks the
// structure of the blocks.
func TestFDRHoldsWhatItCan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		blocks := drawBlocks(rt)
		size := rapid.IntRange(1, 400).Draw(rt, "buffer size")
		var out bytes.Buffer
		w := NewFDR(&out, reader.Header{CycleFrequency: 1e9}, Options{BufferSize: size})
		for _, b := range blocks {
			if err := w.Block(b); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		var dropped, truncated int64
		want := flatten(blocks, func(e *event) bool {
			if e.Kind > reader.EnterArg {
				if e.Data == "" {
					dropped++
				}
				return e.Data != ""
			}
			if !e.Kind.IsEnter() {
				dropped += int64(len(e.Args))
				e.Args = nil
			}
			if e.Func < 0 || e.Func >= 1<<28 {
				truncated++
				e.Func &= 1<<28 - 1
			}
			return true
		})
		got := decodeFDR(t, out.Bytes(), size)
		if diff := cmp.Diff(want, byThread(got)); diff != "" {
			rt.Fatal(diff)
		}
		if w.Dropped != dropped || w.TruncatedIDs != truncated {
			rt.Fatalf("got %d dropped, %d truncated; want %d, %d", w.Dropped, w.TruncatedIDs, dropped, truncated)
		}
	})
}

func decodeFDR(t testing.TB, data []byte, size int) []event {
	type wall struct{ seconds, micros uint64 }
	walls := map[threadKey]wall{}
	var all []event
	var thread, process int32
	var cpu uint16
	var tsc, left uint64
	var inBlock int
	records := parseAll(t, data, &fdrV5)
	for i, r := range records {
		if r.Kind == reader.BufferExtents {
			if left != 0 {
				t.Fatalf("record %d: %d bytes of the last block are missing", i, left)
			}
			left, inBlock = r.Value, 0
			var kinds []reader.RecordKind
			for _, r := range records[i:min(len(records), i+5)] {
				kinds = append(kinds, r.Kind)
			}
			preamble := []reader.RecordKind{reader.BufferExtents, reader.NewBuffer, reader.WallClock, reader.PID, reader.NewCPUID}
			if !slices.Equal(kinds, preamble) {
				t.Fatalf("record %d: block starts with %v", i, kinds)
			}
			// A single event with its arguments may exceed the buffer size.
			if most := max(uint64(size), 4*metadataSize+functionSize+3*metadataSize, 5*metadataSize+50); left > most {
				t.Fatalf("record %d: got a block of %d bytes in buffers of %d", i, left, size)
			}
			continue
		}
		left -= uint64(r.Size)
		e := event{Process: process, Thread: thread, CPU: cpu}
		switch r.Kind {
		case reader.WallClock: // checked with the process id
		case reader.NewBuffer:
			thread = r.Thread
		case reader.PID:
			process = r.Process
			next := wall{records[i-1].Seconds, uint64(records[i-1].Micros)}
			key := threadKey{process, thread}
			if last, ok := walls[key]; ok && (next.seconds <= last.seconds || next.micros <= last.micros) {
				t.Fatalf("record %d: wall clock %v after %v", i, next, last)
			}
			walls[key] = next
		case reader.NewCPUID:
			cpu, tsc = r.CPU, r.TSC
		case reader.TSCWrap:
			tsc = r.TSC
		case reader.CallArgument:
			last := &all[len(all)-1]
			last.Args = append(last.Args, r.Value)
		case reader.Function, reader.CustomEvent, reader.TypedEvent:
			if inBlock++; inBlock == 1 && r.Delta != 0 {
				t.Fatalf("record %d: delta %d at the start of a block", i, r.Delta)
			}
			tsc += uint64(r.Delta)
			e.TSC, e.Kind, e.Func = tsc, r.FuncKind, r.Func
			if r.Kind != reader.Function {
				e.Kind, e.Type, e.Data = reader.Custom, r.Type, string(r.Data)
				if r.Kind == reader.TypedEvent {
					e.Kind = reader.Typed
				}
			}
			all = append(all, e)
		default:
			t.Fatalf("record %d: unexpected kind %v", i, r.Kind)
		}
	}
	if left != 0 {
		t.Fatalf("the last block lacks %d bytes", left)
	}
	return all
}

func TestFDRSetsClockAndCPU(t *testing.T) {
	step := func(from, to reader.Event) []reader.RecordKind {
		var out bytes.Buffer
		w := NewFDR(&out, reader.Header{}, Options{})
		from.Func, to.Func = 1, 1
		if err := errors.Join(w.Block(&reader.Block{Events: []reader.Event{from, to}}), w.Close()); err != nil {
			t.Fatal(err)
		}
		var kinds []reader.RecordKind
		for _, r := range parseAll(t, out.Bytes(), &fdrV5)[6:] {
			kinds = append(kinds, r.Kind)
		}
		return kinds
	}
	fn, wrap, cpu := reader.Function, reader.TSCWrap, reader.NewCPUID
	for _, tt := range []struct {
		name     string
		from, to reader.Event
		want     []reader.RecordKind
	}{
		{"same time", reader.Event{TSC: 5}, reader.Event{TSC: 5}, []reader.RecordKind{fn}},
		{"largest delta", reader.Event{TSC: 5}, reader.Event{TSC: 5 + math.MaxInt32}, []reader.RecordKind{fn}},
		{"larger", reader.Event{TSC: 5}, reader.Event{TSC: 6 + math.MaxInt32}, []reader.RecordKind{wrap, fn}},
		{"back", reader.Event{TSC: 5}, reader.Event{TSC: 4}, []reader.RecordKind{wrap, fn}},
		{"back around zero", reader.Event{TSC: math.MaxUint64}, reader.Event{TSC: 5}, []reader.RecordKind{wrap, fn}},
		{"other CPU", reader.Event{TSC: 5}, reader.Event{TSC: 6, CPU: 1}, []reader.RecordKind{cpu, fn}},
		{"other CPU and back", reader.Event{TSC: 5, CPU: 1}, reader.Event{TSC: 4}, []reader.RecordKind{cpu, fn}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, step(tt.from, tt.to)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Entries of function 0 would look like padding. They are dropped, and nothing else.
func TestFDRDropsEntriesOfFunctionZero(t *testing.T) {
	b := &reader.Block{
		Thread: reader.Thread{Process: 1, Thread: 1},
		Events: []reader.Event{
			{Kind: reader.Enter, Func: 1, TSC: 5},
			{Kind: reader.Enter, TSC: 5},
			{Kind: reader.Enter, Func: 1 << 28, TSC: 5, Side: true},
			{Kind: reader.EnterArg, TSC: 5, Side: true},
			{Kind: reader.Exit, TSC: 6},
			{Kind: reader.Exit, Func: 1, TSC: 7},
		},
		Args: []reader.Arg{{Event: 2, Value: 8}, {Event: 3, Value: 9}},
	}
	var out bytes.Buffer
	w := NewFDR(&out, reader.Header{}, Options{})
	if err := errors.Join(w.Block(b), w.Close()); err != nil {
		t.Fatal(err)
	}
	if w.Dropped != 3 || w.TruncatedIDs != 0 {
		t.Errorf("got %d dropped, %d truncated; want two entries and an argument, and no ID", w.Dropped, w.TruncatedIDs)
	}
	want := []event{
		{1, 1, reader.Enter, 1, 0, 5, nil, 0, ""},
		{1, 1, reader.EnterArg, 0, 0, 5, []uint64{9}, 0, ""},
		{1, 1, reader.Exit, 0, 0, 6, nil, 0, ""},
		{1, 1, reader.Exit, 1, 0, 7, nil, 0, ""},
	}
	if diff := cmp.Diff(want, decodeFDR(t, out.Bytes(), DefaultBufferSize)); diff != "" {
		t.Error(diff)
	}
}

func TestRawIsLLVMs(t *testing.T) {
	b := &reader.Block{
		Thread: reader.Thread{Process: 6, Thread: 5},
		Events: []reader.Event{
			{Kind: reader.EnterArg, Func: 3, TSC: 7, CPU: 2, Side: true},
			{Kind: reader.Custom, Side: true},
			{Kind: reader.TailExit, Func: 3, TSC: 9},
		},
		Args:     []reader.Arg{{Event: 0, Value: 1}, {Event: 0, Value: 2}},
		Payloads: []reader.Payload{{Event: 1, Data: []byte("x")}},
	}
	for _, tt := range []struct {
		from        reader.Header
		wantVersion uint16
		wantProcess int32
	}{
		{reader.Header{Version: 2}, 2, 0},
		{reader.Header{Version: 3}, 3, 6},
		{reader.Header{Version: 5, Type: reader.FDR, BufferSize: 99}, 3, 6},
	} {
		t.Run(fmt.Sprintf("%v%d", tt.from.Type, tt.from.Version), func(t *testing.T) {
			var out bytes.Buffer
			w := NewRaw(&out, tt.from)
			if err := errors.Join(w.Block(b), w.Close()); err != nil {
				t.Fatal(err)
			}
			h := reader.Header{Version: tt.wantVersion}
			want := AppendHeader(nil, &h)
			h.Version = 3 // the process id is written, or zero
			want = AppendRecord(want, &h, &reader.Record{Kind: reader.BasicFunction, Func: 3, CPU: 2, TSC: 7, Thread: 5, Process: tt.wantProcess})
			want = AppendRecord(want, &h, &reader.Record{Kind: reader.BasicFunction, FuncKind: reader.TailExit, Func: 3, TSC: 9, Thread: 5, Process: tt.wantProcess})
			if diff := cmp.Diff(want, out.Bytes()); diff != "" {
				t.Error(diff)
			}
			if w.Dropped != 3 {
				t.Errorf("got %d dropped, want the two arguments and the event", w.Dropped)
			}
		})
	}
}

// blockWriter is the interface of both writers.
type blockWriter interface {
	Block(*reader.Block) error
	Close() error
}

// fullDisk fails after the first n bytes.
type fullDisk struct{ n int }

var errFull = errors.New("disk full")

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.n {
		n := d.n
		d.n = 0
		return n, errFull
	}
	d.n -= len(p)
	return len(p), nil
}

func TestWriteErrorsSurface(t *testing.T) {
	big := &reader.Block{Events: slices.Repeat([]reader.Event{{Func: 1}}, 20_000)}
	for _, room := range []int{0, 100, 70_000} {
		for name, w := range map[string]blockWriter{
			"basic": NewBasic(&fullDisk{room}, reader.Header{}),
			"fdr":   NewFDR(&fullDisk{room}, reader.Header{}, Options{}),
		} {
			err := w.Block(big)
			if closeErr := w.Close(); !errors.Is(closeErr, errFull) {
				t.Errorf("%s, room for %d bytes: Block returned %v, Close %v", name, room, err, closeErr)
			}
		}
	}
}

// TestLLVMReadsBack converts our output to YAML with every llvm-xray.
func TestLLVMReadsBack(t *testing.T) {
	// Two threads, one with many blocks. TSCs never repeat, because llvm-xray sorts by
	// them.
	blocks := []*reader.Block{{
		Thread: reader.Thread{Process: 70, Thread: 71},
		Events: []reader.Event{
			{Kind: reader.Enter, Func: 1, TSC: 1<<60 + 1, CPU: 3},
			{Kind: reader.EnterArg, Func: 2, TSC: 1<<60 + 3, CPU: 3, Side: true},
			{Kind: reader.Custom, Func: 2, TSC: 1<<60 + 5, CPU: 3, Side: true},
			{Kind: reader.Typed, Func: 2, TSC: 1<<60 + 7, CPU: 4, Side: true},
			{Kind: reader.TailExit, Func: 2, TSC: 1<<60 + 9, CPU: 4},
			{Kind: reader.Exit, Func: 1, TSC: 1<<60 + 1<<40, CPU: 4},
		},
		Args:     []reader.Arg{{Event: 1, Value: math.MaxUint64}, {Event: 1, Value: 0}},
		Payloads: []reader.Payload{{Event: 2, Data: []byte("plain")}, {Event: 3, Type: 513, Data: []byte("typed")}},
	}}
	for i := range 400 {
		blocks = append(blocks, &reader.Block{
			Thread: reader.Thread{Process: 70, Thread: 70},
			Events: []reader.Event{
				{Kind: reader.Enter, Func: reader.FuncID(i + 1), TSC: uint64(10*i + 2)},
				{Kind: reader.Exit, Func: reader.FuncID(i + 1), TSC: uint64(10*i + 6)},
			},
		})
	}
	// llvm-xray keeps the type of a typed event for all records after it.
	record := regexp.MustCompile(`(?m)^  - \{ type: \d+, `)
	yaml := func(withEvents bool) []string {
		all := flatten(blocks, func(e *event) bool { return withEvents || e.Kind <= reader.EnterArg })
		slices.SortStableFunc(all, func(a, b event) int {
			if a.TSC < b.TSC {
				return -1
			}
			return 1
		})
		var lines []string
		for _, e := range all {
			if e.Func == 0 {
				e.Func = 2 // the function of the record before, because both events follow function 2
			}
			args := ""
			if len(e.Args) > 0 {
				args = "args: [ " + strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Args), " ", ", "), "[]") + " ], "
			}
			data := e.Data
			if data == "" {
				data = "''"
			}
			lines = append(lines, fmt.Sprintf("func-id: %d, function: '%d', %scpu: %d, thread: %d, process: %d, kind: %v, tsc: %d, data: %s }",
				e.Func, e.Func, args, e.CPU, e.Thread, e.Process, e.Kind, e.TSC, data))
		}
		return lines
	}
	for _, tt := range []struct {
		name   string
		events bool
		open   func(f *os.File) blockWriter
	}{
		{"basic", false, func(f *os.File) blockWriter { return NewBasic(f, reader.Header{CycleFrequency: 1e9}) }},
		{"fdr", true, func(f *os.File) blockWriter { return NewFDR(f, reader.Header{CycleFrequency: 1e9}, Options{}) }},
		{"fdr with small buffers", true, func(f *os.File) blockWriter {
			return NewFDR(f, reader.Header{CycleFrequency: 1e9}, Options{BufferSize: 100})
		}},
	} {
		path := filepath.Join(t.TempDir(), "trace")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := tt.open(f)
		for _, b := range blocks {
			if err := w.Block(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		for _, llvm := range []string{"llvm-xray-14", "llvm-xray-19", "llvm-xray-22"} {
			t.Run(tt.name+"/"+llvm, func(t *testing.T) {
				testenv.Need(t, llvm)
				run := func(sort string) []string {
					out, err := exec.Command(llvm, "convert", "-f", "yaml", sort, path).Output()
					if err != nil {
						t.Fatal(err, string(err.(*exec.ExitError).Stderr))
					}
					all := record.Split(strings.TrimSuffix(string(out), "...\n"), -1)
					for i := range all {
						all[i] = strings.TrimSuffix(all[i], "\n")
					}
					return all[1:]
				}
				if diff := cmp.Diff(yaml(tt.events), run("--sort=true")); diff != "" {
					t.Error(diff)
				}
				// Without sorting, the blocks of a thread must stay in order.
				unsorted := slices.DeleteFunc(run("--sort=false"), func(s string) bool { return strings.Contains(s, "thread: 71") })
				want := slices.DeleteFunc(yaml(tt.events), func(s string) bool { return strings.Contains(s, "thread: 71") })
				if diff := cmp.Diff(want, unsorted); diff != "" {
					t.Error("unsorted:", diff)
				}
			})
		}
	}
}

// TestReaderReadsBack reads our output with the reader of this project, which orders the
// blocks.
func TestReaderReadsBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		blocks := drawBlocks(rt)
		fdr := rapid.Bool().Draw(rt, "fdr")
		var out bytes.Buffer
		w := blockWriter(NewBasic(&out, reader.Header{}))
		if !fdr {
			// The reader takes repeated events for the effect of a fork.
			tsc := uint64(0)
			for _, b := range blocks {
				for i := range b.Events {
					tsc++
					b.Events[i].TSC = tsc
				}
			}
		}
		if fdr {
			w = NewFDR(&out, reader.Header{CycleFrequency: 1}, Options{BufferSize: rapid.IntRange(1, 400).Draw(rt, "buffer size")})
		}
		for _, b := range blocks {
			if err := w.Block(b); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			rt.Fatal(err)
		}
		want := flatten(blocks, func(e *event) bool {
			switch {
			case !fdr && e.Kind > reader.EnterArg, e.Kind > reader.EnterArg && e.Data == "":
				return false
			case !e.Kind.IsEnter():
				e.Args = nil
			case fdr && len(e.Args) > 0:
				e.Kind = reader.EnterArg // an argument changes the kind
			}
			if fdr {
				e.Func &= maxFDRFunc
			}
			return true
		})
		trace, err := reader.OpenReaderAt(bytes.NewReader(out.Bytes()), int64(out.Len()), "trace")
		if err != nil {
			rt.Fatal(err)
		}
		var got []event
		for b, err := range trace.Blocks(reader.ThreadOrder) {
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, flatten([]*reader.Block{b}, func(e *event) bool {
				if e.Kind.IsEnter() && len(e.Args) > 0 && fdr {
					e.Kind = reader.EnterArg
				}
				return true
			})...)
		}
		if diff := cmp.Diff(want, byThread(got)); diff != "" {
			rt.Fatal(diff)
		}
		if n := trace.Losses().Count(); n != 0 {
			rt.Fatalf("got %d losses: %v", n, trace.Losses().Samples())
		}
	})
}

// TestCorpusSurvivesRewriting rewrites real FDR logs, and compares the results of llvm-xray
// for both.
func TestCorpusSurvivesRewriting(t *testing.T) {
	root := os.Getenv("XRAY_CORPUS")
	if root == "" {
		t.Skip("XRAY_CORPUS is not set")
	}
	testenv.Need(t, "llvm-xray-22")
	yaml := func(path string) string {
		out, err := exec.Command("llvm-xray-22", "convert", "-f", "yaml", path).Output()
		if err != nil {
			t.Fatal(path, string(err.(*exec.ExitError).Stderr))
		}
		_, records, _ := strings.Cut(string(out), "records:")
		return records
	}
	for _, name := range []string{
		"fdr-v5-two-threads-custom-event", "fdr-v5-ring-overflow", "fdr-v5-dso-20-objects",
		"basic-v3-two-threads", "basic-v3-one-thread-args", "basic-v3-clang14",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(root, "samples/traces", name+".xray")
			trace, err := reader.Open(reader.Options{}, path)
			if err != nil {
				t.Fatal(err)
			}
			defer trace.Close()
			rewritten := filepath.Join(t.TempDir(), "trace")
			f, err := os.Create(rewritten)
			if err != nil {
				t.Fatal(err)
			}
			w := blockWriter(NewBasic(f, trace.Header(0)))
			if trace.Header(0).Type == reader.FDR {
				w = NewFDR(f, trace.Header(0), Options{BufferSize: 200})
			}
			for b, err := range trace.Blocks(reader.ThreadOrder) {
				if err := errors.Join(err, w.Block(b)); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(w.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(yaml(path), yaml(rewritten)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	block := &reader.Block{Events: make([]reader.Event, 1024)}
	for i := range block.Events {
		block.Events[i] = reader.Event{Kind: reader.Kind(i & 1), Func: reader.FuncID(i%50 + 1), TSC: uint64(i) * 30}
	}
	for _, bb := range []struct {
		format string
		w      blockWriter
	}{
		{"basic", NewBasic(discard{}, reader.Header{})},
		{"fdr", NewFDR(discard{}, reader.Header{}, Options{})},
	} {
		b.Run("format="+bb.format, func(b *testing.B) {
			for b.Loop() {
				if err := bb.w.Block(block); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(block.Events)), "ns/record")
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
