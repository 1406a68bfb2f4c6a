package core

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/report/label"
)

// FDR mode of LLVM's runtime keeps its buffers in a BufferQueue, a static variable. The layout is
// that of LLVM 14 to 22 on x86-64:
//
//	 0 size of a buffer             48 next slot to take a buffer from
//	 8 number of buffers, and slots 56 next slot to release a buffer to
//	16 lock, 1 byte                 64 number of buffers that threads have
//	17 finalizing, 1 byte           72 generation
//	24 memory of the buffers
//	32 memory of their extents
//	40 slots
//
// Both areas begin with 64 bytes for a reference count. A buffer's extents are the size of its records:
// 8 bytes, in a line of 64. Slots describe buffers:
//
//	 0 address of its extents       32 memory of the buffers
//	 8 generation                   40 memory of their extents
//	16 address of its records       48 number of buffers
//	24 size                         56 taken at least once, 1 byte
//
// A thread may release its buffer to another slot than the one that it took it from. So the slots tell
// which buffers are free, but a buffer that a thread has may be in no slot, or in two. The address of a
// buffer determines where its extents are.
const (
	queueSize = 80
	queueSlot = 64
	lineSize  = 64 // size of a reference count, and of a buffer's extents
	pageSize  = 4096

	// fdrHead is the size of the records that begin a buffer: NewBuffer, WallClock and PID.
	fdrHead = 48

	maxBuffers = 1 << 22

	// If a process reuses its buffers meanwhile, they are read up to maxTries times, or fewTries times
	// once some records have been read.
	maxTries, fewTries = 100, 10
)

// fdrQueue is LLVM's BufferQueue.
type fdrQueue struct {
	address       uint64
	size, count   uint64 // of the buffers
	finalized     bool
	store         uint64
	extents       uint64
	slots         uint64
	next, release uint64 // slot numbers
	live          uint64
}

// parseQueue reads memory that may be a queue.
func parseQueue(f ring.Fields) (q fdrQueue, ok bool) {
	q = fdrQueue{
		size: f.U64(0), count: f.U64(8), finalized: f[17] != 0,
		store: f.U64(24), extents: f.U64(32), slots: f.U64(40), live: f.U64(64),
	}
	next, release, generation := f.U64(48)-q.slots, f.U64(56)-q.slots, f.U64(72)
	q.next, q.release = next/queueSlot, release/queueSlot
	high, total := bits.Mul64(q.size, q.count)
	// While a thread takes or releases a buffer, next, release and live may not match.
	ok = f.U64(16)&^0x0101 == 0 && isPage(q.store) && isPage(q.extents) && isPage(q.slots) &&
		q.size >= fdrHead && q.count >= 1 && q.count <= maxBuffers && high == 0 && total < ring.UserSpace && q.live <= q.count &&
		next%queueSlot == 0 && q.next < q.count && release%queueSlot == 0 && q.release < q.count && generation >= 1 && generation < 1<<32
	return q, ok
}

func isPage(address uint64) bool {
	return address != 0 && address < ring.UserSpace && address%pageSize == 0
}

// findQueue searches memory for the queue. It returns nil if there is none.
func findQueue(m *ring.Image, wanted func(*ring.Segment) bool) (found *fdrQueue) {
	m.EachWindow(queueSize-8, wanted, func(address uint64, p []byte) bool {
		for at := 0; at+queueSize <= len(p); at += 8 {
			if slots := binary.LittleEndian.Uint64(p[at+40:]); slots == 0 || slots%pageSize != 0 {
				continue
			}
			q, ok := parseQueue(p[at : at+queueSize])
			if ok && ownsSlots(m, &q) {
				q.address = address + uint64(at)
				found = &q
				return false
			}
		}
		return true
	})
	return found
}

