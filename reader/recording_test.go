package reader_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// several opens the traces of some recordings as one.
func several(t *testing.T, recordings ...*reader.Recording) *reader.Trace {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for i, r := range recordings {
		paths = append(paths, filepath.Join(dir, string(rune('a'+i))))
		if err := os.WriteFile(paths[i], write(r), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := reader.Open(reader.Options{Stdin: bytes.NewReader(nil)}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// Processes of one machine measure its clock slightly differently, and the longest measurement
// counts. A larger difference means two machines.
func TestFrequencyOfSeveral(t *testing.T) {
	short, long := sample(), sample()
	long.Clock.Anchors[1] = reader.Anchor{TSC: 200_000_001_000, Raw: 105_000_000_000, Real: 1}
	for _, recordings := range [][]*reader.Recording{{short, long}, {long, short}} {
		if f, err := several(t, recordings...).CycleFrequency(); err != nil || f != 2_000_000_000 {
			t.Errorf("got %d ticks per second, error %v; want those of the longer recording", f, err)
		}
	}
	long.Clock.Anchors[1].Raw += 100_000_000
	if f, err := several(t, short, long).CycleFrequency(); err == nil {
		t.Errorf("got %d ticks per second from clocks that differ by a thousandth, want an error", f)
	}
}

func TestObjectsOfSeveral(t *testing.T) {
	one, more := sample(), sample()
	more.Objects = append(more.Objects, reader.Object{First: 16, Count: 1, Path: "/lib/new.so"})
	objects, _, err := several(t, one, more).Objects()
	if err != nil || len(objects) != 3 {
		t.Errorf("%d objects, %v; want 3", len(objects), err)
	}
	more.Objects[1].BuildID = "other"
	if _, _, err := several(t, one, more).Objects(); err == nil || !strings.Contains(err.Error(), "share ID 11") {
		t.Errorf("IDs of two functions: got error %v", err)
	}
	more = sample()
	more.Addresses[0]++
	if _, _, err := several(t, one, more).Objects(); err == nil {
		t.Error("different addresses were accepted as equal")
	}
}

// If a thread ID was reused, it has the name of its last thread.
func TestThreadNames(t *testing.T) {
	r := sample()
	r.Threads = append(r.Threads, reader.ThreadInfo{PID: 700, TID: 701, Name: "later"})
	tr := several(t, r, sample())
	for _, c := range []struct {
		thread reader.Thread
		want   string
	}{
		{reader.Thread{Process: 700, Thread: 701}, "later"},
		{reader.Thread{File: 1, Process: 700, Thread: 701}, "worker 1"},
		{reader.Thread{Process: 700, Thread: 9}, ""},
	} {
		if got := tr.ThreadName(c.thread); got != c.want {
			t.Errorf("%+v: got name %q, want %q", c.thread, got, c.want)
		}
	}
	if got := tr.ProcessName(reader.Thread{Process: 700, Thread: 701}); got != "server" {
		t.Errorf("got process name %q", got)
	}
}
