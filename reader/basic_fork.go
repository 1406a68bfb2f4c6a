package reader

import "bytes"

// A process that forks leaves its child the records that it has not yet written. Both write
// them later, under the parent's process and thread ID. So in a log with records of more
// than one process, a run of a thread may begin with a copy of an earlier run: the same
// bytes.

// maxRuns limits the runs of a thread that are remembered.
const maxRuns = 64

// copyFilter knows where the records of each thread are, by the thread's index minus base.
type copyFilter struct {
	base    int
	threads []threadRuns
}

// threadRuns has the records of a thread that have been read so far.
type threadRuns struct {
	last uint64      // latest timestamp
	runs []fileRange // the most recent ones, as a ring
	// latest is the position of the latest run in runs.
	latest int
}

type fileRange struct{ start, end int64 }

func (f *copyFilter) of(index int) *threadRuns {
	index -= f.base
	if index >= len(f.threads) {
		f.threads = append(f.threads, make([]threadRuns, index+1-len(f.threads))...)
	}
	return &f.threads[index]
}

// skipCopies returns the first record of r that is not a copy, and remembers the rest of r.
func (d *basicDecoder) skipCopies(c *chunk, r *run) (int, error) {
	th := d.copies.of(r.of.index)
	record := func(i int) []byte { return c.data[i*basicRecordSize : (i+1)*basicRecordSize] }
	offset := func(i int) int64 { return c.offset + int64(i)*basicRecordSize }
	tsc := func(i int) uint64 { return d.log.file.header.ByteOrder.Uint64(record(i)[8:]) }
	start := r.start
	if r.forked && isFunction(record(start)) && tsc(start) <= th.last {
		n, err := d.copied(th, c.data[start*basicRecordSize:r.end*basicRecordSize], tsc(start))
		if err != nil {
			return 0, err
		}
		if n > 0 {
			start += n
			d.losses.add(Loss{
				Cause: DuplicateRun, File: d.log.file.name, Records: int64(n),
				Offset: offset(r.start), Bytes: int64(n) * basicRecordSize,
			})
		}
	}
	for i := r.end - 1; i >= start; i-- {
		if isFunction(record(i)) {
			th.last = max(th.last, tsc(i))
			break
		}
	}
	if start < r.end {
		th.note(fileRange{offset(start), offset(r.end)})
	}
	return start, nil
}

func (th *threadRuns) note(r fileRange) {
	if len(th.runs) > 0 && th.runs[th.latest].end == r.start {
		th.runs[th.latest].end = r.end
		return
	}
	if len(th.runs) < maxRuns {
		th.latest = len(th.runs)
		th.runs = append(th.runs, r)
		return
	}
	th.latest = (th.latest + 1) % maxRuns
	th.runs[th.latest] = r
}

// copied returns how many records at the start of data, the first of which is at tsc, occur
// in sequence in an earlier run.
func (d *basicDecoder) copied(th *threadRuns, data []byte, tsc uint64) (int, error) {
	w := &window{in: d.log.file.in}
	for i := range th.runs {
		// Search the latest run first.
		r := th.runs[(th.latest+len(th.runs)-i)%len(th.runs)]
		at, err := d.find(w, r, tsc)
		if err != nil {
			return 0, err
		}
		n, err := d.compare(w, fileRange{at, r.end}, data, tsc)
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// maxTies limits the records with equal times that are compared with the first of a run.
const maxTies = 64

// compare returns how many records at the start of data occur in sequence in r, from a
// record of the time tsc on.
func (d *basicDecoder) compare(w *window, r fileRange, data []byte, tsc uint64) (n int, err error) {
	o := d.log.file.header.ByteOrder
	for ties := 0; n == 0 && r.start < r.end && ties < maxTies; ties++ {
		at := r.start
		for ; at < r.end && (n+1)*basicRecordSize <= len(data); n++ {
			b, err := w.at(at, basicRecordSize)
			if err != nil {
				return 0, err
			}
			if n == 0 && isFunction(b) && o.Uint64(b[8:]) > tsc {
				return 0, nil
			}
			if !bytes.Equal(b, data[n*basicRecordSize:(n+1)*basicRecordSize]) {
				break
			}
			at += basicRecordSize
		}
		r.start += basicRecordSize
	}
	return n, nil
}

// find returns the offset in r of the first record that is not earlier than tsc, by
// bisection. It may miss it if the clock stepped back inside r.
func (d *basicDecoder) find(w *window, r fileRange, tsc uint64) (int64, error) {
	lo, hi := int64(0), (r.end-r.start)/basicRecordSize
	for lo < hi {
		mid := (lo + hi) / 2
		// An argument has no time. Take that of the record before it.
		at := mid
		var b []byte
		var err error
		for {
			if b, err = w.at(r.start+at*basicRecordSize, basicRecordSize); err != nil {
				return 0, err
			}
			if isFunction(b) || at == lo {
				break
			}
			at--
		}
		if d.log.file.header.ByteOrder.Uint64(b[8:]) < tsc {
			lo = mid + 1
		} else {
			hi = at
		}
	}
	return r.start + lo*basicRecordSize, nil
}
