package convert

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// appendNumber appends a number field, unless it is 0, the default.
func appendNumber(dst []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return appendPresent(dst, field, v)
}

// appendPresent appends a number field, even if it is 0.
func appendPresent(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

// appendBytes appends a field that is a string, a message or packed numbers.
func appendBytes[B string | []byte](dst []byte, field protowire.Number, b B) []byte {
	dst = protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(len(b)))
	return append(dst, b...)
}

// appendText appends a string field. Protocol buffers allow only UTF-8.
func appendText(dst []byte, field protowire.Number, s string) []byte {
	return appendBytes(dst, field, validText(s))
}

func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
