package client

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/attach"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Attach loads the runtime into a process that has none, and returns the process as [Dial] does. The
// program must have sleds and must not be static. The runtime is idle while nothing is recorded: a
// few seconds after a recording ends, only its memory is left. ring and memory are Ring and Memory of
// [recorder.Options]; 0 is the default. An error other than [attach.FailedError] means that nothing was
// changed.
func Attach(ctx context.Context, target string, l build.Library, ring, memory int64) (*Process, error) {
	p, err := Dial(target)
	if err != nil || p.PID == 0 {
		return nil, errors.Join(err, ErrNoRecorder)
	}
	if err := checkUnprepared(p.PID); err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	argument := "control=1,start=0,follow=0"
	if ring > 0 {
		argument += ",ring=" + strconv.FormatInt(ring, 10)
	}
	if memory > 0 {
		argument += ",memory=" + strconv.FormatInt(memory, 10)
	}
	result, err := attach.Load(ctx, p.PID, attach.Options{
		Object: l.Preload(), Late: "xray_recorder_late", Function: "xray_recorder_attach", Argument: argument,
	})
	if err != nil {
		return nil, err
	}
	if result != 1 {
		return nil, fmt.Errorf("%s: xray loaded the recorder, but the recorder does not listen: %w", p, syscall.Errno(-result))
	}
	return p, nil
}

// checkUnprepared returns an error if a process has nothing to record or already has the runtime, or
// if this process could not reach the runtime there.
func checkUnprepared(pid int) error {
	files, err := attach.Files(pid)
	if err != nil {
		return err
	}
	var other error
	_ = debuginfo.ReadELF(files[0], func(f *elf.File) error {
		other = build.CheckMachine(f)
		return nil
	})
	if other != nil {
		return fmt.Errorf("it %w", other)
	}
	if !sameNetwork(pid) {
		return fmt.Errorf("%w: %s", ErrNoRecorder, inNetworkOf(pid))
	}
	if hasRuntime(files) {
		return fmt.Errorf("%w: the recorder is in the process but does not listen. Start the process with %s=control=1", ErrNoRecorder, recorder.EnvVar)
	}
	if !areInstrumented(files) {
		return build.ErrNotInstrumented
	}
	return nil
}

func areInstrumented(files []string) bool {
	return slices.ContainsFunc(files, func(path string) bool { return build.HasSleds(path) || build.HasHooks(path) })
}

// InstrumentedFiles returns the files with sleds that a process has mapped as code, by paths that this process
// can open. all is false if there may be more, because a file could not be read or calls GCC's hooks.
func InstrumentedFiles(pid int) (paths []string, all bool) {
	files, err := attach.Files(pid)
	if err != nil {
		return nil, false
	}
	for _, path := range files[1:] { // the first is the program, which is among the others, too
		f, _, err := fileio.OpenRegular(path)
		if err != nil || build.HasHooks(path) {
			return nil, false
		}
		_ = f.Close()
		if build.HasSleds(path) {
			paths = append(paths, path)
		}
	}
	return paths, true
}

// CheckInstrumented returns [build.ErrNotInstrumented] if a process has no function to record. It returns nil if
// the process cannot be read.
func CheckInstrumented(pid int) error {
	if files, err := attach.Files(pid); err == nil && !areInstrumented(files) {
		return build.ErrNotInstrumented
	}
	return nil
}

// IsStarting reports whether a process began a short time ago with the runtime, which may not listen yet.
func (p *Process) IsStarting() bool {
	const young = 10 * 100 // clock ticks
	var uptime unix.Timespec
	if p.PID == 0 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &uptime) != nil || uint64(uptime.Nano())/1e7 > proc.StartTime(p.PID)+young {
		return false
	}
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ"))
	return err == nil && slices.ContainsFunc(strings.Split(string(environment), "\x00"), func(entry string) bool {
		options, is := strings.CutPrefix(entry, recorder.EnvVar+"=")
		return is && slices.Contains(strings.Split(options, ","), "control=1")
	})
}

// isPrepared reports whether a process has had the runtime from its start. It returns false if
// the process cannot be read.
func isPrepared(pid int) bool {
	files, err := attach.Files(pid)
	return err == nil && hasRuntime(files)
}

// hasRuntime reports whether one of the files is the runtime or has it linked in.
func hasRuntime(files []string) bool {
	return slices.ContainsFunc(files, func(path string) bool {
		p, err := build.Inspect(path)
		return filepath.Base(path) == build.PreloadName || err == nil && p.Linked
	})
}
