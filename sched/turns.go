package sched

import (
	"sort"

	"github.com/xray-tools/xray/reader"
)

// Turn is a stretch in which a task ran on a CPU.
type Turn struct {
	Run
	// To is 0 if the log does not say when the task was switched out.

	// State is the state that the task was switched out in at To. Preempted says that this was inside
	// the kernel.
	State     byte
	Preempted bool
	// Doubtful says that events were lost in this stretch: it may be several.
	Doubtful bool
}

// Lanes tells what ran on which CPU.
type Lanes struct {
	log *Log
	// waits has, for each CPU, the stretches in which threads waited for it, disjoint and in the order
	// of time. The log has all switches of the CPU in them.
	waits [][][2]uint64
}

// Lanes returns the lanes of the CPUs.
func (l *Log) Lanes() *Lanes {
	lanes := &Lanes{l, make([][][2]uint64, len(l.cpus))}
	for _, t := range l.threads {
		for i := range t.off {
			if o := &t.off[i]; o.Ready() != 0 && o.In > o.Ready() && !o.Doubtful {
				cpu := o.waitedFor()
				lanes.waits[cpu] = append(lanes.waits[cpu], [2]uint64{o.Ready(), o.In})
			}
		}
	}
	for cpu := range lanes.waits {
		lanes.waits[cpu] = disjoint(lanes.waits[cpu])
	}
	return lanes
}

// CPUs returns the number of CPUs that may have turns.
func (l *Lanes) CPUs() int { return len(l.waits) }

// Turns returns the turns of a CPU, in the order of time, without those that the log does not know
// in full. It has the turns of the process's threads, and those of other tasks that ended while a
// thread waited for this CPU. Of these, it has the part in that wait.
func (lanes *Lanes) Turns(cpu int) []Turn {
	l := lanes.log
	list, waits := l.cpus[cpu], lanes.waits[cpu]
	if len(list) == 0 {
		return nil
	}
	var turns []Turn
	// The thread that is switched out first ran from the beginning.
	if e := &l.events[list[0]]; l.thread(e.Task) != nil {
		if first, _ := l.sched.Span(); first < e.TSC {
			turns = append(turns, l.turn(e.Task, first, e))
		}
	}
	for i, at := range list {
		e := &l.events[at]
		own := l.thread(e.Other) != nil
		var out *reader.SchedEvent
		if i+1 < len(list) {
			out = &l.events[list[i+1]]
		}
		switch {
		case out == nil || l.sched.Task(e.Other).TID != l.sched.Task(out.Task).TID:
			if own {
				turns = append(turns, l.turn(e.Other, e.TSC, nil))
			}
		case own:
			turns = append(turns, l.turn(e.Other, e.TSC, out))
		default:
			// The last wait that begins before the end of the turn.
			n := sort.Search(len(waits), func(i int) bool { return waits[i][0] >= out.TSC })
			if n == 0 || waits[n-1][1] < out.TSC || l.sched.Task(e.Other).TID < 0 || l.lostBetween(e.TSC, out.TSC) {
				continue
			}
			turns = append(turns, l.turn(e.Other, max(e.TSC, waits[n-1][0]), out))
		}
	}
	return turns
}

func (l *Log) turn(task uint32, from uint64, out *reader.SchedEvent) Turn {
	t := Turn{Run: Run{Task: l.sched.Task(task), From: from}}
	if out != nil {
		t.To, t.State, t.Preempted = out.TSC, out.State, out.Flags&reader.Preempted != 0
		t.Doubtful = l.lostBetween(from, t.To)
	}
	return t
}

// Wakings yields the wake-ups of the process's threads in the order of time: when and on which CPU,
// and who was woken by whom.
func (l *Log) Wakings(yield func(e *reader.SchedEvent, waker, woken reader.Task) bool) {
	for i := range l.events {
		e := &l.events[i]
		if e.Kind == reader.Waking && l.thread(e.Other) != nil && !yield(e, l.sched.Task(e.Task), l.sched.Task(e.Other)) {
			return
		}
	}
}
