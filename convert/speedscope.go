package convert

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Speedscope writes the JSON of speedscope with exact times: a profile for each thread, in
// which calls open and close. speedscope first shows the thread with the most time in calls
// or, among equals, the first.
//
// It is a sink for calls.Options with Opens, and without a MinDuration. Use
// Options.Shortest instead. A profile must be written in one piece, so Speedscope keeps all
// calls in memory, at 32 bytes each. speedscope needs more.
type Speedscope struct {
	out     output
	opts    Options
	time    timeline
	tracks  tracks
	threads perThread[*speedscopeThread]
	memory  int64 // bytes of threads and their events
	frames  map[speedscopeFrame]int
	order   []speedscopeFrame
}

// speedscopeFrame is a function, or stands for runs of omitted calls.
type speedscopeFrame struct {
	fn      reader.FuncID
	leftOut bool
}

func (e *speedscopeEvent) frame() speedscopeFrame { return speedscopeFrame{e.fn, e.leftOut} }

type speedscopeThread struct {
	thread reader.Thread
	calls  longCalls
	events []speedscopeEvent
}

// speedscopeEvent opens a call, or closes the innermost one.
type speedscopeEvent struct {
	at             int64
	fn             reader.FuncID
	leftOut, close bool
}

// NewSpeedscope starts the JSON.
func NewSpeedscope(w io.Writer, opts Options) *Speedscope {
	s := &Speedscope{out: newOutput(w), opts: opts, time: opts.timeline(), frames: map[speedscopeFrame]int{}}
	s.tracks = newTracks(&s.opts)
	return s
}

// Calls implements [calls.Sink].
func (s *Speedscope) Calls(b *calls.Batch) error {
	at := s.threads.at(b.Index)
	if *at == nil {
		*at = s.newThread(b.Thread)
	}
	t, before := *at, len((*at).events)
	b.Replay(
		t.calls.enter,
		func(c *calls.Call, _ []calls.Arg) {
			if t.calls.leave(c) {
				t.events = append(t.events, speedscopeEvent{at: s.time.at(c.Start + c.Duration), fn: c.Func, close: true})
			}
		},
		func(*calls.Event) {})
	if b.Last {
		t.calls.finish()
	}
	s.memory += int64(len(t.events)-before) * speedscopeEventBytes
	return nil
}

// Memory implements [calls.MemoryUser].
func (s *Speedscope) Memory() int64 { return s.memory + perThreadBytes*int64(len(s.threads)) }

// SpeedscopeBytes is the memory of a call until the file is written.
const SpeedscopeBytes = 2 * speedscopeEventBytes

// speedscopeEventBytes is the memory of an event in a growing slice.
const speedscopeEventBytes = 24

func (s *Speedscope) newThread(thread reader.Thread) *speedscopeThread {
	t := &speedscopeThread{thread: thread}
	t.calls = longCalls{
		min: s.opts.Shortest, memory: &s.memory,
		begin: func(o *openCall) {
			t.events = append(t.events, speedscopeEvent{at: s.time.at(o.start), fn: o.fn})
		},
		short: s.opts.shortCalls(&s.memory, func(r *shortRun) {
			t.events = append(t.events,
				speedscopeEvent{at: s.time.at(r.start), leftOut: true},
				speedscopeEvent{at: s.time.at(r.end), leftOut: true, close: true})
		}, func(uint64, uint64) {}),
	}
	return t
}

// Close writes the profiles.
func (s *Speedscope) Close() error {
	s.out.buf = append(s.out.buf, `{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"xray",`...)
	if caveats := s.opts.caveats(); len(caveats) > 0 {
		name := strings.Join(caveats, "; ")
		if len(s.opts.Files) > 0 {
			name = strings.Join(s.opts.Files, ", ") + ": " + name
		}
		s.out.buf = append(appendJSON(append(s.out.buf, `"name":`...), name), ',')
	}
	s.out.buf = append(s.out.buf, `"profiles":[`...)
	threads := slices.DeleteFunc(slices.Clone(s.threads), func(t *speedscopeThread) bool { return t == nil || len(t.events) == 0 })
	if len(threads) == 0 {
		// speedscope cannot open a file without profiles.
		threads = append(threads, s.newThread(reader.Thread{}))
	}
	slices.SortStableFunc(threads, func(x, y *speedscopeThread) int {
		a, b := x.thread, y.thread
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Thread, b.Thread))
	})
	longest, most := 0, int64(-1)
	for i, t := range threads {
		if i > 0 {
			s.out.buf = append(s.out.buf, ',')
		}
		s.profile(t)
		if busy := t.busy(); busy > most {
			longest, most = i, busy
		}
	}
	buf := append(s.out.buf, "\n"+`],"activeProfileIndex":`...)
	buf = append(strconv.AppendInt(buf, int64(longest), 10), `,"shared":{"frames":[`...)
	for i, frame := range s.order {
		if i > 0 {
			buf = append(buf, ',')
		}
		if frame.leftOut {
			buf = append(buf, "\n"+`{"name":"`+leftOutName+`"}`...)
			continue
		}
		buf = appendJSON(append(buf, "\n"+`{"name":`...), s.opts.label(frame.fn))
		if s.opts.Names != nil {
			if symbol, ok := s.opts.Names.Func(frame.fn); ok && symbol.File != "" {
				buf = appendJSON(append(buf, `,"file":`...), symbol.File)
				buf = strconv.AppendInt(append(buf, `,"line":`...), int64(symbol.Line), 10)
			}
		}
		buf = s.out.spill(append(buf, '}'))
	}
	s.out.buf = buf
	return s.out.finish("\n]}}\n")
}

// busy returns the time during which calls were open.
func (t *speedscopeThread) busy() int64 {
	sum, open := int64(0), 0
	for _, e := range t.events {
		if e.close {
			if open--; open == 0 {
				sum += e.at
			}
		} else {
			if open == 0 {
				sum -= e.at
			}
			open++
		}
	}
	return sum
}

func (s *Speedscope) profile(t *speedscopeThread) {
	unit := "nanoseconds"
	if !s.time.clock.Known() {
		unit = "none"
	}
	buf := appendJSON(append(s.out.buf, "\n"+`{"type":"evented","name":`...), s.tracks.processName(t.thread)+", "+s.tracks.threadName(t.thread))
	buf = append(append(append(buf, `,"unit":"`...), unit...), `","startValue":`...)
	var first, last int64
	if n := len(t.events); n > 0 {
		first, last = min(0, t.events[0].at), t.events[n-1].at
	}
	buf = strconv.AppendInt(buf, first, 10)
	buf = strconv.AppendInt(append(buf, `,"endValue":`...), last, 10)
	buf = append(buf, `,"events":[`...)
	for i, e := range t.events {
		if i > 0 {
			buf = append(buf, ',')
		}
		kind := "\n" + `{"type":"O","frame":`
		if e.close {
			kind = "\n" + `{"type":"C","frame":`
		}
		buf = strconv.AppendInt(append(buf, kind...), int64(s.number(e.frame())), 10)
		buf = strconv.AppendInt(append(buf, `,"at":`...), e.at, 10)
		buf = s.out.spill(append(buf, '}'))
	}
	s.out.buf = append(buf, "]}"...)
}

// number returns the number of a frame.
func (s *Speedscope) number(frame speedscopeFrame) int {
	n, known := s.frames[frame]
	if !known {
		n = len(s.order)
		s.frames[frame] = n
		s.order = append(s.order, frame)
	}
	return n
}
