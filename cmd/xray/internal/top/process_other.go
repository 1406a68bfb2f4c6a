//go:build !linux

package top

import "time"

// CPU returns the time that a process has spent on processors. It is not known on this system.
func CPU(int) time.Duration { return 0 }

// Sleeping returns the threads of a process. They are not known on this system.
func Sleeping(int) map[int32]bool { return nil }
