package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// A fakeLLVM is a core file, built by hand, of a process with LLVM's runtime. It has a thread with a
// basic buffer that has a call, and an FDR queue of four buffers. One is of a thread that has ended and
// has a call. One is of a running thread and has a typed event and a call. Two were never used.
type fakeLLVM struct {
	data, slots, extents, buffers []byte
	locals, basic, stack, notes   []byte
}

// Addresses in the fake core.
const (
	fakeData    = 0x100000
	fakeSlots   = 0x200000
	fakeExtents = 0x300000
	fakeBuffers = 0x400000
	fakeBasic   = 0x500000
	fakeStack   = 0x600000
	fakeLocals  = 0x700000
	fakeSize    = 256 // of a buffer
	fakePointer = fakeLocals + 64
	fakeTSC     = 1_800_000_000_000_000_000
)

func newFakeLLVM() *fakeLLVM {
	le := binary.LittleEndian
	c := &fakeLLVM{data: make([]byte, 96), locals: make([]byte, 64), notes: make([]byte, 20+336), stack: make([]byte, 64*16)}
	for i, v := range []uint64{fakeSize, 4, 0, fakeBuffers, fakeExtents, fakeSlots, fakeSlots + 2*queueSlot, fakeSlots + queueSlot, 1, 1} {
		le.PutUint64(c.data[16+8*i:], v)
	}
	c.extents, c.buffers = make([]byte, lineSize), make([]byte, lineSize)
	for i := range 4 {
		var records []byte
		extents := 0
		if i < 2 {
			records, extents = fakeRecords(i)
		}
		c.buffers = append(c.buffers, append(records, make([]byte, fakeSize-len(records))...)...)
		c.extents = append(c.extents, append(le.AppendUint64(nil, uint64(extents)), make([]byte, lineSize-8)...)...)
		slot := make([]byte, queueSlot)
		for k, v := range []uint64{uint64(fakeExtents + lineSize*(i+1)), 1, uint64(fakeBuffers + lineSize + i*fakeSize), fakeSize, fakeBuffers, fakeExtents, 4} {
			le.PutUint64(slot[8*k:], v)
		}
		if i < 2 {
			slot[56] = 1
		}
		c.slots = append(c.slots, slot...)
	}
	for _, kind := range []reader.Kind{reader.Enter, reader.Exit} {
		c.basic = tracewrite.AppendRecord(c.basic, &basic3, &reader.Record{
			Kind: reader.BasicFunction, FuncKind: kind, Func: 7, TSC: fakeTSC + uint64(kind), Thread: 79, Process: 77,
		})
	}
	c.basic = append(c.basic, make([]byte, 2*basicSize)...)
	for i, v := range []uint64{fakeBasic, 4, 2, fakeStack, 64, 0} {
		le.PutUint64(c.locals[8*i:], v)
	}
	for i, v := range []uint32{5, 336, 1} {
		le.PutUint32(c.notes[4*i:], v)
	}
	copy(c.notes[12:], "CORE")
	le.PutUint64(c.notes[20+threadPointer:], fakePointer)
	return c
}

// fakeRecords returns the records of buffer i, and their size according to the runtime.
func fakeRecords(i int) (records []byte, extents int) {
	list := []reader.Record{
		{Kind: reader.NewBuffer, Thread: int32(78 + i)},
		{Kind: reader.WallClock, Seconds: 5, Micros: uint32(100 - i)},
		{Kind: reader.PID, Process: 77},
		{Kind: reader.NewCPUID, TSC: fakeTSC},
	}
	if i == 1 {
		list = append(list, reader.Record{Kind: reader.TypedEvent, Type: 3, Delta: 1, Data: []byte("payload")})
		extents = -16
	}
	for _, kind := range []reader.Kind{reader.Enter, reader.Exit} {
		list = append(list, reader.Record{Kind: reader.Function, FuncKind: kind, Func: 5, Delta: 10})
	}
	for k := range list {
		records = tracewrite.AppendRecord(records, &ring.FDR5, &list[k])
	}
	return records, extents + len(records)
}

func (c *fakeLLVM) bytes() []byte {
	return coreFile(newFakeCore().header, []fakeMemory{
		{0, c.notes}, {fakeData, c.data}, {fakeSlots, c.slots}, {fakeExtents, c.extents}, {fakeBuffers, c.buffers},
		{fakeBasic, c.basic}, {fakeStack, c.stack}, {fakeLocals, c.locals},
	})
}

