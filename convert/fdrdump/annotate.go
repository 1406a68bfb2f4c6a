package fdrdump

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Options configures [Annotate]. The zero value is valid.
type Options struct {
	// Names has the names of functions. It may be nil.
	Names symbolize.Names
	// Verify marks every record of an FDR log that [Verifier] rejects.
	Verify bool
}

// Summary has the counts of a dump.
type Summary struct {
	Records    int64
	Blocks     int64 // of an FDR log
	Damaged    int64 // bytes that are neither records nor padding
	Padding    int64 // bytes between blocks and unused ends of buffers
	Violations int64 // found by Options.Verify
}

// Annotate prints every record of a basic or FDR log: its offset in the file after
// decompression, its bytes, and its meaning. It prints unused bytes as two dots, and truncates
// long payloads. Functions and events have the thread, CPU and time that follow from the
// records before them, or a question mark. Damage is printed where it is, with its cause and a
// remedy. Annotate returns errors of w and of reading. Damage is not an error.
func Annotate(w io.Writer, h *reader.Header, records iter.Seq2[reader.Record, error], opts Options) (Summary, error) {
	a := &annotator{w: bufio.NewWriterSize(w, 1<<16), header: h, opts: opts}
	a.fileHeader()
	var r reader.Record // declared once because it escapes
	for next, err := range records {
		r = next
		if err != nil && r.Kind != reader.Damage {
			a.flushDamage(false)
			return a.sum, errors.Join(a.w.Flush(), err)
		}
		if r.Kind == reader.Damage {
			a.damage(&r, err)
			continue
		}
		a.flushDamage(false)
		a.record(&r)
		if _, err := a.w.Write(nil); err != nil { // the first write error is sticky
			return a.sum, err
		}
	}
	a.flushDamage(true)
	a.endBlock()
	a.summary()
	return a.sum, a.w.Flush()
}

// annotator has the state from the records before the current one.
type annotator struct {
	w      *bufio.Writer
	header *reader.Header
	opts   Options
	sum    Summary

	last     reader.RecordKind
	inBlock  bool
	verifier Verifier
	verify   bool  // the position in the block is known
	blockEnd int64 // from the extents; 0 if unknown
	thread   int32
	cpu      uint16
	clock    bool // the block has set cpu and tsc
	tsc      uint64

	// lost is a run of bytes without a record. The reader can return it in pieces.
	lost stretch

	raw, row []byte // scratch
}

type stretch struct {
	offset, size int64
	head         []byte
	err          error
	harmless     bool
	zeros        bool // consists of zeros
}

const (
	rowBytes = 16
	// maxPayload limits the bytes of a payload or of damage that are printed in hexadecimal.
	maxPayload = 3 * rowBytes
	// maxText limits the bytes of a payload that are printed as text.
	maxText = 80
)

func (a *annotator) fileHeader() {
	h := a.header
	order := "little-endian"
	if h.ByteOrder != nil {
		order = map[string]string{"LittleEndian": order, "BigEndian": "big-endian"}[h.ByteOrder.String()]
	}
	fmt.Fprintf(a.w, "%v log, version %d, %s", h.Type, h.Version, order)
	if h.CycleFrequency > 0 {
		fmt.Fprintf(a.w, ", %d ticks per second", h.CycleFrequency)
	} else {
		fmt.Fprint(a.w, ", unknown clock frequency")
	}
	if h.Type == reader.FDR {
		fmt.Fprintf(a.w, ", buffers of %d bytes", h.BufferSize)
	}
	fmt.Fprintln(a.w)
}

// record prints a record and updates the state.
func (a *annotator) record(r *reader.Record) {
	a.sum.Records++
	violation := a.state(r)
	a.raw = tracewrite.AppendRecord(a.raw[:0], a.header, r)
	unused := r.Kind.Spec().Unused(a.header.Version)
	size := len(a.raw) - len(r.Data)
	text := a.meaning(r)
	for from := 0; from < size; from += rowBytes {
		a.bytes(r.Offset+int64(from), a.raw[from:min(from+rowBytes, size)], func(i int) bool {
			for _, s := range unused {
				if from+i >= s.From && from+i < s.To {
					return true
				}
			}
			return false
		}, text)
		text = ""
	}
	a.payload(r.Offset+int64(size), r.Data, int64(len(r.Data)))
	if violation != nil {
		a.violation(violation)
	}
	a.last = r.Kind
}

