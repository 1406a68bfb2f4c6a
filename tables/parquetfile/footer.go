package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/format"
)

// Reader reads a file that any program may have written. Its memory does not depend on what
// the file claims: it is bounded by the size of the file's description, and of a page of each
// column that is read. It is not safe for concurrent use.
type Reader struct {
	r         io.ReaderAt
	size      int64
	CreatedBy string
	Metadata  map[string]string
	Leaves    []Leaf  // in the order of the schema
	Rows      int64   // of all row groups
	Groups    []int64 // rows of each row group
	chunks    []chunk // by row group and leaf
	memory    int64   // bytes of pages that Pages hold
	unchecked bool    // ignore checksums
}

// Leaf is a column that has values.
type Leaf struct {
	Path []string
	Type format.Type
	// MaxDef is the definition level of values that are not null, and MaxRep the number of
	// lists that the values are in.
	MaxDef, MaxRep int
}

// chunk is a column in a row group.
type chunk struct {
	codec        format.CompressionCodec
	values       int64
	offset, size int64  // of the pages
	nulls        int64  // -1 if unknown
	headers      []byte // checksum of the page headers; nil if unknown
	least, most  int64  // of columns of integers, if bounded
	bounded      bool
}

// OpenReader reads the description of a file.
func OpenReader(r io.ReaderAt, size int64) (*Reader, error) { return open(r, size, true) }

// OpenUnchecked is OpenReader for tests: it ignores all checksums, so that tests can damage what they
// protect.
func OpenUnchecked(r io.ReaderAt, size int64) (*Reader, error) { return open(r, size, false) }

func open(r io.ReaderAt, size int64, check bool) (*Reader, error) {
	footer, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	f := &Reader{r: r, size: size, unchecked: !check, Metadata: map[string]string{}}
	p := footerParser{Reader: f, r: compactReader{b: footer}, rows: -1}
	p.file()
	if len(p.r.b) > 0 || p.rows != f.Rows { // it ended early, or a field became another one
		p.r.fail()
	}
	if p.r.err != nil {
		return nil, fmt.Errorf("damaged Parquet file: %w", p.r.err)
	}
	if check {
		err = f.checksums(footer, p.checksums)
	}
	return f, err
}

func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	var tail [8]byte
	if size < int64(len(magic)+len(tail)) {
		return nil, errors.New("not a Parquet file")
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:4]))
	if string(tail[4:]) != magic || n > size-12 {
		return nil, errors.New("not a Parquet file")
	}
	if n > largestFooter {
		return nil, fmt.Errorf("its description has %d bytes, more than %d", n, largestFooter)
	}
	footer := make([]byte, n)
	_, err := r.ReadAt(footer, size-8-n)
	return footer, err
}

// footerParser fills a Reader.
type footerParser struct {
	*Reader
	r        compactReader
	elements []element
	// checksums is the value of checksumsKey, in the footer
	checksums []byte
	rows      int64 // that the file states; -1 if it does not
}

// element is an element of the schema.
type element struct {
	name       string
	kind       format.Type
	repetition format.FieldRepetitionType
	children   int
}

func (p *footerParser) file() {
	p.r.structure(func(id int16, kind byte) bool {
		switch {
		case id == 2 && kind == typeList:
			p.r.list(typeStruct, func() {
				if len(p.elements) > 2*maxLeaves {
					p.r.fail()
					return
				}
				p.elements = append(p.elements, p.element())
			})
			if rest := p.leaves(p.elements, nil, 0, 0, 0, true); p.r.err == nil && len(rest) > 0 {
				p.r.fail()
			}
		case id == 3 && kind == typeI64:
			p.rows = p.r.integer()
		case id == 4 && kind == typeList:
			p.r.list(typeStruct, p.group)
		case id == 5 && kind == typeList:
			p.r.list(typeStruct, p.pair)
		case id == 6 && kind == typeBinary:
			p.CreatedBy = string(p.r.bytes())
		default:
			return false
		}
		return true
	})
}

func (p *footerParser) element() (e element) {
	e.kind = -1
	p.r.structure(func(id int16, kind byte) bool {
		switch {
		case id == 1 && kind == typeI32:
			e.kind = format.Type(p.r.integer())
		case id == 3 && kind == typeI32:
			e.repetition = format.FieldRepetitionType(p.r.integer())
		case id == 4 && kind == typeBinary:
			e.name = string(p.r.bytes())
		case id == 5 && kind == typeI32:
			e.children = int(p.r.integer())
		default:
			return false
		}
		return true
	})
	return e
}

const (
	maxSchemaDepth = 16
	maxLeaves      = 1 << 12
)

