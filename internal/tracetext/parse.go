package tracetext

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// Limits of a text, so that memory is bounded.
const (
	maxLine   = 64 << 20 // bytes of a line
	maxTokens = 1 << 16  // values and fields in a line
	maxBlock  = 64 << 20 // bytes of a block with `extents auto`, which is held in memory
)

// Parse is [Assemble] in memory. The result is at most a few thousand times as large as the
// text.
func Parse(text string) ([]byte, error) {
	var b bytes.Buffer
	if err := Assemble(&b, strings.NewReader(text)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Assemble writes the trace that a text describes. It streams, and holds one line and the block
// of an `extents auto`. Errors in the text contain the line number. Assemble may have written
// what comes before it.
func Assemble(w io.Writer, text io.Reader) error {
	p := parser{w: w, block: -1}
	in := bufio.NewReaderSize(text, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = p.textLine(line)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := p.flush(false); err != nil {
			return err
		}
	}
	p.endBlock()
	return p.flush(true)
}

// readLine reads a line. The last line of the text may lack a line end.
func readLine(in *bufio.Reader) (string, error) {
	piece, err := in.ReadSlice('\n')
	if err == nil || err == io.EOF && len(piece) > 0 {
		return string(piece), nil
	}
	line := bytes.Clone(piece)
	for err == bufio.ErrBufferFull {
		if len(line) > maxLine {
			return "", fmt.Errorf("longer than %d bytes", maxLine)
		}
		piece, err = in.ReadSlice('\n')
		line = append(line, piece...)
	}
	if err == io.EOF && len(line) > 0 {
		err = nil
	}
	return string(line), err
}

func (p *parser) textLine(line string) error {
	tokens, err := split(line)
	if err != nil || len(tokens) == 0 {
		return err
	}
	f := &fields{tokens: tokens[1:]}
	p.line(tokens[0], f)
	if err := f.finish(); err != nil {
		return err
	}
	if p.block >= 0 && len(p.out)-p.block > maxBlock {
		return fmt.Errorf("a block of more than %d bytes: write the number of its extents", maxBlock)
	}
	return nil
}

type parser struct {
	w       io.Writer
	out     []byte // not yet written
	written int64

	begun  bool           // a line was read
	header *reader.Header // nil without a header line
	fill   byte

	block int // offset in out behind an `extents auto` record whose number is not set yet; -1 for none
	last  int // end of the last record of that block
}

// flush writes complete blocks if there is much output, or at the end.
func (p *parser) flush(all bool) error {
	n := len(p.out)
	if p.block >= 0 {
		n = p.block - metadataSize
	}
	if !all && n < 64<<10 {
		return nil
	}
	_, err := p.w.Write(p.out[:n])
	p.written += int64(n)
	p.out = append(p.out[:0], p.out[n:]...)
	p.last -= n
	if p.block >= 0 {
		p.block -= n
	}
	return err
}

// metadataSize is the size of an extents record.
const metadataSize = 16

func (p *parser) line(word string, f *fields) {
	first := !p.begun
	p.begun = true
	switch {
	case word == "xray":
		if !first {
			f.fail("the header must be the first line")
			return
		}
		p.headerLine(f)
	case word == "bytes":
		for f.more() {
			b, err := hex.DecodeString(f.next("bytes"))
			if err != nil {
				f.fail("bytes: %v", err)
				return
			}
			p.out = append(p.out, b...)
		}
	case word == "zeros":
		p.zeros(f)
	case p.header == nil:
		f.fail("%s: text without an xray line may only have bytes and zeros", word)
	case word == "thread":
		p.thread(f)
	default:
		p.record(word, f)
	}
}

func (p *parser) headerLine(f *fields) {
	h := &reader.Header{Version: 5, Type: reader.FDR, ByteOrder: binary.LittleEndian}
	free := 8
	switch t := f.next("type"); t {
	case "fdr":
		h.BufferSize = f.unsigned("buffer", 64, tracewrite.DefaultBufferSize)
	case "basic":
		h.Version, h.Type, free = 3, reader.Basic, 16
	default:
		f.fail("unknown type %q: want fdr or basic", t)
	}
	h.Version = uint16(f.unsigned("version", 16, uint64(h.Version)))
	h.CycleFrequency = f.unsigned("frequency", 64, 1_000_000_000)
	if name, ok := f.key("order"); ok {
		i := slices.Index(orderNames[:], name)
		if i < 0 {
			f.fail("unknown order %q: want little or big", name)
			return
		}
		h.ByteOrder = orders[i]
	}
	p.out = tracewrite.AppendHeader(p.out, h)
	h.ByteOrder.PutUint32(p.out[4:], uint32(f.unsigned("flags", 32, 3)))
	f.bytes("free", p.out[tracewrite.HeaderSize-free:], 0)
	var fill [1]byte
	f.bytes("fill", fill[:], 0)
	p.header, p.fill = h, fill[0]
}

func (p *parser) zeros(f *fields) {
	number := f.next("number")
	var n uint64
	if number != "auto" {
		n = f.parse("number", number, 64)
	} else if p.header == nil || p.header.BufferSize == 0 {
		f.fail("zeros auto needs a buffer size in the header")
	} else if behind := (uint64(p.written) + uint64(len(p.out)) - tracewrite.HeaderSize) % p.header.BufferSize; behind > 0 {
		n = p.header.BufferSize - behind
	}
	if n > maxZeros {
		f.fail("%d zeros are more than %d: use several lines", n, maxZeros)
		return
	}
	p.out = append(p.out, make([]byte, n)...)
}

// thread writes the records at the start of a block.
func (p *parser) thread(f *fields) {
	h := p.header
	if h.Type != reader.FDR {
		f.fail("thread: basic logs have no blocks")
		return
	}
	records := []*reader.Record{
		{Kind: reader.BufferExtents},
		{Kind: reader.NewBuffer, Thread: f.thread()},
		{Kind: reader.WallClock},
		{Kind: reader.PID},
		{Kind: reader.NewCPUID, CPU: uint16(f.unsigned("cpu", 16, 0)), TSC: f.unsigned("tsc", 64, 0)},
	}
	if wall, ok := f.key("wall"); ok {
		records[2].Seconds, records[2].Micros = f.wall(wall)
	}
	if h.Version >= 3 {
		records[3].Process = int32(f.signed("pid", 32))
	}
	p.endBlock()
	for i, r := range records {
		if i == 0 && h.Version < 2 || i == 3 && h.Version < 3 {
			continue
		}
		p.append(r, f)
		if i == 0 {
			p.block = len(p.out)
		}
	}
}

// record reads the line of a record and appends the record.
func (p *parser) record(word string, f *fields) {
	r := &reader.Record{}
	if word == metadataWord && p.header.Type == reader.FDR && p.header.Version >= 5 {
		kind, err := reader.ParseMetadataKind(f.next("kind"))
		if err != nil {
			f.fail("%w", err)
		}
		p.append(&reader.Record{Kind: reader.CustomEvent, Data: tracewrite.AppendMetadata(nil, kind, f.quoted()),
			Delta: f.delta(-1<<31, 1<<31-1)}, f)
		return
	}
	function := slices.Index(functionWords[:], word)
	found := false
	for k := range reader.Damage {
		spec := k.Spec()
		if spec.Type == p.header.Type && (spec.Word == word || spec.Word == "" && function >= 0) {
			r.Kind, found = k, true
		}
	}
	if !found {
		f.fail("unknown record %q", word)
		return
	}
	r.FuncKind = reader.Kind(max(function, 0))
	auto := p.values(r, f)
	if r.Kind == reader.BufferExtents {
		p.endBlock()
	}
	p.append(r, f)
	if auto {
		p.block = len(p.out)
	}
}

// values reads the fields of a record. auto means that the extents are counted later.
func (p *parser) values(r *reader.Record, f *fields) (auto bool) {
	spec := r.Kind.Spec()
	for i := range spec.Fields {
		field := &spec.Fields[i]
		if !field.In(p.header.Version) {
			continue
		}
		bits := 8 * field.Size
		if field.Bits != 0 {
			bits = field.Bits
		}
		name := field.String()
		switch {
		case field.ID == reader.FieldRecordType, field.ID == reader.FieldFuncKind:
			// implied by the word
		case field.ID == reader.FieldPayloadSize:
			r.Data = f.quoted()
		case field.ID == reader.FieldDelta && field.Signed:
			r.Delta = f.delta(-1<<(bits-1), 1<<(bits-1)-1)
		case field.ID == reader.FieldDelta:
			r.Delta = f.delta(0, 1<<bits-1)
		case field.ID == reader.FieldSeconds:
			r.Seconds, r.Micros = f.wall(f.next("time"))
		case field.ID == reader.FieldMicros:
			r.Micros = uint32(f.unsigned(field.Key, bits, uint64(r.Micros)))
		case field.Key != "" && field.Signed:
			r.SetField(field.ID, uint64(f.signed(field.Key, bits)))
		case field.Key != "":
			r.SetField(field.ID, f.unsigned(field.Key, bits, 0))
		case field.Signed:
			r.SetField(field.ID, uint64(f.number(name, bits)))
		default:
			number := f.next(name)
			if auto = r.Kind == reader.BufferExtents && number == "auto"; !auto {
				r.SetField(field.ID, f.parse(name, number, bits))
			}
		}
	}
	return auto
}

// append appends a record and sets its unused bytes.
func (p *parser) append(r *reader.Record, f *fields) {
	n := len(p.out)
	p.out = tracewrite.AppendRecord(p.out, p.header, r)
	spans := r.Kind.Spec().Unused(p.header.Version)
	size := 0
	for _, s := range spans {
		size += s.To - s.From
	}
	if size > 0 {
		pad := make([]byte, size)
		f.bytes("pad", pad, p.fill)
		for _, s := range spans {
			pad = pad[copy(p.out[n+s.From:n+s.To], pad):]
		}
	}
	p.last = len(p.out)
}

// endBlock sets the number of `extents auto`.
func (p *parser) endBlock() {
	if p.block >= 0 {
		// The number is at offset 1 of the 16-byte record.
		p.header.ByteOrder.PutUint64(p.out[p.block-15:], uint64(p.last-p.block))
		p.block = -1
	}
}

// split splits a line into tokens. A quoted string is one token.
func split(line string) ([]string, error) {
	var tokens []string
	for {
		line = strings.TrimLeft(line, " \t\r\n")
		switch {
		case line == "" || line[0] == '#':
			return tokens, nil
		case line[0] == '"' || line[0] == '`':
			s, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, errors.New("the quoted string is not well-formed")
			}
			tokens = append(tokens, s)
			line = line[len(s):]
		default:
			end := strings.IndexAny(line, " \t\r\n#")
			if end < 0 {
				end = len(line)
			}
			tokens = append(tokens, line[:end])
			line = line[end:]
		}
		if len(tokens) > maxTokens {
			return nil, fmt.Errorf("more than %d values", maxTokens)
		}
	}
}

// fields parses the values of a line. It keeps the first error. After an error, values are
// zero.
type fields struct {
	tokens []string // not taken yet
	err    error
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// finish returns the first error. Unused values are an error.
func (f *fields) finish() error {
	if f.more() {
		f.fail("unexpected %q", f.tokens[0])
	}
	return f.err
}

func (f *fields) more() bool { return f.err == nil && len(f.tokens) > 0 }

// next takes the next value.
func (f *fields) next(name string) string {
	if !f.more() || strings.Contains(f.tokens[0], "=") && f.tokens[0][0] != '"' && f.tokens[0][0] != '`' {
		f.fail("%s is missing", name)
		return ""
	}
	s := f.tokens[0]
	f.tokens = f.tokens[1:]
	return s
}

// key takes the value of a key=value field.
func (f *fields) key(key string) (string, bool) {
	for i, t := range f.tokens {
		if value, ok := strings.CutPrefix(t, key+"="); ok {
			f.tokens = slices.Delete(f.tokens, i, i+1)
			return value, true
		}
	}
	return "", false
}

func (f *fields) parse(name, s string, bits int) uint64 {
	v, err := strconv.ParseUint(s, 0, bits)
	if err != nil {
		f.failNumber(name, s, err)
	}
	return v
}

func (f *fields) parseSigned(name, s string, bits int) int64 {
	v, err := strconv.ParseInt(s, 0, bits)
	if err != nil {
		f.failNumber(name, s, err)
	}
	return v
}

func (f *fields) failNumber(name, s string, err error) {
	if e, ok := errors.AsType[*strconv.NumError](err); ok {
		err = e.Err
	}
	f.fail("%s %q: %w", name, s, err)
}

// number returns the next value as a signed number.
func (f *fields) number(name string, bits int) int64 {
	return f.parseSigned(name, f.next(name), bits)
}

func (f *fields) thread() int32 { return int32(f.number("thread", 32)) }

func (f *fields) unsigned(key string, bits int, def uint64) uint64 {
	s, ok := f.key(key)
	if !ok {
		return def
	}
	return f.parse(key, s, bits)
}

func (f *fields) signed(key string, bits int) int64 {
	s, ok := f.key(key)
	if !ok {
		return 0
	}
	return f.parseSigned(key, s, bits)
}

// delta returns the next value if it is +n or -n.
func (f *fields) delta(low, high int64) int64 {
	if !f.more() || f.tokens[0][0] != '+' && f.tokens[0][0] != '-' {
		return 0
	}
	s := f.next("delta")
	v := f.parseSigned("delta", s, 64)
	if v < low || v > high {
		f.fail("delta %s: want %d to %d", s, low, high)
	}
	return v
}

func (f *fields) quoted() []byte {
	token := f.next("payload")
	s, err := strconv.Unquote(token)
	if err != nil || token[0] != '"' && token[0] != '`' {
		f.fail("payload %s: want a quoted string", token)
	}
	return []byte(s)
}

// wall parses seconds with optional microseconds.
func (f *fields) wall(s string) (seconds uint64, micros uint32) {
	whole, fraction, ok := strings.Cut(s, ".")
	if ok && len(fraction) != 6 {
		f.fail("wall clock %q: want 6 digits of microseconds", s)
		return 0, 0
	}
	if ok {
		v, err := strconv.ParseUint(fraction, 10, 32)
		if err != nil {
			f.failNumber("microseconds", fraction, err)
		}
		micros = uint32(v)
	}
	return f.parse("wall clock", whole, 64), micros
}

// bytes sets dst to the bytes of a field. One byte sets all of dst. def is the default.
func (f *fields) bytes(key string, dst []byte, def byte) {
	b := []byte{def}
	if s, ok := f.key(key); ok {
		var err error
		if b, err = hex.DecodeString(s); err != nil {
			f.fail("%s: %w", key, err)
			return
		}
	}
	switch len(b) {
	case len(dst):
		copy(dst, b)
	case 1:
		for i := range dst {
			dst[i] = b[0]
		}
	default:
		f.fail("%s: want 1 or %d bytes, have %d", key, len(dst), len(b))
	}
}
