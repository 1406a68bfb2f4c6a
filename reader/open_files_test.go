//go:build unix

package reader_test

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/reader"
)

// More traces can be open than the process may open files.
func TestManyFiles(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}()
	few := old
	few.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	for format, text := range map[string]string{
		"basic": "xray basic\nenter 1 tsc=7 tid=1 pid=1\nexit 1 tsc=9 tid=1 pid=1\n",
		"fdr":   "xray fdr\nthread 1 pid=1 tsc=5\nenter 1 +0\nexit 1 +3\n",
	} {
		t.Run(format, func(t *testing.T) {
			path := writeTrace(t, text)
			const files = 1000
			tr, err := reader.Open(reader.Options{}, slices.Repeat([]string{path}, files)...)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			events := 0
			for block, err := range tr.Blocks(reader.FileOrder) {
				if err != nil {
					t.Fatal(err)
				}
				events += len(block.Events)
			}
			err = tr.Each(1, func(_ int, block *reader.Block) error { events += len(block.Events); return nil })
			if events != 4*files || err != nil {
				t.Errorf("got %d events and error %v, want %d", events, err, 4*files)
			}
		})
	}
}
