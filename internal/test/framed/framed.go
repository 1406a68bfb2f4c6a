// Package framed compresses logs for tests as the observer does.
package framed

import (
	"encoding/binary"

	"github.com/xray-tools/xray/internal/frames"
	"github.com/xray-tools/xray/reader"
)

// Compress returns a log in frames: one for the header and for each FDR block. After the last
// block, it makes frames of the remaining bytes.
func Compress(log []byte) []byte {
	var e frames.Encoder
	var out []byte
	n := min(len(log), 32)
	for len(log) > 0 {
		out = append(out, e.Encode(log[:n])...)
		log = log[n:]
		n = len(log)
		if n >= 16 && log[0] == reader.MetadataByte(reader.BufferExtents, binary.LittleEndian) {
			n = int(min(uint64(n), 16+binary.LittleEndian.Uint64(log[1:])))
		}
	}
	return out
}
