package core

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/report/label"
)

// Basic mode of LLVM's runtime has a buffer for each thread. A structure in the program's thread-local
// data refers to it:
//
//	 0 address of the records       24 address of the shadow stack
//	 8 capacity in records          32 its capacity in calls
//	16 number of records            40 its number of calls
//
// The structure is below the thread pointer, at the same distance in all threads. Only this memory is
// searched, because data that look like the structure could be anywhere.
const (
	localsSize    = 48
	maxLocals     = 256 << 10 // bytes to search below the thread pointer
	basicSize     = 32
	maxBasic      = 1 << 24 // records of a buffer
	threadPointer = 280     // offset in NT_PRSTATUS
	// fullySearched is the number of threads after which only known distances are checked.
	fullySearched = 64
	// maxSearched limits how many threads are searched until one has a buffer.
	maxSearched = 4096
)

var basic3 = reader.Header{Version: 3, Type: reader.Basic, ConstantTSC: true, NonstopTSC: true, ByteOrder: binary.LittleEndian}

// basicBuffer is the buffer of a thread.
type basicBuffer struct {
	address  uint64
	count    uint64 // number of records
	flushing bool   // the thread was writing them to the log
	data     []byte // the records
}

// basicLog reads the buffers of basic mode. It returns nil if there are none.
func (c *Core) basicLog(wanted func(*ring.Segment) bool) *Log {
	// The right distance is the one at which the most threads have a buffer.
	byDistance := make(map[uint64][]basicBuffer)
	for n, tp := range c.threadPointers(wanted) {
		if n >= fullySearched && len(byDistance) > 0 {
			for distance := range byDistance {
				f := make(ring.Fields, localsSize)
				if _, err := c.image.ReadSome(f, tp-distance); err == nil {
					if b, ok := c.buffer(f, tp-distance); ok {
						byDistance[distance] = append(byDistance[distance], b)
					}
				}
			}
			continue
		}
		if n == maxSearched {
			break
		}
		c.eachBuffer(tp, func(distance uint64, b basicBuffer) { byDistance[distance] = append(byDistance[distance], b) })
	}
	var buffers []basicBuffer
	for _, distance := range slices.Sorted(maps.Keys(byDistance)) {
		if found := byDistance[distance]; len(found) > len(buffers) {
			buffers = found
		}
	}
	if len(buffers) == 0 {
		return nil
	}
	l := &Log{Type: reader.Basic, image: c.image, header: basic3}
	flushing, foreign := uint64(0), uint64(0)
	for _, b := range buffers {
		p, copies := b.part()
		if b.flushing {
			flushing++
		}
		foreign += uint64(copies)
		if c.live != nil {
			p.copied = b.data[copies*basicSize:]
		}
		l.parts = append(l.parts, p)
	}
	slices.SortStableFunc(l.parts, func(a, b logPart) int {
		return cmp.Or(cmp.Compare(a.tsc, b.tsc), cmp.Compare(a.thread, b.thread), cmp.Compare(a.address, b.address))
	})
	l.note("earlier records are in the file that the runtime wrote (xray-log.*)")
	if flushing > 0 {
		l.note("%s writing records, which may also be in that file", label.Count(flushing, "thread was", "threads were"))
	}
	if foreign > 0 {
		l.note("%s left out", label.Count(foreign, "record of the parent process is", "records of the parent process are"))
	}
	c.setClock(l)
	return l
}

// part describes the records of the last process in the buffer. In a forked child, copies of the
// parent's records come before them.
func (b *basicBuffer) part() (p logPart, copies int) {
	r := make([]reader.Record, 1)
	processOf := func(data []byte) int32 {
		_, _ = reader.ParseRecord(data, &basic3, &r[0])
		return r[0].Process
	}
	n := len(b.data)
	process := processOf(b.data[n-basicSize:])
	for processOf(b.data[copies*basicSize:]) != process {
		copies++
	}
	return logPart{
		thread: r[0].Thread, process: process, tsc: r[0].TSC,
		address: b.address + uint64(copies)*basicSize, size: n - copies*basicSize,
	}, copies
}

