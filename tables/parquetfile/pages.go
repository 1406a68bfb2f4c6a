package parquetfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of a page that is read, and of all pages that are in memory at a time: one of each column.
// Writers make pages of about a megabyte, or put a column of a row group of some hundred thousand
// rows into one.
const (
	maxMemory     = 256 << 20
	maxPageBytes  = 64 << 20
	maxPageValues = 4 << 20
	maxPageHeader = 1 << 16
)

// plainDictionary is what old programs call format.RLEDictionary.
const plainDictionary format.Encoding = 2

// Pages reads the pages of a column in a row group. What Next returns shares memory with the
// next page. It is not safe for concurrent use.
type Pages struct {
	file    *Reader
	memory  int64 // of file.memory: what the largest page takes
	leaf    *Leaf
	chunk   *chunk
	in      *bufio.Reader
	left    int64  // bytes of pages
	values  int64  // that pages should have
	headers uint32 // checksum of their headers
	// WithoutLevels saves the time to decode Page.Reps and Page.Defs, which are undefined then.
	WithoutLevels bool
	raw           []byte
	plain         []byte
	texts         []byte // that the dictionary refers to
	page          Page
	// dictionary has the values of dictionary pages.
	dictionary values
}

// zstdDecoder is shared: it decodes pages concurrently.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxPageBytes))
	if err != nil {
		panic(err) // the options are constants
	}
	return z
})

// Page is a page. Only one of Ints, Floats and Texts has values: those that are not null.
type Page struct {
	// Values is the number of values with nulls. Defs are their definition levels, and Reps
	// their repetition levels; nil for columns without any.
	Values     int
	Defs, Reps []byte
	Ints       []int64 // of 32 or 64 bits
	Floats     []float64
	// Texts are strings. With Indexed, they are those of the dictionary, which is the same
	// for all pages of the column with the same Dictionary, and Index says which they are.
	Texts      [][]byte
	Indexed    bool
	Index      []uint32
	Dictionary int
}

// values are decoded values of a column.
type values struct {
	ints    []int64
	floats  []float64
	texts   [][]byte
	present bool
}

// Open begins to read a column of a row group. It reuses the memory of a previous one.
func (p *Pages) Open(f *Reader, group, leaf int) {
	if p.file != nil {
		p.file.memory -= p.memory
	}
	p.file, p.memory = f, 0
	p.leaf, p.chunk = &f.Leaves[leaf], f.chunk(group, leaf)
	section := io.NewSectionReader(f.r, p.chunk.offset, p.chunk.size)
	size := int(min(p.chunk.size, 1<<16))
	if p.in == nil || p.in.Size() < size {
		p.in = bufio.NewReaderSize(section, max(size, 512))
	} else {
		p.in.Reset(section)
	}
	p.left, p.values, p.headers = p.chunk.size, p.chunk.values, 0
	p.dictionary = values{ints: p.dictionary.ints[:0], floats: p.dictionary.floats[:0], texts: p.dictionary.texts[:0]}
	p.WithoutLevels = false
}

// pageHeader is the header of a page.
type pageHeader struct {
	kind                     format.PageType
	uncompressed, compressed int64
	values                   int64
	encoding                 format.Encoding
	repBytes, defBytes       int64 // of pages of version 2
	isCompressed             bool
	crc                      uint32
	hasCRC                   bool
}

var errPage = errors.New("damaged page")

// Next returns the next page of values, or io.EOF.
func (p *Pages) Next() (*Page, error) {
	for p.values > 0 {
		h, err := p.header()
		if err != nil {
			return nil, err
		}
		if err := p.body(&h); err != nil {
			return nil, err
		}
		switch h.kind {
		case format.DictionaryPage:
			if p.dictionary.present {
				return nil, errPage // one for each column
			}
			if err := p.decompress(p.raw, int(h.uncompressed)); err != nil {
				return nil, err
			}
			if err := p.dictionary.plain(p.leaf.Type, p.plain, int(h.values)); err != nil {
				return nil, err
			}
			p.page.Dictionary++
			if p.leaf.Type == format.ByteArray {
				p.plain, p.texts = p.texts, p.plain // the texts of the dictionary share it
			}
		case format.DataPage, format.DataPageV2:
			if h.values > p.values {
				return nil, errPage
			}
			p.values -= h.values
			if p.values == 0 && p.chunk.headers != nil && string(appendChecksum(nil, p.headers)) != string(p.chunk.headers) {
				return nil, errChanged
			}
			if err := p.data(&h); err != nil {
				return nil, err
			}
			return &p.page, nil
		}
	}
	return nil, io.EOF
}

