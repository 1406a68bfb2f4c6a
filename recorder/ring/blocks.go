package ring

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

var FDR5 = reader.Header{Version: 5, Type: reader.FDR, ByteOrder: binary.LittleEndian}

// Block is a chunk converted to an FDR block. The runtime's writer produces the same bytes.
type Block struct {
	Bytes              []byte
	Records            uint64
	Unwritten, Damaged uint64 // records
	Last               uint64 // TSC of the last record
	Reached            int    // offset in the chunk up to which records were converted
}

// BlockWriter converts chunks to blocks.
type BlockWriter struct {
	First uint64 // earliest TSC of the trace
	Since uint64 // earlier records are left out
	Until uint64 // later records are left out; 0 for none
	Cut   bool   // blocks with the calls that are open there come before the others

	Block
	place      *ChunkPlace
	thread     *Thread
	started    bool
	epoch, tsc uint64 // upper half of the TSC of the next records; TSC of the last record
	cpu        uint16
	more       int // offset where another argument of the same call may follow

	// The result of the first record, which comes before it, while the block is not open.
	held  uint64
	holds bool
}

// extentsSize is the size of a BufferExtents record, which does not count itself.
const extentsSize = 16

func (w *BlockWriter) put(r reader.Record) { w.Bytes = tracewrite.AppendRecord(w.Bytes, &FDR5, &r) }

// Chunk makes a block of the records in data, which begin after the header. The block's bytes are
// valid until the next call.
func (w *BlockWriter) Chunk(t *Thread, c *ChunkPlace, data []byte) *Block {
	w.Block = Block{Bytes: w.Bytes[:0], Last: c.First}
	w.thread, w.place, w.started, w.more, w.holds = t, c, false, 0, false
	w.setClock(c.First, 0)
	if c.Used != 0 {
		data = data[:min(len(data), c.Used)]
	}
	written := 0 // end of data without trailing zeros
	at := ChunkHeader
	for at < len(data) {
		if n := w.run(data[at:]); n > 0 {
			at += n
			written = at
			continue
		}
		word := binary.LittleEndian.Uint64(data[at:])
		size := 8
		if word&1 != 0 {
			if size = recordSize(data[at:]); size == 0 {
				w.Damaged = uint64(len(data)-at) / 8
				break
			}
		}
		switch {
		case c.Part && !IsWritten(data[at:at+size]) || w.Until != 0 && w.timeOf(data[at:at+size]) > w.Until:
			data = data[:at]
			continue
		case at < c.From:
			w.skip(data[at : at+size])
		case size == 8:
			w.function(word)
		default:
			w.other(data, at, size)
		}
		at += size
		if word != 0 {
			written = at
		}
	}
	w.Reached = at
	// An unused part is not a loss.
	if w.Damaged == 0 && c.Used == 0 {
		w.Unwritten -= min(w.Unwritten, uint64(len(data)-max(written, ChunkHeader))/8)
	}
	if w.started {
		binary.LittleEndian.PutUint64(w.Bytes[1:], uint64(len(w.Bytes)-extentsSize))
		tracewrite.Seal(w.Bytes)
	}
	return &w.Block
}

// run converts function records at the beginning of data, until another kind of record or a step back
// in time. Nearly all records are converted here. It returns the size of the converted records.
func (w *BlockWriter) run(data []byte) int {
	if !w.started || w.tsc&^math.MaxUint32 != w.epoch {
		return 0
	}
	le := binary.LittleEndian
	begin := len(w.Bytes)
	w.Bytes = slices.Grow(w.Bytes, len(data))
	out := w.Bytes[begin : begin+len(data)]
	last, n := uint32(w.tsc), 0
	if w.Until != 0 && w.epoch|math.MaxUint32 > w.Until {
		return 0 // the time of each record must be checked
	}
	for n+8 <= len(data) && n+8 <= len(out) {
		word := le.Uint64(data[n:])
		now := uint32(word >> 32)
		if word&1 != 0 || uint32(word) == 0 || now < last {
			break
		}
		le.PutUint64(out[n:], word&math.MaxUint32|uint64(now-last)<<32)
		last = now
		n += 8
	}
	w.Bytes = w.Bytes[:begin+n]
	w.tsc = w.epoch | uint64(last)
	if n > 0 {
		w.Last = w.tsc
	}
	w.Records += uint64(n / 8)
	return n
}

