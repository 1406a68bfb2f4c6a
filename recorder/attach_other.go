//go:build !linux

package recorder

import "context"

// Attach loads the runtime into a process that has none.
func Attach(context.Context, string, Library, int64, int64) (*Process, error) {
	return nil, Supported()
}

// CheckInstrumented returns nil: no process can be read on this system.
func CheckInstrumented(int) error { return nil }

// InstrumentedFiles returns the instrumented files of a process. They are not known on this system.
func InstrumentedFiles(int) ([]string, bool) { return nil, false }
