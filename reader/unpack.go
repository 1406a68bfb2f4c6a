package reader

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow limits what a zstd stream can make its decoder allocate. It is the largest
// window that `zstd --long` chooses by itself.
const maxZstdWindow = 128 << 20

// packing is a compression format.
type packing struct {
	name string
	open func(*bufio.Reader) (io.ReadCloser, error)
}

// packingOf returns the compression of a file by its first bytes, or nil for none.
func packingOf(magic []byte) *packing {
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		return &packing{"gzip", newGzipMembers}
	case bytes.HasPrefix(magic, zstdMagic), len(magic) >= 4 && bytes.HasPrefix(zstdSkippable, magic[1:4]) && magic[0]>>4 == 5:
		return &packing{"zstd", newZstdFrames}
	}
	return nil
}

var (
	gzipMagic     = []byte{0x1f, 0x8b}
	zstdMagic     = []byte{0x28, 0xb5, 0x2f, 0xfd}
	zstdSkippable = []byte{0x2a, 0x4d, 0x18} // after a byte of 0x50 to 0x5f; files of pzstd begin with it
)

// trailingError reports compressed data that is followed by other bytes.
type trailingError struct{ bytes int64 }

func (e *trailingError) Error() string {
	return fmt.Sprintf("%d bytes that are not compressed follow the compressed data", e.bytes)
}

// trailing reads what follows compressed data. Zeros, with which tapes and archives fill
// their blocks, are the end of the file. Anything else is a [trailingError].
func trailing(r io.Reader) error {
	var zeros zeroCheck
	n, err := io.Copy(&zeros, r)
	switch {
	case err != nil:
		return err
	case zeros.other:
		return &trailingError{n}
	}
	return io.EOF
}

// zeroCheck is a writer that remembers whether anything but zeros was written.
type zeroCheck struct{ other bool }

func (z *zeroCheck) Write(p []byte) (int, error) {
	z.other = z.other || len(bytes.TrimLeft(p, "\x00")) > 0
	return len(p), nil
}

// gzipMembers unpacks the members of a gzip file one after the other.
type gzipMembers struct {
	*gzip.Reader
	in *bufio.Reader
}

func newGzipMembers(in *bufio.Reader) (io.ReadCloser, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &gzipMembers{z, in}, nil
}

func (g *gzipMembers) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	magic, err := g.in.Peek(len(gzipMagic))
	if len(magic) == 0 || !bytes.HasPrefix(gzipMagic, magic) {
		if err != nil && err != io.EOF {
			return n, err
		}
		return n, trailing(g.in)
	}
	err = g.Reset(g.in)
	g.Multistream(false)
	return n, err
}

func newZstdFrames(in *bufio.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(&zstdFrames{in: in}, zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// zstdFrames passes on the frames of a zstd file and ends after the last one. The decoder itself
// would treat bytes that follow as damage. See RFC 8878, section 3.1.
type zstdFrames struct {
	in   *bufio.Reader
	left int64 // bytes left of the current part
	next zstdPart
	sum  bool // the frame ends in a checksum
}

type zstdPart uint8

const (
	zstdFrame zstdPart = iota
	zstdBlock
	zstdChecksum
	zstdBroken // the decoder decides about the rest
)

func (z *zstdFrames) Read(p []byte) (int, error) {
	for z.left == 0 && z.next != zstdBroken {
		if err := z.part(); err != nil {
			return 0, err
		}
	}
	if z.next == zstdBroken {
		return z.in.Read(p)
	}
	n, err := z.in.Read(p[:min(int64(len(p)), z.left)])
	z.left -= int64(n)
	return n, err
}

// part finds the length of the next part.
func (z *zstdFrames) part() error {
	switch z.next {
	case zstdFrame:
		head, err := z.in.Peek(zstd.HeaderMaxSize)
		if len(head) == 0 {
			return err
		}
		var h zstd.Header
		switch err := h.Decode(head); {
		case errors.Is(err, zstd.ErrMagicMismatch) || len(head) < len(zstdMagic) && !bytes.HasPrefix(zstdMagic, head):
			return trailing(z.in)
		case err != nil:
			z.next = zstdBroken
		case h.Skippable:
			z.left = int64(h.HeaderSize) + int64(h.SkippableSize)
		default:
			z.left, z.next, z.sum = int64(h.HeaderSize), zstdBlock, h.HasCheckSum
		}
	case zstdBlock:
		head, _ := z.in.Peek(3)
		if len(head) < 3 {
			z.next = zstdBroken
			break
		}
		bits := uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16
		z.left = 3 + int64(bits>>3)
		if bits>>1&3 == 1 { // one repeated byte
			z.left = 3 + 1
		}
		if bits&1 != 0 {
			z.next = zstdChecksum
		}
	case zstdChecksum:
		if z.next = zstdFrame; z.sum {
			z.left = 4
		}
	}
	return nil
}
