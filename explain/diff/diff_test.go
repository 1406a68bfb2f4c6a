package diff_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/explain/diff"
	"github.com/xray-tools/xray/internal/test/testnames"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

// names has two functions with the same name.
var names = testnames.Names{1: "handle(int)", 2: "parse()", 3: "query()", 4: "row()", 5: "row()", 6: "flush()"}

// trace is the recording of a run, by thread.
type trace struct {
	frequency uint64
	threads   [][]reader.Event
}

// Each implements calls.Source.
func (t *trace) Each(n int, fn func(int, *reader.Block) error) error {
	for i, events := range t.threads {
		b := reader.Block{Thread: reader.Thread{Process: 7, Thread: int32(100 + i)}, Index: i, Events: slices.Clone(events)}
		if err := fn(i%n, &b); err != nil {
			return err
		}
	}
	return nil
}

// recorder generates the events of a thread.
type recorder struct {
	now    uint64
	events []reader.Event
}

// call adds a call with this self time and runs body in the middle.
func (r *recorder) call(fn reader.FuncID, ticks uint64, body ...func()) {
	r.events = append(r.events, reader.Event{TSC: r.now, Func: fn, Kind: reader.Enter})
	r.now += ticks / 2
	for _, f := range body {
		f()
	}
	r.now += ticks - ticks/2
	r.events = append(r.events, reader.Event{TSC: r.now, Func: fn, Kind: reader.Exit})
}

// random adds calls of random functions inside a call of fn.
func (r *recorder) random(rng *rand.Rand, fn reader.FuncID, depth int) {
	r.call(fn, rng.Uint64N(1000), func() {
		for depth > 0 && rng.IntN(3) > 0 {
			r.random(rng, reader.FuncID(1+rng.IntN(6)), depth-1)
		}
	})
}

// randomTrace returns a trace with at least one call of handle. With its gaps it lasts some
// seconds.
func randomTrace(rng *rand.Rand) *trace {
	t := &trace{frequency: 1_000_000_000}
	for range 1 + rng.IntN(3) {
		r := recorder{now: 1000}
		r.random(rng, 1, 3)
		for range 1 + rng.IntN(20) {
			r.now += rng.Uint64N(1_000_000_000)
			r.random(rng, reader.FuncID(1+rng.IntN(6)), 4)
		}
		if rng.IntN(4) == 0 { // open at the end
			r.events = r.events[:len(r.events)-1]
		}
		t.threads = append(t.threads, r.events)
	}
	return t
}

func isHandle(fn reader.FuncID) bool { return fn == 1 }

type comparison struct {
	root   func(reader.FuncID) bool
	gates  []string
	shards int
	folds  int
}

