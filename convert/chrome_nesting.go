package convert

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"unsafe"
)

// nesting places the calls of a thread so that their times alone say which call is in which. Viewers
// sort calls by start and then by duration, the longest first, and take a call as ended when the
// next one starts at its end. Calls of equal times, or of no duration, are ambiguous to them. So
// nesting moves edges to later times, by as little as possible:
//
//   - A call starts after an earlier call without duration.
//   - A call lasts longer than one inside that starts with it, and ends after one inside that has no
//     duration.
//
// Instants are calls without duration. Times are exact again at the next pause.
type nesting struct {
	levels []nestedLevel // by depth
	memory *int64        // bytes of levels, of all threads together
}

// nestedLevel has the last call of a depth, or what stands for it.
type nestedLevel struct {
	free       int64 // when the next call can start
	start, end int64
}

const nestedLevelBytes = int64(unsafe.Sizeof(nestedLevel{}))

// place returns the times of the next call that ends.
func (n *nesting) place(depth uint32, start, duration int64) (int64, int64) {
	end := start + duration
	before := nestedLevel{free: math.MinInt64, start: math.MinInt64, end: math.MinInt64}
	if top := min(len(n.levels)-1, int(depth)); top >= 0 {
		before.free = n.levels[top].free
	}
	start = max(start, before.free)
	end = max(end, start)
	for len(n.levels) > int(depth)+1 {
		in := n.levels[len(n.levels)-1]
		end = max(end, in.end)
		if in.end == end && (in.start == start || in.start == end) {
			end++
		}
		n.levels = n.levels[:len(n.levels)-1]
	}
	if more := int(depth) + 1 - len(n.levels); more > 0 {
		size := cap(n.levels)
		n.levels = slices.Grow(n.levels, more)
		*n.memory += nestedLevelBytes * int64(cap(n.levels)-size)
		for range more {
			n.levels = append(n.levels, before)
		}
	}
	free := end
	if start == end {
		free++
	}
	n.levels[depth] = nestedLevel{free, start, end}
	return start, end - start
}

func (n *nesting) finish() {
	*n.memory -= nestedLevelBytes * int64(cap(n.levels))
	n.levels = nil
}

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
