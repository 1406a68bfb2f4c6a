package convert

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/sched"
)

// Field numbers of Perfetto's protos/perfetto/trace/ftrace and ps.
const (
	packetFtrace      = 1
	packetProcessTree = 2

	bundleCPU, bundleEvent, bundleLost = 1, 2, 3

	ftraceTime, ftracePID, ftraceSwitch, ftraceFlags, ftraceWaking = 1, 2, 4, 5, 20

	switchPrevComm, switchPrevPID, switchPrevState, switchNextComm, switchNextPID = 1, 2, 4, 5, 6

	wakingComm, wakingPID = 1, 2

	treeThread                                    = 2
	treeThreadTID, treeThreadName, treeThreadTGID = 1, 2, 3
)

// inHardIRQ and inSoftIRQ are flags of the kernel's events.
const inHardIRQ, inSoftIRQ = 8, 16

// prevStates has the numbers of states. From S to Z, they are the same in all kernels. The file does
// not say which kernel it was. The trace processor then takes the others for those of Linux 4.4.
var prevStates = map[byte]uint64{
	'R': 0, 'S': 1, 'D': 2, 'T': 4, 't': 8, 'X': 16, 'Z': 32, 'P': 512, 'I': 2 | 1024,
}

const preemptedState = 2048

// unknownTasks is the process of a task for each CPU that stands for those that are not known.
// Processes and threads of Linux have smaller IDs.
const unknownTasks = 1 << 30

// mostBundled limits the bytes of a bundle of the kernel's events.
const mostBundled = 1 << 15

// perfettoLanes writes the kernel's events: what ran on which CPU, and who woke whom.
type perfettoLanes struct {
	p      *Perfetto
	from   uint64 // TSC
	to     uint64
	cpu    int
	bundle []byte
	tasks  map[int32]reader.Task // those that are written
	names  map[int32]string      // of processes that have no track
}

// lanes writes the scheduler events as ftrace does. From them, viewers draw lanes of CPUs and states
// of threads. On each CPU, a switch must be from the task that the switch before was to. A task of its
// own fills stretches of which the trace does not say what ran.
func (p *Perfetto) lanes() {
	to := p.opts.To
	if to == 0 {
		to = math.MaxUint64
	}
	w := &perfettoLanes{p: p, from: max(p.opts.Base, p.opts.From), to: to, tasks: make(map[int32]reader.Task), names: make(map[int32]string)}
	logs := w.distinctLogs()
	var all []*sched.Lanes
	cpus := 0
	for _, log := range logs {
		lanes := log.Lanes()
		all, cpus = append(all, lanes), max(cpus, lanes.CPUs())
	}
	edge := w.edge(logs)
	for w.cpu = range cpus {
		turns := edge[w.cpu]
		for _, lanes := range all {
			if w.cpu < lanes.CPUs() {
				turns = append(turns, lanes.Turns(w.cpu)...)
			}
		}
		w.lane(w.clip(turns))
	}
	for _, log := range logs {
		log.Wakings(func(e *reader.SchedEvent, waker, woken reader.Task) bool {
			if w.from <= e.TSC && e.TSC < w.to {
				w.waking(e, waker, woken)
			}
			return true
		})
	}
	w.flush()
	w.tree()
}

// distinctLogs returns the scheduler events of the files whose processes and threads have their own
// IDs here: the kernel's events name threads by ID alone.
func (w *perfettoLanes) distinctLogs() []*sched.Log {
	var logs []*sched.Log
	taken := make(map[int32]bool)
	for file, log := range w.p.opts.Sched {
		if log == nil || log.PID == 0 {
			continue
		}
		process := reader.Thread{File: int32(file), Process: log.PID}
		pid, shown := w.p.tracks.process(process)
		distinct := pid == int64(log.PID)
		for tid := range log.All() {
			distinct = distinct && !taken[tid]
		}
		if !distinct {
			w.p.withoutLanes = append(w.p.withoutLanes, w.p.opts.file(process))
			continue
		}
		for tid := range log.All() {
			taken[tid] = true
		}
		if !shown {
			w.names[log.PID] = w.p.tracks.processBeside(process, pid)
		}
		logs = append(logs, log)
	}
	return logs
}

// edge returns, by CPU, turns of no length for the threads that do not run when the output begins.
func (w *perfettoLanes) edge(logs []*sched.Log) map[int][]sched.Turn {
	turns := make(map[int][]sched.Turn)
	for _, log := range logs {
		for tid := range log.All() {
			for _, o := range log.Thread(tid).Off(w.from, w.from+1) {
				if o.Out >= w.from || o.In != 0 && o.In <= w.from || o.Doubtful {
					continue
				}
				t := sched.Turn{Run: sched.Run{Task: reader.Task{PID: log.PID, TID: tid}, From: w.from, To: w.from}, State: o.State}
				if o.Woken != 0 && o.Woken < w.from {
					t.State = 'R'
				}
				turns[int(o.OutCPU)] = append(turns[int(o.OutCPU)], t)
			}
		}
	}
	for _, list := range turns {
		slices.SortFunc(list, func(a, b sched.Turn) int { return cmp.Compare(a.Task.TID, b.Task.TID) })
	}
	return turns
}

