package account

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

// timed are the self and total times of a row: compensated, lower and upper bound, and recorded.
type timed struct{ self, selfLow, selfHigh, selfWas, total, totalLow, totalHigh, totalWas uint64 }

func timesOf(row *Row) timed {
	c := row.Compensated
	return timed{
		row.Self.Lo, c.SelfLow.Lo, c.SelfHigh.Lo, c.RecordedSelf.Lo,
		row.Total.Lo, c.TotalLow.Lo, c.TotalHigh.Lo, c.RecordedTotal.Lo,
	}
}

// nested returns calls in which 1 calls 2 twice, the first of these calls 3, and then 1 calls
// itself.
func nested() []calls.Call {
	return []calls.Call{
		{Func: 3, Duration: 100, Self: 100, Depth: 2},
		{Func: 2, Duration: 300, Self: 200, Depth: 1},
		{Func: 2, Duration: 150, Self: 150, Depth: 1},
		{Func: 1, Duration: 50, Self: 50, Depth: 1, Nested: true},
		{Func: 1, Duration: 1000, Self: 500, Depth: 0},
	}
}

func TestCompensation(t *testing.T) {
	// A call costs 30 ticks, 10 to 20 of them inside the call.
	opts := Options{Compensation: &Compensation{Cost: calls.ProbeCost{Low: 30_000, High: 30_000}}}
	r := collect(t, opts, nested()...).Report(0)
	// Function 1 has 2 calls, which make 3, and the outermost has 4 inside. Function 2 has 2
	// calls, which make 1. Function 3 has 1 call.
	want := []timed{
		{550 - 2*15 - 3*15, 550 - 2*10 - 3*20, 550 - 2*20 - 3*10, 550, 1000 - 15 - 4*30, 1000 - 20 - 4*30, 1000 - 10 - 4*30, 1000},
		{350 - 2*15 - 15, 350 - 2*20 - 10, 350 - 2*10 - 20, 350, 450 - 2*15 - 30, 450 - 2*20 - 30, 450 - 2*10 - 30, 450},
		{100 - 15, 100 - 20, 100 - 10, 100, 100 - 15, 100 - 20, 100 - 10, 100},
	}
	// Function 1 makes more calls than it has, so its bounds are in reverse order.
	want[0].selfLow, want[0].selfHigh = min(want[0].selfLow, want[0].selfHigh), max(want[0].selfLow, want[0].selfHigh)
	for i := range want {
		if got := timesOf(&r.Rows[i]); got != want[i] {
			t.Errorf("function %d: got %+v, want %+v", i+1, got, want[i])
		}
	}
	if sum := want[0].self + want[1].self + want[2].self; r.Self.Lo != sum {
		t.Errorf("got %d of self time, want %d", r.Self.Lo, sum)
	}
}

