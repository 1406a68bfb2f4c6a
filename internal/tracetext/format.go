package tracetext

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// Format writes the text of the size bytes of r to w. It streams, and holds at most the text of
// one block, up to 1 MiB. It returns only errors of r and w. If r is not a trace, the text
// consists of bytes.
func Format(w io.Writer, r io.ReaderAt, size int64) error {
	f := &formatter{
		w:  bufio.NewWriterSize(w, 1<<16),
		in: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16),
	}
	// A file without a complete header has no records. An error of r occurs again when the
	// bytes are read.
	if t, err := reader.OpenReaderAt(r, size, "trace"); err == nil {
		h := t.Header(0)
		head, err := f.in.Peek(tracewrite.HeaderSize)
		if err == nil && bytes.Equal(head[:4], tracewrite.AppendHeader(nil, &h)[:4]) { // and not trace YAML
			f.header = h
			if err := f.records(t.Records(0)); err != nil {
				return err
			}
		}
	}
	if err := f.damage(-1); err != nil {
		return err
	}
	if err := f.release(true); err != nil {
		return err
	}
	return f.w.Flush()
}

// formatter reads a file. It writes bytes that are not in records as bytes lines.
type formatter struct {
	w      *bufio.Writer
	in     *bufio.Reader
	pos    int64 // of in
	header reader.Header
	fill   byte

	raw, same, line []byte // scratch

	// An extents line is held back, with the text behind it, until it is known whether auto
	// stands for its number.
	holding bool
	extents int64  // offset of its end
	value   uint64 // its number
	tail    string // what follows the number
	held    []byte
	last    int64 // offset of the end of the last record
}

const (
	// maxHeld limits the bytes of text that are held back.
	maxHeld = 1 << 20
	// maxWords limits the size of a record that is written in words. A byte of its payload can
	// take four.
	maxWords = maxLine / 5
)

