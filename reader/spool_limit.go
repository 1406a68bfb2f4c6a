package reader

import (
	"fmt"
	"math"
	"os"

	"github.com/xray-tools/xray/internal/fileio"
)

// SpoolLimitVariable is the environment variable for the maximum number of bytes of a pipe
// or of a compressed file that may go to a temporary file, for example 100G.
const SpoolLimitVariable = "XRAY_SPOOL_LIMIT"

// Limits of spooled data, unless the variable sets another one. Real traces compress to a
// twentieth at best.
const (
	spoolMost  = 16 << 30
	spoolLeast = 1 << 30 // allowed for any compressed size
	spoolRatio = 64      // limit above that
	spoolStep  = 1 << 20 // interval of the checks
)

// spoolLimit limits the disk space that a stream may take.
type spoolLimit struct {
	most  int64
	ratio int64 // to the compressed size; 0 for no limit
	free  int64 // half of what was free at the start
}

// newSpoolLimit returns the limit for a file that has size bytes.
func newSpoolLimit(f *os.File, size int64) (spoolLimit, error) {
	l := spoolLimit{most: spoolMost, ratio: spoolRatio, free: math.MaxInt64}
	if text := os.Getenv(SpoolLimitVariable); text != "" {
		n, ok := fileio.ParseSize(text)
		if !ok {
			return l, fmt.Errorf("%s=%s: must be a number of bytes, for example 100G", SpoolLimitVariable, text)
		}
		l.most, l.ratio = n, 0
		return l, nil
	}
	if free, ok := fileio.FreeSpace(f); ok {
		l.free = free / 2
	}
	return l, nil
}

// check returns an error if a file of size bytes is too large. unpacked is the number of
// compressed bytes that it came from, or negative if they were not compressed.
func (l spoolLimit) check(size, unpacked int64) error {
	const remedy = "unpack it yourself and pass the unpacked file, or set " + SpoolLimitVariable + ", for example to 100G"
	switch {
	case size > l.most:
		return fmt.Errorf("more than %d bytes: %s", l.most, remedy)
	case size > l.free:
		return fmt.Errorf("more than half of the free space there, which was %d bytes: set TMPDIR, %s", 2*l.free, remedy)
	case l.ratio > 0 && unpacked >= 0 && size > spoolLeast && size/l.ratio > unpacked:
		return fmt.Errorf("%d compressed bytes expand to more than %d, which no trace does: %s", unpacked, size, remedy)
	}
	return nil
}
