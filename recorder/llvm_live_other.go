//go:build !linux

package recorder

// OpenProcess reads the memory of a running process. It cannot on this system.
func OpenProcess(int) (*Core, error) { return nil, Supported() }
