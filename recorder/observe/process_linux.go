package observe

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/frames"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/budget"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/ring"
)

// observedProcess is a process in an arena.
type observedProcess struct {
	observer    *Observer
	index       uint32 // in the arena
	host, inner int    // its ID here, and in its own PID namespace
	ppid        int
	handle      int            // a pidfd, or -1
	end         *os.File       // owns handle once watchEnd was called; else nil
	watched     bool           // its end wakes the arena's bell
	arena       *arenaObserver // which the process must share; nil if it is known to
	gone        bool           // it ended before it had a pidfd
	since       uint64
	text        []byte // newest metadata found
	version     uint32
	trace       *observedTrace
	threads     []reader.ThreadInfo
	unlisted    uint64
	damaged     uint64 // sums that cannot be
	lost        map[string]uint64
	dropped     uint64 // records that threads dropped instead of waiting
	truncated   uint64
	least, most uint64    // chunks in memory of one thread
	waited      uint64    // ticks
	writing     uint64    // CPU time to write the trace, ns
	scheduled   time.Time // when scheduler events were last written
	tasks       int       // number of tasks in the trace's scheduler events
	windows     observedWindows
	quotas      quotas
	pipes       pipes
	compared    time.Time // when its execution was last compared
	executes    string    // another program that it executes now
	recorded    []uint64  // with a budget, entries in the trace, by function
}

func (a *arenaObserver) newProcess(i uint32) *observedProcess {
	at := ring.ProcessAt(i)
	p := &observedProcess{
		observer: a.observer, index: i, inner: int(int32(a.U32(at + ring.ProcessPIDAt))), ppid: int(int32(a.U32(at + ring.ProcessPPIDAt))),
		since: a.U64(at + ring.ProcessSinceAt), lost: make(map[string]uint64), handle: -1,
	}
	if i == 0 && a.joining >= 0 && p.inner == a.inner {
		p.host, p.handle, a.joining = a.pid, a.joining, -1
	} else {
		p.host, p.arena = a.locate(a.U64(at+ring.ProcessSpaceAt), p.inner), a
	}
	p.ended()
	p.begin(a)
	return p
}

// begin creates the trace of a new process as soon as there is metadata, even if the process never
// records anything.
func (p *observedProcess) begin(a *arenaObserver) {
	if p.trace != nil || p.inner != a.inner || a.observer.options.Rings {
		return
	}
	if p.read(a); p.text != nil {
		p.open(a)
	}
}

// read gets the newest metadata of the process.
func (p *observedProcess) read(a *arenaObserver) {
	if text, version := a.Arena.Text(p.index); version != p.version && text != nil {
		p.text, p.version = text, version
	}
}

func (p *observedProcess) lose(cause string, n uint64) {
	if n > 0 {
		p.lost[cause] += n
	}
}

// addThread adds the thread of a slot to the metadata of the trace.
func (p *observedProcess) addThread(a *arenaObserver, i uint32) {
	at := ring.SlotAt(i)
	f := ring.Fields(bytes.Clone(a.Mem[at : at+ring.SlotSize]))
	if f.U64(ring.SlotTakenAt) == 0 {
		return
	}
	info := reader.ThreadInfo{
		PID: int32(p.inner), TID: int32(f.U32(ring.SlotTIDAt)), Name: f.Text(ring.SlotNameAt, 16),
		First: f.U64(ring.SlotFirstAt), Last: f.U64(ring.SlotLastAt),
		Dropped: f.U64(ring.SlotDroppedAt), Truncated: f.U64(ring.SlotTruncatedAt),
	}
	chunks := min(f.U64(ring.SlotChunksAt), ring.MaxRingChunks)
	if !a.Streams() {
		first, last := a.RingChunks(i)
		info.Overwritten, chunks = first-1, last+1-first
	}
	if p.most = max(p.most, chunks); p.least == 0 || chunks < p.least {
		p.least = chunks
	}
	waited := f.U64(ring.SlotWaitedAt)
	for _, n := range []*uint64{&info.Dropped, &info.Truncated, &info.Overwritten, &waited} {
		if !a.Plausible(*n) {
			p.lose("damaged-chunk", 1)
			*n = 0
		}
	}
	if info.First > info.Last || info.Last > ring.ReadTSC() {
		p.lose("damaged-chunk", 1)
		info.First, info.Last = 0, 0
	}
	p.waited += waited
	p.dropped += info.Dropped
	p.truncated += info.Truncated
	if len(p.threads) == ring.MaxRows {
		p.unlisted++
		return
	}
	p.threads = append(p.threads, info)
}

