package survey

import (
	"math"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// Durations of about four digits end, whatever a file claims.
func TestRounded(t *testing.T) {
	for ticks, want := range map[uint64]string{0: "0s", 123456: "123.5µs", math.MaxUint64: "2561944h26m40s"} {
		if got := rounded(reader.Clock{Frequency: 1e9}, ticks).String(); got != want {
			t.Errorf("%d ticks: got %s, want %s", ticks, got, want)
		}
	}
}
