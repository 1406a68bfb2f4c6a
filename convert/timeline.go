package convert

import (
	"math"
	"strconv"

	"github.com/xray-tools/xray/reader"
)

// timeline places ticks on a time axis on which base is epoch. Its unit is the nanosecond,
// or the tick if the clock's frequency is unknown.
type timeline struct {
	clock reader.Clock
	base  uint64
	epoch int64 // time of base
}

func (o *Options) timeline() timeline {
	return timeline{clock: reader.Clock{Frequency: o.Header.CycleFrequency}, base: o.Base}
}

// startTimeline returns the timeline for formats that can count from 1970, and the column name of
// the start of a call.
func (o *Options) startTimeline() (timeline, string) {
	t := o.timeline()
	if !o.Absolute {
		return t, "start_" + t.clock.Unit()
	}
	t.epoch = int64(min(o.Epoch, farthest))
	return t, "start_unix_ns"
}

// farthest limits times to 146 years before and after the base, so that differences of times do not
// overflow.
const farthest = math.MaxInt64 / 2

// at returns the time of a TSC. It never decreases with the TSC.
func (t *timeline) at(tsc uint64) int64 {
	if tsc < t.base {
		return t.epoch - int64(min(t.clock.Nanos(t.base-tsc), farthest))
	}
	return t.epoch + int64(min(t.clock.Nanos(tsc-t.base), farthest))
}

// span returns the start and the length of a call on the axis. The length is the distance of the
// rounded ends, not the rounded duration, so nested calls stay nested.
func (t *timeline) span(start, duration uint64) (at, length int64) {
	at = t.at(start)
	end := start + min(duration, math.MaxUint64-start)
	return at, t.at(end) - at
}

// appendMicros appends a time for trace_event, which counts in microseconds: nanoseconds as
// microseconds with three decimals, and ticks unchanged.
func (t *timeline) appendMicros(dst []byte, time int64) []byte {
	if !t.clock.Known() {
		return strconv.AppendInt(dst, time, 10)
	}
	v := uint64(time)
	if time < 0 {
		dst = append(dst, '-')
		v = -v
	}
	micros, nanos := v/1000, v%1000
	dst = strconv.AppendUint(dst, micros, 10)
	return append(dst, '.', byte('0'+nanos/100), byte('0'+nanos/10%10), byte('0'+nanos%10))
}