// write appends a block to the process's trace.
func (p *observedProcess) write(a *arenaObserver, b *ring.Block) {
	p.lose("interrupted", b.Unwritten)
	p.lose("damaged-chunk", b.Damaged)
	if b.Records == 0 {
		return
	}
	if p.trace == nil {
		p.read(a)
		p.open(a)
	}
	t, limit := p.trace, p.observer.options.Limit
	data := t.encode(b.Bytes)
	switch {
	case limit > 0 && t.size+int64(len(data)) > limit:
		p.lose("size-limit", b.Records)
	case t.append(data) != nil:
		p.lose("write-error", b.Records)
	default:
		t.wrote(len(data), "write-error", b.Records)
	}
}

// observedTrace is a file being written.
type observedTrace struct {
	path   string
	file   *os.File // nil if it could not be created
	size   int64
	first  uint64
	err    error           // the first error
	frames *frames.Encoder // the arena's encoder; nil if the trace is not compressed
	// tail are the latest blocks. On a full disk, some make room for the metadata that says what is missing.
	tail []tailBlock
}

// tailBlock is a block at the end of a trace: where it begins, and what is lost with it.
type tailBlock struct {
	from  int64
	cause string
	lost  uint64
}

// wrote notes a block that was appended.
func (t *observedTrace) wrote(size int, cause string, lost uint64) {
	const most = 64
	if len(t.tail) == most {
		t.tail = append(t.tail[:0], t.tail[most/2:]...)
	}
	t.tail = append(t.tail, tailBlock{t.size - int64(size), cause, lost})
}

// last appends the last metadata of a trace. If there is no space, the latest blocks make room, and are counted
// as lost.
func (t *observedTrace) last(r *reader.Recording) {
	for {
		err := t.append(t.encode(tracewrite.AppendRecording(nil, r, t.first)))
		n := len(t.tail) - 1
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) || n < 0 || t.file.Truncate(t.tail[n].from) != nil {
			return
		}
		t.size = t.tail[n].from
		if _, err := t.file.Seek(t.size, 0); err != nil {
			return
		}
		lost := map[string]uint64{t.tail[n].cause: t.tail[n].lost}
		for _, l := range r.Losses {
			lost[l.Cause] += l.Count
		}
		r.Losses, t.tail = ring.Losses(lost), t.tail[:n]
	}
}

// open creates the file of the process's trace, with the metadata known so far.
func (p *observedProcess) open(a *arenaObserver) {
	recording, _ := reader.ParseRecording(p.text)
	if recording == nil {
		recording = &reader.Recording{}
	}
	p.amend(recording)
	if a.budget != nil {
		recording.Budget = reader.Budget{Share: a.budget.Millionths(), From: p.since} // in case the observer is killed
	}
	t := &observedTrace{first: p.since}
	if p.observer.options.Compress {
		t.frames = &a.frames
	}
	p.trace = t
	t.path, t.file, t.err = createTrace(p.observer.options.Output, p.inner, filepath.Base(recording.Process.Exe))
	header := slices.Clone(t.encode(ring.TraceHeader(&recording.Clock))) // in its own frame, because end overwrites it
	_ = t.append(append(header, t.encode(tracewrite.AppendRecording(nil, recording, t.first))...))
}

// mostNames limits the files of one name, as in the runtime. A process that executes programs in turn has one
// for each.
const mostNames = 1 << 14

