package reader

import (
	"encoding/binary"
	"slices"
)

// RecordSpec is the layout of the records of a kind, and its names. [ParseRecord] uses it
// to read, package tracewrite to write, and the text forms to name records. A test compares
// docs/dev/format.md with it.
type RecordSpec struct {
	Kind RecordKind
	Name string // as LLVM spells it
	// Word begins the line of a record in the text form. It is "" for function records,
	// which have one word for each [Kind].
	Word string
	Type Type
	// Size is the number of bytes before the payload.
	Size int
	// First and Last are the versions of the format that have such records, or 0 for all.
	First, Last uint16
	// Fields are in the order of the text form.
	Fields []RecordField

	// The following fields are by version.
	unused      [lastVersion + 1][]Span
	little, big [lastVersion + 1][]fieldLoad
}

// lastVersion is the newest version of all formats.
const lastVersion = 5

// RecordField is the position of a number in a record. Bytes count from the record's start.
type RecordField struct {
	ID           FieldID
	Offset, Size int
	Signed       bool
	// Bits and Shift are for bit fields. Big-endian compilers fill the first bit field from
	// the top. Bits is 0 for other fields.
	Bits, Shift int
	// First and Last are the versions of the format that have the field, or 0 for all.
	First, Last uint16
	// Key names the field in the text form. A field without a key is identified by its
	// position.
	Key string
	// Fixed is the value of a [FieldRecordType].
	Fixed uint64
	// Doc describes the field if its [FieldID] does not.
	Doc string
}

// String is the name of the field in documentation and messages.
func (f *RecordField) String() string {
	if f.Doc != "" {
		return f.Doc
	}
	return fieldNames[f.ID]
}

// FieldID is a field of a [Record], or only of its bytes.
type FieldID uint8

// The fields of records.
const (
	FieldRecordType  FieldID = iota // distinguishes records of basic logs
	FieldPayloadSize                // len(Record.Data)
	FieldFuncKind
	FieldFunc
	FieldCPU
	FieldType
	FieldThread
	FieldProcess
	FieldDelta
	FieldTSC
	FieldSeconds
	FieldMicros
	FieldValue
)

var fieldNames = [...]string{
	FieldRecordType:  "record type",
	FieldPayloadSize: "payload size",
	FieldFuncKind:    "kind",
	FieldFunc:        "function ID",
	FieldCPU:         "CPU",
	FieldType:        "type",
	FieldThread:      "thread ID",
	FieldProcess:     "process ID",
	FieldDelta:       "ticks since the previous record",
	FieldTSC:         "TSC",
	FieldSeconds:     "seconds",
	FieldMicros:      "microseconds",
	FieldValue:       "value",
}

