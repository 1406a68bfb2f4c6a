package tracegen

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

var le = binary.LittleEndian

func fileHeader(version, typ uint16, bufferSize uint64) []byte {
	h := make([]byte, 32)
	le.PutUint16(h, version)
	le.PutUint16(h[2:], typ)
	le.PutUint32(h[4:], 3) // constant and nonstop TSC
	le.PutUint64(h[8:], Frequency)
	le.PutUint64(h[16:], bufferSize)
	return h
}

const (
	fdrBuffer    = 16 << 10
	metadataSize = 16
	functionSize = 8
	startSeconds = startTSC / Frequency
)

// fdrEncoder writes FDR version 5; a run is a thread's buffer.
type fdrEncoder struct {
	blocks uint64 // so far, of all threads
}

func (*fdrEncoder) header() []byte         { return fileHeader(5, 1, fdrBuffer) }
func (*fdrEncoder) footer() []byte         { return nil }
func (*fdrEncoder) earlier(a, b *run) bool { return a.start < b.start }

func (e *fdrEncoder) fill(t *thread, r *run) {
	rec := t.next()
	b := r.bytes[:0]
	b = metadata(b, 7, 0) // extents, set below
	b = metadata(b, 0, uint64(t.id))
	b = metadata(b, 4, startSeconds+e.blocks)
	le.PutUint32(b[len(b)-7:], uint32(e.blocks%1_000_000))
	e.blocks++
	b = metadata(b, 9, startPID)
	b = newCPU(b, &rec)

	r.start = rec.tsc
	last := rec
	b = functionRecord(b, &rec, 0)
	// The extents are not part of the buffer. Each turn may need a metadata
	// record in front of the function record.
	for t.left > 0 && len(b) <= fdrBuffer-functionSize {
		rec = t.next()
		switch {
		case rec.cpu != last.cpu:
			b = newCPU(b, &rec)
			last.tsc = rec.tsc
		case rec.wrap:
			b = metadata(b, 3, rec.tsc)
			last.tsc = rec.tsc
		}
		b = functionRecord(b, &rec, rec.tsc-last.tsc)
		last = rec
	}
	le.PutUint64(b[1:], uint64(len(b)-metadataSize))
	r.end, r.bytes = last.tsc, b
}

// metadata appends a metadata record with one number.
func metadata(b []byte, kind byte, v uint64) []byte {
	b = append(b, kind<<1|1)
	b = le.AppendUint64(b, v)
	return append(b, 0, 0, 0, 0, 0, 0, 0)
}

func newCPU(b []byte, rec *record) []byte {
	b = append(b, 2<<1|1, rec.cpu, 0)
	b = le.AppendUint64(b, rec.tsc)
	return append(b, 0, 0, 0, 0, 0)
}

func functionRecord(b []byte, rec *record, delta uint64) []byte {
	return le.AppendUint64(b, delta<<32|uint64(rec.fn<<4|uint32(rec.kind)<<1))
}

// basicRun is the number of records that a thread of basic mode buffers.
const basicRun = 1024

// basicEncoder writes basic version 3.
type basicEncoder struct{}

func (basicEncoder) header() []byte         { return fileHeader(3, 0, 0) }
func (basicEncoder) footer() []byte         { return nil }
func (basicEncoder) earlier(a, b *run) bool { return a.end < b.end }

func (basicEncoder) fill(t *thread, r *run) {
	b := r.bytes[:0]
	r.start = t.tsc
	for n := 0; n < basicRun && t.left > 0; n++ {
		rec := t.next()
		r.end = rec.tsc
		b = append(b, 0, 0, rec.cpu, byte(rec.kind))
		b = le.AppendUint32(b, rec.fn)
		b = le.AppendUint64(b, rec.tsc)
		b = le.AppendUint32(b, uint32(t.id))
		b = le.AppendUint32(b, startPID)
		b = le.AppendUint64(b, 0)
	}
	r.bytes = b
}

// yamlEncoder writes trace YAML.
type yamlEncoder struct{ basicEncoder }

func (yamlEncoder) header() []byte {
	return fmt.Appendf(nil, `---
header:
  version:         1
  type:            0
  constant-tsc:    true
  nonstop-tsc:     true
  cycle-frequency: %d
records:
`, uint64(Frequency))
}

func (yamlEncoder) footer() []byte { return []byte("...\n") }

var kindNames = [...]string{"function-enter", "function-exit", "function-tail-exit"}

func (yamlEncoder) fill(t *thread, r *run) {
	b := r.bytes[:0]
	for n := 0; n < basicRun && t.left > 0; n++ {
		rec := t.next()
		r.end = rec.tsc
		b = append(b, "  - { type: 0, func-id: "...)
		b = strconv.AppendUint(b, uint64(rec.fn), 10)
		b = append(b, ", function: '"...)
		b = strconv.AppendUint(b, uint64(rec.fn), 10)
		b = append(b, "', cpu: "...)
		b = strconv.AppendUint(b, uint64(rec.cpu), 10)
		b = append(b, ", thread: "...)
		b = strconv.AppendInt(b, int64(t.id), 10)
		b = append(b, ", process: "...)
		b = strconv.AppendInt(b, startPID, 10)
		b = append(b, ", kind: "...)
		b = append(b, kindNames[rec.kind]...)
		b = append(b, ", tsc: "...)
		b = strconv.AppendUint(b, rec.tsc, 10)
		b = append(b, ", data: '' }\n"...)
	}
	r.bytes = b
}
