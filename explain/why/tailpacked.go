package why

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// eachPacked reads a source with packed records, if it has any.
func eachPacked(src calls.Source, n int, fn func(shard int, b *reader.Block) error) error {
	if p, ok := src.(interface {
		EachPacked(n int, fn func(shard int, b *reader.Block) error) error
	}); ok {
		return p.EachPacked(n, fn)
	}
	return src.Each(n, fn)
}

const (
	fdrRecord   = 8
	basicRecord = 32
)

// on and off are type arguments that make versions of a loop for basic and for FDR records.
type (
	on  [1]struct{}
	off [0]struct{}
)

type onOff interface{ on | off }

// record is a packed record. Its time is that of the log, or in FDR logs the ticks since the
// record before it.
type record struct {
	word uint64
	kind reader.Kind
	fn   reader.FuncID
	time uint64
}

// at returns the record at an offset.
func at[basic onOff](records []byte, i int) record {
	var is basic
	w := binary.LittleEndian.Uint64(records[i:])
	if len(is) == 1 {
		return record{w, reader.Kind(w >> 24), reader.FuncID(w >> 32), binary.LittleEndian.Uint64(records[i+8:])}
	}
	return record{w, reader.Kind(w >> 1 & 7), reader.FuncID(uint32(w) >> 4), w >> 32}
}

// countPacked counts the pairs of packed records after an event, and returns the last of them.
func countPacked[basic onOff](p *pairCounter, last reader.Event, in *reader.Packed) reader.Event {
	var is basic
	size := fdrRecord
	if len(is) == 1 {
		size = basicRecord
	}
	tsc, first := in.TSC, p.first
	tail := last.Kind == reader.TailExit
	var r record
	for i := 0; i+size <= len(in.Records); i += size {
		r = at[basic](in.Records, i)
		if tsc += r.time; len(is) == 1 {
			tsc = r.time
		}
		first = min(first, tsc)
		if tail {
			p.follow(&last, &reader.Event{TSC: tsc, Func: r.fn, Kind: r.kind})
		}
		if tail = r.kind == reader.TailExit; tail {
			last = reader.Event{TSC: tsc, Func: r.fn, Kind: r.kind}
		}
	}
	p.first = first
	return reader.Event{TSC: tsc, Func: r.fn, Kind: r.kind}
}

// packed rewrites a block of packed records.
func (n *nester) packed(t *nestedThread, b *reader.Block) error {
	in := &b.Packed
	first := at[off](in.Records, 0)
	if in.Basic {
		first = at[on](in.Records, 0)
	}
	if t.waits {
		if n.nests(t.left.Func, first.kind, first.fn) {
			t.waits = false
			t.hold(t.left.Func)
		} else if err := n.leave(t); err != nil {
			return err
		}
	}
	if len(t.open) == 0 && !hasPackedTailExit(in) {
		return n.emit(b)
	}
	// Every record stays or gives its room to one that follows later.
	size := len(in.Records) + basicRecord*len(t.open)
	n.records = grow(n.records[:cap(n.records)], size)
	if in.Basic {
		return rewrite[on](n, t, b)
	}
	return rewrite[off](n, t, b)
}

// rewrite rewrites a block of packed records into n.records, which has room for all.
func rewrite[basic onOff](n *nester, t *nestedThread, b *reader.Block) error {
	var is basic
	size := fdrRecord
	if len(is) == 1 {
		size = basicRecord
	}
	in, out := b.Packed.Records, n.records
	tsc, start, held := b.Packed.TSC, b.Packed.TSC, uint64(0) // held is the time of records that were taken out
	to := 0
	for i := 0; i+size <= len(in); i += size {
		r := at[basic](in, i)
		before := tsc
		if tsc += r.time; len(is) == 1 {
			tsc = r.time
		}
		if r.kind == reader.TailExit {
			if i+size == len(in) {
				t.left, t.waits = reader.Event{TSC: tsc, Func: r.fn, CPU: b.Packed.CPU, Kind: r.kind}, true
				break
			}
			if next := at[basic](in, i+size); n.nests(r.fn, next.kind, next.fn) {
				t.hold(r.fn)
				held += r.time
				continue
			}
		}
		if len(is) == 1 {
			copy(out[to:to+size], in[i:i+size])
		} else {
			if r.time+held > math.MaxUint32 {
				if err := n.flush(b, start, to); err != nil {
					return err
				}
				start, to, held = before, 0, 0
			}
			binary.LittleEndian.PutUint64(out[to:], r.word+held<<32)
			held = 0
		}
		to += size
		switch {
		case len(t.open) == 0:
		case r.kind == reader.Enter:
			t.open = append(t.open, openCall{fn: r.fn})
		default:
			for _, c := range slices.Backward(t.end(r.fn)) {
				put[basic](out[to:to+size], c.fn, tsc)
				to += size
			}
		}
	}
	return n.flush(b, start, to)
}

// put writes a tail exit at a time, which in FDR logs is that of the record before it.
func put[basic onOff](record []byte, fn reader.FuncID, tsc uint64) {
	var is basic
	if len(is) == 1 {
		clear(record)
		binary.LittleEndian.PutUint64(record, uint64(reader.TailExit)<<24|uint64(uint32(fn))<<32)
		binary.LittleEndian.PutUint64(record[8:], tsc)
		return
	}
	binary.LittleEndian.PutUint64(record, uint64(reader.TailExit)<<1|uint64(uint32(fn))<<4)
}

// flush passes on the first bytes of n.records in place of a block. start is the time before
// them.
func (n *nester) flush(b *reader.Block, start uint64, bytes int) error {
	if bytes == 0 {
		return nil
	}
	out := n.clear()
	out.Thread, out.Index, out.Offset = b.Thread, b.Index, b.Offset
	out.Packed = reader.Packed{Records: n.records[:bytes], Basic: b.Packed.Basic, TSC: start, CPU: b.Packed.CPU}
	return n.emit(out)
}

func hasPackedTailExit(p *reader.Packed) bool {
	size, i, mask, want := fdrRecord, 0, byte(14), byte(reader.TailExit<<1)
	if p.Basic {
		size, i, mask, want = basicRecord, 3, 0xff, byte(reader.TailExit)
	}
	for ; i < len(p.Records); i += size {
		if p.Records[i]&mask == want {
			return true
		}
	}
	return false
}
