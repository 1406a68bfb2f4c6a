package value

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// IsNumber reports whether values are quantities: differences and thresholds of them mean something. Pointers,
// characters, enumerators and booleans are not, although they have numbers.
func (d *Description) IsNumber() bool {
	switch d.Format {
	case Int, Uint, Float, Duration:
		return d.Kind != Bytes
	}
	return false
}

// Number returns a value as a number, rounded to a double; a duration in nanoseconds. It returns false for
// strings, and if there is no value or it is not a number.
func (d *Description) Number(r Recorded) (float64, bool) {
	if r.Flags&(None|Unreadable) != 0 || d.Kind == Bytes {
		return 0, false
	}
	v, ok := d.number(r.Data)
	if !ok {
		return 0, false
	}
	return d.asFloat(v)
}

// NumberOf is Number for the 8 bytes of a scalar.
func (d *Description) NumberOf(scalar uint64) (float64, bool) {
	if d.Kind != Scalar {
		return 0, false
	}
	return d.asFloat(d.sized(scalar))
}

func (d *Description) asFloat(v number) (f float64, ok bool) {
	floating := d.Format == Float || d.Format == Duration && d.Float
	switch {
	case d.Kind == Scalar && floating && d.Size == 4:
		f = float64(math.Float32frombits(uint32(v.low)))
	case d.Kind == Scalar && floating && d.Size == 8:
		f = math.Float64frombits(v.low)
	case d.Kind == Scalar && !floating && d.signed():
		f = float64(int64(v.low))
	case d.Kind == Scalar && !floating:
		f = float64(v.low)
	default:
		var err error
		if f, err = strconv.ParseFloat(v.text(d), 64); err != nil {
			return 0, false
		}
	}
	if d.Format == Duration && d.Unit != "1/1" {
		f *= d.unit()
	}
	return f, !math.IsNaN(f) && !math.IsInf(f, 0)
}

// unit returns the length of a tick of a duration in nanoseconds, or NaN.
func (d *Description) unit() float64 {
	num, den, found := strings.Cut(d.Unit, "/")
	r, ok := new(big.Rat).SetString(num + "/" + den)
	if !found || !ok || len(d.Unit) >= 64 {
		return math.NaN()
	}
	f, _ := r.Float64()
	return f
}