// ownsSlots reports whether the slots of a queue belong to it, or are not in the image.
func ownsSlots(m *ring.Image, q *fdrQueue) bool {
	f := make(ring.Fields, queueSlot)
	if _, err := m.ReadSome(f, q.slots); err != nil {
		return !errors.Is(err, ring.ErrUnmapped)
	}
	return f.U64(24) == q.size && f.U64(32) == q.store && f.U64(40) == q.extents && f.U64(48) == q.count
}

// fdrReader reads the buffers of a queue.
type fdrReader struct {
	*fdrQueue
	core *Core
	log  *Log
	free []uint64 // used buffers that are free, in the order in which threads will take them
	held []uint64 // buffers that are not free
	used uint64   // number of slots whose buffer was taken at least once

	scratch []byte

	sorted                            bool   // the slots are in the image, so free buffers are known
	damaged, absent, partial, dropped uint64 // numbers of buffers
}

// ErrReused means that a running process takes buffers faster than they can be read.
var ErrReused = errors.New("the process reuses its buffers faster than xray can read them: pause it (kill -STOP), or use more buffers (buffer_max)")

// fdrLog reads the buffers of FDR mode. If the process reuses them meanwhile, fdrLog tries several times
// and returns the attempt with the most records.
func (c *Core) fdrLog(q *fdrQueue) (*Log, error) {
	var best *fdrReader
	for try := 0; try < maxTries && (best == nil || best.dropped > 0 && try < fewTries); try++ {
		r := &fdrReader{fdrQueue: q, core: c, log: &Log{Type: reader.FDR, image: c.image, header: ring.FDR5}}
		if err := r.read(); errors.Is(err, ErrReused) {
			continue
		} else if err != nil {
			return nil, c.image.Errorf("%w", err)
		}
		if best == nil || r.bytes() > best.bytes() {
			best = r
		}
		if c.live == nil {
			break
		}
	}
	if best == nil {
		return nil, c.image.Errorf("%w", ErrReused)
	}
	best.finish()
	if len(best.log.parts) == 0 {
		return nil, c.image.Errorf("%s", strings.Join(append([]string{"FDR mode of LLVM's runtime has no records in its buffers"}, best.log.notes...), "; "))
	}
	return best.log, nil
}

// bytes returns the size of the records.
func (r *fdrReader) bytes() (n int) {
	for i := range r.log.parts {
		n += r.log.parts[i].size
	}
	return n
}

func (r *fdrReader) read() error {
	until := ^uint64(0)
	if r.core.live != nil {
		until = r.core.live.micros()
		if err := r.reread(); err != nil {
			return err
		}
	}
	if err := r.sort(); err != nil {
		return err
	}
	lost := 0
	for n, i := range r.free {
		// The buffer has been reused. Its thread has older records only in the buffers before this one.
		// Drop these, so that the thread's records have no gap.
		if !r.buffer(i, until, true) {
			r.dropped += uint64(len(r.log.parts)) + 1
			r.log.parts = r.log.parts[:0]
			lost = n + 1
		}
	}
	if lost > 0 && lost == len(r.free) {
		return ErrReused
	}
	before := len(r.log.parts)
	for _, i := range r.held {
		r.buffer(i, until, false)
	}
	if r.sorted {
		for i := before; i < len(r.log.parts); i++ {
			r.log.parts[i].held = true
		}
		r.dropLost()
	}
	return nil
}

// dropLost drops buffers that the queue lost long ago. If threads take and release buffers at the same
// moment, one may read a slot before the other has written it. Then two threads write to the same
// buffer, and another buffer is in no slot and is never used again. Threads reuse the oldest free buffer
// first. So if a thread has an older free buffer, its records after the lost buffer are still there.
func (r *fdrReader) dropLost() {
	newest, oldest := make(map[[2]int32]*logPart), make(map[[2]int32]*logPart)
	for i := range r.log.parts {
		p := &r.log.parts[i]
		key := [2]int32{p.process, p.thread}
		if newest[key] == nil || newest[key].compare(p) < 0 {
			newest[key] = p
		}
		if !p.held && (oldest[key] == nil || p.compare(oldest[key]) < 0) {
			oldest[key] = p
		}
	}
	var kept []logPart
	for i := range r.log.parts {
		p := &r.log.parts[i]
		key := [2]int32{p.process, p.thread}
		if !p.held || newest[key] == p || oldest[key] != nil && oldest[key].compare(p) < 0 {
			kept = append(kept, *p)
		}
	}
	r.dropped += uint64(len(r.log.parts) - len(kept))
	r.log.parts = kept
}

