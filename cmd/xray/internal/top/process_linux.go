package top

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the time that a process has spent on processors, or 0 if it has ended.
func cpuTime(pid int) time.Duration {
	const scheduler = 2 // CPUCLOCK_SCHED: the kernel's clock of a process, in nanoseconds
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|scheduler), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// sleeping returns the threads of a process, by their IDs in its own namespace, and whether each
// sleeps.
func sleeping(pid int) map[int32]bool {
	threads := make(map[int32]bool)
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		sleeps, id := false, -1
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			switch {
			case len(fields) < 2:
			case fields[0] == "State:":
				sleeps = fields[1] != "R"
			case fields[0] == "NSpid:" || fields[0] == "Pid:" && id < 0:
				if n, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
					id = n
				}
			}
		}
		if id > 0 {
			threads[int32(id)] = sleeps
		}
	}
	return threads
}
