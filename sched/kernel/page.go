package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// pageDecoder decodes pages of the kernel's ring buffer, as trace_pipe_raw has them. It is safe
// for concurrent use.
type pageDecoder struct {
	data        int // offset of the data in a page
	commit      field
	typ, flags  field // common to all events
	pid         field
	switchID    uint16
	wakingID    uint16
	forkID      uint16
	prevPID     field
	prevComm    field
	prevState   field
	nextPID     field
	nextComm    field
	wokenPID    field
	wokenComm   field
	parentPID   field
	childPID    field
	childComm   field
	letters     [64]byte // of states, by bit
	stateBits   uint64
	preemptFlag uint64
	interrupts  map[uint16]*interruptEvent // by the event's ID
}

// newPageDecoder makes a decoder from the content of the files events/header_page and
// events/sched/*/format.
func newPageDecoder(headerPage, switchFormat, wakingFormat, forkFormat string) (*pageDecoder, error) {
	header, err := parseFormat("ID: 1\n" + headerPage)
	if err != nil {
		return nil, err
	}
	var formats [3]*eventFormat
	for i, text := range []string{switchFormat, wakingFormat, forkFormat} {
		if formats[i], err = parseFormat(text); err != nil {
			return nil, err
		}
	}
	d := &pageDecoder{switchID: formats[0].ID, wakingID: formats[1].ID, forkID: formats[2].ID}
	page, err0 := header.need("commit", "data")
	common, err1 := formats[0].need("common_type", "common_flags", "common_pid")
	sw, err2 := formats[0].need("prev_pid", "prev_comm", "prev_state", "next_pid", "next_comm")
	wake, err3 := formats[1].need("pid", "comm")
	fork, err4 := formats[2].need("parent_pid", "child_pid", "child_comm")
	if err := errors.Join(err0, err1, err2, err3, err4); err != nil {
		return nil, err
	}
	d.commit, d.data = page[0], page[1].offset
	d.typ, d.flags, d.pid = common[0], common[1], common[2]
	d.prevPID, d.prevComm, d.prevState, d.nextPID, d.nextComm = sw[0], sw[1], sw[2], sw[3], sw[4]
	d.wokenPID, d.wokenComm = wake[0], wake[1]
	d.parentPID, d.childPID, d.childComm = fork[0], fork[1], fork[2]
	letters, preempted := formats[0].states()
	if len(letters) == 0 {
		return nil, errors.New("the states of tasks have no names")
	}
	for bit, letter := range letters {
		d.stateBits |= bit
		d.letters[bits.TrailingZeros64(bit)] = letter
	}
	d.preemptFlag = preempted
	return d, nil
}

// Types of page entries that are not events.
const (
	typePadding    = 29
	typeTimeExtend = 30
	typeTimeStamp  = 31

	deltaBits     = 27
	commitMask    = 1<<deltaBits - 1
	missedEvents  = 1 << 31
	missedCounted = 1 << 30
	absoluteBits  = 59
)

// Page calls each with the events of a page of a CPU. The event is valid during the call. Page
// returns how many events are missing before the page, which is at least 1 if some are.
func (d *pageDecoder) Page(page []byte, cpu uint16, each func(*Event)) (lost uint64, err error) {
	le := binary.LittleEndian
	if len(page) < d.data || len(page) < 8 {
		return 0, fmt.Errorf("a page of %d bytes has no header", len(page))
	}
	e := Event{CPU: cpu, Time: le.Uint64(page)}
	commit := d.commit.uint(page)
	data := page[d.data:]
	size := commit & commitMask
	if size > uint64(len(data)) {
		return 0, fmt.Errorf("%d bytes of events in a page of %d", size, len(data))
	}
	if commit&missedEvents != 0 {
		lost = 1
		if rest := data[size:]; commit&missedCounted != 0 && len(rest) >= 8 {
			lost = max(1, le.Uint64(rest))
		}
	}
	for data = data[:size]; len(data) >= 4; {
		head := le.Uint32(data)
		kind, delta := head&31, uint64(head>>5)
		data = data[4:]
		length := uint64(kind) * 4
		switch kind {
		case typePadding:
			if delta == 0 {
				return lost, nil // nothing follows
			}
			if len(data) < 4 {
				return lost, errShort
			}
			length = uint64(le.Uint32(data))
		case typeTimeExtend, typeTimeStamp:
			if len(data) < 4 {
				return lost, errShort
			}
			delta |= uint64(le.Uint32(data)) << deltaBits
			length = 4
		case 0:
			if len(data) < 4 || le.Uint32(data) < 4 {
				return lost, errShort
			}
			length = (uint64(le.Uint32(data)) - 4 + 3) &^ 3
			data = data[4:]
		}
		if length > uint64(len(data)) {
			return lost, errShort
		}
		if kind == typeTimeStamp {
			e.Time = absolute(delta, e.Time)
		} else {
			e.Time += delta
		}
		if kind < typePadding && d.event(&e, data[:length]) {
			each(&e)
		}
		data = data[length:]
	}
	return lost, nil
}

var errShort = errors.New("an event crosses the end of its page")

// absolute completes a time whose highest bits are missing.
func absolute(t, last uint64) uint64 {
	t |= last &^ (1<<absoluteBits - 1)
	if t < last {
		t += 1 << absoluteBits
	}
	return t
}

// event decodes an event, and reports whether it is one of the scheduler or of an interrupt.
func (d *pageDecoder) event(e *Event, b []byte) bool {
	if len(b) < d.typ.offset+d.typ.size {
		return false
	}
	flags := d.flags.uint(b)
	e.State, e.Preempted = 0, false
	e.Interrupt, e.SoftIRQ = flags&inHardIRQ != 0, flags&inSoftIRQ != 0
	e.TaskComm = Comm{}
	switch id := uint16(d.typ.uint(b)); id {
	case d.switchID:
		e.Kind, e.Task, e.Other = Switch, d.prevPID.int32(b), d.nextPID.int32(b)
		e.TaskComm, e.OtherComm = d.prevComm.comm(b), d.nextComm.comm(b)
		state := d.prevState.uint(b)
		e.State, e.Preempted = d.state(state), state&d.preemptFlag != 0
	case d.wakingID:
		e.Kind, e.Task, e.Other, e.OtherComm = Waking, d.pid.int32(b), d.wokenPID.int32(b), d.wokenComm.comm(b)
	case d.forkID:
		e.Kind, e.Task, e.Other, e.OtherComm = Fork, d.parentPID.int32(b), d.childPID.int32(b), d.childComm.comm(b)
	default:
		i := d.interrupts[id]
		if i == nil {
			return false
		}
		i.decode(d, e, b)
	}
	return true
}

// state returns the letter of a state, R for runnable.
func (d *pageDecoder) state(state uint64) byte {
	state &= d.stateBits
	if state == 0 {
		return 'R'
	}
	return d.letters[bits.TrailingZeros64(state)]
}
