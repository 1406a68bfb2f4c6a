package sched

import (
	"errors"
	"fmt"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/sched/kernel"
)

// tscClock is the name of the TSC in the kernel's tracer.
const tscClock = "x86-tsc"

// Clocks are the clocks that events of a text may have.
var Clocks = []string{"monotonic", "monotonic_raw", "realtime", tscClock}

var systemClocks = map[string]reader.SystemClock{
	"monotonic": reader.Monotonic, "monotonic_raw": reader.MonotonicRaw, "realtime": reader.Realtime,
}

// ErrNeedsClock means that the clock of events is not known.
var ErrNeedsClock = errors.New("its times are of an unknown clock")

// Merge returns the events that belong in a trace, which is one of xray's recorder, and their tasks,
// whose numbers follow those of the trace. clock is one of [Clocks], or "" for events in ticks.
func Merge(t *reader.Trace, events *kernel.Events, clock string) (*reader.SchedPart, []reader.Task, error) {
	r := t.Recording(0)
	if err := toTicks(r, events, clock); err != nil {
		return nil, nil, err
	}
	part, tasks, err := choose(r, events)
	if err != nil {
		return nil, nil, err
	}
	if err := checkClock(t, r, part, tasks, events); err != nil {
		return nil, nil, err
	}
	for i := range part.Events {
		e := &part.Events[i]
		for _, n := range []*uint32{&e.Task, &e.Other} {
			if *n > 0 {
				*n += uint32(len(r.Sched.Tasks))
			}
		}
	}
	return part, tasks, nil
}

// toTicks converts the times of events to ticks of the trace.
func toTicks(r *reader.Recording, events *kernel.Events, clock string) error {
	switch {
	case events.Ticks && clock != "" && clock != tscClock:
		return fmt.Errorf("its times are ticks, not times of the clock %s", clock)
	case events.Ticks:
		return nil
	case clock == tscClock:
		return errors.New("its times are seconds, not ticks of the TSC")
	case clock == "":
		return ErrNeedsClock
	}
	for i := range events.List {
		e := &events.List[i]
		tsc, ok := r.Clock.TSC(systemClocks[clock], e.Time)
		if !ok {
			if !slices.ContainsFunc(r.Clock.Anchors, func(a reader.Anchor) bool { return clock != "monotonic" || a.Mono != 0 }) {
				return fmt.Errorf("the trace does not say how its clock relates to %s", clock)
			}
			return fmt.Errorf("according to the clock %s, its times are far from those of the trace: was it recorded at the same time and with this clock?", clock)
		}
		e.Time = tsc
	}
	return nil
}

// choose returns the events that belong in the trace of a process.
func choose(r *reader.Recording, events *kernel.Events) (*reader.SchedPart, []reader.Task, error) {
	list := events.List
	from, to := list[0].Time, list[len(list)-1].Time
	first, last := ^uint64(0), uint64(0)
	for _, t := range r.Threads {
		if t.Last > 0 {
			first, last = min(first, t.First), max(last, t.Last)
		}
	}
	if from > last || to < first {
		return nil, nil, fmt.Errorf("its events are at ticks %d to %d, and those of the trace at ticks %d to %d: was it recorded at the same time and with this clock?",
			from, to, first, last)
	}
	t := kernel.NewTracker(from)
	pid := r.Process.PID
	own := make(map[int32]bool)
	for _, info := range r.Threads {
		own[info.TID] = true
	}
	t.ProcessOf = func(tid int32) int32 {
		if own[tid] {
			return pid
		}
		return 0
	}
	t.Most = len(list) + 1
	for tid := range own {
		t.Follow(pid, tid)
	}
	t.Claim(pid)
	for i := range list {
		t.Add(&list[i])
	}
	t.Lose(events.Missing)
	taken := t.Take(pid, to, 0)
	if taken == nil || len(taken.Part.Events) == 0 {
		return nil, nil, errors.New("it has no events for the threads of the trace")
	}
	outs, others := 0, 0
	for i := range list {
		if e := &list[i]; e.Kind == kernel.Switch {
			if own[e.Task] {
				outs++
			} else {
				others++
			}
		}
	}
	if outs > 10 && others < outs/10 {
		return nil, nil, errors.New("only threads of the trace are switched out: record the whole machine (perf record -a)")
	}
	taken.Part.Origin = reader.SchedMerged
	return &taken.Part, taken.Tasks, nil
}

// checkClock checks that both clocks are the same: no thread can record anything while it does not
// run.
func checkClock(t *reader.Trace, r *reader.Recording, part *reader.SchedPart, tasks []reader.Task, events *kernel.Events) error {
	merged := *r
	merged.Sched = reader.Sched{Parts: []reader.SchedPart{*part}, Tasks: tasks}
	log := New(&merged)
	// Times of the text are rounded, and a switch takes some time.
	slack := max(1, (events.Step+1000)*r.Clock.Frequency/1e9)
	var records, asleep uint64
	for b, err := range t.Blocks(reader.ThreadOrder) {
		if err != nil {
			return err
		}
		thread := log.Thread(b.Thread.Thread)
		if thread == nil {
			continue
		}
		for i := range b.Events {
			tsc := b.Events[i].TSC
			if tsc < part.From || tsc > part.To {
				continue
			}
			records++
			for _, o := range thread.Off(tsc, tsc+1) {
				if o.In != 0 && o.Out+slack < tsc && tsc+slack < o.In {
					asleep++
				}
			}
		}
	}
	const most = 50 // one record in
	if asleep > 2 && asleep > records/most {
		return fmt.Errorf("%d of %d records belong to threads that were not running: was it recorded with another clock, or not for the whole machine?", asleep, records)
	}
	return nil
}