// timeOf returns the TSC of a record, or 0 if it has none.
func (w *BlockWriter) timeOf(r []byte) uint64 {
	switch word := binary.LittleEndian.Uint64(r); {
	case len(r) == 8 && uint32(word) != 0:
		return w.epoch | word>>32
	case len(r) > 8 && r[0]>>1 != recordArg && r[0]>>1 != recordResult:
		return binary.LittleEndian.Uint64(r[8:]) >> 1
	}
	return 0
}

// IsWritten reports whether a record of a chunk is complete.
func IsWritten(r []byte) bool {
	if len(r) == 8 {
		return binary.LittleEndian.Uint32(r) != 0
	}
	return r[8]&r[len(r)-8]&1 != 0
}

// skip updates the clock from a record that is already in the trace.
func (w *BlockWriter) skip(r []byte) {
	if len(r) > 8 && r[0]>>1 == RecordStamp {
		w.setClock(binary.LittleEndian.Uint64(r[8:])>>1, binary.LittleEndian.Uint16(r[2:]))
	}
}

func (w *BlockWriter) setClock(tsc uint64, cpu uint16) {
	w.epoch, w.tsc, w.cpu = tsc&^math.MaxUint32, tsc, cpu
}

// begins reports whether a record of this time is part of the block. The first such record opens
// the block.
func (w *BlockWriter) begins(tsc uint64) bool {
	if w.started {
		return true
	}
	if tsc < w.Since {
		w.holds = false
		return false
	}
	w.started = true
	w.setClock(tsc, w.cpu)
	// llvm-xray considers blocks of a thread ordered only if both seconds and microseconds
	// increase, and microseconds are below a million.
	w.put(reader.Record{Kind: reader.BufferExtents})
	w.put(reader.Record{Kind: reader.NewBuffer, Thread: w.thread.TID})
	seconds := (tsc - w.First) >> 15
	if w.Cut {
		seconds++
	}
	w.put(reader.Record{Kind: reader.WallClock, Seconds: seconds, Micros: uint32(min(w.place.Number, 999999))})
	w.put(reader.Record{Kind: reader.PID, Process: w.thread.PID})
	w.put(reader.Record{Kind: reader.NewCPUID, CPU: w.cpu, TSC: tsc})
	w.Bytes = tracewrite.AppendChecksum(w.Bytes)
	if w.holds {
		w.result(w.held)
	}
	return true
}

func (w *BlockWriter) function(word uint64) {
	if uint32(word) == 0 {
		w.lost()
		return
	}
	tsc := w.epoch | word>>32
	if !w.begins(tsc) {
		return
	}
	delta := tsc - w.tsc
	if delta > math.MaxUint32 {
		w.put(reader.Record{Kind: reader.TSCWrap, TSC: tsc})
		delta = 0
	}
	w.Bytes = binary.LittleEndian.AppendUint64(w.Bytes, word&math.MaxUint32|delta<<32)
	w.tsc, w.Last = tsc, tsc
	w.Records++
}

func (w *BlockWriter) lost() {
	if w.started {
		w.Unwritten++
	}
}

// recordSize returns the size of the record at the beginning of data, or 0 if no complete record is
// there. The record must not be a function record.
func recordSize(data []byte) int {
	size := 0
	switch data[0] >> 1 {
	case RecordStamp, recordArg, recordResult:
		size = 16
	case RecordCustom, RecordTyped:
		if n := binary.LittleEndian.Uint32(data[4:]); n <= maxPayload {
			size = 24 + int(n+7)&^7
		}
	}
	if size > len(data) {
		return 0
	}
	return size
}

// ChunkClock has the upper half of the TSC of a chunk's function records, which contain only the lower
// half.
type ChunkClock struct{ Epoch uint64 }

