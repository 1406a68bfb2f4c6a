package cli

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// limited accepts this many bytes and then fails.
type limited struct {
	bytes.Buffer
	left int
}

var errLimit = errors.New("limit")

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errLimit
	}
	l.left -= len(p)
	return l.Buffer.Write(p)
}

func TestBehind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, behindSize - 1, behindSize, behindSize + 1, 10*behindSize + 7} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		w := &limited{left: size}
		b := newBehind(w)
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(2*behindLarge))
			if k, err := b.Write(rest[:n]); k != n || err != nil {
				t.Fatalf("write of %d bytes: got %d, error %v", n, k, err)
			}
			rest = rest[n:]
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(w.Bytes(), data) {
			t.Errorf("%d bytes arrived changed", size)
		}
	}
}

// An error is returned by a later write or by Close. It has no other effect.
func TestBehindError(t *testing.T) {
	for _, writes := range []int{1, 50} {
		b := newBehind(&limited{left: 100})
		var err error
		for range writes {
			if _, e := b.Write(make([]byte, 100_000)); e != nil {
				err = e
			}
		}
		if e := b.Close(); e != errLimit || writes == 50 && err != errLimit {
			t.Errorf("%d writes: got errors %v, %v", writes, err, e)
		}
	}
}
