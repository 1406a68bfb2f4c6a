package reader

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// input is the uncompressed bytes of a trace. ReadAt may be called concurrently.
type input struct {
	io.ReaderAt
	size  int64
	close func() error
	// damage is why a compressed or piped stream ended before its end.
	damage error
}

// spoolMemory is how much of compressed or piped input is kept in memory before
// it goes to a temporary file.
const spoolMemory = 16 << 20

// maxZstdWindow bounds what a zstd stream can make its decoder allocate. It is
// the largest window that `zstd --long` chooses by itself.
const maxZstdWindow = 128 << 20

// openInput opens path, or standard input for "-". Traces are read at random
// (FDR blocks of a thread lie apart) and more than once, so pipes are spooled;
// so is what gzip and zstd unpack.
func openInput(path string, stdin io.Reader) (*input, error) {
	if path == "-" {
		return newInput(path, stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	in, err := newInput(path, f)
	if err != nil || in.ReaderAt != io.ReaderAt(f) {
		return in, errors.Join(err, f.Close())
	}
	in.close = f.Close
	return in, nil
}

func newInput(name string, r io.Reader) (*input, error) {
	if f, ok := r.(*os.File); ok {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if st.IsDir() {
			return nil, fmt.Errorf("%s: is a directory", name)
		}
		var magic [4]byte
		if n, _ := f.ReadAt(magic[:], 0); st.Mode().IsRegular() && compression(magic[:n]) == nil {
			return &input{ReaderAt: f, size: st.Size(), close: func() error { return nil }}, nil
		}
	}
	br := bufio.NewReaderSize(r, 1<<16)
	magic, _ := br.Peek(4)
	r = br
	if open := compression(magic); open != nil {
		d, err := open(br)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		defer d.Close()
		r = d
	}
	in, err := spool(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return in, nil
}

// compression picks the decompressor by the first bytes of a file; nil for none.
func compression(magic []byte) func(io.Reader) (io.ReadCloser, error) {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxZstdWindow))
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}
	}
	return nil
}

// spool copies r to memory, and to a temporary file where it is large. A stream
// that ends early or breaks inside is kept as far as it goes: the records
// before the damage are worth having, and the cut shows as a truncated file.
func spool(r io.Reader) (*input, error) {
	var head bytes.Buffer
	_, err := io.CopyN(&head, r, spoolMemory)
	if err != nil {
		if err != io.EOF && head.Len() == 0 {
			return nil, err
		}
		b := head.Bytes()
		in := &input{
			ReaderAt: bytes.NewReader(b), size: int64(len(b)),
			close: func() error { return nil },
		}
		if err != io.EOF {
			in.damage = err
		}
		return in, nil
	}
	f, err := os.CreateTemp("", "xray-spool-")
	if err != nil {
		return nil, err
	}
	// Where the system allows it, the name goes at once, so that nothing is
	// left behind however the program ends.
	unlinked := os.Remove(f.Name()) == nil
	closeSpool := func() error {
		err := f.Close()
		if !unlinked {
			err = errors.Join(err, os.Remove(f.Name()))
		}
		return err
	}
	size := int64(head.Len())
	if _, err := head.WriteTo(f); err != nil {
		return nil, errors.Join(err, closeSpool())
	}
	src := &readErrors{r: r}
	n, err := io.Copy(f, src)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("spooling to %s: %w", os.TempDir(), err), closeSpool())
	}
	return &input{ReaderAt: f, size: size + n, close: closeSpool, damage: src.err}, nil
}

// readErrors keeps errors of r apart and turns them into the end of the stream,
// so that those of writing stand out in io.Copy.
type readErrors struct {
	r   io.Reader
	err error
}

func (e *readErrors) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && err != io.EOF {
		e.err, err = err, io.EOF
	}
	return n, err
}
