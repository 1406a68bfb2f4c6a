package tracewrite

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
)

// drawHeader draws a header of any known version and byte order.
func drawHeader(t *rapid.T) *reader.Header {
	h := &reader.Header{
		Type:           rapid.SampledFrom([]reader.Type{reader.Basic, reader.FDR}).Draw(t, "type"),
		Version:        1,
		ConstantTSC:    rapid.Bool().Draw(t, "constant"),
		NonstopTSC:     rapid.Bool().Draw(t, "nonstop"),
		CycleFrequency: rapid.Uint64().Draw(t, "frequency"),
		ByteOrder:      rapid.SampledFrom([]binary.ByteOrder{binary.LittleEndian, binary.BigEndian}).Draw(t, "order"),
	}
	if h.Type == reader.FDR {
		h.BufferSize = rapid.Uint64().Draw(t, "buffer")
		h.Version = rapid.Uint16Range(1, 5).Draw(t, "version")
	} else {
		h.Version = rapid.Uint16Range(1, 3).Draw(t, "version")
	}
	return h
}

// drawRecord draws a record that h's version can hold.
func drawRecord(t *rapid.T, h *reader.Header) *reader.Record {
	kinds := []reader.RecordKind{reader.BasicFunction, reader.BasicArgument}
	if h.Type == reader.FDR {
		kinds = []reader.RecordKind{
			reader.NewBuffer, reader.EndOfBuffer, reader.NewCPUID, reader.TSCWrap, reader.WallClock, reader.CustomEvent,
			reader.CallArgument, reader.BufferExtents, reader.TypedEvent, reader.PID, reader.Function,
		}
	}
	r := &reader.Record{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	u64 := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
	i32 := func(name string) int32 { return rapid.Int32().Draw(t, name) }
	process := func() {
		if h.Version >= 3 {
			r.Process = i32("process")
		}
	}
	switch r.Kind {
	case reader.BasicFunction:
		r.FuncKind = reader.Kind(rapid.Uint8Range(0, 3).Draw(t, "function kind"))
		r.Func = reader.FuncID(i32("function"))
		r.CPU = uint16(rapid.Uint8().Draw(t, "cpu"))
		r.TSC, r.Thread = u64("tsc"), i32("thread")
		process()
	case reader.BasicArgument:
		r.Func = reader.FuncID(i32("function"))
		r.Value, r.Thread = u64("value"), i32("thread")
		process()
	case reader.Function:
		r.FuncKind = reader.Kind(rapid.Uint8Range(0, 3).Draw(t, "function kind"))
		r.Func = reader.FuncID(rapid.Int32Range(0, 1<<28-1).Draw(t, "function"))
		r.Delta = int64(rapid.Uint32().Draw(t, "delta"))
	case reader.NewBuffer:
		r.Thread = i32("thread")
	case reader.NewCPUID:
		r.CPU, r.TSC = rapid.Uint16().Draw(t, "cpu"), u64("tsc")
	case reader.TSCWrap:
		r.TSC = u64("tsc")
	case reader.WallClock:
		r.Seconds, r.Micros = u64("seconds"), rapid.Uint32().Draw(t, "micros")
	case reader.CallArgument, reader.BufferExtents:
		r.Value = u64("value")
	case reader.PID:
		r.Process = i32("process")
	case reader.CustomEvent, reader.TypedEvent:
		r.Data = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data")
		switch {
		case r.Kind == reader.TypedEvent:
			r.Type = rapid.Uint16().Draw(t, "event type")
			fallthrough
		case h.Version >= 5:
			r.Delta = int64(i32("delta"))
		default:
			r.TSC = u64("tsc")
			if h.Version == 4 {
				r.CPU = rapid.Uint16().Draw(t, "cpu")
			}
		}
	}
	return r
}

func TestParseRecordInvertsAppendRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHeader(t)
		want := drawRecord(t, h)
		b := AppendRecord([]byte("before"), h, want)[len("before"):]
		want.Size = len(b)
		// The unused bytes are garbage from the recorder. They must not matter.
		for _, s := range want.Kind.Spec().Unused(h.Version) {
			for i := s.From; i < s.To; i++ {
				b[i] = rapid.Byte().Draw(t, "garbage")
			}
		}
		var got reader.Record
		n, err := reader.ParseRecord(append(b, "behind"...), h, &got)
		if err != nil {
			t.Fatal(err)
		}
		if n != len(b) {
			t.Fatalf("parsed %d of %d bytes", n, len(b))
		}
		if diff := cmp.Diff(want, &got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestUnusedIsAllThatIsUnused changes every byte that is not in Unused and
// expects the record to change.
func TestUnusedIsAllThatIsUnused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHeader(t)
		want := drawRecord(t, h)
		b := AppendRecord(nil, h, want)
		want.Size = len(b)
		unused := make([]bool, len(b))
		for _, s := range want.Kind.Spec().Unused(h.Version) {
			for i := s.From; i < s.To; i++ {
				unused[i] = true
			}
		}
		for i := range b {
			b[i] ^= 1 << 6
			var got reader.Record
			_, err := reader.ParseRecord(b, h, &got)
			if same := err == nil && cmp.Equal(want, &got); same != unused[i] {
				t.Fatalf("byte %d of %v: unused %v, but a change of it changes the record: %v", i, want.Kind, unused[i], !same)
			}
			b[i] ^= 1 << 6
		}
	})
}

