package reader

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Clock converts ticks of a trace's clock to time.
//
// A trace counts ticks and states how many there are per second. Analyses add and compare
// ticks, and only output is converted: exactly, in 128-bit integers, rounded once to the
// nearest printed digit (ties go to the even digit). Rounding never reverses the order of
// two times, so nested calls stay nested after conversion.
//
// A frequency of 0, as in the zero value, means that the trace does not state its clock
// frequency. Then every conversion leaves ticks unchanged, and [Clock.Unit] and [Clock.Format]
// say so. All methods are pure, and so safe for concurrent use.
type Clock struct {
	Frequency uint64 // ticks per second; 0 if unknown
}

// Known reports whether ticks can be converted to time.
func (c Clock) Known() bool { return c.Frequency != 0 }

// Unit is the unit of [Clock.Nanos]: "ns", or "ticks" if the frequency is unknown.
func (c Clock) Unit() string {
	if c.Known() {
		return "ns"
	}
	return "ticks"
}

// Nanos converts ticks to nanoseconds, rounded to the nearest. It returns the largest
// number for times beyond 584 years. If the frequency is unknown, it returns the ticks.
func (c Clock) Nanos(ticks uint64) uint64 {
	if c.Frequency == nanosPerSecond || c.Frequency == 0 {
		return ticks
	}
	hi, lo := bits.Mul64(ticks, nanosPerSecond)
	if hi >= c.Frequency {
		return math.MaxUint64
	}
	q, r := bits.Div64(hi, lo, c.Frequency)
	if roundsUp(q, r, c.Frequency) && q != math.MaxUint64 {
		q++
	}
	return q
}

// Ticks converts nanoseconds to ticks, rounded to the nearest. It returns the largest
// number if there are more. If the frequency is unknown, it returns the nanoseconds.
func (c Clock) Ticks(nanos uint64) uint64 {
	if c.Frequency == nanosPerSecond || c.Frequency == 0 {
		return nanos
	}
	hi, lo := bits.Mul64(nanos, c.Frequency)
	if hi >= nanosPerSecond {
		return math.MaxUint64
	}
	q, r := bits.Div64(hi, lo, nanosPerSecond)
	if roundsUp(q, r, nanosPerSecond) && q != math.MaxUint64 {
		q++
	}
	return q
}

// Parse parses a time, a duration (1.5s) or a number of ticks (1000ticks), and returns its ticks, rounded down.
// It returns the largest number if there are more. A duration is an error if the frequency is unknown.
func (c Clock) Parse(text string) (ticks uint64, err error) {
	if digits, ok := strings.CutSuffix(text, "ticks"); ok {
		if ticks, err = strconv.ParseUint(strings.TrimSpace(digits), 10, 64); err != nil {
			return 0, fmt.Errorf("%q is not a number of ticks", text)
		}
		return ticks, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a time: write 1.5s, 200ms, 3us or 1000ticks", text)
	}
	if !c.Known() {
		return 0, fmt.Errorf("the trace does not state its clock frequency: write %q in ticks, as in 1000ticks", text)
	}
	hi, lo := bits.Mul64(uint64(d), c.Frequency)
	if hi >= nanosPerSecond {
		return math.MaxUint64, nil
	}
	ticks, _ = bits.Div64(hi, lo, nanosPerSecond)
	return ticks, nil
}

// AppendSeconds appends ticks as seconds with the given number of decimals, 0
// to 9. The value is never saturated. Ticks of unknown frequency are appended
// as an integer.
func (c Clock) AppendSeconds(dst []byte, ticks uint64, decimals int) []byte {
	return c.appendScaled(dst, ticks, 0, decimals)
}

// AppendMicros appends ticks as microseconds with the given number of decimals,
// 0 to 9; 3 show whole nanoseconds. The value is never saturated. Ticks of
// unknown frequency are appended as an integer.
func (c Clock) AppendMicros(dst []byte, ticks uint64, decimals int) []byte {
	return c.appendScaled(dst, ticks, 6, decimals)
}

