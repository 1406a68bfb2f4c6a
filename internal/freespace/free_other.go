//go:build !linux

package freespace

import "os"

// Of is only known on Linux.
func Of(*os.File) (int64, bool) { return 0, false }
