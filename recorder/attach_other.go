//go:build !linux

package recorder

import "context"

// Attach loads the runtime into a process that has none.
func Attach(context.Context, string, Library, int64) (*Process, error) { return nil, Supported() }