// logsOf returns the events of the logs of a core, by mode, and the notes about them.
func logsOf(t *testing.T, c *Core) (events map[string][]string, notes map[string]string) {
	t.Helper()
	events, notes = make(map[string][]string), make(map[string]string)
	for _, l := range c.Logs() {
		var b bytes.Buffer
		if err := l.WriteTrace(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "log.xray")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		events[l.Mode()] = readCoreTrace(t, path).events
		notes[l.Mode()] = strings.Join(l.Notes(), "; ")
	}
	return events, notes
}

func TestLogsAreReadAsWritten(t *testing.T) {
	c, err := openFake(t, newFakeLLVM().bytes())
	if err != nil {
		t.Fatal(err)
	}
	events, notes := logsOf(t, c)
	at := func(n int) uint64 { return fakeTSC + uint64(n) }
	want := map[string][]string{
		"FDR": {
			fmt.Sprintf("79 typed-event 0 cpu 0 at %d", at(1)),
			fmt.Sprintf("79 function-enter 5 cpu 0 at %d", at(11)), fmt.Sprintf("79 function-exit 5 cpu 0 at %d", at(21)),
			fmt.Sprintf("78 function-enter 5 cpu 0 at %d", at(10)), fmt.Sprintf("78 function-exit 5 cpu 0 at %d", at(20)),
		},
		"basic": {
			fmt.Sprintf("79 function-enter 7 cpu 0 at %d", at(0)), fmt.Sprintf("79 function-exit 7 cpu 0 at %d", at(1)),
		},
	}
	if fmt.Sprint(events) != fmt.Sprint(want) {
		t.Errorf("got events\n%q, want\n%q", events, want)
	}
	if notes["FDR"] != "" || notes["basic"] != "earlier records are in the file that the runtime wrote (xray-log.*)" {
		t.Errorf("wrong notes: %q", notes)
	}
	for _, l := range c.Logs() {
		if l.header.CycleFrequency != 1e9 {
			t.Errorf("%s: a clock of %d Hz", l.Mode(), l.header.CycleFrequency)
		}
	}
}

// Damaged and missing parts are left out and named in notes. The rest is recovered.
func TestLogsWithDamage(t *testing.T) {
	le := binary.LittleEndian
	for _, test := range []struct {
		name       string
		damage     func(*fakeLLVM)
		fdr, basic int // events, or -1 for no log
		note       string
	}{
		{"recording ended", func(c *fakeLLVM) { c.data[33] = 1 }, 5, 2, "the program had ended its recording"},
		{"all buffers used", func(c *fakeLLVM) { c.slots[2*queueSlot+56], c.slots[3*queueSlot+56] = 1, 1 }, 5, 2, "every buffer was used, so older records may have been overwritten"},
		{"all buffers held", func(c *fakeLLVM) { le.PutUint64(c.data[16+64:], 4) }, 5, 2, "threads had all buffers"},
		{"extents too large", func(c *fakeLLVM) { le.PutUint64(c.extents[lineSize:], fakeSize+1) }, 3, 2, "1 buffer is damaged"},
		{"head overwritten", func(c *fakeLLVM) { c.buffers[lineSize+16] = 0 }, 3, 2, "1 buffer is damaged"},
		{"record in the making", func(c *fakeLLVM) { le.PutUint64(c.extents[lineSize:], 64+8) }, 4, 2, ""},
		{"buffer just taken", func(c *fakeLLVM) { le.PutUint64(c.extents[2*lineSize:], 0) }, 2, 2, ""},
		{"buffer without records", func(c *fakeLLVM) { le.PutUint64(c.extents[2*lineSize:], 48) }, 2, 2, ""},
		{"buffer that the queue lost", func(c *fakeLLVM) {
			le.PutUint32(c.buffers[lineSize+1:], 79)           // of the same thread,
			le.PutUint32(c.buffers[lineSize+16+9:], 98)        // older, and
			le.PutUint64(c.slots[16:], fakeBuffers+lineSize+1) // in no slot
			le.PutUint64(c.data[16+48:], fakeSlots)            // while no thread has one
			le.PutUint64(c.data[16+56:], fakeSlots)
			le.PutUint64(c.data[16+64:], 0)
		}, 3, 2, "LLVM's runtime lost 1 buffer in a race between threads, so there may be gaps between records; 1 buffer is left out"},
		{"slots missing", func(c *fakeLLVM) { c.slots = c.slots[:queueSlot] }, 5, 2, "the slots of the buffer queue are not in the core file"},
		{"buffers cut", func(c *fakeLLVM) { c.buffers = c.buffers[:lineSize+fakeSize+64+23+8] }, 4, 2, "1 buffer is only partly in the core file"},
		{"extents missing", func(c *fakeLLVM) { c.extents = c.extents[:lineSize+8] }, 2, 2, "1 buffer is not in the core file"},
		{"slots of something else", func(c *fakeLLVM) { c.slots[24]++ }, -1, 2, ""},
		{"next slot beyond the end", func(c *fakeLLVM) { le.PutUint64(c.data[16+48:], fakeSlots+4*queueSlot) }, -1, 2, ""},
		{"too many buffers held", func(c *fakeLLVM) { le.PutUint64(c.data[16+64:], 5) }, -1, 2, ""},
		{"not a lock", func(c *fakeLLVM) { c.data[16+18] = 1 }, -1, 2, ""},
		{"records that overflow", func(c *fakeLLVM) { le.PutUint64(c.data[16:], 1<<62) }, -1, 2, ""},
		{"no thread pointer", func(c *fakeLLVM) { le.PutUint64(c.notes[20+threadPointer:], 0) }, 5, -1, ""},
		{"record of no kind", func(c *fakeLLVM) { c.basic[3] = 9 }, 5, -1, ""},
		{"record of no function", func(c *fakeLLVM) { clear(c.basic[4:8]) }, 5, -1, ""},
		{"more records than fit", func(c *fakeLLVM) { le.PutUint64(c.locals[16:], 5) }, 5, -1, ""},
		{"full buffer", func(c *fakeLLVM) { le.PutUint64(c.locals[8:], 2) }, 5, 2, "1 thread was writing records"},
		{"records of the parent", func(c *fakeLLVM) { c.basic[20]++ }, 5, 1, "1 record of the parent process"},
		{"no shadow stack", func(c *fakeLLVM) { le.PutUint64(c.locals[24:], 0x99000) }, 5, -1, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := newFakeLLVM()
			test.damage(fake)
			c, err := openFake(t, fake.bytes())
			if err != nil {
				t.Fatal(err)
			}
			events, notes := logsOf(t, c)
			count := func(mode string) int {
				if _, ok := events[mode]; !ok {
					return -1
				}
				return len(events[mode])
			}
			if count("FDR") != test.fdr || count("basic") != test.basic {
				t.Errorf("got events %q, want %d and %d", events, test.fdr, test.basic)
			}
			if all := fmt.Sprint(notes); !strings.Contains(all, test.note) || test.note == "" && strings.ContainsAny(notes["FDR"], "abcdefghijklmnopqrstuvwxyz") {
				t.Errorf("got notes %q, want %q", notes, test.note)
			}
		})
	}
}

