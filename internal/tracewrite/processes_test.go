package tracewrite

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
)

func TestProcesses(t *testing.T) {
	var p Processes
	for _, step := range []struct{ file, process, want int32 }{
		{0, 7, 7},
		{1, 7, 1 << 22},         // taken
		{1, 8, 8},               // free
		{0, 8, 1<<22 + 1},       // the first trace to use an id keeps it
		{2, 1 << 22, 1<<22 + 2}, // an id that has been assigned
		{2, 1<<22 + 3, 1<<22 + 3},
		{2, 7, 1<<22 + 4},                             // skips an id that a trace itself uses
		{0, 7, 7}, {1, 7, 1 << 22}, {0, 8, 1<<22 + 1}, // as before
		{0, -1, -1},
	} {
		if got := p.Of(reader.Thread{File: step.file, Process: step.process, Thread: 1}); got != step.want {
			t.Errorf("got process %d of file %d is %d, want %d", step.process, step.file, got, step.want)
		}
	}
}

// Processes of different traces are kept apart. Threads of a process stay together.
func TestProcessesAreDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Processes
		ids := map[process]int32{}
		owner := map[int32]process{}
		for range rapid.IntRange(0, 60).Draw(t, "blocks") {
			key := process{
				rapid.Int32Range(0, 3).Draw(t, "file"),
				rapid.OneOf(rapid.Int32Range(0, 4), rapid.Int32Range(firstSpare, firstSpare+6)).Draw(t, "process"),
			}
			id := p.Of(reader.Thread{File: key.file, Process: key.id, Thread: rapid.Int32().Draw(t, "thread")})
			if before, ok := ids[key]; ok && before != id {
				t.Fatalf("%+v: got %d, was %d before", key, id, before)
			}
			if other, ok := owner[id]; ok && other != key {
				t.Fatalf("%+v and %+v are both %d", key, other, id)
			}
			ids[key], owner[id] = id, key
		}
	})
}

// Threads with the same ids in two traces remain two threads in every format.
func TestTracesStayApart(t *testing.T) {
	blocks := []*reader.Block{
		{Thread: reader.Thread{Process: 7, Thread: 1}, Events: []reader.Event{{Func: 1, TSC: 10}, {Func: 1, TSC: 40, Kind: reader.Exit}}},
		{Thread: reader.Thread{File: 1, Process: 7, Thread: 1}, Events: []reader.Event{{Func: 2, TSC: 20}, {Func: 2, TSC: 30, Kind: reader.Exit}}},
	}
	for name, open := range map[string]func(*bytes.Buffer) blockWriter{
		"basic": func(b *bytes.Buffer) blockWriter { return NewBasic(b, reader.Header{}) },
		"raw":   func(b *bytes.Buffer) blockWriter { return NewRaw(b, reader.Header{Version: 3}) },
		"fdr":   func(b *bytes.Buffer) blockWriter { return NewFDR(b, reader.Header{}, Options{}) },
	} {
		var out bytes.Buffer
		w := open(&out)
		if err := errors.Join(w.Block(blocks[0]), w.Block(blocks[1]), w.Close()); err != nil {
			t.Fatal(err)
		}
		trace, err := reader.OpenReaderAt(bytes.NewReader(out.Bytes()), int64(out.Len()), name)
		if err != nil {
			t.Fatal(err)
		}
		got := map[reader.Thread]int{}
		for b, err := range trace.Blocks(reader.ThreadOrder) {
			if err != nil {
				t.Fatal(err)
			}
			got[b.Thread] += len(b.Events)
		}
		want := map[reader.Thread]int{{Process: 7, Thread: 1}: 2, {Process: 1 << 22, Thread: 1}: 2}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: events by thread (-want +got):\n%s", name, diff)
		}
	}
}
