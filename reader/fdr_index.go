package reader

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
)

// An FDR log is a sequence of blocks, each the buffer of one thread:
//
//	version 1   NewBuffer WallClock NewCPUId {record} [EndOfBuffer] garbage
//	version 2   BufferExtents NewBuffer WallClock NewCPUId {record}
//	version 3+  BufferExtents NewBuffer WallClock PID NewCPUId {record}
//
// Blocks of version 1 have the buffer size in the header. Later versions state how many
// bytes follow BufferExtents. The index uses these sizes to jump from block to block, and
// reads only the records at their starts. If there is no block where a size points, the
// index looks for the next plausible start of a block. What lies between belongs to the
// block before it, whose decoder keeps valid records. See "FDR log" in docs/dev/format.md.

// fdrLog is an FDR log with its index.
type fdrLog struct {
	file    *file
	threads *threadIndex
	order   []*fdrLane // by first block
	first   int        // index of the first thread; those of the others follow in order
}

// fdrLane is one thread's blocks, ordered by wall clock.
type fdrLane struct {
	log    *fdrLog
	thread Thread
	index  int32
	blocks []fdrBlock
}

// size is the length of the lane in bytes. It stops counting at most.
func (l *fdrLane) size(most int64) (n int64) {
	for i := 0; i < len(l.blocks) && n < most; i++ {
		n += l.blocks[i].end - l.blocks[i].start
	}
	return n
}

// fdrBlock is the position of a block's records, beginning with NewBuffer.
type fdrBlock struct {
	start, end int64
	// declared is the end of the block as it declares. If the file contradicts that, end is
	// where the next block begins.
	declared int64
	// wall is the start time of the block, in microseconds of the recorder's monotonic
	// clock.
	wall uint64
}

// blockHead is what the index reads from a block's first records.
type blockHead struct {
	thread, process int32
	wall            uint64
	hasWall         bool
}

// maxHead is the length of the records at the start of a block that identify its thread:
// BufferExtents, NewBuffer, WallClock and PID.
const maxHead = 4 * metadataSize

func (l *fdrLog) index() error {
	l.first = len(l.threads.list)
	l.threads.bytes += l.file.in.size
	if l.file.header.Recorder {
		l.file.recording = &Recording{}
	}
	w := &window{in: l.file.in, file: l.file.in.file}
	size := l.file.in.size
	var lastWall uint64
	var ahead lookahead
	pos := int64(headerSize)
	for pos < size {
		f, err := ahead.find(l, w, pos)
		if err != nil {
			return err
		}
		if f.start < 0 { // no block here
			next, err := l.nextBlock(w, pos)
			if err != nil {
				return err
			}
			if err := l.gap(w, pos, next); err != nil {
				return err
			}
			pos = next
			continue
		}
		end, head := f.declared, f.head
		if !f.whole {
			if end, err = l.nextBlock(w, f.start+1); err != nil {
				return err
			}
			// A stream that could not be decompressed completely is already reported.
			if f.declared > size && end == size && l.file.header.Version >= 2 && l.file.in.damage == nil {
				l.file.losses.add(Loss{Cause: TruncatedFile, File: l.file.name, Offset: size, Bytes: f.declared - size,
					Detail: fmt.Sprintf("block at %#x declares %d bytes, but the file ends after %d", f.start, f.declared-f.start, size-f.start)})
			}
			if f.start < end {
				if head, err = l.head(w, f.start, end); err != nil {
					return err
				}
			}
		}
		if f.start < end {
			if !head.hasWall {
				head.wall = lastWall
			}
			lastWall = head.wall
			if err := l.addBlock(w, head, fdrBlock{start: f.start, end: end, declared: f.declared, wall: head.wall}); err != nil {
				return err
			}
		}
		w.use(pos, max(end, f.start))
		pos = max(end, f.start)
	}
	for _, lane := range l.order {
		slices.SortStableFunc(lane.blocks, func(a, b fdrBlock) int { return cmp.Compare(a.wall, b.wall) })
		if err := lane.dropCopies(); err != nil {
			return err
		}
	}
	return nil
}

// found is what is at a position where a block should begin.
type found struct {
	pos             int64
	start, declared int64 // of the block, as blockAt returns them
	whole           bool  // the block can end where it declares; head is known
	head            blockHead
}