func (f *formatter) records(records iter.Seq2[reader.Record, error]) error {
	started := false
	var r reader.Record // declared once because it escapes
	for next, err := range records {
		r = next
		if r.Size == 0 { // a read error ends the records; see Format
			break
		}
		if !started {
			if err := f.start(&r); err != nil {
				return err
			}
			started = true
		}
		if r.Offset < f.pos {
			continue
		}
		if err := f.damage(r.Offset - f.pos); err != nil {
			return err
		}
		if r.Kind == reader.Damage {
			if err != nil && len(bytes.Trim(r.Data, "\x00")) > 0 { // padding needs no reason
				f.emit(fmt.Appendf(nil, "# %s\n", oneLine(err)))
			}
			err = f.damage(int64(r.Size))
		} else {
			err = f.record(&r)
		}
		if err != nil {
			return err
		}
		if _, err := f.w.Write(nil); err != nil { // the first write error is sticky
			return err
		}
	}
	if !started {
		return f.start(&reader.Record{Kind: reader.Damage})
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// start writes the header. It uses the garbage in the first record as the default.
func (f *formatter) start(first *reader.Record) error {
	h := &f.header
	var head [tracewrite.HeaderSize]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return err
	}
	f.pos = tracewrite.HeaderSize
	unused := unusedOf(first.Kind, h.Version)
	if first.Offset == f.pos && len(unused) > 0 {
		n := unused[len(unused)-1].To
		raw, err := f.in.Peek(n)
		if err != nil {
			return err
		}
		f.fill = raw[n-1]
	}
	order := orderNames[0]
	if h.ByteOrder == orders[1] {
		order = orderNames[1]
	}
	line := fmt.Appendf(nil, "xray %v version=%d order=%s flags=%#x frequency=%d", h.Type, h.Version, order, h.ByteOrder.Uint32(head[4:]), h.CycleFrequency)
	free := head[16:]
	if h.Type == reader.FDR {
		line = fmt.Appendf(line, " buffer=%d", h.BufferSize)
		free = head[24:]
	}
	line = appendFill(line, " free=", free, 0)
	line = appendFill(line, " fill=", []byte{f.fill}, 0)
	f.emit(append(line, '\n'))
	return nil
}

// appendFill appends key and the bytes b, unless all of them are def. If all are equal, it
// writes one byte.
func appendFill(line []byte, key string, b []byte, def byte) []byte {
	same := b[0]
	for _, c := range b {
		if c != b[0] {
			return hex.AppendEncode(append(line, key...), b)
		}
	}
	if same == def {
		return line
	}
	return hex.AppendEncode(append(line, key...), b[:1])
}

// emit writes a line, or holds it back.
func (f *formatter) emit(line []byte) {
	if f.holding {
		f.held = append(f.held, line...)
		return
	}
	_, _ = f.w.Write(line) // an error stays in w until Flush
}

// release writes what is held back. If the block is complete and its size matches the extents,
// it writes auto. It returns the first write error so far.
func (f *formatter) release(ended bool) error {
	if f.holding {
		f.holding = false
		number := strconv.FormatUint(f.value, 10)
		if ended && f.value == uint64(f.last-f.extents) && f.pos-f.extents < maxBlock-maxZeros {
			number = "auto"
		}
		_, _ = fmt.Fprintf(f.w, "extents %s%s\n", number, f.tail)
		_, _ = f.w.Write(f.held)
	}
	f.held = f.held[:0]
	_, err := f.w.Write(nil) // the first write error is sticky
	return err
}

// record writes the line of r, which is at pos.
func (f *formatter) record(r *reader.Record) error {
	f.raw = slices.Grow(f.raw[:0], r.Size)[:r.Size]
	if _, err := io.ReadFull(f.in, f.raw); err != nil {
		return err
	}
	f.pos += int64(r.Size)
	if r.Size > maxWords {
		_, err := f.hex(bytes.NewReader(f.raw))
		return err
	}
	// Write bytes if the words do not assemble to the same bytes.
	var unused []byte
	f.same = tracewrite.AppendRecord(f.same[:0], &f.header, r)
	for _, s := range unusedOf(r.Kind, f.header.Version) {
		if s.To <= len(f.raw) && s.To <= len(f.same) {
			unused = append(unused, f.raw[s.From:s.To]...)
			copy(f.same[s.From:s.To], f.raw[s.From:s.To])
		}
	}
	if !bytes.Equal(f.same, f.raw) {
		_, err := f.hex(bytes.NewReader(f.raw))
		return err
	}
	var tail []byte
	if len(unused) > 0 {
		tail = appendFill(nil, " pad=", unused, f.fill)
	}
	if r.Kind == reader.BufferExtents {
		if err := f.release(true); err != nil {
			return err
		}
		f.holding, f.extents, f.value, f.tail = true, f.pos, r.Value, string(tail)
	} else {
		f.line = append(append(appendLine(f.line[:0], &f.header, r), tail...), '\n')
		f.emit(f.line)
	}
	f.last = f.pos
	if len(f.held) > maxHeld {
		return f.release(false)
	}
	return nil
}

// unusedOf returns the unused bytes of a record; none for damage.
func unusedOf(kind reader.RecordKind, version uint16) []reader.Span {
	if s := kind.Spec(); s != nil {
		return s.Unused(version)
	}
	return nil
}

// appendLine appends the text of a record other than extents, without its pad.
func appendLine(b []byte, h *reader.Header, r *reader.Record) []byte {
	spec := r.Kind.Spec()
	payload := string(r.Data)
	switch kind, body, ok := reader.SplitMetadata(r.Data); {
	case spec.Word == "":
		b = append(b, functionWords[r.FuncKind]...)
	case r.Kind == reader.CustomEvent && ok && h.Version >= 5:
		b = append(fmt.Appendf(b, "%s %v ", metadataWord, kind), quote(string(body))...)
		return fmt.Appendf(b, " %+d", r.Delta)
	default:
		b = append(b, spec.Word...)
	}
	for i := range spec.Fields {
		f := &spec.Fields[i]
		if !f.In(h.Version) {
			continue
		}
		v := r.Field(f)
		switch {
		case f.ID == reader.FieldRecordType, f.ID == reader.FieldFuncKind:
			// implied by the word
		case f.ID == reader.FieldPayloadSize:
			b = strconv.AppendQuote(append(b, ' '), payload)
		case f.ID == reader.FieldSeconds && r.Micros < maxMicros:
			b = fmt.Appendf(b, " %d.%06d", r.Seconds, r.Micros)
		case f.ID == reader.FieldMicros && r.Micros < maxMicros:
			// follows the seconds
		default:
			b = append(b, ' ')
			if f.Key != "" {
				b = append(append(b, f.Key...), '=')
			}
			if f.ID == reader.FieldDelta && int64(v) >= 0 {
				b = append(b, '+')
			}
			if f.Signed {
				b = strconv.AppendInt(b, int64(v), 10)
			} else {
				b = strconv.AppendUint(b, v, 10)
			}
		}
	}
	return b
}

// maxMicros is the number of microseconds in a second.
const maxMicros = 1_000_000

// quote uses backquotes if the string contains quotes.
func quote(s string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) } // and might steer a terminal
	if strings.Contains(s, `"`) && strconv.CanBackquote(s) && !strings.ContainsFunc(s, hidden) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

// damage writes the next n bytes of the file, or the rest if n is negative.
func (f *formatter) damage(n int64) error {
	if n == 0 {
		return nil
	}
	var in io.Reader = f.in
	if n >= 0 {
		in = io.LimitReader(f.in, n)
	}
	got, err := f.hex(bufio.NewReader(in))
	f.pos += got
	return err
}

// Runs of zeros shorter than minZeros are written as bytes. A line has up to lineBytes.
const (
	minZeros  = 16
	lineBytes = 32
)

// hex writes bytes and zeros lines for all of r. It returns the number of bytes.
func (f *formatter) hex(r io.ByteReader) (n int64, err error) {
	line := make([]byte, 0, lineBytes)
	zeros := 0
	flushLine := func() {
		if len(line) > 0 {
			f.emit(fmt.Appendf(nil, "bytes %x\n", line))
			line = line[:0]
		}
	}
	// A few zeros are written with the bytes around them.
	flushZeros := func() {
		if zeros >= minZeros || len(line) == 0 && zeros > 0 {
			flushLine()
			f.emit(fmt.Appendf(nil, "zeros %d\n", zeros))
			zeros = 0
		}
		for ; zeros > 0; zeros-- {
			if len(line) == lineBytes {
				flushLine()
			}
			line = append(line, 0)
		}
	}
	for {
		b, err := r.ReadByte()
		if err != nil {
			flushZeros()
			flushLine()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
		n++
		if b == 0 {
			if zeros++; zeros == maxZeros {
				flushZeros()
			}
		} else {
			flushZeros()
			if len(line) == lineBytes {
				flushLine()
			}
			line = append(line, b)
		}
		if len(f.held) > maxHeld {
			if err := f.release(false); err != nil {
				return n, err
			}
		}
	}
}
