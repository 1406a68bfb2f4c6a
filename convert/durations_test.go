package convert

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader/calls"
)

// Longest keeps at most the requested number of calls. Calls of the same duration are kept
// or omitted together.
func TestLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.SliceOf(rapid.OneOf(rapid.Uint64Range(0, 100), rapid.Uint64Range(0, math.MaxUint64-1<<60))).Draw(t, "durations")
		most := rapid.Uint64Range(0, 20).Draw(t, "most")
		d := &LengthCounts{}
		b := &calls.Batch{}
		for _, v := range durations {
			b.Calls = append(b.Calls, calls.Call{Duration: v, Self: v / 4})
		}
		if err := d.Calls(b); err != nil {
			t.Fatal(err)
		}
		choices := d.Choices()
		chosen := LongestCalls(choices, most)
		for i, got := range choices {
			want := LengthChoice{Shortest: got.Shortest}
			for _, v := range durations {
				if v >= got.Shortest {
					want.Kept++
					want.KeptSelf += v / 4
				} else {
					want.Left++
					want.LeftSelf += v / 4
				}
			}
			if got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			if i > 0 && got.Kept <= choices[i-1].Kept {
				t.Fatalf("%+v comes after %+v", got, choices[i-1])
			}
			if (got.Kept <= most) != (i <= chosen) {
				t.Fatalf("got %+v of %+v", choices[chosen], choices)
			}
		}
		if all := choices[len(choices)-1]; all.Left > 0 {
			t.Fatalf("not all were chosen: %+v", all)
		}
	})
}
