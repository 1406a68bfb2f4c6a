package reader

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"sync/atomic"
)

// Options of [Open]. The zero value is usable.
type Options struct {
	// Stdin is read for the path "-". If nil, it is os.Stdin.
	Stdin io.Reader
	// MaxThreads is the maximum number of threads in all files together. 0 is
	// DefaultMaxThreads. If there are more, the error is a [*TooManyThreadsError]: of Open,
	// or, in basic logs, of a pass.
	MaxThreads int
	// Frequency is the clock frequency, in ticks per second, for files that do not state it.
	// 0 leaves it unknown.
	Frequency uint64
	// Fetch, if not nil, opens paths that are not files, such as URLs, and returns the name that
	// Files and messages use. For other paths, it returns nil. Open reads the stream like a pipe,
	// and closes it.
	Fetch func(path string) (name string, s Stream, err error)
}

// Stream is a file that Options.Fetch opened.
type Stream interface {
	io.ReadCloser
	// Err returns the error that Read returned, other than io.EOF. No part of a stream with an
	// error is used.
	Err() error
}

// Trace is one or more trace files that are read together. Passes over it (each call of
// Each, Blocks or Records) must not run at the same time.
type Trace struct {
	files   []*file
	threads threadIndex
	// frequency is Options.Frequency.
	frequency uint64
	// losses of the last pass. The files keep those of opening.
	losses  Losses
	done    atomic.Int64 // bytes decoded by the current pass
	outside atomic.Int64 // records outside of windows in the current pass
}

// file is one trace file: what all formats have in common, and its format.
type file struct {
	name   string
	number int32
	header Header
	in     *input
	// losses found while opening.
	losses Losses
	format format
	// recording is the recorder's metadata, or nil if there is none.
	recording *Recording
	// If the trace has several programs, recording has other IDs than the file: shifts says which,
	// and own has those of the file. Otherwise, both are nil.
	own         *Recording
	shifts      shifts
	checksums   bool                // of all blocks
	threadNames map[[2]int32]string // by process and thread
	// frequency is that of the header, or a measured one. anchored is the time in
	// nanoseconds over which it was measured, or 0.
	frequency, anchored uint64
}

// format is the part that differs between basic logs, FDR logs and trace YAML.
type format interface {
	// stream decodes the file on one goroutine, in FileOrder or ThreadOrder.
	stream(p *pass, order Order, fn func(*Block) error) error
	// each decodes the file on up to n goroutines, each thread on one of them.
	each(p *pass, n int, fn func(shard int, b *Block) error) error
	// lanes returns the threads, which can be decoded separately, in the order of their
	// first record.
	lanes(p *pass) ([]lane, error)
	records(yield func(Record, error) bool)
}

// lane is one thread of a file.
type lane interface {
	// first returns the time and the place of the first event, or false if only a decoder
	// can tell.
	first() (tsc uint64, at place, ok bool)
	// decoder starts decoding. eventCap limits the events of a block.
	decoder(p *pass, eventCap int) laneDecoder
}

// laneDecoder walks a lane. next returns nil at the end.
type laneDecoder interface {
	next() (*Block, error)
	close() // reports losses to the pass
}

// blockEvents is the maximum number of events in a block, unless memory is limited: 16 KB,
// which stay in the first-level cache on their way to the consumer.
const blockEvents = 1024

// Open opens the traces at the given paths. "-" is standard input. It detects the format by
// content: an XRay header of either byte order, a file of profiling mode, trace YAML, or one of these compressed with
// gzip or zstd, or in frames. If the files are recordings of several programs, functions get IDs that
// are unique in the trace.
func Open(opts Options, paths ...string) (*Trace, error) {
	if opts.Stdin == nil {
		opts.Stdin = os.Stdin
	}
	t := &Trace{threads: threadIndex{max: cmp.Or(opts.MaxThreads, DefaultMaxThreads)}, frequency: opts.Frequency}
	for i, path := range paths {
		f, err := t.open(path, int32(i), opts)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.files = append(t.files, f)
	}
	t.merge()
	return t, nil
}

