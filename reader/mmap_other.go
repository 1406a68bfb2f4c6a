//go:build !unix

package reader

import "os"

// Files that cannot be mapped are read.
func mmap(*os.File, int64) []byte { return nil }
func munmap([]byte) error         { return nil }
func duplicate(*os.File) *os.File { return nil }
func release([]byte)              {}
