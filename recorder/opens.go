package recorder

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// enteredCall is a call of a thread that is open.
type enteredCall struct {
	fn    reader.FuncID
	gone  bool // after its tail exit: it may go on in the call that is entered next
	start uint64
	args  []uint64
	outer *enteredCall // the next one outwards, once this one is shared
	depth int          // with outer
	saved *enteredCall // the shared copy
}

// openCalls follows which calls of a thread are open. The runtime's writer has the same rules.
type openCalls struct {
	calls  []enteredCall // the outermost first
	window uint64        // the TSC from which on records count
	last   uint64        // TSC of the last record
	cpu    uint16
	// The last record was a tail exit; it was an entry, or an argument of it.
	awaits, entered bool
	// Functions of calls that were open before all others, the innermost first. Only their exits
	// were found.
	outer []reader.FuncID
}

// openState is a state of openCalls. States share the calls that they have in common.
type openState struct {
	top          *enteredCall
	window, last uint64
	cpu          uint16
	awaits       bool
}

const (
	mostOuter    = 255
	mostArgs     = 16
	searchedOpen = 1 << 16
)

// state returns the state, which further records do not change.
func (o *openCalls) state() openState {
	var top *enteredCall
	for i := range o.calls {
		c := &o.calls[i]
		if c.saved == nil {
			c.saved = &enteredCall{fn: c.fn, gone: c.gone, start: c.start, args: slices.Clone(c.args), outer: top, depth: i + 1}
		}
		top = c.saved
	}
	return openState{top, o.window, o.last, o.cpu, o.awaits}
}

// openCallsOf continues at a state.
func openCallsOf(s openState) *openCalls {
	o := &openCalls{window: s.window, last: s.last, cpu: s.cpu, awaits: s.awaits}
	if s.top != nil {
		o.calls = make([]enteredCall, s.top.depth)
	}
	for c := s.top; c != nil; c = c.outer {
		o.calls[c.depth-1] = enteredCall{fn: c.fn, gone: c.gone, start: c.start, args: slices.Clip(c.args), saved: c}
	}
	return o
}

// begin makes records count from a TSC on.
func (o *openCalls) begin(window uint64) {
	if window != o.window {
		*o = openCalls{calls: o.calls[:0], window: window, cpu: o.cpu}
	}
}

// lose forgets the calls, because records are missing.
func (o *openCalls) lose() { o.calls, o.awaits, o.entered = o.calls[:0], false, false }

// follow reads the records of a chunk from its window on and before a TSC. It returns false at a later
// one.
func (o *openCalls) follow(c *chunkPlace, data []byte, from, to uint64) bool {
	if c.used != 0 {
		data = data[:min(len(data), c.used)]
	}
	le := binary.LittleEndian
	epoch := c.first &^ math.MaxUint32
	for at := chunkHeader; at+8 <= len(data); {
		record := le.Uint64(data[at:])
		if record&1 == 0 {
			at += 8
			tsc := epoch | record>>32
			switch {
			case uint32(record) == 0 || tsc < from:
			case tsc >= to:
				return false
			default:
				o.function(uint32(record), tsc)
				o.last = tsc
			}
			continue
		}
		size := recordSize(data[at:])
		if size == 0 {
			return true
		}
		r := data[at : at+size]
		at += size
		if !isWritten(r) {
			continue
		}
		value := le.Uint64(r[8:]) >> 1
		switch r[0] >> 1 {
		case recordStamp:
			epoch = value &^ math.MaxUint32
			if value < to {
				o.cpu = uint16(record >> 16)
			}
		case recordArg:
			if top := len(o.calls) - 1; o.entered && len(o.calls[top].args) < mostArgs {
				o.calls[top].args = append(o.calls[top].args, value|record>>8&1<<63)
			}
		case recordCustom, recordTyped:
			if value < from {
				break
			}
			if value >= to {
				return false
			}
			o.entered = false
			if o.awaits && !withinTailCall(r) {
				o.endGone()
			}
			o.last = value
		}
	}
	return true
}

// withinTailCall reports whether an event may come between a tail exit and the entry of the function
// that is called.
func withinTailCall(r []byte) bool {
	kind, _, ok := reader.SplitMetadata(r[16 : 16+binary.LittleEndian.Uint32(r[4:])])
	return ok && r[0]>>1 == recordCustom && (kind == reader.MetadataSwitch || kind == reader.MetadataDescriptor)
}