// OpenReaderAt opens a single uncompressed trace in r. Errors call it name.
func OpenReaderAt(r io.ReaderAt, size int64, name string) (*Trace, error) {
	t := &Trace{threads: threadIndex{max: DefaultMaxThreads}}
	f, err := t.newFile(&input{ReaderAt: r, size: size, close: func() error { return nil }}, name, 0)
	if err != nil {
		return nil, err
	}
	t.files = []*file{f}
	return t, nil
}

func (t *Trace) open(path string, number int32, opts Options) (*file, error) {
	name, in, err := t.input(path, opts)
	if err != nil {
		return nil, err
	}
	f, err := t.newFile(in, name, number)
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	return f, nil
}

// input opens a path, and returns its name for messages.
func (t *Trace) input(path string, opts Options) (name string, in *input, err error) {
	if opts.Fetch != nil {
		name, s, err := opts.Fetch(path)
		if err != nil {
			return "", nil, err
		}
		if s != nil {
			in, err = newInput(name, s, maybeTrace)
			if failed := errors.Join(s.Err(), s.Close()); failed != nil {
				if err == nil {
					failed = errors.Join(failed, in.close())
				}
				return "", nil, failed
			}
			return name, in, err
		}
	}
	in, err = openInput(path, opts.Stdin, maybeTrace)
	return path, in, err
}

// keptFiles is how many files of a trace stay open. Passes over further FDR logs use their mappings.
const keptFiles = 16

