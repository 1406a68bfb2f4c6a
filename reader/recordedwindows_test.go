package reader_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// drawWindows draws windows between two times. The last one may have no end.
func drawWindows(r *rand.Rand, from, to uint64) (list []reader.RecordedWindow) {
	for tsc := from; ; {
		w := reader.RecordedWindow{From: tsc + 1 + r.Uint64N(200), CPUNS: r.Uint64N(50)}
		w.To = w.From + r.Uint64N(200)
		if tsc = w.To; tsc > to {
			if r.IntN(2) == 0 && w.From < to {
				list = append(list, reader.RecordedWindow{From: w.From})
			}
			return list
		}
		list = append(list, w)
	}
}

// windowed is what passes should yield of the events of a thread.
func windowed(windows []reader.RecordedWindow, times []uint64, lines []string) (want []string, outside uint64) {
	at := -1
	end := func() {
		if at >= 0 && windows[at].To != 0 {
			want = append(want, fmt.Sprintf("end @%d", windows[at].To))
		}
		at = -1
	}
	for i, tsc := range times {
		in := slices.IndexFunc(windows, func(w reader.RecordedWindow) bool { return tsc >= w.From && (w.To == 0 || tsc <= w.To) })
		if in != at {
			end()
		}
		if in < 0 {
			outside++
			continue
		}
		if at < 0 {
			want = append(want, fmt.Sprintf("begin @%d", windows[in].From))
		}
		at = in
		want = append(want, lines[i])
	}
	end()
	return want, outside
}

// eventLine describes event i of a block.
func eventLine(b *reader.Block, i int) string {
	e := &b.Events[i]
	if edge, ok := b.Edge(i); ok {
		return fmt.Sprintf("%s @%d", map[reader.Edge]string{reader.WindowBegins: "begin", reader.WindowEnds: "end"}[edge], e.TSC)
	}
	text := fmt.Sprintf("%v #%d @%d", e.Kind, e.Func, e.TSC)
	for _, a := range b.Args {
		if a.Event == i {
			text += fmt.Sprintf(" arg=%d", a.Value)
		}
	}
	for _, p := range b.Payloads {
		if p.Event == i {
			text = fmt.Sprintf("%v @%d %s", e.Kind, e.TSC, p.Data)
		}
	}
	return text
}

// Every pass yields the records of windows, and no others, with an event where a window begins or ends
// in a thread.
func TestRecordedWindows(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		recording := &reader.Recording{Process: reader.Process{PID: 1, Exe: "/bin/x", WindowNS: 1, EveryNS: 2}}
		recording.Windows = drawWindows(r, 1000, 1000+r.Uint64N(4000))
		var out bytes.Buffer
		w := tracewrite.NewFDR(&out, reader.Header{CycleFrequency: 1e9}, tracewrite.Options{Recording: recording, First: 1000, BufferSize: 256 << r.IntN(8)})
		want, outside := make(map[int32][]string), uint64(0)
		for thread := range int32(1 + r.IntN(3)) {
			b := &reader.Block{Thread: reader.Thread{Process: 1, Thread: thread + 2}}
			tsc := 1000 + r.Uint64N(500)
			plain := r.IntN(3) > 0 // long runs of records without anything else
			var times []uint64
			for i := range r.IntN(3000) {
				tsc += r.Uint64N(4)
				e := reader.Event{TSC: tsc, Func: reader.FuncID(1 + r.IntN(5)), Kind: reader.Kind(r.IntN(3))}
				switch n := r.IntN(40); {
				case !plain && n == 0:
					e.Kind, e.Side = reader.EnterArg, true
					b.Args = append(b.Args, reader.Arg{Event: i, Value: uint64(i)})
				case !plain && n == 1:
					e.Kind, e.Side = reader.Custom, true
					b.Payloads = append(b.Payloads, reader.Payload{Event: i, Data: fmt.Appendf(nil, "payload %d", i)})
				}
				b.Events = append(b.Events, e)
				times = append(times, tsc)
			}
			var lines []string
			for i := range b.Events {
				lines = append(lines, eventLine(b, i))
			}
			if err := w.Block(b); err != nil {
				t.Fatal(err)
			}
			var left uint64
			if want[thread+2], left = windowed(recording.Windows, times, lines); len(recording.Windows) == 0 {
				want[thread+2], left = lines, 0
			}
			outside += left
			if len(want[thread+2]) == 0 {
				delete(want, thread+2)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		trace, err := reader.OpenReaderAt(bytes.NewReader(out.Bytes()), int64(out.Len()), "windows")
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(recording.Windows, trace.Recording(0).Windows); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		for name, got := range passesOf(t, trace) {
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, %s, %d windows: %s", seed, name, len(recording.Windows), diff)
			}
			if trace.Losses().Count() > 0 {
				t.Errorf("seed %d: %v", seed, trace.Losses().Samples())
			}
		}
		if n := trace.Outside(); n != outside {
			t.Errorf("seed %d: %d records outside, want %d", seed, n, outside)
		}
	}
}

