package core

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// A core may name any file as its program.
func TestFIFOInsteadOfProgramOfCore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	elftest.Bounded(t, 1<<40, func() { (&Core{exe: path}).TicksPerSecond() })
}