// eachBuffer calls each with the candidates for the buffer of the thread with this thread pointer.
func (c *Core) eachBuffer(tp uint64, each func(distance uint64, b basicBuffer)) {
	size := min(uint64(maxLocals), tp)
	locals := make(ring.Fields, size)
	// Lower addresses may be missing, because a thread's stack may begin there.
	for {
		if n, _ := c.image.ReadSome(locals, tp-uint64(len(locals))); n == len(locals) {
			break
		}
		if locals = locals[:len(locals)/2&^7]; len(locals) < localsSize {
			return
		}
	}
	for at := len(locals)&^7 - localsSize; at >= 0; at -= 8 {
		f := locals[at:]
		if n := f.U64(16); n == 0 || n > maxBasic {
			continue
		}
		address := tp - uint64(len(locals)-at)
		if b, ok := c.buffer(f, address); ok {
			each(tp-address, b)
		}
	}
}

// buffer reads the buffer that thread-local data at an address refer to. It returns false if the data
// are something else.
func (c *Core) buffer(f ring.Fields, address uint64) (b basicBuffer, ok bool) {
	b = basicBuffer{address: f.U64(0), count: f.U64(16)}
	room, stack, calls := f.U64(8), f.U64(24), f.U64(32)
	if b.address == 0 || b.address%8 != 0 || b.address >= ring.UserSpace || room > maxBasic || b.count > room ||
		calls > maxBasic || calls > 0 && (stack == 0 || stack%8 != 0 || stack >= ring.UserSpace) {
		return b, false
	}
	b.flushing = b.count == room
	if c.image.Available(b.address, room*basicSize) < int(room*basicSize) ||
		calls > 0 && c.image.Available(stack, calls*16) < int(calls*16) {
		return b, false
	}
	b.data = make([]byte, b.count*basicSize)
	if n, _ := c.image.ReadSome(b.data, b.address); n < len(b.data) {
		return b, false
	}
	if c.live != nil && !c.settle(&b, address) {
		return b, false
	}
	var r reader.Record
	for data := b.data; len(data) > 0; data = data[basicSize:] {
		if _, err := reader.ParseRecord(data, &basic3, &r); err != nil || r.Func == 0 || r.Thread <= 0 || r.Process <= 0 {
			return b, false
		}
	}
	// Only a forked process has records of another thread in a buffer.
	return b, c.live == nil || c.live.runs(r.Thread)
}

// settle keeps the records that did not change while they were read from a running process. See
// [fdrReader.settled].
func (c *Core) settle(b *basicBuffer, address uint64) bool {
	again := make([]byte, len(b.data))
	locals := make(ring.Fields, localsSize)
	if n, _ := c.image.ReadSome(again, b.address); n < len(again) {
		return false
	}
	if n, _ := c.image.ReadSome(locals, address); n < len(locals) || locals.U64(0) != b.address {
		return false
	}
	n := int(min(b.count, locals.U64(16)))
	for k := range n {
		if at := k * basicSize; !bytes.Equal(b.data[at:at+basicSize], again[at:at+basicSize]) {
			n = k
			break
		}
	}
	b.data, b.count = b.data[:n*basicSize], uint64(n)
	return n > 0
}

// threadPointers returns the thread pointers of the threads.
func (c *Core) threadPointers(wanted func(*ring.Segment) bool) (list []uint64) {
	if c.live != nil {
		return c.searchPointers(wanted)
	}
	c.image.EachNote(func(_ elf.NType, body []byte) bool {
		if len(body) >= threadPointer+8 {
			list = append(list, ring.Fields(body).U64(threadPointer))
		}
		return true
	}, elf.NT_PRSTATUS)
	return list
}

// searchPointers finds thread pointers by the data that the C library keeps there. Some may belong to
// threads that have ended.
func (c *Core) searchPointers(wanted func(*ring.Segment) bool) (list []uint64) {
	const head = 24
	c.image.EachWindow(head-8, wanted, func(address uint64, p []byte) bool {
		for at := 0; at+head <= len(p); at += 8 {
			self := address + uint64(at)
			if binary.LittleEndian.Uint64(p[at:]) == self && binary.LittleEndian.Uint64(p[at+16:]) == self {
				list = append(list, self)
			}
		}
		return len(list) < ring.MaxThreads
	})
	return list
}
