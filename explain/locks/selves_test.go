package locks

import (
	"math/rand/v2"
	"slices"
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

// Each hold has the sums of the self times since it began, whatever the IDs and however late ops are processed. The
// list grows only with the functions.
func TestSelves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var a adder
	for _, ids := range [][]reader.FuncID{{3}, {1, smallIDs - 1, 2}, {smallIDs, 1 << 30, -5, 7}} {
		th := &thread{}
		var pending []int            // by op
		var spent []selfTime         // all, in order
		var before []int             // of spent, by op
		began := make(map[*hold]int) // of spent
		for op := 0; op < 2000; {
			for range rng.IntN(30) {
				s := selfTime{ids[rng.IntN(len(ids))], uint64(rng.IntN(100))}
				spent = append(spent, s)
				th.selves.add(&a, s)
			}
			pending, before = append(pending, th.selves.emit()), append(before, len(spent))
			for len(pending)-op > rng.IntN(20) {
				th.selves.pass(pending[op])
				switch n := len(th.holds); {
				case n > 0 && rng.IntN(2) == 0:
					i := rng.IntN(n)
					want, got := make(map[reader.FuncID]uint64), make(map[reader.FuncID]uint64)
					for _, s := range spent[began[th.holds[i]]:before[op]] {
						want[s.fn] += s.ticks
					}
					list := a.since(&th.selves, th.holds[i].since)
					for _, s := range list {
						got[s.fn] = s.ticks
					}
					if diff := cmp.Diff(want, got); diff != "" || len(list) != len(want) {
						t.Fatalf("op %d, %d entries (-want +got):\n%s", op, len(list), diff)
					}
					th.holds = slices.Delete(th.holds, i, i+1)
				case n < 4:
					h := &hold{since: th.selves.passed}
					began[h] = before[op]
					th.holds = append(th.holds, h)
				}
				th.trim(&a)
				op++
			}
			if most := 2*(len(th.holds)+2)*len(ids) + 2*leastSelves + 20*30; len(th.selves.list) > most {
				t.Fatalf("%d entries for %d functions", len(th.selves.list), len(ids))
			}
		}
		// Nothing but an op ends what one op has.
		for range 10 * leastSelves {
			th.selves.add(&a, selfTime{ids[0], 1})
		}
		if n := th.selves.emit(); n > leastSelves {
			t.Errorf("%d entries of one function since the latest op", n)
		}
	}
}