func TestLogsWithoutRecords(t *testing.T) {
	fake := newFakeLLVM()
	clear(fake.locals)
	for i := range 4 {
		clear(fake.extents[lineSize*(i+1):][:8])
	}
	const want = "FDR mode of LLVM's runtime has no records in its buffers"
	if _, err := openFake(t, fake.bytes()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
}

// A core truncated anywhere yields a log of what is there, or an error.
func TestLogsCutOff(t *testing.T) {
	t.Parallel()
	data := newFakeLLVM().bytes()
	logs := 0
	for n := 0; n < len(data); n += 7 {
		c, err := readCore("core", bytes.NewReader(data[:n]), int64(n))
		if err != nil {
			continue
		}
		for _, l := range c.Logs() {
			logs++
			if err := l.WriteTrace(io.Discard); err != nil {
				t.Errorf("cut off at %d: %v", n, err)
			}
		}
	}
	if logs == 0 {
		t.Error("no truncated core yielded a log")
	}
}

// If the frequency of the TSC is unknown, it is estimated from the buffers' two clocks.
func TestFrequencyOfLogs(t *testing.T) {
	stamp := func(c *fakeLLVM, i int, tsc, micros uint64) {
		at := lineSize + i*fakeSize
		binary.LittleEndian.PutUint32(c.buffers[at+16+9:], uint32(micros))
		binary.LittleEndian.PutUint64(c.buffers[at+48+3:], tsc)
	}
	for _, test := range []struct {
		name         string
		tsc          uint64 // of the later buffer
		micros, want uint64
		note         string
	}{
		{"10 ms", 1e6 + 25e6, 10_000, 2_500_000_000, "the clock frequency of 2.500 GHz is an estimate"},
		{"too close", 1e6 + 25e5, 999, 0, "the clock frequency is unknown: pass --exe"},
		{"back", 5e5, 10_000, 0, "the clock frequency is unknown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := newFakeLLVM()
			stamp(fake, 1, 1e6, 0)
			stamp(fake, 0, test.tsc, test.micros)
			c, err := openFake(t, fake.bytes())
			if err != nil {
				t.Fatal(err)
			}
			l := c.Logs()[0]
			if notes := strings.Join(l.Notes(), "; "); l.header.CycleFrequency != test.want || !strings.Contains(notes, test.note) {
				t.Errorf("got %d Hz, notes %q", l.header.CycleFrequency, notes)
			}
		})
	}
}

