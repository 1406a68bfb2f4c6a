package recorder

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
)

// gonePID is larger than any process ID.
const gonePID = 1 << 30

// testBase is the address of the arena in processes.
const testBase = 0x7f00_0000_0000

// makeArena creates the arena of a process that has ended. It has two threads, each with two calls in
// a full chunk and one in the current chunk, counters and a profile.
func makeArena(t testing.TB, o *Observer) *arenaObserver {
	t.Helper()
	a, err := newArena(o.options.arena(), smallestArena)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	put32 := func(at uint64, v uint32) { le.PutUint32(a.mem[at:], v) }
	put64 := func(at, v uint64) { le.PutUint64(a.mem[at:], v) }
	next := uint64(arenaHeadSize+chunkSize-1) &^ (chunkSize - 1)
	take := func(n uint64) (at, address uint64) {
		at = next
		next += (n + chunkSize - 1) &^ (chunkSize - 1)
		return at, testBase + at
	}
	put64(arenaBaseAt, testBase)
	text := tracewrite.AppendRecording(nil, &reader.Recording{
		Process: reader.Process{PID: gonePID, Exe: "/bin/prog", Mode: "record"},
		Clock:   reader.RecordedClock{Frequency: 1e9},
		Objects: []reader.Object{{First: 1, Count: 5, Path: "/bin/prog", State: "ready"}},
	}, 1000)
	textAt, textAddress := take(maxArenaText)
	copy(a.mem[textAt:], text)
	p := processAt(0)
	put32(p+processStateAt, processLive)
	put32(p+processPIDAt, gonePID)
	put64(p+processSinceAt, 1000)
	put32(p+processTextsAt, 2)
	put64(p+processTextAt, textAddress)
	put64(p+processTextSizeAt, uint64(len(text)))
	put32(arenaNProcsAt, 1)
	put32(arenaNSlotsAt, 2)
	for i := range uint32(2) {
		s := slotAt(i)
		ring, address := take(4 * chunkSize)
		put32(s+slotStateAt, slotLive)
		put32(s+slotTIDAt, 100+i)
		put32(s+slotOwnerAt, 1)
		put64(s+slotRingAt, address)
		put64(s+slotChunksAt, 4)
		put64(s+slotTakenAt, 2)
		for number := range uint64(2) {
			c := ring + number*chunkSize
			tsc := 2000 + 1000*number
			put64(c, 2*(number+1))
			put64(c+8, tsc)
			put64(c+40, chunkMagic)
			at := c + chunkHeader
			put64(at, recordStamp<<1|1)
			put64(at+8, tsc<<1|1)
			at += 16
			for call := range 2 - number {
				put64(at, 1<<4|(tsc+10*call)<<32)
				put64(at+8, 1<<4|2|(tsc+10*call+5)<<32)
				at += 16
			}
		}
		counters, address := take(8 << 16)
		put64(s+slotCountersAt, address)
		put64(s+slotNCountersAt, 1<<16)
		put64(counters+8*3, 7)
		profile, address := take(profileSize)
		page, pageAddress := take(profilePageSize)
		put64(s+slotProfileAt, address)
		put32(profile+36, 1)
		put64(profile+48, pageAddress)
		put64(page+8, address+profileTopAt)
		put32(page+8+24, 2)
		put64(page+8+72, 9)
		// A recursive call without a path.
		folds, foldsAddress := take(profileFoldsSize)
		put64(page+8+56, 4)
		put32(profile+profileDeepAt+56, 1)
		put64(profile+profileDeepAt+40, foldsAddress)
		fold := folds + 8
		put32(fold+24, 2)
		put64(fold+72, 4)
		put64(fold+profilePathSize+8, foldsAddress+8)
		put32(fold+profilePathSize+16, 2)
		put64(profile+8, 5000)
		deep, deepAddress := take(2 * profileFrameSize)
		put64(profile, profilePathDepth+1)
		put64(profile+profileDeepAt, deepAddress)
		put64(profile+profileDeepAt+8, 2)
		for depth := range uint64(profilePathDepth + 1) {
			frame := profile + profileFramesAt + depth*profileFrameSize
			if depth == profilePathDepth {
				frame = deep
			}
			put64(frame+8, 4000)
			put64(frame+16, foldsAddress+8)
			if depth == 0 {
				put64(frame+16, pageAddress+8)
			}
		}
	}
	return &arenaObserver{observer: o, arena: a, pid: gonePID, inner: gonePID, joining: -1, chunk: make([]byte, chunkSize)}
}

func testObserver(t testing.TB) *Observer {
	t.Helper()
	return &Observer{options: ObserverOptions{Session: 5, Output: filepath.Join(t.TempDir(), "%e.%p")}}
}

