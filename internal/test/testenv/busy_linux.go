package testenv

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Busy runs f, and reports whether the CPUs that this process may use were idle for less than a quarter of the time
// meanwhile. It reports false if the kernel does not say that.
func Busy(f func()) bool {
	idle, all := cpuTimes()
	f()
	idleNow, allNow := cpuTimes()
	return 4*(idleNow-idle) < allNow-all
}

// cpuTimes returns for how long the CPUs that this process may use were idle, and how much time there was for them, both
// in the unit of /proc/stat.
func cpuTimes() (idle, all uint64) {
	data, _ := os.ReadFile("/proc/stat")
	var mine unix.CPUSet
	if unix.SchedGetaffinity(0, &mine) != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		number, err := strconv.Atoi(strings.TrimPrefix(fields[0], "cpu"))
		if err != nil || len(fields) < 9 || !mine.IsSet(number) {
			continue
		}
		for i, f := range fields[1:9] { // guests' times are part of the first two
			ticks, _ := strconv.ParseUint(f, 10, 64)
			all += ticks
			if i == 3 || i == 4 { // idle, and idle while a thread waits for a device
				idle += ticks
			}
		}
	}
	return idle, all
}
