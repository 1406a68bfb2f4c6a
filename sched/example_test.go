package sched_test

import (
	"fmt"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/sched"
)

// When a thread was off CPU, and what woke it. The recording is usually that of a trace.
func ExampleNew() {
	const worker, writer = 1, 2 // the number of a task, from 1
	log := sched.New(&reader.Recording{
		Process: reader.Process{PID: 7},
		Threads: []reader.ThreadInfo{{PID: 7, TID: 8, Name: "worker"}},
		Sched: reader.Sched{
			Tasks: []reader.Task{{PID: 7, TID: 8, Name: "worker"}, {PID: 30, TID: 30, Name: "writer"}},
			Parts: []reader.SchedPart{{From: 1, To: 1000, Events: []reader.SchedEvent{
				{TSC: 100, Task: worker, Other: writer, Kind: reader.Switched, State: 'S'},
				{TSC: 390, Task: writer, Other: worker, Kind: reader.Waking},
				{TSC: 400, Task: writer, Other: worker, Kind: reader.Switched, State: 'R'},
			}}},
		},
	})
	for _, off := range log.Thread(8).Off(1, 1000) {
		fmt.Printf("asleep from %d to %d, then runnable until %d, woken by %s\n", off.Out, off.Woken, off.In, off.Waker.Name)
	}
	// Output:
	// asleep from 100 to 390, then runnable until 400, woken by writer
}
