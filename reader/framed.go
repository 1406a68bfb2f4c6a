package reader

import (
	"cmp"
	"container/list"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/xray-tools/xray/internal/frames"
)

// framed is the log in an input that consists of [frames]. Its methods may be called concurrently.
type framed struct {
	name   string
	in     *input // of the frames
	frames []framePlace
	size   int64 // of the log

	mu      sync.Mutex
	decoded map[int]*decodedFrame
	// idle has the decoded frames without readers, in the order in which their memory is reused.
	idle    list.List
	bytes   int // of all decoded frames
	damaged map[int]Loss
}

// framePlace is where a frame begins in the log, and in the file.
type framePlace struct{ log, file int64 }

// keptFrames is how many bytes of decoded frames are kept. Reading in time order needs a frame for
// each thread. If they do not fit, they are decoded several times.
const keptFrames = 32 << 20

// unframe returns the log in an input that consists of frames, and other inputs as they are.
// maxThreads limits the number of frames as it limits the number of blocks.
func unframe(in *input, name string, maxThreads int, losses *Losses) (*input, error) {
	var magic [len(frames.Magic)]byte
	if n, err := readFull(in, magic[:], 0); err != nil || string(magic[:n]) != frames.Magic {
		return in, nil
	}
	f := &framed{name: name, in: in, decoded: make(map[int]*decodedFrame), damaged: make(map[int]Loss)}
	if err := in.guard(name, func() error { return f.find(maxThreads, losses) }); err != nil {
		return nil, err
	}
	packed := "frames"
	if in.packed != "" {
		packed = in.packed + " and frames"
	}
	return &input{ReaderAt: f, size: f.size, packed: packed, stored: cmp.Or(in.stored, in.size), close: in.close, damage: in.damage, framed: f}, nil
}

// find finds the frames. It decodes none of them.
func (f *framed) find(maxThreads int, losses *Losses) error {
	w := window{in: f.in}
	limit := threadIndex{max: maxThreads}
	for pos := int64(0); pos < f.in.size; {
		b, err := w.at(pos, frames.HeadEnd)
		if err != nil {
			return err
		}
		h, ok := frames.ParseHeader(b)
		if !ok {
			next, err := f.resync(&w, pos+1)
			if err != nil {
				return err
			}
			l := Loss{Cause: BadBlock, File: f.name, Offset: f.size, Bytes: next - pos, Detail: fmt.Sprintf("no frame at %#x of the compressed file", pos)}
			if next == f.in.size && next-pos < frames.HeadEnd {
				l.Cause = TruncatedFile
			}
			losses.add(l)
			pos = next
			continue
		}
		end := pos + int64(h.End())
		if end > f.in.size {
			losses.add(Loss{Cause: TruncatedFile, File: f.name, Offset: f.size, Bytes: int64(h.Size),
				Detail: fmt.Sprintf("the frame at %#x of the compressed file needs %d bytes, but the file ends after %d", pos, end-pos, f.in.size-pos)})
			break
		}
		limit.bytes += int64(h.Size)
		if err := limit.addBlock(&file{name: f.name}); err != nil {
			return err
		}
		f.frames = append(f.frames, framePlace{f.size, pos})
		f.size += int64(h.Size)
		f.in.use(pos, end)
		pos = end
	}
	return nil
}

// resync returns the first offset from pos on where a frame begins, or the end of the file.
func (f *framed) resync(w *window, pos int64) (int64, error) {
	for pos < f.in.size {
		b, err := w.at(pos, scanWindow)
		if err != nil {
			return pos, err
		}
		last := pos+int64(len(b)) == f.in.size
		n := len(b) - frames.HeadEnd + 1
		if last {
			n = len(b)
		}
		for i := range n {
			if b[i] == frames.Magic[0] {
				if _, ok := frames.ParseHeader(b[i:]); ok {
					return pos + int64(i), nil
				}
			}
		}
		f.in.use(pos, pos+int64(n))
		pos += int64(n)
	}
	return f.in.size, nil
}

// at returns the frame that contains an offset of the log.
func (f *framed) at(off int64) int {
	i, found := slices.BinarySearchFunc(f.frames, off, func(p framePlace, off int64) int { return cmp.Compare(p.log, off) })
	if !found {
		i--
	}
	return i
}

// end returns where a frame ends in the log.
func (f *framed) end(i int) int64 {
	if i+1 < len(f.frames) {
		return f.frames[i+1].log
	}
	return f.size
}

