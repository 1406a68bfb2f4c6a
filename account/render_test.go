package account

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
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

// goldenReport has calls of all kinds, of durations from nothing to hours.
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
	for file, c := range map[string]struct {
		report *Report
		view   View
		names  symbolize.Names
	}{
		"text":           {goldenReport(t, Options{}, 1e9), View{}, names},
		"text-top":       {top, View{}, names},
		"text-unnamed":   {goldenReport(t, Options{Exact: true}, 3e9), View{}, nil},
		"text-ticks":     {goldenReport(t, Options{}, 0), View{Histogram: true}, names},
		"text-threads":   {goldenReport(t, Options{PerThread: true}, 1e9), View{Histogram: true}, names},
		"text-empty":     {New(Options{}).Report(1e9), View{Histogram: true}, names},
		"markdown":       {goldenReport(t, Options{}, 1e9), View{Format: Markdown}, names},
		"csv":            {goldenReport(t, Options{}, 3e9), View{Format: CSV}, names},
		"csv-threads":    {goldenReport(t, Options{PerThread: true}, 0), View{Format: CSV}, names},
		"json":           {goldenReport(t, Options{}, 3e9), View{Format: JSON}, names},
		"json-threads":   {goldenReport(t, Options{PerThread: true}, 0), View{Format: JSON}, nil},
		"json-empty":     {New(Options{}).Report(0), View{Format: JSON}, nil},
		"llvm-text":      {ended, View{Format: LLVMText}, names},
		"llvm-csv":       {goldenReport(t, Options{}, 1e9), View{Format: LLVMCSV}, names},
		"llvm-csv-ticks": {goldenReport(t, Options{}, 0), View{Format: LLVMCSV}, names},
	} {
		t.Run(file, func(t *testing.T) {
			var got bytes.Buffer
			if err := c.report.Write(&got, c.view, c.names); err != nil {
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
	if err := top.Write(new(bytes.Buffer), View{Format: "xml"}, nil); err == nil {
		t.Error("Write accepts xml")
	}
}

// TestMachineFormats reads CSV and JSON back, whatever names and durations are.
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
		if err := r.Write(&out, View{Format: JSON}, n); err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Rows []struct {
				Function string
				Sum      json.Number
				Max      uint64
			}
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%v in %s", err, out.Bytes())
		}
		if row := doc.Rows[0]; row.Function != n[1].Name || row.Sum.String() != want.String() || row.Max != r.Rows[0].Max {
			t.Errorf("JSON has %+v, want %q and %v", row, n[1].Name, want)
		}

		for _, format := range []Format{CSV, LLVMCSV} {
			out.Reset()
			if err := r.Write(&out, View{Format: format}, n); err != nil {
				t.Fatal(err)
			}
			records, err := csv.NewReader(&out).ReadAll()
			if err != nil || len(records) != 2 {
				t.Fatalf("%s: %d records, %v", format, len(records), err)
			}
		}
	})
}

// TestNumber holds the conversion of sums against rational numbers.
func TestNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := quantile.Sum{
			Hi: rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "Hi"),
			Lo: rapid.Uint64().Draw(t, "Lo"),
		}
		f := rapid.Uint64Range(1, 1<<40).Draw(t, "frequency")
		r := Report{Clock: reader.Clock{Frequency: f}}
		got, ok := new(big.Int).SetString(r.number(s), 10)
		if !ok {
			t.Fatalf("number = %q", r.number(s))
		}
		// Twice the error, in ticks, is at most the frequency.
		err := new(big.Int).Mul(got, new(big.Int).SetUint64(f))
		err.Sub(err, new(big.Int).Mul(s.Big(), big.NewInt(nanosPerSecond)))
		if err.Lsh(err.Abs(err), 1).Cmp(new(big.Int).SetUint64(f)) > 0 {
			t.Errorf("%v ticks at %d Hz = %v ns", s, f, got)
		}
	})
}

func TestHugeSums(t *testing.T) {
	r := collect(t, Options{}, call(1, math.MaxUint64), call(1, math.MaxUint64)).Report(1e9)
	if got := r.duration(r.Rows[0].Total); got != "36,893,488,147s" {
		t.Errorf("total = %s", got)
	}
	r.Clock = reader.Clock{}
	if got := r.duration(r.Rows[0].Total); got != "36,893,488,147,419,103,230" {
		t.Errorf("total = %s", got)
	}
}
