package locks

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

// A path keeps the functions with the most time, independent of map order, and loses no time.
func TestSelvesOfManyFunctions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	holds := make([]map[reader.FuncID]uint64, 50)
	all, heavy := uint64(0), uint64(0)
	for i := range holds {
		holds[i] = map[reader.FuncID]uint64{7: 100_000}
		heavy += 100_000
		for range rng.IntN(400) {
			holds[i][reader.FuncID(10+rng.IntN(3000))] = uint64(rng.IntN(1000))
		}
		for _, ticks := range holds[i] {
			all += ticks
		}
	}
	var first []selfTime
	for range 5 {
		var p pathSum
		for _, hold := range holds {
			p.spend(selvesOf(hold))
		}
		sum := uint64(0)
		for i, s := range p.self {
			sum += s.ticks
			if s.fn == 7 && s.ticks != heavy || i > 0 && p.self[i-1].fn >= s.fn {
				t.Errorf("got %+v", p.self)
			}
		}
		if sum != all || len(p.self) != maxSelves+1 || p.self[0].fn != reader.Folded {
			t.Errorf("got %d of %d ticks in %d functions, first #%d", sum, all, len(p.self), p.self[0].fn)
		}
		if first == nil {
			first = p.self
		} else if diff := cmp.Diff(first, p.self, cmp.AllowUnexported(selfTime{})); diff != "" {
			t.Fatal(diff)
		}
	}
	var few pathSum
	few.spend([]selfTime{{3, 1}, {2, 5}})
	few.spend([]selfTime{{3, 4}})
	if diff := cmp.Diff([]selfTime{{2, 5}, {3, 5}}, few.self, cmp.AllowUnexported(selfTime{})); diff != "" {
		t.Error(diff)
	}
}

func selvesOf(ticks map[reader.FuncID]uint64) []selfTime {
	var list []selfTime
	for fn, t := range ticks {
		list = append(list, selfTime{fn, t})
	}
	return list
}

// A tally has the sums of what was added, whatever the IDs, and grows only with the functions.
func TestTally(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var a adder
	for _, ids := range [][]reader.FuncID{{3}, {1, smallIDs - 1, 2}, {smallIDs, 1 << 30, -5, 7}} {
		var sums tally
		want := make(map[reader.FuncID]uint64)
		for range 1000 {
			s := selfTime{ids[rng.IntN(len(ids))], uint64(rng.IntN(100))}
			want[s.fn] += s.ticks
			a.add(&sums, s)
			if len(sums.list) > leastTally+2*len(ids)+1 {
				t.Fatalf("%d entries for %d functions", len(sums.list), len(ids))
			}
		}
		got := make(map[reader.FuncID]uint64)
		list := a.sum(sums.list)
		for _, s := range list {
			got[s.fn] = s.ticks
		}
		if diff := cmp.Diff(want, got); diff != "" || len(list) != len(want) {
			t.Errorf("%d entries (-want +got):\n%s", len(list), diff)
		}
	}
}
