package recorder

import (
	"bytes"
	"strconv"
)

// ObserverOptions say what an [Observer] does with what processes record.
type ObserverOptions struct {
	Session uint64 `json:"session"` // of the processes: others are sent away
	Output  string `json:"output"`  // template of the traces' paths, as in [Options]
	// Rings keeps the rings of threads, and writes them when their process ends.
	// Otherwise chunks are written as they fill up.
	Rings bool  `json:"rings"`
	Drop  bool  `json:"drop"`  // lose records rather than make threads wait
	Limit int64 `json:"limit"` // bytes written for each process; 0 is no bound
	Sched bool  `json:"sched"` // also record the scheduler's events, if the kernel lets us
}

// Name is the abstract name that programs find the observer by.
func (o *ObserverOptions) Name() string { return "xray-observer-" + strconv.FormatUint(o.Session, 10) }

// Observed is what became of processes.
type Observed struct {
	Traces   []ObservedTrace   `json:"traces"`   // of processes that have ended
	Running  []ObservedProcess `json:"running"`  // and of those that have not
	Problems []string          `json:"problems"` // what went wrong
}

// ObservedTrace is a trace that was written.
type ObservedTrace struct {
	Path     string `json:"path"`
	PID      int    `json:"pid"`
	WaitedNS uint64 `json:"waited_ns"` // time that threads waited for the observer, in all
	Problem  string `json:"problem"`   // why it lacks records; "" if it does not
}

// ObservedProcess is a process that is recorded.
type ObservedProcess struct {
	PID   int    `json:"pid"`
	Trace string `json:"trace"` // "" while it has recorded nothing
}

// mapsArena reports whether a list of mappings, /proc/PID/maps, has the arena with this
// inode.
func mapsArena(maps, inode []byte) bool {
	for line := range bytes.Lines(maps) {
		if bytes.Contains(line, []byte("/memfd:xray-arena")) && bytes.Contains(line, inode) {
			return true
		}
	}
	return false
}
