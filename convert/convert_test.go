package convert

import (
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// names are the function names of a test.
type names map[reader.FuncID]string

func (n names) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	name, ok := n[id]
	return symbolize.Symbol{Name: name, Linkage: "_Z" + name, File: "/src/" + name + ".cc", Line: int(id) * 10, Address: uint64(id) * 0x100}, ok
}

// hostile are names that break writers which do not escape.
var hostile = names{
	1: "main",
	2: `operator"" _q(char const*)`,
	3: `back\slash`,
	4: "a, b; c\nd\r\te\x00\x1f\x7f",
	5: "caf\u00e9 \u2028 \U0001F600",
	6: "not \xff\xfe UTF-8",
	7: "'}, {'",
	8: "",
}

var genHostileName = rapid.OneOf(
	rapid.SampledFrom([]string{hostile[2], hostile[3], hostile[4], hostile[5], hostile[6], hostile[7]}),
	rapid.String(),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
)

var oneGHz = reader.Header{Version: 3, Type: reader.Basic, ConstantTSC: true, NonstopTSC: true, CycleFrequency: 1_000_000_000}

// genBatches draws batches of threads whose calls nest correctly.
func genBatches(t *rapid.T) []*calls.Batch {
	var batches []*calls.Batch
	for index := range rapid.IntRange(1, 3).Draw(t, "threads") {
		b := &calls.Batch{
			Thread: reader.Thread{Process: int32(rapid.IntRange(0, 2).Draw(t, "process")), Thread: int32(100 + index)},
			Index:  index, Paths: calls.NewPaths(),
		}
		genCalls(t, b, 0, 1_000_000, rapid.Uint64Range(0, 1_000_000).Draw(t, "span"), 0)
		leaveOpen(b, uint32(rapid.IntRange(0, 3).Draw(t, "open")))
		genEvents(t, b)
		b.Last = true
		batches = append(batches, b)
	}
	return batches
}

// genCalls fills the time from start on with calls below path, and returns the sum of their
// durations.
func genCalls(t *rapid.T, b *calls.Batch, path calls.PathID, start, span uint64, depth uint32) uint64 {
	total := uint64(0)
	for range rapid.IntRange(0, max(0, 5-2*int(depth))).Draw(t, "calls") {
		c := calls.Call{
			Start:  start + rapid.Uint64Range(0, span).Draw(t, "gap"),
			Func:   reader.FuncID(rapid.IntRange(1, 9).Draw(t, "func")),
			Caller: b.Paths.Func(path),
			Depth:  depth,
			End:    calls.End(rapid.IntRange(0, 2).Draw(t, "end")),
		}
		c.Duration = rapid.Uint64Range(0, start+span-c.Start).Draw(t, "duration")
		c.Path = b.Paths.Child(path, c.Func)
		c.Self = c.Duration - genCalls(t, b, c.Path, c.Start, c.Duration, depth+1)
		for range rapid.IntRange(0, 2).Draw(t, "args") {
			c.Args = true
			b.Args = append(b.Args, calls.Arg{Call: len(b.Calls), Value: rapid.Uint64().Draw(t, "arg")})
		}
		b.Calls = append(b.Calls, c)
		total += c.Duration
		span -= c.Start + c.Duration - start
		start = c.Start + c.Duration
	}
	return total
}

// leaveOpen truncates at most this many of the calls that are open at the end of the thread's
// records.
func leaveOpen(b *calls.Batch, most uint32) {
	for depth := range min(most, uint32(len(b.Calls))) {
		i := len(b.Calls) - 1 - int(depth)
		c, outermost := &b.Calls[i], &b.Calls[len(b.Calls)-1]
		if c.Depth != depth || c.Start+c.Duration != outermost.Start+outermost.Duration {
			break
		}
		c.End = calls.Truncated
	}
}

func genEvents(t *rapid.T, b *calls.Batch) {
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		b.Events = append(b.Events, calls.Event{
			TSC:  rapid.Uint64Range(1_000_000, 2_000_000).Draw(t, "tsc"),
			Kind: rapid.SampledFrom([]reader.Kind{reader.Custom, reader.Typed}).Draw(t, "kind"),
			Type: rapid.Uint16().Draw(t, "type"),
			Data: []byte(genHostileName.Draw(t, "data")),
		})
	}
}

// write runs batches through a writer and returns what it wrote.
func write[W interface {
	calls.Sink
	Close() error
}](t rapid.TB, open func(io.Writer, Options) W, opts Options, batches ...*calls.Batch) string {
	t.Helper()
	var out strings.Builder
	w := open(&out, opts)
	feed(t, w.Calls, w.Close, batches)
	return out.String()
}

// writeBlocks is write for writers that take blocks.
func writeBlocks[W blockWriter](t rapid.TB, open func(io.Writer, Options) W, opts Options, blocks ...*reader.Block) string {
	t.Helper()
	var out strings.Builder
	w := open(&out, opts)
	feed(t, w.Block, w.Close, blocks)
	return out.String()
}

