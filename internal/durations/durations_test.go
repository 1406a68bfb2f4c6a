package durations

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/xray-tools/xray/reader/calls"
)

// The longest that there is room for are at most as many, and all of one duration
// stay or go together.
func TestLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.SliceOf(rapid.OneOf(rapid.Uint64Range(0, 100), rapid.Uint64Range(0, math.MaxUint64-1<<60))).Draw(t, "durations")
		most := rapid.Uint64Range(0, 20).Draw(t, "most")
		d := &Counts{}
		b := &calls.Batch{}
		for _, v := range durations {
			b.Calls = append(b.Calls, calls.Call{Duration: v})
		}
		if err := d.Calls(b); err != nil {
			t.Fatal(err)
		}
		shortest, left := d.Longest(most)
		var kept, gone uint64
		for _, v := range durations {
			if v >= shortest {
				kept++
			} else {
				gone++
			}
		}
		full := uint64(len(durations)) > most
		if gone != left || full != (left > 0) || kept > most {
			t.Fatalf("from %d on: %d kept, %d left out; %d said", shortest, kept, gone, left)
		}
	})
}