func (o *openCalls) function(word uint32, tsc uint64) {
	fn, kind := reader.FuncID(word>>4), word>>1&7
	o.entered = false
	if kind != functionExit && kind != functionTail {
		if o.awaits {
			o.endLoop(fn)
		}
		o.awaits, o.entered = false, true
		o.calls = append(o.calls, enteredCall{fn: fn, start: tsc})
		return
	}
	if o.awaits {
		o.endGone()
	}
	i, least := len(o.calls)-1, max(0, len(o.calls)-searchedOpen)
	for i >= least && (o.calls[i].fn != fn || o.calls[i].gone) {
		i--
	}
	switch {
	case i < least:
		if len(o.calls) == 0 && len(o.outer) < mostOuter {
			o.outer = append(o.outer, fn)
		}
	case kind == functionTail:
		o.calls = o.calls[:i+1]
		o.calls[i].gone, o.calls[i].saved = true, nil
		o.awaits = true
	default:
		o.calls = o.calls[:i]
		o.endGone()
	}
}

// endLoop ends calls that have gone on in tail calls if those cannot include the function that is entered.
func (o *openCalls) endLoop(fn reader.FuncID) {
	first, end := tracewrite.TailLoop(len(o.calls), func(i int) (reader.FuncID, bool) { return o.calls[i].fn, o.calls[i].gone }, fn)
	o.calls = slices.Delete(o.calls, first, end)
	for k := first; first < end && k < len(o.calls); k++ {
		o.calls[k].saved = nil
	}
}

// endGone ends the innermost calls that have gone on in tail calls.
func (o *openCalls) endGone() {
	n := len(o.calls)
	for n > 0 && o.calls[n-1].gone {
		n--
	}
	o.calls, o.awaits = o.calls[:n], false
}

// cutRecords returns the records that enter calls, and their number.
func cutRecords(calls []enteredCall, outer []reader.FuncID) (records []byte, n uint32) {
	le := binary.LittleEndian
	add := func(fn reader.FuncID, kind uint64) {
		records = le.AppendUint64(records, uint64(fn)<<4|kind<<1)
		n++
	}
	for _, fn := range slices.Backward(outer) {
		add(fn, 0)
	}
	for _, c := range calls {
		kind := uint64(0)
		if len(c.args) > 0 {
			kind = 3
		}
		add(c.fn, kind)
		for _, a := range c.args {
			records = tracewrite.AppendRecord(records, &fdr5, &reader.Record{Kind: reader.CallArgument, Value: a})
		}
		if c.gone {
			add(c.fn, functionTail)
		}
	}
	return records, n
}

// edgeBlock returns a block with events of a thread at a TSC, and records of that time.
func edgeBlock(t *ringThread, seconds uint64, micros uint32, cpu uint16, tsc uint64, payloads [][]byte, records []byte) []byte {
	var b []byte
	put := func(r reader.Record) { b = tracewrite.AppendRecord(b, &fdr5, &r) }
	put(reader.Record{Kind: reader.BufferExtents})
	put(reader.Record{Kind: reader.NewBuffer, Thread: t.TID})
	put(reader.Record{Kind: reader.WallClock, Seconds: seconds, Micros: micros})
	put(reader.Record{Kind: reader.PID, Process: t.PID})
	put(reader.Record{Kind: reader.NewCPUID, CPU: cpu, TSC: tsc})
	b = tracewrite.AppendChecksum(b)
	for _, p := range payloads {
		put(reader.Record{Kind: reader.CustomEvent, Data: p})
	}
	b = append(b, records...)
	binary.LittleEndian.PutUint64(b[1:], uint64(len(b)-extentsSize))
	tracewrite.Seal(b)
	return b
}

// cutBlock returns the block that enters the calls of a thread which are open at a TSC, or nil if the
// thread has no earlier records.
func (o *openCalls) cutBlock(t *ringThread, since uint64, calls []enteredCall) []byte {
	records, n := cutRecords(calls, o.outer)
	if n == 0 && o.last == 0 {
		return nil
	}
	return edgeBlock(t, 0, 0, o.cpu, since, [][]byte{reader.AppendCut(nil, reader.Cut{Records: n, Since: o.last})}, records)
}
