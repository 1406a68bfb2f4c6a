package reader

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
)

// maxPayloadBytes ends a block early if its payloads are large.
const maxPayloadBytes = 1 << 20

// maxArgs limits the arguments of one event. LLVM's recorders log one.
const maxArgs = 64

func (l *fdrLane) decoder(p *pass, eventCap int) laneDecoder {
	return l.newDecoder(p, eventCap, l.blocks)
}

// first reads the start of the first block.
func (l *fdrLane) first() (tsc uint64, at place, ok bool) {
	if len(l.blocks) == 0 {
		return 0, at, false
	}
	block := &l.blocks[0]
	w := window{in: l.log.file.in}
	b, err := w.at(block.start, maxHead+metadataSize+checksumRecord+functionSize)
	if err != nil {
		return 0, at, false // the decoder reports it
	}
	b = b[:max(0, min(int64(len(b)), min(block.end, block.declared)-block.start))]
	for clock := false; ; {
		var r Record
		n, err := ParseRecord(b, &l.log.file.header, &r)
		_, checksum := isChecksum(&r)
		switch {
		case err != nil:
			return 0, at, false
		case clock && checksum:
		case r.Kind == NewCPUID:
			tsc, clock = r.TSC, true
		case r.Kind == Function && clock && (r.Func != 0 || r.FuncKind != Enter || r.Delta != 0):
			return tsc + uint64(r.Delta), place{file: l.thread.File}, true
		case clock || r.Kind != NewBuffer && r.Kind != WallClock && r.Kind != PID:
			return 0, at, false
		}
		b = b[n:]
	}
}

func (l *fdrLane) newDecoder(p *pass, eventCap int, blocks []fdrBlock) *fdrDecoder {
	d := &fdrDecoder{pass: p, file: l.log.file, blocks: blocks, final: true}
	if r := l.log.file.recording; r != nil && r.Windowed() {
		d.windows = newWindowCutter(r)
	}
	d.out.Thread = l.thread
	d.out.Index = int(l.index)
	eventCap = int(min(int64(eventCap), l.size(int64(eventCap)*functionSize)/functionSize+1))
	d.events = make([]Event, eventCap)
	if l.log.file.in.bytes == nil {
		// Room for the function records of a full block of events.
		d.source = l.log.file.in
		d.buf = make([]byte, max(2*eventCap*functionSize, 4*metadataSize))
	}
	return d
}

func (l *fdrLog) lanes(*pass) ([]lane, error) {
	lanes := make([]lane, len(l.order))
	for i, lane := range l.order {
		lanes[i] = lane
	}
	return lanes, nil
}

// each distributes the threads, and each goroutine decodes its blocks in file order, which
// disks and caches prefer.
func (l *fdrLog) each(p *pass, n int, fn func(int, *Block) error) error {
	shards := distribute(l.order, n)
	return parallel(len(shards), func(ctx context.Context, shard int) error {
		return l.file.in.guard(l.file.name, func() error {
			return drainFDR(ctx, p, shards[shard], func(b *Block) error { return fn(shard, b) })
		})
	})
}

// distribute divides lanes among shards so that all have about as many bytes.
func distribute(lanes []*fdrLane, n int) [][]*fdrLane {
	n = max(1, min(n, len(lanes)))
	shards := make([][]*fdrLane, n)
	if n == 1 {
		shards[0] = lanes
		return shards
	}
	type sized struct {
		*fdrLane
		size int64
	}
	sorted := make([]sized, len(lanes))
	for i, l := range lanes {
		sorted[i] = sized{l, l.size(math.MaxInt64)}
	}
	slices.SortStableFunc(sorted, func(a, b sized) int { return cmp.Compare(b.size, a.size) })
	load := make([]int64, n)
	for _, l := range sorted {
		least := 0
		for i := range load {
			if load[i] < load[least] {
				least = i
			}
		}
		shards[least] = append(shards[least], l.fdrLane)
		load[least] += l.size
	}
	return shards
}

