package account

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/probecost"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
)

// timed are the times of a row: self and total, as they are, at least, at most, and
// recorded.
type timed struct{ self, selfLow, selfHigh, selfWas, total, totalLow, totalHigh, totalWas uint64 }

func timesOf(row *Row) timed {
	c := row.Compensated
	return timed{
		row.Self.Lo, c.SelfLow.Lo, c.SelfHigh.Lo, c.RecordedSelf.Lo,
		row.Total.Lo, c.TotalLow.Lo, c.TotalHigh.Lo, c.RecordedTotal.Lo,
	}
}

// nested is 1 calling 2 twice, of which the first calls 3; then 1 calls itself.
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
	// 30 ticks a call, of which 10 to 20 are inside.
	opts := Options{Compensation: &Compensation{Cost: probecost.Cost{Low: 30_000, High: 30_000}}}
	r := collect(t, opts, nested()...).Report(0)
	// Function 1: 2 calls, which make 3; the outermost has 4 inside. Function 2: 2
	// calls, which make 1. Function 3: 1 call.
	want := []timed{
		{550 - 2*15 - 3*15, 550 - 2*10 - 3*20, 550 - 2*20 - 3*10, 550, 1000 - 15 - 4*30, 1000 - 20 - 4*30, 1000 - 10 - 4*30, 1000},
		{350 - 2*15 - 15, 350 - 2*20 - 10, 350 - 2*10 - 20, 350, 450 - 2*15 - 30, 450 - 2*20 - 30, 450 - 2*10 - 30, 450},
		{100 - 15, 100 - 20, 100 - 10, 100, 100 - 15, 100 - 20, 100 - 10, 100},
	}
	// More calls made than were: the bounds of function 1 are the other way round.
	want[0].selfLow, want[0].selfHigh = min(want[0].selfLow, want[0].selfHigh), max(want[0].selfLow, want[0].selfHigh)
	for i := range want {
		if got := timesOf(&r.Rows[i]); got != want[i] {
			t.Errorf("function %d: %+v, want %+v", i+1, got, want[i])
		}
	}
	if sum := want[0].self + want[1].self + want[2].self; r.Self.Lo != sum {
		t.Errorf("%d of self time, want %d", r.Self.Lo, sum)
	}
}

// A cost that lies between bounds widens them, and what it exceeds becomes 0.
func TestCompensationBounds(t *testing.T) {
	opts := Options{Compensation: &Compensation{Cost: probecost.Cost{Low: 30_000, High: 600_000}}}
	r := collect(t, opts, call(1, 250)).Report(0)
	want := timed{250 - 315/2 - 1, 0, 240, 250, 250 - 315/2 - 1, 0, 240, 250}
	if got := timesOf(&r.Rows[0]); got != want && got != (timed{93, 0, 240, 250, 93, 0, 240, 250}) {
		t.Errorf("%+v, want %+v", got, want)
	}
	opts.Compensation.Cost = probecost.Cost{Low: 600_000, High: 600_000}
	r = collect(t, opts, call(1, 250)).Report(0)
	if c := r.Rows[0].Compensated; r.Rows[0].Self.Lo != 0 || !c.Exceeds {
		t.Errorf("%+v", c)
	}
}

// No more can be inside a call than functions that call nothing last on average.
func TestShortestCallBoundsWhatIsInside(t *testing.T) {
	var list []calls.Call
	for range enoughCalls {
		list = append(list, calls.Call{Func: 2, Duration: 5, Self: 5, Depth: 1})
	}
	list = append(list, calls.Call{Func: 1, Duration: 5000, Self: 4500})
	opts := Options{Compensation: &Compensation{Cost: probecost.Cost{Low: 30_000, High: 30_000}}}
	r := collect(t, opts, list...).Report(0)
	want := []timed{
		{4500 - 5 - 25*enoughCalls, 4500 - 5 - 25*enoughCalls, 4500 - 5 - 25*enoughCalls, 4500, 1995, 1995, 1995, 5000},
		{0, 0, 0, 500, 0, 0, 0, 500},
	}
	for i := range want {
		if got := timesOf(&r.Rows[i]); got != want[i] {
			t.Errorf("function %d: %+v, want %+v", i+1, got, want[i])
		}
	}
}

// Probes added to the calls of a trace are taken out of it again, to the tick, whatever
// is chosen of the calls, and however they are shared among shards.
func TestCompensationUndoesProbes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inside := rapid.Uint64Range(0, 50).Draw(t, "half")
		split := probecost.Split{Inside: inside, Outside: inside}
		cost := probecost.Cost{Low: 1000 * split.Call(), High: 1000 * split.Call()}
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
			// Calls of 0 ticks may be shorter than half of the cost is said to be inside.
			if w.Func != g.Func || w.Self != g.Self || w.Total != g.Total {
				t.Fatalf("%+v, want %+v", g, w)
			}
			if w.Self.Compare(g.Compensated.SelfLow) < 0 || w.Self.Compare(g.Compensated.SelfHigh) > 0 {
				t.Fatalf("%v is not from %v to %v", w.Self, g.Compensated.SelfLow, g.Compensated.SelfHigh)
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

// drawTree draws the calls of a thread, without and with probes.
func drawTree(t *rapid.T, s probecost.Split) (free, probed []calls.Call) {
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

// Calls that were only counted have no times that something could be taken out of.
func TestCompensationOfCounts(t *testing.T) {
	a := New(Options{Compensation: &Compensation{Cost: probecost.Cost{High: 1000}}})
	a.Count(reader.Thread{}, 0, 1, 7)
	for _, format := range report.Formats {
		var out strings.Builder
		doc := report.Doc{Clock: reader.Clock{Frequency: 1e9}, Body: a.Report(1e9).Body(nil, View{})}
		if err := doc.Write(&out, report.Style{Format: format}); err != nil || !strings.Contains(out.String(), "7") {
			t.Errorf("%s: %v\n%s", format, err, out.String())
		}
		if format == report.Text && strings.Contains(out.String(), "self") {
			t.Errorf("times of what was counted:\n%s", out.String())
		}
	}
}

// Profiles have no single calls.
func TestCompensationOfProfiles(t *testing.T) {
	a := New(Options{Compensation: &Compensation{Cost: probecost.Cost{High: 1}}})
	if err := a.Sums(&calls.Sums{}); err == nil {
		t.Error("no error")
	}
	if got := probecost.Ticks(3, 500); got != quantile.NewSum(2) {
		t.Errorf("%v", got)
	}
}
