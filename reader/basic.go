package reader

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// A basic log is a sequence of 32-byte records. Threads append theirs whenever
// a buffer of theirs is full, so the records of one thread follow each other in
// long runs; a log that was sorted by time changes threads at every record.
//
// The log is read in chunks. A chunk is split into runs of one thread, which
// takes a look at two words of each record, and the runs are grouped by thread.
// What remains, decoding, can then be done for each thread by itself: by the
// goroutine that the thread belongs to, or, in time order, as its turn comes.

// basicLog is a basic log.
type basicLog struct {
	file      *file
	threads   *threadIndex
	processes map[int32]bool
}

// chunkRecords is how many records are split at a time: 256 KB, which stay in the
// second-level cache until they are decoded.
const chunkRecords = 8 << 10

// chunk is a piece of the file that is being decoded.
type chunk struct {
	buf    []byte // where the records are read to, unless they are in memory
	data   []byte
	offset int64 // of data in the file
	runs   []run
	users  atomic.Int32 // goroutines that still need data
}

// run is a run of records of one thread inside a chunk.
type run struct {
	thread     Thread
	index      int // of the thread
	start, end int // records of the chunk
	// plain is set where all are entries, exits and tail exits.
	plain bool
	// forked is set where the log holds records of another process, up to the
	// end of the chunk.
	forked bool
}

// read fills c with the whole records from offset on; at the end there are none.
func (l *basicLog) read(c *chunk, offset int64) error {
	return c.read(l.file, offset, chunkRecords*basicRecordSize, l.file.in.size)
}

// read fills c with size bytes from start on, or less: whole records only, and
// none behind end.
func (c *chunk) read(f *file, start, size, end int64) error {
	c.offset = start
	size = min(size, end-start)
	if all := f.in.bytes; all != nil {
		c.data = all[start : start+size]
	} else {
		n, err := readFull(f.in, c.buf[:min(int64(len(c.buf)), size)], start)
		if err != nil {
			return &FormatError{f.name, start, err}
		}
		c.data = c.buf[:n]
	}
	c.data = c.data[:len(c.data)-len(c.data)%basicRecordSize]
	if start+int64(len(c.data)) <= end-basicRecordSize {
		c.keepArguments()
	}
	return nil
}

// keepArguments leaves the last function record to the next chunk, where its
// arguments are if it has any.
func (c *chunk) keepArguments() {
	n := len(c.data)
	for range maxArgs {
		n -= basicRecordSize
		if n <= 0 {
			return
		}
		if isFunction(c.data[n:]) {
			c.data = c.data[:n]
			return
		}
	}
}

func (l *basicLog) newChunk() *chunk {
	c := &chunk{}
	if l.file.in.bytes == nil {
		c.buf = make([]byte, min(chunkRecords, l.file.in.size/basicRecordSize)*basicRecordSize)
	}
	return c
}

// splitter finds the runs of a log, chunk by chunk.
type splitter struct {
	log *basicLog
	// The thread of the run before.
	key   uint64
	run   run
	known bool
}

// forked reports whether the log has records of more than one process so far.
// They are of one log, so they are of a process and its children.
func (l *basicLog) forked() bool { return len(l.processes) > 1 }