// drainFDR decodes all blocks of some lanes. The next block is always the one that is first
// in the file.
func drainFDR(ctx context.Context, p *pass, lanes []*fdrLane, fn func(*Block) error) error {
	// Only lanes that have begun are in the queue. There may be a million short-lived threads, one
	// after the other.
	waiting := slices.DeleteFunc(slices.Clone(lanes), func(l *fdrLane) bool { return len(l.blocks) == 0 })
	if len(waiting) == 0 {
		return nil
	}
	slices.SortFunc(waiting, func(a, b *fdrLane) int { return cmp.Compare(a.blocks[0].start, b.blocks[0].start) })
	longest, size := waiting[0], int64(0)
	for _, l := range waiting {
		if n := l.size(blockEvents * functionSize); n > size {
			longest, size = l, n
		}
	}
	d := longest.newDecoder(p, blockEvents, nil)
	defer d.close()
	if f := longest.log.file.in.file; f != nil {
		// There are few decoders, so reading costs no more memory than mapping. Releasing mapped pages
		// interrupts the other processors.
		d.source, d.buf = f, make([]byte, max(4*metadataSize, min(size, readAhead)))
	}
	var q laneQueue
	for len(waiting)+len(q) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(q) == 0 || len(waiting) > 0 && waiting[0].blocks[0].start < q[0].start() {
			heap.Push(&q, laneState{lane: waiting[0]})
			waiting = waiting[1:]
		}
		s := &q[0]
		d.out.Thread, d.out.Index, d.lastFunc = s.lane.thread, int(s.lane.index), s.lastFunc
		d.blocks = s.lane.blocks[s.next : s.next+1]
		d.final = s.next+1 == len(s.lane.blocks)
		if d.windows != nil {
			d.windows.windowing = s.windowing
		}
		if err := pump(d, fn); err != nil {
			return err
		}
		s.lastFunc = d.lastFunc
		if d.windows != nil {
			s.windowing = d.windows.windowing
		}
		if s.next++; s.next == len(s.lane.blocks) {
			heap.Pop(&q)
			if p.packed {
				if err := fn(&Block{Thread: d.out.Thread, Index: d.out.Index, Offset: -1, Ended: true}); err != nil {
					return err
				}
			}
		} else {
			heap.Fix(&q, 0)
		}
	}
	return nil
}

// readAhead is how many bytes of a block are read at a time.
const readAhead = 64 << 10

// laneState says how far a lane has been decoded.
type laneState struct {
	lane     *fdrLane
	next     int // of lane.blocks
	lastFunc FuncID
	windowing
}

// laneQueue is a heap of lanes by the offset of their next block.
type laneQueue []laneState