// observe does the work of the observer's goroutine until no process is left.
func observe(t testing.TB, a *arenaObserver) {
	t.Helper()
	for range 10 {
		a.consume()
		a.look()
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
	defer a.close()
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
			{Func: reader.Folded, Parent: 0, Count: 4, Open: profilePathDepth, OpenTotal: 1000},
		},
		Folds: []reader.ProfileFold{{
			Func: 2, Caller: 2, Count: 4, Octaves: []uint64{4}, Open: profilePathDepth,
			OpenTotal: profilePathDepth * 1000, OpenNested: profilePathDepth * 1000, Inside: (profilePathDepth - 1) * 1000,
		}},
	}
	if len(r.Profiles) != 2 {
		t.Fatalf("wrong profiles: %+v", r.Profiles)
	}
	if diff := cmp.Diff(want, r.Profiles[0]); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	if b := a.read(a.u64(slotAt(0)+slotProfileAt), profileSize); b == nil || fields(b).u64(8) != 0 {
		t.Error("the profile still holds memory")
	}
	if !r.Process.Complete || r.Process.Session != 5 || len(r.Threads) != 2 || len(r.Losses) != 0 {
		t.Errorf("wrong metadata: process %+v, threads %v, losses %v", r.Process, r.Threads, r.Losses)
	}
	if a.u32(processAt(0)+processStateAt) != processFree || a.u32(arenaFreeAt) != 2 {
		t.Error("the process and its slots were not released")
	}
}

// The slot of a process that has ended can belong to another process between any two reads.
func TestSlotTakenOver(t *testing.T) {
	a, err := newArena(new(arenaOptions), smallestArena)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	const old, taker = 5, 6
	at := slotAt(0)
	state, process := a.word32(at+slotStateAt), a.word32(at+slotProcessAt)
	var round, over atomic.Int64
	var taking sync.WaitGroup
	taking.Go(func() {
		for n := int64(1); over.Load() == 0; n++ {
			for round.Load() < n && over.Load() == 0 { // spin, to run at the same time as the reader
			}
			atomic.StoreUint32(state, slotTaken)
			atomic.StoreUint32(process, taker)
			atomic.StoreUint32(state, slotLive)
		}
	})
	defer func() {
		over.Store(1)
		taking.Wait()
	}()
	rounds := 0
	for end := time.Now().Add(300 * time.Millisecond); rounds < 100 || time.Now().Before(end); rounds++ {
		atomic.StoreUint32(state, slotFree)
		atomic.StoreUint32(process, old)
		round.Add(1)
		for !a.owns(taker, 0) {
			if a.owns(old, 0) {
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
	for _, at := range []uint64{slotAt(0) + slotTakenAt, slotAt(1) + slotChunksAt, slotAt(0) + slotRingAt, slotAt(0) + slotNCountersAt,
		slotAt(1) + slotProfileAt, slotAt(0) + slotProcessAt, processAt(0) + processTextSizeAt, arenaNSlotsAt, arenaBaseAt, processAt(0) + processNHookedAt} {
		f.Add(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, uint32(at)), 1<<63-1), at&8 != 0)
	}
	f.Fuzz(func(t *testing.T, patches []byte, rings bool) {
		// The time must be limited too.
		defer time.AfterFunc(2*time.Minute, func() { panic("the observer did not finish in two minutes") }).Stop()
		ob := testObserver(t)
		ob.settled.L = &ob.mu
		ob.options.Rings = rings
		a := makeArena(t, ob)
		defer a.close()
		const patch = 12
		for i := 0; len(patches) >= patch && i < 64; i++ {
			at := uint64(binary.LittleEndian.Uint32(patches)) % (8 << 20)
			binary.LittleEndian.PutUint64(a.mem[at&^7:], binary.LittleEndian.Uint64(patches[4:]))
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
	data := make([]byte, chunkSize)
	le := binary.LittleEndian
	tsc := uint64(1 << 40)
	le.PutUint64(data[chunkHeader:], recordStamp<<1|1)
	le.PutUint64(data[chunkHeader+8:], tsc<<1|1)
	for at := chunkHeader + 16; at < chunkSize; at += 8 {
		tsc += 25
		le.PutUint64(data[at:], 1<<4|uint64(at>>3&1)<<1|tsc<<32)
	}
	w := blockWriter{}
	c := chunkPlace{number: 1, first: 1 << 40}
	b.SetBytes(chunkSize)
	for b.Loop() {
		if got := w.chunk(&ringThread{}, &c, data); got.records != (chunkSize-chunkHeader-16)/8 {
			b.Fatal(got.records)
		}
	}
}
