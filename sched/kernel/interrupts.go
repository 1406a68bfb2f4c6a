package kernel

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
)

// interruptEvent is how to decode the events of one kind that begin or end interrupts.
type interruptEvent struct {
	kind   Kind
	class  reader.InterruptClass
	number field
	name   field           // of the device, in events that begin its interrupts
	fixed  Comm            // the name of all interrupts of this event, or empty
	names  map[uint64]Comm // by number, or nil
}

// interruptEvents are the events by the names of their directories in events, without "_entry" and
// "_exit". Not every kernel has all of them.
var interruptEvents = [...]struct {
	path   string
	class  reader.InterruptClass
	number string
	name   string // of system interrupts, at most 16 bytes
}{
	{"irq/irq_handler", reader.DeviceInterrupt, "irq", ""},
	{"irq/softirq", reader.SoftIRQ, "vec", ""},
	{"irq_vectors/local_timer", reader.SystemInterrupt, "vector", "local_timer"},
	{"irq_vectors/reschedule", reader.SystemInterrupt, "vector", "reschedule"},
	{"irq_vectors/call_function", reader.SystemInterrupt, "vector", "call_function"},
	{"irq_vectors/call_function_single", reader.SystemInterrupt, "vector", "call_single"},
	{"irq_vectors/irq_work", reader.SystemInterrupt, "vector", "irq_work"},
	{"irq_vectors/thermal_apic", reader.SystemInterrupt, "vector", "thermal_apic"},
	{"irq_vectors/x86_platform_ipi", reader.SystemInterrupt, "vector", "x86_platform_ipi"},
}

// InterruptName describes the interrupt events of one name.
type InterruptName struct {
	Kind  Kind // Interrupted or Resumed
	Class reader.InterruptClass
	Fixed Comm // the name of the interrupt, if all events of this name have the same
}

// namedInterrupt describes the events of a name such as irq_handler_entry. It returns false for
// events that neither begin nor end interrupts.
func namedInterrupt(event string) (InterruptName, bool) {
	n := InterruptName{Kind: Interrupted}
	base, begins := strings.CutSuffix(event, "_entry")
	if !begins {
		n.Kind = Resumed
		ends := false
		if base, ends = strings.CutSuffix(event, "_exit"); !ends {
			return InterruptName{}, false
		}
	}
	for i := range interruptEvents {
		spec := &interruptEvents[i]
		if path.Base(spec.path) == base {
			n.Class = spec.class
			copy(n.Fixed[:], spec.name)
			return n, true
		}
	}
	return InterruptName{}, false
}

// addInterrupt makes the decoder decode an event of interruptEvents. The text is its format.
func (d *pageDecoder) addInterrupt(index int, kind Kind, text string) error {
	f, err := parseFormat(text)
	if err != nil {
		return err
	}
	spec := &interruptEvents[index]
	number, err := f.need(spec.number)
	if err != nil {
		return err
	}
	e := interruptEvent{kind: kind, class: spec.class, number: number[0]}
	switch spec.class {
	case reader.SoftIRQ:
		e.names = f.symbols()
	case reader.SystemInterrupt:
		copy(e.fixed[:], spec.name)
	default:
		e.name = f.fields["name"]
	}
	if d.interrupts == nil {
		d.interrupts = make(map[uint16]*interruptEvent)
	}
	if d.interrupts[f.ID] != nil {
		return fmt.Errorf("two events have the ID %d", f.ID)
	}
	d.interrupts[f.ID] = &e
	return nil
}

var symbol = regexp.MustCompile(`\{\s*(\d+),\s*"([^"]*)"\s*\}`)

// symbols returns the names that the text form of the event has for numbers.
func (f *eventFormat) symbols() map[uint64]Comm {
	names := make(map[uint64]Comm)
	for _, m := range symbol.FindAllStringSubmatch(f.print, -1) {
		if n, err := strconv.ParseUint(m[1], 10, 32); err == nil {
			var name Comm
			copy(name[:], m[2])
			names[n] = name
		}
	}
	return names
}

// decode decodes an event.
func (i *interruptEvent) decode(d *pageDecoder, e *Event, b []byte) {
	number := i.number.uint(b)
	e.Kind, e.Task, e.Other = i.kind, d.pid.int32(b), reader.InterruptTID(i.class, uint32(number))
	switch {
	case i.names != nil:
		e.OtherComm = i.names[number]
	case i.name.size > 0:
		e.OtherComm = i.name.comm(b)
	default:
		e.OtherComm = i.fixed
	}
}
