// Package core recovers records from the memory of a process that cannot write them any more: from its core
// file, from a ring file, or, for LLVM's runtime, from the running process.
//
// [Open] finds the rings of the recorder's runtime, and the buffers of LLVM's basic and FDR modes. Each
// becomes a trace by [Rings.WriteTrace] or [Log.WriteTrace], which says what is missing.
package core

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/report/label"
)

// Core is the memory of a process with this runtime or LLVM's. It is a core file, a running process, or
// a ring file of the runtime, which has the format of a core file. It is not safe for concurrent use.
type Core struct {
	image   *ring.Image
	file    io.Closer
	rings   []*Rings
	logs    []*Log
	exe     string      // path of the program here, or ""
	given   bool        // the user has named exe as the program
	program string      // path of the program in the process, or "" if it is unknown
	aux     []byte      // auxiliary vector
	live    *liveMemory // nil for a file
}

// liveMemory gives access to a running process beyond its memory.
type liveMemory struct {
	micros func() uint64    // reads CLOCK_MONOTONIC
	runs   func(int32) bool // reports whether the process has this thread
}

var errNoRoot = errors.New("found no records from xray's recorder or LLVM's: neither was recording in this process, or the data is not in the core file " +
	"(bit 0 of /proc/PID/coredump_filter must be set)")

// Open opens a core file, or stdin for "-". The file may be compressed with gzip or zstd.
func Open(path string, stdin io.Reader) (*Core, error) {
	in, err := reader.OpenInput(path, stdin, elf.ELFMAG)
	if err != nil {
		return nil, err
	}
	c, err := readCore(path, in, in.Size())
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	c.file = in
	if in.Damage() != nil {
		c.image.Cut = true
	}
	return c, nil
}

func readCore(name string, in io.ReaderAt, size int64) (*Core, error) {
	m, err := ring.OpenImage(name, in, size)
	if err != nil {
		return nil, err
	}
	c := &Core{image: m}
	c.readProgram()
	roots := 0
	for _, wanted := range ring.Searches {
		found := m.SearchSegments(ring.RootMagic, ring.MaxRoots, wanted)
		roots += len(found)
		err = cmp.Or(err, c.findRings(found), c.findLogs(wanted))
		if len(c.rings)+len(c.logs) > 0 {
			return c, nil
		}
	}
	switch {
	case err != nil:
		return nil, err
	case roots > 0:
		return nil, m.Errorf("the recorder was in this process, but had recorded nothing")
	case m.Cut:
		return nil, m.Errorf("%w; the core file is truncated", errNoRoot)
	}
	return nil, m.Errorf("%w", errNoRoot)
}

// findRings reads the rings of the runtimes at these addresses.
func (c *Core) findRings(addresses []uint64) (err error) {
	for _, address := range addresses {
		var rings *Rings
		root, rootErr := c.image.ParseRoot(address)
		if rootErr == nil && root.Nthreads > 0 {
			rings, rootErr = c.collect(root)
		}
		if rings != nil {
			c.rings = append(c.rings, rings)
		}
		err = cmp.Or(err, rootErr)
	}
	return err
}

// Close releases the core's resources.
func (c *Core) Close() error { return c.file.Close() }

// Rings returns the rings of each runtime that has recorded something. There are two if the runtime is
// both linked in and preloaded.
func (c *Core) Rings() []*Rings { return c.rings }

// Cut reports whether the core file is truncated.
func (c *Core) Cut() bool { return c.image.Cut }

// Ending says how the process ended, for example "SIGSEGV in thread 12". It is "" if the core does not
// contain that, or if the process kept running.
func (c *Core) Ending() string {
	b := c.image.Note(elf.NT_PRSTATUS, 36)
	if b == nil {
		return ""
	}
	f := ring.Fields(b)
	signal := binary.LittleEndian.Uint16(b[12:])
	if signal == 0 {
		return ""
	}
	name := signals[signal]
	if name == "" {
		name = fmt.Sprint("signal ", signal)
	}
	return fmt.Sprintf("%s in thread %d", name, f.U32(32))
}