// header returns a frame's header and its bytes.
func (f *framed) header(i int) (h frames.Header, b []byte, err error) {
	w := window{in: f.in}
	if b, err = w.at(f.frames[i].file, frames.HeadEnd); err != nil {
		return h, nil, err
	}
	h, ok := frames.ParseHeader(b)
	size := h.End()
	if !ok || int64(h.Size) != f.end(i)-f.frames[i].log || f.frames[i].file+int64(size) > f.in.size {
		return h, nil, errShrinks
	}
	b, err = w.at(f.frames[i].file, size)
	return h, b, err
}

// ReadAt implements io.ReaderAt. Where a frame is damaged, it reads zeros, which are padding in
// FDR logs, and notes a loss.
func (f *framed) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && off < f.size {
		i := f.at(off)
		k, err := f.read(p[n:], i, int(off-f.frames[i].log))
		if err != nil {
			return n, err
		}
		n += k
		off += int64(k)
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// read copies bytes of a frame from an offset in it.
func (f *framed) read(p []byte, i, from int) (n int, err error) {
	size := int(f.end(i) - f.frames[i].log)
	p = p[:min(len(p), size-from)]
	if from+len(p) <= min(size, frames.HeadSize) {
		// The head of a frame is not compressed. So the index of the log decodes nothing.
		err = f.in.guard(f.name, func() error {
			_, b, err := f.header(i)
			n = copy(p, b[min(frames.HeaderSize+from, len(b)):])
			return err
		})
		return n, err
	}
	d, err := f.decode(i, size)
	if err != nil {
		return 0, err
	}
	n = copy(p, d.data[from:])
	f.release(d, from+n == size)
	return n, nil
}

// decodedFrame is a frame whose bytes are in memory.
type decodedFrame struct {
	frame   int
	readers int
	idle    *list.Element // nil while there are readers
	ready   sync.Mutex    // held while it is being decoded
	data    []byte
	err     error
	read    bool // to the end
}

// decode returns a frame for reading until release.
func (f *framed) decode(i, size int) (*decodedFrame, error) {
	f.mu.Lock()
	d := f.decoded[i]
	known := d != nil
	if !known {
		d = f.room(size)
		d.frame = i
		d.ready.Lock()
		f.decoded[i] = d
	} else if d.idle != nil {
		f.idle.Remove(d.idle)
		d.idle = nil
	}
	d.readers++
	f.mu.Unlock()
	if known {
		d.ready.Lock()
	} else {
		d.err = f.unpack(d)
	}
	d.ready.Unlock()
	if err := d.err; err != nil {
		f.release(d, true)
		return nil, err
	}
	return d, nil
}

// room returns memory for a frame. If there is no room for more, it takes the memory of frames
// that were read to the end, or that were read longest ago.
func (f *framed) room(size int) *decodedFrame {
	const overhead = 256 // of a frame that is kept
	d := &decodedFrame{}
	for e := f.idle.Front(); e != nil; e = f.idle.Front() {
		o := e.Value.(*decodedFrame)
		if !o.read && f.bytes+size+overhead <= keptFrames {
			break
		}
		f.idle.Remove(e)
		delete(f.decoded, o.frame)
		f.bytes -= cap(o.data) + overhead
		if o.idle, o.read = nil, false; cap(o.data) >= size {
			d = o
			break
		}
	}
	d.data = slices.Grow(d.data[:0], size)[:size]
	f.bytes += cap(d.data) + overhead
	return d
}

// release ends the reading of a frame. If read is set, the frame is not expected to be read again.
func (f *framed) release(d *decodedFrame, read bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.read = d.read || read
	if d.readers--; d.readers > 0 {
		return
	}
	if d.read {
		d.idle = f.idle.PushFront(d)
	} else {
		d.idle = f.idle.PushBack(d)
	}
}

// unpack decodes a frame. A damaged one is its head and zeros.
func (f *framed) unpack(d *decodedFrame) error {
	return f.in.guard(f.name, func() error {
		h, b, err := f.header(d.frame)
		if err != nil {
			return err
		}
		place := f.frames[d.frame]
		if err := frames.Decode(d.data, &h, b); err != nil {
			clear(d.data[copy(d.data, b[frames.HeaderSize:min(len(b), frames.HeadEnd)]):])
			f.mu.Lock()
			f.damaged[d.frame] = Loss{Cause: BadBlock, File: f.name, Offset: place.log, Bytes: int64(h.Size),
				Detail: fmt.Sprintf("the frame at %#x of the compressed file is damaged: %v", place.file, err)}
			f.mu.Unlock()
		}
		f.in.use(place.file, place.file+int64(len(b)))
		return nil
	})
}

// losses adds the losses of damaged frames that have been read.
func (f *framed) losses(all *Losses) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(f.damaged)) {
		all.add(f.damaged[i])
	}
}