// leaves finds the leaves of the first element, and returns the elements after it.
func (p *footerParser) leaves(list []element, path []string, depth, def, rep int, root bool) []element {
	if len(list) == 0 || depth > maxSchemaDepth || len(p.Leaves) > maxLeaves {
		p.r.fail()
		return nil
	}
	e := &list[0]
	list = list[1:]
	if !root {
		path = append(path[:len(path):len(path)], e.name)
		switch e.repetition {
		case format.Optional:
			def++
		case format.Repeated:
			def, rep = def+1, rep+1
		}
	}
	if e.children <= 0 {
		if !root {
			p.Leaves = append(p.Leaves, Leaf{path, e.kind, def, rep})
		}
		return list
	}
	for range e.children {
		if p.r.err != nil {
			return nil
		}
		list = p.leaves(list, path, depth+1, def, rep, false)
	}
	return list
}

func (p *footerParser) group() {
	rows, columns := int64(-1), 0
	p.r.structure(func(id int16, kind byte) bool {
		switch {
		case id == 1 && kind == typeList:
			p.r.list(typeStruct, func() {
				if columns++; columns > len(p.Leaves) {
					p.r.fail()
					return
				}
				p.chunks = append(p.chunks, p.chunk(&p.Leaves[columns-1]))
			})
		case id == 3 && kind == typeI64:
			rows = p.r.integer()
		default:
			return false
		}
		return true
	})
	if columns != len(p.Leaves) || rows < 0 || rows > 1<<62-p.Rows {
		p.r.fail()
		return
	}
	p.Groups = append(p.Groups, rows)
	p.Rows += rows
}

func (p *footerParser) chunk(leaf *Leaf) (c chunk) {
	c.nulls = -1
	p.r.structure(func(id int16, kind byte) bool {
		if id != 3 || kind != typeStruct {
			return false
		}
		p.chunkMeta(&c, leaf)
		return true
	})
	if c.offset < int64(len(magic)) || c.size < 0 || c.size > p.size-c.offset || c.values < 0 {
		p.r.fail()
	}
	return c
}

func (p *footerParser) chunkMeta(c *chunk, leaf *Leaf) {
	data, dictionary := int64(0), int64(0)
	p.r.structure(func(id int16, kind byte) bool {
		switch {
		case id == 4 && kind == typeI32:
			c.codec = format.CompressionCodec(p.r.integer())
		case id == 5 && kind == typeI64:
			c.values = p.r.integer()
		case id == 7 && kind == typeI64:
			c.size = p.r.integer()
		case id == 9 && kind == typeI64:
			data = p.r.integer()
		case id == 11 && kind == typeI64:
			dictionary = p.r.integer()
		case id == 12 && kind == typeStruct:
			p.statistics(c, leaf)
		default:
			return false
		}
		return true
	})
	c.offset = data
	if dictionary > 0 && dictionary < data {
		c.offset = dictionary
	}
}

func (p *footerParser) statistics(c *chunk, leaf *Leaf) {
	var least, most []byte
	p.r.structure(func(id int16, kind byte) bool {
		switch {
		case id == 3 && kind == typeI64:
			c.nulls = p.r.integer()
		case id == 5 && kind == typeBinary:
			most = p.r.bytes()
		case id == 6 && kind == typeBinary:
			least = p.r.bytes()
		default:
			return false
		}
		return true
	})
	switch {
	case leaf.Type == format.Int64 && len(least) == 8 && len(most) == 8:
		c.least, c.most, c.bounded = int64(binary.LittleEndian.Uint64(least)), int64(binary.LittleEndian.Uint64(most)), true
	case leaf.Type == format.Int32 && len(least) == 4 && len(most) == 4:
		c.least, c.most, c.bounded = int64(int32(binary.LittleEndian.Uint32(least))), int64(int32(binary.LittleEndian.Uint32(most))), true
	}
}

func (p *footerParser) pair() {
	var key, value []byte
	p.r.structure(func(id int16, kind byte) bool {
		switch {
		case id == 1 && kind == typeBinary:
			key = p.r.bytes()
		case id == 2 && kind == typeBinary:
			value = p.r.bytes()
		default:
			return false
		}
		return true
	})
	p.Metadata[string(key)] = string(value)
	if string(key) == checksumsKey {
		p.checksums = value
	}
}

func (f *Reader) chunk(group, leaf int) *chunk { return &f.chunks[group*len(f.Leaves)+leaf] }

// Constant returns the value that all rows of a row group have in a column of integers that cannot
// be null, if the statistics say so.
func (f *Reader) Constant(group, leaf int) (int64, bool) {
	c := f.chunk(group, leaf)
	return c.least, c.bounded && c.least == c.most && f.Leaves[leaf].MaxDef == 0
}

// ConstantInLists returns the value that all elements of a column of integers in lists have in a
// row group, if the statistics say so.
func (f *Reader) ConstantInLists(group, leaf int) (int64, bool) {
	c := f.chunk(group, leaf)
	return c.least, c.bounded && c.least == c.most && f.Leaves[leaf].MaxRep > 0
}

// Nulls returns the number of nulls of a column in a row group, or -1 if it is unknown.
func (f *Reader) Nulls(group, leaf int) int64 { return f.chunk(group, leaf).nulls }
