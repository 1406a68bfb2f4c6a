package live

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/budget"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// Reader reads the rings of a running process from outside, through /proc/PID/mem. The process only fills
// its rings. Reader keeps chunks that the process overwrites, up to a limit on their size. It is not safe
// for concurrent use.
type Reader struct {
	process    *client.Process
	image      *ring.Image
	root       uint64 // address of the runtime's root
	threads    map[uint64]*thread
	roots      Roots
	choose     func(*reader.Trace) (Roots, error)
	room       int64 // bytes of chunks to keep
	kept       []*keptChunk
	objects    uint64 // number in the process when its metadata was read
	values     uint64 // ring.Root.ValuesChanges at the time
	since      uint64 // TSC at which the recording began, or 0; rings may have records of earlier recordings
	text       *reader.Recording
	newest     uint64   // TSC when the rings were last read
	windows    *windows // nil if everything is recorded
	scratch    []byte
	header     ring.Fields        // of the chunk that was copied last
	budget     *budget.Controller // nil without one
	tails      bool               // copy the current chunks
	foreign    bool               // the process is in another PID namespace
	threadSize int
}

// thread is a thread, and how far its ring was read.
type thread struct {
	*ring.Thread
	scan   rootScan
	calls  budget.Inspector // if there is a budget
	opens  ring.OpenCalls   // after the complete chunks that were read
	number uint64           // of the chunk to read next
	at     int              // offset in it
	begun  []byte           // the chunk to read next, as far as it was read
	wait   notedWait        // by the latest [Reader.NoteWaits]
	tail   tail
}

// tail is a copy of a thread's current chunk by the latest [Reader.Read], if there are tails.
type tail struct {
	number, cursor uint64
	data           []byte
}

// keptChunk is a complete chunk.
type keptChunk struct {
	thread *ring.Thread
	place  ring.ChunkPlace
	data   []byte
	opens  ring.OpenState // before it
}

// Open finds the rings of a process. keep is the number of bytes of overwritten chunks to keep. The
// caller needs permission to trace the process, as for gdb. choose chooses the roots from the metadata
// of the process, a trace without records. [Reader.Read] calls it again when the process has opened or
// closed objects.
func Open(ctx context.Context, p *client.Process, keep int64, choose func(*reader.Trace) (Roots, error)) (*Reader, error) {
	if p.PID == 0 {
		return nil, errors.New("pass the process ID instead of the path of its socket")
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.PID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("process %d has ended", p.PID)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: xray needs permission to trace the process: run it as the same user or as root, and check /proc/sys/kernel/yama/ptrace_scope", err)
	}
	l := &Reader{process: p, threads: make(map[uint64]*thread), room: keep, choose: choose, scratch: make([]byte, ring.ChunkSize), header: make(ring.Fields, ring.ChunkHeader)}
	root, err := l.find(mem)
	if err == nil {
		err = l.describe(ctx, root)
	}
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return l, nil
}

// Close releases the resources. The process keeps recording, with the latest limits of a budget.
func (l *Reader) Close() error {
	var err error
	if l.budget != nil {
		err = l.budget.Close()
	}
	return errors.Join(err, l.image.In.(*os.File).Close())
}

// find finds the runtime's root.
func (l *Reader) find(mem *os.File) (root *ring.Root, err error) {
	if l.image, l.root, root, err = client.FindRoot(mem, l.process); err != nil {
		return nil, err
	}
	inner, err := proc.InnerPID(l.process.PID)
	l.threadSize, l.foreign = root.ThreadSize, inner != l.process.PID
	return root, err
}

