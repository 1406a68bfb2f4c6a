package observe

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/ring"
)

// gonePID is larger than any process ID.
const gonePID = 1 << 30

// testBase is the address of the arena in processes.
const testBase = 0x7f00_0000_0000

// makeArena creates the arena of a process that has ended. It has two threads, each with two calls in
// a full chunk and one in the current chunk, counters and a profile.
func makeArena(t testing.TB, o *Observer) *arenaObserver {
	t.Helper()
	a, err := ring.NewArena(o.options.arena(), ring.SmallestArena)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	put32 := func(at uint64, v uint32) { le.PutUint32(a.Mem[at:], v) }
	put64 := func(at, v uint64) { le.PutUint64(a.Mem[at:], v) }
	next := uint64(ring.ArenaHeadSize+ring.ChunkSize-1) &^ (ring.ChunkSize - 1)
	take := func(n uint64) (at, address uint64) {
		at = next
		next += (n + ring.ChunkSize - 1) &^ (ring.ChunkSize - 1)
		return at, testBase + at
	}
	put64(ring.ArenaBaseAt, testBase)
	text := tracewrite.AppendRecording(nil, &reader.Recording{
		Process: reader.Process{PID: gonePID, Exe: "/bin/prog", Mode: "record"},
		Clock:   reader.RecordedClock{Frequency: 1e9},
		Objects: []reader.Object{{First: 1, Count: 5, Path: "/bin/prog", State: "ready"}},
	}, 1000)
	textAt, textAddress := take(ring.MaxArenaText)
	copy(a.Mem[textAt:], text)
	p := ring.ProcessAt(0)
	put32(p+ring.ProcessStateAt, ring.ProcessLive)
	put32(p+ring.ProcessPIDAt, gonePID)
	put64(p+ring.ProcessSinceAt, 1000)
	put32(p+ring.ProcessTextsAt, 2)
	put64(p+ring.ProcessTextAt, textAddress)
	put64(p+ring.ProcessTextSizeAt, uint64(len(text)))
	put32(ring.ArenaNProcsAt, 1)
	put32(ring.ArenaNSlotsAt, 2)
	for i := range uint32(2) {
		s := ring.SlotAt(i)
		chunks, address := take(4 * ring.ChunkSize)
		put32(s+ring.SlotStateAt, ring.SlotLive)
		put32(s+ring.SlotTIDAt, 100+i)
		put32(s+ring.SlotOwnerAt, 1)
		put64(s+ring.SlotRingAt, address)
		put64(s+ring.SlotChunksAt, 4)
		put64(s+ring.SlotTakenAt, 2)
		for number := range uint64(2) {
			c := chunks + number*ring.ChunkSize
			tsc := 2000 + 1000*number
			put64(c, 2*(number+1))
			put64(c+8, tsc)
			put64(c+40, ring.ChunkMagic)
			at := c + ring.ChunkHeader
			put64(at, ring.RecordStamp<<1|1)
			put64(at+8, tsc<<1|1)
			at += 16
			for call := range 2 - number {
				put64(at, 1<<4|(tsc+10*call)<<32)
				put64(at+8, 1<<4|2|(tsc+10*call+5)<<32)
				at += 16
			}
		}
		counters, address := take(8 << 16)
		put64(s+ring.SlotCountersAt, address)
		put64(s+ring.SlotNCountersAt, 1<<16)
		put64(counters+8*3, 7)
		profile, address := take(ring.ProfileSize)
		page, pageAddress := take(ring.PathPageSize)
		put64(s+ring.SlotProfileAt, address)
		put32(profile+ring.ProfilePathsAt, 1)
		put64(profile+ring.ProfilePagesAt, pageAddress)
		path := page + ring.PathPagePathsAt
		put64(path+ring.PathParentAt, address+ring.ProfileTopAt)
		put32(path+ring.PathFuncAt, 2)
		put64(path+ring.PathCallsAt, 9)
		// A recursive call without a path.
		folds, foldsAddress := take(ring.FoldPageSize)
		put64(path+ring.PathFoldedAt, 4)
		put32(profile+ring.ProfileNFoldsAt, 1)
		put64(profile+ring.ProfileFoldsAt, foldsAddress)
		fold := folds + ring.FoldPageFoldsAt
		put32(fold+ring.PathFuncAt, 2)
		put64(fold+ring.PathCallsAt, 4)
		put64(fold+ring.FoldAnyAt, foldsAddress+ring.FoldPageFoldsAt)
		put32(fold+ring.FoldCallerAt, 2)
		put64(profile+ring.ProfileLastAt, 5000)
		deep, deepAddress := take(2 * ring.FrameSize)
		put64(profile+ring.ProfileDepthAt, ring.ProfilePathDepth+1)
		put64(profile+ring.ProfileDeepAt, deepAddress)
		put64(profile+ring.ProfileNDeepAt, 2)
		for depth := range uint64(ring.ProfilePathDepth + 1) {
			frame := profile + ring.ProfileFramesAt + depth*ring.FrameSize
			if depth == ring.ProfilePathDepth {
				frame = deep
			}
			put64(frame+ring.FrameStartAt, 4000)
			put64(frame+ring.FramePathAt, foldsAddress+ring.FoldPageFoldsAt)
			if depth == 0 {
				put64(frame+ring.FramePathAt, pageAddress+ring.PathPagePathsAt)
			}
		}
	}
	return &arenaObserver{observer: o, Arena: a, pid: gonePID, inner: gonePID, joining: -1, chunk: make([]byte, ring.ChunkSize)}
}

