package convert

import (
	"slices"
	"strconv"

	"github.com/xray-tools/xray/reader/calls"
)

// chromeInstant is an instant in calls that may be omitted.
type chromeInstant struct {
	depth uint32 // calls around it
	text  []byte
}

// pendingBytes is the memory of a pending instant, without its text.
const pendingBytes = 64

// run writes a run of omitted calls. It ends a nanosecond early, so that all viewers place it
// inside its caller, however they order and round.
func (c *Chrome) run(thread int, r *shortRun) {
	t := c.threads.at(thread)
	start, duration := c.time.span(r.start, r.end-r.start)
	start, duration = t.nesting.place(r.depth, start, max(0, duration-1))
	buf := append(c.next(c.out.buf), `{"name":"`+leftOutName+`","ph":"X","ts":`...)
	buf = append(c.time.appendMicros(buf, start), `,"dur":`...)
	buf = append(c.time.appendMicros(buf, duration), t.end...)
	buf = strconv.AppendUint(append(buf, `,"args":{"calls":`...), r.calls, 10)
	buf = c.time.clock.AppendFormat(append(buf, `,"took":"`...), r.took)
	c.out.buf = c.out.spill(append(buf, `"}}`...))
}

// leftOutFrom writes how many calls of a thread are omitted in the time span that begins at tsc.
func (c *Chrome) leftOutFrom(thread, name string, tsc, n uint64) {
	buf := appendJSON(append(c.next(c.out.buf), `{"name":`...), leftOutName+", each "+c.time.clock.Format(c.opts.LeftOutEvery)+": "+name)
	buf = c.time.appendMicros(append(buf, `,"ph":"C","ts":`...), c.time.at(tsc))
	buf = append(append(buf, thread...), `,"args":{"calls":`...)
	c.out.buf = c.out.spill(append(strconv.AppendUint(buf, n, 10), "}}"...))
}

// instants handles the events before the end of a call, and returns the later ones. It holds back
// events in calls that may be omitted.
func (c *Chrome) instants(t *chromeThread, events []calls.Event, call int) []calls.Event {
	for ; len(events) > 0 && events[0].Call <= call; events = events[1:] {
		e := &events[0]
		if e.Depth > 0 && t.short != nil {
			text := c.appendInstant(nil, e, t)
			c.memory += pendingBytes + int64(len(text))
			t.pending = append(t.pending, chromeInstant{e.Depth, text})
		} else {
			c.out.buf = c.out.spill(c.appendInstant(c.next(c.out.buf), e, t))
		}
	}
	return events
}

// leaveOut handles the next call that ends. If it is shown, leaveOut writes the instants in it.
func (c *Chrome) leaveOut(t *chromeThread, call *calls.Call, shown bool) {
	t.short.leave(call, shown)
	n := len(t.pending)
	for n > 0 && t.pending[n-1].depth > call.Depth {
		n--
	}
	for _, instant := range t.pending[n:] {
		c.memory -= pendingBytes + int64(len(instant.text))
		if shown {
			c.out.buf = c.out.spill(append(c.next(c.out.buf), instant.text...))
		}
	}
	t.pending = slices.Delete(t.pending, n, len(t.pending))
}
