package summary

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xray-tools/xray/tables/parquetfile"
)

// Magic begins and ends Parquet files.
const Magic = "PAR1"

// File is a summary. It is not for concurrent use.
type File struct {
	name  string
	file  *parquetfile.Reader
	meta  *fileMeta  // nil if another program wrote the rows, so that their order is unknown
	texts *texts     // of names and paths
	keys  [5]*column // nil if the file has none
	path  *column
	depth *column // nil if the file has none
	// function, symbol, file, line, object
	names  [4]*column
	line   *column
	values [len(counterColumns)]*column
	least  *column
	most   *column
	bins   [4]*column

	at   int // the current row group; left is the number of unread rows in it
	left int64
	done int64 // number of rows read
}

// Open opens a summary of size bytes. Errors call it name.
func Open(r io.ReaderAt, size int64, name string) (*File, error) {
	return open(parquetfile.OpenReader, r, size, name)
}

func open(opener func(io.ReaderAt, int64) (*parquetfile.Reader, error), r io.ReaderAt, size int64, name string) (f *File, err error) {
	f = &File{name: name, at: -1, texts: newTexts()}
	if f.file, err = opener(r, size); err == nil {
		err = f.findColumns()
	}
	if err == nil {
		err = f.readMeta()
	}
	return f, f.named(err)
}

// named names the file in an error.
func (f *File) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", f.name, err)
}

// findColumns finds the columns by name.
func (f *File) findColumns() error {
	leaves := make(map[string]*column)
	for i := range f.file.Leaves {
		leaf := &f.file.Leaves[i]
		name := leaf.Path[0]
		if len(leaf.Path) > 1 {
			name += "." + leaf.Path[len(leaf.Path)-1]
		}
		leaves[name] = &column{name: name, leaf: i, maxDef: leaf.MaxDef}
	}
	var missing []string
	find := func(name string, required bool, lists int) *column {
		c := leaves[name]
		if c != nil && f.file.Leaves[c.leaf].MaxRep == lists {
			return c
		}
		if required {
			missing = append(missing, name)
		}
		return nil
	}
	for i, name := range keyColumns {
		f.keys[i] = find(name, name == "unit", 0)
	}
	f.path, f.depth, f.line = find("path", true, 0), find("depth", false, 0), find("line", false, 0)
	for i, name := range nameColumns {
		f.names[i] = find(name, false, 0)
	}
	for i, name := range counterColumns {
		f.values[i] = find(name, true, 0)
	}
	f.least, f.most = find("min", true, 0), find("max", true, 0)
	for i, name := range binColumns {
		f.bins[i] = find(binsColumn+"."+name, true, 1)
	}
	if len(missing) > 0 {
		return fmt.Errorf("not a summary of xray: it has no column %s", strings.Join(missing, ", "))
	}
	return nil
}

// readMeta reads the metadata that Writer stores in a file.
func (f *File) readMeta() error {
	text, ok := f.file.Metadata[metaKey]
	if !ok {
		return nil
	}
	var meta fileMeta
	if err := json.Unmarshal([]byte(text), &meta); err != nil {
		return fmt.Errorf("its metadata %s: %w", metaKey, err)
	}
	if meta.Version > Version {
		return fmt.Errorf("the summary has version %d of the schema, but this xray supports version %d: use a newer xray", meta.Version, Version)
	}
	// Some programs copy the metadata of files that they change.
	if f.file.CreatedBy != creator {
		return nil
	}
	rows := int64(0)
	for i := range meta.Groups {
		g := &meta.Groups[i]
		if g.Rows <= 0 || g.Rows > f.file.Rows-rows || i > 0 && meta.Groups[i-1].Key.Compare(&g.Key) >= 0 {
			return fmt.Errorf("its metadata %s does not fit its rows", metaKey)
		}
		rows += g.Rows
	}
	if rows != f.file.Rows {
		return fmt.Errorf("its metadata %s does not fit its rows", metaKey)
	}
	f.meta = &meta
	return nil
}

// Ordered reports whether the rows are in the order of this package, so that groups can be
// read one by one.
func (f *File) Ordered() bool { return f.meta != nil }

// Keys returns the keys of an ordered file, in order.
func (f *File) Keys() []Key {
	keys := make([]Key, len(f.meta.Groups))
	for i := range keys {
		keys[i] = f.meta.Groups[i].Key
	}
	return keys
}

// KnowsOffCPU reports whether an ordered file has off-CPU times in all rows.
func (f *File) KnowsOffCPU() bool {
	for group := range f.file.Groups {
		if f.file.Nulls(group, f.values[onCPU].leaf) != 0 {
			return false
		}
	}
	return true
}

// AddTo adds the rows of a group of an ordered file, by its index in Keys. It is cheapest
// in the order of Keys. The group is complete only when Merge passes it on.
func (f *File) AddTo(g *Group, index int) error {
	a := g.rowAdder()
	f.texts = a.texts
	first := int64(0)
	for i := range index {
		first += f.meta.Groups[i].Rows
	}
	err := f.seek(first)
	if err == nil {
		err = f.rowsInto(a.batch, f.meta.Groups[index].Rows, a.orderedRows)
	}
	return f.named(err)
}

// seek goes to a row.
func (f *File) seek(row int64) error {
	groups := f.file.Groups
	if row < f.done {
		f.at, f.left, f.done = -1, 0, 0
	}
	for f.done < row {
		if f.left > 0 && f.done+f.left > row {
			n := row - f.done
			return f.rowsInto(newBatch(n), n, func(*batch) error { return nil })
		}
		f.done += f.left
		f.left = 0
		if f.done == row {
			break
		}
		if f.at++; f.at >= len(groups) {
			return io.ErrUnexpectedEOF
		}
		f.left = groups[f.at]
		if f.done+f.left > row {
			f.openGroup()
		}
	}
	return nil
}

