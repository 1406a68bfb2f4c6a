package convert

import (
	"encoding/hex"
	"io"
	"math"
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
)

// Chrome writes Chrome trace_event JSON, which Perfetto, Chrome's own viewer and others
// load. (speedscope also loads it, but it adds times in floating point, which confuses calls
// that end together, and it treats calls with different arguments as different functions. It
// is exact with folded stacks and with pprof profiles.)
//
// Each call is one complete event ("X") on its thread. Each custom or typed event is an
// instant ("i") with its payload. Times are microseconds since Options.Base with three
// decimals. The arguments of an event show logged arguments, and how a call without an exit
// record ended. Calls that are still open where their thread's records end are "truncated".
// Viewers rebuild the nesting of calls from their times. Where these are ambiguous, an edge of a
// call is a nanosecond (or tick) later; see nesting. Processes and threads are named. A process
// gets another ID if its ID is taken by a process of another trace, or is 0, which means unknown.
//
// Runs of the calls that Options.LeftOut describes are events, with the number and the time
// of the calls. A counter for each thread shows how many were omitted. Chrome is a sink for
// calls.Options without a MinDuration. Use Options.Shortest instead.
//
// If the frequency is unknown, a microsecond stands for a tick, and otherData says so.
type Chrome struct {
	out     output
	opts    Options
	time    timeline
	tracks  tracks
	heads   labels
	threads perThread[chromeThread]
	memory  int64 // bytes of pending instants and of omitted calls
	events  bool
	named   []calls.Recorded // of the current call
	sources *sources         // of functions, for vizviewer; otherwise nil
}

// chromeThread is the state of a thread.
type chromeThread struct {
	end   string // end of its events: its IDs; "" until it appears
	short *shortCalls
	// pending are the instants in open calls that may be omitted.
	pending []chromeInstant
	last    chromeEnd
	nesting nesting
}

// NewChrome starts the JSON of a trace.
func NewChrome(w io.Writer, opts Options) *Chrome {
	c := &Chrome{out: newOutput(w), opts: opts, time: opts.timeline()}
	c.tracks = newTracks(&c.opts)
	c.heads = newLabels(func(dst []byte, id reader.FuncID) []byte {
		label := opts.label(id)
		c.sources.add(label, id)
		dst = appendJSON(append(dst, `{"name":`...), label)
		return append(dst, `,"ph":"X","ts":`...)
	})
	h := opts.Header
	b := append(c.out.buf, `{"displayTimeUnit":"ns","otherData":{"format":"XRay `...)
	b = append(b, h.Type.String()...)
	b = append(b, ` log, version `...)
	b = strconv.AppendUint(b, uint64(h.Version), 10)
	b = append(b, `","cycle-frequency":"`...)
	b = strconv.AppendUint(b, h.CycleFrequency, 10)
	b = append(b, `","tsc-of-time-0":"`...)
	b = strconv.AppendUint(b, opts.Base, 10)
	if opts.Epoch != 0 {
		b = append(b, `","unix-ns-of-time-0":"`...)
		b = strconv.AppendUint(b, opts.Epoch, 10)
	}
	if opts.LeftOut != "" {
		b = appendJSON(append(b, `","left-out":`...), opts.LeftOut)
		b = b[:len(b)-1]
	}
	if !c.time.clock.Known() {
		b = append(b, `","unit-of-time":"ticks: the clock frequency is unknown, and 1 us stands for 1 tick`...)
	}
	c.out.buf = append(b, "\"},\n\"traceEvents\":["...)
	return c
}

// Calls implements [calls.Sink].
func (c *Chrome) Calls(b *calls.Batch) error {
	t := c.thread(b)
	events := b.Events
	for i := range b.Calls {
		call := &b.Calls[i]
		if len(events) > 0 {
			events = c.instants(t, events, i)
		}
		shown := call.Duration >= c.opts.Shortest
		if t.short != nil {
			c.leaveOut(t, call, shown)
		}
		if shown {
			c.out.buf = c.out.spill(c.appendCall(c.out.buf, b, i, t))
		}
	}
	c.instants(t, events, len(b.Calls))
	c.gaps(t, b)
	if b.Last {
		t.short.finish()
		t.nesting.finish()
	}
	return c.out.err
}

