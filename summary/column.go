package summary

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
)

// column reads the values of a column of a file, page by page.
type column struct {
	name     string
	index    int // among the leaves of the file
	maxDef   int // definition level of a value that is not null
	repeated bool

	pages parquet.Pages
	// constant says that all values of the row group are those of the first one.
	constant bool
	page     decoded
	at       int // position in page.levels, or in its values if there are none
	value    int // position in its values
}

// decoded is a page.
type decoded struct {
	page   parquet.Page
	n      int    // number of values, including null
	defs   []byte // definition levels; nil if all values are there
	reps   []byte // repetition levels; nil if the column is not repeated
	ints   []int64
	narrow []int32
	floats []float64
	texts  []uint32 // indices in the table of texts
}

// texts is a table of different texts.
type texts struct {
	list []string
	ids  map[string]uint32
	size int
	// ofDictionary are the texts of the dictionary that was used last, by column.
	ofDictionary map[*column]dictionaryTexts
}

type dictionaryTexts struct {
	dictionary parquet.Dictionary
	ids        []uint32
}

// maxTexts bounds the memory for the names in a file.
const maxTexts = 256 << 20

func (t *texts) id(b []byte) (uint32, error) {
	if id, ok := t.ids[string(b)]; ok {
		return id, nil
	}
	if t.size += len(b) + 64; t.size > maxTexts {
		return 0, fmt.Errorf("names of more than %d bytes", maxTexts)
	}
	id := uint32(len(t.list))
	t.list = append(t.list, string(b))
	t.ids[t.list[id]] = id
	return id, nil
}

// close releases the page.
func (c *column) close() {
	c.drop()
	if c.pages != nil {
		c.pages.Close() // reading has not failed, and closing frees memory only
		c.pages = nil
	}
}

func (c *column) drop() {
	if c.page.page != nil {
		parquet.Release(c.page.page)
		c.page = decoded{}
	}
}

// open begins with a row group.
func (c *column) open(g parquet.RowGroup) {
	c.close()
	c.at, c.value = 0, 0
	chunk := g.ColumnChunks()[c.index]
	c.pages = chunk.Pages()
	c.constant = false
	if f, ok := chunk.(*parquet.FileColumnChunk); ok && c.maxDef == 0 {
		lo, hi, ok := f.Bounds()
		c.constant = ok && lo.Kind() == hi.Kind() && isInteger(lo.Kind()) && parquet.Equal(lo, hi)
	}
}

func isInteger(k parquet.Kind) bool { return k == parquet.Int32 || k == parquet.Int64 }

// more makes sure that there is a value, and reports whether there is one.
func (c *column) more(t *texts) (bool, error) {
	for c.page.page == nil || c.at == c.page.n {
		c.drop()
		page, err := c.pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		c.at, c.value = 0, 0
		if err := c.decode(page, t); err != nil {
			return false, err
		}
	}
	return true, nil
}

// decode finds the values of a page.
func (c *column) decode(p parquet.Page, t *texts) error {
	c.page = decoded{page: p, n: int(p.NumValues())}
	d := &c.page
	if c.maxDef > 0 {
		d.defs = p.DefinitionLevels()
	}
	if c.repeated {
		d.reps = p.RepetitionLevels()
	}
	if d.defs != nil && len(d.defs) < d.n || c.repeated && len(d.reps) < d.n {
		return errDamaged
	}
	data, dict := p.Data(), p.Dictionary()
	if dict != nil {
		return d.decodeIndices(c, data.Int32(), dict, t)
	}
	switch c.kind() {
	case parquet.Int64:
		d.ints = data.Int64()
	case parquet.Int32:
		d.narrow = data.Int32()
	case parquet.Double:
		d.floats = data.Double()
	case parquet.ByteArray:
		bytes, offsets := data.ByteArray()
		for i := 0; i+1 < len(offsets); i++ {
			id, err := t.id(bytes[offsets[i]:offsets[i+1]])
			if err != nil {
				return err
			}
			d.texts = append(d.texts, id)
		}
	}
	return nil
}

func (c *column) kind() parquet.Kind { return c.page.page.Type().Kind() }

func (d *decoded) decodeIndices(c *column, indices []int32, dict parquet.Dictionary, t *texts) error {
	data := dict.Page().Data()
	for _, i := range indices {
		if i < 0 || int(i) >= dict.Len() {
			return errDamaged
		}
	}
	switch dict.Type().Kind() {
	case parquet.Int64:
		d.ints = lookUp(indices, data.Int64())
	case parquet.Int32:
		d.narrow = lookUp(indices, data.Int32())
	case parquet.Double:
		d.floats = lookUp(indices, data.Double())
	case parquet.ByteArray:
		ids, err := t.dictionary(c, dict)
		if err != nil {
			return err
		}
		d.texts = lookUp(indices, ids)
	}
	return nil
}