// describe asks the runtime for its metadata. It takes a snapshot without records.
func (l *Reader) describe(ctx context.Context, root *ring.Root) error {
	_, data, err := l.process.Data(ctx, "snapshot since=9223372036854775807")
	if err != nil {
		return err
	}
	t, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), l.process.String())
	if err != nil {
		return err
	}
	defer t.Close()
	described := t.Recording(0)
	if described == nil { // a process may answer anything
		return fmt.Errorf("%s: its answer has no metadata", l.process)
	}
	if l.roots, err = l.choose(t); err != nil {
		return err
	}
	r := *described
	l.since = r.Process.CPUFrom
	for _, t := range l.threads {
		t.scan.begin(l.since)
		t.scan.setRoots(&l.roots)
	}
	build.NameCalls(&r)
	r.Threads, r.Counters, r.Profiles, r.Pruned, r.Losses = nil, nil, nil, reader.Pruned{}, nil
	r.Windows, r.Budget = nil, reader.Budget{}
	r.Process.CPUNS, r.Process.CPUFrom, r.Process.CPUTo = 0, 0, 0
	r.Process.Complete = true
	l.text, l.objects, l.values = &r, root.Nobjects, root.ValuesChanges
	l.keepRoots()
	return nil
}

// Recording returns the metadata of the process as of the latest [Reader.Read], without threads. The
// caller must not change it.
func (l *Reader) Recording() *reader.Recording { return l.text }

// Read reads what threads have recorded since the previous call, and calls each with the calls of roots
// that have ended. Calls of a thread are in order. An error means that the process has ended or cannot
// be read any more.
func (l *Reader) Read(ctx context.Context, each func(RootCall)) (s State, err error) {
	now := ring.ReadTSC()
	root, err := l.image.ParseRoot(l.root)
	if err != nil {
		return s, err
	}
	if root.Nobjects != l.objects || root.ValuesChanges != l.values {
		if err := l.describe(ctx, root); err != nil {
			return s, err
		}
	}
	if err := l.readWindows(root, now); err != nil {
		return s, err
	}
	table, err := l.image.Read("the table of threads", root.Threads, int(root.Nthreads)*8)
	if err != nil {
		return s, err
	}
	for f := ring.Fields(table); len(f) > 0; f = f[8:] {
		t, err := l.image.ParseThread(f.U64(0), root.ThreadSize)
		if err != nil {
			return s, err
		}
		l.readThread(t, &s, each)
		l.threads[t.Address].scan.expire()
		if open := l.threads[t.Address].scan.open; len(open) > 0 && !t.Free && (s.Oldest == 0 || open[0].start < s.Oldest) {
			s.Oldest = open[0].start
		}
	}
	l.evict()
	if l.budget != nil {
		l.budget.NoteCPU(now)
	}
	l.newest = now
	return s, nil
}

// readWindows reads the windows of the recording, if it has any.
func (l *Reader) readWindows(root *ring.Root, now uint64) error {
	if root.Windows.N == 0 {
		return nil
	}
	if l.windows == nil {
		l.windows = new(windows)
		l.windows.more = func() {
			// An error means that the process has ended.
			now := ring.ReadTSC()
			if root, err := l.image.ParseRoot(l.root); err == nil {
				_ = l.windows.update(l.image, &root.Windows, now)
			}
		}
		for _, t := range l.threads {
			t.scan.windows = l.windows
		}
	}
	return l.windows.update(l.image, &root.Windows, now)
}

// readThread reads what is new in the ring of a thread.
func (l *Reader) readThread(now *ring.Thread, s *State, each func(RootCall)) {
	t := l.threads[now.Address]
	if t == nil || t.TID != now.TID || t.First != now.First && t.First != 0 || now.Taken < t.Taken {
		t = &thread{number: 1, scan: rootScan{tid: now.TID, since: l.since, windows: l.windows}}
		t.scan.setRoots(&l.roots)
		l.threads[now.Address] = t
	}
	t.Thread = now
	if now.Free || now.Taken == 0 || now.Size == 0 || now.Size > ring.MaxRingChunks || now.Ring%ring.ChunkSize != 0 {
		return
	}
	if oldest := now.Oldest(); t.number < oldest {
		missed := t.miss(oldest)
		if l.newest != 0 { // the first Read cannot lose anything
			s.Lost += missed
		}
	}
	before := t.number
	for t.number <= now.Taken {
		if !l.readChunk(t, s, each) {
			break
		}
	}
	s.Fill = max(s.Fill, float64(t.number-before)/float64(now.Size))
	if l.tails {
		l.keepTail(t)
	}
}

