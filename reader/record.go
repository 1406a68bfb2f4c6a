package reader

import (
	"encoding/binary"
	"fmt"
)

// RecordKind is the kind of a record on disk. The metadata records of FDR logs have their
// numbers in the format.
type RecordKind uint8

// The kinds that [ParseRecord] and [Trace.Records] distinguish. docs/dev/format.md has the
// layout of each.
const (
	NewBuffer RecordKind = iota
	EndOfBuffer
	NewCPUID
	TSCWrap
	WallClock
	CustomEvent
	CallArgument
	BufferExtents
	TypedEvent
	PID
	Function      // 8-byte function record of an FDR log
	BasicFunction // 32-byte function record of a basic log
	BasicArgument // 32-byte argument payload of a basic log
	// Damage is a run of bytes without a record: padding, garbage, or a truncated record.
	Damage
)

// String spells the kind as LLVM does.
func (k RecordKind) String() string {
	if s := k.Spec(); s != nil {
		return s.Name
	}
	if k == Damage {
		return "Damage"
	}
	return fmt.Sprintf("RecordKind(%d)", uint8(k))
}

// Record is one record as it is on disk, without interpretation: the state of previous
// records is not applied. Kind says which fields count.
type Record struct {
	Kind   RecordKind
	Offset int64 // of the record's first byte, after decompression
	Size   int   // bytes on disk, including the payload

	FuncKind Kind   // Function, BasicFunction
	Func     FuncID // Function, BasicFunction, BasicArgument
	CPU      uint16 // NewCPUID, BasicFunction; CustomEvent of version 4
	Type     uint16 // TypedEvent
	Thread   int32  // NewBuffer, BasicFunction, BasicArgument
	Process  int32  // PID, BasicFunction, BasicArgument
	Delta    int64  // Function; TypedEvent; CustomEvent since version 5
	TSC      uint64 // NewCPUID, TSCWrap, BasicFunction; CustomEvent up to version 4
	Seconds  uint64 // WallClock
	Micros   uint32 // WallClock
	Value    uint64 // CallArgument, BasicArgument; BufferExtents: bytes that follow
	// Data is the payload of an event, or the bytes of Damage. It refers to the buffer that
	// was parsed.
	Data []byte
}

const (
	headerSize      = 32
	basicRecordSize = 32
	functionSize    = 8
	metadataSize    = 16
)

// ParseRecord reads the record at the start of b into r, except r.Offset, and returns the
// record's size. The error says what is wrong with the bytes, not where they are. For a
// record that needs more bytes than b has, it is a *[ShortRecordError].
func ParseRecord(b []byte, h *Header, r *Record) (int, error) {
	offset := r.Offset
	*r = Record{Offset: offset}
	var n int
	var err error
	if h.Type == Basic {
		n, err = parseBasic(b, h, r)
	} else {
		n, err = parseFDR(b, h, r)
	}
	r.Size = n
	return n, err
}

// ShortRecordError reports a truncated record.
type ShortRecordError struct {
	Kind RecordKind
	Need int // bytes of the record, as far as known if the size itself is truncated
	Have int
}

// Error names the kind and the sizes.
func (e *ShortRecordError) Error() string {
	return fmt.Sprintf("%v record: need %d bytes, have %d", e.Kind, e.Need, e.Have)
}

func parseBasic(b []byte, h *Header, r *Record) (int, error) {
	if len(b) < basicRecordSize {
		return 0, &ShortRecordError{BasicFunction, basicRecordSize, len(b)}
	}
	switch t := h.ByteOrder.Uint16(b); t {
	case 0:
		r.Kind = BasicFunction
	case 1:
		r.Kind = BasicArgument
	default:
		return 0, fmt.Errorf("unknown record type %d", t)
	}
	recordSpecs[r.Kind].parse(b, h, r)
	if r.FuncKind > EnterArg {
		return 0, fmt.Errorf("function record: unknown kind %d", r.FuncKind)
	}
	return basicRecordSize, nil
}

func parseFDR(b []byte, h *Header, r *Record) (int, error) {
	if len(b) == 0 {
		return 0, &ShortRecordError{Function, 1, 0}
	}
	kind, meta := fdrMetadata(b[0], h.ByteOrder)
	if !meta {
		kind = byte(Function)
	} else if kind > byte(PID) {
		return 0, fmt.Errorf("unknown metadata record kind %d", kind)
	}
	r.Kind = RecordKind(kind)
	spec := &recordSpecs[r.Kind]
	if len(b) < spec.Size {
		return 0, &ShortRecordError{r.Kind, spec.Size, len(b)}
	}
	spec.parse(b, h, r)
	switch r.Kind {
	case Function:
		if r.FuncKind > EnterArg {
			return 0, fmt.Errorf("Function record: unknown kind %d", r.FuncKind)
		}
	case CustomEvent, TypedEvent:
		return parsePayload(b, h, r)
	}
	return spec.Size, nil
}

// parsePayload reads the payload of a custom or typed event.
func parsePayload(b []byte, h *Header, r *Record) (int, error) {
	size := int32(h.ByteOrder.Uint32(b[1:]))
	if size < 0 {
		return 0, fmt.Errorf("%v record: negative payload size %d", r.Kind, size)
	}
	n := metadataSize + int(size)
	if n > len(b) {
		return 0, &ShortRecordError{r.Kind, n, len(b)}
	}
	r.Data = b[metadataSize:n:n]
	return n, nil
}

// fdrMetadata splits the first byte of an FDR record. The C++ structs are bit fields, which
// big-endian compilers fill from the top.
func fdrMetadata(b0 byte, o binary.ByteOrder) (kind uint8, meta bool) {
	if isBigEndian(o) {
		return b0 & 0x7f, b0&0x80 != 0
	}
	return b0 >> 1, b0&1 != 0
}

// MetadataByte is the first byte of the FDR metadata records of a kind.
func MetadataByte(k RecordKind, o binary.ByteOrder) byte {
	if isBigEndian(o) {
		return 0x80 | byte(k)
	}
	return byte(k)<<1 | 1
}

func isBigEndian(o binary.ByteOrder) bool { return o == binary.ByteOrder(binary.BigEndian) }