// compare orders buffers by the time at which threads took them.
func (p *logPart) compare(o *logPart) int {
	return cmp.Or(cmp.Compare(p.wall(), o.wall()), cmp.Compare(p.tsc, o.tsc), cmp.Compare(p.address, o.address))
}

// reread reads the queue of a running process.
func (r *fdrReader) reread() error {
	b, err := r.core.image.Read("the buffer queue of LLVM's runtime", r.address, queueSize)
	if err != nil {
		return err
	}
	q, ok := parseQueue(b)
	switch {
	case !ok:
		return errors.New("the program is initializing LLVM's runtime: try again")
	case (q.release+q.live)%q.count != q.next:
		return ErrReused // a thread is taking or releasing a buffer
	}
	q.address = r.address
	r.fdrQueue = &q
	return nil
}

// sort reads the slots, and divides the buffers into free and held ones.
func (r *fdrReader) sort() error {
	free := make(map[uint64]bool)
	slots := make(ring.Fields, r.image().Available(r.slots, r.count*queueSlot))
	if uint64(len(slots)) < r.count*queueSlot {
		slots = nil
	} else if _, err := r.image().ReadSome(slots, r.slots); err != nil {
		return err
	}
	r.sorted = slots != nil
	for n := range uint64(len(slots) / queueSlot) {
		f := slots[(r.next+n)%r.count*queueSlot:]
		used := f[56] != 0
		if used {
			r.used++
		}
		at := f.U64(16) - r.store - lineSize
		if i := at / r.size; n < r.count-r.live && at%r.size == 0 && i < r.count && !free[i] {
			free[i] = true
			if used {
				r.free = append(r.free, i)
			}
		}
	}
	// Skip buffers without extents in the image, because a damaged count may be huge.
	there := uint64(max(r.image().Available(r.extents, (r.count+1)*lineSize)/lineSize-1, 0))
	if slots == nil {
		r.absent += r.count - there
	}
	for i := range r.count {
		switch {
		case i >= there && slots == nil:
			return nil
		case i >= there && !free[i]:
			r.absent++
		case !free[i]:
			r.held = append(r.held, i)
		}
	}
	return nil
}

func (r *fdrReader) image() *ring.Image { return r.core.image }

// buffer reads a buffer. It reports whether the buffer still has the contents from the time until, in
// microseconds of CLOCK_MONOTONIC. A buffer that was free then changes only if a thread has taken it
// since.
func (r *fdrReader) buffer(i, until uint64, free bool) bool {
	live := r.core.live != nil
	extents, err := r.image().Word(r.extents + lineSize*(i+1))
	if err != nil {
		r.absent++
		return true
	}
	if extents == 0 {
		return !live
	}
	if extents > r.size {
		r.damaged++
		return true
	}
	p := logPart{address: r.store + lineSize + i*r.size}
	data := make([]byte, r.image().Available(p.address, r.size))
	n, _ := r.image().ReadSome(data, p.address)
	data = data[:n]
	whole := uint64(n) == r.size
	still := true // nothing changed while it was read
	if live {
		same, now := r.settled(data, p.address, i)
		still = now == extents && len(same) == n
		data, extents = same, min(extents, now)
	}
	switch {
	case live && (len(data) < fdrHead || extents < fdrHead):
		return false // a thread has just taken it
	case len(data) < fdrHead:
		r.absent++
		return true
	case !p.parseHead(data):
		r.damaged++
		return true
	case p.wall() >= until:
		return false
	}
	end, ok := recordsEnd(data, int(extents))
	switch {
	case live && free && !still:
		return false
	case live:
		p.copied = data[:end:end]
		if !ok && still {
			r.damaged++
		}
	case !ok && !whole:
		r.partial++
	case !ok:
		// Keep the damaged part. The reader reports it.
		r.damaged++
		end = max(end, int(extents))
	}
	if p.size = end; end > fdrHead {
		r.log.parts = append(r.log.parts, p)
	}
	return true
}