// changingMemory is the memory of a process that calls a function when an address is read for the nth
// time.
type changingMemory struct {
	*bytes.Reader
	place int64
	reads int
	do    func(reads int)
}

func (m *changingMemory) ReadAt(p []byte, offset int64) (int, error) {
	if m.do != nil && offset == m.place {
		m.reads++
		m.do(m.reads)
	}
	return m.Reader.ReadAt(p, offset)
}

// Threads take buffers and remove records while their process is read.
func TestLogsOfAChangingProcess(t *testing.T) {
	le := binary.LittleEndian
	const later = 5e6 + 1000 // after both buffers were taken
	allFree := func(c *fakeLLVM) {
		le.PutUint64(c.data[16+48:], fakeSlots)
		le.PutUint64(c.data[16+56:], fakeSlots)
		le.PutUint64(c.data[16+64:], 0)
	}
	for _, test := range []struct {
		name   string
		before func(*fakeLLVM)
		place  uint64                              // address at which reading calls do
		do     func(n int, at func(uint64) []byte) // at returns memory at an address
		now    uint64
		events int
		note   string
	}{
		{name: "nothing happens", now: later, events: 5},
		{name: "a buffer was taken before it was read", before: allFree, now: 5e6 + 100, events: 3, note: "1 buffer is left out"},
		{name: "a free buffer is taken between two reads", before: allFree, place: fakeBuffers + lineSize, do: func(n int, at func(uint64) []byte) {
			if n%2 == 0 {
				le.PutUint64(at(fakeExtents+lineSize), fdrHead+16)
			}
		}, now: later, events: 3, note: "1 buffer is left out"},
		{name: "a free buffer gets a new beginning", before: allFree, place: fakeBuffers + lineSize, do: func(n int, at func(uint64) []byte) {
			if n%2 == 0 {
				at(fakeBuffers + lineSize + 16 + 9)[0]++
			}
		}, now: later, events: 3, note: "1 buffer is left out"},
		{name: "a thread changes its last record", place: fakeBuffers + lineSize + fakeSize, do: func(n int, at func(uint64) []byte) {
			_, extents := fakeRecords(1)
			at(fakeBuffers + lineSize + fakeSize + uint64(extents) + 16 - 1)[0]++
		}, now: later, events: 4},
		{name: "a thread removes its last record", place: fakeBuffers + lineSize + fakeSize, do: func(n int, at func(uint64) []byte) {
			_, extents := fakeRecords(1)
			le.PutUint64(at(fakeExtents+2*lineSize), uint64(extents-8))
		}, now: later, events: 4},
		{name: "a thread takes a buffer", before: func(c *fakeLLVM) { le.PutUint64(c.data[16+64:], 2) }, place: fakeData + 16, do: func(n int, at func(uint64) []byte) {
			if n >= 2 {
				le.PutUint64(at(fakeData+16+64), 1)
			}
		}, now: later, events: 5},
		{name: "all buffers are always taken before they are read", now: 5e6, events: -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake := newFakeLLVM()
			if test.before != nil {
				test.before(fake)
			}
			data := fake.bytes()
			memory := &changingMemory{Reader: bytes.NewReader(data)}
			m, err := ring.OpenImage("process", memory, int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			offset := func(address uint64) int64 {
				s, err := m.Find(address)
				if err != nil {
					t.Fatal(err)
				}
				return int64(s.Offset + address - s.Address)
			}
			original := bytes.Clone(data)
			// Each try reads the clock first. Restore the memory then.
			now := func() uint64 {
				copy(data, original)
				return test.now
			}
			c := &Core{image: m, live: &liveMemory{micros: now, runs: func(int32) bool { return true }}}
			q := findQueue(m, ring.IsSmall)
			if q == nil {
				t.Fatal("no queue")
			}
			if test.do != nil {
				memory.place = offset(test.place)
				memory.do = func(n int) { test.do(n, func(address uint64) []byte { return data[offset(address):] }) }
			}
			l, err := c.fdrLog(q)
			if test.events < 0 {
				if !errors.Is(err, ErrReused) {
					t.Errorf("got error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.logs = []*Log{l}
			events, notes := logsOf(t, c)
			if len(events["FDR"]) != test.events || !strings.Contains(notes["FDR"], test.note) || test.note == "" && notes["FDR"] != "" {
				t.Errorf("got events %q, want %d; notes %q, want %q", events, test.events, notes, test.note)
			}
		})
	}
}
