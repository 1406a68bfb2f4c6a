package observe

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

func TestHasArena(t *testing.T) {
	t.Parallel()
	maps := []byte(`55c04ba30000-55c04ba31000 r-xp 00000000 08:01 77 /tmp/memfd:xray (1)
7fe922ee0000-7fe925ee0000 rw-s 00000000 00:01 1234567 /memfd:xray-arena (deleted)
7fe925ee0000-7ff922ee0000 ---s 03000000 00:01 1234567 /memfd:xray-arena (deleted)
7ff922ee0000-7ff922ee1000 rw-s 00000000 00:01 99 /memfd:xray-aren (deleted)
7ff922ee1000-7ff922ee2000 /memfd:xray-arena
`)
	for inode, want := range map[uint64]bool{1234567: true, 77: false, 99: false, 123456: false} {
		if hasArena(maps, inode) != want {
			t.Errorf("arena %d is mapped: %t, want %t", inode, !want, want)
		}
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

// An arena is shared as long as a process has its descriptor or a mapping of it, and no longer.
func TestSharedArena(t *testing.T) {
	t.Parallel()
	a, err := ring.NewArena(&ring.ArenaOptions{}, ring.SmallestArena)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	fd, err := a.Share()
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "arena")
	cmd := exec.Command("sleep", "60")
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(fd, 0, ring.SmallestArena, unix.PROT_NONE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if !a.IsShared() {
		t.Error("not shared while it is mapped")
	}
	if err := unix.Munmap(mapped); err != nil || !a.IsShared() {
		t.Errorf("not shared while a process has the descriptor (%v)", err)
	}
	_, _ = cmd.Process.Kill(), cmd.Wait()
	for end := time.Now().Add(time.Minute); a.IsShared(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("shared by nobody")
		}
	}
}

// The end of a process ends a sleep, however long that is.
func TestEndOfAProcessWakes(t *testing.T) {
	c := exec.Command("cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var word uint32
	b := newBell(&word)
	defer b.end()
	handle, err := unix.PidfdOpen(c.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &observedProcess{handle: handle}
	for range 2 { // the second time changes nothing
		if !p.watchEnd(b) {
			t.Error("the end of the process cannot be waited for")
		}
	}
	defer p.end.Close()
	if b.sleep(time.Millisecond, ring.ArenaSleepsLong, func() bool { return false }) {
		t.Error("a running process ends a sleep")
	}
	in.Close()
	if !b.sleep(time.Hour, ring.ArenaSleepsLong, func() bool { return false }) || !hasEnded(handle) {
		t.Error("the sleep ended before the process")
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
