package reader

import (
	"encoding/binary"
	"fmt"
)

// RecordKind is the kind of a record on disk. The metadata records of FDR logs
// have the numbers that they have there.
type RecordKind uint8

// The kinds that [ParseRecord] and [Trace.Records] tell apart. docs/format.md has the
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
	// Damage is a run of bytes that hold no record: padding, garbage, or a
	// record that is cut off.
	Damage
)

var recordKindNames = [...]string{
	"NewBuffer", "EndOfBuffer", "NewCPUId", "TSCWrap", "WallClock", "CustomEvent",
	"CallArgument", "BufferExtents", "TypedEvent", "PID",
	"Function", "Function", "Argument", "Damage",
}

// String spells the kind as LLVM does.
func (k RecordKind) String() string {
	if int(k) < len(recordKindNames) {
		return recordKindNames[k]
	}
	return fmt.Sprintf("RecordKind(%d)", uint8(k))
}

// Record is one record as it is on disk, uninterpreted: no state of the records
// before it is applied. Which fields count depends on Kind.
type Record struct {
	Kind   RecordKind
	Offset int64 // of the record's first byte, after decompression
	Size   int   // bytes on disk, payload included

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
	// Data is the payload of an event, or the bytes of Damage. It refers to the
	// buffer that was parsed.
	Data []byte
}

const (
	headerSize      = 32
	basicRecordSize = 32
	functionSize    = 8
	metadataSize    = 16
)

// ParseRecord reads the record at the start of b into r, whose Offset it leaves
// alone, and returns the record's size. The error says what is wrong with the
// bytes, not where they are. A record that needs more bytes than b has is a
// *[ShortRecordError].
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

// ShortRecordError reports a record that is cut off.
type ShortRecordError struct {
	Kind RecordKind
	Need int // bytes that the record has; what is known of it when the size itself is cut off
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
	o := h.ByteOrder
	switch t := o.Uint16(b); t {
	case 0:
		if b[3] > byte(EnterArg) {
			return 0, fmt.Errorf("function record: unknown kind %d", b[3])
		}
		r.Kind = BasicFunction
		r.CPU = uint16(b[2])
		r.FuncKind = Kind(b[3])
		r.Func = FuncID(o.Uint32(b[4:]))
		r.TSC = o.Uint64(b[8:])
		r.Thread = int32(o.Uint32(b[16:]))
		r.Process = int32(o.Uint32(b[20:]))
	case 1:
		r.Kind = BasicArgument
		r.Func = FuncID(o.Uint32(b[4:]))
		r.Thread = int32(o.Uint32(b[8:]))
		r.Process = int32(o.Uint32(b[12:]))
		r.Value = o.Uint64(b[16:])
	default:
		return 0, fmt.Errorf("unknown record type %d", t)
	}
	// Up to version 2 these bytes are padding, which recorders leave unset.
	if h.Version < 3 {
		r.Process = 0
	}
	return basicRecordSize, nil
}

func parseFDR(b []byte, h *Header, r *Record) (int, error) {
	if len(b) == 0 {
		return 0, &ShortRecordError{Function, 1, 0}
	}
	o := h.ByteOrder
	kind, meta := fdrMetadata(b[0], o)
	if !meta {
		if len(b) < functionSize {
			return 0, &ShortRecordError{Function, functionSize, len(b)}
		}
		k, id := fdrFunction(o.Uint32(b), o)
		if k > uint32(EnterArg) {
			return 0, fmt.Errorf("Function record: unknown kind %d", k)
		}
		r.Kind = Function
		r.FuncKind = Kind(k)
		r.Func = FuncID(id)
		r.Delta = int64(o.Uint32(b[4:]))
		return functionSize, nil
	}
	if kind > uint8(PID) {
		return 0, fmt.Errorf("unknown metadata record kind %d", kind)
	}
	r.Kind = RecordKind(kind)
	if len(b) < metadataSize {
		return 0, &ShortRecordError{r.Kind, metadataSize, len(b)}
	}
	switch r.Kind {
	case NewBuffer:
		r.Thread = int32(o.Uint32(b[1:]))
	case NewCPUID:
		r.CPU = o.Uint16(b[1:])
		r.TSC = o.Uint64(b[3:])
	case TSCWrap:
		r.TSC = o.Uint64(b[1:])
	case WallClock:
		r.Seconds = o.Uint64(b[1:])
		r.Micros = o.Uint32(b[9:])
	case CallArgument, BufferExtents:
		r.Value = o.Uint64(b[1:])
	case PID:
		r.Process = int32(o.Uint32(b[1:]))
	case CustomEvent, TypedEvent:
		return parseEvent(b, h, r)
	}
	return metadataSize, nil
}

// parseEvent reads a custom or typed event, the only records with a payload.
func parseEvent(b []byte, h *Header, r *Record) (int, error) {
	o := h.ByteOrder
	size := int32(o.Uint32(b[1:]))
	if size < 0 {
		return 0, fmt.Errorf("%v record: negative payload size %d", r.Kind, size)
	}
	switch {
	case r.Kind == TypedEvent:
		r.Delta = int64(int32(o.Uint32(b[5:])))
		r.Type = o.Uint16(b[9:])
	case h.Version >= 5:
		r.Delta = int64(int32(o.Uint32(b[5:])))
	default:
		r.TSC = o.Uint64(b[5:])
		if h.Version == 4 {
			r.CPU = o.Uint16(b[13:])
		}
	}
	n := metadataSize + int(size)
	if n > len(b) {
		return 0, &ShortRecordError{r.Kind, n, len(b)}
	}
	r.Data = b[metadataSize:n:n]
	return n, nil
}

// fdrMetadata splits the first byte of an FDR record. The C++ structs behind it
// are bit fields, which big-endian compilers fill from the top.
func fdrMetadata(b0 byte, o binary.ByteOrder) (kind uint8, meta bool) {
	if isBigEndian(o) {
		return b0 & 0x7f, b0&0x80 != 0
	}
	return b0 >> 1, b0&1 != 0
}

// fdrFunction splits the first word of an FDR function record.
func fdrFunction(word uint32, o binary.ByteOrder) (kind, id uint32) {
	if isBigEndian(o) {
		return word >> 28 & 7, word & 0x0fffffff
	}
	return word >> 1 & 7, word >> 4
}

func isBigEndian(o binary.ByteOrder) bool { return o == binary.ByteOrder(binary.BigEndian) }