// A range of costs widens the bounds, and times that it exceeds become 0.
func TestCompensationBounds(t *testing.T) {
	opts := Options{Compensation: &Compensation{Cost: calls.ProbeCost{Low: 30_000, High: 600_000}}}
	r := collect(t, opts, call(1, 250)).Report(0)
	want := timed{250 - 315/2 - 1, 0, 240, 250, 250 - 315/2 - 1, 0, 240, 250}
	if got := timesOf(&r.Rows[0]); got != want && got != (timed{93, 0, 240, 250, 93, 0, 240, 250}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	opts.Compensation.Cost = calls.ProbeCost{Low: 600_000, High: 600_000}
	r = collect(t, opts, call(1, 250)).Report(0)
	if c := r.Rows[0].Compensated; r.Rows[0].Self.Lo != 0 || !c.Exceeds {
		t.Errorf("got %+v", c)
	}
}

// The cost inside a call is at most the average duration of functions without callees.
func TestShortestCallBoundsWhatIsInside(t *testing.T) {
	var list []calls.Call
	for range enoughCalls {
		list = append(list, calls.Call{Func: 2, Duration: 5, Self: 5, Depth: 1})
	}
	list = append(list, calls.Call{Func: 1, Duration: 5000, Self: 4500})
	opts := Options{Compensation: &Compensation{Cost: calls.ProbeCost{Low: 30_000, High: 30_000}}}
	r := collect(t, opts, list...).Report(0)
	want := []timed{
		{4500 - 5 - 25*enoughCalls, 4500 - 5 - 25*enoughCalls, 4500 - 5 - 25*enoughCalls, 4500, 1995, 1995, 1995, 5000},
		{0, 0, 0, 500, 0, 0, 0, 500},
	}
	for i := range want {
		if got := timesOf(&r.Rows[i]); got != want[i] {
			t.Errorf("function %d: got %+v, want %+v", i+1, got, want[i])
		}
	}
}

// Compensation removes the cost of probes that were added to a trace, to the tick, whatever calls
// are selected and however they are sharded.
func TestCompensationUndoesProbes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inside := rapid.Uint64Range(0, 50).Draw(t, "half")
		split := calls.ProbeSplit{Inside: inside, Outside: inside}
		cost := calls.ProbeCost{Low: 1000 * split.Call(), High: 1000 * split.Call()}
		plain, probed := New(Options{}), New(Options{Compensation: &Compensation{Cost: cost}})
		chosen := reader.FuncID(rapid.IntRange(1, 4).Draw(t, "chosen"))
		keep := func(c *calls.Call) bool { return c.Func == chosen }
		some := New(Options{Compensation: &Compensation{Cost: cost, Keep: func() func(*calls.Call) bool { return keep }}})
		for thread := range rapid.IntRange(1, 3).Draw(t, "threads") {
			free, slow := drawTree(t, split)
			shard := New(Options{Compensation: &Compensation{Cost: cost}})
			for _, b := range []struct {
				to   *Analysis
				list []calls.Call
			}{{plain, free}, {shard, slow}, {some, slow}} {
				if err := b.to.Calls(&calls.Batch{Index: thread, Calls: b.list}); err != nil {
					t.Fatal(err)
				}
			}
			probed.Merge(shard)
		}
		want, got := plain.Report(0), probed.Report(0)
		for i := range want.Rows {
			w, g := &want.Rows[i], &got.Rows[i]
			// Calls of 0 ticks may be shorter than the half of the cost that is
			// attributed to their inside.
			if w.Func != g.Func || w.Self != g.Self || w.Total != g.Total {
				t.Fatalf("got %+v, want %+v", g, w)
			}
			if w.Self.Compare(g.Compensated.SelfLow) < 0 || w.Self.Compare(g.Compensated.SelfHigh) > 0 {
				t.Fatalf("%v is outside the bounds %v and %v", w.Self, g.Compensated.SelfLow, g.Compensated.SelfHigh)
			}
		}
		for _, row := range some.Report(0).Rows {
			i := 0
			for got.Rows[i].Func != row.Func {
				i++
			}
			if diff := gocmp.Diff(got.Rows[i].Compensated, row.Compensated); row.Func != chosen || diff != "" {
				t.Fatalf("function %d: (-all +chosen):\n%s", row.Func, diff)
			}
		}
	})
}

// drawTree draws the calls of a thread, with and without probes.
func drawTree(t *rapid.T, s calls.ProbeSplit) (free, probed []calls.Call) {
	var draw func(depth uint32, open [5]int) (freeTime, probedTime uint64)
	draw = func(depth uint32, open [5]int) (uint64, uint64) {
		fn := rapid.IntRange(1, 4).Draw(t, "function")
		isNested := open[fn] > 0
		open[fn]++
		self := rapid.Uint64Range(100, 1000).Draw(t, "self")
		freeTime, probedTime, probedSelf := self, self+s.Inside, self+s.Inside
		if depth < 4 {
			for range rapid.IntRange(0, 2).Draw(t, "callees") {
				f, p := draw(depth+1, open)
				freeTime += f
				probedTime += p + s.Outside
				probedSelf += s.Outside
			}
		}
		c := calls.Call{Func: reader.FuncID(fn), Depth: depth, Nested: isNested}
		c.Duration, c.Self = freeTime, self
		free = append(free, c)
		c.Duration, c.Self = probedTime, probedSelf
		probed = append(probed, c)
		return freeTime, probedTime
	}
	draw(0, [5]int{})
	return free, probed
}

// Calls that were only counted have no times to compensate.
func TestCompensationOfCounts(t *testing.T) {
	a := New(Options{Compensation: &Compensation{Cost: calls.ProbeCost{High: 1000}}})
	a.Count(reader.Thread{}, 0, 1, 7)
	for _, format := range report.Formats {
		var out strings.Builder
		doc := report.Doc{Clock: reader.Clock{Frequency: 1e9}, Body: a.Report(1e9).Body(nil, View{})}
		if err := doc.Write(&out, report.Style{Format: format}); err != nil || !strings.Contains(out.String(), "7") {
			t.Errorf("%s: got error %v\n%s", format, err, out.String())
		}
		if format == report.Text && strings.Contains(out.String(), "self") {
			t.Errorf("got times of counted calls:\n%s", out.String())
		}
	}
}

// Profiles have no individual calls.
func TestCompensationOfProfiles(t *testing.T) {
	a := New(Options{Compensation: &Compensation{Cost: calls.ProbeCost{High: 1}}})
	if err := a.Sums(&calls.Sums{}); err == nil {
		t.Error("no error")
	}
	if got := calls.ProbeTicks(3, 500); got != quantile.NewSum(2) {
		t.Errorf("got %v", got)
	}
}
