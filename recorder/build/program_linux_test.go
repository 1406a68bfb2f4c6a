package build

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// Programs and traces may name any file.
func TestFIFOInsteadOfProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	elftest.Bounded(t, 1<<40, func() {
		if p, err := Inspect(path); err == nil || p.ELF {
			t.Errorf("got %+v, %v", p, err)
		}
		if HasSleds(path) || HasHooks(path) || AlwaysInstrumented(path) {
			t.Error("a FIFO is instrumented")
		}
	})
}