func (l *fdrLog) find(w *window, pos int64) (f found, err error) {
	f.pos = pos
	if f.start, f.declared, err = l.blockAt(w, pos); err != nil || f.start < 0 || f.declared < f.start || f.declared > l.file.in.size {
		return f, err
	}
	// The end comes last: the window then has the start of the next block.
	if f.start < f.declared {
		if f.head, err = l.head(w, f.start, f.declared); err != nil {
			return f, err
		}
	}
	f.whole, err = l.endsAt(w, f.declared)
	return f, err
}

// lookahead finds blocks of a mapped file on several goroutines, each in a part of the next piece of
// the file. A part begins where a block plausibly does. Results for positions that turn out not to
// begin blocks are discarded.
type lookahead struct {
	parts [][]found // positions ascend
	end   int64     // of the piece
}

// aheadBytes is the length of a piece. aheadBlocks limits the memory for the results of each part.
const (
	aheadBytes  = 64 << 20
	aheadBlocks = 1 << 14
)

func (a *lookahead) find(l *fdrLog, w *window, pos int64) (found, error) {
	n := runtime.GOMAXPROCS(0)
	if n == 1 || w.file == nil {
		return l.find(w, pos)
	}
	if pos >= a.end {
		if err := a.advance(l, pos, n); err != nil {
			return found{}, err
		}
	}
	for len(a.parts) > 0 {
		switch part := a.parts[0]; {
		case len(part) == 0:
			a.parts = a.parts[1:]
		case part[0].pos < pos:
			a.parts[0] = part[1:]
		case part[0].pos == pos:
			return part[0], nil
		default:
			return l.find(w, pos)
		}
	}
	return l.find(w, pos)
}

// advance looks ahead from pos on.
func (a *lookahead) advance(l *fdrLog, pos int64, n int) error {
	a.end = min(pos+aheadBytes, l.file.in.size)
	a.parts = make([][]found, n)
	return parallel(n, func(_ context.Context, i int) error {
		return l.file.in.guard(l.file.name, func() (err error) {
			size := a.end - pos
			from, to := pos+size*int64(i)/int64(n), pos+size*int64(i+1)/int64(n)
			w := &window{in: l.file.in, file: l.file.in.file}
			if i > 0 {
				if from, err = l.nextBlockUpTo(w, from, to); err != nil {
					return err
				}
			}
			for from < to && len(a.parts[i]) < aheadBlocks {
				f, err := l.find(w, from)
				if err != nil || !f.whole {
					return err
				}
				a.parts[i] = append(a.parts[i], f)
				from = f.declared
				if from <= f.pos {
					return nil
				}
			}
			return nil
		})
	})
}

// dropCopies removes blocks that are in the log twice. compiler-rt causes that: if a thread
// ends before one that began earlier, its returned buffer overwrites the earlier one's
// entry in the table.
func (l *fdrLane) dropCopies() error {
	kept := l.blocks[:0]
	for _, b := range l.blocks {
		same := false
		if n := len(kept); n > 0 && kept[n-1].wall == b.wall && kept[n-1].end-kept[n-1].start == b.end-b.start {
			var err error
			if same, err = l.log.equal(kept[n-1].start, b.start, b.end-b.start); err != nil {
				return err
			}
		}
		if !same {
			kept = append(kept, b)
			continue
		}
		l.log.file.losses.add(Loss{Cause: DuplicateRun, File: l.log.file.name, Offset: b.start, Bytes: b.end - b.start,
			Detail: "a block that is in the file twice"})
	}
	l.blocks = kept
	return nil
}

// equal compares n bytes at two offsets.
func (l *fdrLog) equal(a, b, n int64) (bool, error) {
	in := l.file.in
	ra, rb := io.NewSectionReader(in, a, n), io.NewSectionReader(in, b, n)
	var ba, bb [4096]byte
	for n > 0 {
		k := min(n, int64(len(ba)))
		if _, err := io.ReadFull(ra, ba[:k]); err != nil {
			return false, err
		}
		if _, err := io.ReadFull(rb, bb[:k]); err != nil {
			return false, err
		}
		if ba != bb {
			return false, nil
		}
		n -= k
	}
	return true, nil
}

