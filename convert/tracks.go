package convert

import (
	"cmp"
	"strconv"

	"github.com/xray-tools/xray/reader"
)

// tracks has the processes and threads of a timeline. It separates processes of different traces.
type tracks struct {
	opts      *Options
	processes map[trackProcess]int64
	taken     map[int64]bool // the IDs in processes
}

type trackProcess struct{ file, process int32 }

func newTracks(opts *Options) tracks {
	return tracks{opts: opts, processes: map[trackProcess]int64{}, taken: map[int64]bool{}}
}

// process returns the ID under which a process is shown, and whether it was shown before. A process
// gets another ID if its ID is taken by a process of another trace, or is 0, which means unknown.
func (k *tracks) process(t reader.Thread) (pid int64, known bool) {
	key := trackProcess{t.File, t.Process}
	if pid, known = k.processes[key]; known {
		return pid, true
	}
	pid = int64(t.Process)
	if pid == 0 || k.taken[pid] {
		// Above the process IDs of Linux.
		pid = 1<<22 + 1
		for k.taken[pid] {
			pid++
		}
	}
	k.processes[key], k.taken[pid] = pid, true
	return pid, false
}

// processName returns the name of a process with its ID.
func (k *tracks) processName(t reader.Thread) string { return k.processBeside(t, 0) }

// processBeside returns the name of a process for viewers that show pid next to it.
func (k *tracks) processBeside(t reader.Thread, pid int64) string {
	name := cmp.Or(nameOf(k.opts.ProcessName, t), "process")
	if t.Process != 0 && int64(t.Process) != pid {
		name += " " + strconv.Itoa(int(t.Process))
	}
	if file := k.opts.file(t); file != "" {
		name += " of " + file
	}
	return name
}

// threadName returns the name of a thread, with its ID unless it is the main thread.
func (k *tracks) threadName(t reader.Thread) string {
	name := k.threadBeside(t)
	if t.Thread != t.Process {
		name += " " + strconv.Itoa(int(t.Thread))
	}
	return name
}

// threadBeside returns the name of a thread for viewers that show its ID next to it.
func (k *tracks) threadBeside(t reader.Thread) string {
	name := "thread"
	if t.Thread == t.Process {
		name = "main thread"
	}
	return cmp.Or(nameOf(k.opts.ThreadName, t), name)
}