func TestAppendRecordBytes(t *testing.T) {
	little := &reader.Header{Version: 5, Type: reader.FDR, ByteOrder: binary.LittleEndian}
	big := &reader.Header{Version: 5, Type: reader.FDR, ByteOrder: binary.BigEndian}
	basic := &reader.Header{Version: 3}
	for _, tt := range []struct {
		name string
		h    *reader.Header
		r    reader.Record
		want []byte
	}{
		{"function", little, reader.Record{Kind: reader.Function, Func: 3, FuncKind: reader.EnterArg, Delta: 170},
			[]byte{0x36, 0, 0, 0, 170, 0, 0, 0}},
		{"function of a big-endian machine", big, reader.Record{Kind: reader.Function, Func: 3, FuncKind: reader.EnterArg, Delta: 170},
			[]byte{0x30, 0, 0, 3, 0, 0, 0, 170}},
		{"CPU", little, reader.Record{Kind: reader.NewCPUID, CPU: 0x102, TSC: 1},
			[]byte{5, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"CPU of a big-endian machine", big, reader.Record{Kind: reader.NewCPUID, CPU: 0x102, TSC: 1},
			[]byte{0x82, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}},
		{"typed event", little, reader.Record{Kind: reader.TypedEvent, Type: 513, Delta: -2, Data: []byte("TT")},
			[]byte{0x11, 2, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 1, 2, 0, 0, 0, 0, 0, 'T', 'T'}},
		{"id too large", little, reader.Record{Kind: reader.Function, Func: -1},
			[]byte{0xf0, 0xff, 0xff, 0xff, 0, 0, 0, 0}},
		{"basic argument without a byte order", basic,
			reader.Record{Kind: reader.BasicArgument, Func: 3, Thread: 5, Process: 6, Value: 100},
			[]byte{1, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"damage", little, reader.Record{Kind: reader.Damage, Data: []byte{1, 2}}, []byte{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, AppendRecord(nil, tt.h, &tt.r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAppendHeaderBytes(t *testing.T) {
	h := reader.Header{Version: 5, Type: reader.FDR, ConstantTSC: true, CycleFrequency: 2, BufferSize: 3}
	want := []byte{5, 0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if diff := cmp.Diff(want, AppendHeader(nil, &h)); diff != "" {
		t.Error(diff)
	}
	h = reader.Header{Version: 3, NonstopTSC: true, BufferSize: 3, ByteOrder: binary.BigEndian}
	want = make([]byte, 32)
	want[1], want[7] = 3, 2
	if diff := cmp.Diff(want, AppendHeader(nil, &h)); diff != "" {
		t.Error(diff)
	}
}
