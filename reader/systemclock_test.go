package reader_test

import (
	"testing"

	"github.com/xray-tools/xray/reader"
)

func TestTSCOfSystemClocks(t *testing.T) {
	c := reader.RecordedClock{Frequency: 2_000_000_000, Anchors: []reader.Anchor{
		{TSC: 1000, Raw: 10_000_000, Real: 50_000_000},
		{TSC: 4_001_000, Raw: 12_000_000, Real: 52_000_000, Mono: 22_000_000},
		{TSC: 8_001_000, Raw: 14_000_000, Real: 54_000_100, Mono: 26_000_000}, // half as fast
		{TSC: 12_001_000, Raw: 16_000_000, Real: 56_000_000, Mono: 28_000_000},
	}}
	for _, test := range []struct {
		clock      reader.SystemClock
		nanos, tsc uint64
	}{
		{reader.MonotonicRaw, 10_000_000, 1000},
		{reader.MonotonicRaw, 13_000_000, 6_001_000},
		{reader.MonotonicRaw, 9_999_900, 800},
		{reader.MonotonicRaw, 20_000_000, 20_001_000},
		{reader.Realtime, 51_000_000, 2_001_000},
		{reader.Monotonic, 24_000_000, 6_001_000},
		{reader.Monotonic, 27_000_000, 10_001_000},
		{reader.Monotonic, 20_000_000, 2_001_000},
	} {
		if tsc, ok := c.TSC(test.clock, test.nanos); !ok || tsc != test.tsc {
			t.Errorf("clock %d at %d: got %d, %v; want %d", test.clock, test.nanos, tsc, ok, test.tsc)
		}
	}
	for _, nanos := range []uint64{0, 1 << 63} {
		if tsc, ok := c.TSC(reader.MonotonicRaw, nanos); ok && nanos == 0 {
			t.Errorf("got %d at %d, want none", tsc, nanos)
		}
	}
	c.Anchors = c.Anchors[:1]
	if _, ok := c.TSC(reader.Monotonic, 5); ok {
		t.Error("got a time of a clock that was not read")
	}
	if tsc, ok := c.TSC(reader.MonotonicRaw, 10_000_500); !ok || tsc != 2000 {
		t.Errorf("with one anchor: got %d, %v", tsc, ok)
	}
}
