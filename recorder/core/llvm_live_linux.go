package core

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder/attach"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// OpenProcess reads the memory of a running process. It finds only the records of LLVM's runtime. For a
// process with the recorder, take a snapshot instead. The caller needs permission to trace the process,
// as for gdb. The process keeps running, so records that it writes meanwhile may be missing.
func OpenProcess(pid int) (c *Core, err error) {
	name := fmt.Sprint("process ", pid)
	proc := func(elem string) string { return filepath.Join("/proc", strconv.Itoa(pid), elem) }
	ranges, err := attach.WritableMemory(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	var mem *os.File
	if err == nil {
		mem, err = os.Open(proc("mem"))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: xray needs permission to trace the process: run it as the same user or as root, and check /proc/sys/kernel/yama/ptrace_scope", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, mem.Close())
		}
	}()
	own, _ := os.Readlink("/proc/self/ns/time")
	if its, err := os.Readlink(proc("ns/time")); err == nil && its != own {
		return nil, fmt.Errorf("%s is in another time namespace: run xray there, or make a core dump with gcore", name)
	}
	c = &Core{
		image: &ring.Image{Name: name, In: mem, Size: ring.UserSpace},
		file:  mem, exe: proc("exe"),
		live: &liveMemory{micros: monotonicMicros, runs: runsIn(pid)},
	}
	c.program, _ = os.Readlink(c.exe)
	c.aux, _ = os.ReadFile(proc("auxv"))
	for _, r := range ranges {
		if r[1] <= ring.UserSpace {
			c.image.Segments = append(c.image.Segments, ring.Segment{Address: r[0], Memory: r[1] - r[0], Offset: r[0], Bytes: r[1] - r[0], Writable: true})
		}
	}
	for _, address := range c.image.SearchSegments(ring.RootMagic, ring.MaxRoots, ring.IsSmall) {
		if root, err := c.image.ParseRoot(address); err == nil && root.Nthreads > 0 {
			return nil, fmt.Errorf("%s has xray's recorder: save its records with `xray ctl %d snapshot`", name, pid)
		}
	}
	for _, wanted := range ring.Searches {
		if err := c.findLogs(wanted); err != nil {
			return nil, err
		}
		if len(c.logs) > 0 {
			return c, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", name, errNothingLive)
}

var errNothingLive = errors.New("LLVM's runtime has no records in memory: either the process does not record in FDR or basic mode, or it has recorded nothing since it wrote its log")

// monotonicMicros reads CLOCK_MONOTONIC.
func monotonicMicros() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano()) / 1000
}

// runsIn returns a function that reports whether a process has a thread with this ID in its own PID
// namespace.
func runsIn(pid int) func(int32) bool {
	threads := make(map[int32]bool)
	dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, dir := range dirs {
		tid, _ := strconv.Atoi(filepath.Base(dir))
		if name, err := proc.InnerPID(tid); err == nil {
			threads[int32(name)] = true
		}
	}
	return func(tid int32) bool { return threads[tid] }
}
