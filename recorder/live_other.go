//go:build !linux

package recorder

import (
	"context"
	"io"

	"github.com/xray-tools/xray/reader"
)

// Live reads the rings of a running process. It does not work on this system.
type Live struct{}

// OpenLive finds the rings of a process. It always fails on this system.
func OpenLive(context.Context, *Process, int64, func(*reader.Trace) (Roots, error)) (*Live, error) {
	return nil, Supported()
}

// Close releases its resources.
func (l *Live) Close() error { return nil }

// Limit limits the cost of recording. It always fails on this system.
func (l *Live) Limit(context.Context, float64) error { return Supported() }

// Limiter limits the cost of a recording.
type Limiter struct{}

// NewLimiter begins to limit the cost of a recording. It always fails on this system.
func NewLimiter(context.Context, *Process, float64) (*Limiter, error) { return nil, Supported() }

// Over reports whether the recording has ended.
func (l *Limiter) Over() bool { return true }

// Stop stops limiting.
func (l *Limiter) Stop() {}

// Finish adds to the trace which calls were not recorded. It always fails on this system.
func (l *Limiter) Finish(string) error { return Supported() }

// Recording describes the process.
func (l *Live) Recording() *reader.Recording { return nil }

// Read reads what threads have recorded.
func (l *Live) Read(context.Context, func(RootCall)) (LiveState, error) {
	return LiveState{}, Supported()
}

// Newest is the TSC up to which Read has read.
func (l *Live) Newest() uint64 { return 0 }

// NoteWaits notes how long threads have waited.
func (l *Live) NoteWaits() int { return 0 }

// WriteTrace writes a trace of a part of the rings.
func (l *Live) WriteTrace(io.Writer, uint64, uint64, func(*reader.Recording)) error {
	return Supported()
}
