package ring

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strings"

	"github.com/xray-tools/xray/reader"
)

// Sizes of the parts of structs that every runtime of this version has. Structs may be longer.
const (
	RootSize   = rootWindowNSAt
	ThreadSize = threadFramesAt
	ObjectSize = objectAbsentAt
)

// Limits for values in tables.
const (
	maxStruct  = 64 << 10
	maxObjects = 1 << 14
	MaxThreads = 1 << 20
	MaxRows    = 100_000 // threads that the trace names
)

// Fields reads the fields of a struct.
type Fields []byte

func (f Fields) U32(at int) uint32 { return binary.LittleEndian.Uint32(f[at:]) }
func (f Fields) U64(at int) uint64 { return binary.LittleEndian.Uint64(f[at:]) }

// Text returns a string that ends with a zero byte or at this length.
func (f Fields) Text(at, room int) string {
	s, _, _ := strings.Cut(string(f[at:at+room]), "\x00")
	return s
}

// anchor reads a struct xr_anchor.
func (f Fields) anchor() reader.Anchor {
	return reader.Anchor{TSC: f.U64(anchorTSCAt), Raw: f.U64(anchorRawAt), Real: f.U64(anchorRealAt), Width: f.U64(anchorWidthAt)}
}

// Root is struct xr_root.
type Root struct {
	ThreadSize, objectSize int
	PID, Mode, Depth       uint32
	Threshold              uint64
	Threads, Nthreads      uint64
	objects, Nobjects      uint64
	MaxFunction            uint64
	Frequency              uint64
	Start                  reader.Anchor
	dropped                uint64
	Invariant              bool
	hooked, nhooked        uint64 // functions without sleds
	Session                uint64
	Windows                WindowTable
	Budget                 uint64 // address of struct xr_budget, 0 without one
	ValuesChanges          uint64 // changes with what is known of values and conditions
}

// ModeNames are the modes by number.
var ModeNames = []string{
	modeOff: "off", modeRecord: "record", modePrune: "prune", ModeCount: "count", ModeProfile: "profile", modeDepth: "depth",
}

// ParseRoot reads the struct at an address where its magic was found. It returns an error if the data
// there cannot be the struct.
func (m *Image) ParseRoot(address uint64) (*Root, error) {
	b, err := m.Read("the recorder's root", address, RootSize)
	if err != nil {
		return nil, err
	}
	f := Fields(b)
	if v := f.U32(rootVersionAt); v != LayoutVersion {
		return nil, m.Errorf("the recorder's root at address %#x is of version %d; this xray supports version %d: use the xray that recorded it", address, v, LayoutVersion)
	}
	r := &Root{
		ThreadSize: int(f.U32(rootThreadSizeAt)), objectSize: int(f.U32(rootObjectSizeAt)),
		PID: f.U32(rootPIDAt), Mode: f.U32(rootModeAt), Depth: f.U32(rootDepthAt),
		Threshold: f.U64(rootThresholdAt),
		Threads:   f.U64(rootThreadsAt), Nthreads: f.U64(rootNThreadsAt),
		objects: f.U64(rootObjectsAt), Nobjects: f.U64(rootNObjectsAt),
		MaxFunction: f.U64(rootMaxFunctionAt), Frequency: f.U64(rootFrequencyAt),
		Start:     f[rootStartAt:].anchor(),
		dropped:   f.U64(rootDroppedAt),
		Invariant: f.U32(rootInvariantAt) != 0,
		hooked:    f.U64(rootHookedAt), nhooked: f.U64(rootNHookedAt), Session: f.U64(rootSessionAt),
	}
	if r.nhooked > MaxHooked || f.U32(rootSizeAt) < RootSize || f.U32(rootChunkSizeAt) != ChunkSize || f.U32(rootChunkHeaderAt) != ChunkHeader ||
		r.ThreadSize < ThreadSize || r.ThreadSize > maxStruct || r.objectSize < ObjectSize || r.objectSize > maxStruct ||
		int(r.Mode) >= len(ModeNames) || r.Nthreads > MaxThreads || r.Nobjects > maxObjects {
		return nil, m.Errorf("the recorder's root at address %#x is damaged", address)
	}
	// Older recorders lack the last of these fields.
	rest := make(Fields, rootValuesChangesAt+8)
	for _, from := range []int{rootValuesChangesAt, rootBudgetAt} {
		if int(f.U32(rootSizeAt)) < from+8 {
			rest = rest[:from]
		}
	}
	if f.U32(rootSizeAt) >= rootBudgetAt {
		if n, err := m.ReadSome(rest, address); n == len(rest) && err == nil {
			r.Windows = WindowTable{rest.U64(rootWindowNSAt), rest.U64(rootEveryNSAt), rest.U64(rootWindowsAt), rest.U64(rootNWindowsAt)}
			if len(rest) > rootBudgetAt {
				r.Budget = rest.U64(rootBudgetAt)
			}
			if len(rest) > rootValuesChangesAt {
				r.ValuesChanges = rest.U64(rootValuesChangesAt)
			}
		}
	}
	return r, nil
}

