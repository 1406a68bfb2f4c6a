package allocations_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/allocations"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Functions in the traces below.
const (
	work    = 1
	malloc  = 2
	free    = 3
	realloc = 4
	mmap    = 5
)

func role(fn reader.FuncID) allocations.Role {
	return allocations.RoleOf(map[reader.FuncID]string{malloc: "malloc", free: "free", realloc: "realloc", mmap: "mmap"}[fn])
}

// log builds an FDR log.
type log struct{ bytes []byte }

// thread appends a block of a thread of process 7.
func (l *log) thread(tid int32, start uint64, records ...reader.Record) {
	h := reader.Header{Version: 5, Type: reader.FDR, ByteOrder: binary.LittleEndian, CycleFrequency: 1_000_000_000, ConstantTSC: true, NonstopTSC: true}
	if l.bytes == nil {
		l.bytes = tracewrite.AppendHeader(nil, &h)
	}
	var b []byte
	for _, r := range append([]reader.Record{
		{Kind: reader.NewBuffer, Thread: tid}, {Kind: reader.WallClock}, {Kind: reader.PID, Process: 7}, {Kind: reader.NewCPUID, TSC: start},
	}, records...) {
		b = tracewrite.AppendRecord(b, &h, &r)
	}
	l.bytes = tracewrite.AppendRecord(l.bytes, &h, &reader.Record{Kind: reader.BufferExtents, Value: uint64(len(b))})
	l.bytes = append(l.bytes, b...)
}

func enter(fn reader.FuncID, args ...uint64) (list []reader.Record) {
	kind := reader.Enter
	if len(args) > 0 {
		kind = reader.EnterArg
	}
	list = append(list, reader.Record{Kind: reader.Function, FuncKind: kind, Func: fn, Delta: 10})
	for _, a := range args {
		list = append(list, reader.Record{Kind: reader.CallArgument, Value: a})
	}
	return list
}

func exit(fn reader.FuncID) []reader.Record {
	return []reader.Record{{Kind: reader.Function, FuncKind: reader.Exit, Func: fn, Delta: 10}}
}

// call returns the records of a call with its arguments and a result.
func call(fn reader.FuncID, result uint64, args ...uint64) []reader.Record {
	payload := tracewrite.AppendMetadata(nil, reader.MetadataResult, binary.LittleEndian.AppendUint64(nil, result))
	return append(append(enter(fn, args...), reader.Record{Kind: reader.CustomEvent, Data: payload}), exit(fn)...)
}

func join(parts ...[]reader.Record) (all []reader.Record) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func analyze(t *testing.T, l *log, opts allocations.Options) *allocations.Report {
	t.Helper()
	trace, err := reader.OpenReaderAt(bytes.NewReader(l.bytes), int64(len(l.bytes)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	if n := trace.Losses().Count(); n > 0 {
		t.Fatal(trace.Losses())
	}
	if opts.Role == nil {
		opts.Role = role
	}
	how := calls.Options{Shards: 1, Paths: true, Opens: true}
	sink, _, err := calls.Run(calls.InOrder(trace, reader.TimeOrder), how, func() *allocations.Analysis { return allocations.New(opts) })
	if err != nil {
		t.Fatal(err)
	}
	return sink.Report(reader.Clock{Frequency: 1_000_000_000})
}

func TestOneThread(t *testing.T) {
	var l log
	l.thread(1, 1000, join(enter(work),
		call(malloc, 0x1000, 100), enter(free, 0x1000), exit(free), // freed after 10 ticks
		call(malloc, 0x1000, 50), // at the same address
		call(malloc, 0, 1<<40),   // fails
		call(mmap, ^uint64(0), 4096), call(mmap, 0x10000, 4096),
		call(realloc, 0x2000, 0x1000, 200), // moves
		call(realloc, 0x2000, 0x2000, 300), // grows in place
		call(realloc, 0, 0x2000, 0),        // frees
		enter(free, 0x9000), exit(free),    // never allocated
		enter(free, 0), exit(free),
		exit(work))...)
	r := analyze(t, &l, allocations.Options{Short: 25})
	sums := make(map[reader.FuncID]allocations.Sums)
	for _, p := range r.Paths {
		if len(p.Path) != 1 || p.Path[0] != work {
			t.Errorf("got path %v, want only work", p.Path)
		}
		p.Ticks, p.Longest = 0, 0
		sums[p.Func] = p.Sums
	}
	want := map[reader.FuncID]allocations.Sums{
		malloc:  {Blocks: 2, Bytes: 150, Largest: 100, ShortBlocks: 1, ShortBytes: 100, Failed: 1},
		mmap:    {Blocks: 1, Bytes: 4096, Largest: 4096, LiveBlocks: 1, LiveBytes: 4096, Failed: 1},
		realloc: {Blocks: 2, Bytes: 300, Largest: 300, Copies: 1, Copied: 50, ShortBlocks: 1, ShortBytes: 300},
	}
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Error(diff)
	}
	if r.Unknown != 1 || r.Frees != 3 || r.Peak != 4396 || r.Total.LiveBytes != 4096 {
		t.Errorf("got %+v", r)
	}
}

// A block is free when the call that frees it begins: another thread may get the address before
// that call returns.
func TestTwoThreads(t *testing.T) {
	var l log
	l.thread(1, 1000, join(call(malloc, 0x1000, 10))...)          // 1010 to 1020
	l.thread(2, 1100, join(enter(free, 0x1000), exit(free))...)   // 1110 to 1120
	l.thread(3, 1101, join(call(malloc, 0x1000, 20))...)          // 1111 to 1121
	l.thread(4, 1102, join(call(realloc, 0x3000, 0x1000, 40))...) // of the first: 1112 to 1122
	r := analyze(t, &l, allocations.Options{})
	if r.Total.LiveBytes != 60 || r.Total.LiveBlocks != 2 || r.Unknown != 0 {
		t.Errorf("got %+v", r.Total)
	}
	// Only allocations of thread 3.
	r = analyze(t, &l, allocations.Options{Thread: func(t reader.Thread) bool { return t.Thread == 3 }})
	if r.Total.LiveBytes != 20 || r.Total.Bytes != 20 {
		t.Errorf("thread 3: got %+v", r.Total)
	}
}
