package recorder

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strings"

	"github.com/xray-tools/xray/reader"
)

// The layout of the runtime's memory, as in runtime/layout.h, version 1. The sizes are those of the
// parts used here. The structs of other runtimes of this version may be longer.
const (
	layoutVersion = 1
	rootSize      = 232
	threadSize    = 144
	threadSumsAt  = 2224 // missing in cores of older recorders
	threadGoneAt  = 2488 // likewise
	objectSize    = 696
	chunkSize     = 64 << 10
	chunkHeader   = 64
	chunkMagic    = 0x4b4e484359415258
	// chunkStreamedAt is the offset of the number of bytes that are in the trace.
	chunkStreamedAt = 48
)

// The layout of struct xr_budget, and the offset of its address in struct xr_root.
const (
	rootBudgetAt    = rootWindowsAt + 32
	budgetOnAt      = 8
	budgetSpentAt   = 12
	budgetDecidedAt = 16
	budgetBurstAt   = 20
	budgetShareAt   = budgetBurstAt + 4*(1+255)
)

// Limits for values in tables.
const (
	maxStruct  = 64 << 10
	maxObjects = 1 << 14
	maxThreads = 1 << 20
	maxHooked  = 1 << 20
	maxRows    = 100_000 // threads that the trace names
)

// fields reads the fields of a struct.
type fields []byte

func (f fields) u32(at int) uint32 { return binary.LittleEndian.Uint32(f[at:]) }
func (f fields) u64(at int) uint64 { return binary.LittleEndian.Uint64(f[at:]) }

// text returns a string that ends with a zero byte or at this length.
func (f fields) text(at, room int) string {
	s, _, _ := strings.Cut(string(f[at:at+room]), "\x00")
	return s
}

// runtimeRoot is struct xr_root.
type runtimeRoot struct {
	threadSize, objectSize int
	pid, mode, depth       uint32
	threshold              uint64
	threads, nthreads      uint64
	objects, nobjects      uint64
	maxFunction            uint64
	frequency              uint64
	start                  reader.Anchor
	dropped                uint64
	invariant              bool
	hooked, nhooked        uint64 // functions without sleds
	session                uint64
	windows                windowTable
	budget                 uint64 // address of struct xr_budget, 0 without one
}

// modeNames are the modes by number.
var modeNames = []string{"off", "record", "prune", "count", "profile", "depth"}

const (
	modeCount   = 3
	modeProfile = 4
)

// parseRoot reads the struct at an address where its magic was found. It returns an error if the data
// there cannot be the struct.
func (m *image) parseRoot(address uint64) (*runtimeRoot, error) {
	b, err := m.read("the recorder's root", address, rootSize)
	if err != nil {
		return nil, err
	}
	f := fields(b)
	if v := f.u32(16); v != layoutVersion {
		return nil, m.errorf("the recorder's root at address %#x is of version %d; this xray supports version %d: use the xray that recorded it", address, v, layoutVersion)
	}
	r := &runtimeRoot{
		threadSize: int(f.u32(32)), objectSize: int(f.u32(36)),
		pid: f.u32(40), mode: f.u32(44), depth: f.u32(168),
		threshold: f.u64(48),
		threads:   f.u64(64), nthreads: f.u64(72),
		objects: f.u64(88), nobjects: f.u64(96),
		maxFunction: f.u64(104), frequency: f.u64(112),
		start:     reader.Anchor{TSC: f.u64(120), Raw: f.u64(128), Real: f.u64(136), Width: f.u64(144)},
		dropped:   f.u64(160),
		invariant: f.u32(180) != 0,
		hooked:    f.u64(208), nhooked: f.u64(216), session: f.u64(224),
	}
	if r.nhooked > maxHooked || f.u32(20) < rootSize || f.u32(24) != chunkSize || f.u32(28) != chunkHeader ||
		r.threadSize < threadSize || r.threadSize > maxStruct || r.objectSize < objectSize || r.objectSize > maxStruct ||
		int(r.mode) >= len(modeNames) || r.nthreads > maxThreads || r.nobjects > maxObjects {
		return nil, m.errorf("the recorder's root at address %#x is damaged", address)
	}
	// Older recorders lack the last of these fields.
	const windows = rootBudgetAt - rootWindowsAt
	w := make(fields, windows+8)
	if f.u32(20) < rootBudgetAt+8 {
		w = w[:windows]
	}
	if f.u32(20) >= rootBudgetAt {
		if n, err := m.readSome(w, address+rootWindowsAt); n == len(w) && err == nil {
			r.windows = windowTable{w.u64(0), w.u64(8), w.u64(16), w.u64(24)}
			if len(w) > windows {
				r.budget = w.u64(windows)
			}
		}
	}
	return r, nil
}

