package exclude_test

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/exclude"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
)

func count(t testing.TB, log []byte, shards int) *exclude.Analysis {
	t.Helper()
	trace, err := reader.OpenReaderAt(bytes.NewReader(log), int64(len(log)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: shards}, exclude.New)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Function 1 runs for 1000 ns. One call of 2 takes 500 ns of that. 2 calls 3 10 times, which takes
// 100 ns. 4 is a leaf that takes 200 ns in 2 calls.
const program = `xray fdr
thread 8 pid=7 tsc=1000
enter 1 +0
enter 2 +100
` + inner + inner + inner + inner + inner + inner + inner + inner + inner + inner + `exit 2 +300
enter 4 +0
exit 4 +100
enter 4 +0
exit 4 +100
custom "12345" +0
exit 1 +200
`

const inner = "enter 3 +10\nexit 3 +10\n"

func assemble(t testing.TB, text string) []byte {
	t.Helper()
	log, err := tracetext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func ids(p *exclude.Plan) (list []reader.FuncID) {
	for i := range p.Functions {
		list = append(list, p.Functions[i].ID)
	}
	return list
}

func options(budget float64) exclude.Options {
	// A call costs 2 ns, 1 of them inside the call.
	return exclude.Options{
		Budget: budget, Cost: calls.ProbeCost{Low: 2000, High: 2000}, Sizes: exclude.Sizes{Call: 16, Event: 24},
		Clock: reader.Clock{Frequency: 1e9},
	}
}

func TestPlan(t *testing.T) {
	a := count(t, assemble(t, program), 1)

	// 14 calls cost 28 of 1000 ns. Without the 10 of function 3, they cost 8.
	p := a.Plan(options(0.01))
	want := exclude.Recording{Functions: 4, Calls: 14, Bytes: 14*16 + 24 + 5, Time: 972, Cost: 28, Covered: 1}
	want.Least, want.Most = 28.0/972, 28.0/972
	if p.Before != want {
		t.Errorf("before: got %+v, want %+v", p.Before, want)
	}
	// Self times without the cost are 296, 389, 90 and 198 ns, 973 in all.
	want = exclude.Recording{Functions: 3, Calls: 4, Bytes: 4*16 + 24 + 5, Time: 972, Cost: 8, Covered: 883.0 / 973}
	want.Least, want.Most = 8.0/972, 8.0/972
	if p.After != want {
		t.Errorf("after: got %+v, want %+v", p.After, want)
	}
	wantFunctions := []exclude.Function{{ID: 3, Calls: 10, Cost: 20, Self: 90, Caller: 2, Callers: 1, Leaf: true, Bytes: 160}}
	if diff := gocmp.Diff(wantFunctions, p.Functions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Equal(p.Remaining, []reader.FuncID{1, 2, 4}) {
		t.Errorf("got remaining functions %v, want 1, 2 and 4", p.Remaining)
	}

	for _, c := range []struct {
		name   string
		budget float64
		keep   reader.FuncID
		want   []reader.FuncID
	}{
		{"all within", 0.03, 0, nil},
		{"callees before callers", 0, 0, []reader.FuncID{3, 4, 2, 1}},
		{"a leaf is kept", 0.025, 3, []reader.FuncID{4}},
		{"only callers are left", 0.001, 3, []reader.FuncID{4, 1, 2}},
		// Without 3, 4 goes first, but 3 alone is enough.
		{"one is enough", 0.022, 0, []reader.FuncID{3}},
	} {
		opts := options(c.budget)
		opts.Keep = func(id reader.FuncID) bool { return id == c.keep }
		if got := ids(a.Plan(opts)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// Recording costs other than those of calls are part of the cost, not of the program's time. They shrink
// with the size of the records, except for the fixed part.
func TestSpent(t *testing.T) {
	a := count(t, assemble(t, program), 1)
	opts := options(0.03)
	opts.CPU, opts.Spent = 10_000, exclude.Spent{Fixed: 1000, Chunks: 2530, Writing: 506, Waiting: 1012}
	p := a.Plan(opts)
	time := 10_000 - 1000 - 2530 - 28.0
	// Records take 253 bytes, 93 without function 3, and 29 without any calls.
	want := exclude.Recording{Functions: 4, Calls: 14, Bytes: 253, Time: 6442, Cost: 3558, Writing: 506, Waiting: 1012, Covered: 1}
	want.Least, want.Most = 3558/time, 3558/time
	if p.Before != want {
		t.Errorf("before: got %+v, want %+v", p.Before, want)
	}
	// The budget covers only costs that the choice of functions can change. At 930 for chunks
	// and 8 for calls they exceed it. At 290 + 61 - 61 they do not.
	if p.After.Bytes == 253 || p.After.Cost != 1000+10*p.After.Bytes+2*p.After.Calls || p.After.Writing != 2*p.After.Bytes || p.After.Waiting != 4*p.After.Bytes {
		t.Errorf("after: got %+v", p.After)
	}
	opts.Budget = 0.2
	if p := a.Plan(opts); !slices.Equal(ids(p), []reader.FuncID{3}) || !strings.HasSuffix(p.Summary(), ", including 15.5% that does not depend on calls: the rest is within the budget of 20.0%") {
		t.Errorf("got functions %v, summary %s", ids(p), p.Summary())
	}
}

// Functions that a list cannot name are still recorded, and the prediction includes them.
func TestPutBackSkipped(t *testing.T) {
	a := count(t, assemble(t, program), 1)
	opts := options(0)
	p := a.Plan(opts) // excludes 3, 4, 2 and 1
	p.PutBack([]exclude.Skipped{{ID: 3}, {ID: 1}})
	want := exclude.Recording{Functions: 2, Calls: 11, Bytes: 11*16 + 29, Time: 972, Cost: 22, Least: 22.0 / 972, Most: 22.0 / 972, Covered: 386.0 / 973}
	if math.Abs(p.After.Covered-want.Covered) < 1e-9 {
		want.Covered = p.After.Covered
	}
	if p.After != want || !slices.Equal(ids(p), []reader.FuncID{4, 2}) || !slices.Equal(p.Remaining, []reader.FuncID{1, 3}) {
		t.Errorf("got %+v, excluded %v, remaining %v", p.After, ids(p), p.Remaining)
	}
}

// Pruned calls cost as much as others but take no space.
func TestPruned(t *testing.T) {
	a := count(t, assemble(t, program), 2)
	a.Pruned(reader.Thread{}, 9, 3, 30, 1)
	b := count(t, assemble(t, program), 1)
	b.Pruned(reader.Thread{}, 9, 5, 6, 1)
	a.Merge(b)
	if a.Count(3) != 50 || a.Count(5) != 6 || a.Count(6) != 0 {
		t.Errorf("got %d, %d and %d calls, want 50, 6 and 0", a.Count(3), a.Count(5), a.Count(6))
	}
	p := a.Plan(options(1))
	if p.Before.Calls != 64 || p.Before.Cost != 128 || p.Before.Bytes != 2*253 || p.Before.Functions != 5 {
		t.Errorf("got %+v", p.Before)
	}
}

// A range of costs gives a range of overheads. The calls themselves also take some of the time.
func TestBounds(t *testing.T) {
	a := count(t, assemble(t, program), 1)
	opts := options(1)
	opts.CPU, opts.Cost, opts.Least = 100, calls.ProbeCost{Low: 4000, High: 7000}, 1500
	// By the costs, 56 to 98 of 100 ns go to calls. But the calls themselves take 21, so it is
	// 56 to 79.
	p := a.Plan(opts)
	if r := p.Before; r.Least != 56.0/44 || r.Cost != 67 || r.Time != 33 || r.Most != 79.0/21 {
		t.Errorf("got %+v", r)
	}
	if p.Call != 4821 || p.Cost.Low != 4000 || p.Cost.High != 79_000/14 {
		t.Errorf("got %d ps a call, cost %+v", p.Call, p.Cost)
	}
}

// With a baseline, the cost of calls is the remaining difference.
func TestBaseline(t *testing.T) {
	a := count(t, assemble(t, program), 1)
	opts := options(0.5)
	opts.CPU, opts.Spent = 1000, exclude.Spent{Fixed: 20}
	opts.Baseline = exclude.Range{Least: 490, Likely: 700, Most: 840}
	p := a.Plan(opts)
	if r := p.Before; r.Time != 700 || r.Cost != 300 || r.Least != 160.0/840 || r.Most != 510.0/490 {
		t.Errorf("got %+v", r)
	}
	if p.Call != 20_000 || p.Cost != (calls.ProbeCost{Low: 10_000, High: 35_000}) {
		t.Errorf("got %d ps a call, cost %+v", p.Call, p.Cost)
	}
	// A recording that takes less time than its baseline has no measurable cost per call.
	opts.Baseline = exclude.Range{Least: 1100, Likely: 1100, Most: 1100}
	if r := a.Plan(opts).Before; r.Time != 980 || r.Cost != 20 {
		t.Errorf("got %+v", r)
	}
}

func writeJSON(w io.Writer, p *exclude.Plan) error {
	doc := &report.Doc{Clock: p.Clock, Body: p.Body(nil, exclude.View{Ring: 1 << 20})}
	return doc.Write(w, report.Style{Format: report.JSON})
}

// A cost that takes all of the time gives an overhead above any budget and no panic.
func TestCostBeyondTime(t *testing.T) {
	opts := options(1)
	opts.Cost = calls.ProbeCost{Low: 1e6, High: 1e6}
	p := count(t, assemble(t, program), 1).Plan(opts)
	if !math.IsInf(p.Before.Overhead(), 1) || len(p.Remaining) > 0 || p.After.Overhead() != 0 {
		t.Errorf("got %+v", p)
	}
	var out strings.Builder
	if err := writeJSON(&out, p); err != nil || !strings.Contains(out.String(), `"overhead": null`) {
		t.Errorf("got error %v, output %s", err, out.String())
	}
}

// Functions excluded early are put back if later ones turn out to suffice.
func TestPutBack(t *testing.T) {
	// 5 has the highest cost for its value, but 6 has most of the cost.
	text := "xray fdr\nthread 8 pid=7 tsc=1000\nenter 1 +0\nenter 5 +0\nexit 5 +0\n" +
		strings.Repeat("enter 6 +5\nexit 6 +5\n", 50) + "exit 1 +500\n"
	p := count(t, assemble(t, text), 1).Plan(options(0.05))
	if !slices.Equal(ids(p), []reader.FuncID{6}) {
		t.Errorf("got functions %v, want 6", ids(p))
	}
}

// For any options, sums are consistent, kept functions stay, no function is excluded without need,
// and the number of shards changes nothing.
func TestPlanProperties(t *testing.T) {
	var log bytes.Buffer
	opts := tracegen.Options{Format: tracegen.FDR, Records: 20_000, Threads: 5, Functions: 100, Open: true}
	if _, err := tracegen.Generate(&log, opts); err != nil {
		t.Fatal(err)
	}
	one, three := count(t, log.Bytes(), 1), count(t, log.Bytes(), 3)
	rapid.Check(t, func(t *rapid.T) {
		opts := exclude.Options{
			Budget: rapid.Float64Range(0, 0.2).Draw(t, "budget"), Clock: reader.Clock{Frequency: tracegen.Frequency},
			Cost: calls.ProbeCost{Low: 10_000, High: rapid.Uint64Range(10_000, 200_000).Draw(t, "cost")},
		}
		divisor := reader.FuncID(rapid.IntRange(1, 20).Draw(t, "keep"))
		opts.Keep = func(id reader.FuncID) bool { return divisor > 1 && id%divisor == 0 }
		p := one.Plan(opts)
		var texts [2]strings.Builder
		if err := writeJSON(&texts[0], p); err != nil {
			t.Fatal(err)
		}
		if err := writeJSON(&texts[1], three.Plan(opts)); err != nil {
			t.Fatal(err)
		}
		if texts[0].String() != texts[1].String() {
			t.Fatal(gocmp.Diff(texts[0].String(), texts[1].String()))
		}
		calls, gone := p.After.Calls, make(map[reader.FuncID]bool)
		for _, f := range p.Functions {
			calls += f.Calls
			gone[f.ID] = true
			if opts.Keep(f.ID) {
				t.Fatalf("function %d must be kept but is excluded", f.ID)
			}
		}
		if calls != p.Before.Calls || len(p.Functions)+len(p.Remaining) != p.Before.Functions || p.After.Functions != len(p.Remaining) {
			t.Fatalf("got %+v", p)
		}
		over := p.After.Overhead() > p.Budget
		for _, id := range p.Remaining {
			if gone[id] || over && !opts.Keep(id) {
				t.Fatalf("function %d remains without need", id)
			}
		}
	})
}

// names is a table with functions 1, 2, ...
type names []symbolize.Symbol

func (n names) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	if id < 1 || int(id) > len(n) {
		return symbolize.Symbol{}, false
	}
	return n[id-1], true
}

func TestLists(t *testing.T) {
	table := names{
		{Name: "main", Linkage: "main"},
		{Name: "kv::put(int, char)", Linkage: "_ZN2kv3putEic"},
		{Name: "kv::putAll(int)", Linkage: "_ZN2kv6putAllEi"},
		{Name: "int kv::get<int>(int)", Linkage: "_ZN2kv3getIiEET_S1_"},
		{Name: "main::$_0::operator()() const", Linkage: "_ZZ4mainENK3$_0clEv"},
		{Name: "same", Linkage: "same"},
		{Name: "same", Linkage: "same"},
		{Name: "kv::only(int)"},
	}
	plan := &exclude.Plan{
		Functions: []exclude.Function{{ID: 2, Leaf: true}, {ID: 4}, {ID: 5, Leaf: true}, {ID: 6, Leaf: true}, {ID: 8, Leaf: true}, {ID: 9, Leaf: true}},
		Remaining: []reader.FuncID{1, 3, 7},
	}
	for _, c := range []struct {
		form    exclude.Form
		want    string
		skipped []reader.FuncID
	}{
		{exclude.AttrList, "[never]\nfun:_ZN2kv3getIiEET_S1_\nfun:_ZN2kv3putEic\nfun:_ZZ4mainENK3\\$_0clEv\n", []reader.FuncID{6, 8, 9}},
		{exclude.IgnoreList, "fun:_ZN2kv3getIiEET_S1_\nfun:_ZN2kv3putEic\nfun:_ZZ4mainENK3\\$_0clEv\n", []reader.FuncID{6, 8, 9}},
		// put is a substring of putAll, so it stays.
		{exclude.GCC, "-finstrument-functions-exclude-function-list=kv::only\n", []reader.FuncID{2, 4, 5, 6, 9}},
		{exclude.Uftrace, "-N _ZN2kv3putEic\n", []reader.FuncID{4, 5, 6, 8, 9}}, // 4 calls a function that stays
		{exclude.Regexp, `^(#9|int kv::get<int>\(int\)|kv::only\(int\)|kv::put\(int, char\)|main::\$_0::operator\(\)\(\) const)$` + "\n", []reader.FuncID{6}},
	} {
		var out strings.Builder
		skipped, err := plan.WriteList(&out, c.form, table)
		if err != nil || out.String() != c.want {
			t.Errorf("%s: error %v, got\n%s\nwant\n%s", c.form, err, out.String(), c.want)
		}
		var got []reader.FuncID
		for _, s := range skipped {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, c.skipped) {
			t.Errorf("%s: got skipped %v, want %v", c.form, skipped, c.skipped)
		}
	}
}
