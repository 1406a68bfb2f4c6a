package convert

import (
	"cmp"
	"math"
	"strconv"
)

// chromeEnd is the latest end of the calls so far, in nanoseconds and in floating point.
type chromeEnd struct {
	start, duration int64
	micros          float64 // the end in microseconds; 0 if it is the sum of the two
}

// appendDuration appends the duration of a call. Some viewers add it to the start in floating
// point. If the sum is after the start of a call that begins at this end, or before the end of
// the last call inside, they omit one of the two. Where necessary, appendDuration writes more
// decimals to prevent this.
func (e *chromeEnd) appendDuration(dst []byte, time *timeline, start, duration int64) []byte {
	end, last := start+duration, e.start+e.duration
	from, to := float64(start)/1000, float64(end)/1000
	sum := from + float64(duration)/1000
	exact := duration > 0 && time.clock.Known()
	var inside float64
	if end == last {
		inside = cmp.Or(e.micros, float64(e.start)/1000+float64(e.duration)/1000)
	}
	long := exact && (sum > to || end == last && sum < inside)
	micros := to - from
	if long {
		for from+micros > to {
			micros = math.Nextafter(micros, 0)
		}
		if longer := math.Nextafter(micros, math.Inf(1)); from+micros < to && from+longer <= to {
			micros = longer
		}
		sum = from + micros
	}
	if end >= last { // if calls start together, the inner one comes last
		*e = chromeEnd{start, duration, 0}
		if long {
			e.micros = sum
		}
	}
	if long {
		return strconv.AppendFloat(dst, micros, 'f', -1, 64)
	}
	return time.appendMicros(dst, duration)
}
