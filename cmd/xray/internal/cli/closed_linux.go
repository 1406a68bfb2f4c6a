package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// shells are the programs that close standard output on request (>&-), and never open
// /dev/null in its place for reading and writing.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "busybox", "fish"}

// isClosed reports whether a shell closed standard output. Go's runtime then opens
// /dev/null in its place, for reading and writing. Other programs do the same to discard
// output on purpose, for example with Python's DEVNULL. So isClosed requires that the parent
// process is a shell whose own standard output is not /dev/null.
func isClosed(f *os.File) bool { return f.Fd() == 1 && closedByShell() }

var closedByShell = sync.OnceValue(func() bool {
	var st unix.Stat_t
	flags, err := unix.FcntlInt(1, unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR || unix.Fstat(1, &st) != nil ||
		st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
		return false
	}
	parent := "/proc/" + strconv.Itoa(os.Getppid())
	exe, err := os.Readlink(parent + "/exe")
	if err != nil || !slices.Contains(shells, filepath.Base(exe)) {
		return false
	}
	its, err := os.Readlink(parent + "/fd/1")
	return os.IsNotExist(err) || err == nil && its != "/dev/null"
})