// Next reads the record at the beginning of data, which has at least 8 bytes. It returns the record's
// size and, for a function record, its word and TSC. The word is 0 for other records, and for records
// that were not written. The size is 0 if there is no complete record. With part, it is also 0 for a
// record that was not written.
func (c *ChunkClock) Next(data []byte, part bool) (word uint32, tsc uint64, size int) {
	head := binary.LittleEndian.Uint64(data)
	size = 8
	if head&1 != 0 {
		size = recordSize(data)
	}
	if size == 0 || part && !IsWritten(data[:size]) {
		return 0, 0, 0
	}
	if head&1 == 0 {
		return uint32(head), c.Epoch | head>>32, size
	}
	if second := binary.LittleEndian.Uint64(data[8:]); data[0]>>1 == RecordStamp && second&1 != 0 {
		c.Epoch = second >> 1 &^ math.MaxUint32
	}
	return 0, 0, size
}

// other converts the record of this size at data[at:], which must not be a function record.
func (w *BlockWriter) other(data []byte, at, size int) {
	r := data[at : at+size]
	head, second := binary.LittleEndian.Uint64(r), binary.LittleEndian.Uint64(r[8:])
	value := second >> 1
	kind := r[0] >> 1
	switch {
	case second&1 == 0 || r[size-8]&1 == 0:
		w.lost() // it was only partly written
	case kind == RecordStamp:
		w.setClock(value, uint16(head>>16))
		if w.started {
			w.put(reader.Record{Kind: reader.NewCPUID, CPU: w.cpu, TSC: value})
		}
	case kind == recordArg:
		w.argument(binary.LittleEndian.Uint64(data[at-8:]), at, value|head>>8&1<<63)
	case kind == recordResult:
		w.result(value | head>>8&1<<63)
	case w.begins(value):
		w.event(r, head, value)
	}
}

// argument converts an argument. FDR allows it only right after its function record. A signal handler
// may have recorded something in between.
func (w *BlockWriter) argument(before uint64, at int, value uint64) {
	switch {
	case !w.started:
	case uint32(before) != 0 && before&1 == 0, at == w.more:
		w.put(reader.Record{Kind: reader.CallArgument, Value: value})
		w.more = at + 16
	default:
		w.Unwritten++
	}
}

// result converts the result of a call to an event at the time of the previous record.
func (w *BlockWriter) result(value uint64) {
	if !w.started {
		w.held, w.holds = value, true
		return
	}
	payload := binary.LittleEndian.AppendUint64(nil, value)
	payload = tracewrite.AppendMetadata(nil, reader.MetadataResult, payload)
	w.put(reader.Record{Kind: reader.CustomEvent, Data: payload})
	w.Records++
}

func (w *BlockWriter) event(r []byte, head, tsc uint64) {
	delta := tsc - w.tsc
	if delta > math.MaxInt32 {
		w.put(reader.Record{Kind: reader.TSCWrap, TSC: tsc})
		delta = 0
	}
	// llvm-xray refuses files with empty payloads. Write a zero byte instead.
	payload := []byte{0}
	if n := head >> 32; n > 0 {
		payload = r[16 : 16+n]
	}
	e := reader.Record{Kind: reader.CustomEvent, Delta: int64(delta), Data: payload}
	if r[0]>>1 == RecordTyped {
		e.Kind, e.Type = reader.TypedEvent, uint16(head>>16)
	}
	w.put(e)
	w.setClock(tsc, w.cpu)
	w.Last = tsc
	w.Records++
}

// TraceHeader returns the header of a trace with this clock.
func TraceHeader(c *reader.RecordedClock) []byte {
	h := FDR5
	h.CycleFrequency, h.BufferSize, h.Recorder = c.Frequency, ChunkSize, true
	h.ConstantTSC, h.NonstopTSC = c.Invariant, c.Invariant
	return tracewrite.AppendHeader(nil, &h)
}

func Losses(lost map[string]uint64) []reader.RecordedLoss {
	var list []reader.RecordedLoss
	for cause, n := range lost {
		if n > 0 {
			list = append(list, reader.RecordedLoss{Cause: cause, Count: n})
		}
	}
	slices.SortFunc(list, func(a, b reader.RecordedLoss) int { return cmp.Compare(a.Cause, b.Cause) })
	return list
}