// addBlock adds a block to its thread, or reads it if it is metadata.
func (l *fdrLog) addBlock(w *window, h blockHead, b fdrBlock) error {
	if h.process == 0 && l.file.header.Version >= 5 {
		if is, err := l.isMetadata(w, b); err != nil {
			return err
		} else if is {
			if l.file.recording == nil {
				l.file.recording = &Recording{}
			}
			return l.readMetadata(w, b)
		}
	}
	if err := l.threads.addBlock(l.file); err != nil {
		return err
	}
	i, err := l.threads.of(l.file, Thread{File: l.file.number, Process: h.process, Thread: h.thread})
	if err != nil {
		return err
	}
	if i-l.first == len(l.order) {
		l.order = append(l.order, &fdrLane{log: l, thread: l.threads.list[i], index: int32(i)})
	}
	lane := l.order[i-l.first]
	lane.blocks = append(lane.blocks, b)
	return nil
}

// blockAt reads the size of the block at pos. It returns where its records start and where
// they end as declared. start is negative if no block begins there.
func (l *fdrLog) blockAt(w *window, pos int64) (start, declared int64, err error) {
	b, err := w.at(pos, maxHead)
	if err != nil {
		return -1, 0, err
	}
	var r Record
	h := &l.file.header
	if _, err := ParseRecord(b, h, &r); err != nil {
		return -1, 0, nil
	}
	switch {
	case r.Kind == BufferExtents && h.Version >= 2:
		start = pos + metadataSize
		if r.Value > uint64(1)<<62 {
			return start, 1 << 62, nil
		}
		return start, start + int64(r.Value), nil
	case r.Kind == NewBuffer && h.Version < 2:
		if h.BufferSize < metadataSize || h.BufferSize > 1<<62 {
			return pos, 1 << 62, nil
		}
		// A block of version 1 may lack its padding at the end of the file.
		return pos, min(pos+int64(h.BufferSize), max(l.file.in.size, pos)), nil
	case r.Kind == NewBuffer && l.plausible(b):
		return pos, -1, nil // its BufferExtents is lost
	}
	return -1, 0, nil
}

// maxPadding is how many zeros after a block are examined. More of them are padding,
// whatever follows.
const maxPadding = 4096

// endsAt reports whether a block can end at pos: at the end of the file, or
// before another block, with or without zero padding between.
func (l *fdrLog) endsAt(w *window, pos int64) (bool, error) {
	if pos == l.file.in.size {
		return true, nil
	}
	b, err := w.at(pos, maxHead)
	if err != nil {
		return false, err
	}
	if l.file.header.Version < 2 {
		return l.plausible(b), nil // buffers have a fixed size, so there is no padding
	}
	if b[0] != 0 {
		return l.begins(b), nil
	}
	if b, err = w.at(pos, maxPadding+maxHead); err != nil {
		return false, err
	}
	zeros := len(b) - len(bytes.TrimLeft(b, "\x00"))
	return zeros == len(b) || zeros >= maxPadding || l.begins(b[zeros:]), nil
}

// begins reports whether b, where a block should begin, begins one: with the extents of an
// empty block, or with extents and NewBuffer. A [fdrLog.plausible] block, which may be
// anywhere, must meet more conditions.
func (l *fdrLog) begins(b []byte) bool {
	h := &l.file.header
	var r Record
	n, err := ParseRecord(b, h, &r)
	if err != nil || r.Kind != BufferExtents {
		return l.plausible(b)
	}
	if r.Value == 0 {
		return true
	}
	_, err = ParseRecord(b[n:], h, &r)
	return err == nil && r.Kind == NewBuffer
}

// plausible reports whether b looks like the start of a block.
func (l *fdrLog) plausible(b []byte) bool {
	h := &l.file.header
	var r Record
	if n, err := ParseRecord(b, h, &r); err == nil && r.Kind == BufferExtents && h.Version >= 2 {
		b = b[n:]
	}
	n, err := ParseRecord(b, h, &r)
	if err != nil || r.Kind != NewBuffer || r.Thread < 0 {
		return false
	}
	if _, err = ParseRecord(b[n:], h, &r); err != nil {
		return false
	}
	// A clock that counts from boot takes 35,000 years to reach 2^40 seconds.
	return r.Kind == WallClock && r.Seconds < 1<<40 && r.Micros < 1e6
}

// nextBlock returns the first offset from pos on where a block plausibly begins, or the end
// of the file.
func (l *fdrLog) nextBlock(w *window, pos int64) (int64, error) {
	size := l.file.in.size
	pos, err := l.nextBlockUpTo(w, pos, size)
	return min(pos, size), err
}

