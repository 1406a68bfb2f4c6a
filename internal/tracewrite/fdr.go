package tracewrite

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"

	"github.com/xray-tools/xray/reader"
)

// DefaultBufferSize is the size of a thread's buffer in bytes in compiler-rt.
const DefaultBufferSize = 16 << 10

// maxDelta is the largest time step that is written as a delta. The field of a function record
// can hold twice as much. The runtime uses this limit too, because the field of an event is
// signed.
const maxDelta = math.MaxInt32

// Options configures the writers. The zero value is valid.
type Options struct {
	// BufferSize limits the bytes of a block, unless one event needs more. The default is
	// DefaultBufferSize.
	BufferSize int
	// Recording is written as metadata, as this project's recorder does. It may be nil.
	Recording *reader.Recording
	// First is the earliest TSC of the file. llvm-xray can refuse a file with a Recording and
	// an earlier TSC.
	First uint64
	// Processes, if not nil, assigns the process ids. It may have assigned some.
	Processes *Processes
}

// FDR writes an FDR log of version 5. It is not safe for concurrent use.
//
// Each thread fills a buffer. FDR writes it as a block when the next event does not fit, and in
// Close. A block begins with BufferExtents, NewBuffer, WallClock, PID and NewCPUId records. FDR
// repeats NewCPUId when the CPU changes, and writes a TSCWrap record when time goes back or
// advances by more than 2^31-1 ticks. The delta after either is 0.
//
// Wall clocks only order the blocks of a thread. The seconds are those of the TSC at the first
// event, but at least one more than in the previous block. The microseconds number the blocks.
// So both grow from block to block, because llvm-xray requires both for the order.
//
// FDR keeps the processes of several traces apart with [Processes].
type FDR struct {
	// Dropped counts what an FDR log cannot hold: arguments of events other than entries;
	// events with an empty payload, for which llvm-xray refuses the whole file; and entries of
	// function 0 without arguments, which can look like padding. No function has id 0.
	Dropped int64
	// TruncatedIDs counts events whose function id needs more than 28 bits. They are written
	// with the low 28 bits, as in the runtime.
	TruncatedIDs int64

	w         *bufio.Writer
	size      int
	frequency uint64
	processes *Processes
	threads   map[threadKey]*fdrThread
	order     []*fdrThread // by first event
	buffered  int          // bytes that their buffers take
	checksums bool
}

// noProcess is an unused process ID, above all those of Linux, for threads without one: metadata is in
// process 0.
const noProcess = 1 << 22

type threadKey struct{ process, thread int32 }

// fdrThread is the unfinished block of a thread, with the clock and CPU at its end.
type fdrThread struct {
	threadKey
	buf     []byte // empty between blocks
	tsc     uint64
	cpu     uint16
	seconds uint64 // wall clock of the last block
	blocks  uint32
}

// NewFDR returns a writer of an FDR log to w. h provides the clock.
func NewFDR(w io.Writer, h reader.Header, opts Options) *FDR {
	if opts.BufferSize <= 0 {
		opts.BufferSize = DefaultBufferSize
	}
	h.Type, h.Version = reader.FDR, 5
	h.ByteOrder = binary.LittleEndian
	h.BufferSize = uint64(opts.BufferSize)
	h.Recorder = opts.Recording != nil
	f := &FDR{
		w:         bufio.NewWriterSize(w, bufferedBytes),
		size:      opts.BufferSize,
		frequency: h.CycleFrequency,
		threads:   make(map[threadKey]*fdrThread),
		checksums: opts.Recording != nil,
		processes: opts.Processes,
	}
	if f.processes == nil {
		f.processes = new(Processes)
	}
	if f.frequency == 0 {
		f.frequency = 1_000_000_000
	}
	b := AppendHeader(nil, &h)
	if opts.Recording != nil {
		b = AppendRecording(b, opts.Recording, opts.First)
	}
	_, _ = f.w.Write(b) // an error stays in w
	return f
}

