package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// Listening is a process whose recorder listens.
type Listening struct {
	PID     int // 0 if it is not in this PID namespace
	Parent  int
	Command string // with its arguments
	Status  *Status
	// Err is the reason if there is no Status, for example that the process belongs to another user.
	Err error
}

// List returns the processes of this network namespace whose recorders listen under their usual names,
// sorted by process ID. It does not find sockets at paths. It includes recorded processes that do not
// listen, with the reason.
func List(ctx context.Context) ([]Listening, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	sockets := listeningSockets(string(table))
	list := make([]Listening, len(sockets))
	var wg sync.WaitGroup
	for i, socket := range sockets {
		wg.Go(func() { list[i] = query(ctx, socket) })
	}
	wg.Wait()
	// Omit processes that have ended meanwhile.
	list = slices.DeleteFunc(list, func(l Listening) bool { return errors.Is(l.Err, ErrNoRecorder) })
	list = append(list, Silent(list)...)
	slices.SortStableFunc(list, func(a, b Listening) int { return cmp.Compare(a.PID, b.PID) })
	return list, ctx.Err()
}

// FindProgram returns the ID of the newest process whose program has this name, or 0. It ignores
// processes for which skip returns true. It returns a process of a program that this user may not
// see only if there is no other.
func FindProgram(name string, skip func(pid int) bool) (int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	newest, hidden := 0, 0
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", dir.Name(), "exe"))
		switch {
		case errors.Is(err, fs.ErrPermission):
			if pid > hidden && isCommand(pid, name) && !skip(pid) {
				hidden = pid
			}
		case pid > newest && filepath.Base(exe) == name && !skip(pid):
			newest = pid
		}
	}
	return cmp.Or(newest, hidden), nil
}

// isCommand reports whether the kernel's name of a process is this name, of which the kernel keeps
// only the beginning.
func isCommand(pid int, name string) bool {
	const longest = 15
	comm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	return err == nil && strings.TrimSuffix(string(comm), "\n") == name[:min(len(name), longest)]
}

// listeningSockets returns the names of recorders' sockets in the kernel's table.
func listeningSockets(table string) []string {
	const accepting = "00010000"
	var sockets []string
	for line := range strings.Lines(table) {
		// Num RefCount Protocol Flags Type St Inode Path
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[3] != accepting || !strings.HasPrefix(fields[7], socketPrefix) {
			continue
		}
		pid, namespace, hasNamespace := strings.Cut(fields[7][len(socketPrefix):], "-")
		_, err := strconv.ParseUint(pid, 10, 31)
		if hasNamespace && err == nil {
			_, err = strconv.ParseUint(namespace, 10, 64)
		}
		if err == nil {
			sockets = append(sockets, fields[7])
		}
	}
	return sockets
}

// query finds out which process listens on a socket, and asks for its status.
func query(ctx context.Context, socket string) (l Listening) {
	p := &Process{socket: socket, anyone: true}
	conn, err := p.connect(ctx)
	if err != nil {
		l.Err = err
		return l
	}
	l.PID, l.Err = peerProcess(conn)
	conn.Close()
	if l.Err != nil || l.PID == 0 {
		return l
	}
	l.Parent, l.Command = parentOf(l.PID), commandOf(l.PID)
	// It has taken the name of another process.
	if usual, err := socketOf(l.PID); err != nil || !isSocketOf(socket, usual) {
		l.Err = ErrNoRecorder
		return l
	}
	var s Status
	if _, l.Err = (&Process{PID: l.PID, socket: socket}).Do(ctx, &s, "status"); l.Err == nil {
		l.Status = &s
	}
	return l
}

// Silent returns the recorded processes that do not listen, unlike those of the list: those that share memory with an observer,
// and forked children of those that listen.
func Silent(list []Listening) []Listening {
	listening := make(map[int]bool)
	for _, l := range list {
		listening[l.PID] = true
	}
	var found []Listening
	dirs, _ := os.ReadDir("/proc")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil || listening[pid] {
			continue
		}
		parent := parentOf(pid)
		if why := silence(pid, listening[parent] && exeOf(parent) == exeOf(pid)); why != nil {
			found = append(found, Listening{PID: pid, Parent: parent, Command: commandOf(pid), Err: why})
		}
	}
	return found
}

// silence returns why a recorded process cannot be controlled. The process shares memory with an
// observer, or was forked from one that listens. silence returns nil for processes that are not
// recorded: observers map the shared memory, too, and children have a copy of the recorder even if they
// share the memory of their parent, if the recorder does not follow them, and if it has been stopped.
func silence(pid int, isFork bool) error {
	if exeOf(pid) == "" || !isFork && !isObserved(pid) || !isPrepared(pid) {
		return nil
	}
	mem, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "mem"))
	if errors.Is(err, fs.ErrPermission) {
		return errUnknown
	} else if err != nil {
		return nil
	}
	defer mem.Close()
	_, _, root, err := FindRoot(mem, &Process{PID: pid})
	if err != nil || ring.ModeNames[root.Mode] == string(recorder.Off) {
		return nil
	}
	fields, err := proc.StatusFields(pid)
	switch {
	case err != nil || len(fields["Threads"]) != 1:
		return nil
	case len(fields["Seccomp"]) == 1 && fields["Seccomp"][0] != "0":
		return ErrSealed
	}
	return ErrForkedFromThreads
}

// errUnknown is the reason that a process with a recorder which does not listen cannot be controlled.
var errUnknown = errors.New("it has a recorder, which does not listen. Whether it records is in its memory, which you may not read: run xray as root")

// isObserved reports whether a process shares memory with an observer.
func isObserved(pid int) bool {
	maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
	return err == nil && bytes.Contains(maps, []byte("/memfd:"+ring.ArenaName+" "))
}

// exeOf returns the program of a process, or "" if unknown.
func exeOf(pid int) string {
	exe, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return exe
}

func parentOf(pid int) int {
	fields, err := proc.StatusFields(pid)
	if err != nil || len(fields["PPid"]) != 1 {
		return 0
	}
	parent, _ := strconv.Atoi(fields["PPid"][0])
	return parent
}

func commandOf(pid int) string {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return strings.TrimRight(strings.ReplaceAll(string(text), "\x00", " "), " ")
}
