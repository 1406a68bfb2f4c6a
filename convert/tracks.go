package convert

import (
	"cmp"
	"strconv"

	"github.com/xray-tools/xray/reader"
)

// tracks are the processes and threads of a timeline, where processes of different
// traces stay apart.
type tracks struct {
	opts      *Options
	processes map[trackProcess]int64
	taken     map[int64]bool // ids in processes
}

type trackProcess struct{ file, process int32 }

func newTracks(opts *Options) tracks {
	return tracks{opts: opts, processes: map[trackProcess]int64{}, taken: map[int64]bool{}}
}

// process returns the id under which a process is shown, and whether it was
// shown before. A process whose id another one has taken already, and process 0,
// which stands for an unknown one, get another id.
func (k *tracks) process(t reader.Thread) (pid int64, known bool) {
	key := trackProcess{t.File, t.Process}
	if pid, known = k.processes[key]; known {
		return pid, true
	}
	pid = int64(t.Process)
	if pid == 0 || k.taken[pid] {
		// Above what Linux gives to processes.
		pid = 1<<22 + 1
		for k.taken[pid] {
			pid++
		}
	}
	k.processes[key], k.taken[pid] = pid, true
	return pid, false
}

// processName names a process, with its id.
func (k *tracks) processName(t reader.Thread) string { return k.processBeside(t, 0) }

// processBeside names a process for viewers that show pid beside the name.
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

// threadName names a thread, with its id unless it is the main one.
func (k *tracks) threadName(t reader.Thread) string {
	name := k.threadBeside(t)
	if t.Thread != t.Process {
		name += " " + strconv.Itoa(int(t.Thread))
	}
	return name
}

// threadBeside names a thread for viewers that show its id beside the name.
func (k *tracks) threadBeside(t reader.Thread) string {
	name := "thread"
	if t.Thread == t.Process {
		name = "main thread"
	}
	return cmp.Or(nameOf(k.opts.ThreadName, t), name)
}
