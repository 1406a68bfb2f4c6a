package reader

import (
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
	// Stdin is what the path "-" stands for; os.Stdin when nil.
	Stdin io.Reader
}

// Trace is one or more trace files that are read together. Passes over it (each
// call of Each, Blocks or Records) may follow each other, but must not run at
// the same time.
type Trace struct {
	files   []*file
	threads threadIndex
	// losses of the last pass; those of opening are kept by the files.
	losses Losses
	done   atomic.Int64 // bytes decoded by the pass that is running
}

// file is one trace file: what all formats share, and its format.
type file struct {
	name   string
	number int32
	header Header
	in     *input
	// losses found while opening.
	losses Losses
	format format
	// recording is what the recorder says; nil where it says nothing.
	recording   *Recording
	threadNames map[[2]int32]string // by process and thread
	// frequency is that of the header, or a better one; anchored is the time in
	// nanoseconds that it was measured over, 0 for that of the header.
	frequency, anchored uint64
}

// format is what differs between basic logs, FDR logs and trace YAML.
type format interface {
	// stream decodes the file on one goroutine, in FileOrder or ThreadOrder.
	stream(p *pass, order Order, fn func(*Block) error) error
	// each decodes the file on up to n goroutines, each thread on one of them.
	each(p *pass, n int, fn func(shard int, b *Block) error) error
	// lanes returns the threads, each to be decoded by itself, in the order of
	// their first record.
	lanes(p *pass) ([]lane, error)
	records(yield func(Record, error) bool)
}

// lane is one thread of a file.
type lane interface {
	// decoder starts decoding; eventCap bounds the events of a block.
	decoder(p *pass, eventCap int) laneDecoder
}

// laneDecoder walks a lane. next returns nil at the end.
type laneDecoder interface {
	next() (*Block, error)
	close() // hands what was lost to the pass
}

// blockEvents is how many events a block holds at most when memory is no
// concern: 16 KB, which stay in the first-level cache on their way to the
// consumer.
const blockEvents = 1024

// Open opens the traces that paths name; "-" is standard input. The format is
// decided by content: an XRay header of either byte order, trace YAML, or one
// of these compressed with gzip or zstd.
func Open(opts Options, paths ...string) (*Trace, error) {
	if opts.Stdin == nil {
		opts.Stdin = os.Stdin
	}
	t := &Trace{}
	for i, path := range paths {
		f, err := t.open(path, int32(i), opts)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.files = append(t.files, f)
	}
	return t, nil
}

// OpenReaderAt opens a single uncompressed trace that r holds; name stands for
// it in errors.
func OpenReaderAt(r io.ReaderAt, size int64, name string) (*Trace, error) {
	t := &Trace{}
	f, err := t.newFile(&input{ReaderAt: r, size: size, close: func() error { return nil }}, name, 0)
	if err != nil {
		return nil, err
	}
	t.files = []*file{f}
	return t, nil
}

func (t *Trace) open(path string, number int32, opts Options) (*file, error) {
	in, err := openInput(path, opts.Stdin, maybeTrace)
	if err != nil {
		return nil, err
	}
	f, err := t.newFile(in, path, number)
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	return f, nil
}