func (c *Chrome) appendCall(dst []byte, b *calls.Batch, i int, t *chromeThread) []byte {
	call := &b.Calls[i]
	start, duration := c.time.span(call.Start, call.Duration)
	start, duration = t.nesting.place(call.Depth, start, duration)
	dst = append(c.next(dst), c.heads.of(call.Func)...)
	dst = c.time.appendMicros(dst, start)
	dst = append(dst, `,"dur":`...)
	dst = t.last.appendDuration(dst, &c.time, start, duration)
	dst = append(dst, t.end...)
	c.named = c.opts.Values.Of(b, i, c.named[:0])
	if call.Args || len(c.named) > 0 || call.Ending() >= calls.Inferred {
		dst = append(dst, `,"args":{`...)
		if call.Args {
			dst = append(dst, `"arguments":[`...)
			for k, a := range b.ArgsOf(i) {
				if k > 0 {
					dst = append(dst, ',')
				}
				dst = appendJSONArgument(dst, a.Value)
			}
			dst = append(dst, ']')
		}
		before := call.Args
		for k, exit := range [...]bool{false, true} {
			heads := [...]string{`"values":`, `,"values":`, `"results":`, `,"results":`}
			from := len(dst)
			head := heads[2*k]
			if before {
				head = heads[2*k+1]
			}
			dst = appendNamed(dst, head, c.named, exit)
			before = before || len(dst) > from
		}
		if call.Ending() >= calls.Inferred {
			if before {
				dst = append(dst, ',')
			}
			dst = append(dst, `"end":"`...)
			dst = append(dst, call.Ending().String()...)
			dst = append(dst, '"')
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// isHexadecimal reports whether an argument is an address, or larger than the largest number up to which
// JavaScript represents all integers exactly.
func isHexadecimal(v uint64) bool {
	const mostExact = 1 << 53
	return v > mostExact || label.IsAddress(v)
}

// appendArgument appends an argument in decimal or hexadecimal.
func appendArgument(dst []byte, v uint64) []byte {
	if !isHexadecimal(v) {
		return strconv.AppendUint(dst, v, 10)
	}
	return strconv.AppendUint(append(dst, "0x"...), v, 16)
}

// appendJSONArgument appends an argument as a number, or as a string if it is hexadecimal.
func appendJSONArgument(dst []byte, v uint64) []byte {
	if !isHexadecimal(v) {
		return appendArgument(dst, v)
	}
	return append(appendArgument(append(dst, '"'), v), '"')
}

func (c *Chrome) appendInstant(dst []byte, e *calls.Event, t *chromeThread) []byte {
	at := c.time.at(e.TSC)
	if t.short == nil { // else it may be in a run that is written later
		at, _ = t.nesting.place(e.Depth, at, 0)
	}
	mark, isMark := e.Mark()
	dst = appendJSON(append(dst, `{"name":`...), e.Name())
	dst = append(dst, `,"ph":"i","s":"t","ts":`...)
	dst = c.time.appendMicros(dst, at)
	dst = append(dst, t.end...)
	dst = append(dst, `,"args":{`...)
	switch {
	case isMark && mark.Request:
		dst = strconv.AppendUint(append(dst, `"request":"`...), mark.ID, 10)
		dst = appendJSON(append(dst, `","text":`...), mark.Text)
	case isMark:
		dst = appendJSON(append(dst, `"text":`...), mark.Text)
	case e.IsText():
		dst = appendJSON(append(dst, `"text":`...), string(e.Data))
	default:
		dst = append(dst, `"hex":"`...)
		dst = append(hex.AppendEncode(dst, e.Data), '"')
	}
	return append(dst, "}}"...)
}

// Memory implements [calls.MemoryUser].
func (c *Chrome) Memory() int64 { return c.memory + perThreadBytes*int64(len(c.threads)) }

// next starts a new event.
func (c *Chrome) next(dst []byte) []byte {
	if c.events {
		return append(dst, ",\n"...)
	}
	c.events = true
	return append(dst, '\n')
}

// thread returns the state of the batch's thread. On the first call, it writes the thread's name.
func (c *Chrome) thread(b *calls.Batch) *chromeThread {
	t := c.threads.at(b.Index)
	if t.end != "" {
		return t
	}
	pid, known := c.tracks.process(b.Thread)
	text := append([]byte(nil), `,"pid":`...)
	text = strconv.AppendInt(text, pid, 10)
	text = append(text, `,"tid":`...)
	text = strconv.AppendInt(text, int64(b.Thread.Thread), 10)
	end := string(text)
	if !known {
		c.writeName("process_name", end, c.tracks.processBeside(b.Thread, pid))
	}
	name := c.tracks.threadName(b.Thread)
	c.writeName("thread_name", end, c.tracks.threadBeside(b.Thread))
	t.end, t.last.start, t.nesting.memory = end, math.MinInt64, &c.memory
	index := b.Index
	t.short = c.opts.shortCalls(&c.memory, func(r *shortRun) { c.run(index, r) }, func(tsc, n uint64) { c.leftOutFrom(end, name, tsc, n) })
	return t
}

func (c *Chrome) writeName(event, thread, name string) {
	b := append(c.next(c.out.buf), `{"name":"`...)
	b = append(b, event...)
	b = append(b, `","ph":"M"`...)
	b = append(b, thread...)
	b = append(b, `,"args":{"name":`...)
	c.out.buf = append(appendJSON(b, name), "}}"...)
}

// Close ends the JSON.
func (c *Chrome) Close() error {
	c.out.buf = append(c.out.buf, "\n]"...)
	if c.opts.Caveats != nil {
		if caveats := c.opts.Caveats(); len(caveats) > 0 {
			c.out.buf = append(c.out.buf, `,"caveats":[`...)
			for i, text := range caveats {
				if i > 0 {
					c.out.buf = append(c.out.buf, ',')
				}
				c.out.buf = appendJSON(append(c.out.buf, '\n'), text)
			}
			c.out.buf = append(c.out.buf, ']')
		}
	}
	c.sources.write(&c.out)
	return c.out.finish("}\n")
}