func testObserver(t testing.TB) *Observer {
	t.Helper()
	return &Observer{options: Options{Session: 5, Output: filepath.Join(t.TempDir(), "%e.%p")}}
}

// observe does the work of the observer's goroutine until no process is left.
func observe(t testing.TB, a *arenaObserver) {
	t.Helper()
	for range 10 {
		a.consume()
		a.findProcesses()
		if a.empty() {
			return
		}
	}
}

// The trace of a process that has ended includes its full chunks, its current chunks, counters and
// profiles.
func TestObserverWritesWhatIsLeft(t *testing.T) {
	for _, compress := range []bool{false, true} {
		t.Run(fmt.Sprintf("compress=%v", compress), func(t *testing.T) { testWritesWhatIsLeft(t, compress) })
	}
}

func testWritesWhatIsLeft(t *testing.T, compress bool) {
	ob := testObserver(t)
	ob.settled.L = &ob.mu
	ob.options.Compress = compress
	a := makeArena(t, ob)
	defer a.Close()
	observe(t, a)
	if len(ob.finished) != 1 || ob.finished[0].Problem != "" {
		t.Fatalf("wrong finished processes: %+v", ob.finished)
	}
	path := ob.finished[0].Path
	if want := "prog.1073741824"; filepath.Base(path) != want {
		t.Errorf("got trace %s, want %s", path, want)
	}
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	_, stats, err := calls.Run(calls.Source(trace), calls.Options{}, func() countCalls { return countCalls{} })
	if err != nil || stats.Calls != 6 || stats.Threads != 2 || trace.Losses().Count() != 0 {
		t.Errorf("got %d calls of %d threads, losses %v, error %v; want 6 calls of 2 threads", stats.Calls, stats.Threads, trace.Losses(), err)
	}
	if format, _ := trace.Packed(0); (format != "") != compress {
		t.Errorf("the trace is packed as %q", format)
	}
	r := trace.Recording(0)
	if len(r.Counters) != 1 || r.Counters[0] != (reader.Counter{Func: 3, Calls: 14}) {
		t.Errorf("wrong counters: %v", r.Counters)
	}
	want := reader.Profile{
		Process: gonePID, Thread: 0, Last: 5000,
		Paths: []reader.ProfilePath{
			{Func: 2, Parent: -1, Count: 9, Open: 1, OpenTotal: 1000, Octaves: []uint64{9}},
			{Func: reader.Folded, Parent: 0, Count: 4, Open: ring.ProfilePathDepth, OpenTotal: 1000},
		},
		Folds: []reader.ProfileFold{{
			Func: 2, Caller: 2, Count: 4, Octaves: []uint64{4}, Open: ring.ProfilePathDepth,
			OpenTotal: ring.ProfilePathDepth * 1000, OpenNested: ring.ProfilePathDepth * 1000, Inside: (ring.ProfilePathDepth - 1) * 1000,
		}},
	}
	if len(r.Profiles) != 2 {
		t.Fatalf("wrong profiles: %+v", r.Profiles)
	}
	if diff := cmp.Diff(want, r.Profiles[0]); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	if b := a.Read(a.U64(ring.SlotAt(0)+ring.SlotProfileAt), ring.ProfileSize); b == nil || ring.Fields(b).U64(8) != 0 {
		t.Error("the profile still holds memory")
	}
	if !r.Process.Complete || r.Process.Session != 5 || len(r.Threads) != 2 || len(r.Losses) != 0 {
		t.Errorf("wrong metadata: process %+v, threads %v, losses %v", r.Process, r.Threads, r.Losses)
	}
	if a.U32(ring.ProcessAt(0)+ring.ProcessStateAt) != ring.ProcessFree || a.U32(ring.ArenaFreeAt) != 2 {
		t.Error("the process and its slots were not released")
	}
}