// settled reads a buffer of a running process again. It returns the part of data that has not changed,
// and the buffer's extents after that. The thread may remove records at the end and write others there.
// These are never equal to the old ones, because they have later times.
func (r *fdrReader) settled(data []byte, address, i uint64) (same []byte, extents uint64) {
	r.scratch = slices.Grow(r.scratch[:0], len(data))[:len(data)]
	n, _ := r.image().ReadSome(r.scratch, address)
	extents, err := r.image().Word(r.extents + lineSize*(i+1))
	if err != nil {
		return nil, 0
	}
	if !bytes.Equal(data[:n], r.scratch[:n]) {
		for n = 0; data[n] == r.scratch[n]; n++ {
		}
	}
	return data[:n], extents
}

// parseHead reads the records that begin a buffer.
func (p *logPart) parseHead(data []byte) bool {
	var r [4]reader.Record
	at := 0
	for i := range r {
		n, err := reader.ParseRecord(data[at:], &ring.FDR5, &r[i])
		if err != nil && i < 3 {
			return false
		}
		at += n
	}
	p.thread, p.seconds, p.micros, p.process = r[0].Thread, r[1].Seconds, r[1].Micros, r[2].Process
	p.tsc = r[3].TSC
	return r[0].Kind == reader.NewBuffer && r[1].Kind == reader.WallClock && r[2].Kind == reader.PID &&
		p.seconds < 1<<40 && p.micros < 1e6
}

// recordsEnd returns where the complete records of a buffer with these extents end, and whether the
// extents end there too. The runtime does not count the headers of typed events in the extents.
func recordsEnd(data []byte, extents int) (end int, ok bool) {
	const header = 16
	var r reader.Record
	for end < extents {
		n, err := reader.ParseRecord(data[end:], &ring.FDR5, &r)
		if err != nil || end+n > extents+header && r.Kind == reader.TypedEvent || end+n > extents && r.Kind != reader.TypedEvent {
			return end, false
		}
		if end += n; r.Kind == reader.TypedEvent {
			extents += header
		}
	}
	return end, end == extents
}

// finish sorts the buffers and adds notes about what is missing.
func (r *fdrReader) finish() {
	l := r.log
	slices.SortStableFunc(l.parts, func(a, b logPart) int { return a.compare(&b) })
	l.header.BufferSize = r.size
	l.header.ConstantTSC, l.header.NonstopTSC = true, true // the runtime does not check them
	if r.finalized {
		l.note("the program had ended its recording, and may have written the same records to a file")
	}
	if r.used == r.count {
		l.note("every buffer was used, so older records may have been overwritten (raise buffer_max)")
	}
	if r.live == r.count {
		l.note("threads had all buffers, so other threads may have recorded nothing (raise buffer_max)")
	}
	if lost := uint64(len(r.held)) - r.live; r.sorted && uint64(len(r.held)) > r.live {
		l.note("LLVM's runtime lost %s in a race between threads, so there may be gaps between records", label.Count(lost, "buffer", "buffers"))
	}
	if !r.sorted {
		l.note("the slots of the buffer queue are not in the core file, so there may be gaps between records")
	}
	for _, n := range []struct {
		n    uint64
		what string
	}{
		{r.damaged, "damaged"},
		{r.absent, "not in the core file"},
		{r.partial, "only partly in the core file"},
		{r.dropped, "left out, because later buffers of the same threads have been overwritten"},
	} {
		if n.n > 0 {
			l.note("%s %s", label.Count(n.n, "buffer is", "buffers are"), n.what)
		}
	}
	r.core.setClock(l)
}
