package core

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"slices"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Log has the records of LLVM's own XRay runtime in the memory of a process, which the runtime has not
// written to a file. It is not safe for concurrent use.
type Log struct {
	// Type is the mode of the runtime, reader.FDR or reader.Basic.
	Type reader.Type

	notes  []string
	clock  string // a note if the clock's frequency is uncertain, or ""
	header reader.Header
	image  *ring.Image
	parts  []logPart
}

// logPart is a range of memory with complete records: a buffer of a thread.
type logPart struct {
	thread, process int32
	seconds, tsc    uint64 // time when the thread took the buffer; TSC of the first record
	micros          uint32
	address         uint64
	size            int
	copied          []byte // copy of the records of a running process; nil for a core file
	held            bool   // the buffer is not free: a thread has it, or the queue has lost it
}

// findLogs finds the logs of LLVM's runtime, in the data of the program and of its threads.
func (c *Core) findLogs(wanted func(*ring.Segment) bool) error {
	var err error
	if q := findQueue(c.image, wanted); q != nil {
		var l *Log
		if l, err = c.fdrLog(q); err == nil {
			c.logs = append(c.logs, l)
		}
	}
	if l := c.basicLog(wanted); l != nil {
		c.logs = append(c.logs, l)
	}
	return err
}

// Mode is the name of the runtime's mode.
func (l *Log) Mode() string {
	if l.Type == reader.FDR {
		return "FDR"
	}
	return "basic"
}

// Logs returns the logs of LLVM's runtime: one of FDR mode, one of basic mode, or both.
func (c *Core) Logs() []*Log { return c.logs }

