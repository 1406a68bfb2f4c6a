//go:build !linux

package fileio

import "os"

// FreeSpace is only known on Linux.
func FreeSpace(*os.File) (int64, bool) { return 0, false }
