//go:build !linux || !amd64

package attach

import (
	"context"
	"errors"
	"time"
)

// Options say what is loaded and called.
type Options struct {
	Object, Late, Function, Argument string
	Wait                             time.Duration
}

// FailedError is why the object could not be used after the process was changed.
type FailedError struct{ Err error }

func (e *FailedError) Error() string { return e.Err.Error() }

// Load works on Linux on x86-64 alone.
func Load(context.Context, int, Options) (int32, error) {
	return 0, errors.New("attaching works on Linux on x86-64 alone")
}

// Files works on Linux on x86-64 alone.
func Files(int) ([]string, error) {
	return nil, errors.New("attaching works on Linux on x86-64 alone")
}