// recordSpecs are by kind. [Damage] has none.
var recordSpecs = [Damage]RecordSpec{
	NewBuffer: {Name: "NewBuffer", Word: "new-buffer", Type: FDR, Size: metadataSize, Fields: []RecordField{
		{ID: FieldThread, Offset: 1, Size: 4, Signed: true},
	}},
	EndOfBuffer: {Name: "EndOfBuffer", Word: "end-of-buffer", Type: FDR, Size: metadataSize, Last: 1},
	NewCPUID: {Name: "NewCPUId", Word: "cpu", Type: FDR, Size: metadataSize, Fields: []RecordField{
		{ID: FieldCPU, Offset: 1, Size: 2},
		{ID: FieldTSC, Offset: 3, Size: 8, Key: "tsc"},
	}},
	TSCWrap: {Name: "TSCWrap", Word: "tsc-wrap", Type: FDR, Size: metadataSize, Fields: []RecordField{
		{ID: FieldTSC, Offset: 1, Size: 8},
	}},
	WallClock: {Name: "WallClock", Word: "wall-clock", Type: FDR, Size: metadataSize, Fields: []RecordField{
		{ID: FieldSeconds, Offset: 1, Size: 8},
		{ID: FieldMicros, Offset: 9, Size: 4, Key: "micros"},
	}},
	CustomEvent: {Name: "CustomEvent", Word: "custom", Type: FDR, Size: metadataSize, Fields: []RecordField{
		{ID: FieldPayloadSize, Offset: 1, Size: 4},
		{ID: FieldTSC, Offset: 5, Size: 8, Last: 4, Key: "tsc"},
		{ID: FieldCPU, Offset: 13, Size: 2, First: 4, Last: 4, Key: "cpu"},
		{ID: FieldDelta, Offset: 5, Size: 4, Signed: true, First: 5},
	}},
	CallArgument: {Name: "CallArgument", Word: "arg", Type: FDR, Size: metadataSize, Fields: []RecordField{
		{ID: FieldValue, Offset: 1, Size: 8},
	}},
	BufferExtents: {Name: "BufferExtents", Word: "extents", Type: FDR, Size: metadataSize, First: 2, Fields: []RecordField{
		{ID: FieldValue, Offset: 1, Size: 8, Doc: "bytes of the block that follow"},
	}},
	TypedEvent: {Name: "TypedEvent", Word: "typed", Type: FDR, Size: metadataSize, Fields: []RecordField{
		{ID: FieldType, Offset: 9, Size: 2},
		{ID: FieldPayloadSize, Offset: 1, Size: 4},
		{ID: FieldDelta, Offset: 5, Size: 4, Signed: true},
	}},
	PID: {Name: "PID", Word: "pid", Type: FDR, Size: metadataSize, First: 3, Fields: []RecordField{
		{ID: FieldProcess, Offset: 1, Size: 4, Signed: true},
	}},
	Function: {Name: "Function", Type: FDR, Size: functionSize, Fields: []RecordField{
		{ID: FieldFuncKind, Size: 4, Bits: 3, Shift: 1},
		{ID: FieldFunc, Size: 4, Bits: 28, Shift: 4},
		{ID: FieldDelta, Offset: 4, Size: 4},
	}},
	BasicFunction: {Name: "Function", Type: Basic, Size: basicRecordSize, Fields: []RecordField{
		{ID: FieldRecordType, Size: 2, Fixed: 0},
		{ID: FieldFuncKind, Offset: 3, Size: 1},
		{ID: FieldFunc, Offset: 4, Size: 4, Signed: true},
		{ID: FieldTSC, Offset: 8, Size: 8, Key: "tsc"},
		{ID: FieldThread, Offset: 16, Size: 4, Signed: true, Key: "tid"},
		{ID: FieldProcess, Offset: 20, Size: 4, Signed: true, First: 3, Key: "pid"},
		{ID: FieldCPU, Offset: 2, Size: 1, Key: "cpu"},
	}},
	BasicArgument: {Name: "Argument", Word: "arg", Type: Basic, Size: basicRecordSize, Fields: []RecordField{
		{ID: FieldRecordType, Size: 2, Fixed: 1},
		{ID: FieldFunc, Offset: 4, Size: 4, Signed: true},
		{ID: FieldValue, Offset: 16, Size: 8},
		{ID: FieldThread, Offset: 8, Size: 4, Signed: true, Key: "tid"},
		{ID: FieldProcess, Offset: 12, Size: 4, Signed: true, First: 3, Key: "pid"},
	}},
}

func init() {
	for k := range recordSpecs {
		s := &recordSpecs[k]
		s.Kind = RecordKind(k)
		for version := range s.unused {
			s.unused[version] = s.unusedIn(uint16(version))
			s.little[version] = s.loadsIn(uint16(version), true)
			s.big[version] = s.loadsIn(uint16(version), false)
		}
	}
}

// Spec returns the layout of the records of a kind, or nil for [Damage] and for numbers
// that are not a kind. It must not be changed.
func (k RecordKind) Spec() *RecordSpec {
	if int(k) >= len(recordSpecs) {
		return nil
	}
	return &recordSpecs[k]
}

// In reports whether records of a version of the format have the field.
func (f *RecordField) In(version uint16) bool {
	return version >= f.First && (f.Last == 0 || version <= f.Last)
}

// shift is the distance of the bit field from the lowest bit.
func (f *RecordField) shift(little bool) int {
	if little || f.Bits == 0 {
		return f.Shift
	}
	return 8*f.Size - f.Shift - f.Bits
}

// Put writes v to the field in the bytes of a record, truncated to its width. It does not
// change other bit fields.
func (f *RecordField) Put(b []byte, o binary.ByteOrder, v uint64) {
	b = b[f.Offset:]
	if f.Bits != 0 {
		v = v & (1<<f.Bits - 1) << f.shift(!isBigEndian(o))
		switch f.Size {
		case 4:
			v |= uint64(o.Uint32(b))
		default:
			v |= uint64(b[0])
		}
	}
	switch f.Size {
	case 8:
		o.PutUint64(b, v)
	case 4:
		o.PutUint32(b, uint32(v))
	case 2:
		o.PutUint16(b, uint16(v))
	default:
		b[0] = byte(v)
	}
}

// fieldLoad reads a field from 8 bytes of a record, as a number of the record's byte order.
type fieldLoad struct {
	id    FieldID
	at    uint8 // position in the 8 bytes
	shift uint8
	mask  uint64
}

// signedDelta is a [FieldDelta] of 4 bytes that may be negative.
const signedDelta = FieldValue + 1

