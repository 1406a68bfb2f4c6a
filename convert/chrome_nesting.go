package convert

import "strconv"

// chromeEnd is the end of the calls so far, in nanoseconds and in floating point.
type chromeEnd struct {
	start, duration int64
	micros          float64 // 0 if it is the sum of the two
}

// appendDuration appends the duration of a call. Viewers that add it to the start in
// floating point must not find that a call ends before the last one inside it, because they
// would omit that one. If both end together, a longer fraction ensures this.
func (e *chromeEnd) appendDuration(dst []byte, time *timeline, start, duration int64) []byte {
	end, last := start+duration, e.start+e.duration
	if end < last { // of calls that start together, the inner one comes last
		return time.appendMicros(dst, duration)
	}
	if end == last && time.clock.Known() {
		inside := e.micros
		if inside == 0 {
			inside = float64(e.start)/1000 + float64(e.duration)/1000
		}
		from := float64(start) / 1000
		if from+float64(duration)/1000 < inside {
			e.micros = inside
			if duration > 0 {
				return strconv.AppendFloat(dst, inside-from, 'f', -1, 64)
			}
			return time.appendMicros(dst, 0)
		}
	}
	*e = chromeEnd{start, duration, 0}
	return time.appendMicros(dst, duration)
}
