package reader

import "encoding/binary"

// Cut says that a trace has the records of a thread only from the time of its event on. It was cut
// out of a longer one, or written from memory that had no more. The calls that were open then, as far
// as they are known, are entered by the records that follow. They began earlier.
type Cut struct {
	// Records is the number of these records. Entries have the time of the event. A tail exit among
	// them is of the entry before, if the call went on in the call that is entered next.
	Records uint32
	// Since is the TSC of the last record before the cut, or 0. A switch that comes first after the
	// records lasted since then.
	Since uint64
}

const cutSize = 12

// ParseCut reads the payload of a custom event as a cut. It returns false if the event is not a cut.
func ParseCut(payload []byte) (Cut, bool) {
	kind, body, ok := SplitMetadata(payload)
	if !ok || kind != MetadataCut || len(body) < cutSize {
		return Cut{}, false
	}
	return Cut{binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint64(body[4:])}, true
}

// AppendCut appends the payload of a cut.
func AppendCut(dst []byte, c Cut) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint16(append(dst, MetadataHead...), uint16(MetadataCut))
	return le.AppendUint64(le.AppendUint32(dst, c.Records), c.Since)
}
