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
// zero (see [reader.RecordSpec.Unused]), and numbers are cut to the width of their field. Damage
// is appended as it is.
func AppendRecord(dst []byte, h *reader.Header, r *reader.Record) []byte {
	spec := r.Kind.Spec()
	if spec == nil { // damage
		return append(dst, r.Data...)
	}
	o := byteOrder(h)
	n := len(dst)
	dst = append(dst, zeros[:spec.Size]...)
	b := dst[n:]
	if spec.Metadata() {
		b[0] = reader.MetadataByte(r.Kind, o)
	}
	for i := range spec.Fields {
		if f := &spec.Fields[i]; f.In(h.Version) {
			f.Put(b, o, r.Field(f))
		}
	}
	return append(dst, r.Data...)
}

func byteOrder(h *reader.Header) binary.ByteOrder {
	if h.ByteOrder == nil {
		return binary.LittleEndian
	}
	return h.ByteOrder
}

// functionWord is the first word of a function record of a little-endian FDR log.
func functionWord(kind reader.Kind, id reader.FuncID) uint32 {
	return uint32(id)&maxFDRFunc<<4 | uint32(kind)<<1
}
