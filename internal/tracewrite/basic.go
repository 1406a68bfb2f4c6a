package tracewrite

import (
	"encoding/binary"
	"io"

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

	w    io.Writer
	buf  []byte
	raw  bool // as llvm-xray converts: no arguments
	pids bool // the version has process ids
	err  error

	processes Processes
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
		w: w, raw: raw, pids: h.Version >= 3,
		buf: AppendHeader(make([]byte, 0, bufferedBytes+basicSize), &h),
	}
}

// Block writes the events of b in their order. The first error of the
// underlying writer stays.
func (w *Basic) Block(b *reader.Block) error {
	process := uint32(0)
	if w.pids {
		process = uint32(w.processes.Of(b.Thread))
	}
	args := b.Args
	for i := range b.Events {
		e := &b.Events[i]
		if e.Kind > reader.EnterArg {
			w.Dropped++
			continue
		}
		kind := e.Kind
		if w.raw && kind == reader.EnterArg {
			kind = reader.Enter
		}
		r := w.record()
		r[2] = byte(e.CPU)
		r[3] = byte(kind)
		binary.LittleEndian.PutUint32(r[4:], uint32(e.Func))
		binary.LittleEndian.PutUint64(r[8:], e.TSC)
		binary.LittleEndian.PutUint32(r[16:], uint32(b.Thread.Thread))
		binary.LittleEndian.PutUint32(r[20:], process)
		if !e.Side {
			continue
		}
		var own []reader.Arg
		own, args = argsOf(args, i)
		if w.raw || !e.Kind.IsEnter() {
			w.Dropped += int64(len(own))
			continue
		}
		for _, a := range own {
			r := w.record()
			r[0] = 1
			binary.LittleEndian.PutUint32(r[4:], uint32(e.Func))
			binary.LittleEndian.PutUint32(r[8:], uint32(b.Thread.Thread))
			binary.LittleEndian.PutUint32(r[12:], process)
			binary.LittleEndian.PutUint64(r[16:], a.Value)
		}
	}
	return w.err
}

// record makes room for a record of zeros.
func (w *Basic) record() []byte {
	if len(w.buf) >= bufferedBytes {
		w.flush()
	}
	w.buf = append(w.buf, zeros[:basicSize]...)
	return w.buf[len(w.buf)-basicSize:]
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
