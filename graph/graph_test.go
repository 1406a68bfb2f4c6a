package graph

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

type names = testnames.Names

var quantiles = Options{Quantiles: true}

// collect feeds calls to a new analysis.
func collect(t testing.TB, opts Options, cs ...calls.Call) *Analysis {
	t.Helper()
	a := New(opts)
	if err := a.Calls(&calls.Batch{Calls: cs}); err != nil {
		t.Fatal(err)
	}
	return a
}

func call(caller, fn reader.FuncID, duration, self uint64) calls.Call {
	return calls.Call{Caller: caller, Func: fn, Duration: duration, Self: self}
}

func TestReport(t *testing.T) {
	inferred := call(1, 3, 7, 7)
	inferred.End = calls.Inferred
	open := call(0, 9, 1000, 900)
	open.End = calls.Truncated
	inner := call(9, 1, 5, 5)
	r := collect(t, quantiles,
		call(1, 2, 0, 0), call(1, 2, 30, 30), call(1, 2, 10, 10), inferred, call(0, 1, 100, 53), inner, open,
	).Report(reader.Clock{})
	stats := func(count, sum, self, lo, p50, hi uint64) Stats {
		return Stats{Count: count, Sum: sum, Self: self, Min: lo, P50: p50, P90: hi, P99: hi, P999: hi, Max: hi}
	}
	three := stats(1, 7, 7, 7, 7, 7)
	three.Inferred = 1
	want := &Report{
		Quantiles: true,
		Self:      1005,
		Functions: []Function{
			{1, stats(2, 105, 58, 5, 100, 100)},
			{2, stats(3, 40, 40, 0, 10, 30)},
			{3, three},
			{9, Stats{Open: 1, Self: 900}},
		},
		Edges: []Edge{
			{0, 1, stats(1, 100, 53, 100, 100, 100)},
			{0, 9, Stats{Open: 1, Self: 900}},
			{1, 2, stats(3, 40, 40, 0, 10, 30)},
			{1, 3, three},
			{9, 1, stats(1, 5, 5, 5, 5, 5)},
		},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestSumsStayAtTheLargest(t *testing.T) {
	r := collect(t, Options{}, call(0, 1, math.MaxUint64-1, 4), call(0, 1, 3, 3)).Report(reader.Clock{})
	if got := r.Edges[0].Sum; got != math.MaxUint64 {
		t.Errorf("got sum %d, want the largest number", got)
	}
	if got := r.Edges[0].Self; got != 7 {
		t.Errorf("got self time %d, want 7", got)
	}
}

// The report does not depend on the number of shards.
func TestSharding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{Quantiles: rapid.Bool().Draw(t, "quantiles")}
		n := rapid.IntRange(0, 400).Draw(t, "calls")
		ids := rapid.SampledFrom([]int{3, 40}).Draw(t, "functions")
		shards := make([]*Analysis, rapid.IntRange(1, 4).Draw(t, "shards"))
		for i := range shards {
			shards[i] = New(opts)
		}
		whole := New(opts)
		for range n {
			c := call(reader.FuncID(rapid.IntRange(-1, ids).Draw(t, "caller")),
				reader.FuncID(rapid.IntRange(1, ids).Draw(t, "callee")),
				rapid.Uint64().Draw(t, "duration"), rapid.Uint64Max(50).Draw(t, "self"))
			c.End = calls.End(rapid.IntRange(0, 3).Draw(t, "end"))
			b := &calls.Batch{Calls: []calls.Call{c}}
			whole.Calls(b)
			shards[rapid.IntRange(0, len(shards)-1).Draw(t, "shard")].Calls(b)
		}
		for _, s := range shards[1:] {
			shards[0].Merge(s)
		}
		want, got := whole.Report(reader.Clock{}), shards[0].Report(reader.Clock{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%d shards (-one +merged):\n%s", len(shards), diff)
		}
	})
}

// After many edges have enlarged the table, all of them are still found.
func TestManyEdges(t *testing.T) {
	a := New(Options{})
	const n = 200
	for range 2 {
		for i := range reader.FuncID(n) {
			for j := range reader.FuncID(n) {
				a.Calls(&calls.Batch{Calls: []calls.Call{call(i-n/2, j+1, uint64(j), 1)}})
			}
		}
	}
	r := a.Report(reader.Clock{})
	if len(r.Edges) != n*n {
		t.Fatalf("got %d edges, want %d", len(r.Edges), n*n)
	}
	for _, e := range r.Edges {
		if e.Count != 2 || e.Min != uint64(e.Callee-1) || e.Max != e.Min {
			t.Fatalf("edge %d -> %d: got %+v", e.Caller, e.Callee, e.Stats)
		}
	}
}