// WriteTrace writes the records in the same format as the runtime.
func (l *Log) WriteTrace(w io.Writer) error {
	if _, err := w.Write(tracewrite.AppendHeader(nil, &l.header)); err != nil {
		return err
	}
	for i := range l.parts {
		p := &l.parts[i]
		data := p.copied
		if data == nil {
			var err error
			if data, err = l.image.Read("a buffer of LLVM's runtime", p.address, p.size); err != nil {
				return err
			}
		}
		if l.Type == reader.FDR {
			extents := reader.Record{Kind: reader.BufferExtents, Value: uint64(len(data))}
			if _, err := w.Write(tracewrite.AppendRecord(nil, &l.header, &extents)); err != nil {
				return err
			}
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// Notes returns what is missing or uncertain, as clauses.
func (l *Log) Notes() []string {
	if l.clock == "" {
		return l.notes
	}
	return append(slices.Clone(l.notes), l.clock)
}

func (l *Log) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// emulated is the clock reading from which on the clock must be the wall clock in nanoseconds, which
// passed it in 2001. A TSC would take decades to reach it. The runtime reads the wall clock if the
// kernel does not report the frequency of the TSC.
const emulated = 1e18

// setClock sets the frequency of the log's clock. The runtime writes the frequency to its file, but in
// memory it can only be found by the program's symbols.
func (c *Core) setClock(l *Log) {
	l.clock = ""
	var timed []*logPart
	wall := true
	for i := range l.parts {
		if p := &l.parts[i]; p.tsc != 0 {
			timed = append(timed, p)
			wall = wall && p.tsc >= emulated
		}
	}
	if len(timed) > 0 && wall {
		l.header.CycleFrequency = 1e9
		return
	}
	if l.header.CycleFrequency = c.TicksPerSecond(); l.header.CycleFrequency != 0 {
		return
	}
	if l.Type == reader.FDR {
		l.header.CycleFrequency = frequencyOf(timed)
	}
	if f := l.header.CycleFrequency; f != 0 {
		l.clock = fmt.Sprintf("the clock frequency of %.3f GHz is an estimate from the times of the buffers", float64(f)/1e9)
		return
	}
	l.clock = "the clock frequency is unknown: pass --exe with an unstripped program to this command, or --clock-rate to other commands"
}

// frequencyOf estimates the frequency from buffers in the order in which threads took them. Each begins
// with a reading of both clocks, usually within a microsecond.
func frequencyOf(parts []*logPart) uint64 {
	if len(parts) == 0 {
		return 0
	}
	first, last := parts[0], parts[len(parts)-1]
	micros := last.wall() - first.wall()
	if last.tsc <= first.tsc || micros < 1000 || micros > 1<<50 {
		return 0
	}
	return ring.Scale(last.tsc-first.tsc, 1e6, micros)
}

// wall returns when a thread took the buffer, in microseconds of CLOCK_MONOTONIC.
func (p *logPart) wall() uint64 { return p.seconds*1e6 + uint64(p.micros) }

// maxSymbols limits the symbols of a program that are searched.
const maxSymbols = 64 << 20

// TicksPerSecond returns the frequency of the TSC that the runtime uses. It returns 0 if the program's
// file has no symbol table, which is the only way to find the variable.
func (c *Core) TicksPerSecond() (ticks uint64) {
	_ = debuginfo.ReadELF(c.exe, func(f *elf.File) error {
		ticks = c.ticksOf(f)
		return nil
	})
	return ticks
}

func (c *Core) ticksOf(f *elf.File) uint64 {
	entry := c.auxiliary(auxEntry)
	table := f.SectionByType(elf.SHT_SYMTAB)
	if entry == 0 || table == nil || table.Size > maxSymbols || !c.given && !c.isProgram(f, entry-f.Entry) {
		return 0
	}
	symbols, err := f.Symbols()
	if err != nil {
		return 0
	}
	for _, s := range symbols {
		// Each mode has such a variable. It is 0 if the mode is not used.
		if s.Name != "_ZN6__xrayL11TicksPerSecE" {
			continue
		}
		if v, err := c.image.Word(s.Value + entry - f.Entry); err == nil && v >= 1e6 && v <= 1e11 {
			return v
		}
	}
	return 0
}

// isProgram reports whether a file is the program of the process, loaded with this bias.
func (c *Core) isProgram(f *elf.File, bias uint64) bool {
	s := f.Section(".note.gnu.build-id")
	if c.live != nil {
		return true // it is /proc/PID/exe
	}
	if s == nil || s.Size > pageSize || bias%pageSize != 0 {
		return false
	}
	want, err := s.Data()
	if err != nil {
		return false
	}
	got := make([]byte, len(want))
	_, err = c.image.ReadSome(got, s.Addr+bias)
	return err == nil && bytes.Equal(got, want)
}

// Keys of the auxiliary vector.
const (
	auxHeaders = 3 // address of the program headers
	auxEntry   = 9 // address of the program's entry point
)

// auxiliary returns a value of the auxiliary vector, or 0.
func (c *Core) auxiliary(key uint64) uint64 {
	for f := ring.Fields(c.aux); len(f) >= 16; f = f[16:] {
		if f.U64(0) == key {
			return f.U64(8)
		}
	}
	return 0
}

// noteFile is NT_FILE, the note with the mapped files.
const noteFile elf.NType = 0x46494c45

// readProgram finds out from a core file which program the process ran.
func (c *Core) readProgram() {
	const noteAuxv elf.NType = 6
	c.aux = c.image.Note(noteAuxv, 16)
	headers := c.auxiliary(auxHeaders)
	f := ring.Fields(c.image.Note(noteFile, 16))
	if f == nil || f.U64(0) > uint64(len(f))/24 {
		return
	}
	n := int(f.U64(0))
	names := f[min(16+24*n, len(f)):]
	for i := range n {
		name, rest, _ := bytes.Cut(names, []byte{0})
		if from := 16 + 24*i; from+24 <= len(f) && f.U64(from) <= headers && headers < f.U64(from+8) {
			c.program = string(name)
			c.exe = c.program
			return
		}
		names = rest
	}
}

// Program returns the path of the program in the process, or "" if it is unknown.
func (c *Core) Program() string { return c.program }

// SetProgram sets the path of the program, if the file has been moved.
func (c *Core) SetProgram(path string) {
	c.program, c.exe, c.given = path, path, true
	for _, l := range c.logs {
		c.setClock(l)
	}
	for _, r := range c.rings {
		r.setProgram(path)
	}
}
