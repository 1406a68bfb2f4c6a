package cli

import (
	"io"
	"sync/atomic"
)

// behind writes to w on a goroutine of its own: while the system takes the last
// buffer, the next one is filled. Large pieces are not worth copying, and come
// from writers that have a goroutine for them: these are written at once.
type behind struct {
	w       io.Writer
	buf     []byte
	busy    bool // a buffer may be on its way
	full    chan []byte
	free    chan []byte
	done    chan struct{}
	failure atomic.Pointer[error] // the first error of w
}

// behindSize is the size of a buffer, and behindBuffers how many there are.
// Pieces of behindLarge bytes are large.
const (
	behindSize    = 256 << 10
	behindBuffers = 3
	behindLarge   = behindSize / 2
)

func newBehind(w io.Writer) *behind {
	b := &behind{w: w, full: make(chan []byte, behindBuffers), free: make(chan []byte, behindBuffers), done: make(chan struct{})}
	b.buf = make([]byte, 0, behindSize)
	for range behindBuffers - 1 {
		b.free <- nil // made when they are needed: most outputs are small
	}
	go b.run()
	return b
}

func (b *behind) run() {
	defer close(b.done)
	for buf := range b.full {
		if b.err() == nil {
			_, _ = b.write(buf) // the error is kept
		}
		b.free <- buf[:0]
	}
}

func (b *behind) write(p []byte) (int, error) {
	n, err := b.w.Write(p)
	if err != nil {
		b.failure.Store(&err)
	}
	return n, err
}

func (b *behind) err() error {
	if e := b.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// Write takes p. An error may be that of an earlier write.
func (b *behind) Write(p []byte) (int, error) {
	if len(p) >= behindLarge {
		b.drain()
		if err := b.err(); err != nil {
			return 0, err
		}
		return b.write(p)
	}
	n := len(p)
	for len(p) > 0 {
		k := copy(b.buf[len(b.buf):cap(b.buf)], p)
		b.buf, p = b.buf[:len(b.buf)+k], p[k:]
		if len(b.buf) == cap(b.buf) {
			b.full <- b.buf
			b.busy = true
			if b.buf = <-b.free; b.buf == nil {
				b.buf = make([]byte, 0, behindSize)
			}
			if err := b.err(); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

// drain waits until everything before has been written.
func (b *behind) drain() {
	if len(b.buf) == 0 && !b.busy {
		return
	}
	b.full <- b.buf
	b.busy = false
	var all [behindBuffers][]byte
	for i := range all {
		all[i] = <-b.free
	}
	// The last to come back is one that was in use.
	b.buf = all[behindBuffers-1]
	for _, buf := range all[:behindBuffers-1] {
		b.free <- buf
	}
}

// Close writes what is left, and waits until all is written.
func (b *behind) Close() error {
	b.full <- b.buf
	close(b.full)
	<-b.done
	return b.err()
}
