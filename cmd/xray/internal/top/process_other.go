//go:build !linux

package top

import "time"

// cpuTime returns the time that a process has spent on processors. It is not known on this system.
func cpuTime(int) time.Duration { return 0 }

// sleeping returns the threads of a process. They are not known on this system.
func sleeping(int) map[int32]bool { return nil }