// signals are those for which the kernel writes core files, on amd64.
var signals = map[uint16]string{
	3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	11: "SIGSEGV", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// Rings are the rings of one runtime in a core.
type Rings struct {
	image   *ring.Image
	root    *ring.Root
	objects []reader.Object
	windows []reader.RecordedWindow
	hooked  []uint64 // addresses of functions without sleds, by ID
	threads []*ring.Thread
	first   uint64 // earliest TSC
	lost    map[string]uint64
	missing error // why something is missing, or nil
}

// collect reads the tables of a runtime and finds its chunks.
func (c *Core) collect(root *ring.Root) (*Rings, error) {
	r := &Rings{image: c.image, root: root, lost: make(map[string]uint64)}
	var err error
	if r.objects, err = c.image.ParseObjects(root); err != nil {
		return nil, err
	}
	if r.hooked, err = c.image.ParseHooked(root); err != nil {
		r.lose(1, "addresses-not-in-core", err)
	}
	if r.windows, err = c.image.ReadWindows(nil, &root.Windows, 0); err != nil {
		r.lose(root.Windows.N, "windows-not-in-core", err)
		r.windows = nil
	}
	seen := make(map[uint64]bool)
	for i := range root.Nthreads {
		pointer, err := c.image.Read("the table of threads", root.Threads+8*i, 8)
		if err != nil {
			return nil, err
		}
		address := binary.LittleEndian.Uint64(pointer)
		if seen[address] {
			continue
		}
		seen[address] = true
		t, err := c.image.ParseThread(address, root.ThreadSize)
		if err != nil {
			r.lose(1, "thread-not-in-core", err)
			continue
		}
		r.threads = append(r.threads, t)
	}
	chunks := 0
	claimed := make(map[uint64]bool)
	for _, t := range r.threads {
		r.findChunks(t, claimed)
		chunks += len(t.Chunks)
	}
	if chunks == 0 && root.Mode == ring.ModeProfile {
		return nil, c.image.Errorf("the recorder was in profile mode, and xray cannot recover profiles from core files")
	}
	if chunks == 0 && root.Mode != ring.ModeCount {
		if r.missing != nil {
			return nil, c.image.Errorf("the rings of %s are not in the core file (%w): the recorder option dontdump=1 excludes them, "+
				"or they are in a ring file (shm=), which you can pass to xray core, or xray record has them and writes the trace", label.Count(uint64(len(r.threads)), "thread", "threads"), r.missing)
		}
		return nil, nil
	}
	r.measureClock()
	return r, nil
}

func (r *Rings) lose(n uint64, cause string, why error) {
	r.lost[cause] += n
	r.missing = cmp.Or(r.missing, why)
}

// findChunks lists the chunks of a thread in the core file. If two rings claim the same memory, one of
// them is damaged.
func (r *Rings) findChunks(t *ring.Thread, claimed map[uint64]bool) {
	n := min(t.Size, t.Taken)
	if n == 0 || t.Free {
		return
	}
	if t.Ring%ring.ChunkSize != 0 || t.Ring > ring.UserSpace || t.Size > ring.UserSpace/ring.ChunkSize {
		r.lost["damaged-thread"]++
		return
	}
	absent := t.Taken + 1 - t.Oldest()
	for place := range r.image.Places(t.Ring, t.Ring+n*ring.ChunkSize) {
		if claimed[place] {
			r.lost["damaged-chunk"]++
			break
		}
		claimed[place] = true
		// The latest chunk at this place has this number.
		index := (place - t.Ring) / ring.ChunkSize
		number := t.Taken - (t.Taken-1-index%t.Size)%t.Size
		if number < t.Oldest() {
			continue
		}
		absent--
		c, torn, err := r.image.ParseChunk(t, number)
		switch {
		case err != nil:
			r.lose(1, "chunk-not-in-core", err)
		case torn:
			r.lost["torn-chunk"]++
		default:
			if _, err := r.image.Find(place + ring.ChunkSize - 1); err != nil {
				r.lose(1, "chunk-not-in-core", err)
			}
			t.Chunks = append(t.Chunks, c)
			if r.first == 0 || c.First < r.first {
				r.first = c.First
			}
		}
	}
	if absent > 0 {
		_, err := r.image.Find(t.Ring)
		r.lose(absent, "chunk-not-in-core", cmp.Or(err, ring.ErrCut))
	}
	slices.SortFunc(t.Chunks, func(a, b ring.ChunkPlace) int { return cmp.Compare(a.Number, b.Number) })
}

// measureClock estimates the frequency if the runtime had not yet measured it. Each chunk begins with a
// reading of both clocks.
func (r *Rings) measureClock() {
	if r.root.Frequency != 0 {
		return
	}
	first := reader.Anchor{TSC: r.root.Start.TSC, Real: r.root.Start.Real}
	last := first
	for _, t := range r.threads {
		for _, c := range t.Chunks {
			if c.First > last.TSC {
				last.TSC, last.Real = c.First, c.Wall
			}
		}
	}
	// The two clocks are read about 100 ns apart.
	if ns := last.Real - first.Real; last.Real > first.Real && ns >= uint64(time.Millisecond) {
		r.root.Frequency = ring.Scale(last.TSC-first.TSC, 1e9, ns)
	}
}

// program returns the path of the program.
func (r *Rings) program() string {
	if len(r.objects) == 0 {
		return ""
	}
	return r.objects[0].Path
}

// setProgram sets the path of the program in the trace, if the file has been moved. Readers of the
// trace compare build IDs.
func (r *Rings) setProgram(path string) {
	if len(r.objects) > 0 {
		r.objects[0].Path = path
	}
}

// WriteTrace writes a trace of the rings' contents. If last is not 0, the trace has only this much time
// before the latest record.
func (r *Rings) WriteTrace(w io.Writer, last time.Duration) error {
	since, err := r.since(last)
	if err != nil {
		return err
	}
	return r.WriteSince(w, since)
}

// since returns the TSC this long before the latest record.
func (r *Rings) since(last time.Duration) (uint64, error) {
	if last == 0 {
		return 0, nil
	}
	if r.root.Frequency == 0 {
		return 0, r.image.Errorf("the recorder had not measured its clock, so xray cannot select the last %v", last)
	}
	latest := uint64(0)
	w := ring.BlockWriter{}
	data := make([]byte, ring.ChunkSize)
	for _, t := range r.threads {
		if n := len(t.Chunks); n > 0 {
			b := r.encode(&w, t, &t.Chunks[n-1], data)
			latest = max(latest, b.Last)
		}
	}
	return latest - min(latest, ring.Scale(uint64(last), r.root.Frequency, 1e9)), nil
}

// encode converts a chunk to a block. data is a buffer for the chunk.
func (r *Rings) encode(w *ring.BlockWriter, t *ring.Thread, c *ring.ChunkPlace, data []byte) *ring.Block {
	return w.Chunk(t, c, r.data(t, c, data))
}

// eachBlock encodes all chunks with records since then. If there are earlier records, a block with the
// calls that are open then comes first.
func (r *Rings) eachBlock(first, since uint64, f func(*ring.Block) error) error {
	w := ring.BlockWriter{First: first, Since: since, Cut: since != 0 && since == first}
	data := make([]byte, ring.ChunkSize)
	for _, t := range r.threads {
		later := slices.IndexFunc(t.Chunks, func(c ring.ChunkPlace) bool { return c.Last == 0 || c.Last >= since })
		if later < 0 {
			continue
		}
		if w.Cut {
			if b := r.cut(t, later, since, data); b != nil {
				if err := f(&ring.Block{Bytes: b, Records: 1}); err != nil {
					return err
				}
			}
		}
		for i := later; i < len(t.Chunks); i++ {
			if err := f(r.encode(&w, t, &t.Chunks[i], data)); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut returns a block that enters the calls of a thread which are open at a TSC. later is the index of its
// first chunk with later records.
func (r *Rings) cut(t *ring.Thread, later int, since uint64, data []byte) []byte {
	window, end := uint64(0), uint64(math.MaxUint64)
	if len(r.windows) > 0 {
		i := slices.IndexFunc(r.windows, func(w reader.RecordedWindow) bool { return w.From <= since && (w.To == 0 || w.To >= since) })
		if i < 0 {
			return nil
		}
		window, end = r.windows[i].From, cmp.Or(r.windows[i].To, end)
	}
	o := &ring.OpenCalls{Window: window}
	i := 0
	for ; i < len(t.Chunks); i++ {
		c := &t.Chunks[i]
		if i > 0 && c.Number != t.Chunks[i-1].Number+1 {
			o.Lose()
		}
		if !o.Follow(c, r.data(t, c, data), window, since) {
			break
		}
	}
	calls, cpu, last := slices.Clone(o.Calls), o.CPU, o.Last
	o.Outer = nil
	for ; i < len(t.Chunks) && o.Follow(&t.Chunks[i], r.data(t, &t.Chunks[i], data), since, end); i++ {
	}
	o.CPU, o.Last = cpu, last
	return o.CutBlock(t, since, calls)
}

// data reads a chunk into a buffer.
func (r *Rings) data(t *ring.Thread, c *ring.ChunkPlace, buffer []byte) []byte {
	data := buffer[:t.End(c)]
	n, _ := r.image.ReadSome(data, c.Address)
	clear(data[n:])
	return data
}

// WriteSince writes a trace of the records from a TSC on.
func (r *Rings) WriteSince(w io.Writer, since uint64) error {
	first := max(r.first, since)
	recording := r.recording()
	lost := map[string]uint64{}
	// The metadata with the losses comes before the first block.
	err := r.eachBlock(first, since, func(b *ring.Block) error {
		lost["interrupted"] += b.Unwritten
		lost["damaged-chunk"] += b.Damaged
		return nil
	})
	if err != nil {
		return err
	}
	for cause, n := range r.lost {
		lost[cause] += n
	}
	recording.Losses = ring.Losses(lost)
	out := tracewrite.AppendRecording(ring.TraceHeader(&recording.Clock), recording, first)
	if _, err := w.Write(out); err != nil {
		return err
	}
	return r.eachBlock(first, since, func(b *ring.Block) error {
		if b.Records == 0 {
			return nil
		}
		_, err := w.Write(b.Bytes)
		return err
	})
}

// recording returns the metadata of the process.
func (r *Rings) recording() *reader.Recording {
	root := r.root
	recording := &reader.Recording{
		Process: reader.Process{
			PID: int32(root.PID), Exe: r.program(), PageSize: 4096,
			Mode: ring.ModeNames[root.Mode], ThresholdNS: root.Nanos(root.Threshold), Depth: root.Depth,
			WindowNS: root.Windows.Length, EveryNS: root.Windows.Every,
			Recorder: "1", Session: root.Session, Complete: true,
		},
		Objects: r.objects, Addresses: r.hooked,
		// The rings have no records of older windows.
		Windows: slices.DeleteFunc(slices.Clone(r.windows), func(w reader.RecordedWindow) bool { return w.To != 0 && w.To < r.first }),
		Clock:   reader.RecordedClock{Frequency: root.Frequency, Invariant: root.Invariant},
	}
	if root.Start.TSC != 0 {
		recording.Clock.Anchors = []reader.Anchor{root.Start}
	}
	if len(r.objects) > 0 {
		recording.Process.BuildID = r.objects[0].BuildID
	}
	r.addProcess(&recording.Process)
	for _, o := range r.objects {
		if o.State == "refused" {
			recording.Refusals = append(recording.Refusals, reader.Refusal{Path: o.Path, Why: o.Why})
		}
	}
	for _, t := range r.threads {
		if len(t.Chunks) > 0 && len(recording.Threads) < ring.MaxRows {
			recording.Threads = append(recording.Threads, t.ThreadInfo)
		}
	}
	if root.Mode == ring.ModeCount {
		recording.Counters = r.counters()
	}
	recording.Budget = reader.Budget{Share: uint64(r.image.BudgetShare(root.Budget)), From: root.Start.TSC}
	recording.Pruned = reader.Pruned{From: root.Start.TSC, Functions: r.pruned()}
	for _, t := range r.threads {
		recording.Pruned.To = max(recording.Pruned.To, t.Last)
	}
	return recording
}

// addProcess adds the kernel's information about a process, with up to 80 bytes of the command line.
func (r *Rings) addProcess(p *reader.Process) {
	b := r.image.Note(elf.NT_PRPSINFO, 136)
	if b == nil {
		return
	}
	f := ring.Fields(b)
	p.UID, p.PPID = f.U32(16), int32(f.U32(28))
	p.Argv = strings.Fields(string(bytes.ToValidUTF8([]byte(f.Text(56, 80)), []byte("?"))))
}

// words calls each with the nonzero words of the n words at an address. Words missing from the core
// count as a loss with this cause.
func (r *Rings) words(address, n uint64, cause string, each func(i, v uint64)) {
	buf := make([]byte, 8<<10)
	for from := uint64(0); from < n; from += uint64(len(buf) / 8) {
		part := buf[:8*min(uint64(len(buf)/8), n-from)]
		if _, err := r.image.ReadSome(part, address+8*from); err != nil {
			r.lose(1, cause, err)
			return
		}
		for i := 0; i < len(part); i += 8 {
			if v := binary.LittleEndian.Uint64(part[i:]); v > 0 {
				each(from+uint64(i/8), v)
			}
		}
	}
}

// counters returns the calls of each function, summed over threads.
func (r *Rings) counters() []reader.Counter {
	sums := make(map[reader.FuncID]uint64)
	seen := make(map[uint64]bool)
	for _, t := range r.threads {
		if t.Counters == 0 || seen[t.Counters] {
			continue
		}
		seen[t.Counters] = true
		r.words(t.Counters, min(t.Ncounter, r.root.MaxFunction+1), "counters-not-in-core", func(id, calls uint64) {
			sums[reader.FuncID(id)] += calls
		})
	}
	var list []reader.Counter
	for id, calls := range sums {
		list = append(list, reader.Counter{Func: id, Calls: calls})
	}
	slices.SortFunc(list, func(a, b reader.Counter) int { return cmp.Compare(a.Func, b.Func) })
	return list
}

// pruned returns the pruned calls of each function, summed over threads.
func (r *Rings) pruned() []reader.PrunedFunction {
	const cause = "pruned-not-in-core"
	sums := make(map[reader.FuncID]*reader.PrunedFunction)
	seen := make(map[uint64]bool)
	for _, t := range r.threads {
		// The first entry of a table links to the previous one.
		for address, n := t.Sums, t.Nsums; address != 0 && !seen[address]; {
			seen[address] = true
			next := [2]uint64{}
			r.words(address, 2*min(n, r.root.MaxFunction+1), cause, func(i, v uint64) {
				id := reader.FuncID(i / 2)
				if id == 0 {
					next[i] = v
					return
				}
				if sums[id] == nil {
					sums[id] = &reader.PrunedFunction{Func: id}
				}
				if i%2 == 0 {
					sums[id].Calls += v
				} else {
					sums[id].Ticks += v
				}
			})
			address, n = next[0], next[1]
		}
	}
	var list []reader.PrunedFunction
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		list = append(list, *sums[id])
	}
	return list
}
