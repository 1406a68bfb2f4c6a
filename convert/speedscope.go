package convert

import (
	"io"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Speedscope writes the JSON of speedscope, exact in its times: a profile for each
// thread, in which calls open and close.
//
// It is a sink for calls.Options with Opens, and without a MinDuration; it has one of
// its own. A profile has to be written in one piece, so that all calls are kept: 32
// bytes for each. Speedscope holds more.
type Speedscope struct {
	out     output
	opts    Options
	time    timeline
	tracks  tracks
	min     uint64 // ticks
	threads perThread[*speedscopeThread]
	frames  map[reader.FuncID]int
	order   []reader.FuncID
}

type speedscopeThread struct {
	thread reader.Thread
	events []speedscopeEvent
	open   []int // of events, those that open calls
}

// speedscopeEvent opens a call, or closes the innermost one.
type speedscopeEvent struct {
	at    int64
	fn    reader.FuncID
	close bool
}

// NewSpeedscope starts the JSON. Calls of less than minDuration ticks are left out.
func NewSpeedscope(w io.Writer, opts Options, minDuration uint64) *Speedscope {
	s := &Speedscope{out: newOutput(w), opts: opts, time: opts.timeline(), min: minDuration, frames: map[reader.FuncID]int{}}
	s.tracks = newTracks(&s.opts)
	return s
}

// Calls implements [calls.Sink].
func (s *Speedscope) Calls(b *calls.Batch) error {
	at := s.threads.at(b.Index)
	if *at == nil {
		*at = &speedscopeThread{thread: b.Thread}
	}
	t := *at
	b.Replay(
		func(o *calls.Open) {
			t.open = append(t.open, len(t.events))
			t.events = append(t.events, speedscopeEvent{at: s.time.at(o.Start), fn: o.Func})
		},
		func(c *calls.Call, _ []calls.Arg) {
			i := t.open[len(t.open)-1]
			t.open = t.open[:len(t.open)-1]
			if c.Duration < s.min {
				t.events = t.events[:i] // what was called inside was shorter still
				return
			}
			t.events = append(t.events, speedscopeEvent{s.time.at(c.Start + c.Duration), c.Func, true})
		},
		func(*calls.Event) {})
	return nil
}

// Close writes all.
func (s *Speedscope) Close() error {
	s.out.buf = append(s.out.buf, `{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"xray",`...)
	if s.opts.LeftOut != "" {
		name := strings.Join(s.opts.Files, ", ") + ": " + s.opts.LeftOut
		s.out.buf = append(appendJSON(append(s.out.buf, `"name":`...), name), ',')
	}
	s.out.buf = append(s.out.buf, `"profiles":[`...)
	profiles := 0
	for _, t := range s.threads {
		if t == nil || len(t.events) == 0 {
			continue
		}
		if profiles > 0 {
			s.out.buf = append(s.out.buf, ',')
		}
		profiles++
		s.profile(t)
	}
	buf := append(s.out.buf, "\n"+`],"shared":{"frames":[`...)
	for i, fn := range s.order {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendJSON(append(buf, "\n"+`{"name":`...), s.opts.label(fn))
		if s.opts.Names != nil {
			if symbol, ok := s.opts.Names.Func(fn); ok && symbol.File != "" {
				buf = appendJSON(append(buf, `,"file":`...), symbol.File)
				buf = strconv.AppendInt(append(buf, `,"line":`...), int64(symbol.Line), 10)
			}
		}
		buf = s.out.spill(append(buf, '}'))
	}
	s.out.buf = buf
	return s.out.finish("\n]}}\n")
}

func (s *Speedscope) profile(t *speedscopeThread) {
	unit := "nanoseconds"
	if !s.time.clock.Known() {
		unit = "none"
	}
	buf := appendJSON(append(s.out.buf, "\n"+`{"type":"evented","name":`...), s.tracks.processName(t.thread)+", "+s.tracks.threadName(t.thread))
	buf = append(append(append(buf, `,"unit":"`...), unit...), `","startValue":`...)
	buf = strconv.AppendInt(buf, min(0, t.events[0].at), 10)
	buf = strconv.AppendInt(append(buf, `,"endValue":`...), t.events[len(t.events)-1].at, 10)
	buf = append(buf, `,"events":[`...)
	for i, e := range t.events {
		if i > 0 {
			buf = append(buf, ',')
		}
		kind := "\n" + `{"type":"O","frame":`
		if e.close {
			kind = "\n" + `{"type":"C","frame":`
		}
		buf = strconv.AppendInt(append(buf, kind...), int64(s.frame(e.fn)), 10)
		buf = strconv.AppendInt(append(buf, `,"at":`...), e.at, 10)
		buf = s.out.spill(append(buf, '}'))
	}
	s.out.buf = append(buf, "]}"...)
}

// frame is the number of a function.
func (s *Speedscope) frame(fn reader.FuncID) int {
	n, known := s.frames[fn]
	if !known {
		n = len(s.order)
		s.frames[fn] = n
		s.order = append(s.order, fn)
	}
	return n
}
