package convert

import (
	"io"
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// TraceEvents writes Chrome trace_event JSON in the same form as llvm-xray: a begin and an
// end event for each call, in the order of the records, every value a string, and a table
// of the call paths. It is for programs that read that form. [Chrome] shows more in viewers.
//
// It corrects what llvm-xray gets wrong:
//
//   - Names are escaped, so that the JSON is valid.
//   - Timestamps are exact, not doubles. If the frequency is unknown, they are
//     ticks, not INF.
//   - Calls that are open at the end of their thread end at its last record.
//   - An exit that matches no open call ends nothing. In llvm-xray, it ends all calls.
//   - Threads are identified by process and thread ID, and equal call paths of
//     all threads share a number.
//   - Call paths are listed in the order of their numbers.
//
// Memory grows with threads, the depth of their stacks, and call paths.
type TraceEvents struct {
	out      output
	opts     Options
	clock    reader.Clock
	decimals int
	heads    labels
	paths    *calls.Paths
	threads  perThread[eventThread]
	events   bool
}

// eventThread is the state of one thread.
type eventThread struct {
	ids  []byte // the text of tid and pid
	path calls.PathID
	last uint64 // TSC of the last record
	open openCalls
}

// NewTraceEvents starts the JSON of a trace.
func NewTraceEvents(w io.Writer, opts Options) *TraceEvents {
	t := &TraceEvents{
		out: newOutput(w), opts: opts, paths: calls.NewPaths(),
		clock: reader.Clock{Frequency: opts.Header.CycleFrequency}, decimals: 4,
	}
	if !t.clock.Known() {
		t.clock.Frequency = 1_000_000 // shows each tick as a microsecond
	}
	if opts.Header.Version < 3 {
		t.decimals = 3
	}
	t.heads = newLabels(func(dst []byte, id reader.FuncID) []byte {
		return appendJSON(append(dst, `    { "name" : `...), opts.labelOrID(id))
	})
	t.out.buf = append(t.out.buf, "{\n  \"traceEvents\": ["...)
	return t
}

// Block writes the events of a block.
func (t *TraceEvents) Block(b *reader.Block) error {
	thread := t.threads.at(b.Index)
	if thread.ids == nil {
		thread.ids = t.appendIDs(nil, b.Thread)
	}
	for i := range b.Events {
		e := &b.Events[i]
		thread.last = e.TSC
		switch {
		case e.Kind.IsEnter():
			thread.path = t.paths.Child(thread.path, e.Func)
			thread.open.enter(e.Func)
			t.event(thread, 'B', e.TSC)
		case e.Kind.IsExit() && thread.open.contains(t.paths, thread.path, e.Func):
			for ended := false; !ended; {
				ended = t.paths.Func(thread.path) == e.Func
				t.end(thread, e.TSC)
			}
		case endsWindow(b, i):
			for thread.path != 0 {
				t.end(thread, e.TSC)
			}
		}
	}
	return t.out.err
}

// end writes the end of the innermost open call.
func (t *TraceEvents) end(thread *eventThread, tsc uint64) {
	t.event(thread, 'E', tsc)
	thread.open.exit(t.paths.Func(thread.path))
	thread.path = t.paths.Parent(thread.path)
}

func (t *TraceEvents) event(thread *eventThread, phase byte, tsc uint64) {
	b := t.out.buf
	if t.events {
		b = append(b, ",\n"...)
	} else {
		t.events = true
		b = append(b, '\n')
	}
	b = append(b, t.heads.of(t.paths.Func(thread.path))...)
	b = append(b, `, "ph" : "`...)
	b = append(b, phase)
	b = append(b, thread.ids...)
	b = t.clock.AppendMicros(b, tsc, t.decimals)
	b = append(b, `", "sf" : "`...)
	b = strconv.AppendUint(b, uint64(thread.path)-1, 10)
	b = append(b, `" }`...)
	t.out.buf = t.out.spill(b)
}

func (t *TraceEvents) appendIDs(dst []byte, thread reader.Thread) []byte {
	dst = append(dst, `", "tid" : "`...)
	dst = strconv.AppendUint(dst, uint64(uint32(thread.Thread)), 10)
	dst = append(dst, `", "pid" : "`...)
	if t.opts.Header.Version < 3 {
		dst = append(dst, '1') // such traces record no CPU
	} else {
		dst = strconv.AppendUint(dst, uint64(uint32(thread.Process)), 10)
	}
	return append(dst, `", "ts" : "`...)
}

// Close writes the ends of open calls, thread by thread, and ends the JSON.
func (t *TraceEvents) Close() error {
	for i := range t.threads {
		for thread := &t.threads[i]; thread.path != 0; {
			t.end(thread, thread.last)
		}
	}
	if !t.events {
		t.out.buf = append(t.out.buf, '\n')
	}
	b := append(t.out.buf, "\n  ],\n  \"displayTimeUnit\": \"ns\",\n  \"stackFrames\": {"...)
	for id := calls.PathID(1); int(id) < t.paths.Len(); id++ {
		if id > 1 {
			b = append(b, ',')
		}
		b = append(b, "\n    \""...)
		b = strconv.AppendUint(b, uint64(id)-1, 10)
		b = append(b, `" : { "name" : `...)
		b = appendJSON(b, t.opts.labelOrID(t.paths.Func(id)))
		if parent := t.paths.Parent(id); parent != 0 {
			b = append(b, `, "parent": "`...)
			b = strconv.AppendUint(b, uint64(parent)-1, 10)
			b = append(b, '"')
		}
		b = t.out.spill(append(b, " }"...))
	}
	t.out.buf = b
	return t.out.finish("\n  }\n}\n")
}

// openCalls reports whether a function is on a thread's stack. It searches the stack frame by frame,
// because nearly every exit is that of the innermost call. At the first deep search, it begins to
// count the open calls of every function instead. So even a damaged trace full of unmatched exits
// takes linear time.
type openCalls struct {
	counts map[reader.FuncID]int // nil while searching is cheap
}

// searchDepth is the number of frames to search before counting begins.
const searchDepth = 64

func (o *openCalls) contains(paths *calls.Paths, path calls.PathID, fn reader.FuncID) bool {
	if o.counts != nil {
		return o.counts[fn] > 0
	}
	p := path
	for range searchDepth {
		if p == 0 || paths.Func(p) == fn {
			return p != 0
		}
		p = paths.Parent(p)
	}
	o.counts = map[reader.FuncID]int{}
	for p = path; p != 0; p = paths.Parent(p) {
		o.counts[paths.Func(p)]++
	}
	return o.counts[fn] > 0
}

func (o *openCalls) enter(fn reader.FuncID) {
	if o.counts != nil {
		o.counts[fn]++
	}
}

func (o *openCalls) exit(fn reader.FuncID) {
	if o.counts != nil {
		o.counts[fn]--
	}
}
