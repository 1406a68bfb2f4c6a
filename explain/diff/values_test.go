package diff_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/diff"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/args/value"
)

// argued is a trace of one thread whose calls of handle and parse have the argument op.
type argued struct {
	recorder
	args []reader.Arg
}

func (t *argued) Each(_ int, fn func(int, *reader.Block) error) error {
	b := reader.Block{Thread: reader.Thread{Process: 7, Thread: 100}, Events: slices.Clone(t.events), Args: slices.Clone(t.args)}
	for i := range b.Args {
		e := &b.Events[b.Args[i].Event]
		e.Kind, e.Side = reader.EnterArg, true
	}
	return fn(0, &b)
}

func (t *argued) argue(op int) {
	t.args = append(t.args, reader.Arg{Event: len(t.events), Value: uint64(op)})
}

// ops has the argument of handle (1) and parse (2), or of one of them.
func ops(functions ...reader.FuncID) *calls.Expressions {
	var recorded []reader.RecordedValues
	for _, fn := range functions {
		recorded = append(recorded, reader.RecordedValues{ID: fn, Entry: []value.Description{{Expression: "op", Kind: value.Scalar, Format: value.Int, Size: 8}}})
	}
	return calls.ExpressionsOf(&reader.Recording{Values: recorded})
}

// server is a program whose calls of handle call parse. Both are called with op, and parse takes cost(op).
type server struct {
	op   func(*rand.Rand) int
	cost func(op int) float64
	gap  uint64 // time between calls
	// interruption is what a call of fifty takes longer, on average.
	interruption float64
}

// run returns a run. Its speed varies by 2%, and that of its calls by 30%.
func (s server) run(rng *rand.Rand, functions []reader.FuncID) *argued {
	t := &argued{recorder: recorder{now: 1}}
	speed := math.Exp(0.02 * rng.NormFloat64())
	scaled := func(v float64) uint64 {
		if rng.IntN(50) == 0 {
			v += s.interruption * rng.ExpFloat64()
		}
		return uint64(v * speed * (0.7 + 0.6*rng.Float64()))
	}
	for range 1000 {
		op := s.op(rng)
		argue := func(fn reader.FuncID) {
			if slices.Contains(functions, fn) {
				t.argue(op)
			}
		}
		argue(1)
		t.call(1, scaled(300), func() {
			argue(2)
			t.call(2, scaled(s.cost(op)))
		})
		t.now += s.gap
	}
	return t
}