func feed[T any](t rapid.TB, write func(T) error, closing func() error, all []T) {
	t.Helper()
	for _, part := range all {
		if err := write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := closing(); err != nil {
		t.Fatal(err)
	}
}

type blockWriter interface {
	Block(*reader.Block) error
	Close() error
}

// full is a device without space left. Later writes succeed again, but the writer must still
// return the error, because the output has a hole.
type full struct{ failed bool }

var errFull = errors.New("no space left on device")

func (f *full) Write(b []byte) (int, error) {
	if f.failed {
		return len(b), nil
	}
	f.failed = true
	return 0, errFull
}

func TestWriteErrorsAreReturned(t *testing.T) {
	many := &calls.Batch{Calls: make([]calls.Call, 10_000)}
	for name, w := range map[string]interface {
		calls.Sink
		Close() error
	}{
		"chrome": NewChrome(&full{}, Options{}), "csv": NewCSV(&full{}, Options{}), "json": NewJSONLines(&full{}, Options{}),
	} {
		if err := w.Calls(many); !errors.Is(err, errFull) {
			t.Errorf("%s: Calls returned %v", name, err)
		}
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Errorf("%s: Close returned %v", name, err)
		}
	}
	block := &reader.Block{Events: make([]reader.Event, 10_000)}
	for name, w := range map[string]blockWriter{
		"yaml": NewYAML(&full{}, Options{}), "trace events": NewTraceEvents(&full{}, Options{}),
	} {
		if err := w.Block(block); !errors.Is(err, errFull) {
			t.Errorf("%s: Block returned %v", name, err)
		}
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Errorf("%s: Close returned %v", name, err)
		}
	}
}

// TestLabelsThatCollide has more functions than slots for labels.
func TestLabelsThatCollide(t *testing.T) {
	opts := Options{}
	rendered := 0
	l := newLabels(func(dst []byte, id reader.FuncID) []byte {
		rendered++
		return append(dst, opts.label(id)...)
	})
	for range 2 {
		for _, id := range []reader.FuncID{1, 1 + labelSlots, 1, -1, 0, 2 << 24} {
			if got, want := string(l.of(id)), opts.label(id); got != want {
				t.Errorf("function %d: got %s, want %s", id, got, want)
			}
		}
	}
	if rendered != 8 { // 1 and the function with its slot took turns
		t.Errorf("got %d labels rendered, want 8", rendered)
	}
}

// benchBatch returns a realistic batch: leaves and their callers, among a few hundred functions.
func benchBatch() *calls.Batch {
	b := &calls.Batch{Thread: reader.Thread{Process: 11207, Thread: 11208}, Paths: calls.NewPaths()}
	tsc := uint64(1_795_215_991_362_020_957)
	for i := range 512 {
		caller := reader.FuncID(1 + i/8%32)
		fn := reader.FuncID(33 + i*7%300)
		c := calls.Call{Start: tsc, Duration: 8_500 + uint64(i*i%700), Func: fn, Caller: caller, Depth: 1}
		if i%8 == 7 {
			c = calls.Call{Start: tsc - 90_000, Duration: 98_000, Func: caller}
		}
		c.Self = c.Duration / uint64(2-c.Depth)
		c.Path = b.Paths.Child(0, caller)
		if c.Depth == 1 {
			c.Path = b.Paths.Child(c.Path, fn)
		}
		tsc += 9_000
		b.Calls = append(b.Calls, c)
	}
	return b
}

// benchNames are the names of functions in benchBatch and benchBlock.
var benchNames = func() names {
	n := names{}
	for id := range reader.FuncID(400) {
		n[id] = "ns::Service::handle(std::vector<int> const&)"[:20+id%24]
	}
	return n
}()

var benchOptions = Options{Header: oneGHz, Names: benchNames, Base: 1_795_215_991_000_000_000}

// benchCalls measures a sink in calls. Each call stands for two records.
func benchCalls(b *testing.B, sink calls.Sink) {
	batch := benchBatch()
	for b.Loop() {
		if err := sink.Calls(batch); err != nil {
			b.Fatal(err)
		}
	}
	perCall := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(len(batch.Calls))
	b.ReportMetric(perCall, "ns/call")
	b.ReportMetric(2000/perCall, "Mrecords/s")
}

// benchBlock returns the records of benchBatch without order of time.
func benchBlock() *reader.Block {
	b := &reader.Block{Thread: reader.Thread{Process: 11207, Thread: 11208}}
	tsc := uint64(1_795_215_991_362_020_957)
	for i := range 1024 {
		id := reader.FuncID(33 + i/2*7%300)
		b.Events = append(b.Events, reader.Event{TSC: tsc, Func: id, CPU: 3, Kind: reader.Kind(i % 2)})
		tsc += 4_321
	}
	return b
}

func benchBlocks(b *testing.B, w blockWriter) {
	block := benchBlock()
	for b.Loop() {
		if err := w.Block(block); err != nil {
			b.Fatal(err)
		}
	}
	perRecord := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(len(block.Events))
	b.ReportMetric(perRecord, "ns/record")
	b.ReportMetric(1000/perRecord, "Mrecords/s")
}

func BenchmarkConvert(b *testing.B) {
	threads := benchOptions
	threads.Threads = true
	b.Run("format=yaml", func(b *testing.B) { benchBlocks(b, NewYAML(io.Discard, benchOptions)) })
	b.Run("format=trace_event", func(b *testing.B) { benchBlocks(b, NewTraceEvents(io.Discard, benchOptions)) })
	b.Run("format=chrome", func(b *testing.B) { benchCalls(b, NewChrome(io.Discard, benchOptions)) })
	b.Run("format=csv", func(b *testing.B) { benchCalls(b, NewCSV(io.Discard, benchOptions)) })
	b.Run("format=json", func(b *testing.B) { benchCalls(b, NewJSONLines(io.Discard, benchOptions)) })
	b.Run("format=pprof", func(b *testing.B) { benchCalls(b, NewPprof(benchOptions)) })
	b.Run("format=pprof/threads=true", func(b *testing.B) { benchCalls(b, NewPprof(threads)) })
}