func (f *File) columns() []*column {
	list := append([]*column{f.path, f.depth, f.line, f.least, f.most}, f.keys[:]...)
	list = append(list, f.names[:]...)
	list = append(list, f.values[:]...)
	list = append(list, f.bins[:]...)
	return slices.DeleteFunc(list, func(c *column) bool { return c == nil })
}

// openGroup begins to read the row group.
func (f *File) openGroup() {
	for _, c := range f.columns() {
		if f.meta != nil && (c == f.path || slices.Contains(f.keys[:], c)) {
			continue // redundant: the metadata, depths and functions determine them
		}
		if f.meta != nil && slices.Contains(f.bins[1:], c) {
			c.openValues(f.file, f.at) // its levels are those of f.bins[0]
			continue
		}
		c.open(f.file, f.at)
	}
}

// Close frees memory. The file can be read again afterwards.
func (f *File) Close() {
	for _, c := range f.columns() {
		c.close()
	}
	f.at, f.left, f.done = -1, 0, 0
}

// batchRows is the number of rows that are read together.
const batchRows = 1024

// batch are rows, column by column.
type batch struct {
	n           int
	keys        [5][]uint32
	paths       []uint32
	depth, line []int64
	names       [4][]uint32
	values      [len(counterColumns)][]int64
	counts      [len(counterColumns)]bool // whether a value is not 0
	noOff       []bool
	untimed     []bool // no call has a duration
	least, most []int64
	binEnds     []int
	bins        [4][]int64 // may alias a page
	own         [4][]int64 // own memory for values that do not
	coarse      bool       // whether a bin has Counts.Coarse
}

// extremes returns the shortest and the longest duration of a row.
func (b *batch) extremes(i int) (least, most uint64) {
	if b.untimed[i] {
		return maxValue, 0
	}
	return uint64(b.least[i]), uint64(b.most[i])
}

// newBatch returns a batch for up to n rows.
func newBatch(n int64) *batch {
	n = min(n, batchRows)
	b := &batch{
		depth: make([]int64, n), line: make([]int64, n), least: make([]int64, n), most: make([]int64, n),
		noOff: make([]bool, n), untimed: make([]bool, n), binEnds: make([]int, n), paths: make([]uint32, n),
	}
	for i := range b.keys {
		b.keys[i] = make([]uint32, n)
	}
	for i := range b.names {
		b.names[i] = make([]uint32, n)
	}
	for i := range b.values {
		b.values[i] = make([]int64, n)
	}
	return b
}

// rowsInto reads the next n rows to b, as many as fit at a time, and passes them to fn.
func (f *File) rowsInto(b *batch, n int64, fn func(*batch) error) error {
	groups := f.file.Groups
	for n > 0 {
		if f.left == 0 {
			if f.at++; f.at >= len(groups) {
				return io.ErrUnexpectedEOF
			}
			f.left = groups[f.at]
			f.openGroup()
			continue
		}
		b.n = int(min(n, f.left, batchRows))
		if err := f.read(b); err != nil {
			return err
		}
		n, f.left, f.done = n-int64(b.n), f.left-int64(b.n), f.done+int64(b.n)
		if err := fn(b); err != nil {
			return err
		}
	}
	return nil
}

// read reads the next b.n rows.
func (f *File) read(b *batch) error {
	t := f.texts
	texts := func(c *column, dst []uint32) error {
		if c == nil {
			clear(dst)
			return nil
		}
		return c.fillTexts(dst[:b.n], t)
	}
	ints := func(c *column, dst []int64, null []bool) error {
		if c == nil {
			clear(dst)
			return nil
		}
		return c.fill(dst[:b.n], null)
	}
	var errs []error
	if f.meta == nil {
		errs = append(errs, texts(f.path, b.paths))
		for i, c := range f.keys {
			errs = append(errs, texts(c, b.keys[i]))
		}
	}
	for i, c := range f.names {
		errs = append(errs, texts(c, b.names[i]))
	}
	errs = append(errs, ints(f.depth, b.depth, nil), ints(f.line, b.line, nil), ints(f.least, b.least, b.untimed[:b.n]), ints(f.most, b.most, nil))
	for i, c := range f.values {
		var null []bool
		if i == onCPU {
			null = b.noOff[:b.n]
		}
		errs = append(errs, ints(c, b.values[i], null))
		b.counts[i] = c == nil || !c.constant || c.same != 0
	}
	ends := b.binEnds[:b.n]
	for i, c := range f.bins {
		var err error
		var whole bool
		switch {
		case f.meta == nil:
			b.bins[i], err = c.fillLists(b.own[i][:0], ends)
			b.own[i] = b.bins[i]
		case i == 0:
			if b.bins[i], whole = c.wholeLists(ends); !whole {
				b.bins[i], err = c.fillLists(b.own[i][:0], ends)
				b.own[i] = b.bins[i]
			}
		default:
			if b.bins[i], whole = c.wholeValues(len(b.bins[0])); !whole {
				b.bins[i], err = c.fillValues(b.own[i][:0], len(b.bins[0]))
				b.own[i] = b.bins[i]
			}
		}
		errs = append(errs, err)
	}
	b.coarse = !f.bins[3].constant || f.bins[3].same != 0
	for i := range b.bins {
		if len(b.bins[i]) != len(b.bins[0]) {
			errs = append(errs, errors.New("the columns of bins have different lengths"))
		}
	}
	return errors.Join(errs...)
}