// createTrace creates a file named by a template. If the file exists, it chooses another name, like the
// runtime.
func createTrace(template string, pid int, program string) (string, *os.File, error) {
	first := recorder.ExpandTemplate(template, pid, program)
	path := first
	for attempt := 0; ; attempt++ {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
		if err == nil || !errors.Is(err, os.ErrExist) || attempt == mostNames {
			return path, f, err
		}
		path = first + "." + strconv.Itoa(pid)
		if attempt > 0 {
			path += "." + strconv.Itoa(attempt)
		}
	}
}

// encode returns data as it is stored in the file. The result is valid until the next call for a trace
// of the same arena.
func (t *observedTrace) encode(data []byte) []byte {
	if t.frames == nil {
		return data
	}
	return t.frames.Encode(data)
}

// append writes all of data or nothing.
func (t *observedTrace) append(data []byte) error {
	if t.file == nil {
		return t.err
	}
	n, err := t.file.Write(data)
	if err != nil {
		t.err = cmp.Or(t.err, err)
		if n > 0 {
			_ = t.file.Truncate(t.size)
			_, _ = t.file.Seek(t.size, 0)
		}
		return err
	}
	t.size += int64(n)
	return nil
}

func (t *observedTrace) metadata(r *reader.Recording) {
	_ = t.append(t.encode(tracewrite.AppendRecording(nil, r, t.first)))
}

// amend replaces metadata that the observer knows better than the process, whose metadata may be its
// parent's.
func (p *observedProcess) amend(r *reader.Recording) {
	r.Process.PID = int32(p.inner)
	if p.ppid != 0 {
		r.Process.PPID = int32(p.ppid)
	}
	r.Process.Session = p.observer.options.Session
	r.Process.NoSched = p.noSched()
	if r.Process.PageSize == 0 {
		r.Process.PageSize = 4096
	}
}

// recording returns the metadata of a process, at its end if complete is set, or so far.
func (a *arenaObserver) recording(p *observedProcess, complete bool) *reader.Recording {
	p.read(a)
	r, err := reader.ParseRecording(p.text)
	if err != nil {
		p.lose("damaged-metadata", 1)
	}
	p.amend(r)
	build.NameCalls(r)
	r.Process.Complete = complete
	r.Process.WaitedNS = ring.Scale(p.waited, 1e9, r.Clock.Frequency)
	r.Process.WritingNS = p.writing
	if r.Process.Memory = a.MemoryOf(p.index); r.Process.Memory != nil {
		r.Process.Memory.Least, r.Process.Memory.Most = p.least*ring.ChunkSize, p.most*ring.ChunkSize
	}
	now := ring.ReadClocks()
	if n := len(r.Clock.Anchors); now.TSC != 0 && (n == 0 || r.Clock.Anchors[n-1].TSC < now.TSC && r.Clock.Anchors[n-1].Real < now.Real) {
		r.Clock.Anchors = append(r.Clock.Anchors, now)
		if first := r.Clock.Anchors[0]; now.Raw > first.Raw+1e6 {
			r.Clock.Frequency = ring.Scale(now.TSC-first.TSC, 1e9, now.Raw-first.Raw)
		}
	}
	r.Process.Quotas = p.quotas.report()
	r.Process.Ends = p.pipes.report()
	r.Windows = p.windows.pending(a.Streams())
	at := ring.ProcessAt(p.index)
	r.Threads = slices.Clone(p.threads)
	var seen []uint32
	for slot := range uint32(len(a.slotsOf)) {
		if a.Owns(p.index, slot) {
			seen = append(seen, slot)
		}
	}
	a.addAddresses(r, at)
	a.addSums(r, p, seen)
	lost := maps.Clone(p.lost)
	add := func(cause string, n uint64) {
		if n > 0 {
			lost[cause] += n
		}
	}
	for cause, field := range map[string]uint64{"thread-without-memory": ring.ProcessDroppedAt, "ended-thread": ring.ProcessEndedAt} {
		if n := a.U64(at + field); a.Plausible(n) {
			add(cause, n)
		} else {
			add("damaged-chunk", 1)
		}
	}
	if a.Streams() {
		add("not-waited-for", p.dropped)
	} else {
		add("thread-without-memory", p.dropped) // in a process that may not release memory
	}
	add("truncated-payload", p.truncated)
	add("unlisted-thread", p.unlisted)
	add("damaged-chunk", p.damaged)
	for i := range r.Profiles {
		add("no-path", r.Profiles[i].Lost)
	}
	r.Losses = ring.Losses(lost)
	return r
}

