package account

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

// workload draws calls of functions with skewed popularity. Each function has its own typical
// duration, from about 50 to about 100,000 ticks.
func workload(functions, n int) []drawn {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 20, uint64(functions-1))
	list := make([]drawn, n)
	for i := range list {
		fn := uint32(zipf.Uint64())
		typical := 4 + 8*float64(fn*2654435761>>16&0xffff)/0xffff
		list[i] = drawn{fn, uint32(math.Exp(typical + 0.7*r.NormFloat64()))}
	}
	return list
}

type drawn struct{ fn, duration uint32 }

// feed passes calls to an analysis in batches that fit the cache, as calls.Run does.
func feed(b *testing.B, a calls.Sink, list []drawn) {
	batch := calls.Batch{Calls: make([]calls.Call, 512)}
	for len(list) >= len(batch.Calls) {
		for i := range batch.Calls {
			c, d := &batch.Calls[i], list[i]
			c.Func, c.Duration, c.Self = reader.FuncID(d.fn+1), uint64(d.duration), uint64(d.duration/2)
		}
		list = list[len(batch.Calls):]
		if err := a.Calls(&batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAccount measures the cost of a call. functions=0 is the cost of the benchmark itself.
func BenchmarkAccount(b *testing.B) {
	for _, functions := range []int{0, 20, 2000, 30000} {
		list := workload(max(functions, 2), 8<<20)
		b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
			var a calls.Sink = New(Options{})
			if functions == 0 {
				a = nothing{}
			}
			for b.Loop() {
				feed(b, a, list)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(list)), "ns/call")
		})
	}
}

type nothing struct{}

func (nothing) Calls(*calls.Batch) error { return nil }

// BenchmarkReport makes and renders reports.
func BenchmarkReport(b *testing.B) {
	for _, functions := range []int{2000, 30000} {
		list := workload(functions, 2<<20)
		b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
			a := New(Options{})
			feed(b, a, list)
			for _, format := range report.Formats {
				b.Run(string(format), func(b *testing.B) {
					for b.Loop() {
						doc := report.Doc{Clock: reader.Clock{Frequency: 3e9}, Body: a.Report(3e9).Body(nil, View{})}
						if err := doc.Write(io.Discard, report.Style{Format: format}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