// Format returns ticks with a unit that suits their size and at most four significant
// digits: "87ns", "1.234us", "56.78ms", "901.2s", "12345s"; or "1234 ticks" if the
// frequency is unknown.
func (c Clock) Format(ticks uint64) string {
	var buf [32]byte
	return string(c.AppendFormat(buf[:0], ticks))
}

// AppendFormat appends what [Clock.Format] returns.
func (c Clock) AppendFormat(dst []byte, ticks uint64) []byte {
	if !c.Known() {
		return append(strconv.AppendUint(dst, ticks, 10), " ticks"...)
	}
	// Each step ends where four digits would round up to the next unit, so that 999.96us
	// becomes 1.000ms.
	ns := c.Nanos(ticks)
	switch {
	case ns < 1_000:
		return append(strconv.AppendUint(dst, ns, 10), "ns"...)
	case ns < 999_950:
		return append(c.appendFourDigits(dst, ticks, ns, 1_000, 6), "us"...)
	case ns < 999_950_000:
		return append(c.appendFourDigits(dst, ticks, ns, 1_000_000, 3), "ms"...)
	}
	return append(c.appendFourDigits(dst, ticks, ns, nanosPerSecond, 0), 's')
}

// appendFourDigits appends ticks, which are ns nanoseconds, in a unit of so many
// nanoseconds, 10^-exp seconds.
func (c Clock) appendFourDigits(dst []byte, ticks, ns, unit uint64, exp int) []byte {
	thousandth := unit / 1_000
	decimals := 0
	switch {
	case ns < (19_999*thousandth+1)/2: // 9.9995 units, rounded up to a whole ns
		decimals = 3
	case ns < 99_995*thousandth:
		decimals = 2
	case ns < 999_950*thousandth:
		decimals = 1
	}
	return c.appendScaled(dst, ticks, exp, decimals)
}

// appendScaled appends ticks in units of 10^-exp seconds. It splits off whole seconds
// first, so that no product needs more than 128 bits and no quotient more than 64. In the
// decimal number, they are the digits before the last exp.
func (c Clock) appendScaled(dst []byte, ticks uint64, exp, decimals int) []byte {
	if !c.Known() {
		return strconv.AppendUint(dst, ticks, 10)
	}
	seconds, rest := ticks/c.Frequency, ticks%c.Frequency
	scale := pow10[exp+decimals]
	hi, lo := bits.Mul64(rest, scale)
	part, r := bits.Div64(hi, lo, c.Frequency) // part <= scale, for rest < Frequency
	// seconds has no decimals: if scale is 1, its parity decides a tie.
	odd := part
	if scale == 1 {
		odd = seconds
	}
	if roundsUp(odd, r, c.Frequency) {
		part++
		if part == scale {
			seconds, part = seconds+1, 0
		}
	}
	whole, fraction := part/pow10[decimals], part%pow10[decimals]
	if seconds != 0 {
		dst = strconv.AppendUint(dst, seconds, 10)
		dst = appendPadded(dst, whole, exp)
	} else {
		dst = strconv.AppendUint(dst, whole, 10)
	}
	if decimals > 0 {
		dst = appendPadded(append(dst, '.'), fraction, decimals)
	}
	return dst
}

// roundsUp reports whether a quotient with this remainder is nearer to the next integer, or
// a tie and odd.
func roundsUp(quotient, remainder, divisor uint64) bool {
	rest := divisor - remainder
	return remainder > rest || remainder == rest && quotient&1 == 1
}

// appendPadded appends v with leading zeros to width digits; none for width 0.
func appendPadded(dst []byte, v uint64, width int) []byte {
	for ; width > 0; width-- {
		dst = append(dst, byte('0'+v/pow10[width-1]%10))
	}
	return dst
}

var pow10 = [...]uint64{
	1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, nanosPerSecond,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
}
