package reader_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// TestMappingIsReleased reads a log that is much larger than the part of it that may stay in
// memory.
func TestMappingIsReleased(t *testing.T) {
	header, err := tracetext.Parse("xray basic\n")
	if err != nil {
		t.Fatal(err)
	}
	call, err := tracetext.Parse("xray basic\nenter 1 tsc=7 tid=1 pid=1\nexit 1 tsc=9 tid=1 pid=1\n")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trace")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size, piece = 256 << 20, 1 << 20
	if _, err := f.Write(header); err != nil {
		t.Fatal(err)
	}
	calls := bytes.Repeat(call[len(header):], piece/len(call[len(header):]))
	for range size / piece {
		if _, err := f.Write(calls); err != nil {
			t.Fatal(err)
		}
	}

	before := fileMemory(t)
	tr, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	records := 0
	if err := tr.EachPacked(1, func(_ int, b *reader.Block) error {
		records += len(b.Events) + b.Packed.Len()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := size / 32; records != want {
		t.Errorf("got %d records, want %d", records, want)
	}
	if more := fileMemory(t) - before; more > 8<<10 {
		t.Errorf("%d kB of the file are in memory after it was read", more)
	}
}

// fileMemory returns the resident pages of mapped files in kB.
func fileMemory(t *testing.T) (kB int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "RssFile:")
	if _, err := fmt.Sscan(after, &kB); err != nil {
		t.Fatal(err)
	}
	return kB
}