// compareOps compares runs of two servers.
func compareOps(t *testing.T, seed uint64, runs int, a, b server, root func(reader.FuncID) bool, functions ...reader.FuncID) *diff.Report {
	t.Helper()
	all, rng := diff.NewComparison(root != nil, "root", nil), rand.New(rand.NewPCG(seed, 7))
	for side, s := range []server{a, b} {
		for range runs {
			tr := s.run(rng, functions)
			k := reader.Clock{Frequency: 1_000_000_000}
			opts := diff.Options{Root: root, Values: ops(functions...)}
			if diff.FewRuns(runs, runs) {
				opts.Blocks = diff.Cut(1, tr.now, k)
			}
			sink, _, err := calls.Run(tr, calls.Options{Shards: 1, Paths: root != nil, Nested: root == nil}, func() *diff.Analysis { return diff.NewAnalysis(opts) })
			if err != nil {
				t.Fatal(err)
			}
			if err := all.Add(diff.Side(side), sink, diff.Run{Name: "run", Clock: k, Names: names}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := all.Report(diff.ReportOptions{Seed: seed, MinShare: 0.01, Folds: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func oneOf(n int) func(*rand.Rand) int { return func(rng *rand.Rand) int { return rng.IntN(n) } }

// split is what a split says.
type split struct {
	Function, Values string
	In               diff.SplitIn
	Faster, Only     bool
	Unchanged        int // or 4, if it is more
}

func splitsOf(r *diff.Report) (found []split) {
	for _, s := range r.Splits {
		var values []string
		for _, v := range s.Changed {
			values = append(values, v.Value)
		}
		found = append(found, split{s.Function, s.Expression + "=" + strings.Join(values, " "), s.In, s.Faster, s.Only, min(s.Unchanged, 4)})
	}
	return found
}

// The values whose calls changed are told from those whose calls did not.
func TestValues(t *testing.T) {
	t.Parallel()
	same := func(int) float64 { return 1000 }
	third := func(op int) float64 {
		if op == 3 {
			return 2000
		}
		return 1000
	}
	large := func(op int) float64 {
		if op >= 512 {
			return 1600
		}
		return 1000
	}
	few, many := oneOf(5), oneOf(1024)
	parse, handle := []reader.FuncID{2}, []reader.FuncID{1}
	for _, test := range []struct {
		name      string
		a, b      server
		functions []reader.FuncID
		want      []split
	}{
		{"slower", server{op: few, cost: same}, server{op: few, cost: third}, parse, []split{{"parse()", "op=3", diff.InSelf, false, true, 4}}},
		{"faster", server{op: few, cost: third}, server{op: few, cost: same}, parse, []split{{"parse()", "op=3", diff.InSelf, true, true, 4}}},
		{"in a function that it calls", server{op: few, cost: same}, server{op: few, cost: third}, handle, []split{{"handle(int)", "op=3", diff.InTotal, false, true, 4}}},
		{"large numbers", server{op: many, cost: same}, server{op: many, cost: large}, parse, []split{{"parse()", "op=512..1,023", diff.InSelf, false, false, 4}}},
		{"interrupted calls", server{few, same, 0, 1e6}, server{few, third, 0, 1e6}, parse, []split{{"parse()", "op=3", diff.InMedian, false, true, 4}}},
		{"all values", server{op: few, cost: same}, server{op: few, cost: func(int) float64 { return 1500 }}, parse, nil},
		{"in proportion", server{op: few, cost: third}, server{op: few, cost: func(op int) float64 { return 1.5 * third(op) }}, parse, nil},
		{"other values", server{op: oneOf(4), cost: third}, server{op: func(rng *rand.Rand) int { return rng.IntN(4) | rng.IntN(4) }, cost: third}, parse, nil},
		{"values of one side", server{op: few, cost: third}, server{op: func(rng *rand.Rand) int { return 10 + rng.IntN(3) }, cost: same}, parse, nil},
	} {
		for _, root := range []func(reader.FuncID) bool{nil, isHandle} {
			for seed := range uint64(5) {
				r := compareOps(t, seed, 5, test.a, test.b, root, test.functions...)
				if d := cmp.Diff(test.want, splitsOf(r)); d != "" {
					t.Errorf("%s, seed %d, with a root: %v (-want +got):\n%s\n%+v", test.name, seed, root != nil, d, r.Values)
				}
				if text := written(t, r); (test.want != nil) != strings.Contains(text, " for op = ") {
					t.Errorf("%s: the report is wrong:\n%s", test.name, text)
				}
			}
		}
	}
	// One run a side is compared by its blocks, and too short ones not at all.
	for gap, want := range map[uint64]int{20_000_000: 1, 0: 0} {
		r := compareOps(t, 1, 1, server{few, same, gap, 0}, server{few, third, gap, 0}, nil, 2)
		if got := splitsOf(r); len(got) != want || want > 0 && got[0].Values != "op=3" {
			t.Errorf("with gaps of %d: got %v", gap, got)
		}
	}
}

// Equal sides have no values that separate.
func TestValuesOfEqualSides(t *testing.T) {
	t.Parallel()
	cost := func(op int) float64 { return 500 + 200*float64(op%7) }
	for seed := range uint64(200) {
		s := server{op: oneOf([]int{3, 10, 500}[seed%3]), cost: cost, interruption: 5000}
		var root func(reader.FuncID) bool
		if seed%2 == 0 {
			root = isHandle
		}
		r := compareOps(t, seed, 3+int(seed%4), s, s, root, 1, 2)
		if len(r.Splits) > 0 || len(r.Values) == 0 {
			t.Errorf("seed %d: got %+v of %d comparisons", seed, splitsOf(r), len(r.Values))
		}
	}
}