// split fills c.runs, in the order of the file. A record that names no thread
// (an argument, or garbage) belongs to the run before it.
func (s *splitter) split(c *chunk) {
	c.runs = c.runs[:0]
	o := s.log.file.header.ByteOrder
	little := !isBigEndian(o)
	mask := ^uint64(0)
	if s.log.file.header.Version < 3 {
		mask = 0xffffffff // no process
	}
	start := 0
	// A key of 0 does not tell a record from padding.
	s.run.plain = little && s.key != 0
	n := len(c.data) / basicRecordSize
	for i := range n {
		b := c.data[i*basicRecordSize : (i+1)*basicRecordSize]
		if !isFunction(b) {
			s.run.plain = false
			continue
		}
		var key uint64
		if little {
			key = binary.LittleEndian.Uint64(b[16:]) & mask
		} else {
			key = (uint64(o.Uint32(b[20:]))<<32 | uint64(o.Uint32(b[16:]))) & mask
		}
		if key == s.key && s.known {
			s.run.plain = s.run.plain && b[3] <= byte(TailExit)
			continue
		}
		if isZero(b) {
			s.run.plain = false
			continue // padding
		}
		if i > start && s.known {
			c.runs = append(c.runs, s.cut(start, i))
			start = i
		}
		s.key, s.known = key, true
		// What comes before the first function record of the log is in its run.
		s.run.plain = little && key != 0 && b[3] <= byte(TailExit) && i == start
		s.run.thread = Thread{File: s.log.file.number, Process: int32(key >> 32), Thread: int32(key)}
		s.run.index = s.log.threads.of(s.run.thread)
		s.log.processes[s.run.thread.Process] = true
	}
	if n > start {
		// Records before the first that names a thread are counted as lost when
		// they are decoded, with whatever thread.
		if !s.known {
			s.run.index = s.log.threads.of(s.run.thread)
		}
		c.runs = append(c.runs, s.cut(start, n))
	}
	if s.log.forked() {
		for i := range c.runs {
			c.runs[i].forked = true
		}
	}
}

