package convert

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestCounter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c counter
		near := rapid.Uint64().Draw(t, "near")
		for _, v := range rapid.SliceOf(rapid.OneOf(
			rapid.Map(rapid.Uint64Range(0, 1000), func(d uint64) uint64 { return near + d }),
			rapid.Uint64(),
			rapid.Uint64Range(lowRange-5, lowRange+5),
			rapid.SampledFrom([]uint64{0, 9_999_9999, lowRange * 10, math.MaxUint64}),
		)).Draw(t, "numbers") {
			if got, want := string(c.append(nil, v)), strconv.FormatUint(v, 10); got != want {
				t.Fatalf("got %[2]s, want %[1]s", want, got)
			}
			if got, want := string(c.appendSigned(nil, int64(v))), strconv.FormatInt(int64(v), 10); got != want {
				t.Fatalf("got %[2]s, want %[1]s", want, got)
			}
		}
	})
}

// TestEightDigits steps through the range, so that every pair of digits is in
// every place.
func TestEightDigits(t *testing.T) {
	for v := uint32(0); v < lowRange; v += 997 {
		want := strconv.Itoa(int(v) + lowRange)[1:]
		if got := string(appendEightDigits(nil, v)); got != want {
			t.Fatalf("got %[2]s, want %[1]s", want, got)
		}
	}
}