// The slot of a process that has ended can belong to another process between any two reads.
func TestSlotTakenOver(t *testing.T) {
	a, err := ring.NewArena(new(ring.ArenaOptions), ring.SmallestArena)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	const old, taker = 5, 6
	at := ring.SlotAt(0)
	state, process := a.Word32(at+ring.SlotStateAt), a.Word32(at+ring.SlotProcessAt)
	var round, over atomic.Int64
	var taking sync.WaitGroup
	taking.Go(func() {
		for n := int64(1); over.Load() == 0; n++ {
			for round.Load() < n && over.Load() == 0 { // spin, to run at the same time as the reader
			}
			atomic.StoreUint32(state, ring.SlotTaken)
			atomic.StoreUint32(process, taker)
			atomic.StoreUint32(state, ring.SlotLive)
		}
	})
	defer func() {
		over.Store(1)
		taking.Wait()
	}()
	rounds := 0
	for end := time.Now().Add(300 * time.Millisecond); rounds < 100 || time.Now().Before(end); rounds++ {
		atomic.StoreUint32(state, ring.SlotFree)
		atomic.StoreUint32(process, old)
		round.Add(1)
		for !a.Owns(taker, 0) {
			if a.Owns(old, 0) {
				t.Fatalf("in round %d, the slot of a process counts as that of one that has ended", rounds)
			}
		}
	}
	t.Logf("%d rounds", rounds)
}

// If the observer has no descriptors left, its processes keep running.
func TestObserverWithoutDescriptors(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	p := &observedProcess{host: os.Getpid(), handle: -1}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	ended := p.ended()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if ended || p.handle >= 0 || p.ended() || p.handle < 0 {
		t.Errorf("a living process has ended: %v, handle %d", ended, p.handle)
	}
	unix.Close(p.handle)
}

type countCalls struct{}

func (countCalls) Calls(*calls.Batch) error { return nil }
func (countCalls) Merge(countCalls)         {}

// The program can write anything to the memory that it shares with the observer. The observer must not
// crash, and must limit its use of memory and time.
func FuzzObserver(f *testing.F) {
	f.Add([]byte{}, false)
	for _, at := range []uint64{ring.SlotAt(0) + ring.SlotTakenAt, ring.SlotAt(1) + ring.SlotChunksAt, ring.SlotAt(0) + ring.SlotRingAt, ring.SlotAt(0) + ring.SlotNCountersAt,
		ring.SlotAt(1) + ring.SlotProfileAt, ring.SlotAt(0) + ring.SlotProcessAt, ring.ProcessAt(0) + ring.ProcessTextSizeAt, ring.ArenaNSlotsAt, ring.ArenaBaseAt, ring.ProcessAt(0) + ring.ProcessNHookedAt} {
		f.Add(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, uint32(at)), 1<<63-1), at&8 != 0)
	}
	f.Fuzz(func(t *testing.T, patches []byte, rings bool) {
		// The time must be limited too.
		defer time.AfterFunc(2*time.Minute, func() { panic("the observer did not finish in two minutes") }).Stop()
		ob := testObserver(t)
		ob.settled.L = &ob.mu
		ob.options.Rings = rings
		a := makeArena(t, ob)
		defer a.Close()
		const patch = 12
		for i := 0; len(patches) >= patch && i < 64; i++ {
			at := uint64(binary.LittleEndian.Uint32(patches)) % (8 << 20)
			binary.LittleEndian.PutUint64(a.Mem[at&^7:], binary.LittleEndian.Uint64(patches[4:]))
			patches = patches[patch:]
		}
		observe(t, a)
		for _, trace := range ob.finished {
			in, err := reader.Open(reader.Options{}, trace.Path)
			if err != nil {
				t.Errorf("%s: %v", trace.Path, err)
				continue
			}
			if _, _, err := calls.Run(calls.Source(in), calls.Options{}, func() countCalls { return countCalls{} }); err != nil {
				t.Error(err)
			}
			in.Close()
			os.Remove(trace.Path)
		}
	})
}

// BenchmarkEncodeChunk measures the observer's work for each chunk, except writing it. A thread at
// full speed fills a chunk in 85 µs.
func BenchmarkEncodeChunk(b *testing.B) {
	data := make([]byte, ring.ChunkSize)
	le := binary.LittleEndian
	tsc := uint64(1 << 40)
	le.PutUint64(data[ring.ChunkHeader:], ring.RecordStamp<<1|1)
	le.PutUint64(data[ring.ChunkHeader+8:], tsc<<1|1)
	for at := ring.ChunkHeader + 16; at < ring.ChunkSize; at += 8 {
		tsc += 25
		le.PutUint64(data[at:], 1<<4|uint64(at>>3&1)<<1|tsc<<32)
	}
	w := ring.BlockWriter{}
	c := ring.ChunkPlace{Number: 1, First: 1 << 40}
	b.SetBytes(ring.ChunkSize)
	for b.Loop() {
		if got := w.Chunk(&ring.Thread{}, &c, data); got.Records != (ring.ChunkSize-ring.ChunkHeader-16)/8 {
			b.Fatal(got.Records)
		}
	}
}
