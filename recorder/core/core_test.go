package core

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// A fakeCore is a core file built by hand: a root, one object, and a thread whose ring has two
// chunks. The first chunk is complete and has one call.
type fakeCore struct {
	header, root, object, table, thread []byte
	chunks                              [2][]byte
	segments                            int // number of segments to write
}

// Addresses in the fake core.
const (
	fakeRoot   = 0x10000
	fakeObject = 0x20000
	fakeTable  = 0x30000
	fakeThread = 0x4f000
	fakeRing   = 0x50000
)

func newFakeCore() *fakeCore {
	le := binary.LittleEndian
	c := &fakeCore{
		header: make([]byte, ring.ElfHeaderSize), root: make([]byte, ring.RootSize), object: make([]byte, ring.ObjectSize),
		table: make([]byte, 8), thread: make([]byte, 0x1000), segments: 6,
	}
	copy(c.header, "\x7fELF\x02\x01\x01")
	le.PutUint16(c.header[16:], 4)
	le.PutUint16(c.header[18:], 62)
	le.PutUint64(c.header[32:], ring.ElfHeaderSize)
	le.PutUint16(c.header[54:], ring.SegmentSize)

	copy(c.root, ring.RootMagic)
	for i, v := range []uint32{ring.LayoutVersion, ring.RootSize, ring.ChunkSize, ring.ChunkHeader, ring.ThreadSize, ring.ObjectSize, 77, 1} {
		le.PutUint32(c.root[16+4*i:], v)
	}
	for i, v := range []uint64{fakeTable, 1, 1, fakeObject, 1, 5, 1e9} {
		le.PutUint64(c.root[64+8*i:], v)
	}
	le.PutUint32(c.object[40:], 1)
	le.PutUint32(c.object[44:], 5)
	le.PutUint32(c.object[64:], 1)
	copy(c.object[184:], "/bin/program")

	le.PutUint64(c.table, fakeThread)
	le.PutUint64(c.thread, fakeRing+ring.ChunkSize+ring.ChunkHeader+16+24)
	le.PutUint32(c.thread[32:], 78)
	le.PutUint32(c.thread[36:], 77)
	le.PutUint32(c.thread[40:], 1)
	for i, v := range []uint64{fakeRing, 2, 4} { // the ring has wrapped once
		le.PutUint64(c.thread[48+8*i:], v)
	}
	copy(c.thread[112:], "worker")
	for i := range c.chunks {
		b := make([]byte, ring.ChunkSize)
		number, tsc := uint64(3+i), uint64(1000*(i+1))
		for k, v := range []uint64{2 * number, tsc, uint64(1-i) * (tsc + 900), 77<<32 | 78, fakeThread, ring.ChunkMagic} {
			le.PutUint64(b[8*k:], v)
		}
		for k, v := range []uint64{
			ring.RecordStamp<<1 | 1 | 3<<16, tsc<<1 | 1,
			2<<4 | (tsc+10)<<32, 2<<4 | 1<<1 | (tsc+40)<<32, // a call of function 2
		} {
			le.PutUint64(b[ring.ChunkHeader+8*k:], v)
		}
		c.chunks[i] = b
	}
	return c
}

func (c *fakeCore) bytes() []byte {
	return coreFile(c.header, []fakeMemory{
		{fakeRoot, c.root}, {fakeObject, c.object}, {fakeTable, c.table}, {fakeThread, c.thread},
		{fakeRing, c.chunks[0]}, {fakeRing + ring.ChunkSize, c.chunks[1]},
	}[:c.segments])
}

// fakeMemory is a segment of a core file. Address 0 is for notes.
type fakeMemory struct {
	address uint64
	data    []byte
}