func (q laneQueue) Len() int           { return len(q) }
func (q laneQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q laneQueue) Less(i, j int) bool { return q[i].start() < q[j].start() }
func (q *laneQueue) Push(x any)        { *q = append(*q, x.(laneState)) }
func (q *laneQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
func (s *laneState) start() int64 { return s.lane.blocks[s.next].start }

func (l *fdrLog) stream(p *pass, order Order, fn func(*Block) error) error {
	if order == ThreadOrder {
		for _, lane := range l.order {
			if err := drain(context.Background(), p, lane, fn); err != nil {
				return err
			}
		}
		return nil
	}
	type laneBlock struct {
		lane  *fdrLane
		block fdrBlock
	}
	var all []laneBlock
	for _, lane := range l.order {
		for _, b := range lane.blocks {
			all = append(all, laneBlock{lane, b})
		}
	}
	slices.SortFunc(all, func(a, b laneBlock) int { return int(a.block.start - b.block.start) })
	states := make(map[*fdrLane]laneState)
	for _, lb := range all {
		d := lb.lane.newDecoder(p, blockEvents, []fdrBlock{lb.block})
		s := states[lb.lane]
		s.next++
		d.lastFunc, d.final = s.lastFunc, s.next == len(lb.lane.blocks)
		if d.windows != nil {
			d.windows.windowing = s.windowing
		}
		if err := pump(d, fn); err != nil {
			return err
		}
		s.lastFunc = d.lastFunc
		if d.windows != nil {
			s.windowing = d.windows.windowing
		}
		states[lb.lane] = s
		d.close()
	}
	return nil
}

// fdrDecoder decodes the blocks of one thread.
type fdrDecoder struct {
	pass   *pass
	file   *file
	blocks []fdrBlock // still to be decoded
	out    Block
	events []Event // out.Events is a slice of it
	losses *Losses // nil if there are none
	// payloads holds the payloads of out. If it is full, a new one replaces it, so that
	// slices of it stay valid.
	payloads     []byte
	payloadBytes int

	// The current block: the bytes buf[rpos:wpos] are at offset pos of the file. Those up
	// to block.end are not yet read.
	done       int64       // bytes not yet in trace.done
	source     io.ReaderAt // buf is read from it; nil if buf is a part of the mapping
	block      fdrBlock
	inBlock    bool
	first      int // index in out of the first event of this block
	buf        []byte
	rpos, wpos int
	pos        int64

	tsc      uint64
	clock    bool // tsc is known
	cpu      uint16
	lastFunc FuncID
	noClock  Loss // records of this block before its clock
	sum      blockSum
	head     [maxBefore]byte // of sum

	windows *windowCutter // nil without windows
	final   bool          // the thread has no other blocks
}

// countedAtOnce is how many bytes a decoder decodes before it counts them for all.
const countedAtOnce = 1 << 20

func (d *fdrDecoder) countDone() {
	d.pass.trace.done.Add(d.done)
	d.done = 0
}

func (d *fdrDecoder) close() {
	d.countDone()
	if d.windows != nil {
		d.pass.trace.outside.Add(d.windows.outside)
	}
	if d.losses != nil {
		d.pass.lost(d.losses)
	}
}

func (d *fdrDecoder) lose(l Loss) {
	if d.losses == nil {
		d.losses = new(Losses)
	}
	d.losses.add(l)
}

// next returns the next block.
func (d *fdrDecoder) next() (*Block, error) {
	w := d.windows
	if w == nil {
		return d.decode()
	}
	for {
		if b := w.next(); b != nil {
			return b, nil
		}
		b, err := d.decode()
		if err != nil {
			return nil, err
		}
		if b == nil {
			if d.final {
				w.rest.Thread, w.rest.Index, w.rest.Offset = d.out.Thread, d.out.Index, d.pos
				return w.end(), nil
			}
			return nil, nil
		}
		w.rest = *b
	}
}

// decode decodes up to len(d.events) events.
func (d *fdrDecoder) decode() (*Block, error) {
	b := &d.out
	b.Args = b.Args[:0]
	b.Payloads = b.Payloads[:0]
	b.Packed = Packed{}
	d.payloads = d.payloads[:0]
	d.payloadBytes = 0
	d.first = 0
	n := 0
	for n < len(d.events) && d.payloadBytes < maxPayloadBytes {
		if !d.inBlock {
			if len(d.blocks) == 0 {
				break
			}
			d.begin()
			d.first = n
		}
		if n == 0 {
			b.Offset = d.pos
		}
		if d.wpos-d.rpos < functionSize {
			if err := d.fill(functionSize); err != nil {
				return nil, err
			}
		}
		if d.clock && !isBigEndian(d.file.header.ByteOrder) {
			if d.pass.packed && d.file.shifts == nil {
				run, tsc := d.packedRun()
				if run > 0 && n == 0 {
					d.pack(run, tsc)
					return b, nil
				}
				if run > 0 {
					break // the decoded events come first
				}
			}
			n += d.functions(d.events[n:])
			if n == len(d.events) {
				break
			}
		}
		var err error
		if n, err = d.record(n); err != nil {
			return nil, err
		}
	}
	// Include the arguments of the last event.
	for n > 0 && d.inBlock && d.events[n-1].Kind.IsEnter() {
		if err := d.fill(metadataSize); err != nil {
			return nil, err
		}
		if d.wpos == d.rpos || d.buf[d.rpos] != MetadataByte(CallArgument, d.file.header.ByteOrder) {
			break
		}
		if _, err := d.record(n); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, nil
	}
	b.Events = d.events[:n]
	if d.file.shifts != nil {
		d.file.shifts.events(b.Events)
	}
	return b, nil
}

func (d *fdrDecoder) begin() {
	d.block, d.blocks = d.blocks[0], d.blocks[1:]
	d.inBlock = true
	d.pos = d.block.start
	d.rpos, d.wpos = 0, 0
	if d.source == nil {
		d.buf = d.file.in.bytes[d.block.start:d.block.end]
		d.wpos = len(d.buf)
	}
	d.clock = false
	d.noClock = Loss{Cause: NoClock, File: d.file.name}
	d.sum = blockSum{}
}

func (d *fdrDecoder) endBlock() {
	if d.noClock.Records > 0 {
		d.lose(d.noClock)
	}
	if d.file.checksums && !d.sum.seen {
		d.compared(errNoSum)
	}
	d.inBlock = false
	d.done += d.block.end - d.block.start
	if d.done >= countedAtOnce {
		d.countDone()
	}
	if d.source == nil {
		d.file.in.use(d.block.start, d.block.end)
	}
}

const (
	// minPacked is the shortest run of records for which a separate block pays off.
	minPacked = 16
	// maxPacked is the longest: 32 KB, which stay in the first-level cache.
	maxPacked = 4096
)

// packedRun returns the number of records from here on that can be passed on as they are,
// and the TSC of the last of them, or 0 if they are too few. It excludes entries that may
// have arguments, and the last record before something else, which may be an argument of
// it.
func (d *fdrDecoder) packedRun() (n int, tsc uint64) {
	b := d.plain()
	b = b[:min(len(b), (maxPacked+1)*functionSize)]
	last := d.tsc
	for len(b) >= 4*functionSize {
		w0 := binary.LittleEndian.Uint64(b)
		w1 := binary.LittleEndian.Uint64(b[8:])
		w2 := binary.LittleEndian.Uint64(b[16:])
		w3 := binary.LittleEndian.Uint64(b[24:])
		// For all four records at once: metadata or an unknown kind, entries with
		// arguments, and zeros. The last test also finds large deltas, which the careful
		// loop then accepts.
		bad := (w0|w1|w2|w3)&9 | (w0&(w0>>1)|w1&(w1>>1)|w2&(w2>>1)|w3&(w3>>1))&2 |
			((w0-1)|(w1-1)|(w2-1)|(w3-1))>>63
		if bad != 0 {
			break
		}
		tsc = last + w0>>32 + w1>>32 + w2>>32
		last = tsc + w3>>32
		n += 4
		b = b[4*functionSize:]
	}
	for len(b) >= functionSize {
		w := binary.LittleEndian.Uint64(b)
		if w&9 != 0 || w&6 == 6 || w == 0 {
			break
		}
		tsc = last
		last += w >> 32
		n++
		b = b[functionSize:]
	}
	if n <= minPacked {
		return 0, 0
	}
	return n - 1, tsc
}

// plain returns the bytes that may be decoded as function records without further checks:
// the contents of the buffer, up to the size that the block declares.
func (d *fdrDecoder) plain() []byte {
	b := d.buf[d.rpos:d.wpos]
	if left := d.block.declared - d.pos; left >= 0 && left < int64(len(b)) {
		b = b[:left]
	}
	return b
}

// pack makes a block of the next n records, the last of which is at tsc.
func (d *fdrDecoder) pack(n int, tsc uint64) {
	records := d.buf[d.rpos : d.rpos+n*functionSize]
	d.out.Events = nil
	d.out.Packed = Packed{Records: records, TSC: d.tsc, Last: tsc, CPU: d.cpu}
	d.tsc = tsc
	d.lastFunc = FuncID(binary.LittleEndian.Uint32(records[len(records)-functionSize:]) >> 4)
	d.advance(len(records))
}

// functions decodes function records until there is something else, and returns their
// number. This is the hot loop for FDR logs.
func (d *fdrDecoder) functions(events []Event) int {
	b := d.plain()
	tsc, cpu := d.tsc, d.cpu
	n := min(len(b)/functionSize, len(events))
	events = events[:n]
	i := 0
	for ; i < n; i++ {
		w := binary.LittleEndian.Uint64(b[8*i:])
		// Bit 0 marks metadata, and only kinds up to 3 are valid. Zeros are padding:
		// function IDs start at 1.
		if w&9 != 0 || w == 0 {
			break
		}
		tsc += w >> 32
		events[i] = Event{TSC: tsc, Func: FuncID(uint32(w) >> 4), CPU: cpu, Kind: Kind(w >> 1 & 3)}
	}
	if i > 0 {
		d.tsc = tsc
		d.lastFunc = events[i-1].Func
		d.advance(i * functionSize)
	}
	return i
}

func (d *fdrDecoder) advance(n int) {
	d.rpos += n
	d.pos += int64(n)
}

// fill makes at least n bytes available, or fewer if the block ends.
func (d *fdrDecoder) fill(n int) error {
	if d.wpos-d.rpos >= n {
		return nil
	}
	left := d.block.end - d.pos - int64(d.wpos-d.rpos)
	if left == 0 {
		return nil
	}
	d.wpos = copy(d.buf, d.buf[d.rpos:d.wpos])
	d.rpos = 0
	if n > len(d.buf) {
		// A payload larger than the buffer. It lies within the file, which limits the
		// allocation.
		d.buf = slices.Grow(d.buf[:d.wpos], int(min(int64(n-d.wpos), left)))
		d.buf = d.buf[:cap(d.buf)]
	}
	want := int(min(int64(len(d.buf)-d.wpos), left))
	got, err := readFull(d.source, d.buf[d.wpos:d.wpos+want], d.pos+int64(d.wpos))
	if err == nil && got < want {
		err = errShrinks
	}
	if err != nil {
		return &FormatError{d.file.name, d.pos, err}
	}
	d.compared(d.sum.add(d.buf[d.wpos : d.wpos+got]))
	d.wpos += got
	return nil
}

// record decodes one record of any kind, starting with n events, and returns the number of
// events after it.
func (d *fdrDecoder) record(n int) (int, error) {
	h := &d.file.header
	if d.pos == d.block.declared && d.block.declared < d.block.end {
		// The block ends properly where it says. What follows is not a block.
		return n, d.dropUnlessZero(Loss{Cause: BadBlock})
	}
	if err := d.fill(metadataSize); err != nil {
		return n, err
	}
	if d.rpos == d.wpos {
		d.endBlock()
		return n, nil
	}
	var r Record
	size, err := ParseRecord(d.buf[d.rpos:d.wpos], h, &r)
	if err != nil {
		if short := (*ShortRecordError)(nil); errors.As(err, &short) && int64(short.Need) <= d.block.end-d.pos {
			if err := d.fill(short.Need); err != nil {
				return n, err
			}
			size, err = ParseRecord(d.buf[d.rpos:d.wpos], h, &r)
		}
		if err != nil {
			return n, d.bad(err)
		}
	}
	if body, ok := isChecksum(&r); ok {
		return n, d.checksum(body, size)
	}
	if _, edge := ParseEdge(r.Data); edge && r.Kind == CustomEvent && d.windows != nil {
		d.tsc += uint64(r.Delta)
		d.advance(size)
		return n, nil // the pass adds it where it belongs
	}
	ev := Event{CPU: d.cpu}
	switch r.Kind {
	case Function:
		ev.Func, ev.Kind = r.Func, r.FuncKind
		if ev.Func == 0 && ev.Kind == Enter && r.Delta == 0 {
			return n, d.bad(errors.New("zeros"))
		}
		d.tsc += uint64(r.Delta)
		d.lastFunc = r.Func
		ev.TSC = d.tsc
	case NewCPUID:
		d.cpu, d.tsc, d.clock = r.CPU, r.TSC, true
	case TSCWrap:
		d.tsc, d.clock = r.TSC, true
	case CallArgument:
		d.argument(n, r.Value)
	case CustomEvent, TypedEvent:
		ev.Kind, ev.Func, ev.Side = Custom, d.lastFunc, true
		if r.Kind == TypedEvent {
			ev.Kind = Typed
		}
		if r.Kind == CustomEvent && h.Version < 5 {
			ev.TSC = r.TSC
			if h.Version == 4 {
				ev.CPU = r.CPU
			}
		} else {
			d.tsc += uint64(r.Delta)
			ev.TSC = d.tsc
		}
	case EndOfBuffer:
		if h.Version >= 2 {
			return n, d.bad(errors.New("EndOfBuffer record, which only version 1 has"))
		}
		// Garbage follows up to the end of the buffer.
		d.endBlock()
		return n, nil
	case BufferExtents, NewBuffer, WallClock, PID:
		// The index has read them. Here only their position before the clock counts.
		if d.clock {
			return n, d.bad(errors.New(r.Kind.String() + " record inside a block"))
		}
	}
	if r.Kind == Function || r.Kind == CustomEvent || r.Kind == TypedEvent {
		if !d.clock && !(r.Kind == CustomEvent && h.Version < 5) {
			if d.noClock.Records == 0 {
				d.noClock.Offset = d.pos
			}
			d.noClock.Records++
			d.noClock.Bytes += int64(size)
		} else {
			d.events[n] = ev
			if ev.Side {
				d.out.Payloads = append(d.out.Payloads, Payload{Event: n, Type: r.Type, Data: d.keep(r.Data)})
			}
			n++
		}
	}
	d.advance(size)
	return n, nil
}

// keep copies a payload, because the buffer changes before the block is passed on.
func (d *fdrDecoder) keep(data []byte) []byte {
	d.payloadBytes += len(data)
	if cap(d.payloads)-len(d.payloads) < len(data) {
		d.payloads = make([]byte, 0, max(4096, 2*cap(d.payloads), len(data)))
	}
	n := len(d.payloads)
	d.payloads = append(d.payloads, data...)
	return d.payloads[n:len(d.payloads):len(d.payloads)]
}

// argument adds a logged argument to the latest event.
func (d *fdrDecoder) argument(n int, value uint64) {
	if n == d.first || !d.events[n-1].Kind.IsEnter() || d.sameEventArgs(n-1) >= maxArgs {
		d.lose(Loss{Cause: OrphanArgument, File: d.file.name, Offset: d.pos, Bytes: metadataSize, Records: 1})
		return
	}
	ev := &d.events[n-1]
	ev.Kind, ev.Side = EnterArg, true
	d.out.Args = append(d.out.Args, Arg{Event: n - 1, Value: value})
}

func (d *fdrDecoder) sameEventArgs(event int) int {
	n := 0
	for i := len(d.out.Args) - 1; i >= 0 && d.out.Args[i].Event == event; i-- {
		n++
	}
	return n
}

// bad skips the rest of the block. Records have different lengths, so it is unknown where
// the next one starts.
func (d *fdrDecoder) bad(err error) error {
	left := d.block.end - d.pos
	var short *ShortRecordError
	switch cut := errors.As(err, &short) && int64(short.Need) > left; {
	case cut && d.block.declared > d.block.end && d.block.end == d.file.in.size:
		d.endBlock() // the index has counted what is missing at the end of the file
	case cut && d.block.end == d.file.in.size && d.file.header.Version < 2:
		d.drop(Loss{Cause: TruncatedFile, Records: 1, Detail: err.Error()})
	case cut:
		d.drop(Loss{Cause: ShortBlock, Records: 1, Detail: err.Error()})
	default:
		return d.dropUnlessZero(Loss{Cause: BadRecord, Records: 1, Detail: err.Error()})
	}
	return nil
}

func (d *fdrDecoder) drop(l Loss) {
	l.File, l.Offset, l.Bytes = d.file.name, d.pos, d.block.end-d.pos
	d.lose(l)
	d.endBlock()
}

// dropUnlessZero skips the rest of the block. Zeros are not a loss: recorders that write
// whole buffers leave them after the last record.
func (d *fdrDecoder) dropUnlessZero(l Loss) error {
	zero, err := d.restIsZero()
	if err != nil {
		return err
	}
	if zero {
		d.endBlock()
	} else {
		d.drop(l)
	}
	return nil
}

// restIsZero moves to the first byte of the block that is not zero.
func (d *fdrDecoder) restIsZero() (bool, error) {
	for d.pos < d.block.end {
		if err := d.fill(1); err != nil {
			return false, err
		}
		if d.wpos == d.rpos {
			break
		}
		for i, c := range d.buf[d.rpos:d.wpos] {
			if c != 0 {
				d.advance(i)
				return false, nil
			}
		}
		d.advance(d.wpos - d.rpos)
	}
	return true, nil
}
