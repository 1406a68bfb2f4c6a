package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// Sched has the kernel's scheduler events of the process's threads, and of the tasks that ran
// while they waited. It is empty unless scheduler events were recorded.
type Sched struct {
	// Parts are in file order. Their events may overlap in time.
	Parts []SchedPart
	// Tasks are the tasks that events refer to. Task 1 is Tasks[0].
	Tasks []Task
}

// SchedPart is a group of scheduler events that were recorded together.
type SchedPart struct {
	// From and To are the TSCs between which all events of the process's threads are in the
	// trace, unless some were lost.
	From, To uint64
	// Lost is an upper bound of the number of missing events of any task between From and To.
	Lost   uint64
	Origin SchedOrigin
	Events []SchedEvent // in file order, which may differ from time order
}

// SchedOrigin says where events are from.
type SchedOrigin uint32

const (
	SchedTracefs SchedOrigin = 1 // the recorder read them from tracefs
	SchedMerged  SchedOrigin = 2 // they were merged from the text of another tool
)

// SchedEvent is an event of the kernel's scheduler.
type SchedEvent struct {
	TSC uint64
	// Task was switched out, woke another one, or was interrupted. Other was switched in, was
	// woken, or is the interrupt. Both are numbers of [Sched.Tasks], counted from 1. 0 is an
	// unknown task.
	Task, Other uint32
	CPU         uint16
	Kind        SchedKind
	// State is the letter of the state that the task was switched out in, as ps shows it: R
	// for runnable, S for sleeping, D for uninterruptible. It is 0 for other events.
	State byte
	Flags SchedFlags
}

// SchedKind is the kind of a scheduler event.
type SchedKind uint8

const (
	Switched    SchedKind = 1 // a CPU switched from Task to Other
	Waking      SchedKind = 2 // Task, or an interrupt, made Other runnable
	Interrupted SchedKind = 3 // the interrupt Other began to run on the CPU of Task
	Resumed     SchedKind = 4 // the interrupt Other ended, and Task or an outer interrupt continued
)

// SchedFlags say more about a scheduler event.
type SchedFlags uint32

const (
	// WokenByInterrupt says that an interrupt woke the task. Task is only what it interrupted.
	WokenByInterrupt SchedFlags = 1
	// WokenBySoftIRQ says the same of the deferred part of an interrupt, such as a timer or
	// the network. It may also run on behalf of Task.
	WokenBySoftIRQ SchedFlags = 2
	// Preempted says that the task was switched out inside the kernel, although it was
	// runnable.
	Preempted SchedFlags = 4
	// Unreported says that the kernel did not report the switch. Other ran afterwards, and TSC
	// is the earliest possible time.
	Unreported SchedFlags = 8
)

// Task is a thread of any process, as the kernel knows it, or an interrupt. A thread that changed
// its name is several tasks.
type Task struct {
	PID  int32 // of its process; 0 if unknown
	TID  int32 // 0 for the idle tasks of all CPUs; for interrupts, see [InterruptTID]
	Name string
}

// InterruptClass is a class of interrupts. Each class has its own meaning of numbers.
type InterruptClass uint8

const (
	DeviceInterrupt InterruptClass = 1 // the number is that of /proc/interrupts
	SoftIRQ         InterruptClass = 2 // the deferred part of interrupts; the number is the vector
	SystemInterrupt InterruptClass = 3 // of timers and of other CPUs; the number is the vector
)

const interruptNumberBits = 24

// InterruptTID returns the thread ID that stands for an interrupt in [Task]. It is below -1.
func InterruptTID(class InterruptClass, number uint32) int32 {
	return -int32(uint32(class)<<interruptNumberBits | number&(1<<interruptNumberBits-1))
}

// Interrupt returns the class and the number of the interrupt that the task stands for. It
// returns false for tasks.
func (t *Task) Interrupt() (class InterruptClass, number uint32, ok bool) {
	n := uint32(-int64(t.TID))
	class, number = InterruptClass(n>>interruptNumberBits), n&(1<<interruptNumberBits-1)
	ok = t.TID < -1 && class >= DeviceInterrupt && class <= SystemInterrupt
	return class, number, ok
}

