package kernel

import (
	"cmp"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Tracker follows the threads of processes. It is not safe for concurrent use.
//
// It keeps the switches to and from the threads, their interrupts and their wake-ups. While a
// thread waits for a CPU, it also remembers the switches of all CPUs, and keeps those of tasks
// that turn out to have run in the thread's place.
type Tracker struct {
	// ProcessOf returns the process of a thread, or 0 if it is no longer known.
	ProcessOf func(tid int32) int32
	// NameOf returns the name of a thread, or "" if it is no longer known.
	NameOf func(tid int32) string
	// Most limits the events that wait to be taken, of each process that is claimed: earlier
	// ones are dropped.
	Most int

	own       map[int32]*thread
	processes map[int32]*process
	current   []current // by CPU
	pids      map[int32]int32
	// interrupts are the latest names of interrupts.
	interrupts map[int32]Comm
	waiting    int            // own threads that wait for a CPU
	backlog    [][]remembered // by CPU
	from       uint64         // events were read from here on
	lost       uint64
	kept       uint64
}

// thread is a thread of a process that is followed.
type thread struct {
	tid     int32
	process int32
	waits   bool   // for a CPU
	since   uint64 // when it began to wait
	out     int    // the CPU that it was switched out on while runnable, or -1
}

// current is the task that runs on a CPU.
type current struct {
	tid   int32
	comm  Comm
	since uint64
	is    bool // known
}

// remembered is a switch that may have been in the place of a thread.
type remembered struct {
	Event
	kept [2]int32 // the processes that have it anyway
}

// process holds the events to write for a process.
type process struct {
	threads int  // that live
	claimed bool // somebody will take the events
	idle    bool // nobody wanted them at the last Sweep
	numbers map[taskKey]uint32
	tasks   []reader.Task // by number, from 1
	from    uint64
	lost    uint64 // at the last Take, or when the process began
	events  []reader.SchedEvent
	// instead is the time up to which the switches of a CPU were kept for a thread that waited.
	instead map[int]uint64
}

type taskKey struct {
	tid  int32
	comm Comm
}

// NewTracker returns a tracker that follows no process. Events are complete from the time from.
func NewTracker(from uint64) *Tracker {
	return &Tracker{
		ProcessOf: func(int32) int32 { return 0 }, NameOf: func(int32) string { return "" }, Most: 1 << 20,
		own: make(map[int32]*thread), processes: make(map[int32]*process), pids: make(map[int32]int32),
		interrupts: make(map[int32]Comm), from: from,
	}
}

// Follow begins to follow a thread, and those that it creates from then on.
func (t *Tracker) Follow(pid, tid int32) { t.follow(pid, tid, t.from) }

func (t *Tracker) follow(pid, tid int32, from uint64) {
	if t.own[tid] != nil {
		return
	}
	t.own[tid] = &thread{tid: tid, process: pid, out: -1}
	t.pids[tid] = pid
	p := t.processes[pid]
	if p == nil {
		p = &process{numbers: make(map[taskKey]uint32), from: from, lost: t.lost, instead: make(map[int]uint64)}
		t.processes[pid] = p
	}
	p.threads++
}

// Kept returns the number of events so far that belong to processes that are followed.
func (t *Tracker) Kept() uint64 { return t.kept }

// Lose notes that events are missing.
func (t *Tracker) Lose(n uint64) { t.lost += n }

// Add takes the next event. Events have to come roughly in the order of time.
func (t *Tracker) Add(e *Event) {
	switch e.Kind {
	case Fork:
		t.fork(e)
	case Waking:
		t.waking(e)
	case Switch:
		t.switched(e)
	case Interrupted:
		t.interrupt(e, reader.Interrupted)
	case Resumed:
		t.interrupt(e, reader.Resumed)
	}
}

// interrupt keeps the interrupts of the threads.
func (t *Tracker) interrupt(e *Event, kind reader.SchedKind) {
	th := t.own[e.Task]
	if th == nil {
		return
	}
	// Events that end an interrupt do not name the device.
	name := e.OtherComm
	if kind == reader.Interrupted {
		t.interrupts[e.Other] = name
	} else if name == (Comm{}) {
		name = t.interrupts[e.Other]
	}
	p := t.processes[th.process]
	p.add(t, reader.SchedEvent{
		TSC: e.Time, CPU: e.CPU, Kind: kind, Task: p.number(t, e.Task, t.comm(e)), Other: p.number(t, e.Other, name),
	})
}

func (t *Tracker) fork(e *Event) {
	delete(t.pids, e.Other)
	parent := t.own[e.Task]
	if parent == nil {
		return
	}
	if old := t.own[e.Other]; old != nil {
		t.leave(old)
	}
	pid := t.ProcessOf(e.Other)
	if pid == 0 {
		pid = parent.process
	}
	t.follow(pid, e.Other, e.Time)
	t.own[e.Other].wait(t, e.Time, -1)
}

func (th *thread) wait(t *Tracker, since uint64, out int) {
	if !th.waits {
		t.waiting++
	}
	th.waits, th.since, th.out = true, since, out
}

func (th *thread) ran(t *Tracker) {
	if th.waits {
		t.waiting--
	}
	th.waits = false
	if t.waiting == 0 {
		for i := range t.backlog {
			t.backlog[i] = t.backlog[i][:0]
		}
	}
}

// leave forgets a thread that has ended.
func (t *Tracker) leave(th *thread) {
	th.ran(t)
	delete(t.own, th.tid)
	if p := t.processes[th.process]; p != nil {
		p.threads--
	}
}

func (t *Tracker) waking(e *Event) {
	th := t.own[e.Other]
	if th == nil {
		return
	}
	if !th.waits {
		th.wait(t, e.Time, -1)
	}
	var flags reader.SchedFlags
	if e.Interrupt {
		flags |= reader.WokenByInterrupt
	}
	if e.SoftIRQ {
		flags |= reader.WokenBySoftIRQ
	}
	p := t.processes[th.process]
	p.add(t, reader.SchedEvent{
		TSC: e.Time, CPU: e.CPU, Kind: reader.Waking, Flags: flags,
		Task: p.number(t, e.Task, t.comm(e)), Other: p.number(t, e.Other, e.OtherComm),
	})
}

// comm returns the name of the task that ran at an event. If the event does not have it, it is the one that
// the task had when it was switched in.
func (t *Tracker) comm(e *Event) (comm Comm) {
	if comm = e.TaskComm; comm != (Comm{}) {
		return comm
	}
	if c := t.cpu(min(e.CPU, maxCPU-1)); c.is && c.tid == e.Task {
		return c.comm
	}
	copy(comm[:], t.NameOf(e.Task))
	return comm
}

// maxCPU limits the number of a CPU, as the kernel does.
const maxCPU = 8192

func (t *Tracker) cpu(n uint16) *current {
	for len(t.current) <= int(n) {
		t.current = append(t.current, current{})
		t.backlog = append(t.backlog, nil)
	}
	return &t.current[n]
}

// maxBacklog limits the switches of a CPU that are remembered.
const maxBacklog = 1 << 14

func (t *Tracker) switched(e *Event) {
	if e.CPU >= maxCPU {
		return
	}
	prev, next := t.own[e.Task], t.own[e.Other]
	if prev != nil {
		t.unseen(prev, e)
	}
	*t.cpu(e.CPU) = current{e.Other, e.OtherComm, e.Time, true}
	if next != nil && next.waits {
		t.instead(next, e)
	}
	kept := [2]int32{}
	if prev != nil {
		kept[0] = prev.process
		t.keep(t.processes[prev.process], e, 0)
	}
	if next != nil {
		kept[1] = next.process
		if kept[1] != kept[0] {
			t.keep(t.processes[next.process], e, 0)
		}
		next.ran(t)
	}
	if t.waiting > 0 {
		t.remember(e, kept)
	}
	if prev != nil {
		switch e.State {
		case 'Z', 'X':
			t.leave(prev)
		case 'R':
			prev.wait(t, e.Time, int(e.CPU))
		default:
			prev.ran(t)
		}
	}
}

// unseen adds the switch to a thread that runs on a CPU where the kernel reported no switch to
// it. Some kernels do not report the switches from some tasks, such as the idle task of a CPU. The time
// is the earliest possible one: just after the switch to the task that ran before, because the order of
// events with equal times is not known.
func (t *Tracker) unseen(th *thread, out *Event) {
	c := *t.cpu(out.CPU)
	if !c.is || c.tid == th.tid {
		return
	}
	e := Event{Time: min(c.since+1, out.Time), Kind: Switch, CPU: out.CPU, Task: c.tid, TaskComm: c.comm, State: 'R',
		Other: th.tid, OtherComm: out.TaskComm}
	if th.waits {
		e.Time = max(e.Time, th.since)
		t.instead(th, &e)
	}
	t.keep(t.processes[th.process], &e, reader.Unreported)
	th.ran(t)
}

// remember keeps a switch as long as it may belong to a thread that is waiting.
func (t *Tracker) remember(e *Event, kept [2]int32) {
	list := t.backlog[e.CPU]
	if len(list) == maxBacklog {
		since := ^uint64(0)
		for _, th := range t.own {
			if th.waits {
				since = min(since, th.since)
			}
		}
		list = slices.DeleteFunc(list, func(r remembered) bool { return r.Time < since })
		if over := len(list) - maxBacklog/2; over > 0 {
			list = slices.Delete(list, 0, over)
			t.lost += uint64(over)
		}
	}
	t.backlog[e.CPU] = append(list, remembered{*e, kept})
}

// instead keeps the switches of the CPU that a thread waited for until e switched it in.
func (t *Tracker) instead(th *thread, e *Event) {
	cpu := int(e.CPU)
	if th.out >= 0 {
		cpu = th.out
	}
	p, list := t.processes[th.process], t.backlog[cpu]
	// Other threads of the process may wait for this CPU for longer.
	i, _ := slices.BinarySearchFunc(list, p.instead[cpu], func(r remembered, from uint64) int { return cmp.Compare(r.Time, from) })
	for _, r := range list[i:] {
		if r.kept[0] != th.process && r.kept[1] != th.process {
			t.keep(p, &r.Event, 0)
		}
	}
	p.instead[cpu] = e.Time
}

// keep adds a switch to the events of a process.
func (t *Tracker) keep(p *process, e *Event, flags reader.SchedFlags) {
	if e.Preempted {
		flags |= reader.Preempted
	}
	p.add(t, reader.SchedEvent{
		TSC: e.Time, CPU: e.CPU, Kind: reader.Switched, State: e.State, Flags: flags,
		Task: p.number(t, e.Task, e.TaskComm), Other: p.number(t, e.Other, e.OtherComm),
	})
}

// unclaimedEvents limits the events of a process that nobody claims.
const unclaimedEvents = 1 << 14

func (p *process) add(t *Tracker, e reader.SchedEvent) {
	t.kept++
	most := t.Most
	if !p.claimed {
		most = min(most, unclaimedEvents)
	}
	if len(p.events) >= most {
		half := len(p.events) / 2
		p.from = p.events[half].TSC
		p.events = append(p.events[:0], p.events[half:]...)
	}
	p.events = append(p.events, e)
}

// maxNumbers limits the tasks of a process. Readers accept no more.
const maxNumbers = 1 << 20

// number returns the number of a task in the trace of a process.
func (p *process) number(t *Tracker, tid int32, comm Comm) uint32 {
	key := taskKey{tid, comm}
	if tid == 0 {
		key.comm = Comm{}
	}
	if n := p.numbers[key]; n != 0 {
		return n
	}
	if len(p.numbers) == maxNumbers {
		return 0
	}
	task := reader.Task{TID: tid, Name: comm.String()}
	switch {
	case tid == 0:
		task.Name = "idle"
	case tid > 0:
		task.PID = t.process(tid)
	}
	n := uint32(len(p.numbers) + 1)
	p.numbers[key] = n
	p.tasks = append(p.tasks, task)
	return n
}

// maxPIDs limits the threads whose processes are remembered.
const maxPIDs = 1 << 16

// process returns the process of a thread, or 0.
func (t *Tracker) process(tid int32) int32 {
	pid, known := t.pids[tid]
	if !known {
		if len(t.pids) >= maxPIDs {
			clear(t.pids)
		}
		pid = t.ProcessOf(tid)
		t.pids[tid] = pid
	}
	return pid
}

// Taken is the events to write for a process.
type Taken struct {
	First uint32 // the number of the first task
	Tasks []reader.Task
	Part  reader.SchedPart // its events may be more than [reader.SchedPartEvents]
}

// Take returns the events of a process since the last call, complete up to the given time, or
// nil if the process is not followed. tasks is the number of tasks already in the trace. A
// program that the process executes has its own trace, which begins without tasks.
func (t *Tracker) Take(pid int32, to uint64, tasks int) *Taken {
	p := t.processes[pid]
	if p == nil {
		return nil
	}
	taken := &Taken{First: uint32(tasks + 1), Tasks: slices.Clone(p.tasks[min(tasks, len(p.tasks)):]), Part: reader.SchedPart{From: p.from, To: max(p.from, to), Lost: t.lost - p.lost, Events: p.events}}
	p.events, p.from, p.lost = nil, max(p.from, to), t.lost
	return taken
}

// Copy returns the events of a process since the last Take, from a time on and with all tasks. They
// stay for Take. It is nil if the process is not followed.
func (t *Tracker) Copy(pid int32, since, to uint64) *Taken {
	p := t.processes[pid]
	if p == nil {
		return nil
	}
	part := reader.SchedPart{From: max(p.from, since), Lost: t.lost - p.lost}
	part.To = max(part.From, to)
	for i := range p.events {
		if p.events[i].TSC >= since {
			part.Events = append(part.Events, p.events[i])
		}
	}
	return &Taken{First: 1, Tasks: slices.Clone(p.tasks), Part: part}
}

// Pending is the number of events that Take would return.
func (t *Tracker) Pending(pid int32) int {
	if p := t.processes[pid]; p != nil {
		return len(p.events)
	}
	return 0
}

// Claim says that the events of a process will be taken.
func (t *Tracker) Claim(pid int32) {
	if p := t.processes[pid]; p != nil {
		p.claimed = true
	}
}

// Forget drops the data of a process that has ended.
func (t *Tracker) Forget(pid int32) {
	if p := t.processes[pid]; p != nil {
		p.claimed = false
		t.drop(pid, p)
	}
}

func (t *Tracker) drop(pid int32, p *process) {
	if p.threads == 0 && !p.claimed {
		delete(t.processes, pid)
	}
}

// Sweep drops the data of ended processes that nobody has claimed since the last call.
func (t *Tracker) Sweep() {
	for pid, p := range t.processes {
		if p.idle {
			t.drop(pid, p)
		}
		p.idle = p.threads == 0 && !p.claimed
	}
}
