package reader

import (
	"encoding/binary"
	"math"
)

// FuncID identifies a function in a trace: it is the 1-based position of the function in
// its object's instrumentation map. In traces of the LLVM 20 runtime and later, the top 8
// bits are the object number and the low 24 bits the function, so IDs may be negative. 0 is
// never a function.
type FuncID int32

// Folded replaces the functions of call paths for which an analysis had no memory. No
// function has this ID.
const Folded FuncID = -1 << 31

// The first of these functions stand for whatever ended a wait, in call paths that continue with the path of
// the waker. No real function has these IDs.
const (
	WakerThread    FuncID = -0x7f << 24 // a thread of the process, whose innermost function follows
	WakerProcess   FuncID = -0x7e << 24
	WakerInterrupt FuncID = -0x7d << 24
	// ValueFrame and those after it stand for values of arguments or results, in paths divided by these.
	ValueFrame FuncID = -0x7c << 24
)

// These functions stand for requests and their waits, where requests are shown as calls. No real function has
// these IDs.
const (
	Request         FuncID = Folded + 1
	Suspended       FuncID = Folded + 2 // the request could not go on
	ExecutorAwaited FuncID = Folded + 3 // it could go on, and waited for its thread
	ExecutorAtMost  FuncID = Folded + 4 // likewise, or it could not go on: that is unknown
	OtherRequest    FuncID = Folded + 5 // its thread worked on another one
)

// Kind is the kind of an [Event]. The values are those of LLVM's RecordTypes, and the first
// four are the kinds of function records on disk.
type Kind uint8

const (
	Enter    Kind = iota // a function was entered
	Exit                 // a function returned
	TailExit             // a function left through a tail call
	EnterArg             // a function was entered, and its arguments were logged
	Custom               // __xray_customevent
	Typed                // __xray_typedevent
)

// String gives the name that trace YAML uses.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

var kindNames = [...]string{
	"function-enter", "function-exit", "function-tail-exit", "function-enter-arg",
	"custom-event", "typed-event",
}

// IsEnter reports whether the event opens a call.
func (k Kind) IsEnter() bool { return k == Enter || k == EnterArg }

// IsExit reports whether the event ends a call.
func (k Kind) IsExit() bool { return k == Exit || k == TailExit }

// Event is one decoded record. It has no pointers, so blocks of events cost the garbage
// collector nothing. Arguments and payloads are in side tables of the [Block].
type Event struct {
	TSC  uint64 // timestamp in ticks of Header.CycleFrequency
	Func FuncID // of a custom or typed event: the function of the record before it
	CPU  uint16 // 0 if the recorder had only an emulated clock
	Kind Kind
	Side bool // the block holds arguments or a payload for this event
}

// Thread identifies a thread of one of the traces that are read together.
type Thread struct {
	File    int32 // position of the trace on the command line, from 0
	Process int32 // process ID; 0 if the format does not record it
	Thread  int32 // thread id, or that of a fiber: see Fiber
}

// firstFiber is the ID of a thread that stands for fiber 0. The kernel's IDs are smaller.
const firstFiber = 1 << 24

// Fiber returns the number of the fiber that t stands for, or 0 if t is a thread. A fiber is a stack that a thread
// of a process switches to, other than its own.
func (t Thread) Fiber() int32 { return max(0, t.Thread-firstFiber) }

// OfFiber returns what stands for a fiber of the process of t. Numbers are from 1, and other ones are of t itself.
func (t Thread) OfFiber(number uint32) Thread {
	if 0 < number && number < math.MaxInt32-firstFiber {
		t.Thread = firstFiber + int32(number)
	}
	return t
}

// Block is a run of one thread's events, in the order in which the thread recorded them.
// The reader owns all of it: a block is valid only until the function it was passed to
// returns, or until the next iteration.
type Block struct {
	Thread Thread
	// Index numbers the threads of the trace from 0 without gaps, so that consumers can
	// keep per-thread data in slices. It is the same in all passes over a [Trace]. It
	// implies no order.
	Index  int
	Offset int64 // of the first record in the file, after decompression; -1 for trace YAML and in TimeOrder
	Events []Event
	// Packed has the events instead of Events in some blocks of [Trace.EachPacked].
	Packed Packed
	// Ended is set in a block of [Trace.EachPacked] without events, after the last one of
	// its thread, so that consumers can free what they keep for it. Only FDR logs have such
	// blocks, because in other formats a thread may appear again.
	Ended bool
	// Args has the logged arguments in the order of their events. An event may have
	// several.
	Args []Arg
	// Payloads has the payloads of custom and typed events, in order.
	Payloads []Payload

	// place is the position of the block among those of other threads, in formats that mix
	// the records of threads.
	place int64
}

