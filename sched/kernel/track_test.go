package kernel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

// Script and NewTestTracker are for tests with package sched.
var Script, NewTestTracker = script, newTracker

// script adds events, one a line: "TIME CPU switch TID NAME STATE TID NAME", "TIME CPU wake
// TID TID NAME", "TIME CPU fork TID TID NAME", "TIME CPU irq TID TID NAME", and "TIME CPU end TID TID".
func script(t *testing.T, tr *Tracker, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		e := Event{}
		var kind, state, name, other string
		_, err := fmt.Sscan(line, &e.Time, &e.CPU, &kind)
		rest := strings.SplitN(line, " ", 4)[3]
		switch kind {
		case "switch":
			e.Kind = Switch
			_, err = fmt.Sscan(rest, &e.Task, &name, &state, &e.Other, &other)
			e.TaskComm, e.State = comm(name), state[0]
		case "wake":
			e.Kind = Waking
			_, err = fmt.Sscan(rest, &e.Task, &e.Other, &other)
		case "irq":
			e.Kind = Interrupted
			_, err = fmt.Sscan(rest, &e.Task, &e.Other, &other)
		case "end":
			e.Kind = Resumed
			_, err = fmt.Sscan(rest, &e.Task, &e.Other)
		case "fork":
			e.Kind = Fork
			_, err = fmt.Sscan(rest, &e.Task, &e.Other, &other)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e.OtherComm = comm(other)
		tr.Add(&e)
	}
}

// taken returns the events of a process as text.
func taken(tr *Tracker, pid int32) []string {
	k := tr.Take(pid, 1000, 0)
	if k == nil {
		return nil
	}
	s := reader.Sched{Tasks: k.Tasks}
	name := func(n uint32) string { return fmt.Sprintf("%s(%d/%d)", s.Task(n).Name, s.Task(n).PID, s.Task(n).TID) }
	var list []string
	for _, e := range k.Part.Events {
		if e.Kind == reader.Waking {
			list = append(list, fmt.Sprintf("%d %s wakes %s", e.TSC, name(e.Task), name(e.Other)))
			continue
		}
		if e.Kind != reader.Switched {
			list = append(list, fmt.Sprintf("%d cpu%d %s kind %d %s", e.TSC, e.CPU, name(e.Task), e.Kind, name(e.Other)))
			continue
		}
		list = append(list, fmt.Sprintf("%d cpu%d %s %c %s", e.TSC, e.CPU, name(e.Task), e.State, name(e.Other)))
	}
	return list
}

func newTracker() *Tracker {
	tr := NewTracker(1)
	pids := map[int32]int32{7: 7, 8: 7, 9: 9, 20: 20, 21: 20, 30: 30}
	tr.ProcessOf = func(tid int32) int32 { return pids[tid] }
	tr.NameOf = func(tid int32) string { return fmt.Sprint("n", tid) }
	return tr
}

func TestKeeps(t *testing.T) {
	tr := newTracker()
	tr.Follow(7, 7)
	script(t, tr, `10 0 switch 20 hog R 30 cat
		11 0 switch 30 cat S 7 prog
		12 1 switch 20 hog R 30 cat
		20 0 switch 7 prog R 20 hog
		21 0 switch 20 hog R 30 cat
		22 1 switch 30 cat R 21 hog
		23 0 switch 30 cat S 20 hog
		30 0 switch 20 hog R 7 prog
		40 0 switch 7 prog S 0 swapper/0
		41 0 switch 0 swapper/0 R 30 cat
		50 1 wake 21 7 prog
		55 1 switch 21 hog R 30 cat
		60 1 switch 30 cat R 7 prog`)
	want := []string{
		"11 cpu0 cat(30/30) S prog(7/7)",
		"20 cpu0 prog(7/7) R hog(20/20)",
		"21 cpu0 hog(20/20) R cat(30/30)",
		"23 cpu0 cat(30/30) S hog(20/20)",
		"30 cpu0 hog(20/20) R prog(7/7)",
		"40 cpu0 prog(7/7) S idle(0/0)",
		"50 hog(20/21) wakes prog(7/7)",
		"55 cpu1 hog(20/21) R cat(30/30)",
		"60 cpu1 cat(30/30) R prog(7/7)",
	}
	if diff := cmp.Diff(want, taken(tr, 7)); diff != "" {
		t.Error(diff)
	}
}

// A task may change its name while it runs. Some events have the new name, and the next switch has it.
func TestNewName(t *testing.T) {
	tr := newTracker()
	tr.Follow(7, 7)
	script(t, tr, `10 0 switch 20 hog R 8 prog
		20 0 wake 8 7 prog`)
	tr.Add(&Event{Time: 30, Kind: Waking, Task: 8, TaskComm: comm("new"), Other: 7, OtherComm: comm("p")})
	script(t, tr, `40 0 switch 8 new S 7 prog`)
	want := []string{"20 prog(7/8) wakes prog(7/7)", "30 new(7/8) wakes p(7/7)", "40 cpu0 new(7/8) S prog(7/7)"}
	if diff := cmp.Diff(want, taken(tr, 7)); diff != "" {
		t.Error(diff)
	}
}

// A copy has the events from a time on, and leaves them.
func TestCopy(t *testing.T) {
	tr := newTracker()
	tr.Follow(7, 7)
	script(t, tr, `10 0 switch 20 hog R 7 prog
		20 0 switch 7 prog S 20 hog
		30 1 wake 20 7 prog`)
	copied := tr.Copy(7, 20, 40)
	if p := &copied.Part; len(p.Events) != 2 || p.Events[0].TSC != 20 || p.From != 20 || p.To != 40 || copied.First != 1 || len(copied.Tasks) != 3 {
		t.Errorf("got %+v", copied)
	}
	if got := taken(tr, 7); len(got) != 3 {
		t.Errorf("after a copy: got %q", got)
	}
	if tr.Copy(9, 0, 40) != nil {
		t.Error("got events of a process that is not followed")
	}
}

