package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// StartTime returns when a process started, in the kernel's unit since boot. It returns 0 if that is
// unknown.
func StartTime(pid int) uint64 { return StatField(pid, 22) }

// StatField returns a number in /proc/PID/stat, or 0 if it is unknown.
func StatField(pid, number int) uint64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	field := number - 3 // those after the name, which may contain anything
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= field {
		return 0
	}
	t, _ := strconv.ParseUint(string(fields[field]), 10, 64)
	return t
}

// InnerPID returns the ID of a process in its own PID namespace, which differs in a container.
func InnerPID(pid int) (int, error) {
	fields, err := StatusFields(pid)
	if err != nil {
		return 0, err
	}
	if ids := fields["NSpid"]; len(ids) > 0 {
		return strconv.Atoi(ids[len(ids)-1])
	}
	return pid, nil
}

// StatusFields reads /proc/PID/status.
func StatusFields(pid int) (map[string][]string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return nil, err
	}
	fields := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		key, values, _ := strings.Cut(line, ":")
		fields[key] = strings.Fields(values)
	}
	return fields, nil
}

// PIDSpace returns the inode of the PID namespace of a process, or 0 if it is unknown.
func PIDSpace(pid string) (uint64, error) {
	info, err := os.Stat(filepath.Join("/proc", pid, "ns/pid"))
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}

var OwnSpace = sync.OnceValue(func() uint64 {
	space, _ := PIDSpace("self")
	return space
})
