package tracewrite

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// bufferedBytes is the size of the output buffer.
const bufferedBytes = 64 << 10

// Basic writes a basic log of version 3, or the format that llvm-xray calls raw. It is not safe
// for concurrent use.
//
// It keeps the processes of several traces apart with [Processes]. Logs before version 3 have
// no process ids.
type Basic struct {
	// Dropped counts what a basic log cannot hold: custom and typed events, and arguments of
	// events other than entries. CPU numbers are truncated to 8 bits, which is not counted.
	Dropped int64

	w       io.Writer
	buf     []byte
	records basicRecords
	err     error
}

// NewBasic returns a writer of a basic log of version 3 to w. h provides the clock. Logged
// arguments become argument records.
func NewBasic(w io.Writer, h reader.Header) *Basic {
	h.Type, h.Version = reader.Basic, 3
	return newBasic(w, h, false)
}

// NewRaw returns a writer of the output of `llvm-xray convert -f raw`: it keeps the version of
// a basic source, writes entries with arguments as plain entries, and counts arguments as
// dropped. For other sources llvm-xray also copies type and version, which makes a file that no
// tool can read. NewRaw writes basic version 3 instead.
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

// Block writes the events of b in order. It returns the first error of the underlying writer on
// every later call.
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

// Sorted writes a whole trace in order of time, with up to n goroutines. For edit see
// [reader.Trace.EachByTime].
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

// basicRecords converts events to records of a basic log.
type basicRecords struct {
	raw       bool // as llvm-xray converts: no arguments
	pids      bool // the version has process ids
	processes Processes
	threads   []uint64 // ids of the threads of windows, as in records
	dropped   int64
}

func (r *basicRecords) clone() basicRecords { return basicRecords{raw: r.raw, pids: r.pids} }

// ids returns the thread and process ids as they are side by side in a record.
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

// headWord returns the first word of a function record.
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

// appendWords appends a record whose fourth word is 0.
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

// Close writes the rest of the output. It does not close the underlying writer.
func (w *Basic) Close() error {
	w.flush()
	return w.err
}

// argsOf removes the arguments of event i and of earlier events from the front of args.
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
