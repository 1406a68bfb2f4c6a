package e2e

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/stack"
	"github.com/xray-tools/xray/tables/summary"
)

// withBody returns a trace of metadata alone. Sizes and checksums are right, whatever the body is.
func withBody(kind reader.MetadataKind, body []byte) []byte {
	h := reader.Header{Type: reader.FDR, Version: 5, Recorder: true, CycleFrequency: 1e9, ByteOrder: binary.LittleEndian}
	var b []byte
	for _, r := range []reader.Record{{Kind: reader.BufferExtents}, {Kind: reader.NewBuffer}, {Kind: reader.WallClock}, {Kind: reader.PID}, {Kind: reader.NewCPUID, TSC: 1}} {
		b = tracewrite.AppendRecord(b, &h, &r)
	}
	b = tracewrite.AppendChecksum(b)
	b = tracewrite.AppendRecord(b, &h, &reader.Record{Kind: reader.CustomEvent, Data: tracewrite.AppendMetadata(nil, kind, body)})
	binary.LittleEndian.PutUint64(b[1:], uint64(len(b)-16))
	tracewrite.Seal(b)
	return append(tracewrite.AppendHeader(nil, &h), b...)
}

// FuzzSums makes reports of any metadata that has sums of calls: profiles, counters, calls that were
// pruned or not recorded.
func FuzzSums(f *testing.F) {
	octaves := []uint64{0, 1, 0, 1, 1}
	sums := &reader.Recording{
		Profiles: []reader.Profile{{Process: 7, Thread: 8, First: 1000, Last: 5000, Lost: 2, Paths: []reader.ProfilePath{
			{Func: 1, Parent: -1, Open: 1, OpenTotal: 4000},
			{Func: 2, Parent: 0, Count: 3, Total: 17, Min: 1, Max: 9, Octaves: octaves, Off: reader.ProfileOff{Switches: 1, Blocked: 3}},
			{Func: reader.Folded, Parent: 1, Count: 6, Total: 12},
		}, Folds: []reader.ProfileFold{
			{Func: 2, Caller: 2, Count: 3, Total: 11, Min: 1, Max: 9, Octaves: octaves, Inside: 3, Nested: 10},
		}}},
		Counters: []reader.Counter{{Func: 3, Calls: 1 << 40}},
		Pruned:   reader.Pruned{From: 10, To: 900, Functions: []reader.PrunedFunction{{Func: 3, Calls: 7, Ticks: 70}}},
	}
	for kind, body := range sums.Metadata() {
		if kind != reader.MetadataProcess {
			f.Add(uint16(kind), bytes.Clone(body), 0, uint64(0))
			for at := 0; at+8 <= len(body); at += 8 {
				f.Add(uint16(kind), bytes.Clone(body), at, uint64(1<<63))
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint16, body []byte, at int, flip uint64) {
		body = bytes.Clone(body)
		if at >= 0 && at <= len(body)-8 { // a number as a whole, which single bytes hardly reach
			binary.LittleEndian.PutUint64(body[at:], binary.LittleEndian.Uint64(body[at:])^flip)
		}
		tr := open(t, withBody(reader.MetadataKind(kind), body))
		if tr == nil {
			return
		}
		if n := tr.Losses().Total[reader.Checksum].Losses; n > 0 && kind != uint16(reader.MetadataChecksum) {
			t.Fatalf("%d checksums differ", n)
		}
		sum := func(a calls.SumSink) {
			// Bodies can contradict themselves. They must not panic.
			_ = calls.RunSums(tr, calls.Options{}, a, new(calls.Stats))
		}
		c := reader.Clock{Frequency: 1e9}
		a := account.New(account.Options{})
		sum(a)
		must(t, writeJSON(io.Discard, c, nil, a.Report(c.Frequency).Body(nil, account.View{Histogram: true})))
		s := stack.New(stack.Options{})
		sum(s)
		must(t, s.Report(c).WriteFolded(io.Discard, nil, stack.FoldedView{}))
		g := graph.New(graph.Options{Quantiles: true})
		sum(g)
		must(t, g.Report(c).WriteDOT(io.Discard, nil, graph.DefaultView()))
		m := summary.NewAnalysis(summary.Options{Clock: c})
		sum(m)
		group := m.Group(summary.Key{Program: "p", Labels: summary.NoLabels, Unit: summary.Nanoseconds}, func(reader.FuncID) summary.Function { return summary.Function{Name: "f"} })
		w := summary.NewWriter(io.Discard)
		must(t, w.Group(group))
		must(t, w.Close())
	})
}
