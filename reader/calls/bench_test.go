package calls_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

type sum struct{ n, dur, self uint64 }

func (s *sum) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		s.n++
		s.dur += b.Calls[i].Duration
		s.self += b.Calls[i].Self
	}
	return nil
}
func (s *sum) Merge(o *sum) { s.n += o.n; s.dur += o.dur; s.self += o.self }

func BenchmarkX(b *testing.B) {
	for _, f := range []string{"/tmp/tr/f20.xray", "/tmp/tr/b10.xray"} {
		if _, err := os.Stat(f); err != nil {
			continue
		}
		t, err := reader.Open(reader.Options{}, f)
		if err != nil {
			b.Fatal(err)
		}
		for _, o := range []struct {
			name string
			o    calls.Options
		}{{"plain", calls.Options{}}, {"nested", calls.Options{Nested: true}}, {"paths", calls.Options{Paths: true}}} {
			b.Run(f[8:10]+"/"+o.name, func(b *testing.B) {
				var ev uint64
				c0 := cpu()
				for b.Loop() {
					o.o.Shards = 1
					_, st, err := calls.Run(t, o.o, func() *sum { return &sum{} })
					if err != nil {
						b.Fatal(err)
					}
					ev += st.Events
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(ev), "ns/record")
				b.ReportMetric(float64(cpu()-c0)/float64(ev), "cpu/rec")
			})
		}
		b.Run(f[8:10]+"/decode", func(b *testing.B) {
			ev := 0
			for b.Loop() {
				t.Each(1, func(s int, bl *reader.Block) error { ev += len(bl.Events); return nil })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(ev), "ns/record")
		})
	}
}

func cpu() int64 {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}