// addAddresses adds functions without sleds that were first called after the metadata was written.
func (a *arenaObserver) addAddresses(r *reader.Recording, at uint64) {
	n := min(a.U64(at+ring.ProcessNHookedAt), ring.MaxHooked)
	f := ring.Fields(a.Read(a.U64(at+ring.ProcessHookedAt), ring.HookedSize*n))
	for ; len(f) > 0; f = f[ring.HookedSize:] {
		address, id := f.U64(ring.HookedAddressAt), f.U64(ring.HookedIDAt)
		if id == 0 || id > 4*ring.MaxHooked {
			continue
		}
		for uint64(len(r.Addresses)) < id {
			r.Addresses = append(r.Addresses, 0)
		}
		r.Addresses[id-1] = address
	}
}

// addSums adds the counters, the sums of pruned calls and the profiles of threads.
func (a *arenaObserver) addSums(r *reader.Recording, p *observedProcess, slots []uint32) {
	p.damaged = 0 // every call of addSums finds the same damage
	sums := make(map[reader.FuncID]uint64)
	counters := sums
	if a.budget != nil {
		counters = make(map[reader.FuncID]uint64)
	}
	pruned := make(map[reader.FuncID]*reader.PrunedFunction)
	room := profileRoom{ring.ProfileMaxPaths, maxProfileFolds}
	for _, slot := range slots {
		at := ring.SlotAt(slot)
		p.damaged += a.Words(a.U64(at+ring.SlotCountersAt), min(a.U64(at+ring.SlotNCountersAt), ring.MaxCounters), func(id, calls uint64) {
			counters[reader.FuncID(id)] += calls
		})
		p.damaged += a.addPruned(pruned, slot)
		address := a.U64(at + ring.SlotProfileAt)
		if address == 0 {
			continue
		}
		profile, ok := a.profile(address, int32(p.inner), &room)
		if !ok {
			p.lose("damaged-profile", 1)
			continue
		}
		r.Profiles = append(r.Profiles, profile)
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		r.Counters = append(r.Counters, reader.Counter{Func: id, Calls: sums[id]})
	}
	if a.budget != nil {
		r.Budget = a.budget.Report(&budget.Calls{
			Index: p.index, Since: p.since, CPU: float64(r.Process.CPUNS), Counted: counters, Recorded: p.recorded, Pruned: pruned,
		})
	}
	r.Pruned.From, r.Pruned.To = p.since, ring.ReadTSC()
	for _, id := range slices.Sorted(maps.Keys(pruned)) {
		r.Pruned.Functions = append(r.Pruned.Functions, *pruned[id])
	}
}

// addPruned adds a thread's pruned calls to those of functions. It returns the number of sums that cannot be.
func (a *arenaObserver) addPruned(pruned map[reader.FuncID]*reader.PrunedFunction, slot uint32) (damaged uint64) {
	for address, n := range a.sumTables(slot) {
		damaged += a.Words(address, 2*n, func(i, v uint64) {
			id := reader.FuncID(i / 2)
			if id == 0 {
				return
			}
			if pruned[id] == nil {
				pruned[id] = &reader.PrunedFunction{Func: id}
			}
			if i%2 == 0 {
				pruned[id].Calls += v
			} else {
				pruned[id].Ticks += v
			}
		})
	}
	return damaged
}