// coreFile sets the number of segments in a header, and returns a core file with them.
func coreFile(header []byte, parts []fakeMemory) []byte {
	le := binary.LittleEndian
	le.PutUint16(header[56:], uint16(len(parts)))
	file := bytes.Clone(header)
	var data []byte
	for _, p := range parts {
		b := make([]byte, ring.SegmentSize)
		le.PutUint32(b, uint32(elf.PT_LOAD))
		if p.address == 0 {
			le.PutUint32(b, uint32(elf.PT_NOTE))
		}
		le.PutUint32(b[4:], 6)
		le.PutUint64(b[8:], uint64(ring.ElfHeaderSize+len(parts)*ring.SegmentSize+len(data)))
		le.PutUint64(b[16:], p.address)
		le.PutUint64(b[32:], uint64(len(p.data)))
		le.PutUint64(b[40:], uint64(len(p.data)))
		file = append(file, b...)
		data = append(data, p.data...)
	}
	return append(file, data...)
}

// openFake writes the core to a file and opens it.
func openFake(t *testing.T, data []byte) (*Core, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path, nil)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// traceFile writes the trace of the core's only runtime.
func traceFile(t *testing.T, c *Core, last time.Duration) string {
	t.Helper()
	if n := len(c.Rings()); n != 1 {
		t.Fatalf("got %d runtimes, want 1", n)
	}
	return testenv.WriteFile(t, "core.xray", func(w io.Writer) error { return c.Rings()[0].WriteTrace(w, last) })
}

func lossOf(r *reader.Recording, cause string) uint64 {
	for _, l := range r.Losses {
		if l.Cause == cause {
			return l.Count
		}
	}
	return 0
}

// coreFound is the content of a core's trace.
type coreFound struct {
	events    []string
	recording *reader.Recording
}

func readCoreTrace(t *testing.T, path string) coreFound {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	f := coreFound{recording: trace.Recording(0)}
	for b, err := range trace.Blocks(reader.ThreadOrder) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			f.events = append(f.events, fmt.Sprintf("%d %v %d cpu %d at %d", b.Thread.Thread, e.Kind, e.Func, e.CPU, e.TSC))
		}
	}
	if n := trace.Losses().Count(); n != 0 {
		first, _ := trace.Losses().First()
		t.Errorf("%d losses, the first: %v", n, first)
	}
	return f
}

func TestCoreIsReadAsWritten(t *testing.T) {
	c, err := openFake(t, newFakeCore().bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"78 function-enter 2 cpu 3 at 1010", "78 function-exit 2 cpu 3 at 1040",
		"78 function-enter 2 cpu 3 at 2010", "78 function-exit 2 cpu 3 at 2040",
	}
	got := readCoreTrace(t, traceFile(t, c, 0))
	if fmt.Sprint(got.events) != fmt.Sprint(want) {
		t.Errorf("got events\n%q, want\n%q", got.events, want)
	}
	r := got.recording
	if r.Process.PID != 77 || r.Process.Exe != "/bin/program" || r.Process.Mode != "record" || len(r.Losses) > 0 ||
		len(r.Objects) != 1 || r.Objects[0].Count != 5 || len(r.Threads) != 1 || r.Threads[0].Name != "worker" || r.Clock.Frequency != 1e9 {
		t.Errorf("wrong recording metadata: %+v", r)
	}
	// A microsecond is 1000 ticks. Counted back from the latest record, it begins as the first call ends. So the
	// cut has that call, which is open there.
	want = slices.Concat([]string{"78 custom-event 0 cpu 3 at 1040", "78 function-enter 2 cpu 3 at 1040"}, want[1:])
	if got := readCoreTrace(t, traceFile(t, c, time.Microsecond)); fmt.Sprint(got.events) != fmt.Sprint(want) {
		t.Errorf("wrong events of the last microsecond: %q", got.events)
	}
}