// keepTail copies the current chunk of a thread to its tail.
func (l *Reader) keepTail(t *thread) {
	address := t.Ring + (t.Taken-1)%t.Size*ring.ChunkSize
	end := t.Cursor - address
	if t.number != t.Taken || end < ring.ChunkHeader || end > ring.ChunkSize || t.tail.number == t.Taken && t.tail.cursor == t.Cursor {
		return
	}
	data, again := make([]byte, end), l.scratch[:end]
	if !l.copies(t, address, data, 0) || !l.copies(t, address, again, 0) {
		return
	}
	// The thread may remove records, for example with --prune. The part that two copies have in common
	// was there at one moment.
	same := ring.ChunkHeader
	for same < len(data) && data[same] == again[same] {
		same++
	}
	t.tail = tail{t.Taken, t.Cursor, data[:same&^7]}
}

// miss skips the chunks before this one, which were overwritten, and returns their number.
func (t *thread) miss(next uint64) uint64 {
	n := next - t.number
	t.number, t.at = next, 0
	t.calls = budget.Inspector{}
	t.opens.Lose()
	t.scan.lose()
	return n
}

// readChunk reads what is new in the next chunk. It reports whether the chunk is finished.
func (l *Reader) readChunk(t *thread, s *State, each func(RootCall)) (done bool) {
	address := t.Ring + (t.number-1)%t.Size*ring.ChunkSize
	if t.number == t.Taken {
		// The thread writes to this chunk, or has taken the next one in the meantime.
		end := t.Cursor - address
		if end < ring.ChunkHeader || end > ring.ChunkSize {
			return false
		}
		data := l.scratch[:end]
		at := max(t.at, ring.ChunkHeader)
		if at < int(end) && l.copies(t, address, data[at:], uint64(at)) {
			if l.budget != nil {
				l.budget.ReadDurations(&t.calls, data, at, true)
			}
			if at == ring.ChunkHeader {
				t.begun = append(t.begun[:0], l.header...)
			}
			t.begun = append(t.begun[:min(at, len(t.begun))], data[at:]...)
			t.at = t.scan.scan(data, at, true, each)
		}
		s.Bytes += int64(end) - int64(at)
		return false
	}
	data := make([]byte, ring.ChunkSize)
	if !l.copies(t, address, data, 0) {
		s.Lost += t.miss(t.number + 1)
		return true
	}
	f := ring.Fields(data)
	c := ring.ChunkPlace{Address: address, Number: t.number, First: f.U64(ring.ChunkFirstAt), Last: f.U64(ring.ChunkLastAt), Wall: f.U64(ring.ChunkWallAt), Used: ring.UsedOf(f)}
	if c.Used != 0 {
		data = data[:c.Used]
	}
	if l.budget != nil {
		l.budget.ReadDurations(&t.calls, data, max(t.at, ring.ChunkHeader), false)
	}
	t.scan.scan(data, max(t.at, ring.ChunkHeader), false, each)
	if c.Last == 0 || c.Last >= l.since {
		l.kept = append(l.kept, &keptChunk{thread: t.Thread, place: c, data: data, opens: t.opens.State()})
	}
	t.opens.Begin(l.windowAt(c.Last))
	t.opens.Follow(&c, data, t.opens.Window, math.MaxUint64)
	t.number, t.at = t.number+1, 0
	s.Bytes += int64(len(data))
	return true
}

// windowAt returns from which TSC on records belong to the same window as those at a TSC.
func (l *Reader) windowAt(tsc uint64) uint64 {
	if l.windows == nil {
		return l.since
	}
	from, _, ok := l.windows.at(tsc)
	if !ok {
		return math.MaxUint64
	}
	return max(from, l.since)
}