// Arg is one logged argument.
type Arg struct {
	Event int // index in Block.Events
	Value uint64
}

// Payload is the payload of a custom or typed event.
type Payload struct {
	Event int    // index in Block.Events
	Type  uint16 // of a typed event
	Data  []byte // owned by the block
}

// Packed is a run of entries, exits and tail exits, none with arguments, as they are in
// little-endian logs. Consumers that can use it avoid a copy in memory.
//
// In FDR logs, a record has 8 bytes: bits 1 to 3 are the kind, bits 4 to 31 the function,
// and bits 32 to 63 the ticks since the previous record. In basic logs, it has 32 bytes:
// byte 3 is the kind, bytes 4 to 7 are the function, and bytes 8 to 15 the TSC.
type Packed struct {
	Records []byte // whole records; may be part of a mapped file
	Basic   bool   // records of a basic log
	TSC     uint64 // FDR: of the record before the first
	Last    uint64 // FDR: of the last record
	CPU     uint16 // FDR
}

// first is the TSC of the first event.
func (b *Block) first() uint64 {
	switch p := &b.Packed; {
	case p.Len() == 0:
		return b.Events[0].TSC
	case p.Basic:
		return binary.LittleEndian.Uint64(p.Records[8:])
	default:
		return p.TSC + binary.LittleEndian.Uint64(p.Records)>>32
	}
}

// Times returns the smallest and the largest TSC of the events, of which there must be some.
func (b *Block) Times() (least, most uint64) {
	least = b.first()
	most = least
	for i := range b.Events {
		least, most = min(least, b.Events[i].TSC), max(most, b.Events[i].TSC)
	}
	p := b.Packed
	if !p.Basic {
		return least, max(most, p.Last)
	}
	for ; len(p.Records) > 0; p.Records = p.Records[basicRecordSize:] {
		tsc := binary.LittleEndian.Uint64(p.Records[8:])
		least, most = min(least, tsc), max(most, tsc)
	}
	return least, most
}

// First returns the first event, of at least one.
func (p *Packed) First() Event {
	w := binary.LittleEndian.Uint64(p.Records)
	if p.Basic {
		return Event{
			TSC: binary.LittleEndian.Uint64(p.Records[8:]), Func: FuncID(w >> 32),
			CPU: uint16(w >> 16 & 0xff), Kind: Kind(w >> 24 & 0xff),
		}
	}
	return Event{
		TSC: p.TSC + w>>32, Func: FuncID(uint32(w) >> 4), CPU: p.CPU, Kind: Kind(w >> 1 & 7),
	}
}

// DropFirst removes the first event, which is at tsc.
func (p *Packed) DropFirst(tsc uint64) {
	p.TSC = tsc
	if p.Basic {
		p.Records = p.Records[basicRecordSize:]
	} else {
		p.Records = p.Records[8:]
	}
}

// Len is the number of events.
func (p *Packed) Len() int {
	if p.Basic {
		return len(p.Records) / basicRecordSize
	}
	return len(p.Records) / functionSize
}

// Functions sets seen for the functions that are entered, by ID, and calls other for those beyond it.
func (b *Block) Functions(seen []bool, other func(FuncID)) {
	see := func(kind Kind, fn FuncID) {
		if !kind.IsEnter() {
			return
		}
		if uint32(fn) < uint32(len(seen)) {
			seen[fn] = true
		} else {
			other(fn)
		}
	}
	for i := range b.Events {
		see(b.Events[i].Kind, b.Events[i].Func)
	}
	p := &b.Packed
	if p.Basic {
		for r := p.Records; len(r) > 0; r = r[basicRecordSize:] {
			w := binary.LittleEndian.Uint64(r)
			see(Kind(w>>24&0xff), FuncID(w>>32))
		}
		return
	}
	for i := 0; i < len(p.Records); i += functionSize {
		w := binary.LittleEndian.Uint32(p.Records[i:])
		if fn := w >> 4; fn < uint32(len(seen)) {
			seen[fn] = seen[fn] || Kind(w>>1&7) == Enter // the processor predicts the former
		} else {
			see(Kind(w>>1&7), FuncID(fn))
		}
	}
}
