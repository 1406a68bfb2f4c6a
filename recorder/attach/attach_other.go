//go:build !linux || !amd64

package attach

import (
	"context"
	"errors"
	"time"
)

// Options says which object to load and which function to call.
type Options struct {
	Object, Late, Function, Argument string
	Wait                             time.Duration
}

// FailedError is an error after the process was changed.
type FailedError struct{ Err error }

func (e *FailedError) Error() string { return e.Err.Error() }

// Load works only on Linux on x86-64.
func Load(context.Context, int, Options) (int32, error) {
	return 0, errors.New("attaching requires Linux on x86-64")
}

// Files works only on Linux on x86-64.
func Files(int) ([]string, error) {
	return nil, errors.New("attaching requires Linux on x86-64")
}

// CheckStatus fails, because this system has no such processes.
func CheckStatus(int) error { return errors.New("attaching requires Linux on x86-64") }
