//go:build !unix

package reader

import "os"

// Where files cannot be mapped, they are read.
func mmap(*os.File, int64) []byte { return nil }
func munmap([]byte) error         { return nil }
func release([]byte)              {}
