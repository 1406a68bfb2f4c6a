package calls_test

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader/calls"
)

func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, cost := rapid.Uint64().Draw(t, "n"), rapid.Uint64().Draw(t, "cost")
		want := new(big.Int).Mul(new(big.Int).SetUint64(n), new(big.Int).SetUint64(cost))
		want.Add(want, big.NewInt(500)).Quo(want, big.NewInt(1000))
		if got := calls.ProbeTicks(n, cost).Big(); got.Cmp(want) != 0 {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// The parts of any split add up to a cost within the bounds.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := calls.ProbeCost{Low: rapid.Uint64Range(0, 1e9).Draw(t, "low")}
		c.High = c.Low + rapid.Uint64Range(0, 1e9).Draw(t, "more")
		most := rapid.Uint64Range(0, 1e9).Draw(t, "most")
		half, extremes := c.Half(most), c.Extremes(most)
		if half.Call() != (c.Low+c.High)/2 || half.Inside > most {
			t.Fatalf("%+v of %+v", half, c)
		}
		for i, s := range extremes {
			if s.Inside > most || s.Call() != [2]uint64{c.Low, c.High}[i/2] {
				t.Fatalf("%+v of %+v", extremes, c)
			}
		}
	})
}
