// Package tracewrite writes binary XRay traces.
//
// It has two layers. [AppendHeader] and [AppendRecord] are the inverse of [reader.ParseRecord].
// They encode one record of any known version (basic 1 to 3, FDR 1 to 5) in either byte order,
// well-formed or not, independently of other records. [Basic] and [FDR] write whole traces from
// blocks of events. Their output is little-endian basic version 3 and FDR version 5, which this
// project's reader and llvm-xray accept.
//
// The writers stream. Basic holds one output buffer, FDR one unfinished buffer per thread.
package tracewrite

import (
	"encoding/binary"

	"github.com/xray-tools/xray/reader"
)

// Sizes of headers and records without payload, in bytes.
const (
	HeaderSize   = 32
	basicSize    = 32
	functionSize = 8
	metadataSize = 16
)

// maxFDRFunc is the largest function id in the 28 bits of an FDR function record.
const maxFDRFunc = 1<<28 - 1

var zeros [HeaderSize]byte

// AppendHeader appends the 32-byte file header. Undefined flag bits and bytes are zero. A nil
// ByteOrder means little-endian.
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

// AppendRecord appends r in the layout of its kind, with the version and byte order of h.
// It ignores the type of h. Unused bytes are zero (see [reader.RecordSpec.Unused]). Numbers
// are truncated to the width of their field. It copies damage unchanged.
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

// functionWord returns the first word of a function record of a little-endian FDR log.
func functionWord(kind reader.Kind, id reader.FuncID) uint32 {
	return uint32(id)&maxFDRFunc<<4 | uint32(kind)<<1
}