func TestTrim(t *testing.T) {
	open := call(0, 8, 0, 0)
	open.End = calls.Truncated
	report := func() *Report {
		return collect(t, Options{},
			call(0, 1, 1000, 0), call(1, 2, 900, 10), call(2, 3, 890, 890), // the path to 3
			call(1, 4, 60, 60), call(2, 4, 1, 1), // 4 has two callers
			call(1, 5, 3, 3), open, call(8, 3, 36, 36),
		).Report(reader.Clock{})
	}
	shape := func(r *Report) string {
		var s []string
		for _, f := range r.Functions {
			s = append(s, fmt.Sprint(f.ID))
		}
		for _, e := range r.Edges {
			s = append(s, fmt.Sprintf("%d>%d", e.Caller, e.Callee))
		}
		return fmt.Sprintf("%s left %d %d", strings.Join(s, " "), r.Left.Functions, r.Left.Edges)
	}
	for _, test := range []struct {
		share float64
		top   int
		want  string
	}{
		{0, 0, "1 2 3 4 5 8 0>1 0>8 1>2 1>4 1>5 2>3 2>4 8>3 left 0 0"},
		// 5 is too small, and so are calls of 4 from 2, but not those from 1.
		{0.01, 0, "1 2 3 4 8 0>1 0>8 1>2 1>4 2>3 8>3 left 1 2"},
		// The open calls of 8 have no sum. Their callees stay connected.
		{0.5, 0, "1 2 3 8 0>1 0>8 1>2 2>3 left 2 4"},
		{0, 1, "1 2 3 0>1 1>2 2>3 left 3 5"},
		{0, 2, "1 2 3 4 0>1 1>2 1>4 2>3 2>4 left 2 3"},
		{0.5, 2, "1 2 3 0>1 1>2 2>3 left 3 5"},
		{0, 100, "1 2 3 4 5 8 0>1 0>8 1>2 1>4 1>5 2>3 2>4 8>3 left 0 0"},
	} {
		if got := shape(report().Trim(test.share, test.top)); got != test.want {
			t.Errorf("Trim(%g, %d):\n got %s\nwant %s", test.share, test.top, got, test.want)
		}
	}
}

// The most expensive path to a function may be a cycle, and its most expensive calls may be to
// itself.
func TestTrimWithRecursion(t *testing.T) {
	r := collect(t, Options{}, call(2, 1, 10, 10), call(1, 2, 10, 0), call(2, 2, 50, 0)).Report(zeroClock)
	if got := len(r.Trim(0, 1).Functions); got != 2 {
		t.Errorf("got %d functions, want both of the cycle", got)
	}
	r = collect(t, Options{}, call(0, 1, 10, 1), call(1, 2, 20, 1), call(2, 2, 50, 50)).Report(zeroClock)
	if got := len(r.Trim(0, 1).Functions); got != 2 {
		t.Errorf("got %d functions, want the caller of the recursive one, too", got)
	}
}

// A function with many small callers stays connected through the one that calls it most.
func TestTrimKeepsOneWayIn(t *testing.T) {
	r := collect(t, Options{}, call(0, 1, 100, 78), call(1, 3, 6, 6), call(0, 2, 30, 0), call(2, 3, 7, 7)).Report(zeroClock)
	var got []string
	for _, e := range r.Trim(0.1, 0).Edges {
		got = append(got, fmt.Sprintf("%d>%d", e.Caller, e.Callee))
	}
	if diff := cmp.Diff([]string{"0>1", "0>2", "2>3"}, got); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
}

// Blending is symmetric, even where hues wrap around.
func TestBlendIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) rgb {
			c := rapid.SliceOfN(rapid.Uint8(), 3, 3).Draw(t, name)
			return rgb{float64(c[0]), float64(c[1]), float64(c[2])}
		}
		a, b := draw("a"), draw("b")
		w := rapid.Float64Range(0, 1).Draw(t, "weight")
		if d := math.Abs(toHSV(a).h - toHSV(b).h); math.Abs(d-3) < 1e-9 {
			return // both directions are equally short
		}
		x, y := blend(a, b, w), blend(b, a, 1-w)
		if math.Abs(x.r-y.r) > 1 || math.Abs(x.g-y.g) > 1 || math.Abs(x.b-y.b) > 1 {
			t.Fatalf("blend is not symmetric: %v and %v", x, y)
		}
		if blend(a, b, 0) != a || blend(a, b, 1) != b {
			t.Fatalf("got ends %v and %v", blend(a, b, 0), blend(a, b, 1))
		}
	})
}

