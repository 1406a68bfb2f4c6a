//go:build !linux

package client

import (
	"context"

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/build"
)

// Attach loads the runtime into a process that has none.
func Attach(context.Context, string, build.Library, int64, int64) (*Process, error) {
	return nil, recorder.Supported()
}

// CheckInstrumented returns nil: no process can be read on this system.
func CheckInstrumented(int) error { return nil }

// InstrumentedFiles returns the instrumented files of a process. They are not known on this system.
func InstrumentedFiles(int) ([]string, bool) { return nil, false }
