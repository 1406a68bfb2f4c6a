package fileio

import (
	"math"
	"strconv"
	"strings"
)

// ParseSize parses a number of bytes with an optional suffix K, M, G or T for powers of 1024. It
// returns false for other text, and for sizes of more than 63 bits.
func ParseSize(text string) (int64, bool) {
	digits := strings.TrimRight(text, "KMGTkmgt")
	shift := 0
	switch suffix := strings.ToUpper(text[len(digits):]); suffix {
	case "":
	case "K", "M", "G", "T":
		shift = 10 * (1 + strings.Index("KMGT", suffix))
	default:
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n << shift, err == nil && n >= 0 && n <= math.MaxInt64>>shift
}