// InterruptLabel returns the name that reports use for the interrupt that the task stands for, or
// "" for tasks.
func (t *Task) InterruptLabel() string {
	class, number, ok := t.Interrupt()
	name := t.Name
	switch {
	case !ok:
		return ""
	case class == DeviceInterrupt && name != "":
		return fmt.Sprintf("interrupt %d (%s)", number, name)
	case name == "":
		name = strconv.FormatUint(uint64(number), 10)
	}
	if class == SoftIRQ {
		return "softirq " + name
	}
	return "interrupt " + name
}

// Events is the number of scheduler events.
func (s *Sched) Events() (n uint64) {
	for i := range s.Parts {
		n += uint64(len(s.Parts[i].Events))
	}
	return n
}

// Interrupts is the number of interrupts that began.
func (s *Sched) Interrupts() (n uint64) {
	for i := range s.Parts {
		for k := range s.Parts[i].Events {
			if s.Parts[i].Events[k].Kind == Interrupted {
				n++
			}
		}
	}
	return n
}

// Lost is an upper bound of the number of missing scheduler events.
func (s *Sched) Lost() (n uint64) {
	for i := range s.Parts {
		n += s.Parts[i].Lost
	}
	return n
}

// Span returns the TSCs between which the trace has scheduler events, or zeros if it has none.
func (s *Sched) Span() (from, to uint64) {
	for i := range s.Parts {
		p := &s.Parts[i]
		if i == 0 || p.From < from {
			from = p.From
		}
		to = max(to, p.To)
	}
	return from, to
}

// Task returns a task by its number. It returns an unknown task for numbers without one.
func (s *Sched) Task(n uint32) Task {
	if n == 0 || uint64(n) > uint64(len(s.Tasks)) {
		return Task{PID: 0, TID: -1}
	}
	return s.Tasks[n-1]
}

const (
	schedHeadSize  = 32
	schedEventSize = 24
	taskHeadSize   = 8
	taskSize       = 24
	taskNameSize   = 16
	// maxSchedEvents and maxTasks limit the memory of a trace's events: 384 and 48 MB.
	maxSchedEvents = 1 << 24
	maxSchedParts  = 1 << 18
	maxTasks       = 1 << 20
	// taskGap is the largest number of missing tasks between two tables. Tables beyond a larger
	// gap are refused.
	taskGap = 4096
	// SchedPartEvents is the maximum number of events that a writer puts into one part.
	SchedPartEvents = 1 << 15
)

// addSched reads the body of a metadata event.
func (r *Recording) addSched(body []byte) error {
	le := binary.LittleEndian
	if len(body) < schedHeadSize {
		return errors.New("scheduler events without a header")
	}
	p := SchedPart{From: le.Uint64(body), To: le.Uint64(body[8:]), Lost: le.Uint64(body[16:]), Origin: SchedOrigin(le.Uint32(body[24:]))}
	n, rows := uint64(le.Uint32(body[28:])), body[schedHeadSize:]
	if p.To < p.From {
		return fmt.Errorf("scheduler events that begin at TSC %d end at %d", p.From, p.To)
	}
	var err error
	if there := uint64(len(rows) / schedEventSize); n != there {
		err = fmt.Errorf("a table declares %d scheduler events but contains %d", n, there)
		n = min(n, there)
	}
	if room := maxSchedEvents - r.Sched.Events(); n > room {
		err = fmt.Errorf("more than %d scheduler events", maxSchedEvents)
		n = room
	}
	if len(r.Sched.Parts) == maxSchedParts {
		return fmt.Errorf("more than %d parts of scheduler events", maxSchedParts)
	}
	if n == 0 && err != nil {
		return err
	}
	p.Events = make([]SchedEvent, 0, n)
	for i := range n {
		e := rows[schedEventSize*i:]
		event := SchedEvent{
			TSC: le.Uint64(e), Task: le.Uint32(e[8:]), Other: le.Uint32(e[12:]), CPU: le.Uint16(e[16:]),
			Kind: SchedKind(e[18]), State: e[19], Flags: SchedFlags(le.Uint32(e[20:])),
		}
		switch {
		case event.Kind < Switched || event.Kind > Resumed:
			err = fmt.Errorf("scheduler event of unknown kind %d", event.Kind)
		case event.State != 0 && (event.State < 'A' || event.State > 'z'):
			err = fmt.Errorf("scheduler event with invalid state %d", event.State)
		default:
			p.Events = append(p.Events, event)
			continue
		}
		p.Lost++
	}
	r.Sched.Parts = append(r.Sched.Parts, p)
	return err
}

