package summary

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sync"

	"github.com/xray-tools/xray/tables/parquetfile"
)

// column reads the values of a column of a file, page by page.
type column struct {
	name   string
	leaf   int // index in the file
	maxDef int // definition level of a value that is not null

	pages *parquetfile.Pages // nil before the first row group
	page  *parquetfile.Page  // nil at the beginning of a row group
	at    int                // position in the page, with nulls
	value int                // without nulls
	// constant says that all rows of the row group have the same value.
	constant bool
	same     int64
	// texts maps the indices of a page to the table of texts.
	texts      []uint32
	dictionary int    // the dictionary that texts is for; 0 for none
	owner      *texts // the table that texts refers to
}

// texts interns strings.
type texts struct {
	list []string
	ids  map[string]uint32
	size int
}

// maxTexts bounds the memory for the names in a file.
const maxTexts = 128 << 20

func newTexts() *texts {
	t := &texts{ids: make(map[string]uint32)}
	_, _ = t.id(nil) // text 0 is "", which never exceeds the limit
	return t
}

func (t *texts) id(b []byte) (uint32, error) {
	if id, ok := t.ids[string(b)]; ok {
		return id, nil
	}
	if t.size += len(b) + 64; t.size > maxTexts {
		return 0, fmt.Errorf("names and paths exceed %d bytes: split the file", maxTexts)
	}
	id := uint32(len(t.list))
	t.list = append(t.list, string(b))
	t.ids[t.list[id]] = id
	return id, nil
}

// open starts reading a row group.
func (c *column) open(f *parquetfile.Reader, group int) {
	c.page, c.at, c.value, c.dictionary = nil, 0, 0, 0
	if c.same, c.constant = f.Constant(group, c.leaf); c.constant {
		return
	}
	c.openPages(f, group)
}

// openValues is open for a column of lists of which only fillValues is needed.
func (c *column) openValues(f *parquetfile.Reader, group int) {
	c.page, c.at, c.value, c.dictionary = nil, 0, 0, 0
	if c.same, c.constant = f.ConstantInLists(group, c.leaf); c.constant {
		return
	}
	c.openPages(f, group)
	c.pages.WithoutLevels = true
}

func (c *column) openPages(f *parquetfile.Reader, group int) {
	if c.pages == nil {
		c.pages = spare.Get().(*parquetfile.Pages)
	}
	c.pages.Open(f, group, c.leaf)
}

// spare pools the memory of closed columns.
var spare = sync.Pool{New: func() any { return new(parquetfile.Pages) }}

// close frees memory.
func (c *column) close() {
	if c.pages != nil {
		spare.Put(c.pages)
	}
	*c = column{name: c.name, leaf: c.leaf, maxDef: c.maxDef}
}

// more makes sure that there is a value, and reports whether there is one.
func (c *column) more() (bool, error) {
	for c.page == nil || c.at == c.page.Values {
		page, err := c.pages.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		c.page, c.at, c.value = page, 0, 0
	}
	return true, nil
}

// present returns the definition levels of the next n values, or nil if none is null.
func (c *column) present(n int) []byte {
	if c.page.Defs == nil {
		return nil
	}
	return c.page.Defs[c.at : c.at+n]
}

// part returns how many of the next n values the current page has. It returns an error at the end
// of the column.
func (c *column) part(n int) (int, error) {
	ok, err := c.more()
	if err == nil && !ok {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, err
	}
	return min(n, c.page.Values-c.at), nil
}

// fill reads the next values, as many as dst has. null, unless it is nil, says which are
// null.
func (c *column) fill(dst []int64, null []bool) error {
	clear(null)
	if c.constant {
		if c.same < 0 {
			return c.failed(errNegative)
		}
		for i := range dst {
			dst[i] = c.same
		}
		return nil
	}
	for len(dst) > 0 {
		n, err := c.part(len(dst))
		if err != nil {
			return c.failed(err)
		}
		if err := c.fillPart(dst[:n], null); err != nil {
			return c.failed(err)
		}
		dst = dst[n:]
		if null != nil {
			null = null[n:]
		}
	}
	return nil
}

