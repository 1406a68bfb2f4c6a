package recorder

// SchedOptions say which process's scheduler events to record, and where to.
type SchedOptions struct {
	PID   int    `json:"pid"`
	Trace string `json:"trace"` // the file of a recording of this process, which has begun
}
