package convert

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"iter"
	"math"
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Firefox writes a profile for the Firefox Profiler, in its "processed" format.
//
// A sample is a run of a thread between two entries or exits: its stack, start and duration.
// So self and total times are exact, and the stack chart shows every call at its position. A
// run of no time is written only if calls would otherwise merge or vanish. Calls with
// arguments or results are also markers, because stacks cannot have them. So are custom and typed
// events. Events that name a request are linked by a flow. Runs of the calls that
// Options.LeftOut describes appear as calls of one function. The profile's information shows
// what was lost and omitted. Its numbers of calls include those that are omitted.
//
// If the frequency is unknown, a nanosecond stands for a tick.
//
// It is a sink for calls.Options with Opens, and without a MinDuration. Use
// Options.Shortest instead. The format has samples in columns, thread by thread, so Firefox
// keeps all of them until the end: two per call, of about 3 bytes each. Memory also grows
// with markers and call paths. The Firefox Profiler needs more memory.
type Firefox struct {
	out     output
	opts    Options
	time    timeline
	tracks  tracks
	threads perThread[*firefoxThread]
	paths   *calls.Paths // of all threads: the profile's stack n is path n+1
	texts   indexed[string]
	ends    [calls.Ends]int64 // numbers of calls, by how they ended
	short   int64             // number of calls shorter than Options.Shortest
	sources *sources
	memory  int64            // bytes of runs and markers
	named   []calls.Recorded // of the current call
}

// firefoxThread is the state of a thread. Times are those of the timeline.
type firefoxThread struct {
	thread  reader.Thread
	calls   longCalls
	runs    firefoxRuns
	markers []firefoxMarker
	gaps    []firefoxMarker // off-CPU times
	// settled is the number of markers whose stack is known. The stack of the others may
	// depend on whether open calls turn out long enough.
	settled int
	begun   bool
	// memory is the thread's part of Firefox.memory. data is the number of bytes of data of the
	// first measured markers.
	memory, data int64
	measured     int
	first        int64 // start of the first run
	busy         int64 // time of the runs that have a stack
	// The current run: its stack, its start, and whether a call began there.
	stack    calls.PathID
	at       int64
	entering bool
}

// firefoxMarker is an event, or a call from start to end.
type firefoxMarker struct {
	name       int    // index of texts
	start, end uint64 // TSC
	call       bool
	data       string // JSON, except the stack and the end
	stack      calls.PathID
}

// leftOutFunc stands for omitted calls.
const leftOutFunc reader.FuncID = math.MinInt32

// NewFirefox returns a writer of a profile.
func NewFirefox(w io.Writer, opts Options) *Firefox {
	f := &Firefox{out: newOutput(w), opts: opts, time: opts.timeline(), paths: calls.NewPaths()}
	f.sources = newSources(opts.Names, opts.Source)
	f.tracks = newTracks(&f.opts)
	return f
}

// Calls implements [calls.Sink].
func (f *Firefox) Calls(b *calls.Batch) error {
	at := f.threads.at(b.Index)
	if *at == nil {
		*at = f.newThread(b.Thread)
	}
	t := *at
	i := 0
	b.Replay(
		func(o *calls.Open) {
			t.begin(f.time.at(o.Start))
			t.calls.enter(o)
			t.calls.settle(o.Start)
		},
		func(c *calls.Call, args []calls.Arg) {
			f.named = f.opts.Values.Of(b, i, f.named[:0])
			i++
			f.ends[c.End]++
			if t.calls.leave(c) {
				f.leave(t, c, args)
			} else {
				f.short++
			}
		},
		func(e *calls.Event) {
			t.begin(f.time.at(e.TSC))
			f.event(t, e)
		})
	f.gaps(t, b)
	if b.Last {
		t.calls.finish()
	}
	f.measure(t)
	return nil
}

// Memory implements [calls.MemoryUser]. It assumes 128 bytes for each text, although names of events may
// be longer.
func (f *Firefox) Memory() int64 {
	const perPath, perText = 64, 128
	return f.memory + perThreadBytes*int64(len(f.threads)) + perPath*int64(f.paths.Len()) + perText*int64(len(f.texts.list))
}

// measure updates what a thread holds.
func (f *Firefox) measure(t *firefoxThread) {
	const perMarker = 160
	memory := t.runs.memory + perMarker*int64(len(t.markers)+len(t.gaps))
	for _, m := range t.markers[t.measured:] {
		t.data += int64(len(m.data))
	}
	t.measured = len(t.markers)
	memory += t.data
	f.memory += memory - t.memory
	t.memory = memory
}

func (f *Firefox) newThread(thread reader.Thread) *firefoxThread {
	t := &firefoxThread{thread: thread}
	t.calls = longCalls{
		min: f.opts.Shortest, memory: &f.memory,
		begin: func(o *openCall) {
			t.settle(o.start)
			f.enter(t, o.start, o.fn)
		},
		short: f.opts.shortCalls(&f.memory, func(r *shortRun) {
			f.enter(t, r.start, leftOutFunc)
			t.turn(f.time.at(r.end), f.paths.Parent(t.stack), false)
		}, func(uint64, uint64) {}),
	}
	return t
}

