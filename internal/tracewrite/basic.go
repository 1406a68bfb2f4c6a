package tracewrite

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// bufferedBytes is how much output is gathered before it is written.
const bufferedBytes = 64 << 10

// Basic writes a basic log of version 3, or what llvm-xray calls raw. It is not
// safe for concurrent use.
//
// Traces that are read together keep their processes apart, as [Processes] says;
// before version 3, there are no process ids that could.
type Basic struct {
	// Dropped counts what a basic log cannot hold: custom and typed events, and
	// arguments of anything but an entry. Of CPU numbers it holds 8 bits, and
	// the rest is cut off without being counted.
	Dropped int64

	w       io.Writer
	buf     []byte
	records basicRecords
	err     error
}

// NewBasic returns a writer of a basic version 3 log to w, which takes its clock
// from h. Logged arguments become payload records.
func NewBasic(w io.Writer, h reader.Header) *Basic {
	h.Type, h.Version = reader.Basic, 3
	return newBasic(w, h, false)
}

// NewRaw returns a writer of what `llvm-xray convert -f raw` writes: the version
// of a basic source is kept, entries with arguments become plain entries, and
// arguments count as dropped. From other sources llvm-xray copies the type and
// version too, which makes a file that no tool can read; here those become
// basic version 3.
func NewRaw(w io.Writer, h reader.Header) *Basic {
	if h.Type != reader.Basic {
		h.Type, h.Version = reader.Basic, 3
	}
	return newBasic(w, h, true)
}

func newBasic(w io.Writer, h reader.Header, raw bool) *Basic {
	h.ByteOrder = binary.LittleEndian
	return &Basic{
		w: w, records: basicRecords{raw: raw, pids: h.Version >= 3},
		buf: AppendHeader(make([]byte, 0, bufferedBytes+basicSize), &h),
	}
}

// Block writes the events of b in their order. The first error of the
// underlying writer stays.
func (w *Basic) Block(b *reader.Block) error {
	ids := w.records.ids(b.Thread)
	args := b.Args
	for i := range b.Events {
		e := &b.Events[i]
		var own []reader.Arg
		if e.Side {
			own, args = argsOf(args, i)
		}
		w.buf = w.records.append(w.buf, e, ids, own)
		if len(w.buf) >= bufferedBytes {
			w.flush()
		}
	}
	w.Dropped = w.records.dropped
	return w.err
}

// Sorted writes all of a trace in the order of time, with up to n goroutines.
// edit is as of [reader.Trace.EachByTime].
func (w *Basic) Sorted(t *reader.Trace, n int, edit func(*reader.Block) *reader.Block) error {
	if w.flush(); w.err != nil {
		return w.err
	}
	shards := make([]basicRecords, n)
	for i := range shards {
		shards[i] = w.records.clone()
	}
	err := t.EachByTime(n, edit, func(shard int, window *reader.Window) {
		shards[shard].window(window)
	}, func(window *reader.Window) error {
		_, err := w.w.Write(window.Out)
		return err
	})
	for i := range shards {
		w.Dropped += shards[i].dropped
	}
	w.err = err
	return err
}

// basicRecords makes events into records of a basic log.
type basicRecords struct {
	raw       bool // as llvm-xray converts: no arguments
	pids      bool // the version has process ids
	processes Processes
	threads   []uint64 // what records have of the threads of windows
	dropped   int64
}

func (r *basicRecords) clone() basicRecords { return basicRecords{raw: r.raw, pids: r.pids} }

// ids are thread and process as records hold them, side by side.
func (r *basicRecords) ids(t reader.Thread) uint64 {
	ids := uint64(uint32(t.Thread))
	if r.pids {
		ids |= uint64(uint32(r.processes.Of(t))) << 32
	}
	return ids
}

// window appends the records of a window to its Out.
func (r *basicRecords) window(w *reader.Window) {
	for _, t := range w.Threads[len(r.threads):] {
		r.threads = append(r.threads, r.ids(t))
	}
	out := slices.Grow(w.Out, len(w.Order)*basicSize)
	for _, i := range w.Order {
		e := &w.Events[i]
		ids := r.threads[w.Owners[i]]
		switch {
		case e.Side:
			out = r.append(out, e, ids, w.ArgsOf(i))
		case e.Kind > reader.TailExit:
			out = r.append(out, e, ids, nil)
		default:
			out = appendWords(out, headWord(e, e.Kind), e.TSC, ids)
		}
	}
	w.Out = out
}

// headWord is the first word of a function record.
func headWord(e *reader.Event, kind reader.Kind) uint64 {
	return uint64(byte(e.CPU))<<16 | uint64(kind)<<24 | uint64(uint32(e.Func))<<32
}

// append appends the records of an event.
func (r *basicRecords) append(dst []byte, e *reader.Event, ids uint64, args []reader.Arg) []byte {
	if e.Kind > reader.EnterArg {
		r.dropped++
		return dst
	}
	kind := e.Kind
	if r.raw && kind == reader.EnterArg {
		kind = reader.Enter
	}
	dst = appendWords(dst, headWord(e, kind), e.TSC, ids)
	if r.raw || !e.Kind.IsEnter() {
		r.dropped += int64(len(args))
		return dst
	}
	for _, a := range args {
		dst = appendWords(dst, 1|uint64(uint32(e.Func))<<32, ids, a.Value)
	}
	return dst
}

// appendWords appends a record, of which the fourth word is 0.
func appendWords(dst []byte, a, b, c uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, a)
	dst = binary.LittleEndian.AppendUint64(dst, b)
	dst = binary.LittleEndian.AppendUint64(dst, c)
	return binary.LittleEndian.AppendUint64(dst, 0)
}

func (w *Basic) flush() {
	if w.err == nil {
		_, w.err = w.w.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// Close writes what is left. It does not close the underlying writer.
func (w *Basic) Close() error {
	w.flush()
	return w.err
}

// argsOf splits off the arguments of event i from the front of args, and passes
// over those of events before it.
func argsOf(args []reader.Arg, i int) (own, rest []reader.Arg) {
	from := 0
	for from < len(args) && args[from].Event < i {
		from++
	}
	to := from
	for to < len(args) && args[to].Event == i {
		to++
	}
	return args[from:to], args[to:]
}
