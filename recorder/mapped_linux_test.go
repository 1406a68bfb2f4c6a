package recorder

import (
	"os"
	"os/exec"
	"testing"

	"github.com/xray-tools/xray/recorder/proc"
)

func TestMappings(t *testing.T) {
	t.Parallel()
	m := mappings{inodes: make(map[uint64]bool)}
	m.add([]byte(`55c04ba30000-55c04ba31000 r-xp 00000000 08:01 77 /tmp/memfd:xray (1)
7fe922ee0000-7fe925ee0000 rw-s 00000000 00:01 1234567 /memfd:xray-arena (deleted)
7fe925ee0000-7ff922ee0000 ---s 03000000 00:01 1234567 /memfd:xray-arena (deleted)
7ff922ee0000-7ff922ee1000 rw-s 00000000 00:01 99 /memfd:xray-aren (deleted)
7ff922ee1000-7ff922ee2000 /memfd:xray-arena
`))
	if len(m.inodes) != 1 || !m.inodes[1234567] {
		t.Errorf("found %v, want 1234567", m.inodes)
	}
}

// A process is not read if it started before the arena's process, but its children are.
func TestStartTime(t *testing.T) {
	t.Parallel()
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	own, later := proc.StartTime(os.Getpid()), proc.StartTime(child.Process.Pid)
	if own == 0 || later < own {
		t.Errorf("this process started at %d, its child at %d", own, later)
	}
	if gone := proc.StartTime(gonePID); gone != 0 {
		t.Errorf("a process that does not exist started at %d", gone)
	}
}
