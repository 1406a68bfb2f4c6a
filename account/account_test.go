package account

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// collect feeds calls of one thread to a new analysis.
func collect(t testing.TB, opts Options, list ...calls.Call) *Analysis {
	t.Helper()
	a := New(opts)
	if err := a.Calls(&calls.Batch{Calls: list}); err != nil {
		t.Fatal(err)
	}
	return a
}

// call returns a leaf that exited.
func call(fn reader.FuncID, duration uint64) calls.Call {
	return calls.Call{Func: fn, Duration: duration, Self: duration}
}

// fact returns the calls of fact(3) below main, which is still open: main runs for 100, and the
// three calls of fact for 60, 40 and 10.
func fact() []calls.Call {
	return []calls.Call{
		{Func: 2, Duration: 10, Self: 10, Caller: 2, Depth: 3, Nested: true},
		{Func: 2, Duration: 40, Self: 30, Caller: 2, Depth: 2, Nested: true, End: calls.Inferred},
		{Func: 2, Duration: 60, Self: 20, Caller: 1, Depth: 1, End: calls.TailExited},
		{Func: 1, Duration: 100, Self: 40, End: calls.Truncated},
	}
}

func TestRows(t *testing.T) {
	r := collect(t, Options{}, fact()...).Report(0)
	want := []Row{
		{Func: 1, Open: 1, Self: quantile.NewSum(40), Total: quantile.NewSum(100), Octaves: []uint64{0}},
		{
			Func: 2, Count: 3, TailExited: 1, Inferred: 1,
			Self: quantile.NewSum(60), Total: quantile.NewSum(60), Sum: quantile.NewSum(110),
			Min: 10, P50: 40, P90: 60, P99: 60, P999: 60, Max: 60,
			Octaves: []uint64{0, 0, 0, 0, 1, 0, 2},
		},
	}
	if diff := cmp.Diff(want, r.Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if r.Functions != 2 || r.Self != quantile.NewSum(100) {
		t.Errorf("got %d functions with self time %v", r.Functions, r.Self)
	}
	r.Ended()
	if len(r.Rows) != 1 || r.Rows[0].Func != 2 || r.Functions != 1 {
		t.Errorf("after Ended: got %d functions, rows %v", r.Functions, r.Rows)
	}
}

// TestOpenRecursion has two nested calls of a function open at the end. Their time counts once.
func TestOpenRecursion(t *testing.T) {
	r := collect(t, Options{},
		calls.Call{Func: 1, Duration: 30, Self: 30, Depth: 1, Nested: true, End: calls.Truncated},
		calls.Call{Func: 1, Duration: 100, Self: 70, End: calls.Truncated},
	).Report(0)
	if row := r.Rows[0]; row.Open != 2 || row.Total != quantile.NewSum(100) || row.Self != quantile.NewSum(100) {
		t.Errorf("got row %+v", row)
	}
}

func TestRecursiveOnly(t *testing.T) {
	nested := func(c calls.Call) calls.Call { c.Nested = true; return c }
	for _, c := range []struct {
		name string
		list []calls.Call
		want map[reader.FuncID]uint64
	}{
		{"no recursion", []calls.Call{call(1, 1), call(1, 2), call(2, 3)}, nil},
		{"inner and outermost", []calls.Call{nested(call(1, 10)), call(1, 100)}, map[reader.FuncID]uint64{1: 2}},
		{
			"the mark ends with the outermost call",
			[]calls.Call{nested(call(1, 10)), call(1, 100), call(1, 7)}, map[reader.FuncID]uint64{1: 2},
		},
		{
			"another function does not disturb",
			[]calls.Call{nested(call(1, 10)), call(2, 5), nested(call(1, 11)), call(1, 100)}, map[reader.FuncID]uint64{1: 3},
		},
	} {
		r := collect(t, Options{RecursiveOnly: true}, c.list...).Report(0)
		var got map[reader.FuncID]uint64
		for _, row := range r.Rows {
			if got == nil {
				got = make(map[reader.FuncID]uint64)
			}
			got[row.Func] = row.Count
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	// Recursion in one thread does not make calls of another thread recursive.
	a := New(Options{RecursiveOnly: true})
	for _, b := range []calls.Batch{
		{Index: 0, Calls: []calls.Call{nested(call(1, 10))}},
		{Index: 1, Calls: []calls.Call{call(1, 20)}},
	} {
		if err := a.Calls(&b); err != nil {
			t.Fatal(err)
		}
	}
	if r := a.Report(0); len(r.Rows) != 1 || r.Rows[0].Count != 1 || r.Rows[0].Max != 10 {
		t.Errorf("two threads: got rows %v", r.Rows)
	}
}

// TestFunctionTable adds all kinds of IDs, more than once, in any order.
func TestFunctionTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.OneOf(
			rapid.Int32Range(-3, 300), rapid.Int32(),
			rapid.Map(rapid.Int32Range(0, 300), func(i int32) int32 { return i << 24 }),
			rapid.Map(rapid.Int32Range(0, 300), func(i int32) int32 { return i << 8 }),
		), 0, 600).Draw(t, "ids")
		tab := newTable(false)
		want := make(map[reader.FuncID]uint64)
		for _, id := range ids {
			tab.durations.AddWeight(tab.index(reader.FuncID(id)), 1)
			want[reader.FuncID(id)]++
		}
		got := make(map[reader.FuncID]uint64)
		for i, id := range tab.ids {
			got[id] += tab.durations.Weight(i).Lo
		}
		if diff := cmp.Diff(want, got); diff != "" || len(tab.ids) != len(want) {
			t.Fatalf("%d functions (-want +got):\n%s", len(tab.ids), diff)
		}
	})
}