var errNegative = errors.New("a negative value")

// fillPart is fill for values of the page.
func (c *column) fillPart(dst []int64, null []bool) error {
	ints, present := c.page.Ints, c.present(len(dst))
	if len(c.page.Floats) > 0 {
		var err error
		if ints, err = integers(c.page.Floats); err != nil {
			return err
		}
	}
	c.at += len(dst)
	if present == nil && len(ints)-c.value >= len(dst) {
		sign := int64(0)
		for i, v := range ints[c.value : c.value+len(dst)] {
			dst[i] = v
			sign |= v
		}
		c.value += len(dst)
		if sign < 0 {
			return errNegative
		}
		return nil
	}
	for i := range dst {
		dst[i] = 0
		if present != nil && int(present[i]) != c.maxDef {
			if null != nil {
				null[i] = true
			}
			continue
		}
		if c.value >= len(ints) {
			return errDamaged
		}
		if dst[i] = ints[c.value]; dst[i] < 0 {
			return errNegative
		}
		c.value++
	}
	return nil
}

// integers converts sums that some engines write as floating-point numbers.
func integers(floats []float64) ([]int64, error) {
	list := make([]int64, len(floats))
	for i, v := range floats {
		if v != math.Trunc(v) || v >= 1<<63 || v < 0 {
			return nil, fmt.Errorf("%v is not an integer", v)
		}
		list[i] = int64(v)
	}
	return list, nil
}

var errDamaged = errors.New("damaged page")

// fillTexts reads the next texts, as many as dst has. Null is "".
func (c *column) fillTexts(dst []uint32, t *texts) error {
	for len(dst) > 0 {
		n, err := c.part(len(dst))
		if err == nil && (c.value == 0 || c.owner != t) {
			err = c.intern(t)
		}
		if err != nil {
			return c.failed(err)
		}
		present := c.present(n)
		if present == nil && c.page.Indexed && len(c.page.Index)-c.value >= n {
			for i, at := range c.page.Index[c.value : c.value+n] {
				if int(at) >= len(c.texts) {
					return c.failed(errDamaged)
				}
				dst[i] = c.texts[at]
			}
			c.at, c.value, dst = c.at+n, c.value+n, dst[n:]
			continue
		}
		for i := range n {
			dst[i] = 0
			if present != nil && int(present[i]) != c.maxDef {
				continue
			}
			at := uint32(c.value)
			if c.page.Indexed {
				if c.value >= len(c.page.Index) {
					return c.failed(errDamaged)
				}
				at = c.page.Index[c.value]
			}
			if int(at) >= len(c.texts) {
				return c.failed(errDamaged)
			}
			dst[i] = c.texts[at]
			c.value++
		}
		c.at += n
		dst = dst[n:]
	}
	return nil
}

// intern interns the texts of the page.
func (c *column) intern(t *texts) error {
	if c.page.Indexed && c.dictionary == c.page.Dictionary && c.owner == t {
		return nil
	}
	c.texts, c.dictionary, c.owner = c.texts[:0], 0, t
	if c.page.Indexed {
		c.dictionary = c.page.Dictionary
	}
	for _, b := range c.page.Texts {
		id, err := t.id(b)
		if err != nil {
			return err
		}
		c.texts = append(c.texts, id)
	}
	return nil
}

// wholeLists is the zero-copy version of fillLists, for lists that are all in the current page. The
// values alias the page and may be negative.
func (c *column) wholeLists(ends []int) (values []int64, ok bool) {
	at, first := c.at, c.value
	for row := range ends {
		n, ok := c.wholeList()
		if !ok {
			c.at, c.value = at, first
			return nil, false
		}
		c.value, c.at = c.value+n, c.at+max(n, 1)
		ends[row] = c.value - first
	}
	return c.page.Ints[first:c.value], true
}