// AppendSched appends a part as the body of a metadata event of kind [MetadataSched].
func AppendSched(b []byte, p *SchedPart) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, p.From)
	b = le.AppendUint64(b, p.To)
	b = le.AppendUint64(b, p.Lost)
	b = le.AppendUint32(b, uint32(p.Origin))
	b = le.AppendUint32(b, uint32(len(p.Events)))
	for i := range p.Events {
		e := &p.Events[i]
		b = le.AppendUint64(b, e.TSC)
		b = le.AppendUint32(b, e.Task)
		b = le.AppendUint32(b, e.Other)
		b = le.AppendUint16(b, e.CPU)
		b = append(b, byte(e.Kind), e.State)
		b = le.AppendUint32(b, uint32(e.Flags))
	}
	return b
}

// addTasks reads the body of a metadata event.
func (r *Recording) addTasks(body []byte) error {
	le := binary.LittleEndian
	if len(body) < taskHeadSize {
		return errors.New("tasks without a header")
	}
	first, n, rows := uint64(le.Uint32(body)), uint64(le.Uint32(body[4:])), body[taskHeadSize:]
	if first < 1 || first+n > maxTasks+1 {
		return fmt.Errorf("%d tasks from number %d on exceed the range 1 to %d", n, first, maxTasks)
	}
	var err error
	if there := uint64(len(rows) / taskSize); n != there {
		err = fmt.Errorf("a table declares %d tasks but contains %d", n, there)
		n = min(n, there)
	}
	if next := uint64(len(r.Sched.Tasks)) + 1; first > next {
		err = fmt.Errorf("no tasks with the numbers %d to %d", next, first-1)
		if first-next > taskGap {
			return err
		}
	}
	for i := range n {
		row := rows[taskSize*i:]
		name, _, _ := bytes.Cut(row[8:taskSize], []byte{0})
		task := Task{PID: int32(le.Uint32(row)), TID: int32(le.Uint32(row[4:])), Name: string(name)}
		for uint64(len(r.Sched.Tasks)) < first+i {
			r.Sched.Tasks = append(r.Sched.Tasks, Task{TID: -1})
		}
		r.Sched.Tasks[first+i-1] = task
	}
	return err
}

// AppendTasks appends tasks as the body of a metadata event of kind [MetadataTasks]. The
// first of them has the number first. Names are cut to 16 bytes.
func AppendTasks(b []byte, first uint32, tasks []Task) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, first)
	b = le.AppendUint32(b, uint32(len(tasks)))
	for i := range tasks {
		var name [taskNameSize]byte
		copy(name[:], tasks[i].Name)
		b = le.AppendUint32(b, uint32(tasks[i].PID))
		b = append(le.AppendUint32(b, uint32(tasks[i].TID)), name[:]...)
	}
	return b
}

func (r *Recording) taskBodies(add func([]byte)) {
	for first := 0; first < len(r.Sched.Tasks); first += taskGap {
		add(AppendTasks(nil, uint32(first+1), r.Sched.Tasks[first:min(first+taskGap, len(r.Sched.Tasks))]))
	}
}

func (r *Recording) schedBodies(add func([]byte)) {
	for i := range r.Sched.Parts {
		add(AppendSched(nil, &r.Sched.Parts[i]))
	}
}
