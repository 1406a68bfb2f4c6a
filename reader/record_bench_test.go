package reader_test

import (
	"encoding/binary"
	"testing"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// BenchmarkParseRecord measures the records that the hot loops do not handle themselves.
func BenchmarkParseRecord(b *testing.B) {
	for _, c := range []struct {
		header reader.Header
		record reader.Record
	}{
		{reader.Header{Type: reader.FDR, Version: 5, ByteOrder: binary.LittleEndian}, reader.Record{Kind: reader.NewCPUID, CPU: 3, TSC: 5}},
		{reader.Header{Type: reader.FDR, Version: 5, ByteOrder: binary.LittleEndian}, reader.Record{Kind: reader.CallArgument, Value: 7}},
		{reader.Header{Type: reader.FDR, Version: 5, ByteOrder: binary.LittleEndian}, reader.Record{Kind: reader.CustomEvent, Data: []byte("payload")}},
		{reader.Header{Type: reader.FDR, Version: 5, ByteOrder: binary.LittleEndian}, reader.Record{Kind: reader.Function, Func: 7}},
		{reader.Header{Type: reader.FDR, Version: 5, ByteOrder: binary.BigEndian}, reader.Record{Kind: reader.Function, Func: 7}},
		{reader.Header{Type: reader.Basic, Version: 3, ByteOrder: binary.LittleEndian}, reader.Record{Kind: reader.BasicArgument, Func: 7}},
		{reader.Header{Type: reader.Basic, Version: 3, ByteOrder: binary.BigEndian}, reader.Record{Kind: reader.BasicFunction, Func: 7}},
	} {
		data := tracewrite.AppendRecord(nil, &c.header, &c.record)
		b.Run(c.record.Kind.String()+"/"+c.header.ByteOrder.String(), func(b *testing.B) {
			var r reader.Record
			for b.Loop() {
				if _, err := reader.ParseRecord(data, &c.header, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