// stream draws calls of several threads, in batches.
func stream(r *rand.Rand, threads, n int) []calls.Batch {
	var batches []calls.Batch
	for len(batches) < n {
		thread := r.IntN(threads)
		b := calls.Batch{Index: thread, Thread: reader.Thread{File: int32(thread % 2), Process: 7, Thread: int32(100 + thread)}}
		for range r.IntN(200) {
			c := calls.Call{
				Func:     reader.FuncID(r.IntN(5)),
				Duration: r.Uint64() >> (20 + r.IntN(44)),
				Nested:   r.IntN(4) == 0,
				End:      calls.End(max(0, r.IntN(20)-16)),
			}
			c.Self = c.Duration / 2
			if r.IntN(5) == 0 {
				off := calls.Off{Blocked: c.Self / 3, Queued: c.Self / 5}
				b.Waits = append(b.Waits, calls.Wait{Call: len(b.Calls), Self: off, Total: off})
			}
			b.Calls = append(b.Calls, c)
		}
		batches = append(batches, b)
	}
	return batches
}

// TestShards divides threads among shards in any way. Reports must not depend on it.
func TestShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{
			Exact:         rapid.Bool().Draw(t, "exact"),
			PerThread:     rapid.Bool().Draw(t, "per thread"),
			RecursiveOnly: rapid.Bool().Draw(t, "recursive only"),
			OffCPU:        rapid.Bool().Draw(t, "off CPU"),
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		const threads = 6
		batches := stream(r, threads, rapid.IntRange(0, 60).Draw(t, "batches"))
		whole := New(opts)
		shards := []*Analysis{New(opts), New(opts), New(opts)}
		var of [threads]int
		for i := range of {
			of[i] = r.IntN(len(shards))
		}
		for i := range batches {
			if err := whole.Calls(&batches[i]); err != nil {
				t.Fatal(err)
			}
			if err := shards[of[batches[i].Index]].Calls(&batches[i]); err != nil {
				t.Fatal(err)
			}
		}
		r.Shuffle(len(shards), func(i, j int) { shards[i], shards[j] = shards[j], shards[i] })
		if r.IntN(2) == 0 {
			shards[1].Merge(shards[2])
			shards[0].Merge(shards[1])
		} else {
			shards[0].Merge(shards[1])
			shards[0].Merge(shards[2])
		}
		if diff := cmp.Diff(whole.Report(1e9), shards[0].Report(1e9)); diff != "" {
			t.Fatalf("report (-whole +shards):\n%s", diff)
		}
	})
}

// TestPerThreadAddsUp compares the rows by thread with those of all threads together.
func TestPerThreadAddsUp(t *testing.T) {
	batches := stream(rand.New(rand.NewPCG(1, 1)), 5, 80)
	together, apart := New(Options{}), New(Options{PerThread: true})
	for i := range batches {
		if err := together.Calls(&batches[i]); err != nil {
			t.Fatal(err)
		}
		if err := apart.Calls(&batches[i]); err != nil {
			t.Fatal(err)
		}
	}
	type sums struct{ Count, Open, Min, Max, Self, Total string }
	add := func(a *big.Int, s quantile.Sum) *big.Int { return a.Add(a, s.Big()) }
	of := func(r *Report) map[reader.FuncID]sums {
		m := make(map[reader.FuncID]sums)
		for i := range r.Rows {
			row := r.Rows[i]
			s := Row{Min: math.MaxUint64}
			self, total := new(big.Int), new(big.Int)
			for j := range r.Rows {
				if o := r.Rows[j]; o.Func == row.Func {
					s.Count, s.Open = s.Count+o.Count, s.Open+o.Open
					s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
					self, total = add(self, o.Self), add(total, o.Total)
				}
			}
			u := func(n uint64) string { return strconv.FormatUint(n, 10) }
			m[row.Func] = sums{u(s.Count), u(s.Open), u(s.Min), u(s.Max), self.String(), total.String()}
		}
		return m
	}
	a, b := together.Report(0), apart.Report(0)
	if diff := cmp.Diff(of(a), of(b)); diff != "" {
		t.Errorf("sums (-together +apart):\n%s", diff)
	}
	if len(b.Rows) != 25 || b.Functions != 5 || a.Self != b.Self {
		t.Errorf("got %d rows of %d functions, self time %v and %v", len(b.Rows), b.Functions, a.Self, b.Self)
	}
}

