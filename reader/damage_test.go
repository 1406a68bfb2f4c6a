package reader_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// Small traces of every format and version, with every kind of record.
var seeds = []string{
	`xray basic version=1
enter 1 tsc=100 tid=5
exit 1 tsc=110 tid=5
`, `xray basic
enter-arg 2 tsc=110 tid=5 pid=4
arg 2 77 tid=5 pid=4
enter 1 tsc=100 tid=6 pid=4 cpu=3
tail-exit 2 tsc=120 tid=5 pid=4
enter 1 tsc=100 tid=6 pid=9 cpu=3
enter 1 tsc=100 tid=6 pid=4 cpu=3
`, `xray basic order=big
enter-arg 2 tsc=110 tid=5 pid=4
arg 2 77 tid=5 pid=4
`, `xray fdr version=1 buffer=128
thread 11 wall=1.000000 cpu=2 tsc=1000
enter 3 +0
custom "odd" tsc=1001
end-of-buffer
bytes 0f0f0f01010101
zeros auto
thread 12 wall=1.000000 cpu=2 tsc=1000
enter 4 +0
`, `xray fdr version=2
thread 11 wall=1.000000 cpu=2 tsc=1000
enter 3 +0
zeros 24
thread 12 wall=1.000000 cpu=2 tsc=1000
exit 4 +7
`, `xray fdr version=4 fill=aa
thread 11 pid=7 wall=1.000000 cpu=2 tsc=1000
enter-arg 3 +1
arg 12
custom "x" tsc=5000 cpu=6
`, `xray fdr
thread 11 pid=7 wall=1.000020 cpu=2 tsc=1000
enter 3 +0
enter 4 +10
arg 100
custom "a\x00b" +5
typed 513 "TT" -3
tail-exit 4 +4
cpu 9 tsc=2000
tsc-wrap 5
thread 11 pid=7 wall=1.000020 cpu=2 tsc=1000
exit 3 +1
zeros 9
`, `xray fdr order=big
thread 11 pid=7 wall=1.000020 cpu=258 tsc=1000
enter 3 +0
typed 513 "TT" -3
`}

const yamlSeed = `---
header:
  version:         3
  type:            0
  constant-tsc:    true
  nonstop-tsc:     true
  cycle-frequency: 2600000000
records:
  - { type: 0, func-id: 3, function: 'f(int, char)', args: [ 100, 7 ], cpu: 2, thread: 5, process: 4, kind: function-enter-arg, tsc: 1795216120777737896, data: '' }
  - { type: 513, func-id: 3, cpu: 2, thread: 6, process: 4, kind: typed-event, tsc: 13, data: "a\0b\xff\n\u00e9" }
...
`

func seedTraces(t testing.TB) [][]byte {
	all := [][]byte{[]byte(yamlSeed)}
	for _, text := range seeds {
		b, err := tracetext.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// readAll reads a trace in every way.
func readAll(t testing.TB, data []byte) {
	if tr, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "fuzz"); err == nil {
		checkTrace(t, tr, data)
	}
}

// checkTrace reads a trace in every way. It checks properties that hold for any bytes: threads have
// the same events in every order, records cover the file, and side tables refer to events.
func checkTrace(t testing.TB, tr *reader.Trace, data []byte) {
	type count struct{ events, args, payloads int }
	total := map[string]count{}
	tally := func(how string, b *reader.Block) {
		for _, a := range b.Args {
			if e := b.Events[a.Event]; !e.Kind.IsEnter() || !e.Side {
				t.Fatalf("%s: invalid argument of %v", how, e)
			}
		}
		for _, p := range b.Payloads {
			if e := b.Events[p.Event]; e.Kind != reader.Custom && e.Kind != reader.Typed || !e.Side {
				t.Fatalf("%s: invalid payload of %v", how, e)
			}
		}
		c := total[how]
		total[how] = count{c.events + len(b.Events), c.args + len(b.Args), c.payloads + len(b.Payloads)}
	}
	orders := map[string]reader.Order{"file": reader.FileOrder, "thread": reader.ThreadOrder, "time": reader.TimeOrder}
	for how, order := range orders {
		total[how] = count{}
		for b, err := range tr.Blocks(order) {
			if err != nil {
				t.Fatal(err)
			}
			tally(how, b)
		}
	}
	total["each"] = count{}
	if err := tr.Each(1, func(_ int, b *reader.Block) error { tally("each", b); return nil }); err != nil {
		t.Fatal(err)
	}
	for how, c := range total {
		if c != total["thread"] {
			t.Fatalf("%s: got %+v, want %+v as in thread order", how, c, total["thread"])
		}
	}
	if tr.Header(0).ByteOrder != nil && !bytes.HasPrefix(data, []byte("-")) {
		size := int64(32)
		for r, err := range tr.Records(0) {
			if r.Size == 0 {
				t.Fatal(err)
			}
			size += int64(r.Size)
		}
		if yaml := size == 32; !yaml && size != tr.Size(0) {
			t.Fatalf("got records of %d bytes, want %d", size, tr.Size(0))
		}
	}
	for _, l := range tr.Losses().Samples() {
		_ = l.String() + l.Cause.Remedy()
	}
}

// allocated returns how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Every prefix of a valid trace, and every change of one byte, is read or refused in bounded
// memory.
func TestDamagedTraces(t *testing.T) {
	// Fixed-size buffers dominate for tiny traces: five passes with chunks of a megabyte each
	// for basic logs.
	const bound = 32 << 20
	for i, data := range seedTraces(t) {
		// Try several values: one flips the lowest bit, which distinguishes kinds, and one
		// makes numbers huge.
		flips := []byte{0x01, 0x80, 0xff, 0x0e}
		if testing.Short() {
			flips = flips[:1]
		}
		check := func(what string, at int, b []byte) {
			if n := allocated(func() { readAll(t, b) }); n > bound {
				t.Errorf("seed %d, %s at %d: %d bytes allocated", i, what, at, n)
			}
		}
		for n := range data {
			check("cut", n, data[:n])
			for _, flip := range flips {
				b := bytes.Clone(data)
				b[n] ^= flip
				check("flip", n, b)
			}
		}
	}
}

// The same holds for files, which are mapped.
func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	check := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if tr, err := reader.Open(reader.Options{}, path); err == nil {
			checkTrace(t, tr, b)
			if err := tr.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, data := range seedTraces(t) {
		for n := range data {
			check(data[:n])
			b := bytes.Clone(data)
			b[n] ^= 0x80
			check(b)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, b := range seedTraces(f) {
		f.Add(b)
	}
	small, err := filepath.Glob("../testdata/*.xray")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range small {
		if b, err := os.ReadFile(file); err == nil && len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Add(smallFramed(f))
	f.Add(smallWindowed())
	for _, text := range hostileYAML(1000) {
		f.Add([]byte(text))
	}
	for _, payloads := range hostileMetadata(1000) {
		f.Add(withMetadata(payloads...))
	}
	f.Add(withMetadata(metadataEvent(reader.MetadataLanding, "\x01\x00\x00\x00\x02\x00\x00\x00")))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer time.AfterFunc(time.Minute, func() { panic("reading does not come to an end") }).Stop()
		if n, most := allocated(func() { readAll(t, data) }), uint64(256<<20+1024*len(data)); n > most {
			t.Errorf("got %d bytes of memory for %d of input", n, len(data))
		}
	})
}