// clip orders turns and cuts them at the edges of the output. The traces of several processes may have
// the same turn.
func (w *perfettoLanes) clip(turns []sched.Turn) []sched.Turn {
	end := func(t *sched.Turn) uint64 { return cmp.Or(t.To, math.MaxUint64) }
	slices.SortStableFunc(turns, func(a, b sched.Turn) int {
		return cmp.Or(cmp.Compare(max(a.From, w.from), max(b.From, w.from)), cmp.Compare(end(&a), end(&b)))
	})
	kept := turns[:0]
	for _, t := range turns {
		if _, known := prevStates[t.State]; !known || t.To >= w.to {
			t.To = 0
		}
		point := t.From == t.To
		t.From = max(t.From, w.from)
		if n := len(kept); n > 0 && kept[n-1].To != 0 {
			t.From = max(t.From, kept[n-1].To)
		}
		if t.From < w.to && (point || t.From < end(&t)) {
			kept = append(kept, t)
		}
	}
	return kept
}

// lane writes the turns of a CPU.
func (w *perfettoLanes) lane(turns []sched.Turn) {
	unknown := w.unknown()
	before := sched.Turn{Run: sched.Run{Task: unknown}, State: 'R'}
	for i := range turns {
		t := &turns[i]
		switch {
		case i > 0 && before.To == 0:
			w.lost() // the event that ended it
			before.Task, before.State, before.Preempted = unknown, 'R', false
		case i > 0 && before.To < t.From:
			w.switched(&before, unknown, before.To)
			before.Task, before.State, before.Preempted = unknown, 'R', false
		}
		w.switched(&before, t.Task, t.From)
		if t.Doubtful {
			w.lost()
		}
		before = *t
	}
	if before.To != 0 {
		w.switched(&before, unknown, before.To)
	}
	w.flush()
}

// unknown returns the task that stands for all that are not known.
func (w *perfettoLanes) unknown() reader.Task {
	return reader.Task{PID: unknownTasks, TID: unknownTasks + int32(w.cpu), Name: "unknown"}
}

func (w *perfettoLanes) switched(prev *sched.Turn, next reader.Task, tsc uint64) {
	state := prevStates[prev.State]
	if prev.State == 'R' && prev.Preempted {
		state = preemptedState
	}
	body := appendText(nil, switchPrevComm, w.comm(prev.Task))
	body = appendPresent(body, switchPrevPID, uint64(prev.Task.TID))
	body = appendPresent(body, switchPrevState, state)
	body = appendText(body, switchNextComm, w.comm(next))
	body = appendPresent(body, switchNextPID, uint64(next.TID))
	w.event(tsc, prev.Task, 0, ftraceSwitch, body)
}

func (w *perfettoLanes) waking(e *reader.SchedEvent, waker, woken reader.Task) {
	if w.cpu != int(e.CPU) {
		w.flush()
		w.cpu = int(e.CPU)
	}
	if waker.TID < 0 {
		waker = w.unknown()
	}
	var flags uint64
	if e.Flags&reader.WokenByInterrupt != 0 {
		flags |= inHardIRQ
	}
	if e.Flags&reader.WokenBySoftIRQ != 0 {
		flags |= inSoftIRQ
	}
	w.comm(waker)
	body := appendText(nil, wakingComm, w.comm(woken))
	w.event(e.TSC, waker, flags, ftraceWaking, appendPresent(body, wakingPID, uint64(woken.TID)))
}

// comm returns the name of a task that is written.
func (w *perfettoLanes) comm(t reader.Task) string {
	if t.Name != "" || w.tasks[t.TID].TID == 0 {
		w.tasks[t.TID] = t
	}
	if t.TID == 0 {
		return "swapper"
	}
	return t.Name
}

func (w *perfettoLanes) event(tsc uint64, task reader.Task, flags uint64, field protowire.Number, body []byte) {
	if len(w.bundle) >= mostBundled {
		w.flush()
	}
	if len(w.bundle) == 0 {
		w.bundle = appendPresent(w.bundle, bundleCPU, uint64(w.cpu))
	}
	event := appendPresent(nil, ftraceTime, uint64(max(0, w.p.time.at(tsc))))
	event = appendPresent(event, ftracePID, uint64(task.TID))
	event = appendNumber(event, ftraceFlags, flags)
	w.bundle = appendBytes(w.bundle, bundleEvent, appendBytes(event, field, body))
}

// lost says that events of the CPU are missing before the next one.
func (w *perfettoLanes) lost() {
	w.flush()
	w.bundle = appendPresent(appendPresent(w.bundle, bundleCPU, uint64(w.cpu)), bundleLost, 1)
}

func (w *perfettoLanes) flush() {
	if len(w.bundle) > 0 {
		w.p.out.buf = w.p.out.spill(appendBytes(w.p.out.buf, tracePacket, appendBytes(nil, packetFtrace, w.bundle)))
		w.bundle = w.bundle[:0]
	}
}

// tree describes the threads and processes of the kernel's events.
func (w *perfettoLanes) tree() {
	var tree []byte
	for _, tid := range slices.Sorted(maps.Keys(w.tasks)) {
		t := w.tasks[tid]
		if t.TID == 0 || t.PID == 0 {
			continue
		}
		thread := appendPresent(nil, treeThreadTID, uint64(tid))
		if t.Name != "" {
			thread = appendText(thread, treeThreadName, t.Name)
		}
		tree = appendBytes(tree, treeThread, appendPresent(thread, treeThreadTGID, uint64(t.PID)))
		switch {
		case w.p.tracks.taken[int64(t.PID)]:
		case t.PID == unknownTasks:
			w.names[t.PID] = "unknown tasks"
		case w.names[t.PID] == "" || t.TID == t.PID:
			w.names[t.PID] = t.Name + " (outside the trace; states unknown)"
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(w.names)) {
		w.p.process(int64(pid), w.names[pid])
	}
	if len(tree) > 0 {
		w.p.out.buf = appendBytes(w.p.out.buf, tracePacket, appendBytes(nil, packetProcessTree, tree))
	}
}