// header reads the header of a page.
func (p *Pages) header() (h pageHeader, err error) {
	b, err := p.in.Peek(int(min(p.left, maxPageHeader, int64(p.in.Size()))))
	if len(b) == 0 {
		return h, errors.Join(errPage, err)
	}
	r := compactReader{b: b}
	h.isCompressed = true
	count := func(id, values, encoding int16) func(int16, byte) bool {
		return func(f int16, kind byte) bool {
			switch {
			case f == values && kind == typeI32:
				h.values = r.integer()
			case f == encoding && kind == typeI32:
				h.encoding = format.Encoding(r.integer())
			default:
				return false
			}
			return true
		}
	}
	r.structure(func(id int16, kind byte) bool {
		switch {
		case id == 1 && kind == typeI32:
			h.kind = format.PageType(r.integer())
		case id == 2 && kind == typeI32:
			h.uncompressed = r.integer()
		case id == 3 && kind == typeI32:
			h.compressed = r.integer()
		case id == 4 && kind == typeI32:
			h.crc, h.hasCRC = uint32(r.integer()), true
		case id == 5 && kind == typeStruct:
			r.structure(count(id, 1, 2))
		case id == 7 && kind == typeStruct:
			r.structure(count(id, 1, 2))
		case id == 8 && kind == typeStruct:
			more := count(id, 1, 4)
			r.structure(func(f int16, kind byte) bool {
				switch {
				case f == 5 && kind == typeI32:
					h.defBytes = r.integer()
				case f == 6 && kind == typeI32:
					h.repBytes = r.integer()
				case f == 7 && (kind == typeTrue || kind == typeFalse):
					h.isCompressed = kind == typeTrue
				default:
					return more(f, kind)
				}
				return true
			})
		default:
			return false
		}
		return true
	})
	if r.err != nil {
		return h, r.err
	}
	n := len(b) - len(r.b)
	p.left -= int64(n)
	p.headers = crc32.Update(p.headers, castagnoli, b[:n])
	switch {
	case h.uncompressed < 0, h.compressed < 0, h.compressed > p.left, h.values < 0, h.defBytes < 0, h.repBytes < 0:
		return h, errPage
	case h.uncompressed > maxPageBytes || h.compressed > maxPageBytes:
		return h, fmt.Errorf("a page of %d bytes; at most %d are supported: write smaller pages", max(h.uncompressed, h.compressed), maxPageBytes)
	case h.values > maxPageValues:
		return h, fmt.Errorf("a page of %d values; at most %d are supported: write smaller pages", h.values, maxPageValues)
	}
	if err := p.hold(&h); err != nil {
		return h, err
	}
	_, err = p.in.Discard(n)
	return h, err
}

// hold notes the memory of the largest page, encoded and decoded.
func (p *Pages) hold(h *pageHeader) error {
	perValue := int64(8)
	if p.leaf.Type == format.ByteArray {
		perValue = int64(unsafe.Sizeof([]byte(nil)))
	}
	more := h.compressed + h.uncompressed + perValue*h.values - p.memory
	if more <= 0 {
		return nil
	}
	p.memory += more
	if p.file.memory += more; p.file.memory > maxMemory {
		return fmt.Errorf("the pages of all columns take %d bytes; at most %d are supported: write smaller pages", p.file.memory, int64(maxMemory))
	}
	return nil
}

// body reads the bytes of a page.
func (p *Pages) body(h *pageHeader) error {
	p.left -= h.compressed
	if int64(cap(p.raw)) < h.compressed {
		p.raw = make([]byte, h.compressed+h.compressed/4)
	}
	p.raw = p.raw[:h.compressed]
	_, err := io.ReadFull(p.in, p.raw)
	if err == nil && h.hasCRC && !p.file.unchecked && crc32.ChecksumIEEE(p.raw) != h.crc {
		err = errChanged
	}
	return err
}

// decompress sets p.plain.
func (p *Pages) decompress(b []byte, size int) (err error) {
	if p.chunk.codec == format.Uncompressed {
		p.plain = append(p.plain[:0], b...)
		return nil
	}
	if cap(p.plain) < size {
		p.plain = make([]byte, 0, size+size/4)
	}
	switch p.chunk.codec {
	case format.Zstd:
		p.plain, err = zstdDecoder().DecodeAll(b, p.plain[:0])
	case format.Snappy:
		n, err := snappy.DecodedLen(b)
		if err != nil || n != size {
			return errPage
		}
		p.plain, err = snappy.Decode(p.plain[:n], b)
		return err
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return err
		}
		p.plain = p.plain[:size]
		_, err = io.ReadFull(z, p.plain)
		return err
	default:
		return fmt.Errorf("%v compression is not supported: write the file with zstd", p.chunk.codec)
	}
	if err == nil && len(p.plain) != size {
		err = errPage
	}
	return err
}

