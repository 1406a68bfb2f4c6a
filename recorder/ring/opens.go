package ring

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// EnteredCall is a call of a thread that is open.
type EnteredCall struct {
	Fn    reader.FuncID
	gone  bool // after its tail exit: it may go on in the call that is entered next
	Start uint64
	args  []uint64
	outer *EnteredCall // the next one outwards, once this one is shared
	depth int          // with outer
	saved *EnteredCall // the shared copy
}

// OpenCalls follows which calls of a thread are open. The runtime's writer has the same rules.
type OpenCalls struct {
	Calls  []EnteredCall // the outermost first
	Window uint64        // the TSC from which on records count
	Last   uint64        // TSC of the last record
	CPU    uint16
	// The last record was a tail exit; it was an entry, or an argument of it.
	awaits, entered bool
	// Functions of calls that were open before all others, the innermost first. Only their exits
	// were found.
	Outer []reader.FuncID
}

// OpenState is a state of OpenCalls. States share the calls that they have in common.
type OpenState struct {
	top          *EnteredCall
	window, last uint64
	cpu          uint16
	awaits       bool
}

const (
	mostOuter    = 255
	mostArgs     = 16
	searchedOpen = 1 << 16
)

// State returns the state, which further records do not change.
func (o *OpenCalls) State() OpenState {
	var top *EnteredCall
	for i := range o.Calls {
		c := &o.Calls[i]
		if c.saved == nil {
			c.saved = &EnteredCall{Fn: c.Fn, gone: c.gone, Start: c.Start, args: slices.Clone(c.args), outer: top, depth: i + 1}
		}
		top = c.saved
	}
	return OpenState{top, o.Window, o.Last, o.CPU, o.awaits}
}

// OpenCallsOf continues at a state.
func OpenCallsOf(s OpenState) *OpenCalls {
	o := &OpenCalls{Window: s.window, Last: s.last, CPU: s.cpu, awaits: s.awaits}
	if s.top != nil {
		o.Calls = make([]EnteredCall, s.top.depth)
	}
	for c := s.top; c != nil; c = c.outer {
		o.Calls[c.depth-1] = EnteredCall{Fn: c.Fn, gone: c.gone, Start: c.Start, args: slices.Clip(c.args), saved: c}
	}
	return o
}

// Begin makes records count from a TSC on.
func (o *OpenCalls) Begin(window uint64) {
	if window != o.Window {
		*o = OpenCalls{Calls: o.Calls[:0], Window: window, CPU: o.CPU}
	}
}

// Lose forgets the calls, because records are missing.
func (o *OpenCalls) Lose() { o.Calls, o.awaits, o.entered = o.Calls[:0], false, false }

// Follow reads the records of a chunk from its window on and before a TSC. It returns false at a later
// one.
func (o *OpenCalls) Follow(c *ChunkPlace, data []byte, from, to uint64) bool {
	if c.Used != 0 {
		data = data[:min(len(data), c.Used)]
	}
	le := binary.LittleEndian
	epoch := c.First &^ math.MaxUint32
	for at := ChunkHeader; at+8 <= len(data); {
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
				o.Last = tsc
			}
			continue
		}
		size := recordSize(data[at:])
		if size == 0 {
			return true
		}
		r := data[at : at+size]
		at += size
		if !IsWritten(r) {
			continue
		}
		value := le.Uint64(r[8:]) >> 1
		switch r[0] >> 1 {
		case RecordStamp:
			epoch = value &^ math.MaxUint32
			if value < to {
				o.CPU = uint16(record >> 16)
			}
		case recordArg:
			if top := len(o.Calls) - 1; o.entered && len(o.Calls[top].args) < mostArgs {
				o.Calls[top].args = append(o.Calls[top].args, value|record>>8&1<<63)
			}
		case RecordCustom, RecordTyped:
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
			o.Last = value
		}
	}
	return true
}

// withinTailCall reports whether an event may come between a tail exit and the entry of the function
// that is called.
func withinTailCall(r []byte) bool {
	kind, _, ok := reader.SplitMetadata(r[16 : 16+binary.LittleEndian.Uint32(r[4:])])
	return ok && r[0]>>1 == RecordCustom && (kind == reader.MetadataSwitch || kind == reader.MetadataDescriptor)
}

func (o *OpenCalls) function(word uint32, tsc uint64) {
	fn, kind := reader.FuncID(word>>4), word>>1&7
	o.entered = false
	if kind != FunctionExit && kind != FunctionTail {
		if o.awaits {
			o.endLoop(fn)
		}
		o.awaits, o.entered = false, true
		o.Calls = append(o.Calls, EnteredCall{Fn: fn, Start: tsc})
		return
	}
	if o.awaits {
		o.endGone()
	}
	i, least := len(o.Calls)-1, max(0, len(o.Calls)-searchedOpen)
	for i >= least && (o.Calls[i].Fn != fn || o.Calls[i].gone) {
		i--
	}
	switch {
	case i < least:
		if len(o.Calls) == 0 && len(o.Outer) < mostOuter {
			o.Outer = append(o.Outer, fn)
		}
	case kind == FunctionTail:
		o.Calls = o.Calls[:i+1]
		o.Calls[i].gone, o.Calls[i].saved = true, nil
		o.awaits = true
	default:
		o.Calls = o.Calls[:i]
		o.endGone()
	}
}

// endLoop ends calls that have gone on in tail calls if those cannot include the function that is entered.
func (o *OpenCalls) endLoop(fn reader.FuncID) {
	first, end := tracewrite.TailLoop(len(o.Calls), func(i int) (reader.FuncID, bool) { return o.Calls[i].Fn, o.Calls[i].gone }, fn)
	o.Calls = slices.Delete(o.Calls, first, end)
	for k := first; first < end && k < len(o.Calls); k++ {
		o.Calls[k].saved = nil
	}
}

// endGone ends the innermost calls that have gone on in tail calls.
func (o *OpenCalls) endGone() {
	n := len(o.Calls)
	for n > 0 && o.Calls[n-1].gone {
		n--
	}
	o.Calls, o.awaits = o.Calls[:n], false
}

// cutRecords returns the records that enter calls, and their number.
func cutRecords(calls []EnteredCall, outer []reader.FuncID) (records []byte, n uint32) {
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
		add(c.Fn, kind)
		for _, a := range c.args {
			records = tracewrite.AppendRecord(records, &FDR5, &reader.Record{Kind: reader.CallArgument, Value: a})
		}
		if c.gone {
			add(c.Fn, FunctionTail)
		}
	}
	return records, n
}

// EdgeBlock returns a block with events of a thread at a TSC, and records of that time.
func EdgeBlock(t *Thread, seconds uint64, micros uint32, cpu uint16, tsc uint64, payloads [][]byte, records []byte) []byte {
	var b []byte
	put := func(r reader.Record) { b = tracewrite.AppendRecord(b, &FDR5, &r) }
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

// CutBlock returns the block that enters the calls of a thread which are open at a TSC, or nil if the
// thread has no earlier records.
func (o *OpenCalls) CutBlock(t *Thread, since uint64, calls []EnteredCall) []byte {
	records, n := cutRecords(calls, o.Outer)
	if n == 0 && o.Last == 0 {
		return nil
	}
	return EdgeBlock(t, 0, 0, o.CPU, since, [][]byte{reader.AppendCut(nil, reader.Cut{Records: n, Since: o.Last})}, records)
}