// BudgetShare returns the share of the CPU time that the budget at an address allows, in millionths. It
// returns 0 if the process does not record within a budget.
func (m *Image) BudgetShare(address uint64) uint32 {
	b := make(Fields, budgetShareAt+4)
	if address == 0 {
		return 0
	}
	if n, err := m.ReadSome(b, address); n < len(b) || err != nil || b.U32(BudgetOnAt) != 1 {
		return 0
	}
	return b.U32(budgetShareAt)
}

// ParseObjects reads the table of objects.
func (m *Image) ParseObjects(r *Root) ([]reader.Object, error) {
	states := []string{"ready", "ready", "refused", "gone"}
	var objects []reader.Object
	for i := range r.Nobjects {
		b, err := m.Read("the table of objects", r.objects+i*uint64(r.objectSize), ObjectSize)
		if err != nil {
			return objects, err
		}
		f := Fields(b)
		state := f.U32(objectStateAt)
		if int(state) >= len(states) {
			return objects, m.Errorf("object %d of the recorder is damaged: its state is %d", i, state)
		}
		id := b[objectBuildIDAt:][:min(f.U32(objectBuildIDSizeAt), objectBuildIDRoom)]
		objects = append(objects, reader.Object{
			First: reader.FuncID(f.U32(objectFirstIDAt)), Count: f.U32(objectFunctionsAt),
			Path: f.Text(objectPathAt, objectPathSize), BuildID: hex.EncodeToString(id),
			Bias:   reader.Address(f.U64(objectBiasAt)),
			Text:   [2]reader.Address{reader.Address(f.U64(objectTextFirstAt)), reader.Address(f.U64(objectTextEndAt))},
			Loaded: f.U64(objectLoadedAt), Unloaded: f.U64(objectUnloadedAt), State: states[state], Why: f.Text(objectWhyAt, objectWhySize),
		})
	}
	return objects, nil
}

// ParseHooked reads the addresses of functions without sleds, indexed by ID minus 1.
func (m *Image) ParseHooked(r *Root) ([]uint64, error) {
	b, err := m.Read("the table of functions", r.hooked, int(r.nhooked)*HookedSize)
	if err != nil {
		return nil, err
	}
	var addresses []uint64
	for f := Fields(b); len(f) > 0; f = f[HookedSize:] {
		// IDs may have gaps, because functions with sleds have IDs too.
		id := f.U64(HookedIDAt)
		if id == 0 || id > 4*MaxHooked {
			return addresses, m.Errorf("the table of functions is damaged: it contains ID %d", id)
		}
		for uint64(len(addresses)) < id {
			addresses = append(addresses, 0)
		}
		addresses[id-1] = f.U64(HookedAddressAt)
	}
	return addresses, nil
}

// Thread is struct xr_thread, and the chunks of its ring.
type Thread struct {
	reader.ThreadInfo
	Address            uint64
	Cursor             uint64
	Free               bool
	Ring, Size, Taken  uint64 // size in chunks
	gone               uint64 // chunks up to this number have given their memory to other threads
	Counters, Ncounter uint64
	Sums, Nsums        uint64       // of pruned calls
	Chunks             []ChunkPlace // oldest first
}

// ChunkPlace is the place of a chunk, and its header.
type ChunkPlace struct {
	Address, Number uint64
	First, Last     uint64 // TSC; last is 0 in the current chunk
	Wall            uint64 // CLOCK_REALTIME at first
	From            int    // records before this offset were already written
	Used            int    // end of the records, including the header, when the chunk was finished; else 0
	Part            bool   // the thread may still be writing it, so ignore what follows an incomplete record
}

