//go:build !linux

package live

import (
	"context"
	"io"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
)

// Reader reads the rings of a running process. It does not work on this system.
type Reader struct{}

// Open finds the rings of a process. It always fails on this system.
func Open(context.Context, *client.Process, int64, func(*reader.Trace) (Roots, error)) (*Reader, error) {
	return nil, recorder.Supported()
}

// Close releases its resources.
func (l *Reader) Close() error { return nil }

// Limit limits the cost of recording. It always fails on this system.
func (l *Reader) Limit(context.Context, float64) error { return recorder.Supported() }

// Limiter limits the cost of a recording.
type Limiter struct{}

// NewLimiter begins to limit the cost of a recording. It always fails on this system.
func NewLimiter(context.Context, *client.Process, float64) (*Limiter, error) {
	return nil, recorder.Supported()
}

// Over reports whether the recording has ended.
func (l *Limiter) Over() bool { return true }

// Stop stops limiting.
func (l *Limiter) Stop() {}

// Finish adds to the trace which calls were not recorded. It always fails on this system.
func (l *Limiter) Finish(string) error { return recorder.Supported() }

// Recording describes the process.
func (l *Reader) Recording() *reader.Recording { return nil }

// Read reads what threads have recorded.
func (l *Reader) Read(context.Context, func(RootCall)) (State, error) {
	return State{}, recorder.Supported()
}

// Newest is the TSC up to which Read has read.
func (l *Reader) Newest() uint64 { return 0 }

// NoteWaits notes how long threads have waited.
func (l *Reader) NoteWaits() int { return 0 }

// WriteTrace writes a trace of a part of the rings.
func (l *Reader) WriteTrace(io.Writer, uint64, uint64, func(*reader.Recording)) error {
	return recorder.Supported()
}
