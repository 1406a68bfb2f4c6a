package recorder

// SchedOptions say which process's scheduler events to record, and where to write them.
type SchedOptions struct {
	PID        int    `json:"pid"`
	Trace      string `json:"trace"`      // the trace of this process, which has begun
	Interrupts bool   `json:"interrupts"` // also record interrupts
}