func (m *Image) ParseThread(address uint64, size int) (*Thread, error) {
	b, err := m.Read("a thread", address, ThreadSize)
	if err != nil {
		return nil, err
	}
	f := Fields(b)
	t := &Thread{
		ThreadInfo: reader.ThreadInfo{
			TID: int32(f.U32(threadTIDAt)), PID: int32(f.U32(threadPIDAt)), Name: f.Text(threadNameAt, threadNameSize),
			First: f.U64(threadFirstAt), Last: f.U64(threadLastAt), Dropped: f.U64(threadDroppedAt), Truncated: f.U64(threadTruncatedAt),
		},
		Address: address, Cursor: f.U64(threadCursorAt), Free: f.U32(threadStateAt) == threadFree,
		Ring: f.U64(threadRingAt), Size: f.U64(threadChunksAt), Taken: f.U64(threadTakenAt),
		Counters: f.U64(threadCountersAt), Ncounter: f.U64(threadNCountersAt),
	}
	if size >= threadSumsAt+16 {
		rest := make(Fields, threadGoneAt+8-threadSumsAt)
		if size < threadGoneAt+8 {
			rest = rest[:16]
		}
		if n, err := m.ReadSome(rest, address+threadSumsAt); n == len(rest) && err == nil {
			t.Sums, t.Nsums = rest.U64(0), rest.U64(threadNSumsAt-threadSumsAt)
			if n > 16 {
				t.gone = min(rest.U64(threadGoneAt-threadSumsAt), t.Taken)
			}
		}
	}
	t.Overwritten = t.Oldest() - 1
	return t, nil
}

// Oldest returns the number of the oldest chunk that the ring has, if the thread has taken one.
func (t *Thread) Oldest() uint64 { return max(t.Taken-min(t.Taken, t.Size), t.gone) + 1 }

// UsedOf returns the end of the records of a chunk with this header, or 0 if it is unknown.
func UsedOf(header Fields) int {
	if used := int(header.U32(ChunkUsedAt)); used >= ChunkHeader && used <= ChunkSize {
		return used &^ 7
	}
	return 0
}

// End returns the end of a chunk's records, according to the chunk and the thread's cursor.
func (t *Thread) End(c *ChunkPlace) int {
	if c.Used != 0 {
		return c.Used
	}
	if at := t.Cursor - c.Address; at >= ChunkHeader && at <= ChunkSize {
		return int(at)
	}
	return ChunkSize
}

// ParseChunk reads the header of a thread's chunk with this number. torn means that another chunk, or
// none, is at its place. Only the header must be in the image.
func (m *Image) ParseChunk(t *Thread, number uint64) (c ChunkPlace, torn bool, err error) {
	address := t.Ring + (number-1)%t.Size*ChunkSize
	header := make([]byte, ChunkHeader)
	if n, err := m.ReadSome(header, address); n < ChunkHeader {
		return c, false, err
	}
	f := Fields(header)
	c = ChunkPlace{Address: address, Number: number, First: f.U64(ChunkFirstAt), Last: f.U64(ChunkLastAt), Wall: f.U64(ChunkWallAt), Used: UsedOf(f)}
	// The header names the thread, so that damage cannot count records twice.
	if f.U64(ChunkSeqAt) != 2*number || f.U64(ChunkMagicAt) != ChunkMagic || f.U64(ChunkThreadAt) != t.Address {
		return c, true, nil
	}
	return c, false, nil
}

// Nanos converts ticks to nanoseconds. It returns 0 if the frequency is unknown.
func (r *Root) Nanos(ticks uint64) uint64 { return Scale(ticks, 1e9, r.Frequency) }

// Scale returns a*b/c, or 0 if that is undefined or too large.
func Scale(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high >= c {
		return 0
	}
	q, _ := bits.Div64(high, low, c)
	return q
}

// WindowTable locates the windows of a recording in a process.
type WindowTable struct {
	Length, Every uint64 // ns; 0 if everything is recorded
	address, N    uint64 // address of the table; number of windows so far
}

// ReadWindows appends the windows from number first on, as far as the process still has them.
func (m *Image) ReadWindows(list []reader.RecordedWindow, t *WindowTable, first uint64) ([]reader.RecordedWindow, error) {
	for i := max(first, t.N-min(t.N, WindowRows)); i < t.N; {
		row := i % WindowRows
		n := min(t.N-i, WindowRows-row)
		b, err := m.Read("the table of windows", t.address+row*WindowSize, int(n*WindowSize))
		if err != nil {
			return list, err
		}
		for f := Fields(b); len(f) > 0; f = f[WindowSize:] {
			list = append(list, reader.RecordedWindow{From: f.U64(WindowFromAt), To: f.U64(WindowToAt), CPUNS: f.U64(WindowCPUAt)})
		}
		i += n
	}
	return list, nil
}
