package reader

import (
	"fmt"
	"math"
	"os"

	"github.com/xray-tools/xray/internal/bytesize"
)

// SpoolLimitVariable is the environment variable that says how many bytes of a pipe or
// of a compressed file may go to a temporary file, as in 100G.
const SpoolLimitVariable = "XRAY_SPOOL_LIMIT"

// Bounds of what is spooled, unless the variable says another one. Real traces shrink to
// a twentieth at best when they are compressed.
const (
	spoolMost  = 16 << 30
	spoolLeast = 1 << 30 // may be spooled however small it was
	spoolRatio = 64      // beyond that
	spoolStep  = 1 << 20 // how often it is looked at
)

// spoolLimit bounds what a stream may take of the disk.
type spoolLimit struct {
	most  int64
	ratio int64 // to the compressed size; 0 for any
	free  int64 // half of what was free at first
}

// newSpoolLimit is the limit of a file that has size bytes.
func newSpoolLimit(f *os.File, size int64) (spoolLimit, error) {
	l := spoolLimit{most: spoolMost, ratio: spoolRatio, free: math.MaxInt64}
	if text := os.Getenv(SpoolLimitVariable); text != "" {
		n, ok := bytesize.Parse(text)
		if !ok {
			return l, fmt.Errorf("%s=%s: must be a number of bytes, for example 100G", SpoolLimitVariable, text)
		}
		l.most, l.ratio = n, 0
		return l, nil
	}
	if free, ok := freeSpace(f); ok {
		l.free = free / 2
	}
	return l, nil
}

// check is an error when a file of size bytes is too large. unpacked is how many
// compressed bytes they come from; negative if they were not compressed.
func (l spoolLimit) check(size, unpacked int64) error {
	const remedy = "unpack it yourself and pass the unpacked file, or set " + SpoolLimitVariable + ", for example to 100G"
	switch {
	case size > l.most:
		return fmt.Errorf("more than %d bytes: %s", l.most, remedy)
	case size > l.free:
		return fmt.Errorf("more than half of the free space there, which was %d bytes: set TMPDIR, %s", 2*l.free, remedy)
	case l.ratio > 0 && unpacked >= 0 && size > spoolLeast && size/l.ratio > unpacked:
		return fmt.Errorf("%d compressed bytes become more than %d, which no trace does: %s", unpacked, size, remedy)
	}
	return nil
}