// loadsIn returns how to read the fields of records of a version in a byte order.
func (s *RecordSpec) loadsIn(version uint16, little bool) []fieldLoad {
	var list []fieldLoad
	for i := range s.Fields {
		f := &s.Fields[i]
		if !f.In(version) || f.ID == FieldRecordType || f.ID == FieldPayloadSize {
			continue
		}
		at := min(f.Offset, s.Size-8)
		shift := 8 * (f.Offset - at)
		if !little {
			shift = 8 * (8 - f.Size - (f.Offset - at))
		}
		bits := f.Bits
		if bits == 0 {
			bits = 8 * f.Size
		}
		l := fieldLoad{f.ID, uint8(at), uint8(shift + f.shift(little)), ^uint64(0) >> (64 - bits)}
		if f.ID == FieldDelta && f.Signed {
			l.id = signedDelta
		}
		list = append(list, l)
	}
	return list
}

// parse reads the fields of a complete record.
func (s *RecordSpec) parse(b []byte, h *Header, r *Record) {
	version := min(h.Version, lastVersion)
	if isBigEndian(h.ByteOrder) {
		r.load(s.big[version], b, false)
	} else {
		r.load(s.little[version], b, true)
	}
}

// load reads fields from the bytes of a record.
func (r *Record) load(list []fieldLoad, b []byte, little bool) {
	for i := range list {
		l := &list[i]
		var v uint64
		if little {
			v = binary.LittleEndian.Uint64(b[l.at:])
		} else {
			v = binary.BigEndian.Uint64(b[l.at:])
		}
		v = v >> (l.shift & 63) & l.mask
		switch l.id {
		case FieldFuncKind:
			r.FuncKind = Kind(v)
		case FieldFunc:
			r.Func = FuncID(v)
		case FieldCPU:
			r.CPU = uint16(v)
		case FieldType:
			r.Type = uint16(v)
		case FieldThread:
			r.Thread = int32(v)
		case FieldProcess:
			r.Process = int32(v)
		case FieldDelta:
			r.Delta = int64(v)
		case FieldTSC:
			r.TSC = v
		case FieldSeconds:
			r.Seconds = v
		case FieldMicros:
			r.Micros = uint32(v)
		case FieldValue:
			r.Value = v
		case signedDelta:
			r.Delta = int64(int32(v))
		}
	}
}

// SetField sets a number of the record, truncated to its width. It has no effect on fields
// that are only in the bytes.
func (r *Record) SetField(id FieldID, v uint64) {
	r.load([]fieldLoad{{id: id, mask: ^uint64(0)}}, binary.LittleEndian.AppendUint64(nil, v), true)
}

// Field returns a number of the record. Negative ones have all upper bits set.
func (r *Record) Field(f *RecordField) uint64 {
	switch f.ID {
	case FieldRecordType:
		return f.Fixed
	case FieldPayloadSize:
		return uint64(len(r.Data))
	case FieldFuncKind:
		return uint64(r.FuncKind)
	case FieldFunc:
		return uint64(r.Func)
	case FieldCPU:
		return uint64(r.CPU)
	case FieldType:
		return uint64(r.Type)
	case FieldThread:
		return uint64(r.Thread)
	case FieldProcess:
		return uint64(r.Process)
	case FieldDelta:
		return uint64(r.Delta)
	case FieldTSC:
		return r.TSC
	case FieldSeconds:
		return r.Seconds
	case FieldMicros:
		return uint64(r.Micros)
	case FieldValue:
		return r.Value
	}
	return 0
}

// Span is the range of bytes of a record from From to To, excluding To.
type Span struct{ From, To int }

// Unused returns the bytes before the payload, counted from the record's start, to which a
// version of the format gives no meaning. Recorders leave garbage there. The list must not
// be changed.
func (s *RecordSpec) Unused(version uint16) []Span { return s.unused[min(version, lastVersion)] }

func (s *RecordSpec) unusedIn(version uint16) []Span {
	var used []Span
	if s.Metadata() {
		used = append(used, Span{0, 1}) // the kind
	}
	for i := range s.Fields {
		if f := &s.Fields[i]; f.In(version) {
			used = append(used, Span{f.Offset, f.Offset + f.Size})
		}
	}
	slices.SortFunc(used, func(a, b Span) int { return a.From - b.From })
	var unused []Span
	at := 0
	for _, u := range append(used, Span{s.Size, s.Size}) {
		if u.From > at {
			unused = append(unused, Span{at, u.From})
		}
		at = max(at, u.To)
	}
	return unused
}

// Metadata reports whether the records are metadata of FDR logs, whose first byte is
// [MetadataByte].
func (s *RecordSpec) Metadata() bool { return s.Type == FDR && s.Kind != Function }