// compare runs the whole analysis.
func (c comparison) compare(t rapid.TB, a, b []*trace) *diff.Report {
	t.Helper()
	var gates []diff.Gate
	for _, text := range c.gates {
		g, err := diff.ParseGate(text, c.root != nil)
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, g)
	}
	all := diff.NewComparison(c.root != nil, "root", gates)
	for side, traces := range [][]*trace{a, b} {
		for _, tr := range traces {
			k := reader.Clock{Frequency: tr.frequency}
			opts := diff.Options{Root: c.root}
			if diff.FewRuns(len(a), len(b)) {
				_, stats, err := calls.Run(tr, calls.Options{Shards: 1}, func() nothing { return nothing{} })
				if err != nil {
					t.Fatal(err)
				}
				opts.Blocks = diff.Cut(stats.First, stats.Last, k)
			}
			run := calls.Options{Shards: max(1, c.shards), Paths: c.root != nil, Nested: c.root == nil}
			sink, _, err := calls.Run(tr, run, func() *diff.Analysis { return diff.NewAnalysis(opts) })
			if err != nil {
				t.Fatal(err)
			}
			if err := all.Add(diff.Side(side), sink, diff.Run{Name: "run", Clock: k, Names: names}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := all.Report(diff.ReportOptions{Seed: 1, MinShare: 0.01, Folds: c.folds})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type nothing struct{}

func (nothing) Calls(*calls.Batch) error { return nil }
func (nothing) Merge(nothing)            {}

// written returns the report in all formats.
func written(t rapid.TB, r *diff.Report) string {
	var b bytes.Buffer
	doc := report.Doc{Clock: r.Clock, Body: r.Body(diff.View{})}
	for _, format := range report.Formats {
		if err := doc.Write(&b, report.Style{Format: format}); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// near compares sums that may have been added in another order.
var near = cmpopts.EquateApprox(1e-9, 1e-6)

// Resampling depends neither on shards nor on the order of runs, parts add up to the whole, and
// swapping the sides negates every difference.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		c := comparison{folds: 200}
		if rapid.Bool().Draw(t, "rooted") {
			c.root = isHandle
		}
		var sides [2][]*trace
		for s, label := range []string{"A", "B"} {
			for range rapid.IntRange(1, 4).Draw(t, label) {
				sides[s] = append(sides[s], randomTrace(rng))
			}
		}
		r := c.compare(t, sides[0], sides[1])
		sum, changes := 0.0, r.Rest
		for _, p := range r.Parts {
			sum += p.Slower + p.More + p.New
		}
		for _, ch := range r.Changes {
			changes += ch.Amount
		}
		if d := r.Whole.Difference(); !(math.Abs(sum-d) <= 1e-6) || !(math.Abs(changes-d) <= 1e-6) {
			t.Errorf("got sums %v of parts and %v of changes, want the total difference %v", sum, changes, d)
		}
		text := written(t, r)

		rng.Shuffle(len(sides[0]), func(i, j int) { sides[0][i], sides[0][j] = sides[0][j], sides[0][i] })
		rng.Shuffle(len(sides[1]), func(i, j int) { sides[1][i], sides[1][j] = sides[1][j], sides[1][i] })
		again := c
		again.shards = 3
		if d := cmp.Diff(text, written(t, again.compare(t, sides[0], sides[1]))); d != "" {
			t.Errorf("3 shards in another order (-before +after):\n%s", d)
		}
		swapped := c.compare(t, sides[1], sides[0])
		if d := cmp.Diff(turned(r.Whole), swapped.Whole, near); d != "" {
			t.Errorf("the whole, swapped (-want +got):\n%s", d)
		}
		if d := cmp.Diff(turnedRows(r.Rows), turnedRows(turnedBack(swapped.Rows)), near); d != "" {
			t.Errorf("rows, swapped (-want +got):\n%s", d)
		}
	})
}

// turned returns a metric with the sides swapped.
func turned(m diff.Metric) diff.Metric {
	m.A, m.B = m.B, m.A
	m.Low, m.High = -m.High, -m.Low
	return m
}

// turnedRows returns rows with the sides swapped, by path.
func turnedRows(rows []diff.Row) map[string]diff.Row {
	out := make(map[string]diff.Row)
	for _, r := range rows {
		r.In = map[string]string{"both": "both", "new": "gone", "gone": "new"}[r.In]
		r.Metrics = slices.Clone(r.Metrics)
		for i := range r.Metrics {
			r.Metrics[i] = turned(r.Metrics[i])
		}
		out[strings.Join(r.Path, ">")] = r
	}
	return out
}

func turnedBack(rows []diff.Row) []diff.Row {
	var out []diff.Row
	for _, r := range turnedRows(rows) {
		out = append(out, r)
	}
	return out
}

// requests returns a run of a server whose times vary by jitter.
func requests(rng *rand.Rand, n int, jitter float64, body func(r *recorder, scaled func(uint64) uint64)) *trace {
	r := recorder{now: 1}
	speed := math.Exp(jitter * rng.NormFloat64()) // of the whole run
	for range n {
		r.call(1, 100, func() {
			body(&r, func(ticks uint64) uint64 { return uint64(float64(ticks) * speed * (0.9 + 0.2*rng.Float64())) })
		})
		r.now += 50
	}
	return &trace{frequency: 1_000_000_000, threads: [][]reader.Event{r.events}}
}

func side(seed uint64, runs int, body func(r *recorder, scaled func(uint64) uint64)) []*trace {
	rng := rand.New(rand.NewPCG(seed, 0))
	var list []*trace
	for range runs {
		list = append(list, requests(rng, 50, 0.01, body))
	}
	return list
}

// before is the server before any change.
func before(r *recorder, scaled func(uint64) uint64) {
	r.call(2, scaled(1000))
	r.call(3, scaled(200), func() {
		for range 3 {
			r.call(4, scaled(500))
		}
	})
}

// The report names each change first, with the right kind, and as significant.
func TestChanges(t *testing.T) {
	tests := []struct {
		name   string
		kind   diff.Kind
		fn     string
		amount float64 // approximate
		body   func(r *recorder, scaled func(uint64) uint64)
	}{
		{"slower", diff.Slower, "parse()", 500, func(r *recorder, scaled func(uint64) uint64) {
			r.call(2, scaled(1500))
			r.call(3, scaled(200), func() {
				for range 3 {
					r.call(4, scaled(500))
				}
			})
		}},
		{"more calls", diff.MoreCalls, "row()", 2000, func(r *recorder, scaled func(uint64) uint64) {
			r.call(2, scaled(1000))
			r.call(3, scaled(200), func() {
				for range 7 {
					r.call(5, scaled(500)) // another ID with the same name
				}
			})
		}},
		{"more calls with callees", diff.MoreCalls, "query()", 1700, func(r *recorder, scaled func(uint64) uint64) {
			before(r, scaled)
			r.call(3, scaled(200), func() {
				for range 3 {
					r.call(4, scaled(500))
				}
			})
		}},
		{"new", diff.New, "flush()", 1500, func(r *recorder, scaled func(uint64) uint64) {
			before(r, scaled)
			r.call(6, scaled(500), func() { r.call(2, scaled(1000)) })
		}},
		{"gone", diff.Gone, "query()", -1700, func(r *recorder, scaled func(uint64) uint64) { r.call(2, scaled(1000)) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := comparison{root: isHandle}.compare(t, side(1, 5, before), side(2, 5, test.body))
			c := r.Changes[0]
			if c.Kind != test.kind || c.Function != test.fn || math.Abs(c.Amount/test.amount-1) > 0.1 || !c.Significant() {
				t.Errorf("got %+v", c)
			}
			if c.Low > c.Amount || c.High < c.Amount || c.Low*c.High < 0 {
				t.Errorf("got change %v, interval %v to %v", c.Amount, c.Low, c.High)
			}
			for _, other := range r.Changes[1:] {
				if other.Significant() {
					t.Errorf("%v of %s is significant, too: %+v", other.Kind, other.Function, other.Interval)
				}
			}
		})
	}
}

// Without a root, the report still names the function.
func TestFunctions(t *testing.T) {
	r := comparison{}.compare(t, side(1, 5, before), side(2, 5, func(r *recorder, scaled func(uint64) uint64) {
		r.call(2, scaled(1500))
		r.call(3, scaled(200), func() {
			for range 3 {
				r.call(4, scaled(500))
			}
		})
	}))
	row, c := r.Rows[0], r.Changes[0]
	if row.Path[0] != "parse()" || len(row.Metrics) != 5 || c.Kind != diff.Slower || c.Function != "parse()" {
		t.Fatalf("got %+v\n%+v", row, r.Changes)
	}
	want := []struct{ a, b float64 }{{50, 50}, {50_000, 75_000}, {50_000, 75_000}, {1000, 1500}, {1090, 1640}}
	for i, m := range row.Metrics {
		if math.Abs(m.A/want[i].a-1) > 0.1 || math.Abs(m.B/want[i].b-1) > 0.1 || !m.Known || m.Significant() != (i > 0) {
			t.Errorf("got %+v, want %v", m, want[i])
		}
	}
}

// Clocks of different frequencies are compared in units of time.
func TestClocksOfDifferentFrequency(t *testing.T) {
	a := side(1, 3, before)
	var b []*trace
	for _, tr := range a {
		faster := &trace{frequency: 3 * tr.frequency, threads: [][]reader.Event{slices.Clone(tr.threads[0])}}
		for i := range faster.threads[0] {
			faster.threads[0][i].TSC *= 3
		}
		b = append(b, faster)
	}
	r := comparison{root: isHandle}.compare(t, a, b)
	p99 := r.Metrics[2]
	if !(math.Abs(r.Whole.Difference()) <= 1e-9*r.Whole.A) || r.Whole.Significant() || p99.A != p99.B || p99.A == 0 {
		t.Errorf("got %+v\n%+v", r.Whole, r.Metrics)
	}
}

func TestClocksThatDoNotCompare(t *testing.T) {
	all := diff.NewComparison(false, "", nil)
	add := func(side diff.Side, name string, frequency uint64) error {
		return all.Add(side, diff.NewAnalysis(diff.Options{}), diff.Run{Name: name, Clock: reader.Clock{Frequency: frequency}})
	}
	if err := add(diff.A, "old.xray", 1000); err != nil {
		t.Error(err)
	}
	err := add(diff.B, "new.xray", 0)
	want := "new.xray does not state its clock frequency, but old.xray does"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
	if _, err := all.Report(diff.ReportOptions{}); err != diff.ErrOneSided {
		t.Error(err)
	}
}

// A long run is resampled in blocks of seconds. A short run is not resampled.
func TestBlocks(t *testing.T) {
	long := func(seed uint64, ticks uint64) *trace {
		rng := rand.New(rand.NewPCG(seed, 0))
		r := recorder{now: 1}
		for range 400 {
			r.call(1, 100, func() { r.call(2, ticks+rng.Uint64N(ticks/4)) })
			r.now += 50_000_000
		}
		return &trace{frequency: 1_000_000_000, threads: [][]reader.Event{r.events}}
	}
	for _, root := range []func(reader.FuncID) bool{nil, isHandle} {
		r := comparison{root: root}.compare(t, []*trace{long(1, 1000)}, []*trace{long(2, 2000)})
		if r.Resampled != "blocks" || r.Units[0] < 19 || r.Units[0] > 20 || r.Block != 1e9 {
			t.Fatalf("%s of %v, %v", r.Resampled, r.Block, r.Units)
		}
		c := r.Changes[0]
		want := 1125.0
		if root == nil {
			want *= 400
		}
		if c.Function != "parse()" || !c.Significant() || math.Abs(c.Amount/want-1) > 0.05 || c.Low < want/2 || c.High > 2*want {
			t.Errorf("got %+v, want about %v", c, want)
		}
		for _, m := range r.Metrics {
			if d := m.Difference(); !m.Significant() || m.Low > d || m.High < d || d < 900 || d > 1600 {
				t.Errorf("got %+v", m)
			}
		}
	}
	r := comparison{}.compare(t, side(1, 1, before), side(2, 1, before))
	if r.Resampled != "" || r.Whole.Known || len(r.Notes) != 1 {
		t.Errorf("got resampled %q, total %+v, notes %q", r.Resampled, r.Whole, r.Notes)
	}
}
