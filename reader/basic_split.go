package reader

import (
	"cmp"
	"encoding/binary"
	"math/bits"
)

// basicThread is a thread of a basic log.
type basicThread struct {
	id    Thread
	index int
	chunk int64 // offset of the chunk with the last grouped run of the thread
	last  int   // that run
}

// run is a run of records of one thread inside a chunk.
type run struct {
	of         *basicThread
	start, end int // records of the chunk
	next       int // the next run of the thread, after grouping; 0 for none
	// plain says that all records are entries, exits and tail exits.
	plain bool
	// forked says that the log has records of another process, up to the end of the chunk.
	forked bool
}

// splitter finds the runs of a log, chunk by chunk.
type splitter struct {
	log     *basicLog
	pass    *pass
	offset  int64 // of the next chunk
	threads map[uint64]*basicThread
	// forked says that the log has records of more than one process so far. As they share a
	// log, they are a process and its children.
	forked  bool
	process int32 // of the first thread
	little  bool
	mask    uint64 // of the key
	// Of the current run:
	key   uint64 // identifies the thread in records
	known bool   // a record has identified the thread
	run   run
	err   error // there are too many threads
}

func (l *basicLog) newSplitter(p *pass) *splitter {
	s := &splitter{
		log: l, pass: p, offset: headerSize, threads: make(map[uint64]*basicThread),
		little: !isBigEndian(l.file.header.ByteOrder), mask: ^uint64(0),
	}
	if l.file.header.Version < 3 {
		s.mask = 0xffffffff // no process
	}
	return s
}

// next reads and splits the next chunk. It returns false at the end of the log.
func (s *splitter) next(c *chunk) (bool, error) {
	in := s.log.file.in
	if s.offset+basicRecordSize <= in.size {
		if err := c.read(s.log.file, s.offset, chunkRecords*basicRecordSize, in.size); err != nil {
			return false, err
		}
		if n := int64(len(c.data)); n > 0 {
			s.offset += n
			s.split(c)
			return s.err == nil, s.err
		}
	}
	if rest := in.size - s.offset; rest > 0 {
		var losses Losses
		losses.add(Loss{
			Cause: TruncatedFile, File: s.log.file.name, Offset: s.offset, Bytes: rest,
			Records: (rest + basicRecordSize - 1) / basicRecordSize,
		})
		s.pass.lost(&losses)
	}
	return false, nil
}

// split fills c.runs, in file order. A record that identifies no thread (an argument, or
// garbage) belongs to the run before it.
func (s *splitter) split(c *chunk) {
	c.runs = c.runs[:0]
	// A key of 0 could also be padding.
	s.run.plain = s.little && s.key != 0
	start, n := 0, len(c.data)/basicRecordSize
	for i := 0; i < n; i++ {
		if s.little && s.key != 0 {
			if i += s.fast(c.data[i*basicRecordSize:]); i == n {
				break
			}
		}
		b := c.data[i*basicRecordSize : (i+1)*basicRecordSize]
		key := s.keyOf(b)
		switch {
		case !isFunction(b) || isZero(b):
			s.run.plain = false
		case key == s.key && s.known:
			s.run.plain = false
		default:
			if i > start && s.known {
				c.runs = append(c.runs, s.cut(start, i))
				start = i
			}
			s.begin(key)
			// Records before the first function record of the log belong to its run.
			s.run.plain = s.little && key != 0 && b[3] <= byte(TailExit) && i == start
		}
	}
	if n > start {
		// Records before the first that identifies a thread are counted as lost when they
		// are decoded, with any thread.
		if !s.known {
			s.run.of = s.newThread(0)
		}
		c.runs = append(c.runs, s.cut(start, n))
	}
	if s.forked {
		for i := range c.runs {
			c.runs[i].forked = true
		}
	}
}

// fast counts the records at the start of data that are entries, exits and tail exits of
// the current thread. It handles nearly all records.
func (s *splitter) fast(data []byte) int {
	key, mask := s.key, s.mask
	i := 0
	for ; i <= len(data)-basicRecordSize; i += basicRecordSize {
		b := data[i : i+basicRecordSize]
		// The kind, below the type, which is 0.
		kind := bits.RotateLeft32(binary.LittleEndian.Uint32(b), 16) >> 8
		if kind > uint32(TailExit) || (binary.LittleEndian.Uint64(b[16:])^key)&mask != 0 {
			break
		}
	}
	return i / basicRecordSize
}

// keyOf returns what identifies the thread in a function record.
func (s *splitter) keyOf(b []byte) uint64 {
	if s.little {
		return binary.LittleEndian.Uint64(b[16:]) & s.mask
	}
	o := s.log.file.header.ByteOrder
	return (uint64(o.Uint32(b[20:]))<<32 | uint64(o.Uint32(b[16:]))) & s.mask
}

// begin starts a run.
func (s *splitter) begin(key uint64) {
	s.key, s.known = key, true
	s.run.of = s.thread(key)
}

func (s *splitter) thread(key uint64) *basicThread {
	th := s.threads[key]
	if th == nil {
		th = s.newThread(key)
		if len(s.threads) == 0 {
			s.process = th.id.Process
		}
		s.forked = s.forked || th.id.Process != s.process
		s.threads[key] = th
	}
	return th
}

func (s *splitter) newThread(key uint64) *basicThread {
	id := Thread{File: s.log.file.number, Process: int32(key >> 32), Thread: int32(key)}
	index, err := s.log.threads.of(s.log.file, id)
	s.err = cmp.Or(s.err, err)
	return &basicThread{id: id, index: index}
}

func (s *splitter) cut(start, end int) run {
	r := s.run
	r.start, r.end = start, end
	return r
}

// group links the runs of each thread in file order.
func (c *chunk) group() {
	c.groups = c.groups[:0]
	for i := range c.runs {
		th := c.runs[i].of
		if th.chunk == c.offset {
			c.runs[th.last].next = i
		} else {
			c.groups = append(c.groups, i)
		}
		th.chunk, th.last = c.offset, i
	}
}