// budgetShare returns the share of the CPU time that the budget at an address allows, in millionths. It
// returns 0 if the process does not record within a budget.
func (m *image) budgetShare(address uint64) uint32 {
	b := make(fields, budgetShareAt+4)
	if address == 0 {
		return 0
	}
	if n, err := m.readSome(b, address); n < len(b) || err != nil || b.u32(budgetOnAt) != 1 {
		return 0
	}
	return b.u32(budgetShareAt)
}

// parseObjects reads the table of objects.
func (m *image) parseObjects(r *runtimeRoot) ([]reader.Object, error) {
	states := []string{"ready", "ready", "refused", "gone"}
	var objects []reader.Object
	for i := range r.nobjects {
		b, err := m.read("the table of objects", r.objects+i*uint64(r.objectSize), objectSize)
		if err != nil {
			return objects, err
		}
		f := fields(b)
		state := f.u32(64)
		if int(state) >= len(states) {
			return objects, m.errorf("object %d of the recorder is damaged: its state is %d", i, state)
		}
		id := b[72:]
		objects = append(objects, reader.Object{
			First: reader.FuncID(f.u32(40)), Count: f.u32(44),
			Path: f.text(184, 512), BuildID: hex.EncodeToString(id[:min(f.u32(68), 32)]),
			Bias: reader.Address(f.u64(0)), Text: [2]reader.Address{reader.Address(f.u64(8)), reader.Address(f.u64(16))},
			Loaded: f.u64(48), Unloaded: f.u64(56), State: states[state], Why: f.text(120, 64),
		})
	}
	return objects, nil
}

// parseHooked reads the addresses of functions without sleds, indexed by ID minus 1.
func (m *image) parseHooked(r *runtimeRoot) ([]uint64, error) {
	const size = 16
	b, err := m.read("the table of functions", r.hooked, int(r.nhooked)*size)
	if err != nil {
		return nil, err
	}
	var addresses []uint64
	for f := fields(b); len(f) > 0; f = f[size:] {
		// IDs may have gaps, because functions with sleds have IDs too.
		id := f.u64(8)
		if id == 0 || id > 4*maxHooked {
			return addresses, m.errorf("the table of functions is damaged: it contains ID %d", id)
		}
		for uint64(len(addresses)) < id {
			addresses = append(addresses, 0)
		}
		addresses[id-1] = f.u64(0)
	}
	return addresses, nil
}

// ringThread is struct xr_thread, and the chunks of its ring.
type ringThread struct {
	reader.ThreadInfo
	address            uint64
	cursor             uint64
	free               bool
	ring, size, taken  uint64 // size in chunks
	gone               uint64 // chunks up to this number have given their memory to other threads
	counters, ncounter uint64
	sums, nsums        uint64       // of pruned calls
	chunks             []chunkPlace // oldest first
}

// chunkPlace is the place of a chunk, and its header.
type chunkPlace struct {
	address, number uint64
	first, last     uint64 // TSC; last is 0 in the current chunk
	wall            uint64 // CLOCK_REALTIME at first
	from            int    // records before this offset were already written
	used            int    // end of the records, including the header, when the chunk was finished; else 0
	part            bool   // the thread may still be writing it, so ignore what follows an incomplete record
}

