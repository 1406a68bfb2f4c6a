//go:build !linux

package core

import "errors"

// OpenProcess reads the memory of a running process. It cannot on this system.
func OpenProcess(int) (*Core, error) { return nil, errors.ErrUnsupported }
