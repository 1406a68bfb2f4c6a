//go:build !amd64

package recorder

// rdtsc reads the time stamp counter, which exists on amd64.
func rdtsc() uint64 { return 0 }