func (s *splitter) cut(start, end int) run {
	r := s.run
	r.start, r.end = start, end
	return r
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// group sorts the runs by thread, and keeps the order of each thread's runs.
func (c *chunk) group() {
	slices.SortStableFunc(c.runs, func(a, b run) int { return a.index - b.index })
}

// basicDecoder decodes runs of records.
type basicDecoder struct {
	log    *basicLog
	out    Block
	events []Event
	losses Losses
	copies copyFilter
	// argEnd is where the last argument that was attached ends in the file.
	// Behind an orphan there are only orphans, up to the next function record.
	argEnd int64
	packed bool // Block.Packed may be used
}

func (l *basicLog) newDecoder(eventCap int) *basicDecoder {
	return &basicDecoder{log: l, events: make([]Event, eventCap)}
}

// runs decodes runs of one thread and passes them on in blocks.
func (d *basicDecoder) runs(c *chunk, runs []run, fn func(*Block) error) error {
	n := 0
	d.begin(&runs[0], c.offset+int64(runs[0].start)*basicRecordSize)
	for _, r := range runs {
		first, err := d.skipCopies(c, &r)
		if err != nil {
			return err
		}
		if r.plain && d.packed {
			if err := d.flush(n, fn); err != nil {
				return err
			}
			n = 0
			if err := d.pack(c, &r, first, fn); err != nil {
				return err
			}
			d.begin(&r, c.offset+int64(r.end)*basicRecordSize)
			continue
		}
		for i := first; i < r.end; {
			i, n = d.records(c, i, r.end, n)
			if n < len(d.events) && i == r.end {
				break
			}
			if err := d.flush(n, fn); err != nil {
				return err
			}
			n = 0
			d.begin(&r, c.offset+int64(i)*basicRecordSize)
		}
	}
	return d.flush(n, fn)
}

// pack passes on the records of a plain run from first on as they are, in pieces
// that stay in the first-level cache.
func (d *basicDecoder) pack(c *chunk, r *run, first int, fn func(*Block) error) error {
	for i := first; i < r.end; i += blockEvents {
		d.begin(r, c.offset+int64(i)*basicRecordSize)
		d.out.Events = nil
		d.out.Packed.Records = c.data[i*basicRecordSize : min(r.end, i+blockEvents)*basicRecordSize]
		if err := fn(&d.out); err != nil {
			return err
		}
	}
	return nil
}

func (d *basicDecoder) begin(r *run, offset int64) {
	d.out.Thread = r.thread
	d.out.Index = r.index
	d.out.Offset = offset
	d.out.Args = d.out.Args[:0]
	d.out.Packed = Packed{Basic: true}
}

func (d *basicDecoder) flush(n int, fn func(*Block) error) error {
	if n == 0 {
		return nil
	}
	d.out.Events = d.events[:n]
	return fn(&d.out)
}

// records decodes the records of c from i up to end, having n events, and
// returns where it stopped and how many events there are then: at end, or at
// the first record past a full block that is no argument of its last event.
func (d *basicDecoder) records(c *chunk, i, end, n int) (int, int) {
	little := !isBigEndian(d.log.file.header.ByteOrder)
	for ; i < end; i++ {
		b := c.data[i*basicRecordSize : (i+1)*basicRecordSize]
		if n == len(d.events) && isFunction(b) {
			return i, n
		}
		if little && isFunction(b) && b[3] <= byte(EnterArg) {
			ev := Event{
				TSC:  binary.LittleEndian.Uint64(b[8:]),
				Func: FuncID(binary.LittleEndian.Uint32(b[4:])),
				CPU:  uint16(b[2]),
				Kind: Kind(b[3]),
			}
			if ev.TSC != 0 || !isZero(b) {
				d.events[n] = ev
				n++
			}
			continue
		}
		n = d.unusual(c, i, n)
	}
	return i, n
}

// unusual decodes record i of c where it is an argument, of the other byte
// order, or no record.
func (d *basicDecoder) unusual(c *chunk, i, n int) int {
	b := c.data[i*basicRecordSize : (i+1)*basicRecordSize]
	offset := c.offset + int64(i)*basicRecordSize
	if isZero(b) {
		return n
	}
	var r Record
	_, err := ParseRecord(b, &d.log.file.header, &r)
	switch {
	case err != nil:
		d.lose(BadRecord, offset, err.Error())
	case r.Kind == BasicFunction && n < len(d.events):
		d.events[n] = Event{TSC: r.TSC, Func: r.Func, CPU: r.CPU, Kind: r.FuncKind}
		return n + 1
	case (i > 0 && isFunction(c.data[(i-1)*basicRecordSize:]) || d.argEnd == offset) && d.argument(&r, n):
		d.argEnd = offset + basicRecordSize
	default:
		d.lose(OrphanArgument, offset, "")
	}
	return n
}

// isFunction reports whether b starts with a function record, rather than an
// argument. The type is 0 in either byte order.
func isFunction(b []byte) bool { return b[0] == 0 && b[1] == 0 }

func (d *basicDecoder) lose(cause Cause, offset int64, detail string) {
	d.losses.add(Loss{Cause: cause, File: d.log.file.name, Offset: offset, Bytes: basicRecordSize, Records: 1, Detail: detail})
}

// argument adds a logged argument to the latest event, if it belongs to it. An
// argument may follow a plain entry, too.
func (d *basicDecoder) argument(r *Record, n int) bool {
	if n == 0 {
		return false
	}
	ev := &d.events[n-1]
	if !ev.Kind.IsEnter() || ev.Func != r.Func || d.out.Thread.Thread != r.Thread || d.out.Thread.Process != r.Process {
		return false
	}
	args := d.out.Args
	if len(args) >= maxArgs && args[len(args)-maxArgs].Event == n-1 {
		return false
	}
	ev.Side = true
	d.out.Args = append(args, Arg{Event: n - 1, Value: r.Value})
	return true
}

func (l *basicLog) stream(p *pass, order Order, fn func(*Block) error) error {
	d := l.newDecoder(blockEvents)
	defer func() { p.lost(&d.losses) }()
	one := l.newChunk()
	return l.chunks(p, func() *chunk { return one }, func(c *chunk) error {
		for i := range c.runs {
			if err := d.runs(c, c.runs[i:i+1], fn); err != nil {
				return err
			}
		}
		p.decoded(l.file.in, int64(len(c.data)))
		return nil
	})
}

// chunks reads and splits the log. get provides the next chunk to fill.
func (l *basicLog) chunks(p *pass, get func() *chunk, fn func(*chunk) error) error {
	s := splitter{log: l, run: run{thread: Thread{File: l.file.number}}}
	l.processes = make(map[int32]bool)
	offset := int64(headerSize)
	for offset+basicRecordSize <= l.file.in.size {
		c := get()
		if c == nil {
			return nil
		}
		if err := l.read(c, offset); err != nil {
			return err
		}
		if len(c.data) == 0 {
			return nil
		}
		offset += int64(len(c.data))
		s.split(c)
		if err := fn(c); err != nil {
			return err
		}
	}
	if rest := l.file.in.size - offset; rest > 0 {
		var losses Losses
		losses.add(Loss{Cause: TruncatedFile, File: l.file.name, Offset: offset, Bytes: rest, Records: 1})
		p.lost(&losses)
	}
	return nil
}

func (l *basicLog) each(p *pass, n int, fn func(int, *Block) error) error {
	if n == 1 {
		d := l.newDecoder(blockEvents)
		d.packed = p.packed
		defer func() { p.lost(&d.losses) }()
		one := l.newChunk()
		return l.file.in.guard(l.file.name, func() error {
			return l.chunks(p, func() *chunk { return one }, func(c *chunk) error {
				c.group()
				p.decoded(l.file.in, int64(len(c.data)))
				return d.byThread(c, func(int) bool { return true }, func(b *Block) error { return fn(0, b) })
			})
		})
	}
	return l.parallel(p, n, fn)
}

// byThread decodes the grouped runs of the threads that mine accepts.
func (d *basicDecoder) byThread(c *chunk, mine func(index int) bool, fn func(*Block) error) error {
	for i := 0; i < len(c.runs); {
		j := i + 1
		for j < len(c.runs) && c.runs[j].index == c.runs[i].index {
			j++
		}
		if mine(c.runs[i].index) {
			if err := d.runs(c, c.runs[i:j], fn); err != nil {
				return err
			}
		}
		i = j
	}
	return nil
}

// parallel reads and splits on one goroutine and decodes on n, among which the
// threads are dealt out.
func (l *basicLog) parallel(p *pass, n int, fn func(int, *Block) error) error {
	g, ctx := errgroup.WithContext(context.Background())
	free := make(chan *chunk, n+2)
	for range cap(free) {
		free <- l.newChunk()
	}
	work := make([]chan *chunk, n)
	for shard := range work {
		// As many as there are chunks, so that sending never waits.
		work[shard] = make(chan *chunk, cap(free))
		g.Go(func() error {
			d := l.newDecoder(blockEvents)
			d.packed = p.packed
			defer func() { p.lost(&d.losses) }()
			for {
				var c *chunk
				select {
				case c = <-work[shard]:
				case <-ctx.Done():
					return ctx.Err()
				}
				if c == nil {
					return nil
				}
				err := l.file.in.guard(l.file.name, func() error {
					return d.byThread(c, func(index int) bool { return index%n == shard },
						func(b *Block) error { return fn(shard, b) })
				})
				if err != nil {
					return err
				}
				if c.users.Add(-1) == 0 {
					p.decoded(l.file.in, int64(len(c.data)))
					free <- c
				}
			}
		})
	}
	next := func() *chunk {
		select {
		case c := <-free:
			return c
		case <-ctx.Done():
			return nil
		}
	}
	g.Go(func() error {
		err := l.file.in.guard(l.file.name, func() error {
			return l.chunks(p, next, func(c *chunk) error {
				c.group()
				c.users.Store(int32(n))
				for _, w := range work {
					w <- c
				}
				return nil
			})
		})
		for _, w := range work {
			close(w)
		}
		return err
	})
	return g.Wait()
}
