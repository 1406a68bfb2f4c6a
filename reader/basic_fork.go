package reader

import "bytes"

// A process that forks hands its child the records that it has not yet written,
// and both write them in the end, under the parent's process and thread id. So
// in a log with records of more than one process, a run of a thread that starts
// no later than the run before it ended begins with copies.

// recordKey is what tells the records of one thread apart: all of a record up
// to the timestamp.
type recordKey [16]byte

// copyFilter knows the last record of each thread, by the thread's index.
type copyFilter struct {
	last []lastRecord
}

type lastRecord struct {
	tsc uint64
	key recordKey
}

func (f *copyFilter) of(index int) *lastRecord {
	if index >= len(f.last) {
		f.last = append(f.last, make([]lastRecord, index+1-len(f.last))...)
	}
	return &f.last[index]
}

// skipCopies returns the first record of r that is no copy, and remembers the
// last record of r.
func (d *basicDecoder) skipCopies(c *chunk, r *run) int {
	o := d.log.file.header.ByteOrder
	record := func(i int) []byte { return c.data[i*basicRecordSize : (i+1)*basicRecordSize] }
	last := d.copies.of(r.index)
	start := r.start
	if r.forked && last.tsc > 0 {
		for start < r.end {
			b := record(start)
			// What is no function record goes with the one before it.
			if isFunction(b) || start == r.start {
				tsc := o.Uint64(b[8:])
				if !isFunction(b) || tsc > last.tsc || tsc == last.tsc && !bytes.Equal(b[:16], last.key[:]) {
					break
				}
			}
			start++
		}
		if n := start - r.start; n > 0 {
			d.losses.add(Loss{
				Cause: DuplicateRun, File: d.log.file.name, Records: int64(n),
				Offset: c.offset + int64(r.start)*basicRecordSize, Bytes: int64(n) * basicRecordSize,
			})
		}
	}
	for i := r.end - 1; i >= start; i-- {
		if b := record(i); isFunction(b) {
			last.tsc, last.key = o.Uint64(b[8:]), recordKey(b)
			break
		}
	}
	return start
}