// data decodes p.raw.
func (p *Pages) data(h *pageHeader) error {
	n := int(h.values)
	there := n // values that are not null
	p.page.Values = n
	var reps, defs []byte
	if h.kind == format.DataPageV2 {
		levels := h.repBytes + h.defBytes
		if levels > h.compressed || levels > h.uncompressed {
			return errPage
		}
		reps, defs = p.raw[:h.repBytes], p.raw[h.repBytes:levels]
		rest := p.raw[levels:]
		if !h.isCompressed {
			p.plain = append(p.plain[:0], rest...)
		} else if len(rest) == 0 {
			p.plain = p.plain[:0]
		} else if err := p.decompress(rest, int(h.uncompressed-levels)); err != nil {
			return err
		}
	} else if err := p.decompress(p.raw, int(h.uncompressed)); err != nil {
		return err
	}
	b := p.plain
	level := func(from []byte, most int, to *[]byte) bool {
		if most == 0 {
			*to = nil
			return true
		}
		if h.kind == format.DataPage {
			var ok bool
			if from, b, ok = prefixed(b); !ok {
				return false
			}
		}
		if p.WithoutLevels && to == &p.page.Reps {
			return true
		}
		var ok bool
		if p.WithoutLevels && most == 1 {
			there, ok = countOnes(from, n)
			return ok
		}
		*to, ok = decodeLevels(slices.Grow((*to)[:0], n), from, most, n)
		return ok
	}
	if !level(reps, p.leaf.MaxRep, &p.page.Reps) || !level(defs, p.leaf.MaxDef, &p.page.Defs) {
		return errPage
	}
	if p.WithoutLevels && p.leaf.MaxDef == 1 {
		p.page.Reps, p.page.Defs = nil, nil
		return p.decode(h.encoding, b, there)
	}
	for _, d := range p.page.Defs {
		if int(d) != p.leaf.MaxDef {
			there--
		}
	}
	return p.decode(h.encoding, b, there)
}

// decode decodes n values that are not null.
func (p *Pages) decode(encoding format.Encoding, b []byte, n int) error {
	g := &p.page
	g.Ints, g.Floats, g.Texts, g.Index, g.Indexed = g.Ints[:0], g.Floats[:0], g.Texts[:0], g.Index[:0], false
	if n == 0 {
		return nil
	}
	if p.leaf.Type == format.Int32 || p.leaf.Type == format.Int64 {
		g.Ints = slices.Grow(g.Ints, n)
	}
	v := values{ints: g.Ints, floats: g.Floats, texts: g.Texts}
	var err error
	switch encoding {
	case format.Plain:
		err = v.plain(p.leaf.Type, b, n)
	case format.RLEDictionary, plainDictionary:
		return p.decodeIndices(b, n)
	case format.DeltaBinaryPacked:
		if p.leaf.Type != format.Int32 && p.leaf.Type != format.Int64 {
			return errPage
		}
		if v.ints, _, err = decodeDelta(v.ints, b, n); p.leaf.Type == format.Int32 {
			for i, x := range v.ints {
				v.ints[i] = int64(int32(x))
			}
		}
	case format.DeltaByteArray, format.DeltaLengthByteArray:
		if p.leaf.Type != format.ByteArray {
			return errPage
		}
		v.texts, err = decodeDeltaTexts(v.texts, b, n, encoding == format.DeltaByteArray)
	default:
		err = fmt.Errorf("encoding %v is not supported", encoding)
	}
	g.Ints, g.Floats, g.Texts = v.ints, v.floats, v.texts
	return err
}

func (p *Pages) decodeIndices(b []byte, n int) error {
	d, g := &p.dictionary, &p.page
	if !d.present || len(b) == 0 || b[0] > 32 {
		return errPage
	}
	if ints, ok := gatherBytes(g.Ints, d.ints, b, n); ok {
		g.Ints = ints
		return nil
	}
	var ok bool
	if g.Index, ok = decodeRuns(slices.Grow(g.Index, n), b[1:], int(b[0]), n); !ok {
		return errPage
	}
	most := uint32(0)
	for _, i := range g.Index {
		most = max(most, i)
	}
	if int64(most) >= int64(max(len(d.ints), len(d.floats), len(d.texts))) {
		return errPage
	}
	switch {
	case len(d.ints) > 0:
		g.Ints = g.Ints[:n]
		for k, i := range g.Index {
			g.Ints[k] = d.ints[i]
		}
	case len(d.floats) > 0:
		for _, i := range g.Index {
			g.Floats = append(g.Floats, d.floats[i])
		}
	default:
		g.Indexed, g.Texts = true, d.texts
	}
	return nil
}

// plain decodes n values in plain encoding.
func (v *values) plain(kind format.Type, b []byte, n int) error {
	v.present = true
	v.ints, v.floats, v.texts = v.ints[:0], v.floats[:0], v.texts[:0]
	switch kind {
	case format.Int32:
		if len(b) < 4*n {
			return errPage
		}
		for i := range n {
			v.ints = append(v.ints, int64(int32(le.Uint32(b[4*i:]))))
		}
	case format.Int64:
		if len(b) < 8*n {
			return errPage
		}
		for i := range n {
			v.ints = append(v.ints, int64(le.Uint64(b[8*i:])))
		}
	case format.Double:
		if len(b) < 8*n {
			return errPage
		}
		for i := range n {
			v.floats = append(v.floats, math.Float64frombits(le.Uint64(b[8*i:])))
		}
	case format.ByteArray:
		for range n {
			text, rest, ok := prefixed(b)
			if !ok {
				return errPage
			}
			v.texts, b = append(v.texts, text), rest
		}
	default:
		return fmt.Errorf("columns of type %v are not supported", kind)
	}
	return nil
}
