package calls_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// total sums what the simplest analysis looks at.
type total struct{ calls, duration, self uint64 }

func (s *total) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		c := &b.Calls[i]
		s.calls++
		s.duration += c.Duration
		s.self += c.Self
	}
	return nil
}

func (s *total) Merge(o *total) {
	s.calls += o.calls
	s.duration += o.duration
	s.self += o.self
}

// generated opens a generated trace of 2 M records, held in memory.
func generated(b *testing.B, format tracegen.Format) *reader.Trace {
	var buf bytes.Buffer
	if _, err := tracegen.Generate(&buf, tracegen.Options{Format: format, Records: 2_000_000}); err != nil {
		b.Fatal(err)
	}
	t, err := reader.OpenReaderAt(bytes.NewReader(buf.Bytes()), int64(buf.Len()), "generated")
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func perRecord(b *testing.B, records uint64) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
}

// BenchmarkDecode measures the reader alone.
func BenchmarkDecode(b *testing.B) {
	for _, format := range []tracegen.Format{tracegen.FDR, tracegen.Basic} {
		t := generated(b, format)
		b.Run(fmt.Sprintf("format=%s/order=thread", format), func(b *testing.B) {
			var records uint64
			for b.Loop() {
				if err := t.Each(1, func(_ int, bl *reader.Block) error { records += uint64(len(bl.Events)); return nil }); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, records)
		})
		b.Run(fmt.Sprintf("format=%s/order=time", format), func(b *testing.B) {
			var records uint64
			for b.Loop() {
				for bl, err := range t.Blocks(reader.TimeOrder) {
					if err != nil {
						b.Fatal(err)
					}
					records += uint64(len(bl.Events))
				}
			}
			perRecord(b, records)
		})
	}
}

// BenchmarkRun measures decoding and matching, with a sink that only adds.
func BenchmarkRun(b *testing.B) {
	for _, format := range []tracegen.Format{tracegen.FDR, tracegen.Basic} {
		t := generated(b, format)
		for _, v := range []struct {
			name string
			opts calls.Options
		}{
			{"plain", calls.Options{}},
			{"nested", calls.Options{Nested: true}},
			{"paths", calls.Options{Paths: true}},
			{"continue", calls.Options{Code: calls.Code{Continue: func(from, to reader.FuncID) bool { return false }}}},
			{"callers", calls.Options{Code: calls.Code{CanCall: func(from, to reader.FuncID) bool { return true }}}},
		} {
			for _, shards := range []int{1, 2} {
				b.Run(fmt.Sprintf("format=%s/options=%s/shards=%d", format, v.name, shards), func(b *testing.B) {
					var records uint64
					v.opts.Shards = shards
					for b.Loop() {
						_, stats, err := calls.Run(t, v.opts, func() *total { return &total{} })
						if err != nil {
							b.Fatal(err)
						}
						records += stats.Events
					}
					perRecord(b, records)
				})
			}
		}
	}
}
