package sched_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/sched"
)

// The process has thread 7, which is task 1. Other tasks are hog (2), cat (3) and idle (4).
var (
	tasks   = []reader.Task{{PID: 7, TID: 7, Name: "prog"}, {PID: 20, TID: 20, Name: "hog"}, {PID: 30, TID: 31, Name: "cat"}, {Name: "swapper"}}
	unknown = reader.Task{TID: -1}
)

func switched(tsc uint64, cpu uint16, from, to uint32, state byte) reader.SchedEvent {
	return reader.SchedEvent{TSC: tsc, Task: from, Other: to, CPU: cpu, Kind: reader.Switched, State: state}
}

func waking(tsc uint64, by, woken uint32, flags reader.SchedFlags) reader.SchedEvent {
	return reader.SchedEvent{TSC: tsc, Task: by, Other: woken, Kind: reader.Waking, Flags: flags}
}

func logOf(lost uint64, events ...reader.SchedEvent) *sched.Log {
	return sched.New(&reader.Recording{
		Process: reader.Process{PID: 7},
		Sched:   reader.Sched{Tasks: tasks, Parts: []reader.SchedPart{{From: 50, To: 1000, Lost: lost, Events: events}}},
	})
}

func TestBlocked(t *testing.T) {
	l := logOf(0,
		switched(100, 1, 1, 4, 'S'),
		waking(90, 3, 1, 0),  // before it slept: not the waker
		waking(200, 3, 1, 0), // out of order in the file
		switched(150, 1, 4, 2, 'R'),
		waking(210, 2, 1, 0), // it was already awake
		switched(300, 1, 2, 1, 'R'),
		switched(400, 1, 1, 4, 'D'),
		waking(450, 4, 1, reader.WokenByInterrupt|reader.WokenBySoftIRQ),
		switched(500, 0, 4, 1, 'R'),
	)
	want := []sched.Off{
		{Out: 100, Woken: 200, In: 300, State: 'S', Next: tasks[3], Previous: tasks[1], Waker: tasks[2], OutCPU: 1, InCPU: 1},
		{Out: 400, Woken: 450, In: 500, State: 'D', Next: tasks[3], Previous: tasks[3], Waker: tasks[3], Interrupt: true, SoftIRQ: true, OutCPU: 1},
	}
	thread := l.Thread(7)
	if diff := cmp.Diff(want, thread.Off(0, 1000)); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		from, to    uint64
		first, many int
	}{{0, 100, 0, 0}, {0, 101, 0, 1}, {299, 300, 0, 1}, {300, 400, 1, 0}, {250, 401, 0, 2}, {499, 900, 1, 1}, {500, 900, 2, 0}} {
		got := thread.Off(c.from, c.to)
		if len(got) != c.many || c.many > 0 && got[0].Out != want[c.first].Out {
			t.Errorf("from %d to %d: got %d stretches %+v", c.from, c.to, len(got), got)
		}
	}
	o := thread.Off(0, 1000)
	if diff := cmp.Diff([]sched.Run{{Task: tasks[1], From: 200, To: 300}}, thread.Instead(&o[0], 0, 1000)); diff != "" {
		t.Error(diff)
	}
	if l.Thread(20) != nil || l.Thread(99).Off(0, 1000) != nil {
		t.Error("got a thread of another process")
	}
}

func TestPreempted(t *testing.T) {
	l := logOf(0,
		switched(100, 1, 1, 2, 'R'),
		switched(200, 1, 2, 3, 'R'),
		switched(260, 1, 3, 2, 'S'),
		switched(300, 1, 2, 1, 'R'),
		switched(800, 1, 3, 2, 'R'), // unknown in between
	)
	thread := l.Thread(7)
	o := thread.Off(0, 1000)
	want := []sched.Run{{Task: tasks[1], From: 100, To: 200}, {Task: tasks[2], From: 200, To: 260}, {Task: tasks[1], From: 260, To: 300}}
	if len(o) != 1 || !o[0].Runnable() || o[0].Ready() != 100 {
		t.Fatalf("got %+v", o)
	}
	if diff := cmp.Diff(want, thread.Instead(&o[0], 0, 1000)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]sched.Run{{Task: tasks[2], From: 250, To: 260}, {Task: tasks[1], From: 260, To: 270}}, thread.Instead(&o[0], 250, 270)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]sched.Run{{Task: unknown, From: 50, To: 100}}, l.Ran(1, 50, 100)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]sched.Run{{Task: unknown, From: 310, To: 900}}, l.Ran(1, 310, 900)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]sched.Run{{Task: unknown, From: 310, To: 900}}, l.Ran(5, 310, 900)); diff != "" {
		t.Error(diff)
	}
}

// The next switch says what was running when a thread began to wait.
func TestInsteadFromBefore(t *testing.T) {
	l := logOf(0, switched(100, 1, 1, 4, 'S'), waking(200, 3, 1, 0), switched(300, 1, 2, 1, 'R'))
	thread := l.Thread(7)
	if diff := cmp.Diff([]sched.Run{{Task: tasks[1], From: 200, To: 300}}, thread.Instead(&thread.Off(0, 1000)[0], 0, 1000)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]sched.Run{{Task: unknown, From: 200, To: 300}}, l.Ran(1, 200, 300)); diff != "" {
		t.Error(diff)
	}
}

