package convert

import (
	"encoding/binary"
	"strconv"
)

// counter appends numbers that are close to each other, for example timestamps of a trace.
// It caches all digits but the last eight, because they rarely change.
type counter struct {
	high   uint64 // the number without its last eight digits; 0 has no digits
	digits []byte // of high
}

const lowRange = 100_000_000

func (c *counter) append(dst []byte, v uint64) []byte {
	high := v / lowRange
	if high == 0 {
		return strconv.AppendUint(dst, v, 10)
	}
	if high != c.high {
		c.high, c.digits = high, strconv.AppendUint(c.digits[:0], high, 10)
	}
	low := uint32(v - high*lowRange)
	dst = append(dst, c.digits...)
	return appendEightDigits(dst, low)
}

// appendEightDigits appends v < 1e8 with leading zeros. It computes the eight digits in parallel in
// one word: it splits the number into two parts of four digits, then four of two, then eight of one.
func appendEightDigits(dst []byte, v uint32) []byte {
	x := uint64(v/10_000) | uint64(v%10_000)<<32
	// 10486>>20 is 1/100 for numbers of four digits, 103>>10 1/10 for two.
	q := x * 10486 >> 20 & 0x0000007F_0000007F
	x = q | (x-100*q)<<16
	q = x * 103 >> 10 & 0x000F000F_000F000F
	x = q | (x-10*q)<<8
	return binary.LittleEndian.AppendUint64(dst, x|0x30303030_30303030)
}

// appendSigned is append for numbers that may be negative.
func (c *counter) appendSigned(dst []byte, v int64) []byte {
	if v < 0 {
		return strconv.AppendInt(dst, v, 10)
	}
	return c.append(dst, uint64(v))
}
