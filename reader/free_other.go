//go:build !linux

package reader

import "os"

// freeSpace is only known on Linux.
func freeSpace(*os.File) (int64, bool) { return 0, false }