// Block writes the events of b in order. It returns the first error of the underlying writer on
// every later call.
func (f *FDR) Block(b *reader.Block) error {
	if len(b.Events) == 0 {
		return nil
	}
	key := threadKey{f.processes.Of(b.Thread), b.Thread.Thread}
	if key.process == 0 && f.checksums {
		key.process = noProcess
	}
	t := f.threads[key]
	if t == nil {
		t = &fdrThread{threadKey: key}
		f.threads[key] = t
		f.order = append(f.order, t)
	}
	// Threads that ended long ago must not keep their buffers.
	before := cap(t.buf)
	defer func() { f.buffered += cap(t.buf) - before }()
	if f.buffered > maxBuffered {
		if err := f.flushAll(); err != nil {
			return err
		}
		before = 0
	}
	args, payloads := b.Args, b.Payloads
	for i := range b.Events {
		e := &b.Events[i]
		if e.Kind > reader.EnterArg {
			for len(payloads) > 0 && payloads[0].Event < i {
				payloads = payloads[1:]
			}
			if len(payloads) == 0 || payloads[0].Event != i || len(payloads[0].Data) == 0 {
				f.Dropped++
				continue
			}
			if err := f.event(t, e, &payloads[0]); err != nil {
				return err
			}
			continue
		}
		var own []reader.Arg
		if e.Side {
			own, args = argsOf(args, i)
			if !e.Kind.IsEnter() {
				f.Dropped += int64(len(own))
				own = nil
			}
		}
		if e.Kind == reader.Enter && e.Func&maxFDRFunc == 0 {
			f.Dropped += 1 + int64(len(own))
			continue
		}
		delta, err := f.step(t, e, functionSize+metadataSize*len(own))
		if err != nil {
			return err
		}
		if uint32(e.Func) > maxFDRFunc {
			f.TruncatedIDs++
		}
		t.buf = binary.LittleEndian.AppendUint32(t.buf, functionWord(e.Kind, e.Func))
		t.buf = binary.LittleEndian.AppendUint32(t.buf, delta)
		for _, a := range own {
			t.metadata(&reader.Record{Kind: reader.CallArgument, Value: a.Value})
		}
	}
	return nil
}

// event writes a custom or typed event.
func (f *FDR) event(t *fdrThread, e *reader.Event, p *reader.Payload) error {
	delta, err := f.step(t, e, metadataSize+len(p.Data))
	if err != nil {
		return err
	}
	r := reader.Record{Kind: reader.CustomEvent, Delta: int64(delta), Data: p.Data}
	if e.Kind == reader.Typed {
		r.Kind, r.Type = reader.TypedEvent, p.Type
	}
	t.metadata(&r)
	return nil
}

// step makes room for size bytes of e, and updates CPU and clock of the block. It returns the
// delta that leads to the time of e.
func (f *FDR) step(t *fdrThread, e *reader.Event, size int) (delta uint32, err error) {
	// The extents do not count their own record. This leaves room for a record that changes CPU
	// or clock.
	if n := len(t.buf); n > 0 && n+size > f.size {
		if err := f.flush(t); err != nil {
			return 0, err
		}
	}
	last := t.tsc
	t.tsc = e.TSC
	switch {
	case len(t.buf) == 0:
		f.begin(t, e)
	case e.CPU != t.cpu:
		t.metadata(&reader.Record{Kind: reader.NewCPUID, CPU: e.CPU, TSC: e.TSC})
	case e.TSC < last || e.TSC-last > maxDelta:
		t.metadata(&reader.Record{Kind: reader.TSCWrap, TSC: e.TSC})
	default:
		return uint32(e.TSC - last), nil
	}
	t.cpu = e.CPU
	return 0, nil
}

// begin starts a block with e.
func (f *FDR) begin(t *fdrThread, e *reader.Event) {
	// Readers multiply the seconds. 32 bits are enough to order blocks.
	seconds := e.TSC / f.frequency & math.MaxUint32
	if t.blocks > 0 {
		seconds = max(seconds, t.seconds+1)
	}
	t.seconds = seconds
	t.metadata(&reader.Record{Kind: reader.BufferExtents})
	t.metadata(&reader.Record{Kind: reader.NewBuffer, Thread: t.thread})
	t.metadata(&reader.Record{Kind: reader.WallClock, Seconds: seconds, Micros: t.blocks})
	t.metadata(&reader.Record{Kind: reader.PID, Process: t.process})
	t.metadata(&reader.Record{Kind: reader.NewCPUID, CPU: e.CPU, TSC: e.TSC})
	if f.checksums {
		t.buf = AppendChecksum(t.buf)
	}
	t.blocks++
}

var fdrV5 = reader.Header{Version: 5, Type: reader.FDR, ByteOrder: binary.LittleEndian}

func (t *fdrThread) metadata(r *reader.Record) { t.buf = AppendRecord(t.buf, &fdrV5, r) }

// maxBuffered limits the memory for blocks that are not full, in bytes. A thousand threads with
// blocks of the default size need a quarter of it.
const maxBuffered = 64 << 20

// flushAll writes all unfinished blocks, and frees their memory.
func (f *FDR) flushAll() error {
	for _, t := range f.order {
		if len(t.buf) > 0 {
			if err := f.flush(t); err != nil {
				return err
			}
		}
		t.buf = nil
	}
	f.buffered = 0
	return nil
}

// flush writes the block of t.
func (f *FDR) flush(t *fdrThread) error {
	binary.LittleEndian.PutUint64(t.buf[1:], uint64(len(t.buf)-metadataSize))
	if f.checksums {
		Seal(t.buf)
	}
	_, err := f.w.Write(t.buf)
	t.buf = t.buf[:0]
	return err
}

// Close writes the unfinished blocks in order of the first events of their threads. It does not
// close the underlying writer.
func (f *FDR) Close() error {
	for _, t := range f.order {
		if len(t.buf) == 0 {
			continue
		}
		if err := f.flush(t); err != nil {
			return err
		}
	}
	return f.w.Flush()
}
