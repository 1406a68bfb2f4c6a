package debuginfo

import (
	"fmt"
	"os"
	"sync"

	"github.com/xray-tools/xray/internal/fileio"
)

// UnpackLimitVariable is the environment variable that limits the memory of decompressed
// sections of the files of a trace, for example 8G.
const UnpackLimitVariable = "XRAY_UNPACK_LIMIT"

// The default limit is unpackBase bytes plus unpackRatio bytes for each byte of the files. Real
// debug information shrinks to a fifth at best.
const (
	unpackBase  = 128 << 20
	unpackRatio = 8
)

// UnpackLimit limits the memory of decompressed sections of files that are opened together. The
// zero value is ready to use. It is safe for concurrent use.
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

// share makes a file use a shared limit.
func (o *ELF) share(l *UnpackLimit) {
	l.add(o.size)
	o.limit = l
}

// check returns an error if size more bytes exceed the limit. hold counts them.
func (l *UnpackLimit) check(section string, size uint64, hold bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := unpackBase + unpackRatio*l.files
	if text := os.Getenv(UnpackLimitVariable); text != "" {
		n, ok := fileio.ParseSize(text)
		if !ok {
			return fmt.Errorf("%s=%s: must be a number of bytes, for example 8G", UnpackLimitVariable, text)
		}
		most = uint64(n)
	}
	if size > most || hold && l.held > most-size {
		return fmt.Errorf("section %s: unpacking %d bytes exceeds the limit of %d (%d in use): if you trust the file, set %s, for example to 8G",
			section, size, most, l.held, UnpackLimitVariable)
	}
	if hold {
		l.held += size
	}
	return nil
}