// state updates the state of the block. It returns the error of the verifier.
func (a *annotator) state(r *reader.Record) (violation error) {
	starts := r.Kind == reader.BufferExtents || r.Kind == reader.NewBuffer && (!a.inBlock || a.last != reader.BufferExtents)
	if starts {
		a.endBlock()
		a.sum.Blocks++
		a.inBlock, a.verifier, a.verify, a.blockEnd, a.clock = true, Verifier{}, a.opts.Verify, 0, false
	}
	if a.verify && r.Kind <= reader.Function {
		violation = a.verifier.Record(r.Kind)
	}
	switch r.Kind {
	case reader.BufferExtents:
		a.blockEnd = r.Offset + int64(r.Size) + int64(r.Value)
	case reader.NewBuffer:
		a.thread = r.Thread
	case reader.NewCPUID:
		a.cpu, a.tsc, a.clock = r.CPU, r.TSC, true
	case reader.TSCWrap:
		a.tsc = r.TSC
	case reader.Function, reader.CustomEvent, reader.TypedEvent:
		a.tsc += uint64(r.Delta) // 0 in custom events of old versions
	}
	return violation
}

func (a *annotator) endBlock() {
	if a.inBlock && a.verify {
		if err := a.verifier.End(); err != nil {
			a.violation(err)
		}
	}
	a.inBlock = false
}

func (a *annotator) violation(err error) {
	a.sum.Violations++
	a.note(err.Error())
}

// meaning describes a record.
func (a *annotator) meaning(r *reader.Record) string {
	switch r.Kind {
	case reader.BufferExtents:
		return fmt.Sprintf("%-14v %d bytes, to %#x", r.Kind, r.Value, uint64(r.Offset)+uint64(r.Size)+r.Value)
	case reader.NewBuffer:
		return fmt.Sprintf("%-14v thread %d", r.Kind, r.Thread)
	case reader.WallClock:
		return fmt.Sprintf("%-14v %d.%06d s", r.Kind, r.Seconds, r.Micros)
	case reader.PID:
		return fmt.Sprintf("%-14v process %d", r.Kind, r.Process)
	case reader.NewCPUID:
		return fmt.Sprintf("%-14v cpu %d, tsc %d", r.Kind, r.CPU, r.TSC)
	case reader.TSCWrap:
		return fmt.Sprintf("%-14v tsc %d", r.Kind, r.TSC)
	case reader.CallArgument:
		return fmt.Sprintf("%-14v %d (%#x)", r.Kind, r.Value, r.Value)
	case reader.Function:
		return fmt.Sprintf("%-14s %s  %s", kindWords[r.FuncKind], a.moment(r), a.function(r.Func))
	case reader.CustomEvent:
		if a.header.Version >= 5 {
			return fmt.Sprintf("%-14v %s  %s", r.Kind, a.moment(r), payloadText(r.Data))
		}
		cpu := ""
		if a.header.Version == 4 {
			cpu = fmt.Sprintf("  cpu %d", r.CPU)
		}
		return fmt.Sprintf("%-14v tsc %d  thread %d%s  %s", r.Kind, r.TSC, a.thread, cpu, payloadText(r.Data))
	case reader.TypedEvent:
		return fmt.Sprintf("%-14v %s  type %d, %s", r.Kind, a.moment(r), r.Type, bytesText(r.Data))
	case reader.BasicFunction:
		return fmt.Sprintf("%-14s tsc %d  %scpu %d  %s", kindWords[r.FuncKind], r.TSC, a.basicThread(r), r.CPU, a.function(r.Func))
	case reader.BasicArgument:
		return fmt.Sprintf("%-14v %d (%#x)  %sof %s", r.Kind, r.Value, r.Value, a.basicThread(r), a.function(r.Func))
	}
	return r.Kind.String()
}

// kindWords begin the lines of function records.
var kindWords = [...]string{
	reader.Enter:    "enter",
	reader.Exit:     "exit",
	reader.TailExit: "tail exit",
	reader.EnterArg: "enter, args",
}

// moment returns the time, thread and CPU of an FDR record.
func (a *annotator) moment(r *reader.Record) string {
	if !a.clock {
		return fmt.Sprintf("tsc ? (%+d)  thread %d  cpu ?", r.Delta, a.thread)
	}
	return fmt.Sprintf("tsc %d (%+d)  thread %d  cpu %d", a.tsc, r.Delta, a.thread, a.cpu)
}

func (a *annotator) basicThread(r *reader.Record) string {
	if a.header.Version < 3 {
		return fmt.Sprintf("thread %d  ", r.Thread)
	}
	return fmt.Sprintf("process %d  thread %d  ", r.Process, r.Thread)
}

func (a *annotator) function(id reader.FuncID) string {
	number := "#" + strconv.Itoa(int(id))
	if label := symbolize.Label(a.opts.Names, id); label != number {
		return number + " " + texttab.Printable(label)
	}
	return number
}

func payloadText(data []byte) string {
	if v, ok := reader.ParseValue(data); ok {
		side := "argument"
		if v.Exit {
			side = "result"
		}
		return fmt.Sprintf("value of %s %d%s, %s", side, v.Index, v.Recorded.Words(), bytesText(v.Data))
	}
	if kind, body, ok := reader.SplitMetadata(data); ok {
		return fmt.Sprintf("metadata %v, %s", kind, bytesText(body))
	}
	return bytesText(data)
}

