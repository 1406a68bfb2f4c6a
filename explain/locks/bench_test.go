package locks_test

import (
	"bytes"
	"testing"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
)

// BenchmarkAnalyze analyzes a trace in which one function in fifty takes or releases a lock.
func BenchmarkAnalyze(b *testing.B) {
	const records = 2_000_000
	var buf bytes.Buffer
	if _, err := tracegen.Generate(&buf, tracegen.Options{Records: records}); err != nil {
		b.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(buf.Bytes()), int64(buf.Len()), "generated")
	if err != nil {
		b.Fatal(err)
	}
	opts := locks.Options{Shards: 1, MaxPaths: 100_000, Clock: reader.Clock{Frequency: 1e9}, Function: func(fn reader.FuncID) locks.Function {
		switch fn % 100 {
		case 1:
			return locks.Function{Role: locks.Lock, Class: "mutex"}
		case 2:
			return locks.Function{Role: locks.Unlock, Class: "mutex"}
		}
		return locks.Function{}
	}}
	for b.Loop() {
		if _, _, err := locks.Analyze(trace, opts); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
