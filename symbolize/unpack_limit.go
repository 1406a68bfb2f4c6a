package symbolize

import (
	"fmt"
	"os"
	"sync"

	"github.com/xray-tools/xray/reader"
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

// unpackLimit is what the files that are opened together may unpack. Its methods may be
// called concurrently.
type unpackLimit struct {
	mu    sync.Mutex
	files uint64 // bytes of the files
	held  uint64 // bytes unpacked
}

func (l *unpackLimit) add(size int64) {
	l.mu.Lock()
	l.files += uint64(size)
	l.mu.Unlock()
}

// shareLimit has an object take part in a limit.
func (o *object) shareLimit(l *unpackLimit) {
	if l != nil {
		l.add(o.size)
		o.limit = l
	}
}

// check is an error if size bytes more are too many. hold counts them from then on.
func (l *unpackLimit) check(section string, size uint64, hold bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := unpackBase + unpackRatio*l.files
	if text := os.Getenv(UnpackLimitVariable); text != "" {
		n, ok := reader.ParseSize(text)
		if !ok {
			return fmt.Errorf("%s=%s: write a number of bytes, as in 8G", UnpackLimitVariable, text)
		}
		most = uint64(n)
	}
	if size > most || hold && l.held > most-size {
		return fmt.Errorf("section %s: %d bytes unpacked, and %d before, are more than %d: if you trust the file, set %s, as in 8G",
			section, size, l.held, most, UnpackLimitVariable)
	}
	if hold {
		l.held += size
	}
	return nil
}
