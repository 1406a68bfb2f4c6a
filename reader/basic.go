package reader

import "encoding/binary"

// A basic log is a sequence of 32-byte records. A thread appends its records whenever its
// buffer is full, so the records of one thread form long runs. A log that was sorted by
// time changes threads at every record.
//
// The log is read in chunks. A chunk is split into runs of one thread by two words of each
// record, and the runs are grouped by thread. The rest, decoding, can then be done for each
// thread separately: by the goroutine that has the thread, or, in time order, when its turn
// comes.

// basicLog is a basic log.
type basicLog struct {
	file    *file
	threads *threadIndex
}

// chunkRecords is how many records are split at a time: 256 KB, which stay in the
// second-level cache until they are decoded.
const chunkRecords = 8 << 10

// chunk is a piece of the file that is being decoded.
type chunk struct {
	buf    []byte // buffer for the records, unless they are in memory
	data   []byte
	offset int64 // of data in the file
	runs   []run
	groups []int // the first run of each thread, after grouping
	users  int   // goroutines that still need the chunk
}

// read fills c with up to size bytes from start on: only whole records, and none after end.
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

// keepArguments moves the last function record to the next chunk, which has its arguments,
// if any.
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

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// basicDecoder decodes runs of records.
type basicDecoder struct {
	log    *basicLog
	out    Block
	events []Event
	losses Losses
	copies copyFilter
	// argEnd is the end in the file of the last argument that was attached. After an
	// orphan, all arguments up to the next function record are orphans.
	argEnd int64
	packed bool // Block.Packed may be used
}

func (l *basicLog) newDecoder(eventCap int) *basicDecoder {
	return &basicDecoder{log: l, events: make([]Event, eventCap)}
}

// runs decodes the run at first and those grouped with it, and passes them on in blocks.
func (d *basicDecoder) runs(c *chunk, first int, fn func(*Block) error) error {
	r := &c.runs[first]
	d.begin(r, c.offset+int64(r.start)*basicRecordSize)
	for n := 0; ; r = &c.runs[r.next] {
		i, err := d.skipCopies(c, r)
		if err != nil {
			return err
		}
		if d.packed && r.plain && r.end-i >= minPacked {
			if err := d.flush(n, fn); err != nil {
				return err
			}
			if err := d.pack(c, r, i, fn); err != nil {
				return err
			}
			n, i = 0, r.end
			d.begin(r, c.offset+int64(i)*basicRecordSize)
		}
		for i < r.end {
			if i, n = d.records(c, i, r.end, n); n < len(d.events) && i == r.end {
				break
			}
			if err := d.flush(n, fn); err != nil {
				return err
			}
			n = 0
			d.begin(r, c.offset+int64(i)*basicRecordSize)
		}
		if r.next == 0 {
			return d.flush(n, fn)
		}
	}
}

// pack passes on the records of a plain run, from first on, without decoding, in pieces
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
	d.out.Thread = r.of.id
	d.out.Index = r.of.index
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

// records decodes the records of c from i to end, starting with n events. It returns where
// it stopped, and the number of events: at end, or at the first record after a full block
// that is not an argument of its last event.
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

// unusual decodes record i of c if it is an argument, has the other byte order, or is not a
// record.
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
	c, s := l.newChunk(), l.newSplitter(p)
	for {
		if ok, err := s.next(c); !ok {
			return err
		}
		for i := range c.runs {
			if err := d.runs(c, i, fn); err != nil {
				return err
			}
		}
		p.decoded(l.file.in, c.offset, c.offset+int64(len(c.data)))
	}
}
