package reader

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// exact returns ticks/frequency in units of 10^-exp seconds with the given number of decimals,
// computed with big rationals.
func exact(ticks, frequency uint64, exp, decimals int) *big.Int {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exp+decimals)), nil)
	n := new(big.Int).Mul(new(big.Int).SetUint64(ticks), scale)
	f := new(big.Int).SetUint64(frequency)
	q, r := new(big.Int).QuoRem(n, f, new(big.Int))
	switch r.Lsh(r, 1).Cmp(f) {
	case 1:
		q.Add(q, big.NewInt(1))
	case 0:
		q.Add(q, big.NewInt(int64(q.Bit(0))))
	}
	return q
}

func exactText(ticks, frequency uint64, exp, decimals int) string {
	s := exact(ticks, frequency, exp, decimals).String()
	for len(s) <= decimals {
		s = "0" + s
	}
	if decimals == 0 {
		return s
	}
	return s[:len(s)-decimals] + "." + s[len(s)-decimals:]
}

// genTicks prefers the ends of the range and values of real clocks.
var genTicks = rapid.OneOf(
	rapid.Uint64(),
	rapid.Uint64Range(0, 10_000),
	rapid.Uint64Range(1_795_215_991_362_020_957, 1_895_215_991_362_020_957),
	rapid.Uint64Range(math.MaxUint64-10, math.MaxUint64),
)

var genFrequency = rapid.OneOf(
	rapid.SampledFrom([]uint64{1, 2, 3, 1_000, nanosPerSecond, 2_400_000_000, 3_000_000_001, math.MaxUint64}),
	rapid.Uint64Range(1, math.MaxUint64),
	rapid.Uint64Range(1_000_000, 6_000_000_000),
)

func TestNanosIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ticks, frequency := genTicks.Draw(t, "ticks"), genFrequency.Draw(t, "frequency")
		want := exact(ticks, frequency, 9, 0)
		if limit := new(big.Int).SetUint64(math.MaxUint64); want.Cmp(limit) > 0 {
			want = limit
		}
		if got := (Clock{frequency}).Nanos(ticks); got != want.Uint64() {
			t.Fatalf("Nanos(%d) at %d Hz = %d, want %s", ticks, frequency, got, want)
		}
	})
}

// TestNanosAtItsLimit tests numbers next to the largest that fit.
func TestNanosAtItsLimit(t *testing.T) {
	tests := []struct{ frequency, ticks, want uint64 }{
		{1, 18_446_744_073, 18_446_744_073_000_000_000},
		{1, 18_446_744_074, math.MaxUint64}, // the quotient needs 65 bits
		{999_999_999, 18_446_744_055_262_807_540, math.MaxUint64 - 1},
		{999_999_999, 18_446_744_055_262_807_542, math.MaxUint64}, // and would be rounded up
		{999_999_999, 18_446_744_055_262_807_543, math.MaxUint64},
		{2, math.MaxUint64, math.MaxUint64},
	}
	for _, test := range tests {
		if got := (Clock{test.frequency}).Nanos(test.ticks); got != test.want {
			t.Errorf("Nanos(%d) at %d Hz = %d, want %d", test.ticks, test.frequency, got, test.want)
		}
	}
}

func TestNanosKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Clock{genFrequency.Draw(t, "frequency")}
		a := genTicks.Draw(t, "a")
		b := a + rapid.Uint64Range(0, math.MaxUint64-a).Draw(t, "step")
		if c.Nanos(a) > c.Nanos(b) {
			t.Fatalf("not monotonic: %d ticks are %d ns, but %d ticks are %d ns", a, c.Nanos(a), b, c.Nanos(b))
		}
	})
}

func TestAppendIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Clock{genFrequency.Draw(t, "frequency")}
		ticks := genTicks.Draw(t, "ticks")
		decimals := rapid.IntRange(0, 9).Draw(t, "decimals")
		if got, want := string(c.AppendSeconds(nil, ticks, decimals)), exactText(ticks, c.Frequency, 0, decimals); got != want {
			t.Errorf("AppendSeconds(%d, %d) at %d Hz = %s, want %s", ticks, decimals, c.Frequency, got, want)
		}
		if got, want := string(c.AppendMicros(nil, ticks, decimals)), exactText(ticks, c.Frequency, 6, decimals); got != want {
			t.Errorf("AppendMicros(%d, %d) at %d Hz = %s, want %s", ticks, decimals, c.Frequency, got, want)
		}
	})
}

func TestUnknownFrequency(t *testing.T) {
	c := Clock{}
	if c.Known() || c.Unit() != "ticks" {
		t.Errorf("Known() = %t, Unit() = %q", c.Known(), c.Unit())
	}
	if got := c.Nanos(12345); got != 12345 {
		t.Errorf("Nanos = %d", got)
	}
	if got := string(c.AppendMicros([]byte("t="), 12345, 3)); got != "t=12345" {
		t.Errorf("AppendMicros = %q", got)
	}
	if got := string(c.AppendSeconds(nil, 12345, 6)); got != "12345" {
		t.Errorf("AppendSeconds = %q", got)
	}
	if got := c.Format(12345); got != "12345 ticks" {
		t.Errorf("Format = %q", got)
	}
}

func TestFormat(t *testing.T) {
	const ghz = nanosPerSecond
	tests := []struct {
		frequency, ticks uint64
		want             string
	}{
		{ghz, 0, "0ns"},
		{ghz, 999, "999ns"},
		{3 * ghz, 1, "0ns"},
		{3 * ghz, 2, "1ns"},
		{3 * ghz, 2_999, "1.000us"},
		{ghz, 1_000, "1.000us"},
		{ghz, 9_999, "9.999us"},
		{ghz, 12_345, "12.34us"},
		{ghz, 12_346, "12.35us"},
		{ghz, 99_994, "99.99us"},
		{ghz, 99_995, "100.0us"},
		{ghz, 999_949, "999.9us"},
		{ghz, 999_950, "1.000ms"},
		{ghz, 9_999_499, "9.999ms"},
		{ghz, 9_999_500, "10.00ms"},
		{ghz, 999_949_999, "999.9ms"},
		{ghz, 999_950_000, "1.000s"},
		{ghz, 61_500_000_000, "61.50s"},
		{ghz, 999_949_999_999, "999.9s"},
		{ghz, 999_950_000_000, "1000s"},
		{ghz, 12_345_600_000_000, "12346s"},
		{1, math.MaxUint64, "18446744073709551615s"},
	}
	for _, test := range tests {
		if got := (Clock{test.frequency}).Format(test.ticks); got != test.want {
			t.Errorf("Format(%d) at %d Hz = %q, want %q", test.ticks, test.frequency, got, test.want)
		}
	}
}

func BenchmarkNanos(b *testing.B) {
	for name, c := range map[string]Clock{"frequency=1GHz": {nanosPerSecond}, "frequency=2.4GHz": {2_400_000_000}} {
		b.Run(name, func(b *testing.B) {
			var sum, ticks uint64
			for b.Loop() {
				ticks += 1_234_567
				sum += c.Nanos(ticks)
			}
			if sum == 0 {
				b.Fatal("no time passed")
			}
		})
	}
}
