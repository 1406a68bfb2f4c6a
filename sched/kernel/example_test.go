package kernel_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/xray-tools/xray/sched/kernel"
)

// Scheduler events of the text of perf script: thread 11 wakes thread 12, which runs in its place.
func ExampleParseText() {
	events, err := kernel.ParseText(strings.NewReader(`
 server 11 [001] 100.000001000: sched:sched_waking: comm=worker pid=12 prio=120 target_cpu=001
 server 11 [001] 100.000005000: sched:sched_switch: prev_comm=server prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=worker next_pid=12 next_prio=120
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range events.List {
		switch e.Kind {
		case kernel.Waking:
			fmt.Println(e.Time, "thread", e.Task, "wakes", e.Other)
		case kernel.Switch:
			fmt.Printf("%d CPU %d switches from thread %d (state %c) to %d\n", e.Time, e.CPU, e.Task, e.State, e.Other)
		}
	}
	// Output:
	// 100000001000 thread 11 wakes 12
	// 100000005000 CPU 1 switches from thread 11 (state S) to 12
}
