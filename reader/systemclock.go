package reader

// SystemClock is a clock of the operating system.
type SystemClock uint8

// The clocks of the system that a recorder's anchors may have.
const (
	Monotonic    SystemClock = iota + 1 // CLOCK_MONOTONIC
	MonotonicRaw                        // CLOCK_MONOTONIC_RAW
	Realtime                            // CLOCK_REALTIME
)

func (a *Anchor) reading(clock SystemClock) uint64 {
	switch clock {
	case Monotonic:
		return a.Mono
	case MonotonicRaw:
		return a.Raw
	case Realtime:
		return a.Real
	}
	return 0
}

// TSC converts the time of a clock of the system, in nanoseconds, to ticks. It returns false if
// the recorder did not read this clock. It is as exact as the anchors; between two of them, and
// outside of them, time is linear.
func (c *RecordedClock) TSC(clock SystemClock, nanos uint64) (tsc uint64, ok bool) {
	var before, after *Anchor // those around nanos, or the nearest two
	for i := range c.Anchors {
		a := &c.Anchors[i]
		switch {
		case a.reading(clock) == 0 || after != nil && a.reading(clock) <= after.reading(clock):
			continue
		case before == nil:
			before = a
		case after == nil:
			after = a
		case after.reading(clock) < nanos:
			before, after = after, a
		}
	}
	if before == nil {
		return 0, false
	}
	from := before.reading(clock)
	ticks, span := c.Frequency, uint64(nanosPerSecond)
	if after != nil && after.reading(clock) >= from+minAnchored && after.TSC > before.TSC {
		ticks, span = after.TSC-before.TSC, after.reading(clock)-from
	}
	if span == 0 || ticks == 0 {
		return 0, false
	}
	if nanos < from {
		back, ok := mulDiv(from-nanos, ticks, span)
		return before.TSC - back, ok && back <= before.TSC
	}
	on, ok := mulDiv(nanos-from, ticks, span)
	return before.TSC + on, ok && before.TSC+on >= on
}