func lookUp[T any](indices []int32, values []T) []T {
	list := make([]T, len(indices))
	for i, at := range indices {
		list[i] = values[at]
	}
	return list
}

// dictionary returns the texts of a dictionary, by index.
func (t *texts) dictionary(c *column, dict parquet.Dictionary) ([]uint32, error) {
	if known := t.ofDictionary[c]; known.dictionary == dict {
		return known.ids, nil
	}
	data := dict.Page().Data()
	bytes, offsets := data.ByteArray()
	ids := make([]uint32, dict.Len())
	for i := range ids {
		var err error
		if ids[i], err = t.id(bytes[offsets[i]:offsets[i+1]]); err != nil {
			return nil, err
		}
	}
	t.ofDictionary[c] = dictionaryTexts{dict, ids}
	return ids, nil
}

var errDamaged = errors.New("damaged page")

// fill reads the next values, as many as dst has. null, unless it is nil, says which are
// null. The column must not be repeated.
func (c *column) fill(dst []int64, null []bool, t *texts) error {
	for len(dst) > 0 {
		ok, err := c.more(t)
		if err != nil {
			return c.failed(err)
		}
		if !ok {
			return c.failed(io.ErrUnexpectedEOF)
		}
		if c.constant {
			return c.failed(c.fillConstant(dst, null))
		}
		n := min(len(dst), c.page.n-c.at)
		for i := range n {
			there := c.page.defs == nil || int(c.page.defs[c.at+i]) == c.maxDef
			dst[i] = 0
			if there {
				if dst[i], err = c.page.integer(c.value); err != nil {
					return c.failed(err)
				}
				c.value++
			}
			if null != nil {
				null[i] = !there
			}
		}
		c.at += n
		dst = dst[n:]
		if null != nil {
			null = null[n:]
		}
	}
	return nil
}

// fillConstant is fill if all values are the same.
func (c *column) fillConstant(dst []int64, null []bool) error {
	v, err := c.page.integer(0)
	if err != nil {
		return err
	}
	for i := range dst {
		dst[i] = v
	}
	clear(null)
	return nil
}

// integer returns a value that must not be negative.
func (d *decoded) integer(i int) (v int64, err error) {
	switch {
	case i < len(d.ints):
		v = d.ints[i]
	case i < len(d.narrow):
		v = int64(d.narrow[i])
	case i < len(d.floats):
		// Sums of some engines are floating-point numbers.
		f := d.floats[i]
		if f != math.Trunc(f) || f >= 1<<63 {
			return 0, fmt.Errorf("%v is not an integer", f)
		}
		v = int64(f)
	default:
		return 0, errDamaged
	}
	if v < 0 {
		return 0, fmt.Errorf("a negative value: %d", v)
	}
	return v, nil
}

// fillTexts reads the next texts, as many as dst has. Null is "".
func (c *column) fillTexts(dst []uint32, t *texts) error {
	empty, err := t.id(nil)
	if err != nil {
		return err
	}
	for len(dst) > 0 {
		ok, err := c.more(t)
		if err != nil {
			return c.failed(err)
		}
		if !ok {
			return c.failed(io.ErrUnexpectedEOF)
		}
		n := min(len(dst), c.page.n-c.at)
		for i := range n {
			dst[i] = empty
			if c.page.defs != nil && int(c.page.defs[c.at+i]) != c.maxDef {
				continue
			}
			if c.value >= len(c.page.texts) {
				return c.failed(errDamaged)
			}
			dst[i] = c.page.texts[c.value]
			c.value++
		}
		c.at += n
		dst = dst[n:]
	}
	return nil
}

// fillLists reads the lists of the next rows. It appends their values to dst, and returns
// where the list of each row ends.
func (c *column) fillLists(dst []int64, ends []int, t *texts) ([]int64, error) {
	for row := range ends {
		for first := true; ; first = false {
			ok, err := c.more(t)
			if err != nil {
				return dst, c.failed(err)
			}
			if !ok && first {
				return dst, c.failed(io.ErrUnexpectedEOF)
			}
			if !ok || (c.page.reps[c.at] == 0) != first {
				break
			}
			if int(c.page.defs[c.at]) == c.maxDef {
				v, err := c.page.integer(c.value)
				if err != nil {
					return dst, c.failed(err)
				}
				dst = append(dst, v)
				c.value++
			}
			c.at++
		}
		ends[row] = len(dst)
	}
	return dst, nil
}

func (c *column) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("column %s: %w", c.name, err)
}