// smallWindowed is a trace of three windows, the last of which has no end.
func smallWindowed() []byte {
	var out bytes.Buffer
	r := &reader.Recording{Windows: []reader.RecordedWindow{{From: 1010, To: 1030}, {From: 1050, To: 1070}, {From: 1100}}}
	w := tracewrite.NewFDR(&out, reader.Header{CycleFrequency: 1e9}, tracewrite.Options{Recording: r, First: 1000})
	b := &reader.Block{Thread: reader.Thread{Process: 1, Thread: 2}}
	for i := range uint64(60) {
		b.Events = append(b.Events, reader.Event{TSC: 1000 + 2*i, Func: 1, Kind: reader.Kind(i % 2)})
	}
	_ = w.Block(b) // a buffer has room
	_ = w.Close()
	return out.Bytes()
}

// passesOf returns the events of a trace by thread, from passes of all kinds.
func passesOf(t *testing.T, trace *reader.Trace) map[string]map[int32][]string {
	t.Helper()
	all := make(map[string]map[int32][]string)
	pass := func(name string, run func(add func(*reader.Block)) error) {
		got := make(map[int32][]string)
		err := run(func(b *reader.Block) {
			for i := range b.Events {
				got[b.Thread.Thread] = append(got[b.Thread.Thread], eventLine(b, i))
			}
			tsc := b.Packed.TSC
			for p := b.Packed.Records; len(p) > 0; p = p[8:] {
				w := binary.LittleEndian.Uint64(p)
				tsc += w >> 32
				got[b.Thread.Thread] = append(got[b.Thread.Thread], fmt.Sprintf("%v #%d @%d", reader.Kind(w>>1&7), uint32(w)>>4, tsc))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		all[name] = got
	}
	pass("EachByTime", func(add func(*reader.Block)) error {
		return trace.EachByTime(1, nil, func(_ int, w *reader.Window) {
			for _, i := range w.Order {
				b := &reader.Block{Thread: w.Threads[w.Owners[i]], Events: []reader.Event{w.Events[i]}}
				for _, a := range w.ArgsOf(i) {
					b.Args = append(b.Args, reader.Arg{Value: a.Value})
				}
				if p := w.PayloadOf(i); p.Data != nil {
					b.Payloads = []reader.Payload{{Data: p.Data}}
				}
				add(b)
			}
		}, func(*reader.Window) error { return nil })
	})
	for _, order := range []reader.Order{reader.FileOrder, reader.ThreadOrder, reader.TimeOrder} {
		pass(fmt.Sprint("Blocks ", order), func(add func(*reader.Block)) error {
			for b, err := range trace.Blocks(order) {
				if err != nil {
					return err
				}
				add(b)
			}
			return nil
		})
	}
	pass("EachPacked", func(add func(*reader.Block)) error {
		return trace.EachPacked(1, func(_ int, b *reader.Block) error { add(b); return nil })
	})
	pass("Each", func(add func(*reader.Block)) error {
		return trace.Each(1, func(_ int, b *reader.Block) error { add(b); return nil })
	})
	return all
}

// Windows that make no sense are left out, with an error. A window may come again when it has ended.
func TestRecordedWindowsOfDamagedMetadata(t *testing.T) {
	type W = reader.RecordedWindow
	for name, c := range map[string]struct {
		parts [][]W
		want  []W
		fails bool
	}{
		"ends later":            {[][]W{{{From: 5, To: 7}, {From: 9}}, {{From: 9, To: 12, CPUNS: 1}, {From: 15}}}, []W{{From: 5, To: 7}, {From: 9, To: 12, CPUNS: 1}, {From: 15}}, false},
		"twice":                 {[][]W{{{From: 5, To: 7}, {From: 9, To: 10}}, {{From: 5, To: 7}, {From: 9, To: 10}}}, []W{{From: 5, To: 7}, {From: 9, To: 10}}, false},
		"overlap":               {[][]W{{{From: 5, To: 8}, {From: 8, To: 10}, {From: 11, To: 12}}}, []W{{From: 5, To: 8}, {From: 11, To: 12}}, true},
		"ends before it begins": {[][]W{{{From: 5, To: 4}}}, nil, true},
		"open in the middle":    {[][]W{{{From: 5}, {From: 9, To: 10}}}, []W{{From: 5, To: 8}, {From: 9, To: 10}}, true},
	} {
		var blocks []byte
		for _, part := range c.parts {
			blocks = tracewrite.AppendWindows(blocks, part, 1)
		}
		got, err := reader.ParseRecording(blocks)
		if diff := gocmp.Diff(c.want, got.Windows); diff != "" || (err != nil) != c.fails {
			t.Errorf("%s: error %v\n%s", name, err, diff)
		}
	}
}

func TestWindowSums(t *testing.T) {
	r := &reader.Recording{Windows: []reader.RecordedWindow{{From: 100, To: 200, CPUNS: 5}, {From: 300, To: 400, CPUNS: 6}, {From: 500}}}
	for _, c := range []struct{ from, to, want uint64 }{{0, 100, 0}, {150, 350, 100}, {0, 600, 300}, {250, 260, 0}, {350, 350, 0}, {450, 550, 50}} {
		if got := r.RecordedTicks(c.from, c.to); got != c.want {
			t.Errorf("%d ticks of %d to %d were recorded, want %d", got, c.from, c.to, c.want)
		}
	}
	want := reader.WindowSums{Count: 3, Ticks: 300, Span: 500}
	if got := r.WindowSums(600); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.Windows[2].CPUNS = 7
	r.Clock.Anchors = []reader.Anchor{{TSC: 1100}}
	want.CPUNS, want.Span = 18, 1000
	if got := r.WindowSums(600); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
