package stack_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/stack"
)

// switched is a thread that was off CPU.
func switched(b *reader.Block, tsc, off, queued uint64) {
	b.Payloads = append(b.Payloads, reader.Payload{Event: len(b.Events), Data: reader.AppendSwitch(nil, reader.Switch{OffNS: off, QueuedNS: queued, Voluntary: 1})})
	b.Events = append(b.Events, reader.Event{TSC: tsc, Kind: reader.Custom, Side: true})
}

func record(b *reader.Block, tsc uint64, kind reader.Kind, fn reader.FuncID) {
	b.Events = append(b.Events, reader.Event{TSC: tsc, Kind: kind, Func: fn})
}

// Thread 8 waits in function 2, called by 1: twice for thread 9, once for an interrupt, and once for
// another process. Thread 9 is in 4, called by 3, the first time, and in 3 the second time. Thread 9
// waits for thread 8 before thread 8 calls anything, and for something that the events do not show.
func wakersTrace(t *testing.T) *reader.Trace {
	waiter := &reader.Block{Thread: reader.Thread{Process: 7, Thread: 8}}
	record(waiter, 1000, reader.Enter, 1)
	for i, end := range []uint64{1500, 2500, 3500, 4500} {
		record(waiter, 1050+1000*uint64(i), reader.Enter, 2)
		switched(waiter, end, 400, 50)
		record(waiter, end+10, reader.Exit, 2)
	}
	record(waiter, 5000, reader.Exit, 1)
	waker := &reader.Block{Thread: reader.Thread{Process: 7, Thread: 9}, Index: 1}
	record(waker, 900, reader.Enter, 3)
	record(waker, 1300, reader.Enter, 4)
	record(waker, 1460, reader.Exit, 4)
	record(waker, 1900, reader.Enter, 4)
	record(waker, 1950, reader.Exit, 4)
	record(waker, 3000, reader.Exit, 3)
	record(waker, 6000, reader.Enter, 5)
	switched(waker, 6500, 300, 0)
	switched(waker, 7000, 200, 0)
	record(waker, 7001, reader.Exit, 5)

	var events []reader.SchedEvent
	off := func(task uint32, out, woken, in uint64, by uint32, flags reader.SchedFlags) {
		events = append(events, reader.SchedEvent{TSC: out, Task: task, Other: 5, Kind: reader.Switched, State: 'S'})
		if by != 0 {
			events = append(events, reader.SchedEvent{TSC: woken, Task: by, Other: task, Kind: reader.Waking, Flags: flags})
		}
		events = append(events, reader.SchedEvent{TSC: in, Task: 5, Other: task, Kind: reader.Switched, State: 'R'})
	}
	off(1, 1100, 1450, 1500, 2, 0)
	off(1, 2100, 2450, 2500, 2, 0)
	off(1, 3100, 3450, 3500, 2, reader.WokenByInterrupt)
	off(1, 4100, 4450, 4500, 3, 0)
	off(2, 6200, 6500, 6500, 1, 0)
	r := &reader.Recording{
		Process: reader.Process{PID: 7, OffCPU: "rseq"},
		Threads: []reader.ThreadInfo{{PID: 7, TID: 8}, {PID: 7, TID: 9}},
		Sched: reader.Sched{
			Tasks: []reader.Task{{PID: 7, TID: 8, Name: "a"}, {PID: 7, TID: 9, Name: "b"}, {PID: 30, TID: 30, Name: "cat"}, {PID: 20, TID: 20, Name: "hog"}, {Name: "swapper"}},
			Parts: []reader.SchedPart{{From: 800, To: 8000, Events: events}},
		},
	}
	var out bytes.Buffer
	w := tracewrite.NewFDR(&out, reader.Header{CycleFrequency: 1e9, Recorder: true}, tracewrite.Options{Recording: r})
	for _, b := range []*reader.Block{waiter, waker} {
		if err := w.Block(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trace.xray")
	if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.Open(reader.Options{}, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trace.Close() })
	return trace
}

// Blocked paths continue with the waker.
func TestWakers(t *testing.T) {
	trace := wakersTrace(t)
	logs := sched.NewLogs(trace)
	for _, shards := range []int{1, 2} {
		opts := calls.Options{Shards: shards, Paths: true, OffCPU: &reader.Clock{Frequency: 1e9}}
		a, _, err := calls.Run(calls.Source(trace), opts, func() *stack.Analysis {
			return stack.New(stack.Options{OffCPU: true, Wakers: logs})
		})
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := a.Report(reader.Clock{Frequency: 1e9}).WriteFolded(&got, nil, stack.FoldedView{Metric: stack.Blocked}); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"#1;#2;(woken by);#3 350",
			"#1;#2;(woken by);#4;#3 350",
			"#1;#2;(woken by another process) 350",
			"#1;#2;(woken by an interrupt) 350",
			"#5 200",
			"#5;(woken by) 300",
		}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(got.String()), "\n")); diff != "" {
			t.Errorf("%d shards (-want +got):\n%s", shards, diff)
		}
	}
}

// A profile has the off-CPU times of its paths.
func TestOffCPUOfProfile(t *testing.T) {
	r := &reader.Recording{
		Process: reader.Process{PID: 7, OffCPU: "rseq"},
		Profiles: []reader.Profile{{Process: 7, Thread: 7, First: 1000, Last: 9000, Paths: []reader.ProfilePath{
			{Func: 1, Parent: -1, Count: 1, Total: 4000, Min: 4000, Max: 4000, Octaves: make([]uint64, reader.ProfileOctaves)},
			{Func: 2, Parent: 0, Count: 2, Total: 3000, Min: 1000, Max: 2000, Octaves: make([]uint64, reader.ProfileOctaves),
				Off: reader.NewProfileOff(3, 800, 300)},
			{Func: 1, Parent: 1, Count: 1, Total: 500, Min: 500, Max: 500, Octaves: make([]uint64, reader.ProfileOctaves),
				Off: reader.NewProfileOff(1, 400, 0)}, // more than the path has, in ticks
		}}},
	}
	for i := range r.Profiles[0].Paths {
		p := &r.Profiles[0].Paths[i]
		p.Octaves[12] = p.Count
	}
	var out bytes.Buffer
	w := tracewrite.NewFDR(&out, reader.Header{CycleFrequency: 2e9, Recorder: true}, tracewrite.Options{Recording: r})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trace.xray")
	if err := os.WriteFile(file, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.Open(reader.Options{}, file)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	a := stack.New(stack.Options{OffCPU: true})
	if err := calls.RunSums(trace, calls.Options{OffCPU: &reader.Clock{Frequency: 2e9}}, a, &calls.Stats{}); err != nil {
		t.Fatal(err)
	}
	clock := reader.Clock{Frequency: 2e9}
	for metric, want := range map[stack.Metric]string{
		stack.Blocked: "#1;#2 500\n#1;#2;#1 250\n", stack.Queued: "#1;#2 300\n", stack.CPU: "#1 500\n#1;#2 450\n",
	} {
		var got bytes.Buffer
		if err := a.Report(clock).WriteFolded(&got, nil, stack.FoldedView{Metric: metric}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", metric, diff)
		}
	}
}
