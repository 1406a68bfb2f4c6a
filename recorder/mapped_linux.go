package recorder

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// mappings are the arenas that processes had mapped at a point in time. An observer of many short
// processes reads /proc once for the arenas of all those that have ended.
type mappings struct {
	at     time.Time // when reading began
	inodes map[uint64]bool
}

// mapped reports whether a process has the arena mapped after a time. Such a process may have no entry,
// for example a forked child that has recorded nothing yet. mapped returns false for known if it is too
// early to read /proc again.
func (ob *Observer) mapped(a *arenaObserver, after time.Time) (mapped, known bool) {
	ob.mapping.Lock()
	defer ob.mapping.Unlock()
	if !ob.mappings.at.After(after) {
		if time.Since(ob.mappings.at) < scanInterval {
			return false, false
		}
		ob.mappings = readMappings(ob.oldest())
	}
	return ob.mappings.inodes[a.inode], true
}

// scanInterval is the shortest time between two readings of /proc.
const scanInterval = 200 * time.Millisecond

// oldest returns when the first of the processes started that arenas were created for.
func (ob *Observer) oldest() uint64 {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	oldest := ^uint64(0)
	for _, a := range ob.arenas {
		oldest = min(oldest, a.began)
	}
	return oldest
}

// readMappings reads which arenas are mapped by other processes, of those that started at this time or
// later, as the kernel counts it.
func readMappings(since uint64) mappings {
	m := mappings{at: time.Now(), inodes: make(map[uint64]bool)}
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() || proc.StartTime(pid) < since {
			continue
		}
		if maps, err := os.ReadFile("/proc/" + d.Name() + "/maps"); err == nil {
			m.add(maps)
		}
	}
	return m
}

// add adds the arenas in the contents of /proc/PID/maps.
func (m *mappings) add(maps []byte) {
	for line := range bytes.Lines(maps) {
		if !bytes.Contains(line, []byte("/memfd:"+ring.ArenaName)) {
			continue
		}
		// address, permissions, offset, device, inode, path
		if fields := bytes.Fields(line); len(fields) > 5 {
			if inode, err := strconv.ParseUint(string(fields[4]), 10, 64); err == nil {
				m.inodes[inode] = true
			}
		}
	}
}

// inodeOf returns the inode of a file, or 0.
func inodeOf(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}