// copies copies a part of a thread's next chunk to p, and reports whether it was still the same chunk
// afterwards.
func (l *Reader) copies(t *thread, address uint64, p []byte, offset uint64) bool {
	if _, err := l.image.ReadSome(p, address+offset); err != nil {
		return false
	}
	if _, err := l.image.ReadSome(l.header, address); err != nil {
		return false
	}
	return l.header.U64(ring.ChunkSeqAt) == 2*t.number && l.header.U64(ring.ChunkMagicAt) == ring.ChunkMagic && l.header.U64(ring.ChunkThreadAt) == t.Address
}

// evict drops the chunks that ended first until the others fit into the limit.
func (l *Reader) evict() {
	size := int64(0)
	for _, k := range l.kept {
		size += int64(cap(k.data))
	}
	if size <= l.room {
		return
	}
	slices.SortStableFunc(l.kept, func(a, b *keptChunk) int { return cmp.Compare(a.place.Last, b.place.Last) })
	n := 0
	for ; size > l.room; n++ {
		size -= int64(cap(l.kept[n].data))
	}
	l.kept = slices.Delete(l.kept, 0, n)
}

// Newest returns the TSC up to which Read has read all complete records.
func (l *Reader) Newest() uint64 { return l.newest }

// WriteTrace writes a trace of what all threads recorded between two TSCs, as far as it is still
// available. edit may change the metadata. WriteTrace reads the current chunks again, unless the process
// has ended.
func (l *Reader) WriteTrace(w io.Writer, from, to uint64, edit func(*reader.Recording)) error {
	from = max(from, l.since)
	chunks := l.chunks(from, to)
	r := *l.text
	lost := make(map[string]uint64)
	var blocks bytes.Buffer
	out := ring.BlockWriter{First: from, Since: from, Until: to, Cut: true}
	for len(chunks) > 0 {
		n := 1
		for n < len(chunks) && chunks[n].thread == chunks[0].thread {
			n++
		}
		one := chunks[:n]
		chunks = chunks[n:]
		t := one[0].thread
		t.Overwritten = 0
		r.Threads = append(r.Threads, t.ThreadInfo)
		block, latest := l.cut(one, from, to)
		blocks.Write(block)
		for i, k := range one {
			if i > 0 {
				lost["overwritten-chunk"] += k.place.Number - one[i-1].place.Number - 1
			}
			b := out.Chunk(t, &k.place, k.data)
			lost["interrupted"] += b.Unwritten
			lost["damaged-chunk"] += b.Damaged
			if b.Records > 0 {
				blocks.Write(b.Bytes)
				latest = max(latest, b.Last)
			}
		}
		blocks.Write(l.end(one, from, latest, to))
	}
	if l.windows != nil {
		r.Windows = l.windows.between(from, to)
	}
	r.Losses = ring.Losses(lost)
	if l.budget != nil {
		r.Budget = l.budget.Between(from, to)
	}
	r.Clock.Anchors = append(slices.Clone(r.Clock.Anchors), ring.ReadClocks())
	edit(&r)
	head := tracewrite.AppendRecording(ring.TraceHeader(&r.Clock), &r, from)
	for _, part := range [][]byte{head, blocks.Bytes()} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// cut returns a block that enters the calls of a thread which are open at a TSC, and the TSC of the record
// before.
func (l *Reader) cut(chunks []*keptChunk, from, to uint64) (block []byte, before uint64) {
	first := chunks[0]
	window := l.windowAt(from)
	if l.windows != nil {
		if _, end, ok := l.windows.at(from); ok {
			to = min(to, end)
		}
	}
	o := ring.OpenCallsOf(first.opens)
	o.Begin(window)
	more := 0
	for more < len(chunks) && o.Follow(&chunks[more].place, chunks[more].data, window, from) {
		more++
	}
	calls := slices.Clone(o.Calls)
	if l.budget != nil {
		calls = slices.DeleteFunc(calls, func(c ring.EnteredCall) bool { return l.budget.ExitsMissing(c.Fn, c.Start, from) })
	}
	o.Outer = nil
	cpu, last := o.CPU, o.Last
	for i := more; i < len(chunks) && window <= from && o.Follow(&chunks[i].place, chunks[i].data, from, to); i++ {
	}
	o.CPU, o.Last = cpu, last
	return o.CutBlock(first.thread, from, calls), last
}

// end returns a block that ends the open calls of a thread at the TSC to. latest is the TSC of its latest record
// before. end returns nil if the thread has ended.
func (l *Reader) end(chunks []*keptChunk, from, latest, to uint64) []byte {
	last := chunks[len(chunks)-1]
	if last.place.Last != 0 && last.place.Last <= to {
		return nil
	}
	at := max(from, latest, min(to, l.newest))
	var payloads [][]byte
	ended, s, switched := nextAfter(chunks, at)
	if ended == 0 {
		if ended, s, switched = l.waits(last.thread); ended == 0 {
			ended, s, switched = l.waited(last.thread)
		}
	}
	if switched && latest > 0 && ended > latest {
		part := func(ns uint64) uint64 {
			if ns == reader.UnknownNS {
				return ns
			}
			return ring.Scale(ns, at-latest, ended-latest)
		}
		s.OffNS, s.QueuedNS, s.RecorderNS = part(s.OffNS), part(s.QueuedNS), part(s.RecorderNS)
		payloads = append(payloads, reader.AppendSwitch(nil, s))
	}
	payloads = append(payloads, reader.AppendEdge(nil, reader.WindowEnds))
	return ring.EdgeBlock(last.thread, (at-from)>>15+2, uint32(min(last.place.Number, 999999)), 0, at, payloads, nil)
}

// chunks returns the chunks with records between two TSCs, sorted by thread and number.
func (l *Reader) chunks(from, to uint64) []*keptChunk {
	overlaps := func(c *ring.ChunkPlace) bool { return c.First <= to && (c.Last == 0 || c.Last >= from) }
	var list []*keptChunk
	threads := make(map[[2]uint64]*ring.Thread) // the same pointer for all chunks of a thread
	identity := func(t *ring.Thread) *ring.Thread {
		key := [2]uint64{t.Address, t.First}
		if threads[key] == nil {
			one := *t
			threads[key] = &one
		}
		return threads[key]
	}
	for _, t := range l.threads {
		if k := l.current(t); k != nil && overlaps(&k.place) {
			k.thread = identity(t.Thread)
			list = append(list, k)
		}
	}
	for _, k := range l.kept {
		if overlaps(&k.place) {
			one := *k
			one.thread = identity(k.thread)
			list = append(list, &one)
		}
	}
	slices.SortFunc(list, func(a, b *keptChunk) int {
		return cmp.Or(cmp.Compare(a.thread.First, b.thread.First), cmp.Compare(a.thread.Address, b.thread.Address), cmp.Compare(a.place.Number, b.place.Number))
	})
	return list
}

// current returns the chunk that a thread was writing when its ring was last read, or nil.
func (l *Reader) current(t *thread) *keptChunk {
	if t.Free || t.number != t.Taken || t.at <= ring.ChunkHeader {
		return nil
	}
	address := t.Ring + (t.number-1)%t.Size*ring.ChunkSize
	data := make([]byte, t.at)
	if !l.copies(t, address, data, 0) {
		if len(t.begun) < t.at {
			return nil
		}
		copy(data, t.begun) // the process has ended, or has overwritten the chunk
	}
	return &keptChunk{
		place: ring.ChunkPlace{Address: address, Number: t.number, First: ring.Fields(data).U64(ring.ChunkFirstAt), Last: ring.Fields(data).U64(ring.ChunkLastAt), Used: t.at},
		data:  data, opens: t.opens.State(),
	}
}
