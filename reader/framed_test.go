package reader_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/frames"
	"github.com/xray-tools/xray/internal/test/framed"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// openFile opens a trace of these bytes from a file.
func openFile(t testing.TB, data []byte) *reader.Trace {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.xray")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	tr, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// A compressed trace is the same trace: bytes, events in every order, losses.
func TestFrames(t *testing.T) {
	paths, err := filepath.Glob("../testdata/*.xray")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			log, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			packed := framed.Compress(log)
			plain, tr := openFile(t, log), openFile(t, packed)
			if got, err := io.ReadAll(tr.Bytes(0)); err != nil || !bytes.Equal(got, log) {
				t.Errorf("got %d bytes, %v, want the %d bytes of the trace", len(got), err, len(log))
			}
			for _, order := range []reader.Order{reader.FileOrder, reader.ThreadOrder, reader.TimeOrder} {
				if diff := cmp.Diff(events(t, plain, order), events(t, tr, order)); diff != "" {
					t.Errorf("order %d (-plain +compressed):\n%s", order, diff)
				}
			}
			count := func(tr *reader.Trace) int64 {
				var n atomic.Int64
				if err := tr.Each(4, func(_ int, b *reader.Block) error { n.Add(int64(len(b.Events))); return nil }); err != nil {
					t.Error(err)
				}
				return n.Load()
			}
			if got, want := count(tr), count(plain); got != want {
				t.Errorf("got %d events in parallel, want %d", got, want)
			}
			if diff := cmp.Diff(losses(plain), losses(tr)); diff != "" {
				t.Errorf("losses (-plain +compressed):\n%s", diff)
			}
			if format, stored := tr.Packed(0); format != "frames" || stored != int64(len(packed)) {
				t.Errorf("it is packed as %q in %d bytes, want frames in %d", format, stored, len(packed))
			}
			var piped bytes.Buffer
			piped.Write(packed)
			stdin, err := reader.Open(reader.Options{Stdin: &piped}, "-")
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if diff := cmp.Diff(events(t, plain, reader.FileOrder), events(t, stdin, reader.FileOrder)); diff != "" {
				t.Errorf("from a pipe (-plain +compressed):\n%s", diff)
			}
		})
	}
}

// smallFramed is a compressed trace of several threads with more in each block than is stored as it
// is.
func smallFramed(t testing.TB) []byte {
	t.Helper()
	var text strings.Builder
	text.WriteString("xray fdr\n")
	for block := range 3 {
		fmt.Fprintf(&text, "thread %d pid=7 wall=1.00000%d cpu=2 tsc=1000\n", 11+block%2, block)
		for i := range 10 {
			fmt.Fprintf(&text, "enter %d +%d\ncustom \"x%d\" +5\nexit %[1]d +300\n", i%4+1, i, block)
		}
	}
	log, err := tracetext.Parse(text.String())
	if err != nil {
		t.Fatal(err)
	}
	return framed.Compress(log)
}

