package observe

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// StepBack makes this process disturb others less: it uses one processor at a time, and does not
// preempt a running thread when it wakes (SCHED_BATCH). It is for the process of an observer with a
// budget, because its own CPU time does not count against the budget. Other observers must write as
// fast as programs record.
func StepBack() {
	runtime.GOMAXPROCS(1)
	tasks, _ := os.ReadDir("/proc/self/task") // later threads inherit the policy
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			_ = unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}, 0)
		}
	}
}
