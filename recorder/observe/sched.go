package observe

// SchedOptions say which process's scheduler events to record, and where to write the events.
type SchedOptions struct {
	PID        int    `json:"pid"`
	Trace      string `json:"trace"`      // path of the process's trace, which must exist
	Interrupts bool   `json:"interrupts"` // also record interrupts
}