// A compressed trace that ends early has the frames before that, and says that something is missing.
func TestTruncatedFrames(t *testing.T) {
	whole := smallFramed(t)
	all := events(t, openFile(t, whole), reader.FileOrder)
	ends := map[int]bool{}
	for at := 0; at < len(whole); {
		h, ok := frames.ParseHeader(whole[at:])
		if !ok {
			t.Fatal("no frame at", at)
		}
		at += h.End()
		ends[at] = true
	}
	if len(ends) < 4 || len(all) != 90 {
		t.Fatalf("got %d frames and %d events", len(ends), len(all))
	}
	first := slices.Min(slices.Collect(func(yield func(int) bool) {
		for at := range ends {
			if !yield(at) {
				return
			}
		}
	}))
	for n := range whole {
		cut := whole[:n]
		tr, err := reader.OpenReaderAt(bytes.NewReader(cut), int64(n), "cut")
		if n < first {
			if err == nil {
				t.Errorf("%d bytes: a trace without its header is no error", n)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		got := events(t, tr, reader.FileOrder)
		if len(got) >= len(all) || !slices.Equal(got, all[:len(got)]) {
			t.Errorf("%d bytes: got %d events, which are not the first ones of %d", n, len(got), len(all))
		}
		if lost := tr.Losses().Total[reader.TruncatedFile].Losses; (lost > 0) == ends[n] {
			t.Errorf("%d bytes: %d losses", n, lost)
		}
		readAll(t, cut)
	}
}

// If any byte is changed, no wrong event comes out, and missing events are a loss.
func TestDamagedFrames(t *testing.T) {
	whole := smallFramed(t)
	all := events(t, openFile(t, whole), reader.FileOrder)
	known := map[string]int{}
	for _, e := range all {
		known[e]++
	}
	for n := range whole {
		b := bytes.Clone(whole)
		b[n] ^= 0x11
		tr, err := reader.OpenReaderAt(bytes.NewReader(b), int64(len(b)), "damaged")
		if err != nil {
			continue
		}
		for _, e := range events(t, tr, reader.FileOrder) {
			if known[e] == 0 {
				t.Errorf("byte %d: there is an event %s", n, e)
			}
		}
		if tr.Losses().Count() == 0 {
			t.Errorf("byte %d: no loss", n)
		}
		readAll(t, b)
	}
}

// Frames that say they are large take no memory, and very many tiny ones are refused.
func TestHostileFrames(t *testing.T) {
	whole := smallFramed(t)
	h, _ := frames.ParseHeader(whole)
	tiny := whole[:h.End()]
	var e frames.Encoder
	many := append(bytes.Clone(tiny), bytes.Repeat(e.Encode([]byte{0}), 100_000)...)
	path := filepath.Join(t.TempDir(), "many.xray")
	if err := os.WriteFile(path, many, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Open(reader.Options{MaxThreads: 100}, path); err == nil || !strings.Contains(err.Error(), "blocks, most of them tiny") {
		t.Errorf("100,000 frames of a byte: %v", err)
	}
	for at := 4; at < 24; at += 4 {
		for _, v := range []uint32{0, 1, frames.MaxSize, frames.MaxSize + 1, 1<<32 - 1} {
			b := bytes.Clone(whole)
			binary.LittleEndian.PutUint32(b[len(tiny)+at:], v)
			if n := allocated(func() { readAll(t, b) }); n > 32<<20 {
				t.Errorf("%d at %d takes %d bytes", v, at, n)
			}
		}
	}
}

// More threads at a time than there is memory for decoded frames are read all the same.
func TestFramesOfManyThreads(t *testing.T) {
	const threads, calls = 140, 15000 // 240 kB each
	log, err := tracetext.Parse("xray fdr\n")
	if err != nil {
		t.Fatal(err)
	}
	for thread := range threads {
		head, err := tracetext.Parse(fmt.Sprintf("xray fdr\nthread %d pid=7 wall=1.000001 cpu=2 tsc=1000\nenter 1 +1\nexit 1 +1\n", thread+1))
		if err != nil {
			t.Fatal(err)
		}
		block := head[32:]
		pair := block[len(block)-16:]
		block = append(block, bytes.Repeat(pair, calls-1)...)
		binary.LittleEndian.PutUint64(block[1:], uint64(len(block)-16))
		log = append(log, block...)
	}
	tr := openFile(t, framed.Compress(log))
	inOrder := allocated(func() {
		for _, err := range tr.Blocks(reader.FileOrder) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if inOrder > uint64(len(log))/2 {
		t.Errorf("to read %d bytes one after the other takes %d bytes of memory", len(log), inOrder)
	}
	n, last := 0, uint64(0)
	for b, err := range tr.Blocks(reader.TimeOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			if n++; e.TSC < last {
				t.Fatal("the events are not in order")
			}
			last = e.TSC
		}
	}
	if n != 2*threads*calls || tr.Losses().Count() > 0 {
		t.Errorf("got %d events and %d losses, want %d and none", n, tr.Losses().Count(), 2*threads*calls)
	}
}
