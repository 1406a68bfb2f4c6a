package account

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

type nameMap map[reader.FuncID]symbolize.Symbol

func (m nameMap) Func(id reader.FuncID) (symbolize.Symbol, bool) { s, ok := m[id]; return s, ok }

var names = nameMap{
	1: {Name: "main", File: "/src/a.cc", Line: 3, Column: 1},
	2: {Name: "fact(int)", File: "/src/a.cc", Line: 12, Column: 5},
	3: {Name: `operator"" _q(char const*)`, File: "/src/a,b.cc", Line: 7},
	4: {Name: "數(int|char)::\x1b[31m*p", Address: 0x400},
	5: {Address: 0x1234},
}

// goldenReport has all kinds of calls, with durations from zero to hours.
func goldenReport(t *testing.T, opts Options, frequency uint64) *Report {
	a := New(opts)
	for thread := range 2 {
		b := &calls.Batch{
			Index:  thread,
			Thread: reader.Thread{Process: 40, Thread: int32(41 + thread)},
			Calls:  fact(),
		}
		r := rand.New(rand.NewPCG(5, uint64(thread)))
		for range 2000 {
			b.Calls = append(b.Calls, call(4, 300+uint64(math.Exp(6+2*r.NormFloat64()))))
		}
		b.Calls = append(b.Calls, call(3, 0), call(3, 1_234_567), call(-5, 3_600_000_000_000), call(6, 999_999))
		if err := a.Calls(b); err != nil {
			t.Fatal(err)
		}
	}
	return a.Report(frequency)
}

func TestGolden(t *testing.T) {
	top := goldenReport(t, Options{}, 1e9)
	top.Sort(BySelf, true, names)
	top.Top(3)
	ended := goldenReport(t, Options{}, 1e9)
	ended.Ended()
	type c struct {
		format report.Format
		report *Report
		view   View
		names  symbolize.Names
	}
	for file, c := range map[string]c{
		"text":         {report.Text, goldenReport(t, Options{}, 1e9), View{}, names},
		"text-top":     {report.Text, top, View{}, names},
		"text-unnamed": {report.Text, goldenReport(t, Options{Exact: true}, 3e9), View{}, nil},
		"text-ticks":   {report.Text, goldenReport(t, Options{}, 0), View{Histogram: true}, names},
		"text-threads": {report.Text, goldenReport(t, Options{PerThread: true}, 1e9), View{Histogram: true}, names},
		"text-empty":   {report.Text, New(Options{}).Report(1e9), View{Histogram: true}, names},
		"markdown":     {report.Markdown, goldenReport(t, Options{}, 1e9), View{}, names},
		"csv":          {report.CSV, goldenReport(t, Options{}, 3e9), View{}, names},
		"csv-threads":  {report.CSV, goldenReport(t, Options{PerThread: true}, 0), View{}, names},
		"json":         {report.JSON, goldenReport(t, Options{}, 3e9), View{}, names},
		"json-threads": {report.JSON, goldenReport(t, Options{PerThread: true}, 0), View{}, nil},
		"json-empty":   {report.JSON, New(Options{}).Report(0), View{}, nil},
	} {
		golden(t, file, func(w io.Writer) error { return write(w, c.format, c.report, c.view, c.names) })
	}
	for width, file := range map[int]string{80: "text-80", 120: "text-120"} {
		golden(t, file, func(w io.Writer) error {
			r := goldenReport(t, Options{}, 1e9)
			doc := report.Doc{Clock: r.Clock, Names: names, Body: r.Body(names, View{})}
			return doc.Write(w, report.Style{Width: width})
		})
	}
	golden(t, "llvm-text", func(w io.Writer) error { return ended.WriteLLVMText(w, names) })
	golden(t, "llvm-csv", func(w io.Writer) error { return goldenReport(t, Options{}, 1e9).WriteLLVMCSV(w, names) })
	golden(t, "llvm-csv-ticks", func(w io.Writer) error { return goldenReport(t, Options{}, 0).WriteLLVMCSV(w, names) })
}

func write(w io.Writer, format report.Format, r *Report, v View, names symbolize.Names) error {
	doc := report.Doc{Clock: r.Clock, Names: names, Body: r.Body(names, v)}
	return doc.Write(w, report.Style{Format: format})
}

// golden compares the output of f with a file in testdata.
func golden(t *testing.T, file string, f func(io.Writer) error) {
	t.Run(file, func(t *testing.T) {
		var got bytes.Buffer
		if err := f(&got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", file+".golden")
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	})
}

// Each range of a histogram begins where the previous one ends, whatever the clock, and has the
// durations that are counted in it.
func TestHistogramRangesMeet(t *testing.T) {
	for _, frequency := range []uint64{0, 1e8, 1e9, 2_599_999_999, 3e9} {
		a := New(Options{})
		b := &calls.Batch{Calls: []calls.Call{call(1, 0)}}
		for bit := range 64 {
			b.Calls = append(b.Calls, call(1, 1<<bit), call(1, 2<<bit-1))
		}
		if err := a.Calls(b); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := write(&out, report.JSON, a.Report(frequency), View{}, nil); err != nil {
			t.Fatal(err)
		}
		unit := "ns"
		if frequency == 0 {
			unit, frequency = "ticks", 1e9
		}
		var doc struct {
			Functions []struct{ Histogram []map[string]float64 }
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		ranges := doc.Functions[0].Histogram
		if len(ranges) != 65 {
			t.Fatalf("got %d ranges", len(ranges))
		}
		end := 0.0
		for bit, r := range ranges {
			from, to := r["from_"+unit], r["to_"+unit]
			longest := float64(uint64(1)<<bit-1) / float64(frequency) * 1e9
			if from != end || bit < 50 && (longest < from || longest >= to) {
				t.Errorf("%d Hz: range %d is from %v to %v, after %v. Its longest duration is %v", frequency, bit, from, to, end, longest)
			}
			end = to
		}
	}
}

// TestMachineFormats reads CSV and JSON back, with arbitrary names and durations.
func TestMachineFormats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nameMap{1: {Name: rapid.String().Draw(t, "name") + "x"}}
		d := rapid.SliceOfN(rapid.Uint64(), 1, 5).Draw(t, "durations")
		a := New(Options{})
		want := new(big.Int)
		for _, d := range d {
			if err := a.Calls(&calls.Batch{Calls: []calls.Call{call(1, d)}}); err != nil {
				t.Fatal(err)
			}
			want.Add(want, new(big.Int).SetUint64(d))
		}
		r := a.Report(1e9)

		var out bytes.Buffer
		if err := write(&out, report.JSON, r, View{}, n); err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Functions []struct {
				Function string
				Sum      json.Number `json:"sum_ns"`
				Max      uint64      `json:"max_ns"`
			}
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%v in %s", err, out.Bytes())
		}
		if row := doc.Functions[0]; row.Function != n[1].Name || row.Sum.String() != want.String() || row.Max != r.Rows[0].Max {
			t.Errorf("JSON: got %+v, want %q and %v", row, n[1].Name, want)
		}

		for _, f := range []func() error{
			func() error { return write(&out, report.CSV, r, View{}, n) },
			func() error { return r.WriteLLVMCSV(&out, n) },
		} {
			out.Reset()
			if err := f(); err != nil {
				t.Fatal(err)
			}
			records, err := csv.NewReader(&out).ReadAll()
			if err != nil || len(records) != 2 {
				t.Fatalf("got %d records, error %v", len(records), err)
			}
		}
	})
}