func bytesText(data []byte) string {
	if len(data) > maxText {
		return fmt.Sprintf("%d bytes %q...", len(data), data[:maxText])
	}
	return fmt.Sprintf("%d bytes %q", len(data), data)
}

// damage adds bytes to the current run without a record.
func (a *annotator) damage(r *reader.Record, err error) {
	l := &a.lost
	zeros := isZero(r.Data)
	if l.size > 0 && (l.offset+l.size != r.Offset || !(l.zeros && zeros) && fmt.Sprint(l.err) != fmt.Sprint(err)) {
		a.flushDamage(false)
	}
	if l.size == 0 {
		*l = stretch{offset: r.Offset, err: err, harmless: true, zeros: true, head: l.head[:0]}
	}
	l.harmless = l.harmless && (zeros || harmless(r, a.last))
	l.zeros = l.zeros && zeros
	l.head = append(l.head, r.Data[:min(len(r.Data), maxPayload-len(l.head))]...)
	l.size += int64(len(r.Data))
}

// flushDamage prints the current run. atEnd means that no record follows.
func (a *annotator) flushDamage(atEnd bool) {
	l := &a.lost
	if l.size == 0 {
		return
	}
	first := l.head[:min(len(l.head), rowBytes)]
	var text string
	switch {
	case l.zeros: // one line is enough
		a.sum.Padding += l.size
		a.bytes(l.offset, first, nil, fmt.Sprintf("%-14s %d bytes", "padding", l.size))
		l.size = 0
		return
	case l.harmless:
		a.sum.Padding += l.size
		text = fmt.Sprintf("%-14s %d bytes: %v", "unused", l.size, l.err)
	default:
		a.sum.Damaged += l.size
		a.verify = false // until the next block
		text = fmt.Sprintf("!! damage      %d bytes: %v", l.size, l.err)
	}
	a.bytes(l.offset, first, nil, text)
	a.payload(l.offset+int64(len(first)), l.head[len(first):], l.size-int64(len(first)))
	if !l.harmless {
		a.note(a.remedy(l, atEnd))
	}
	l.size = 0
}

// remedy returns what a user can do about damage.
func (a *annotator) remedy(l *stretch, atEnd bool) string {
	_, short := errors.AsType[*reader.ShortRecordError](l.err)
	switch {
	case short && l.offset+l.size == a.blockEnd:
		return reader.ShortBlock.Text() + ": " + reader.ShortBlock.Remedy()
	case short && atEnd:
		return reader.TruncatedFile.Text() + ": " + reader.TruncatedFile.Remedy()
	case a.header.Type == reader.Basic:
		return "reading continues at the next record. If the file was damaged after recording, copy it again or record again"
	}
	return "reading continues at the next block. If the file was damaged after recording, copy it again or record again"
}

// payload prints rows of bytes. size is their number, and shown are the first of them.
func (a *annotator) payload(offset int64, shown []byte, size int64) {
	shown = shown[:min(len(shown), maxPayload)]
	left := size - int64(len(shown))
	for ; len(shown) > 0; shown = shown[min(len(shown), rowBytes):] {
		row := shown[:min(len(shown), rowBytes)]
		a.bytes(offset, row, nil, "")
		offset += int64(len(row))
	}
	if left > 0 {
		fmt.Fprintf(a.w, "%08x  ... %d more bytes\n", offset, left)
	}
}

// bytes prints one row.
func (a *annotator) bytes(offset int64, b []byte, unused func(int) bool, text string) {
	row := fmt.Appendf(a.row[:0], "%08x ", offset)
	for i := range rowBytes {
		switch {
		case i >= len(b):
			if text == "" {
				continue
			}
			row = append(row, "   "...)
		case unused != nil && unused(i):
			row = append(row, " .."...)
		default:
			row = hex.AppendEncode(append(row, ' '), b[i:i+1])
		}
	}
	if text != "" {
		row = append(append(row, "  "...), text...)
	}
	a.row = append(row, '\n')
	_, _ = a.w.Write(a.row) // an error stays in w
}

// note prints a remark on a line of its own, in the column of meanings.
func (a *annotator) note(text string) {
	fmt.Fprintf(a.w, "%s!! %s\n", strings.Repeat(" ", 8+1+3*rowBytes+2), text)
}

func (a *annotator) summary() {
	fmt.Fprintf(a.w, "records: %d", a.sum.Records)
	if a.header.Type == reader.FDR {
		fmt.Fprintf(a.w, ", blocks: %d, bytes of padding: %d", a.sum.Blocks, a.sum.Padding)
	}
	fmt.Fprintf(a.w, ", bytes damaged: %d", a.sum.Damaged)
	if a.opts.Verify && a.header.Type == reader.FDR {
		fmt.Fprintf(a.w, ", violations: %d", a.sum.Violations)
	}
	fmt.Fprintln(a.w)
}