// fillLists reads the lists of the next rows. It appends their values to dst, and returns
// where the list of each row ends.
func (c *column) fillLists(dst []int64, ends []int) ([]int64, error) {
	for row := range ends {
		if n, ok := c.wholeList(); ok {
			part := c.page.Ints[c.value : c.value+n]
			for _, v := range part {
				if v < 0 {
					return dst, c.failed(errNegative)
				}
			}
			dst = append(dst, part...)
			c.value, c.at = c.value+n, c.at+max(n, 1)
			ends[row] = len(dst)
			continue
		}
		first := true
		for {
			if c.page == nil || c.at == c.page.Values {
				ok, err := c.more()
				if err != nil {
					return dst, c.failed(err)
				}
				if !ok && first {
					return dst, c.failed(io.ErrUnexpectedEOF)
				}
				if !ok {
					break
				}
			}
			if (c.page.Reps[c.at] == 0) != first {
				break
			}
			first = false
			if int(c.page.Defs[c.at]) == c.maxDef {
				if c.value >= len(c.page.Ints) {
					return dst, c.failed(errDamaged)
				}
				v := c.page.Ints[c.value]
				if v < 0 {
					return dst, c.failed(errNegative)
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

// ones is eight levels of 1, one per byte.
const ones = 0x0101010101010101

// wholeList returns the length of the next list, if it ends in the page and has no nulls.
func (c *column) wholeList() (n int, ok bool) {
	p := c.page
	if p == nil || c.at >= p.Values || p.Reps[c.at] != 0 {
		return 0, false
	}
	reps, defs := p.Reps[c.at+1:], p.Defs[c.at:]
	for len(reps) >= n+8 { // compare eight levels at once
		more := bits.TrailingZeros64(binary.LittleEndian.Uint64(reps[n:])^ones) / 8
		if others := binary.LittleEndian.Uint64(defs[n:]) ^ ones*uint64(c.maxDef); others<<(64-8*more) != 0 {
			return 0, false
		}
		if n += more; more < 8 {
			break
		}
	}
	for n < len(reps) && reps[n] != 0 {
		if int(defs[n]) != c.maxDef {
			return 0, false
		}
		n++
	}
	if n == len(reps) {
		return 0, false // the list may continue in the next page
	}
	if int(defs[n]) == c.maxDef {
		n++
	} else if n > 0 {
		return 0, false
	}
	return n, c.value+n <= len(p.Ints)
}

// wholeValues is the zero-copy version of fillValues, for values that are all in the current page.
// The values alias the page and may be negative.
func (c *column) wholeValues(n int) (values []int64, ok bool) {
	if c.constant || c.page == nil || len(c.page.Ints)-c.value < n {
		return nil, false
	}
	c.value += n
	return c.page.Ints[c.value-n : c.value], true
}

// fillValues appends the next n values of lists to dst, across rows.
func (c *column) fillValues(dst []int64, n int) ([]int64, error) {
	if c.constant {
		if c.same < 0 {
			return dst, c.failed(errNegative)
		}
		for range n {
			dst = append(dst, c.same)
		}
		return dst, nil
	}
	for n > 0 {
		for c.page == nil || c.value == len(c.page.Ints) {
			page, err := c.pages.Next()
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return dst, c.failed(err)
			}
			c.page, c.value = page, 0
		}
		part := c.page.Ints[c.value:min(c.value+n, len(c.page.Ints))]
		sign := int64(0)
		for _, v := range part {
			sign |= v
		}
		if sign < 0 {
			return dst, c.failed(errNegative)
		}
		dst = append(dst, part...)
		n, c.value = n-len(part), c.value+len(part)
	}
	return dst, nil
}

func (c *column) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("column %s: %w", c.name, err)
}
