package reader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// Each format has a limit on threads, for all files together.
func TestMaxThreads(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		log := []byte(text)
		if strings.HasPrefix(text, "xray ") {
			var err error
			if log, err = tracetext.Parse(text); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, log, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var fdr, basic, yaml strings.Builder
	fdr.WriteString("xray fdr\n")
	basic.WriteString("xray basic\n")
	yaml.WriteString("---\nheader:\n  version: 3\n  type: 0\n  constant-tsc: true\n  nonstop-tsc: true\n  cycle-frequency: 0\nrecords:\n")
	for thread := 1; thread <= 5; thread++ {
		fmt.Fprintf(&fdr, "thread %d pid=1 tsc=%d\nenter 1 +0\nexit 1 +1\n", thread, thread)
		fmt.Fprintf(&basic, "enter 1 tsc=%d tid=%d pid=1\n", thread, thread)
		fmt.Fprintf(&yaml, "  - { type: 0, func-id: 1, function: '1', cpu: 0, thread: %d, process: 1, kind: function-enter, tsc: %d, data: '' }\n", thread, thread)
	}
	for format, text := range map[string]string{"fdr": fdr.String(), "basic": basic.String(), "yaml": yaml.String()} {
		path := write(format, text)
		for _, test := range []struct {
			max     int
			paths   []string
			refused bool
		}{
			{0, []string{path}, false},
			{5, []string{path}, false},
			{4, []string{path}, true},
			{9, []string{path, path}, true},
			{10, []string{path, path}, false},
		} {
			for n := 1; n <= 3; n++ {
				err := passOver(reader.Options{MaxThreads: test.max}, n, test.paths...)
				var many *reader.TooManyThreadsError
				if !test.refused && err != nil || test.refused && (!errors.As(err, &many) || many.MaxThreads != test.max) {
					t.Errorf("%s with %d of %d goroutines: got error %v", format, test.max, n, err)
				}
				if want := fmt.Sprintf("%s: more than %d threads", path, test.max); test.refused && err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want %q in it", err, want)
				}
			}
		}
	}
}

// passOver opens traces and reads them in every order.
func passOver(opts reader.Options, n int, paths ...string) error {
	trace, err := reader.Open(opts, paths...)
	if err != nil {
		return err
	}
	defer trace.Close()
	all := trace.Each(n, func(int, *reader.Block) error { return nil })
	for _, order := range []reader.Order{reader.FileOrder, reader.ThreadOrder, reader.TimeOrder} {
		for _, err := range trace.Blocks(order) {
			if (err == nil) != (all == nil) && err != nil {
				return fmt.Errorf("order %d: %w", order, err)
			}
		}
	}
	return all
}

// The index of a log is not much larger than the log: a megabyte of gzip can have millions of
// blocks of two threads.
func TestMaxBlocks(t *testing.T) {
	log := []byte{0: 5, 2: 1, 4: 3, 31: 0}
	le := binary.LittleEndian
	for i := range 100 {
		block := le.AppendUint64([]byte{7<<1 | 1}, 16)
		block = append(block, make([]byte, 16-len(block))...)
		block = append(block, 1, byte(i%2))
		log = append(log, append(block, make([]byte, 32-len(block))...)...)
	}
	open := func(log []byte, max int) error {
		path := filepath.Join(t.TempDir(), "blocks.xray")
		if err := os.WriteFile(path, log, 0o600); err != nil {
			t.Fatal(err)
		}
		return passOver(reader.Options{MaxThreads: max}, 1, path)
	}
	var many *reader.TooManyThreadsError
	if err := open(log, 2); !errors.As(err, &many) || many.MaxBlocks != 2*8+int64(len(log))/256 {
		t.Errorf("100 blocks: got error %v", err)
	}
	if err := open(log, 100); err != nil {
		t.Error(err)
	}
	// Padding makes blocks of ordinary size.
	var long []byte
	for block := log[32:]; len(block) > 0; block = block[32:] {
		long = append(append(long, block[:32]...), bytes.Repeat([]byte{0}, 256)...)
	}
	if err := open(append(log[:32:32], long...), 2); err != nil {
		t.Error(err)
	}
}

// Any number of threads can be merged by time.
func TestTimeOrderOfManyThreads(t *testing.T) {
	const threads = 20_000
	for _, atOnce := range []bool{false, true} {
		log := make([]byte, 32, 32+threads*64)
		le := binary.LittleEndian
		le.PutUint16(log, 3)
		for kind := range 2 {
			for i := range threads {
				record := make([]byte, 32)
				record[3] = byte(kind)
				le.PutUint32(record[4:], 1)
				at := 2*i + kind
				if atOnce {
					at = kind*threads + i
				}
				le.PutUint64(record[8:], uint64(1+at))
				le.PutUint32(record[16:], uint32(1+i))
				log = append(log, record...)
			}
		}
		trace, err := reader.OpenReaderAt(bytes.NewReader(log), int64(len(log)), "many.xray")
		if err != nil {
			t.Fatal(err)
		}
		var events uint64
		for b, err := range trace.Blocks(reader.TimeOrder) {
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Events {
				if events++; b.Events[i].TSC != events {
					t.Fatalf("at once %v: got event %d at %d", atOnce, events, b.Events[i].TSC)
				}
			}
		}
		if events != 2*threads {
			t.Errorf("at once %v: got %d events", atOnce, events)
		}
	}
}