func (t *Trace) newFile(in *input, name string, number int32) (*file, error) {
	f := &file{name: name, number: number}
	opened := in
	in, err := unframe(in, name, t.threads.max, &f.losses)
	if err != nil {
		return nil, err
	}
	f.in = in
	var head [headerSize]byte
	n, err := readFull(in, head[:], 0)
	if err != nil {
		return nil, &FormatError{name, 0, err}
	}
	order, binaryTrace := detect(head[:n])
	profiling, isProfiling := profilingOrder(head[:n])
	switch {
	case isProfiling:
		f.format = profilingFile{}
		err := in.guard(name, func() error { return parseProfiling(f, profiling, t.threads.max) })
		if err != nil {
			return nil, err
		}
	case binaryTrace && n < headerSize:
		return nil, &FormatError{name, 0, fmt.Errorf(
			"%w: the header needs %d bytes, the file has %d: is it truncated?", ErrNotTrace, headerSize, n)}
	case binaryTrace:
		f.header = parseHeader(head[:], order)
		if newest := newestVersion(f.header.Type); f.header.Version > newest {
			f.losses.add(Loss{Cause: NewerVersion, File: name,
				Detail: fmt.Sprintf("version %d; the newest known version is %d", f.header.Version, newest)})
		}
		if f.header.Type == Basic {
			f.format = &basicLog{file: f, threads: &t.threads}
		} else {
			f.format = &fdrLog{file: f, threads: &t.threads}
		}
	default:
		err := in.guard(name, func() (err error) {
			f.format, err = parseYAML(f, &t.threads)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if l, ok := in.lost(name); ok {
		f.losses.add(l)
	}
	if l, ok := f.format.(*fdrLog); ok {
		if err := in.guard(name, l.index); err != nil {
			return nil, err
		}
	}
	f.header.CycleFrequency = cmp.Or(f.header.CycleFrequency, t.frequency)
	f.calibrate()
	if f.recording != nil {
		if err := f.recording.settle(); err != nil {
			f.losses.add(Loss{Cause: BadMetadata, File: f.name, Records: 1, Detail: err.Error()})
		}
	}
	f.nameThreads()
	if _, ok := f.format.(*fdrLog); ok && len(t.files) < keptFiles {
		return f, nil
	}
	return f, opened.closeFile()
}

// calibrate chooses the frequency of the file's clock. The recorder writes the header when
// it has hardly begun to measure. Its anchors span the whole recording.
func (f *file) calibrate() {
	f.frequency = f.header.CycleFrequency
	if f.recording == nil {
		return
	}
	measured, span := f.recording.Clock.measured()
	switch {
	case measured == 0:
	case f.frequency == 0 || near(measured, f.frequency, 100):
		f.frequency, f.anchored = measured, span
	default:
		f.losses.add(Loss{Cause: BadMetadata, File: f.name,
			Detail: fmt.Sprintf("the clock's anchors give %d ticks per second, and the header %d, which is used", measured, f.frequency)})
	}
}

// longAnchored is the time in nanoseconds from which on a measured frequency is exact enough to tell
// clocks apart. Processes that end sooner measure theirs less exactly.
const longAnchored = 100_000_000

// near reports whether two frequencies differ by less than one part in parts.
func near(a, b, parts uint64) bool { return max(a, b)-min(a, b) < min(a, b)/parts }

// maxVersion is the largest plausible version. There have been five in ten years.
const maxVersion = 15

// detect determines the byte order from version and type. They are 16-bit numbers that use only
// the low byte: valid values in one order are invalid in the other.
func detect(head []byte) (order binary.ByteOrder, ok bool) {
	if len(head) < 4 {
		return nil, false
	}
	switch {
	case 0 < head[0] && head[0] <= maxVersion && head[1] == 0 && head[2] <= 1 && head[3] == 0:
		return binary.LittleEndian, true
	case head[0] == 0 && 0 < head[1] && head[1] <= maxVersion && head[2] == 0 && head[3] <= 1:
		return binary.BigEndian, true
	}
	return nil, false
}

func parseHeader(b []byte, o binary.ByteOrder) Header {
	// Only two flag bits are defined. Recorders leave the others unset.
	flags := o.Uint32(b[4:])
	h := Header{
		Version:        o.Uint16(b),
		Type:           Type(o.Uint16(b[2:])),
		ConstantTSC:    flags&1 != 0,
		NonstopTSC:     flags&2 != 0,
		CycleFrequency: o.Uint64(b[8:]),
		ByteOrder:      o,
	}
	if h.Type == FDR {
		h.BufferSize = o.Uint64(b[16:])
		h.Recorder = string(b[headerSize-len(RecorderMark):headerSize]) == RecorderMark
	}
	return h
}

// newestVersion is the newest version of a format that LLVM has defined.
func newestVersion(t Type) uint16 {
	if t == FDR {
		return 5
	}
	return 3
}

// Close closes the files.
func (t *Trace) Close() error {
	var err error
	for _, f := range t.files {
		err = errors.Join(err, f.in.close())
	}
	return err
}

// Files returns the names of the files, as given to Open.
func (t *Trace) Files() []string {
	names := make([]string, len(t.files))
	for i, f := range t.files {
		names[i] = f.name
	}
	return names
}

// Header returns the header of a file, with Options.Frequency if it states none.
func (t *Trace) Header(file int) Header { return t.files[file].header }

// Threads returns the number of threads that were found so far: when the trace was opened,
// or, in basic logs, in passes over it.
func (t *Trace) Threads() int {
	t.threads.mu.Lock()
	defer t.threads.mu.Unlock()
	return len(t.threads.list)
}

// Fiber returns what stands for a fiber of a thread, and its index as in [Block]. Blocks are of threads: who
// follows [ParseStack] in them knows the fiber. Fiber may be called concurrently.
func (t *Trace) Fiber(th Thread, number uint32) (Thread, int, error) {
	th = th.OfFiber(number)
	i, err := t.threads.of(t.files[th.File], th)
	return th, i, err
}

// Size returns the size of a file in bytes, after decompression.
func (t *Trace) Size(file int) int64 { return t.files[file].in.size }

// Bytes returns a file after decompression. It is valid until Close. If the file shrinks,
// reading it returns an error.
func (t *Trace) Bytes(file int) *io.SectionReader {
	in := t.files[file].in
	return io.NewSectionReader(in, 0, in.size)
}

// Packed returns the compression of a file: gzip, zstd, frames, or "" for none. stored is the
// compressed size.
func (t *Trace) Packed(file int) (format string, stored int64) {
	in := t.files[file].in
	return in.packed, in.stored
}

// CycleFrequency returns the ticks per second that all files share, or an error if they
// differ, because their times cannot be compared then. A frequency that the recorder
// measured is more exact than that of the header. Of several measurements, the longest
// counts.
func (t *Trace) CycleFrequency() (uint64, error) {
	if len(t.files) == 0 {
		return 0, nil
	}
	best := t.files[0]
	for _, f := range t.files[1:] {
		parts := uint64(10_000)
		if min(f.anchored, best.anchored) < longAnchored {
			parts = 100
		}
		measured := f.recording != nil && best.recording != nil && near(f.frequency, best.frequency, parts)
		if f.frequency != best.frequency && !measured {
			return 0, fmt.Errorf("%s has %d ticks per second and %s has %d: analyze them separately",
				best.name, best.frequency, f.name, f.frequency)
		}
		if f.anchored > best.anchored {
			best = f
		}
	}
	return best.frequency, nil
}

// Clock returns the clock of all files. The error is that of
// [Trace.CycleFrequency].
func (t *Trace) Clock() (Clock, error) {
	frequency, err := t.CycleFrequency()
	return Clock{frequency}, err
}

// Progress returns how many bytes the current pass has decoded, and the total. It may be
// called concurrently with a pass.
func (t *Trace) Progress() (done, total int64) {
	for _, f := range t.files {
		total += f.in.size
	}
	return min(t.done.Load(), total), total
}

// Outside returns how many records the last pass left out because they were outside of the windows
// of their recording, where records are incomplete.
func (t *Trace) Outside() uint64 { return uint64(t.outside.Load()) }

// Losses returns what opening the trace and the last pass over it lost.
func (t *Trace) Losses() *Losses {
	var all Losses
	for _, f := range t.files {
		all.merge(&f.losses)
		if f.in.framed != nil {
			f.in.framed.losses(&all)
		}
	}
	all.merge(&t.losses)
	return &all
}

// Order is an order of blocks. Stricter orders cost more.
type Order uint8

const (
	// FileOrder yields blocks in file order. Blocks of one thread of an FDR log may be out
	// of order.
	FileOrder Order = iota
	// ThreadOrder yields the blocks of each thread in order. Memory grows with the number
	// of blocks of an FDR log (32 bytes each) and of threads.
	ThreadOrder
	// TimeOrder yields all events merged by TSC. The blocks are short, because each ends
	// where another thread's event comes first. Events of one thread are never reordered.
	// Events with equal times keep the order of the files. Within basic logs and trace
	// YAML, they keep their position; in FDR logs, the thread with the first block comes
	// first. It needs a buffer for each thread. [Trace.EachByTime] costs less.
	TimeOrder
)

// Blocks yields the events of the trace. The block is valid until the next iteration. An
// error ends the sequence.
func (t *Trace) Blocks(order Order) iter.Seq2[*Block, error] {
	return func(yield func(*Block, error) bool) {
		stop := errors.New("stop")
		fn := func(b *Block) error {
			if !yield(b, nil) {
				return stop
			}
			return nil
		}
		p := t.begin()
		var err error
		if order == TimeOrder {
			err = t.timeOrder(p, fn)
		} else {
			for _, f := range t.files {
				if err = f.in.guard(f.name, func() error { return f.format.stream(p, order, fn) }); err != nil {
					break
				}
			}
		}
		if err != nil && err != stop {
			yield(nil, err)
		}
	}
}

// Records yields the records of a file in the order of their bytes, without interpretation.
// Trace YAML has none. Bytes that are not a record come as kind [Damage], with an error
// that says what is wrong with them, and reading continues after them. A record is valid
// until the next iteration. An error with a zero Record ends the sequence.
func (t *Trace) Records(file int) iter.Seq2[Record, error] {
	return t.files[file].format.records
}

// pass is one pass over the trace.
type pass struct {
	trace  *Trace
	packed bool       // Block.Packed may be used
	mu     sync.Mutex // guards trace.losses
}

func (t *Trace) begin() *pass {
	t.losses = Losses{}
	t.done.Store(0)
	t.outside.Store(0)
	return &pass{trace: t}
}

func (p *pass) lost(ls *Losses) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace.losses.merge(ls)
}

// decoded counts bytes of a file that are decoded.
func (p *pass) decoded(in *input, start, end int64) {
	p.trace.done.Add(end - start)
	in.use(start, end)
}

// readFull reads up to len(b) bytes, or fewer at the end of the file.
func readFull(r io.ReaderAt, b []byte, off int64) (int, error) {
	n, err := r.ReadAt(b, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}