func TestParseColumn(t *testing.T) {
	for c := None; c <= Max; c++ {
		if got, err := ParseColumn(c.String()); got != c || err != nil {
			t.Errorf("ParseColumn(%q) = %v, %v", c.String(), got, err)
		}
	}
	for name, want := range map[string]Column{"med": P50, "90p": P90, "99p": P99} {
		if got, err := ParseColumn(name); got != want || err != nil {
			t.Errorf("ParseColumn(%q) = %v, %v", name, got, err)
		}
	}
	if _, err := ParseColumn("p95"); err == nil || !strings.Contains(err.Error(), "p999") {
		t.Errorf("ParseColumn(p95): got error %v, want one that lists the columns", err)
	}
}

// event is a line of trace YAML.
type event struct {
	fn, thread int
	kind       string
	tsc        uint64
}

// writeYAML writes a trace that llvm-xray can read, too.
func writeYAML(t testing.TB, frequency uint64, events []event) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "---\nheader:\n  version: 1\n  type: 0\n  constant-tsc: true\n  nonstop-tsc: true\n"+
		"  cycle-frequency: %d\nrecords:\n", frequency)
	for _, e := range events {
		fmt.Fprintf(&b, "  - { type: 0, func-id: %d, cpu: 1, thread: %d, kind: function-%s, tsc: %d }\n",
			e.fn, e.thread, e.kind, e.tsc)
	}
	b.WriteString("...\n")
	path := filepath.Join(t.TempDir(), "trace.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run analyzes a trace file.
func run(t testing.TB, path string, opts Options) (*Analysis, reader.Clock) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	a, _, err := calls.Run(trace, calls.Options{}, func() *Analysis { return New(opts) })
	if err != nil {
		t.Fatal(err)
	}
	return a, reader.Clock{Frequency: trace.Header(0).CycleFrequency}
}

// randomTrace draws the events of a few threads in order of time. Every call takes time, because
// llvm-xray ignores a minimum of 0.
func randomTrace(t *rapid.T) []event {
	var events []event
	tsc := uint64(1000)
	open := make([][]int, rapid.IntRange(1, 3).Draw(t, "threads"))
	for range rapid.IntRange(1, 60).Draw(t, "events") {
		thread := rapid.IntRange(0, len(open)-1).Draw(t, "thread")
		tsc += rapid.Uint64Range(1, 5000).Draw(t, "ticks")
		stack := &open[thread]
		if len(*stack) == 0 || rapid.IntRange(0, 2).Draw(t, "enter") == 0 {
			fn := rapid.IntRange(1, 6).Draw(t, "function")
			*stack = append(*stack, fn)
			events = append(events, event{fn, thread + 1, "enter", tsc})
			continue
		}
		// Omit the exits of some calls.
		if len(*stack) > 1 && rapid.IntRange(0, 9).Draw(t, "jump") == 0 {
			*stack = (*stack)[:len(*stack)-1]
		}
		fn := (*stack)[len(*stack)-1]
		*stack = (*stack)[:len(*stack)-1]
		events = append(events, event{fn, thread + 1, "exit", tsc})
	}
	return events
}

func sortedLines(s string) []string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	slices.Sort(lines)
	return lines
}

func BenchmarkCalls(b *testing.B) {
	for _, opts := range []Options{{}, quantiles} {
		for _, edges := range []int{500, 20000} {
			b.Run(fmt.Sprintf("edges=%d/quantiles=%t", edges, opts.Quantiles), func(b *testing.B) {
				// A random walk: some edges are popular, as in real programs.
				const n = 1 << 16
				cs := make([]calls.Call, n)
				seed := uint64(1)
				for i := range cs {
					seed = seed*6364136223846793005 + 1442695040888963407
					u := float64(seed>>11) / (1 << 53)
					e := int(u * u * u * float64(edges))
					d := 100 + seed>>54
					cs[i] = call(reader.FuncID(e/10), reader.FuncID(e%2000+1), d, d/2)
				}
				a := New(opts)
				b.ResetTimer()
				for i := 0; i < b.N; i += 512 {
					at := i % n
					a.Calls(&calls.Batch{Calls: cs[at : at+512]})
				}
			})
		}
	}
}
