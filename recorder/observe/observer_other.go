//go:build !linux

package observe

import (
	"context"
	"os"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
)

// Observer writes the traces of processes with the runtime. There are none on this system.
type Observer struct{}

// Listen begins to listen for programs. There are none on this system.
func Listen(Options) (*Observer, error) { return nil, recorder.Supported() }

// Run serves programs. There are none on this system.
func (ob *Observer) Run(context.Context) error { return recorder.Supported() }

// NoSched is why scheduler events are not recorded.
func (ob *Observer) NoSched() string { return "" }

// Started says which process was started.
func (ob *Observer) Started(int) {}

// Settle returns what was written.
func (ob *Observer) Settle() *Result { return &Result{} }

// Idle reports whether no process is observed.
func (ob *Observer) Idle() bool { return true }

// HandOver ends the observation.
func (ob *Observer) HandOver() {}

// AddSched adds the scheduler events of a process to a snapshot. There are none on this system.
func AddSched(context.Context, *client.Process, *reader.Trace, time.Duration, *os.File) (uint64, string, error) {
	return 0, "", recorder.Supported()
}

// SchedFollower reads the scheduler events of a process. It cannot on this system.
type SchedFollower struct{}

// FollowSched begins to read. It cannot on this system.
func FollowSched(SchedOptions) (*SchedFollower, error) { return nil, recorder.Supported() }

// Finish appends the events to the trace.
func (f *SchedFollower) Finish(context.Context) error { return nil }

// StepBack does nothing.
func StepBack() {}
