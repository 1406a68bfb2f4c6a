// Package tracewrite writes binary XRay traces.
//
// It has two layers. [AppendHeader] and [AppendRecord] are the inverse of
// [reader.ParseRecord]: they encode one record of any known version (basic 1 to
// 3, FDR 1 to 5) in either byte order, well-formed or not, and know nothing of
// the records around it. [Basic] and [FDR] stand on the formats and write whole
// traces from blocks of events: basic version 3, and FDR version 5, as the
// newest runtimes do, little-endian, such that our reader and llvm-xray read
// them back without a complaint.
//
// The writers stream. Basic holds one output buffer, FDR one unfinished buffer
// for each thread.
package tracewrite

import (
	"encoding/binary"

	"github.com/xray-tools/xray/reader"
)

// Sizes of what precedes payloads, in bytes.
const (
	HeaderSize   = 32
	basicSize    = 32
	functionSize = 8
	metadataSize = 16
)

// maxFDRFunc is the largest function id that the 28 bits of an FDR function
// record hold.
const maxFDRFunc = 1<<28 - 1

var zeros [HeaderSize]byte

// AppendHeader appends the 32-byte file header. The flag bits and the free-form
// bytes that the format leaves undefined are zero. A nil ByteOrder is
// little-endian.
func AppendHeader(dst []byte, h *reader.Header) []byte {
	o := byteOrder(h)
	dst = append(dst, zeros[:]...)
	b := dst[len(dst)-HeaderSize:]
	o.PutUint16(b, h.Version)
	o.PutUint16(b[2:], uint16(h.Type))
	var flags uint32
	if h.ConstantTSC {
		flags |= 1
	}
	if h.NonstopTSC {
		flags |= 2
	}
	o.PutUint32(b[4:], flags)
	o.PutUint64(b[8:], h.CycleFrequency)
	if h.Type == reader.FDR {
		o.PutUint64(b[16:], h.BufferSize)
		if h.Recorder {
			copy(b[HeaderSize-len(reader.RecorderMark):], reader.RecorderMark)
		}
	}
	return dst
}

// AppendRecord appends r in the layout that h's version and byte order give its
// kind; of h's type it takes no notice. Bytes that the layout leaves unused are
// zero (see [Unused]), and numbers are cut to the width of their field. Damage
// is appended as it is.
func AppendRecord(dst []byte, h *reader.Header, r *reader.Record) []byte {
	o := byteOrder(h)
	n := len(dst)
	switch r.Kind {
	case reader.Damage:
		return append(dst, r.Data...)
	case reader.BasicFunction:
		dst = append(dst, zeros[:basicSize]...)
		b := dst[n:]
		b[2] = byte(r.CPU)
		b[3] = byte(r.FuncKind)
		o.PutUint32(b[4:], uint32(r.Func))
		o.PutUint64(b[8:], r.TSC)
		o.PutUint32(b[16:], uint32(r.Thread))
		if h.Version >= 3 {
			o.PutUint32(b[20:], uint32(r.Process))
		}
		return dst
	case reader.BasicArgument:
		dst = append(dst, zeros[:basicSize]...)
		b := dst[n:]
		o.PutUint16(b, 1)
		o.PutUint32(b[4:], uint32(r.Func))
		o.PutUint32(b[8:], uint32(r.Thread))
		if h.Version >= 3 {
			o.PutUint32(b[12:], uint32(r.Process))
		}
		o.PutUint64(b[16:], r.Value)
		return dst
	case reader.Function:
		dst = append(dst, zeros[:functionSize]...)
		o.PutUint32(dst[n:], functionWord(o, r.FuncKind, r.Func))
		o.PutUint32(dst[n+4:], uint32(r.Delta))
		return dst
	}
	dst = append(dst, zeros[:metadataSize]...)
	b := dst[n:]
	b[0] = metadataByte(o, r.Kind)
	switch r.Kind {
	case reader.NewBuffer:
		o.PutUint32(b[1:], uint32(r.Thread))
	case reader.NewCPUID:
		o.PutUint16(b[1:], r.CPU)
		o.PutUint64(b[3:], r.TSC)
	case reader.TSCWrap:
		o.PutUint64(b[1:], r.TSC)
	case reader.WallClock:
		o.PutUint64(b[1:], r.Seconds)
		o.PutUint32(b[9:], r.Micros)
	case reader.CallArgument, reader.BufferExtents:
		o.PutUint64(b[1:], r.Value)
	case reader.PID:
		o.PutUint32(b[1:], uint32(r.Process))
	case reader.CustomEvent:
		o.PutUint32(b[1:], uint32(len(r.Data)))
		if h.Version >= 5 {
			o.PutUint32(b[5:], uint32(r.Delta))
			break
		}
		o.PutUint64(b[5:], r.TSC)
		if h.Version == 4 {
			o.PutUint16(b[13:], r.CPU)
		}
	case reader.TypedEvent:
		o.PutUint32(b[1:], uint32(len(r.Data)))
		o.PutUint32(b[5:], uint32(r.Delta))
		o.PutUint16(b[9:], r.Type)
	}
	return append(dst, r.Data...)
}

// Span is a range of bytes of a record: those from From up to, not including, To.
type Span struct{ From, To int }

// Unused returns the bytes of a record, counted from its start, to which the
// format gives no meaning. Recorders leave garbage there.
func Unused(h *reader.Header, kind reader.RecordKind) []Span {
	switch kind {
	case reader.BasicFunction:
		if h.Version < 3 {
			return []Span{{20, basicSize}}
		}
		return []Span{{24, basicSize}}
	case reader.BasicArgument:
		if h.Version < 3 {
			return []Span{{2, 4}, {12, 16}, {24, basicSize}}
		}
		return []Span{{2, 4}, {24, basicSize}}
	}
	used := metadataSize
	switch kind {
	case reader.EndOfBuffer:
		used = 1
	case reader.NewBuffer, reader.PID:
		used = 5
	case reader.TSCWrap, reader.CallArgument, reader.BufferExtents:
		used = 9
	case reader.NewCPUID, reader.TypedEvent:
		used = 11
	case reader.WallClock:
		used = 13
	case reader.CustomEvent:
		switch {
		case h.Version >= 5:
			used = 9
		case h.Version == 4:
			used = 15
		default:
			used = 13
		}
	}
	if used == metadataSize {
		return nil
	}
	return []Span{{used, metadataSize}}
}

func byteOrder(h *reader.Header) binary.ByteOrder {
	if h.ByteOrder == nil {
		return binary.LittleEndian
	}
	return h.ByteOrder
}

// metadataByte and functionWord join what C++ bit fields hold; big-endian
// compilers fill those from the top.
func metadataByte(o binary.ByteOrder, kind reader.RecordKind) byte {
	if o == binary.ByteOrder(binary.BigEndian) {
		return 0x80 | byte(kind)
	}
	return byte(kind)<<1 | 1
}

func functionWord(o binary.ByteOrder, kind reader.Kind, id reader.FuncID) uint32 {
	k, f := uint32(kind)&7, uint32(id)&maxFDRFunc
	if o == binary.ByteOrder(binary.BigEndian) {
		return k<<28 | f
	}
	return f<<4 | k<<1
}