// Only the interrupts of the threads are kept. Those of devices have no name at their end.
func TestKeepsInterrupts(t *testing.T) {
	tr := newTracker()
	tr.Follow(7, 7)
	script(t, tr, `10 0 switch 20 hog R 7 prog
		11 1 irq 20 -5 net
		12 0 irq 7 -5 net
		13 0 end 7 -5
		14 1 end 20 -5
		15 2 irq 0 -6 net
		16 0 irq 8 -6 timer`)
	want := []string{
		"10 cpu0 hog(20/20) R prog(7/7)",
		"12 cpu0 prog(7/7) kind 3 net(0/-5)",
		"13 cpu0 prog(7/7) kind 4 net(0/-5)",
	}
	if diff := cmp.Diff(want, taken(tr, 7)); diff != "" {
		t.Error(diff)
	}
}

// A thread that is switched out was switched in before, even if the kernel did not report it.
func TestUnreportedSwitches(t *testing.T) {
	tr := newTracker()
	tr.Follow(7, 7)
	script(t, tr, `10 1 switch 7 prog S 0 swapper/1
		20 1 wake 20 7 prog
		25 1 switch 7 prog S 0 swapper/1
		30 1 switch 20 hog R 30 cat
		40 1 switch 7 prog R 20 hog`)
	var got []string
	part := tr.Take(7, 50, 0).Part
	for _, e := range part.Events {
		got = append(got, fmt.Sprint(e.TSC, e.Kind, e.Flags&reader.Unreported != 0))
	}
	if diff := cmp.Diff([]string{"10 1 false", "20 2 false", "20 1 true", "25 1 false", "31 1 true", "40 1 false"}, got); diff != "" {
		t.Error(diff)
	}
}

// Threads and processes created by a followed one are followed, each process by itself.
func TestForks(t *testing.T) {
	tr := newTracker()
	tr.Follow(7, 7)
	script(t, tr, `10 0 fork 20 30 other
		11 0 fork 7 8 prog
		12 0 fork 8 9 prog
		13 1 switch 30 cat S 8 prog
		14 0 switch 7 prog S 9 child
		15 0 switch 9 child X 20 hog
		16 0 fork 20 9 hog2
		17 0 switch 20 hog S 9 hog2`)
	if diff := cmp.Diff([]string{"13 cpu1 cat(30/30) S prog(7/8)", "14 cpu0 prog(7/7) S child(9/9)"}, taken(tr, 7)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"14 cpu0 prog(7/7) S child(9/9)", "15 cpu0 child(9/9) X hog(20/20)"}, taken(tr, 9)); diff != "" {
		t.Error(diff)
	}
	if taken(tr, 30) != nil {
		t.Error("got events of another process")
	}
	tr.Sweep()
	tr.Sweep()
	if tr.Take(7, 1, 0) == nil || tr.Take(9, 1, 0) != nil {
		t.Error("a process with threads was forgotten, or one without was not")
	}
}

// Two threads may wait for one CPU, and a thread of another followed process may run there.
func TestSeveralWait(t *testing.T) {
	tr := newTracker()
	tr.Follow(7, 7)
	tr.Follow(7, 8)
	tr.Follow(9, 9)
	script(t, tr, `10 0 switch 7 prog R 20 hog
		20 0 switch 20 hog R 30 cat
		25 1 wake 30 8 prog
		30 0 switch 30 cat R 9 child
		40 0 switch 9 child S 8 prog
		50 0 switch 8 prog S 7 prog`)
	if diff := cmp.Diff([]string{"10 cpu0 prog(7/7) R hog(20/20)", "25 n30(30/30) wakes prog(7/8)", "20 cpu0 hog(20/20) R cat(30/30)",
		"30 cpu0 cat(30/30) R child(9/9)", "40 cpu0 child(9/9) S prog(7/8)", "50 cpu0 prog(7/8) S prog(7/7)"}, taken(tr, 7)); diff != "" {
		t.Error(diff)
	}
}

// The number of events taken and remembered is limited.
func TestBounds(t *testing.T) {
	tr := newTracker()
	tr.Most = 100
	tr.Follow(7, 7)
	tr.Claim(7)
	add := func(time uint64, from, to int32) {
		tr.Add(&Event{Time: time, Kind: Switch, State: 'R', Task: from, Other: to})
	}
	for i := range uint64(1000) {
		add(2*i, 7, 20)
		add(2*i+1, 20, 7)
	}
	k := tr.Take(7, 5000, 0)
	if n := len(k.Part.Events); n < 50 || n > 100 || k.Part.From != k.Part.Events[0].TSC || k.Part.To != 5000 || k.Part.Lost != 0 {
		t.Errorf("got %d events, part from %d to %d, %d lost", n, k.Part.From, k.Part.To, k.Part.Lost)
	}
	add(6000, 7, 20)
	for i := range uint64(3 * maxBacklog) {
		add(6001+i, 20, 30)
	}
	if n := len(tr.backlog[0]); n > maxBacklog {
		t.Errorf("got %d switches remembered", n)
	}
	if k := tr.Take(7, 99999, len(k.Tasks)); k.Part.Lost == 0 || k.Part.From != 5000 || k.First != 3 {
		t.Errorf("got part %+v, tasks from %d", k.Part, k.First)
	}
	// A new trace begins with all tasks.
	if again := tr.Take(7, 99999, 0); again.First != 1 || len(again.Tasks) != 2 {
		t.Errorf("got %d tasks from %d", len(again.Tasks), again.First)
	}
}
