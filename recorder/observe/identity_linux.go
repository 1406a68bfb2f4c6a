package observe

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// A number names a process only in one PID namespace, and only until the process has ended. So an arena
// says in which namespace an ID is, and the observer holds a pidfd from then on. A program may write any
// number there: a process counts as recorded only if it has the arena mapped.

// locate returns the ID, here, of the process with an ID in a PID namespace, or -1. Namespace 0 is that
// of the process that the arena was created for.
func (a *arenaObserver) locate(space uint64, inner int) int {
	switch {
	case space == 0 && a.pid == a.inner, space == proc.OwnSpace() && space != 0:
		return inner
	case space == 0:
		space, _ = proc.PIDSpace(strconv.Itoa(a.pid))
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return -1
	}
	var hidden []int // in a namespace that this user may not see
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		fields, err := proc.StatusFields(pid)
		ids := fields["NSpid"]
		if err != nil || len(ids) < 2 || ids[len(ids)-1] != strconv.Itoa(inner) {
			continue
		}
		switch in, err := proc.PIDSpace(d.Name()); {
		case err == nil && in == space:
			return pid
		case errors.Is(err, fs.ErrPermission):
			hidden = append(hidden, pid)
		}
	}
	if len(hidden) == 1 {
		return hidden[0]
	}
	return -1
}

// isOther reports whether a process cannot be one that shares the arena. It returns false if this user may
// not see that.
func (a *arenaObserver) isOther(pid int) bool {
	if pid == os.Getpid() || proc.StartTime(pid) < a.began {
		return true
	}
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	return err == nil && !hasArena(maps, a.inode)
}

// hasArena reports whether the contents of /proc/PID/maps have an arena with this inode.
func hasArena(maps []byte, inode uint64) bool {
	for line := range bytes.Lines(maps) {
		if !bytes.Contains(line, []byte("/memfd:"+ring.ArenaName)) {
			continue
		}
		// address, permissions, offset, device, inode, path
		if fields := bytes.Fields(line); len(fields) > 5 && string(fields[4]) == strconv.FormatUint(inode, 10) {
			return true
		}
	}
	return false
}

// inodeOf returns the inode of a file, or 0.
func inodeOf(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// ended reports whether the process has ended.
func (p *observedProcess) ended() bool {
	if p.handle < 0 && !p.gone {
		handle, err := unix.PidfdOpen(p.host, 0)
		switch {
		case err == nil && p.arena != nil && p.arena.isOther(p.host):
			unix.Close(handle)
			p.gone = true
		case err == nil:
			p.handle = handle
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
			// This says nothing about the process. Try again later.
		default:
			p.gone = true
		}
	}
	return p.gone || p.handle >= 0 && hasEnded(p.handle)
}

// watchEnd makes the end of the process wake the bell. It reports whether it could. No thread waits for that:
// Go's poller does.
func (p *observedProcess) watchEnd(b *bell) bool {
	if p.handle < 0 || p.end != nil || unix.SetNonblock(p.handle, true) != nil {
		return p.watched
	}
	p.end = os.NewFile(uintptr(p.handle), "pidfd")
	conn, err := p.end.SyscallConn()
	if err != nil || p.end.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	p.watched = true
	go func() {
		_ = conn.Read(func(handle uintptr) bool { return hasEnded(int(handle)) })
		b.wake()
	}()
	return true
}

// hasEnded reports whether the process with a pidfd has ended.
func hasEnded(handle int) bool {
	poll := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}
