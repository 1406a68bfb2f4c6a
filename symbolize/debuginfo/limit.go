package debuginfo

import (
	"fmt"
	"os"
	"sync"

	"github.com/xray-tools/xray/internal/bytesize"
)

// UnpackLimitVariable is the environment variable that says how many bytes the
// compressed sections of the files of a trace may take unpacked, as in 8G.
const UnpackLimitVariable = "XRAY_UNPACK_LIMIT"

// What compressed sections may take, unless the variable says something else: unpackBase
// bytes, and unpackRatio bytes for each byte of the files. Real debug information
// shrinks to a fifth at best.
const (
	unpackBase  = 128 << 20
	unpackRatio = 8
)

// UnpackLimit bounds the memory that compressed sections of files that are opened together
// may take unpacked. The zero value is ready for use, also concurrent.
type UnpackLimit struct {
	mu    sync.Mutex
	files uint64 // bytes of the files
	held  uint64 // bytes unpacked
}

func (l *UnpackLimit) add(size int64) {
	l.mu.Lock()
	l.files += uint64(size)
	l.mu.Unlock()
}

// share has a file take part in a limit of others.
func (o *ELF) share(l *UnpackLimit) {
	l.add(o.size)
	o.limit = l
}

// check is an error if size bytes more are too many. hold counts them from then on.
func (l *UnpackLimit) check(section string, size uint64, hold bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := unpackBase + unpackRatio*l.files
	if text := os.Getenv(UnpackLimitVariable); text != "" {
		n, ok := bytesize.Parse(text)
		if !ok {
			return fmt.Errorf("%s=%s: must be a number of bytes, for example 8G", UnpackLimitVariable, text)
		}
		most = uint64(n)
	}
	if size > most || hold && l.held > most-size {
		return fmt.Errorf("section %s: unpacking %d bytes, and %d before, exceeds the limit of %d: if you trust the file, set %s, for example to 8G",
			section, size, l.held, most, UnpackLimitVariable)
	}
	if hold {
		l.held += size
	}
	return nil
}
