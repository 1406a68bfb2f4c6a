// Package kernel collects the kernel's scheduler events: from the tracing file system while a
// program runs ([Open]), or from the text of perf script and of the kernel's tracer
// ([ParseText]). A [Tracker] selects, from the events of a whole machine, those that belong in
// the traces of some processes.
package kernel

import "bytes"

// Comm is the name of a task, padded with zeros.
type Comm [16]byte

// String returns the name without its padding.
func (c Comm) String() string {
	text, _, _ := bytes.Cut(c[:], []byte{0})
	return string(text)
}

// Kind is the kind of an event.
type Kind uint8

// The kinds of events.
const (
	Switch      Kind = iota + 1 // Task was switched out, Other switched in
	Waking                      // Task made Other runnable
	Fork                        // Task created Other
	Interrupted                 // the interrupt Other began while Task ran
	Resumed                     // the interrupt Other ended
)

// Event is an event of the kernel's scheduler, or of an interrupt.
type Event struct {
	Time        uint64 // in the units of the trace's clock
	Task, Other int32  // thread IDs; those of interrupts are of reader.InterruptTID
	// Names. Waking events do not have the name of Task, so it is empty.
	TaskComm, OtherComm Comm
	CPU                 uint16
	Kind                Kind
	State               byte // the letter of the state that Task was switched out in
	Preempted           bool // inside the kernel
	Interrupt, SoftIRQ  bool // the event happened in an interrupt, or in the deferred part of one
}

// Flags of events, as the kernel has them.
const (
	inHardIRQ = 0x08
	inSoftIRQ = 0x10
)
