package cli

import (
	"io"
	"sync/atomic"
)

// behind writes to w on a goroutine of its own, so that one buffer is filled while the system
// takes the previous one. It writes large pieces directly: copying them does not pay off, and
// they come from writers that have their own goroutine.
type behind struct {
	w       io.Writer
	buf     []byte
	busy    bool // a buffer may be on its way
	full    chan []byte
	free    chan []byte
	done    chan struct{}
	failure atomic.Pointer[error] // the first error of w
}

// behindSize is the size of a buffer, and behindBuffers the number of buffers. Pieces of
// behindLarge bytes and more are large.
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

// Write implements io.Writer. An error may be that of an earlier write.
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

// drain waits until everything so far has been written.
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
	// The buffer that comes back last was in use.
	b.buf = all[behindBuffers-1]
	for _, buf := range all[:behindBuffers-1] {
		b.free <- buf
	}
}

// Close writes the rest, and waits until everything has been written.
func (b *behind) Close() error {
	b.full <- b.buf
	close(b.full)
	<-b.done
	return b.err()
}
