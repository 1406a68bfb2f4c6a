package debuginfo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"slices"

	"github.com/ulikunitz/xz/lzma"
)

// miniDebug opens the xz-compressed ELF file in .gnu_debugdata, which distributions leave in
// stripped files. It has a symbol table of the functions that are not in .dynsym. It returns
// nil if there is none.
func (o *ELF) miniDebug() (*ELF, error) {
	data, err := o.Section(".gnu_debugdata").Bytes()
	if data == nil || err != nil {
		return nil, err
	}
	var mini *ELF
	err = Guard(func() error {
		plain, err := unpackXZ(data, xzLimit)
		if err == nil {
			err = o.limit.check(".gnu_debugdata", uint64(len(plain)), true)
		}
		if err == nil {
			mini, err = NewELF(bytes.NewReader(plain), int64(len(plain)))
		}
		if err == nil {
			mini.limit = o.limit // decompressed data does not raise the limit
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("section .gnu_debugdata: %w", err)
	}
	return mini, nil
}

const (
	xzLimit     = 64 << 20 // of decompressed data; symbol tables have some megabytes
	xzDictLimit = 64 << 20 // that of xz -9
	xzEdge      = 12       // bytes of a stream's header, and of its footer
)

var errXZ = errors.New("damaged xz data")

// unpackXZ decompresses one xz stream of the format's version 1.2.1, to at most limit bytes. It
// reads the container itself, because package xz allocates a dictionary as large as the data
// asks for.
func unpackXZ(data []byte, limit uint64) ([]byte, error) {
	if len(data) < 2*xzEdge || !bytes.HasPrefix(data, []byte("\xfd7zXZ\x00")) || string(data[len(data)-2:]) != "YZ" {
		return nil, errXZ
	}
	footer := data[len(data)-xzEdge:]
	indexSize := (uint64(binary.LittleEndian.Uint32(footer[4:])) + 1) * 4
	if indexSize > uint64(len(data)-2*xzEdge) {
		return nil, errXZ
	}
	blocks := data[xzEdge : uint64(len(data)-xzEdge)-indexSize]
	index := cursor{b: data[uint64(len(data)-xzEdge)-indexSize:][:indexSize]}
	index.take(1) // index marker
	var out []byte
	for n := index.uleb(); n > 0 && !index.bad; n-- {
		// The length does not include the padding before the checksum.
		length, size := index.uleb(), index.uleb()
		if index.bad || length == 0 || length > uint64(len(blocks)) || len(blocks)%4 != 0 {
			return nil, errXZ
		}
		length = (length + 3) &^ 3
		if size > limit-uint64(len(out)) {
			return nil, fmt.Errorf("%d bytes of xz data unpack to too many bytes: %d", length, size)
		}
		var err error
		if out, err = unpackXZBlock(out, blocks[:length], size, footer[9]); err != nil {
			return nil, err
		}
		blocks = blocks[length:]
	}
	if index.bad {
		return nil, errXZ
	}
	return out, nil
}

// unpackXZBlock appends the contents of a block.
func unpackXZBlock(out, block []byte, size uint64, check byte) ([]byte, error) {
	const lzma2 = 0x21
	header := (int(block[0]) + 1) * 4
	if header > len(block) {
		return nil, errXZ
	}
	c := cursor{b: block[1:header]}
	flags := c.uint8()
	for bit := byte(0x40); bit != 0; bit <<= 1 { // sizes, which are also in the index
		if flags&bit != 0 {
			c.uleb()
		}
	}
	if flags&3 != 0 || c.uleb() != lzma2 || c.uleb() != 1 {
		return nil, errors.New("xz data with a filter other than LZMA2 is not supported")
	}
	dict, err := lzma.DecodeDictCap(c.uint8())
	if c.bad || err != nil {
		return nil, errXZ
	}
	if dict > xzDictLimit {
		return nil, fmt.Errorf("xz data with a dictionary of %d bytes is not supported", dict)
	}
	// References never point before the start of the block.
	dict = min(dict, int64(size))
	r, err := lzma.Reader2Config{DictCap: max(int(dict), lzma.MinDictCap)}.NewReader2(bytes.NewReader(block[header:]))
	if err != nil {
		return nil, err
	}
	out = slices.Grow(out, int(size))
	plain := out[len(out) : len(out)+int(size)]
	out = out[:len(out)+int(size)]
	if _, err := io.ReadFull(r, plain); err != nil {
		return nil, noEOF(err)
	}
	var sum hash.Hash
	switch check {
	case 1:
		sum = crc32.NewIEEE()
	case 4:
		sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	default: // no checksum, or SHA-256, which is not checked
		return out, nil
	}
	sum.Write(plain)
	want := sum.Sum(nil)
	for i, b := range want { // in reverse order
		if at := len(block) - 1 - i; at < header || block[at] != b {
			return nil, errors.New("xz data with a wrong checksum")
		}
	}
	return out, nil
}