func (m *image) parseThread(address uint64, size int) (*ringThread, error) {
	b, err := m.read("a thread", address, threadSize)
	if err != nil {
		return nil, err
	}
	f := fields(b)
	t := &ringThread{
		ThreadInfo: reader.ThreadInfo{
			TID: int32(f.u32(32)), PID: int32(f.u32(36)), Name: f.text(112, 16),
			First: f.u64(72), Last: f.u64(80), Dropped: f.u64(88), Truncated: f.u64(96),
		},
		address: address, cursor: f.u64(0), free: f.u32(40) == 0,
		ring: f.u64(48), size: f.u64(56), taken: f.u64(64),
		counters: f.u64(16), ncounter: f.u64(128),
	}
	if size >= threadSumsAt+16 {
		rest := make(fields, threadGoneAt+8-threadSumsAt)
		if size < threadGoneAt+8 {
			rest = rest[:16]
		}
		if n, err := m.readSome(rest, address+threadSumsAt); n == len(rest) && err == nil {
			t.sums, t.nsums = rest.u64(0), rest.u64(8)
			if n > 16 {
				t.gone = min(rest.u64(threadGoneAt-threadSumsAt), t.taken)
			}
		}
	}
	t.Overwritten = t.oldest() - 1
	return t, nil
}

// oldest returns the number of the oldest chunk that the ring has, if the thread has taken one.
func (t *ringThread) oldest() uint64 { return max(t.taken-min(t.taken, t.size), t.gone) + 1 }

// usedOf returns the end of the records of a chunk with this header, or 0 if it is unknown.
func usedOf(header fields) int {
	if used := int(header.u32(52)); used >= chunkHeader && used <= chunkSize {
		return used &^ 7
	}
	return 0
}

// end returns the end of a chunk's records, according to the chunk and the thread's cursor.
func (t *ringThread) end(c *chunkPlace) int {
	if c.used != 0 {
		return c.used
	}
	if at := t.cursor - c.address; at >= chunkHeader && at <= chunkSize {
		return int(at)
	}
	return chunkSize
}

// parseChunk reads the header of a thread's chunk with this number. torn means that another chunk, or
// none, is at its place. Only the header must be in the image.
func (m *image) parseChunk(t *ringThread, number uint64) (c chunkPlace, torn bool, err error) {
	address := t.ring + (number-1)%t.size*chunkSize
	header := make([]byte, chunkHeader)
	if n, err := m.readSome(header, address); n < chunkHeader {
		return c, false, err
	}
	f := fields(header)
	c = chunkPlace{address: address, number: number, first: f.u64(8), last: f.u64(16), wall: f.u64(56), used: usedOf(f)}
	// The header names the thread, so that damage cannot count records twice.
	if f.u64(0) != 2*number || f.u64(40) != chunkMagic || f.u64(32) != t.address {
		return c, true, nil
	}
	return c, false, nil
}

// nanos converts ticks to nanoseconds. It returns 0 if the frequency is unknown.
func (r *runtimeRoot) nanos(ticks uint64) uint64 { return scale(ticks, 1e9, r.frequency) }

// scale returns a*b/c, or 0 if that is undefined or too large.
func scale(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high >= c {
		return 0
	}
	q, _ := bits.Div64(high, low, c)
	return q
}

// rootMagic is the beginning of the runtime's root structure.
const rootMagic = "XRAY-RECORDER-1\x00"

// rootWindowsAt is the offset of the window fields in struct xr_root.
const rootWindowsAt = 232

// Rows of a process's table of windows, as in runtime/window.h.
const (
	windowRows = 1 << 16
	windowSize = 24
)

// windowTable locates the windows of a recording in a process.
type windowTable struct {
	length, every uint64 // ns; 0 if everything is recorded
	address, n    uint64 // address of the table; number of windows so far
}

// readWindows appends the windows from number first on, as far as the process still has them.
func (m *image) readWindows(list []reader.RecordedWindow, t *windowTable, first uint64) ([]reader.RecordedWindow, error) {
	for i := max(first, t.n-min(t.n, windowRows)); i < t.n; {
		row := i % windowRows
		n := min(t.n-i, windowRows-row)
		b, err := m.read("the table of windows", t.address+row*windowSize, int(n*windowSize))
		if err != nil {
			return list, err
		}
		for f := fields(b); len(f) > 0; f = f[windowSize:] {
			list = append(list, reader.RecordedWindow{From: f.u64(0), To: f.u64(8), CPUNS: f.u64(16)})
		}
		i += n
	}
	return list, nil
}

// Kinds of function records after which a call has ended.
const (
	functionExit = 1
	functionTail = 2
)