// Lost events leave gaps that are not filled.
func TestLostEvents(t *testing.T) {
	l := logOf(3, switched(100, 1, 1, 2, 'S'), switched(500, 1, 2, 1, 'R'))
	if o := l.Thread(7).Off(0, 1000); len(o) != 1 || !o[0].Doubtful || o[0].Ready() != 0 {
		t.Errorf("got %+v", o)
	}
	if l.Covers(100, 500) || !logOf(0, switched(100, 1, 1, 2, 'S')).Covers(100, 500) || logOf(0, switched(100, 1, 1, 2, 'S')).Covers(1, 500) {
		t.Error("wrong coverage")
	}
	// A thread that ends is not a later one with the same ID.
	l = logOf(0, switched(100, 1, 1, 2, 'X'), waking(150, 2, 1, 0), switched(200, 1, 2, 1, 'R'))
	if o := l.Thread(7).Off(0, 1000); len(o) != 1 || o[0].In != 0 || o[0].Woken != 0 {
		t.Errorf("got %+v", o)
	}
	if sched.New(&reader.Recording{}) != nil {
		t.Error("got a log without events, want nil")
	}
}

// Interrupts nest. Those without a beginning or an end, and those among lost events, are left out.
func TestInterrupts(t *testing.T) {
	timer, network := reader.Task{TID: reader.InterruptTID(reader.SystemInterrupt, 236), Name: "local_timer"}, reader.Task{TID: reader.InterruptTID(reader.SoftIRQ, 3), Name: "NET_RX"}
	event := func(tsc uint64, kind reader.SchedKind, task, interrupt uint32) reader.SchedEvent {
		return reader.SchedEvent{TSC: tsc, Task: task, Other: interrupt, Kind: kind}
	}
	const prog, hog, tick, net = 1, 2, 3, 4
	log := sched.New(&reader.Recording{Process: reader.Process{PID: 7}, Sched: reader.Sched{
		Tasks: []reader.Task{tasks[0], tasks[1], timer, network},
		Parts: []reader.SchedPart{
			{From: 50, To: 500, Events: []reader.SchedEvent{
				event(90, reader.Resumed, prog, net), // began before
				event(100, reader.Interrupted, prog, net),
				event(110, reader.Interrupted, prog, tick),
				event(115, reader.Resumed, prog, tick),
				event(120, reader.Interrupted, hog, tick), // another task
				event(130, reader.Resumed, hog, tick),
				event(140, reader.Interrupted, prog, tick),
				event(141, reader.Resumed, prog, tick),
				event(200, reader.Resumed, prog, net),
				event(300, reader.Interrupted, prog, tick),
				event(310, reader.Resumed, prog, tick),
			}},
			{From: 600, To: 700, Lost: 1, Events: []reader.SchedEvent{event(610, reader.Interrupted, prog, tick), event(690, reader.Resumed, prog, tick)}},
			{From: 800, To: 900, Events: []reader.SchedEvent{event(810, reader.Interrupted, prog, tick)}},
		},
	}})
	want := []sched.Interrupt{
		{Source: network, From: 100, To: 200, Self: 94},
		{Source: timer, From: 110, To: 115, Self: 5, Nested: true},
		{Source: timer, From: 140, To: 141, Self: 1, Nested: true},
		{Source: timer, From: 300, To: 310, Self: 10},
	}
	thread := log.Thread(7)
	if diff := cmp.Diff(want, thread.Interrupts(0, ^uint64(0))); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		from, to    uint64
		first, many int
	}{{0, 100, 0, 0}, {0, 101, 0, 1}, {130, 141, 0, 3}, {199, 300, 0, 3}, {200, 300, 0, 0}, {200, 301, 3, 1}, {309, 400, 3, 1}, {310, 400, 0, 0}} {
		got := thread.Interrupts(c.from, c.to)
		if len(got) != c.many || c.many > 0 && got[0] != want[c.first] {
			t.Errorf("from %d to %d: got %d interrupts %+v", c.from, c.to, len(got), got)
		}
	}
	if log.Thread(20) != nil || log.Thread(99).Interrupts(0, 1000) != nil {
		t.Error("got interrupts of another process")
	}
}

// The turns of other tasks are known only while a thread waits for the CPU, and those of threads always.
func TestTurns(t *testing.T) {
	turn := func(task int, from, to uint64, state byte) sched.Turn {
		return sched.Turn{Run: sched.Run{Task: tasks[task-1], From: from, To: to}, State: state}
	}
	preempted := switched(800, 0, 1, 3, 'R')
	preempted.Flags = reader.Preempted
	events := []reader.SchedEvent{
		switched(100, 0, 1, 2, 'S'), // it ran from the beginning
		waking(200, 3, 1, 0),
		switched(300, 0, 2, 3, 'R'),
		switched(400, 0, 3, 1, 'D'),
		switched(500, 0, 1, 4, 'R'),
		switched(550, 0, 4, 2, 'R'), // and then unknown tasks
		switched(600, 0, 3, 1, 'S'),
		preempted,
		switched(820, 1, 2, 1, 'S'), // on another CPU, to the end
	}
	lanes := logOf(0, events...).Lanes()
	last := turn(1, 600, 800, 'R')
	last.Preempted = true
	for cpu, want := range [][]sched.Turn{
		{turn(1, 50, 100, 'S'), turn(2, 200, 300, 'R'), turn(3, 300, 400, 'D'), turn(1, 400, 500, 'R'), turn(4, 500, 550, 'R'), last},
		{turn(1, 820, 0, 0)},
	} {
		if diff := cmp.Diff(want, lanes.Turns(cpu)); diff != "" {
			t.Errorf("CPU %d: %s", cpu, diff)
		}
	}
	for _, turn := range logOf(1, events...).Lanes().Turns(0) {
		if turn.Task != tasks[0] || !turn.Doubtful {
			t.Errorf("although events are lost, got %+v", turn)
		}
	}
}