// nextBlockUpTo is nextBlock, but does not look far beyond end.
func (l *fdrLog) nextBlockUpTo(w *window, pos, end int64) (int64, error) {
	size := l.file.in.size
	extents := MetadataByte(BufferExtents, l.file.header.ByteOrder)
	newBuffer := MetadataByte(NewBuffer, l.file.header.ByteOrder)
	for pos < end {
		b, err := w.at(pos, scanWindow)
		if err != nil {
			return size, err
		}
		last := int64(len(b)) == size-pos
		limit := len(b) - maxHead
		if last {
			limit = len(b)
		}
		i := 0
		for i < limit {
			e := bytes.IndexByte(b[i:limit], extents)
			n := bytes.IndexByte(b[i:limit], newBuffer)
			if e < 0 && n < 0 {
				i = limit
				break
			}
			if e < 0 || n >= 0 && n < e {
				e = n
			}
			i += e
			if l.plausible(b[i:]) {
				return pos + int64(i), nil
			}
			i++
		}
		w.use(pos, pos+int64(i))
		pos += int64(i)
		if last {
			return size, nil
		}
	}
	return pos, nil
}

// scanWindow is how many bytes are searched at a time for the next block.
const scanWindow = 64 << 10

// gap accounts for the bytes between two blocks. Zeros are padding.
func (l *fdrLog) gap(w *window, from, to int64) error {
	first, bad := int64(-1), int64(0)
	for pos := from; pos < to; {
		b, err := w.at(pos, int(min(to-pos, scanWindow)))
		if err != nil {
			return err
		}
		b = b[:min(int64(len(b)), to-pos)]
		for i, c := range b {
			if c != 0 {
				if first < 0 {
					first = pos + int64(i)
				}
				bad = pos + int64(i) + 1 - first
			}
		}
		w.use(pos, pos+int64(len(b)))
		pos += int64(len(b))
	}
	if bad > 0 {
		cause := BadBlock
		if to == l.file.in.size && bad < metadataSize {
			cause = TruncatedFile // not even the BufferExtents of the next block is complete
		}
		l.file.losses.add(Loss{Cause: cause, File: l.file.name, Offset: first, Bytes: bad})
	}
	return nil
}

// head identifies the thread of the block at start.
func (l *fdrLog) head(w *window, start, end int64) (blockHead, error) {
	b, err := w.at(start, maxHead)
	if err != nil {
		return blockHead{}, err
	}
	b = b[:min(int64(len(b)), end-start)]
	var h blockHead
	var r Record
	for {
		n, err := ParseRecord(b, &l.file.header, &r)
		if err != nil {
			return h, nil
		}
		switch r.Kind {
		case NewBuffer:
			h.thread = r.Thread
			if l.file.header.Version == 2 {
				// Version 2 has no PID records. LLVM uses the thread ID as the process ID.
				h.process = r.Thread
			}
		case WallClock:
			// The field that LLVM calls nanoseconds holds microseconds.
			h.wall, h.hasWall = r.Seconds*1e6+uint64(r.Micros), true
		case PID:
			h.process = r.Process
		default:
			return h, nil
		}
		b = b[n:]
	}
}

// window reads a file piecewise. What was read is valid until the next call.
type window struct {
	in   *input
	file *os.File // read instead of in, unless nil
	buf  []byte
	pos  int64
	n    int
}

// use is [input.use] for what was looked at.
func (w *window) use(start, end int64) {
	if w.file == nil {
		w.in.use(start, end)
	}
}

// at returns n bytes from pos on, or fewer at the end of the file.
func (w *window) at(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.in.size-pos))
	if w.file == nil && w.in.bytes != nil {
		return w.in.bytes[pos : pos+int64(n)], nil
	}
	if pos < w.pos || pos+int64(n) > w.pos+int64(w.n) {
		// Small blocks fit into one read. For big ones, little more than the start is read.
		want := n
		if w.in.framed == nil {
			want = int(min(int64(max(n, 1024)), w.in.size-pos))
		}
		if len(w.buf) < want {
			w.buf = make([]byte, want)
		}
		from := io.ReaderAt(w.in)
		if w.file != nil {
			from = w.file
		}
		got, err := readFull(from, w.buf[:want], pos)
		if err == nil && got < want {
			err = errShrinks
		}
		if err != nil {
			return nil, err
		}
		w.pos, w.n = pos, got
	}
	return w.buf[pos-w.pos : pos-w.pos+int64(n)], nil
}