// enter begins a call.
func (f *Firefox) enter(t *firefoxThread, tsc uint64, fn reader.FuncID) {
	t.turn(f.time.at(tsc), f.paths.Child(t.stack, fn), true)
}

// leave ends the innermost call, which is shown.
func (f *Firefox) leave(t *firefoxThread, c *calls.Call, args []calls.Arg) {
	t.settle(math.MaxUint64)
	stack, end := t.stack, f.time.at(c.Start+c.Duration)
	t.turn(end, f.paths.Parent(stack), false)
	text := []byte(calls.ValuesText(f.named))
	if len(text) > 0 {
		args = nil // they are among the values
	}
	for i, a := range args {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = appendArgument(text, a.Value)
	}
	if len(text) == 0 {
		return
	}
	data := appendJSON([]byte(`{"type":"call","arguments":`), string(text))
	t.markers = append(t.markers, firefoxMarker{
		name: f.texts.of(f.opts.label(c.Func)), start: c.Start, end: c.Start + c.Duration, call: true,
		data: string(data), stack: stack,
	})
	t.settled = len(t.markers)
}

// event marks a custom or typed event.
func (f *Firefox) event(t *firefoxThread, e *calls.Event) {
	name, data := e.Name(), []byte(`{"type":"event"`)
	mark, isMark := e.Mark()
	switch {
	case isMark && mark.Request && mark.ID != 0:
		name = "request"
		flow := strconv.FormatUint(mark.ID, 10)
		if file := f.opts.file(t.thread); file != "" {
			flow += " of " + file
		}
		data = strconv.AppendInt([]byte(`{"type":"request","request":`), int64(f.texts.of(flow)), 10)
		if mark.Text != "" {
			data = appendJSON(append(data, `,"text":`...), mark.Text)
		}
	case isMark:
	case e.IsText():
		data = appendJSON(append(data, `,"text":`...), string(e.Data))
	default:
		data = append(data, `,"bytes":"`...)
		data = append(hex.AppendEncode(data, e.Data), '"')
	}
	t.markers = append(t.markers, firefoxMarker{name: f.texts.of(name), start: e.TSC, end: e.TSC, data: string(data)})
}

// settle sets the stacks of the markers that start at or before a time.
func (t *firefoxThread) settle(tsc uint64) {
	for ; t.settled < len(t.markers) && t.markers[t.settled].start <= tsc; t.settled++ {
		t.markers[t.settled].stack = t.stack
	}
}

// turn ends the current run, and begins one with another stack. A run of no time separates a call
// that ends when another begins, and the entry and exit of a call that takes no time.
func (t *firefoxThread) turn(at int64, stack calls.PathID, entering bool) {
	if at > t.at || entering != t.entering {
		t.runs.add(t.stack, at-t.at)
	}
	if t.stack != 0 {
		t.busy += at - t.at
	}
	t.stack, t.at, t.entering = stack, at, entering
}

// begin sets the start of the thread's records. Only the first call has an effect.
func (t *firefoxThread) begin(at int64) {
	if !t.begun {
		t.begun, t.first, t.at, t.entering = true, at, at, true
	}
}

// end ends the last run.
func (t *firefoxThread) end(at int64) {
	t.turn(max(at, t.at), 0, t.entering)
	t.runs.add(0, 0)
}

// FirefoxBytes is the memory of a call until the file is written, at most: two runs, each with a path and a length
// of less than 100 days.
const FirefoxBytes = 2 * (5 + 8)

// firefoxRuns are the runs of a thread in order, each as two varints.
type firefoxRuns struct {
	chunks [][]byte
	count  int
	memory int64 // bytes of the chunks
}

func (r *firefoxRuns) add(stack calls.PathID, length int64) {
	n := len(r.chunks)
	if n == 0 || cap(r.chunks[n-1])-len(r.chunks[n-1]) < 2*binary.MaxVarintLen64 {
		r.chunks = append(r.chunks, make([]byte, 0, 1024<<min(n, 10)))
		r.memory += 1024 << min(n, 10)
		n++
	}
	chunk := binary.AppendUvarint(r.chunks[n-1], uint64(stack))
	r.chunks[n-1] = binary.AppendUvarint(chunk, uint64(length))
	r.count++
}

// all yields the stack and the length of each run.
func (r *firefoxRuns) all() iter.Seq2[calls.PathID, int64] {
	return func(yield func(calls.PathID, int64) bool) {
		for _, chunk := range r.chunks {
			for len(chunk) > 0 {
				stack, n := binary.Uvarint(chunk)
				length, m := binary.Uvarint(chunk[n:])
				chunk = chunk[n+m:]
				if !yield(calls.PathID(stack), int64(length)) {
					return
				}
			}
		}
	}
}

// indexed numbers values in the order of first occurrence.
type indexed[T comparable] struct {
	numbers map[T]int
	list    []T
}

func (x *indexed[T]) of(v T) int {
	n, known := x.numbers[v]
	if !known {
		if x.numbers == nil {
			x.numbers = map[T]int{}
		}
		n = len(x.list)
		x.numbers[v] = n
		x.list = append(x.list, v)
	}
	return n
}