func (t *Trace) newFile(in *input, name string, number int32) (*file, error) {
	f := &file{name: name, number: number, in: in}
	var head [headerSize]byte
	n, err := readFull(in, head[:], 0)
	if err != nil {
		return nil, &FormatError{name, 0, err}
	}
	order, binaryTrace := detect(head[:n])
	switch {
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
	f.calibrate()
	if f.recording != nil {
		if err := f.recording.settle(); err != nil {
			f.losses.add(Loss{Cause: BadMetadata, File: f.name, Records: 1, Detail: err.Error()})
		}
	}
	f.nameThreads()
	return f, nil
}

// calibrate chooses the frequency of the file's clock. The recorder writes the
// header when it has hardly begun to measure; its anchors lie as far apart as
// the recording is long.
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

// near reports whether two frequencies differ by less than one part in so many.
func near(a, b, parts uint64) bool { return max(a, b)-min(a, b) < min(a, b)/parts }

// maxVersion is the largest version that is taken for one. There have been five
// in ten years.
const maxVersion = 15

// detect decides the byte order from version and type, which are 16-bit numbers
// of which only the low byte is used: what is valid in one order is not in the
// other.
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
	// Only two flag bits are defined; recorders leave the others unset.
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

// Files returns the names of the files, as they were opened.
func (t *Trace) Files() []string {
	names := make([]string, len(t.files))
	for i, f := range t.files {
		names[i] = f.name
	}
	return names
}

// Header returns the header of a file.
func (t *Trace) Header(file int) Header { return t.files[file].header }

// Size returns the size of a file in bytes, after decompression.
func (t *Trace) Size(file int) int64 { return t.files[file].in.size }

// Bytes are those of a file after decompression, until Close. If the file shrinks meanwhile,
// reading it is an error.
func (t *Trace) Bytes(file int) *io.SectionReader {
	in := t.files[file].in
	return io.NewSectionReader(in, 0, in.size)
}

// Packed names what a file is compressed with: gzip, zstd, or "" for nothing.
func (t *Trace) Packed(file int) string { return t.files[file].in.packed }

// CycleFrequency returns the ticks per second that all files share, and an
// error where they differ: their times cannot be put side by side then. Where a
// recorder measured the frequency it is more exact than that of the header, and
// of several measurements the longest counts.
func (t *Trace) CycleFrequency() (uint64, error) {
	if len(t.files) == 0 {
		return 0, nil
	}
	best := t.files[0]
	for _, f := range t.files[1:] {
		measured := f.recording != nil && best.recording != nil && near(f.frequency, best.frequency, 10_000)
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

// Progress returns how many bytes the running pass has decoded, and how many
// there are. It may be called concurrently with a pass.
func (t *Trace) Progress() (done, total int64) {
	for _, f := range t.files {
		total += f.in.size
	}
	return min(t.done.Load(), total), total
}

// Losses sums up what opening the trace and the last pass over it lost.
func (t *Trace) Losses() *Losses {
	var all Losses
	for _, f := range t.files {
		all.merge(&f.losses)
	}
	all.merge(&t.losses)
	return &all
}

// Order is an order of blocks. It is bought: pay for no more than needed.
type Order uint8

const (
	// FileOrder yields blocks front to back. Blocks of one thread of an FDR log
	// may come out of order.
	FileOrder Order = iota
	// ThreadOrder yields the blocks of each thread in order. Memory grows with
	// the number of blocks of an FDR log (32 bytes each) and of threads.
	ThreadOrder
	// TimeOrder yields all events merged by TSC; the blocks are short, as each
	// ends where another thread's event comes first. Events of one thread are
	// never reordered. Events of equal times come in the order of the files, in
	// basic logs and trace YAML by their place; in FDR logs the thread comes first
	// that has the first block. Costs a buffer for each thread, and
	// [Trace.EachByTime] costs less.
	TimeOrder
)

// Blocks yields the events of the trace. The block is valid until the next
// iteration. An error ends the sequence.
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

// Records yields the records of a file in the order of their bytes, without any
// interpretation; trace YAML has none. What is no record comes as one of kind
// [Damage], with an error that says what is wrong with it, and reading goes on
// behind it. A record is valid until the next iteration. An error with a zero
// Record ends the sequence.
func (t *Trace) Records(file int) iter.Seq2[Record, error] {
	return t.files[file].format.records
}

// pass is one walk over the trace.
type pass struct {
	trace  *Trace
	packed bool       // Block.Packed may be used
	mu     sync.Mutex // guards trace.losses
}

func (t *Trace) begin() *pass {
	t.losses = Losses{}
	t.done.Store(0)
	return &pass{trace: t}
}

func (p *pass) lost(ls *Losses) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trace.losses.merge(ls)
}

// decoded counts bytes of a file that are done with.
func (p *pass) decoded(in *input, bytes int64) {
	p.trace.done.Add(bytes)
	in.use(bytes)
}

// readFull reads up to len(b) bytes; fewer only at the end of the file.
func readFull(r io.ReaderAt, b []byte, off int64) (int, error) {
	n, err := r.ReadAt(b, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}
