package reader

import "encoding/binary"

// basicLane describes where the records of one thread are in a basic log.
type basicLane struct {
	log      *basicLog
	thread   *basicThread
	segments []segment
	begins   bool   // start is known
	start    uint64 // TSC of the first event
}

// segment is a piece of the file that has records of a lane.
type segment struct {
	start, end int64
	mixed      bool // contains records of other threads too
	forked     bool // as of run
}

// maxSegmentRuns is the maximum number of runs of a thread in a chunk that are indexed
// individually. More are read together with what is between them. This keeps the index
// small for logs that change threads at every record.
const maxSegmentRuns = 8

// lanes reads the whole log once. The lanes can be decoded once.
func (l *basicLog) lanes(p *pass) ([]lane, error) {
	byIndex := make(map[int]*basicLane)
	var all []lane
	c, s := l.newChunk(), l.newSplitter(p)
	for {
		if ok, err := s.next(c); !ok {
			return all, err
		}
		l.file.in.use(c.offset, c.offset+int64(len(c.data)))
		c.group()
		for _, first := range c.groups {
			th := c.runs[first].of
			ln := byIndex[th.index]
			if ln == nil {
				ln = &basicLane{log: l, thread: th}
				ln.begin(c, &c.runs[first])
				byIndex[th.index] = ln
				all = append(all, ln)
			}
			ln.add(c, first)
		}
	}
}

// begin records when the lane begins, unless its first record is unusual.
func (l *basicLane) begin(c *chunk, r *run) {
	b := c.data[r.start*basicRecordSize : (r.start+1)*basicRecordSize]
	if !r.forked && !isBigEndian(l.log.file.header.ByteOrder) && isFunction(b) && b[3] <= byte(EnterArg) && !isZero(b) {
		l.begins, l.start = true, binary.LittleEndian.Uint64(b[8:])
	}
}

func (l *basicLane) first() (tsc uint64, at place, ok bool) {
	return l.start, place{file: l.thread.id.File, inFile: l.segments[0].start}, l.begins
}

// add records the positions of the runs that are grouped with the one at first.
func (l *basicLane) add(c *chunk, first int) {
	offset := func(record int) int64 { return c.offset + int64(record)*basicRecordSize }
	have := len(l.segments)
	r := &c.runs[first]
	for ; ; r = &c.runs[r.next] {
		l.segments = append(l.segments, segment{offset(r.start), offset(r.end), false, r.forked})
		if r.next == 0 {
			break
		}
	}
	if len(l.segments)-have > maxSegmentRuns {
		l.segments = append(l.segments[:have], segment{offset(c.runs[first].start), offset(r.end), true, r.forked})
	}
}

func (l *basicLane) decoder(p *pass, eventCap int) laneDecoder {
	ld := &basicLaneDecoder{
		pass: p, lane: l, segments: l.segments, d: l.log.newDecoder(eventCap),
		// An entry with its arguments must fit, plus one record.
		size: int64(eventCap+maxArgs+2) * basicRecordSize,
	}
	ld.d.copies.base = l.thread.index
	if l.log.file.in.bytes == nil {
		ld.c.buf = make([]byte, ld.size)
	}
	return ld
}

// basicLaneDecoder decodes the records of one thread.
type basicLaneDecoder struct {
	pass     *pass
	lane     *basicLane
	segments []segment
	d        *basicDecoder
	c        chunk
	size     int64     // bytes to load at a time
	s        *splitter // nil until there is a mixed segment
	queue    []run     // runs of c that are not yet decoded
}

func (ld *basicLaneDecoder) close() { ld.pass.lost(&ld.d.losses) }

func (ld *basicLaneDecoder) next() (*Block, error) {
	for {
		for len(ld.queue) > 0 {
			r := &ld.queue[0]
			ld.d.begin(r, ld.c.offset+int64(r.start)*basicRecordSize)
			i, n := ld.d.records(&ld.c, r.start, r.end, 0)
			if r.start = i; r.start == r.end {
				ld.queue = ld.queue[1:]
			}
			if n > 0 {
				ld.d.out.Events = ld.d.events[:n]
				ld.d.out.place = ld.d.out.Offset
				return &ld.d.out, nil
			}
		}
		if len(ld.segments) == 0 {
			return nil, nil
		}
		if err := ld.load(); err != nil {
			return nil, err
		}
	}
}

// load reads the next piece of a segment.
func (ld *basicLaneDecoder) load() error {
	seg := &ld.segments[0]
	in := ld.lane.log.file.in
	if err := ld.c.read(ld.lane.log.file, seg.start, ld.size, seg.end); err != nil {
		return err
	}
	n := int64(len(ld.c.data))
	seg.start += n
	in.use(seg.start-n, seg.start)
	if n == 0 || seg.start >= seg.end {
		ld.segments = ld.segments[1:]
	}
	ld.queue = ld.queue[:0]
	whole := run{of: ld.lane.thread, end: len(ld.c.data) / basicRecordSize, forked: seg.forked}
	if !seg.mixed {
		return ld.enqueue(whole)
	}
	if ld.s == nil {
		ld.s = ld.lane.log.newSplitter(ld.pass)
	}
	ld.s.split(&ld.c)
	for _, r := range ld.c.runs {
		if r.of.index == ld.lane.thread.index {
			r.forked = seg.forked
			if err := ld.enqueue(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ld *basicLaneDecoder) enqueue(r run) (err error) {
	if r.start, err = ld.d.skipCopies(&ld.c, &r); err == nil && r.start < r.end {
		ld.queue = append(ld.queue, r)
	}
	return err
}