// If the recorder is both linked in and preloaded, a core has two runtimes. A runtime that recorded
// nothing does not count.
func TestCoreOfTwoRuntimes(t *testing.T) {
	fake := newFakeCore()
	idle := bytes.Clone(fake.root)
	binary.LittleEndian.PutUint64(idle[72:], 0)
	fake.root = bytes.Join([][]byte{fake.root, idle, fake.root}, make([]byte, 8))
	c, err := openFake(t, fake.bytes())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Rings()); n != 2 {
		t.Fatalf("got %d runtimes, want 2", n)
	}
	for _, rings := range c.Rings() {
		var b bytes.Buffer
		if err := rings.WriteTrace(&b, 0); err != nil || b.Len() < 500 {
			t.Errorf("got %d bytes, error %v", b.Len(), err)
		}
	}
}

// Damaged parts are omitted and counted as losses. The rest is recovered.
func TestCoreWithDamage(t *testing.T) {
	le := binary.LittleEndian
	for _, test := range []struct {
		name   string
		damage func(*fakeCore)
		cause  string
		events int
	}{
		{"chunk in the making", func(c *fakeCore) { c.chunks[0][0]++ }, "torn-chunk", 2},
		{"chunk of another thread", func(c *fakeCore) { c.chunks[0][32]++ }, "torn-chunk", 2},
		{"no record", func(c *fakeCore) { c.chunks[0][ring.ChunkHeader+24] = 0xff }, "damaged-chunk", 3},
		{"slot that is not written", func(c *fakeCore) { clear(c.chunks[1][ring.ChunkHeader+16 : ring.ChunkHeader+24]) }, "", 3},
		{"slot between others", func(c *fakeCore) {
			le.PutUint64(c.chunks[0][ring.ChunkHeader+40:], le.Uint64(c.chunks[0][ring.ChunkHeader+24:]))
			clear(c.chunks[0][ring.ChunkHeader+24 : ring.ChunkHeader+32])
			clear(c.chunks[0][ring.ChunkHeader+32 : ring.ChunkHeader+40])
		}, "interrupted", 4},
		{"newest chunk not in the core", func(c *fakeCore) { c.segments-- }, "chunk-not-in-core", 2},
		{"thread is nowhere", func(c *fakeCore) {
			c.table = le.AppendUint64(c.table, 0x99000)
			le.PutUint64(c.root[72:], 2)
		}, "thread-not-in-core", 4},
		{"thread twice", func(c *fakeCore) {
			c.table = append(c.table, c.table...)
			le.PutUint64(c.root[72:], 2)
		}, "", 4},
		{"huge ring", func(c *fakeCore) { le.PutUint64(c.thread[56:], 1<<60) }, "", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := newFakeCore()
			test.damage(fake)
			c, err := openFake(t, fake.bytes())
			if test.events < 0 {
				if err == nil {
					t.Error("no error")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := readCoreTrace(t, traceFile(t, c, 0))
			if len(got.events) != test.events {
				t.Errorf("got events %q, want %d", got.events, test.events)
			}
			if n := lossOf(got.recording, test.cause); test.cause != "" && n == 0 || test.cause == "" && len(got.recording.Losses) > 0 {
				t.Errorf("got losses %v, want %q", got.recording.Losses, test.cause)
			}
		})
	}
}

func TestCoreThatCannotBeRead(t *testing.T) {
	le := binary.LittleEndian
	for _, test := range []struct {
		name   string
		damage func(*fakeCore)
		want   string
	}{
		{"xz", func(c *fakeCore) { copy(c.header, "\xfd7zXZ\x00") }, "compressed with xz"},
		{"text", func(c *fakeCore) { copy(c.header, "#!/bin/sh") }, "not an ELF file"},
		{"program", func(c *fakeCore) { c.header[16] = 2 }, "a program or library, not a core file"},
		{"32 bits", func(c *fakeCore) { c.header[4] = 1 }, "not from x86-64"},
		{"arm64", func(c *fakeCore) { c.header[18] = 183 }, "not from x86-64"},
		{"big-endian", func(c *fakeCore) { c.header[5] = 2 }, "not from x86-64"},
		{"headers elsewhere", func(c *fakeCore) { le.PutUint64(c.header[32:], 1<<40) }, "program headers at offset"},
		{"newer layout", func(c *fakeCore) { c.root[16] = 2 }, "is of version 2; this xray supports version 1"},
		{"root is damaged", func(c *fakeCore) { c.root[24] = 1 }, "root at address 0x10000 is damaged"},
		{"nothing recorded", func(c *fakeCore) { le.PutUint64(c.root[72:], 0) }, "had recorded nothing"},
		{"profile mode", func(c *fakeCore) {
			c.root[44] = ring.ModeProfile
			le.PutUint64(c.thread[64:], 0)
		}, "profile mode"},
		{"no recorder", func(c *fakeCore) { c.root[0] = 'x' }, "found no records"},
		{"rings left out", func(c *fakeCore) { c.segments = 4 }, "the rings of 1 thread are not in the core file"},
		{"objects left out", func(c *fakeCore) { le.PutUint64(c.root[88:], 0x99000) }, "table of objects at address 0x99000: the process had no memory there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := newFakeCore()
			fake.bytes() // computes the fields that the test damages
			test.damage(fake)
			data := fake.bytes()
			if _, err := openFake(t, data); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// A core truncated anywhere yields a trace of what is there, or an error.
func TestCoreCutOff(t *testing.T) {
	data := newFakeCore().bytes()
	traces := 0
	for n := 0; n < len(data); n += 1 + n/20 {
		c, err := readCore("core", bytes.NewReader(data[:n]), int64(n))
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "core: ") {
				t.Errorf("cut off at %d: %v", n, err)
			}
			continue
		}
		traces++
		if !c.Cut() {
			t.Errorf("cut off at %d of %d bytes: no loss reported", n, len(data))
		}
		got := readCoreTrace(t, traceFile(t, c, 0))
		if lossOf(got.recording, "chunk-not-in-core") == 0 {
			t.Errorf("cut off at %d: got losses %v", n, got.recording.Losses)
		}
	}
	if traces == 0 {
		t.Error("no truncated core yielded a trace")
	}
}

func FuzzCore(f *testing.F) {
	// Fuzz a small core: mutating the zeros at its end is useless. It has one chunk, which is
	// short.
	small := func() *fakeCore {
		c := newFakeCore()
		c.segments = 5
		c.thread = c.thread[:ring.ThreadSize]
		binary.LittleEndian.PutUint64(c.thread[64:], 3)
		return c
	}
	add := func(c *fakeCore) { f.Add(bytes.TrimRight(c.bytes(), "\x00")) }
	add(small())
	torn := small()
	torn.chunks[0][0]++
	add(torn)
	counts := small()
	binary.LittleEndian.PutUint32(counts.root[44:], ring.ModeCount)
	binary.LittleEndian.PutUint64(counts.thread[16:], fakeThread)
	binary.LittleEndian.PutUint64(counts.thread[128:], 6)
	add(counts)
	f.Add(newFakeLLVM().bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append(data, make([]byte, ring.ChunkSize)...)
		c, err := readCore("core", bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		c.Ending()
		for _, rings := range c.Rings() {
			for _, last := range []time.Duration{0, time.Microsecond} {
				var b bytes.Buffer
				if rings.WriteTrace(&b, last) != nil {
					continue
				}
				// Records have the same size in rings and traces, except after a
				// backward clock step. Each can appear once per root.
				if b.Len() > 1<<16+4*len(data)*ring.MaxRoots {
					t.Errorf("got a trace of %d bytes from a core of %d", b.Len(), len(data))
				}
			}
		}
		for _, log := range c.Logs() {
			var b bytes.Buffer
			if err := log.WriteTrace(&b); err != nil || b.Len() > 2*len(data) {
				t.Errorf("got a log of %d bytes from a core of %d, error %v", b.Len(), len(data), err)
			}
		}
	})
}
