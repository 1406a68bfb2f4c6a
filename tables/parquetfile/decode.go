package parquetfile

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// The decoders take the number of values, and never more memory than that many need.

var le = binary.LittleEndian

// prefixed splits off bytes that have their length before them.
func prefixed(b []byte) (first, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := uint64(le.Uint32(b))
	if b = b[4:]; n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// decodeLevels decodes n levels of at most most, which must fit into 8 bits.
func decodeLevels(dst, b []byte, most, n int) ([]byte, bool) {
	width := 0
	for most>>width != 0 {
		width++
	}
	if width > 8 {
		return dst, false
	}
	left := n
	for left > 0 {
		head, size := binary.Uvarint(b)
		if size <= 0 {
			return dst, false
		}
		b = b[size:]
		if head&1 == 0 {
			if len(b) == 0 || head>>1 == 0 || int(b[0]) > most {
				return dst, false
			}
			run := int(min(head>>1, uint64(left)))
			for range run {
				dst = append(dst, b[0])
			}
			b, left = b[1:], left-run
			continue
		}
		bytes := (head >> 1) * uint64(width)
		if head>>1 == 0 || head>>1 > 1<<28 {
			return dst, false
		}
		packed := b[:min(bytes, uint64(len(b)))]
		run := int(min(head>>1*8, uint64(left), uint64(len(packed))*8/uint64(width)))
		if run == 0 {
			return dst, false
		}
		if width == 1 {
			dst = unpackBits(dst, packed, run)
			b, left = b[len(packed):], left-run
			continue
		}
		for i := range run {
			bit := i * width
			v := uint16(packed[bit/8]) >> (bit % 8)
			if at := bit/8 + 1; at < len(packed) {
				v |= uint16(packed[at]) << (8 - bit%8)
			}
			level := byte(v & (1<<width - 1))
			if int(level) > most {
				return dst, false
			}
			dst = append(dst, level)
		}
		b, left = b[len(packed):], left-run
	}
	return dst, true
}

// countOnes returns how many of n levels of one bit are 1.
func countOnes(b []byte, n int) (ones int, ok bool) {
	for left := n; left > 0; {
		head, size := binary.Uvarint(b)
		if size <= 0 || head>>1 == 0 || head>>1 > 1<<28 && head&1 == 1 || len(b) == size {
			return 0, false
		}
		b = b[size:]
		if head&1 == 0 {
			if b[0] > 1 {
				return 0, false
			}
			run := int(min(head>>1, uint64(left)))
			ones += run * int(b[0])
			b, left = b[1:], left-run
			continue
		}
		packed := b[:min(head>>1, uint64(len(b)))]
		b = b[len(packed):]
		run := min(left, len(packed)*8)
		left -= run
		for ; run >= 64; run, packed = run-64, packed[8:] {
			ones += bits.OnesCount64(le.Uint64(packed))
		}
		for ; run > 0; run, packed = run-8, packed[1:] {
			ones += bits.OnesCount8(packed[0] & byte(1<<min(run, 8)-1))
		}
	}
	return ones, true
}

// spread has the bits of each byte as the bytes of a number.
var spread = sync.OnceValue(func() *[256]uint64 {
	var t [256]uint64
	for b := range t {
		for i := range 8 {
			t[b] |= uint64(b>>i&1) << (8 * i)
		}
	}
	return &t
})

// unpackBits decodes n levels of one bit. b must have them.
func unpackBits(dst, b []byte, n int) []byte {
	table := spread()
	for ; n >= 8; n, b = n-8, b[1:] {
		dst = le.AppendUint64(dst, table[b[0]])
	}
	for i := range n {
		dst = append(dst, b[0]>>i&1)
	}
	return dst
}

// decodeRuns decodes n integers of up to 32 bits.
func decodeRuns(dst []uint32, b []byte, width, n int) ([]uint32, bool) {
	left := n
	for left > 0 {
		head, size := binary.Uvarint(b)
		if size <= 0 || head>>1 == 0 {
			return dst, false
		}
		b = b[size:]
		if head&1 == 0 {
			bytes := (width + 7) / 8
			if len(b) < bytes {
				return dst, false
			}
			var v uint32
			for i := range bytes {
				v |= uint32(b[i]) << (8 * i)
			}
			run := int(min(head>>1, uint64(left)))
			for range run {
				dst = append(dst, v)
			}
			b, left = b[bytes:], left-run
			continue
		}
		if head>>1 > 1<<28 {
			return dst, false
		}
		run := int(min(head>>1*8, uint64(left)))
		packed := b[:min(head>>1*uint64(width), uint64(len(b)))]
		if uint64(run)*uint64(width) > uint64(len(packed))*8 {
			return dst, false
		}
		dst = unpack(dst, packed, width, run)
		b, left = b[len(packed):], left-run
	}
	return dst, true
}

// gatherBytes decodes n indices of whole bytes, as File writes them, to the values that they
// refer to. It returns false if the indices are others.
func gatherBytes(dst, values []int64, b []byte, n int) ([]int64, bool) {
	head, size := binary.Uvarint(b[1:])
	if size <= 0 || head&1 == 0 || head>>1 > 1<<28 || len(values) == 0 || b[0] != 8 && b[0] != 16 {
		return dst, false
	}
	width := int(b[0]) / 8
	b = b[1+size:]
	if int(head>>1)*8 < n || len(b) < n*width {
		return dst, false
	}
	start := len(dst)
	if width == 1 {
		for _, i := range b[:n] {
			if int(i) >= len(values) {
				return dst[:start], false
			}
			dst = append(dst, values[i])
		}
		return dst, true
	}
	for ; n > 0; n-- {
		i := int(le.Uint16(b))
		if b = b[2:]; i >= len(values) {
			return dst[:start], false
		}
		dst = append(dst, values[i])
	}
	return dst, true
}

// unpack decodes n integers of width bits. b must have them.
func unpack(dst []uint32, b []byte, width, n int) []uint32 {
	switch width {
	case 8:
		for _, v := range b[:n] {
			dst = append(dst, uint32(v))
		}
		return dst
	case 16:
		for i := range n {
			dst = append(dst, uint32(le.Uint16(b[2*i:])))
		}
		return dst
	}
	for i := range n {
		dst = append(dst, uint32(bitsAt(b, i*width, width)))
	}
	return dst
}

// bitsAt returns up to 64 bits at a position, which b must have.
func bitsAt(b []byte, bit, width int) uint64 {
	if width == 0 {
		return 0
	}
	at, shift := bit/8, bit%8
	if at+16 <= len(b) {
		lo := le.Uint64(b[at:]) >> shift
		if shift+width > 64 {
			lo |= uint64(b[at+8]) << (64 - shift)
		}
		if width == 64 {
			return lo
		}
		return lo & (1<<width - 1)
	}
	var v uint64
	for i := range (shift + width + 7) / 8 {
		part := uint64(b[at+i])
		if i == 0 {
			v = part >> shift
		} else {
			v |= part << (8*i - shift)
		}
	}
	if width == 64 {
		return v
	}
	return v & (1<<width - 1)
}

// maxDeltaBlock bounds the values of a block of differences.
const maxDeltaBlock = 1 << 16

// decodeDelta decodes n integers by their differences, and returns the bytes after them.
func decodeDelta(dst []int64, b []byte, n int) ([]int64, []byte, error) {
	var head [4]uint64 // size of a block, parts of a block, values, first value
	for i := range head {
		v, size := binary.Uvarint(b)
		if size <= 0 {
			return dst, nil, errPage
		}
		head[i], b = v, b[size:]
	}
	block, parts, total := head[0], head[1], head[2]
	if total != uint64(n) || block == 0 || block > maxDeltaBlock || parts == 0 || block%parts != 0 || block/parts%8 != 0 {
		return dst, nil, errPage
	}
	if n == 0 {
		return dst, b, nil
	}
	last := int64(head[3]>>1) ^ -int64(head[3]&1)
	dst = append(dst, last)
	part := int(block / parts)
	for left := n - 1; left > 0; {
		least, size := binary.Uvarint(b)
		if size <= 0 || uint64(len(b)-size) < parts {
			return dst, nil, errPage
		}
		delta := int64(least>>1) ^ -int64(least&1)
		widths := b[size : size+int(parts)]
		b = b[size+int(parts):]
		for _, width := range widths {
			if left == 0 {
				break // parts without values take no bytes
			}
			run := min(part, left)
			if width > 64 || len(b) < (run*int(width)+7)/8 {
				return dst, nil, errPage
			}
			dst, last = appendDeltas(dst, b, last, delta, int(width), run)
			b, left = b[min(part*int(width)/8, len(b)):], left-run
		}
	}
	return dst, b, nil
}

// appendDeltas decodes a part of a block.
func appendDeltas(dst []int64, b []byte, last, delta int64, width, n int) ([]int64, int64) {
	if width == 0 {
		for range n {
			last += delta
			dst = append(dst, last)
		}
		return dst, last
	}
	for i := range n {
		last += delta + int64(bitsAt(b, i*width, width))
		dst = append(dst, last)
	}
	return dst, last
}

// decodeDeltaTexts decodes n strings by the lengths that they share with the ones before,
// if any, and what follows.
func decodeDeltaTexts(dst [][]byte, b []byte, n int, shared bool) ([][]byte, error) {
	var prefixes, lengths []int64
	var err error
	if shared {
		if prefixes, b, err = decodeDelta(nil, b, n); err != nil {
			return dst, err
		}
	}
	if lengths, b, err = decodeDelta(nil, b, n); err != nil {
		return dst, err
	}
	var last []byte
	total := 0
	for i, length := range lengths {
		if length < 0 || length > int64(len(b)) {
			return dst, errPage
		}
		text := b[:length]
		b = b[length:]
		if shared && prefixes[i] != 0 {
			if prefixes[i] < 0 || prefixes[i] > int64(len(last)) {
				return dst, errPage
			}
			whole := make([]byte, 0, int(prefixes[i])+len(text))
			text = append(append(whole, last[:prefixes[i]]...), text...)
		}
		if total += len(text); total > maxPageTexts {
			return dst, errPage
		}
		dst, last = append(dst, text), text
	}
	return dst, nil
}

// maxPageTexts bounds the length of all strings of a page that share prefixes.
const maxPageTexts = 256 << 20