func TestSort(t *testing.T) {
	batches := stream(rand.New(rand.NewPCG(2, 2)), 3, 30)
	a := New(Options{PerThread: true, OffCPU: true})
	for i := range batches {
		if err := a.Calls(&batches[i]); err != nil {
			t.Fatal(err)
		}
	}
	value := map[Column]func(*Row) *big.Int{
		ByCount:       func(r *Row) *big.Int { return new(big.Int).SetUint64(r.Count) },
		BySelf:        func(r *Row) *big.Int { return r.Self.Big() },
		ByTotal:       func(r *Row) *big.Int { return r.Total.Big() },
		BySum:         func(r *Row) *big.Int { return r.Sum.Big() },
		ByMin:         func(r *Row) *big.Int { return new(big.Int).SetUint64(r.Min) },
		ByP50:         func(r *Row) *big.Int { return new(big.Int).SetUint64(r.P50) },
		ByP90:         func(r *Row) *big.Int { return new(big.Int).SetUint64(r.P90) },
		ByP99:         func(r *Row) *big.Int { return new(big.Int).SetUint64(r.P99) },
		ByP999:        func(r *Row) *big.Int { return new(big.Int).SetUint64(r.P999) },
		ByMax:         func(r *Row) *big.Int { return new(big.Int).SetUint64(r.Max) },
		ByInferred:    func(r *Row) *big.Int { return new(big.Int).SetUint64(r.Inferred) },
		ByTailExited:  func(r *Row) *big.Int { return new(big.Int).SetUint64(r.TailExited) },
		ByOpen:        func(r *Row) *big.Int { return new(big.Int).SetUint64(r.Open) },
		ByBlocked:     func(r *Row) *big.Int { return r.SelfOff.Blocked.Big() },
		ByInterrupted: func(r *Row) *big.Int { return r.SelfOff.Interrupted.Big() },
		ByQueued:      func(r *Row) *big.Int { return r.SelfOff.Queued.Big() },
		ByAllCalls:    func(r *Row) *big.Int { return new(big.Int).SetUint64(r.AllCalls()) },
		ByAllTotal: func(r *Row) *big.Int {
			total := r.AllTotal()
			return total.Big()
		},
		ByCPU: func(r *Row) *big.Int {
			return new(big.Int).Sub(r.Self.Big(), new(big.Int).Add(r.SelfOff.Blocked.Big(), r.SelfOff.Queued.Big()))
		},
	}
	for _, name := range Columns() {
		by, err := ParseColumn(name)
		if err != nil || by.String() != name {
			t.Fatalf("ParseColumn(%q) = %v, %v", name, by, err)
		}
		for _, descending := range []bool{false, true} {
			r := a.Report(0)
			rand.Shuffle(len(r.Rows), func(i, j int) { r.Rows[i], r.Rows[j] = r.Rows[j], r.Rows[i] })
			r.Sort(by, descending, names)
			for i := 1; i < len(r.Rows); i++ {
				x, y := &r.Rows[i-1], &r.Rows[i]
				order := compareIDs(x, y)
				switch {
				case by == ByName:
					order = compareStrings(names[x.Func].Name, names[y.Func].Name)
				case value[by] != nil:
					order = value[by](x).Cmp(value[by](y))
				}
				if descending {
					order = -order
				}
				if order > 0 || order == 0 && compareIDs(x, y) >= 0 {
					t.Fatalf("%s, descending %v: got row %v before %v", name, descending, x, y)
				}
			}
			r.Top(4)
			if len(r.Rows) != 4 || r.Functions != 5 {
				t.Errorf("Top: got %d rows of %d functions", len(r.Rows), r.Functions)
			}
		}
	}
	for alias, want := range map[string]Column{
		"funcid": ByID, "med": ByP50, "90p": ByP90, "99p": ByP99, "func": ByName, "share": BySelf,
	} {
		if got, err := ParseColumn(alias); got != want || err != nil {
			t.Errorf("ParseColumn(%q) = %v, %v", alias, got, err)
		}
	}
	if _, err := ParseColumn("stddev"); err == nil {
		t.Error("ParseColumn accepts stddev")
	}
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
