package fdrdump

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
)

func BenchmarkDump(b *testing.B) {
	const records = 100 * 2005
	data := assemble(b, "xray fdr\n"+strings.Repeat("thread 1 wall=1.000000 pid=5\n"+strings.Repeat("enter 1 +1\nexit 1 +5\n", 1000), 100))
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
	if err != nil {
		b.Fatal(err)
	}
	h := trace.Header(0)
	for _, bb := range []struct {
		form string
		dump dumper
	}{{"llvm", LLVM}, {"llvm-verify", LLVMVerify}, {"annotated", annotate}} {
		b.Run("form="+bb.form, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := bb.dump(io.Discard, &h, trace.Records(0)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
		})
	}
}

func BenchmarkZeros(b *testing.B) {
	data := assemble(b, "xray fdr\nthread 1\nzeros 1000000\n")
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
	if err != nil {
		b.Fatal(err)
	}
	h := trace.Header(0)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := annotate(io.Discard, &h, trace.Records(0)); err != nil {
			b.Fatal(err)
		}
	}
}