// sumTables returns the addresses of a thread's tables of pruned calls, and their numbers of
// functions. The first entry of a table links to the previous table.
func (a *arenaObserver) sumTables(slot uint32) iter.Seq2[uint64, uint64] {
	const maxTables = 32 // each is at least twice as long as the previous one
	return func(yield func(uint64, uint64) bool) {
		address, n := a.U64(ring.SlotAt(slot)+ring.SlotSumsAt), a.U64(ring.SlotAt(slot)+ring.SlotNSumsAt)
		for range maxTables {
			head := ring.Fields(a.Read(address, ring.SumSize)) // the address and length of the previous table
			if n = min(n, ring.MaxCounters); head == nil || !yield(address, n) {
				return
			}
			address, n = head.U64(ring.SumCallsAt), head.U64(ring.SumTicksAt)
		}
	}
}

// finish completes the trace of a process that has ended, and releases the process's resources.
func (a *arenaObserver) finish(p *observedProcess) {
	p.readWindows(a)
	var own []uint32
	for slot := range a.knownSlots() {
		if !a.Owns(p.index, slot) {
			continue
		}
		own = append(own, slot)
		if a.Streams() {
			a.consumeSlot(slot, true)
		} else {
			a.writeRing(slot, p)
		}
	}
	recording := a.recording(p, true)
	said := len(recording.Counters) + len(recording.Profiles) + len(recording.Pruned.Functions) + len(recording.Losses)
	if p.trace == nil && (p.inner == a.inner || said > 0) && p.text != nil {
		p.open(a)
	}
	if p.trace != nil {
		p.writeSched(true)
		a.observer.end(p, recording)
	}
	if s := a.observer.sched; s != nil {
		s.forget(p.host)
	}
	for _, slot := range own {
		a.free(slot)
	}
	a.processesOf[p.index] = nil
	if p.end != nil {
		p.end.Close()
	} else if p.handle >= 0 {
		unix.Close(p.handle)
	}
	atomic.StoreUint32(a.Word32(ring.ProcessAt(p.index)+ring.ProcessStateAt), ring.ProcessFree)
}

// writeRing writes a thread's ring, oldest chunk first.
func (a *arenaObserver) writeRing(slot uint32, p *observedProcess) {
	at, s := ring.SlotAt(slot), &a.slotsOf[slot]
	*s = observedSlot{owner: a.U32(at + ring.SlotOwnerAt), process: a.U32(at + ring.SlotProcessAt)}
	first, last := a.RingChunks(slot)
	for i := range last + 1 - first {
		a.writeChunk(slot, s, first+i, false)
	}
	p.addThread(a, slot)
}

// free makes a slot available to other processes, with zeroed tables.
func (a *arenaObserver) free(slot uint32) {
	at := ring.SlotAt(slot)
	a.PunchHole(a.U64(at+ring.SlotRingAt), a.U64(at+ring.SlotChunksAt)*ring.ChunkSize)
	a.PunchHole(a.U64(at+ring.SlotCountersAt), 8*a.U64(at+ring.SlotNCountersAt))
	for address, n := range a.sumTables(slot) {
		a.PunchHole(address, ring.SumSize*n)
	}
	if address := a.U64(at + ring.SlotProfileAt); address != 0 {
		a.freeProfile(address)
	}
	a.slotsOf[slot].over = true
	atomic.StoreUint32(a.Word32(at+ring.SlotStateAt), ring.SlotFree)
	atomic.AddUint32(a.Word32(ring.ArenaFreeAt), 1)
}

// end writes the final metadata of a trace and closes it.
func (ob *Observer) end(p *observedProcess, r *reader.Recording) {
	t := p.trace
	t.last(r)
	if t.file != nil {
		_, err := t.file.WriteAt(t.encode(ring.TraceHeader(&r.Clock)), 0)
		t.err = cmp.Or(t.err, err, t.file.Close())
	}
	done := Trace{Path: t.path, PID: p.host, WaitedNS: r.Process.WaitedNS}
	if t.err != nil {
		done.Problem = strings.TrimPrefix(t.err.Error(), "open ")
	}
	ob.mu.Lock()
	ob.finished = append(ob.finished, done)
	ob.mu.Unlock()
}
