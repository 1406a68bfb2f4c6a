package parquetfile

import (
	"encoding/binary"
	"errors"
)

// compactReader reads structures of Thrift's compact protocol. Unlike a general decoder, it
// takes memory only for what its caller asks for, whatever the bytes claim.
type compactReader struct {
	b   []byte
	err error // of the first failure; all reads return zero values after it
	// depth of structures that are skipped
	depth int
}

var errMetadata = errors.New("damaged metadata")

func (r *compactReader) fail() {
	if r.err == nil {
		r.err = errMetadata
	}
	r.b = nil
}

func (r *compactReader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}

func (r *compactReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// integer reads a zigzag integer.
func (r *compactReader) integer() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// bytes reads a string, which shares memory with the input.
func (r *compactReader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// The types of fields.
const (
	typeTrue = 1 + iota
	typeFalse
	typeByte
	typeI16
	typeI32
	typeI64
	typeDouble
	typeBinary
	typeList
	typeSet
	typeMap
	typeStruct
)

// structure reads a structure. field is called for each field and returns false if it did
// not read it.
func (r *compactReader) structure(field func(id int16, kind byte) bool) {
	id := int16(0)
	for r.err == nil {
		head := r.byte()
		kind := head & 15
		if kind == 0 {
			return
		}
		if delta := head >> 4; delta != 0 {
			id += int16(delta)
		} else {
			id = int16(r.integer())
		}
		if !field(id, kind) {
			r.skip(kind)
		}
	}
}

// list reads a list of a type. element is called for each element.
func (r *compactReader) list(kind byte, element func()) {
	head := r.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = r.uvarint()
	}
	if n > 0 && head&15 != kind || n > uint64(len(r.b)) {
		r.fail()
		return
	}
	for range n {
		if r.err != nil {
			return
		}
		element()
	}
}

// maxSkipDepth bounds how deep structures that are skipped may be.
const maxSkipDepth = 32

func (r *compactReader) skip(kind byte) {
	if r.depth++; r.depth > maxSkipDepth {
		r.fail()
	}
	defer func() { r.depth-- }()
	switch kind {
	case typeTrue, typeFalse:
	case typeByte:
		r.byte()
	case typeI16, typeI32, typeI64:
		r.uvarint()
	case typeDouble:
		if len(r.b) < 8 {
			r.fail()
			return
		}
		r.b = r.b[8:]
	case typeBinary:
		r.bytes()
	case typeList, typeSet:
		r.skipList()
	case typeMap:
		r.skipMap()
	case typeStruct:
		r.structure(func(int16, byte) bool { return false })
	default:
		r.fail()
	}
}

func (r *compactReader) skipList() {
	head := r.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = r.uvarint()
	}
	r.skipElements(n, head&15)
}

func (r *compactReader) skipMap() {
	n := r.uvarint()
	if n == 0 {
		return
	}
	kinds := r.byte()
	for ; n > 0 && r.err == nil; n-- {
		r.skipElements(1, kinds>>4)
		r.skipElements(1, kinds&15)
	}
}

func (r *compactReader) skipElements(n uint64, kind byte) {
	for ; n > 0 && r.err == nil; n-- {
		if kind == typeTrue || kind == typeFalse {
			r.byte() // outside of structures, they take a byte
			continue
		}
		r.skip(kind)
	}
}
