package parquetfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Group is an encoded row group.
type Group struct {
	rows   int
	data   []byte                  // of all columns
	chunks []format.ColumnMetaData // offsets are those in data; -1 for none
	// headers are the checksums of the page headers of each column
	headers []uint32
}

// Encoder encodes row groups of a table. Its methods encode one column each, in the order of
// the table. It is not safe for concurrent use.
type Encoder struct {
	columns []Column
	group   *Group
	zstd    *zstd.Encoder
	delta   delta.BinaryPackedEncoding
	page    []byte   // before compression
	packed  []byte   // after it
	index   Indexer  // of integers
	used    []uint32 // index in the dictionary of each value, or key
	via     []uint32
	levels  []byte
	indices []uint32
	// recent are the last pages of the group. oldest is replaced next.
	recent [4]recentPage
	oldest int
	latest int // index in recent of the latest page, or -1
	before indexPage
}

// recentPage is a page, and where it is in the group's data after compression.
type recentPage struct {
	page     []byte
	from, to int
}

// indexPage says what the latest page of indices was made of.
type indexPage struct {
	page     int // index in recent, or -1
	used     []uint32
	distinct int
	optional bool
	nulls    int64
}

// NewEncoder returns an encoder of a table.
func NewEncoder(columns []Column) *Encoder {
	return &Encoder{columns: columns, zstd: newZstd(zstd.SpeedFastest, 1)}
}

// Begin starts a row group in the memory of g.
func (e *Encoder) Begin(g *Group, rows int) {
	e.group = g
	g.rows, g.data, g.chunks = rows, g.data[:0], g.chunks[:0]
	g.headers = g.headers[:0]
	for i := range e.recent {
		e.recent[i].page = e.recent[i].page[:0]
	}
	e.before.page = -1
}

// column returns the column that comes next, which must be of a kind.
func (e *Encoder) column(kinds ...Kind) *Column {
	c := &e.columns[len(e.group.chunks)]
	for _, k := range kinds {
		if c.Kind == k {
			return c
		}
	}
	panic(fmt.Sprintf("parquetfile: column %s is of %v", c.Name, c.Kind))
}

// Null encodes a column without values.
func (e *Encoder) Null() {
	c := &e.columns[len(e.group.chunks)]
	k := e.begin(c)
	k.Statistics.NullCount = int64(e.group.rows)
	e.page = e.page[:0]
	if c.List {
		e.page = appendLevels(e.page, constantLevel(nil, e.group.rows, 0))
	}
	e.page = appendLevels(e.page, constantLevel(nil, e.group.rows, 0))
	e.dataPage(k, format.Plain, e.group.rows)
}

// Int64s encodes a value for each row by differences.
func (e *Encoder) Int64s(values []int64) {
	c := e.column(Int64)
	k := e.begin(c)
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, v := range values {
		least, most = min(least, v), max(most, v)
	}
	k.Statistics.MinValue, k.Statistics.MaxValue = plain64(least), plain64(most)
	e.page = e.page[:0]
	if c.Optional {
		e.page = appendLevels(e.page, constantLevel(nil, len(values), 1))
	}
	var err error
	if e.packed, err = e.delta.EncodeInt64(e.packed[:0], values); err != nil {
		panic(err) // it has none
	}
	e.page = append(e.page, e.packed...)
	e.dataPage(k, format.DeltaBinaryPacked, len(values))
}

// Keyed says which value each row has: values[keys[row]], or with Via
// values[Via[keys[row]]]. If the index of the value is Absent, the row is null.
type Keyed struct {
	Keys []uint32 // by row; nil if all rows have key 0
	Via  []uint32 // by key, or nil
	Gaps bool     // Keys may have Absent
	// Again says that the column before had the same Keys, Via and Gaps.
	Again bool
}

// Absent is the index of no value.
const Absent = math.MaxUint32

// Int32Of encodes a column of few distinct values. Each of values must be used.
func (e *Encoder) Int32Of(k Keyed, values []int32) {
	e.column(Int32)
	keyed(e, k, values, number, func(dst []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(dst, uint32(v)) },
		func(v int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) })
}

// Int64Of encodes a column of few distinct values. Each of values must be used.
func (e *Encoder) Int64Of(k Keyed, values []int64) {
	e.column(Int64)
	keyed(e, k, values, number, func(dst []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(dst, uint64(v)) }, plain64)
}

// Uint64Of encodes a column of few distinct values. Each of values must be used.
func (e *Encoder) Uint64Of(k Keyed, values []uint64) {
	e.column(Uint64)
	keyed(e, k, values, number, binary.LittleEndian.AppendUint64, func(v uint64) []byte { return plain64(int64(v)) })
}

// StringOf encodes a column of few distinct values. Each of values must be used. Those of a
// column of strings must be UTF-8.
func (e *Encoder) StringOf(k Keyed, values []string) {
	e.column(String, Bytes)
	keyed(e, k, values, numberStrings, appendString, func(v string) []byte {
		if len(v) > longestBound {
			return nil
		}
		return []byte(v)
	})
}

// longestBound is the length of the longest string that is a minimum or maximum. Longer ones
// are left out, so that the description of a row group stays small.
const longestBound = 1 << 10

func appendString(dst []byte, v string) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(v))), v...)
}

func plain64(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }

// number appends to e.used the index in the dictionary of each value: values that are equal have one
// index, because readers may take different indices for different values. It returns the number of
// the distinct ones.
func number[T int32 | int64 | uint64](e *Encoder, values []T) int {
	e.index.Reset()
	for _, v := range values {
		e.used = append(e.used, e.index.Add(uint64(v)))
	}
	return len(e.index.Values())
}

// numberStrings is number for strings.
func numberStrings(e *Encoder, values []string) int {
	index := make(map[string]uint32, len(values))
	for _, v := range values {
		at, known := index[v]
		if !known {
			at = uint32(len(index))
			index[v] = at
		}
		e.used = append(e.used, at)
	}
	return len(index)
}

// keyed encodes a column by a dictionary.
func keyed[T interface {
	int32 | int64 | uint64 | string
}](e *Encoder, k Keyed, values []T, number func(*Encoder, []T) int, plain func([]byte, T) []byte, bound func(T) []byte) {
	c := &e.columns[len(e.group.chunks)]
	chunk := e.begin(c)
	e.used = e.used[:0]
	e.page = e.page[:0]
	distinct := number(e, values)
	written := uint32(0)
	var least, most T
	for i, v := range values {
		if e.used[i] != written {
			continue
		}
		e.page = plain(e.page, v)
		if written == 0 {
			least, most = v, v
		}
		least, most = min(least, v), max(most, v)
		written++
	}
	missing := len(values) == 0
	if k.Via != nil {
		e.via = e.via[:0]
		for _, at := range k.Via {
			if at != Absent {
				at = e.used[at]
			}
			missing = missing || at == Absent
			e.via = append(e.via, at)
		}
		e.used, e.via = e.via, e.used
	}
	if len(values) > 0 {
		if low, high := bound(least), bound(most); low != nil && high != nil {
			chunk.Statistics.MinValue, chunk.Statistics.MaxValue = low, high
		}
		e.dictionaryPage(chunk, distinct)
	}
	e.page = e.page[:0]
	b := &e.before
	switch {
	case k.Again && b.page >= 0 && b.distinct == distinct && b.optional == c.Optional && slices.Equal(b.used, e.used):
		chunk.Statistics.NullCount = b.nulls
		e.page = append(e.page, e.recent[b.page].page...)
	case c.Optional && (missing || k.Gaps):
		e.choose(k.Keys)
		chunk.Statistics.NullCount = int64(e.group.rows - len(e.indices))
		e.page = appendLevels(e.page, e.definition())
		if len(values) == 0 {
			e.dataPage(chunk, format.Plain, e.group.rows)
			return
		}
		e.page = appendIndices(e.page, e.indices, nil, len(e.indices), distinct)
	case c.Optional:
		e.page = appendLevels(e.page, constantLevel(nil, e.group.rows, 1))
		fallthrough
	default:
		used := e.used
		if k.Via == nil && distinct == len(values) {
			used = nil
		}
		e.page = appendIndices(e.page, k.Keys, used, e.group.rows, distinct)
	}
	e.dataPage(chunk, format.RLEDictionary, e.group.rows)
	*b = indexPage{e.latest, append(b.used[:0], e.used...), distinct, c.Optional, chunk.Statistics.NullCount}
}

// choose sets e.indices to the indices of the rows that are not null, and e.levels to which
// rows these are.
func (e *Encoder) choose(keys []uint32) {
	rows, n := e.group.rows, 0
	e.levels, e.indices = slices.Grow(e.levels[:0], rows)[:rows], slices.Grow(e.indices[:0], rows)[:rows]
	levels, indices := e.levels, e.indices
	for row := range levels {
		at := uint32(0)
		if keys != nil {
			at = keys[row]
		}
		if at != Absent {
			at = e.used[at]
		}
		levels[row], indices[n] = 0, at
		if at != Absent {
			levels[row] = 1
			n++
		}
	}
	e.indices = indices[:n]
}

// definition encodes which rows are not null.
func (e *Encoder) definition() []byte {
	switch len(e.indices) {
	case 0:
		return constantLevel(nil, e.group.rows, 0)
	case e.group.rows:
		return constantLevel(nil, e.group.rows, 1)
	}
	return packLevels(nil, e.levels, 1)
}

// Uint64Lists encodes lists. counts has the length of each row's list, whose values follow
// each other; rows without one are null.
func (e *Encoder) Uint64Lists(counts []uint32, values []uint64) {
	e.lists(e.column(Uint64), counts, len(values), func(dst []byte) []byte {
		for _, v := range values {
			dst = binary.LittleEndian.AppendUint64(dst, v)
		}
		return dst
	})
}

// StringLists is Uint64Lists for strings.
func (e *Encoder) StringLists(counts []uint32, values []string) {
	e.lists(e.column(String), counts, len(values), func(dst []byte) []byte {
		for _, v := range values {
			dst = appendString(dst, v)
		}
		return dst
	})
}

func (e *Encoder) lists(c *Column, counts []uint32, values int, plain func([]byte) []byte) {
	k := e.begin(c)
	slots := e.listLevels(k, counts, 2)
	e.page = plain(e.page)
	e.dataPage(k, format.Plain, slots)
}

// listLevels begins a page of lists, in which values have the definition level given, and
// returns the number of its slots: a value, or an empty list.
func (e *Encoder) listLevels(k *format.ColumnMetaData, counts []uint32, level byte) int {
	var repetition, definition []byte
	for _, n := range counts {
		if n == 0 {
			repetition, definition = append(repetition, 0), append(definition, 0)
			k.Statistics.NullCount++
		}
		for i := range n {
			repetition, definition = append(repetition, byte(min(i, 1))), append(definition, level)
		}
	}
	e.page = appendLevels(e.page[:0], packLevels(nil, repetition, 1))
	e.page = appendLevels(e.page, packLevels(nil, definition, bits.Len8(level)))
	return len(repetition)
}

// begin starts a column.
func (e *Encoder) begin(c *Column) *format.ColumnMetaData {
	e.group.chunks = append(e.group.chunks, format.ColumnMetaData{
		Type: c.Kind.physical(), Codec: format.Zstd, DictionaryPageOffset: -1,
	})
	e.group.headers = append(e.group.headers, 0)
	return &e.group.chunks[len(e.group.chunks)-1]
}

// dictionaryPage writes e.page as the dictionary of a column.
func (e *Encoder) dictionaryPage(k *format.ColumnMetaData, values int) {
	k.DictionaryPageOffset = int64(len(e.group.data))
	e.addPage(k, &format.PageHeader{
		Type:                 format.DictionaryPage,
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(values), Encoding: format.Plain}),
	})
	k.EncodingStats = append(k.EncodingStats, format.PageEncodingStats{PageType: format.DictionaryPage, Encoding: format.Plain, Count: 1})
	k.Encoding = append(k.Encoding, format.Plain)
}

// dataPage writes e.page as the values of a column, nulls included.
func (e *Encoder) dataPage(k *format.ColumnMetaData, encoding format.Encoding, values int) {
	k.DataPageOffset, k.NumValues = int64(len(e.group.data)), int64(values)
	header := format.DataPageHeader{
		NumValues: int32(values), Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
	}
	e.addPage(k, &format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(header)})
	k.EncodingStats = append(k.EncodingStats, format.PageEncodingStats{PageType: format.DataPage, Encoding: encoding, Count: 1})
	k.Encoding = append(k.Encoding, encoding, format.RLE)
}

// addPage compresses e.page, which then has other bytes.
func (e *Encoder) addPage(k *format.ColumnMetaData, header *format.PageHeader) {
	packed := e.pack()
	header.UncompressedPageSize, header.CompressedPageSize = int32(len(e.page)), int32(len(packed))
	header.CRC = int32(crc32.ChecksumIEEE(packed))
	head, err := thrift.Marshal(&compact, header)
	if err != nil {
		panic(err) // the structure is the library's own
	}
	sum := &e.group.headers[len(e.group.headers)-1]
	*sum = crc32.Update(*sum, castagnoli, head)
	data := append(append(e.group.data, head...), packed...)
	e.group.data = data
	k.TotalUncompressedSize += int64(len(head) + len(e.page))
	k.TotalCompressedSize += int64(len(head) + len(packed))
	if e.latest < 0 && len(e.page) >= leastRecent {
		e.latest = e.oldest
		e.oldest = (e.oldest + 1) % len(e.recent)
		r := &e.recent[e.latest]
		e.page, *r = r.page, recentPage{e.page, len(data) - len(packed), len(data)}
	}
}

// pack returns e.page compressed, and sets e.latest if it is one of e.recent. Columns that depend on
// each other, as names on IDs, often have equal pages.
func (e *Encoder) pack() []byte {
	for i := range e.recent {
		if r := &e.recent[i]; len(r.page) > 0 && bytes.Equal(r.page, e.page) {
			e.latest = i
			return e.group.data[r.from:r.to]
		}
	}
	e.latest = -1
	e.packed = e.zstd.EncodeAll(e.page, e.packed[:0])
	return e.packed
}

// leastRecent is the minimum size in bytes of a page that is kept.
const leastRecent = 1 << 10

// appendIndices appends indices in a dictionary of that size: those of keys, or if table is
// not nil, table[key]. Each takes whole bytes, so that the compression finds repetitions.
func appendIndices(dst []byte, keys, table []uint32, rows, size int) []byte {
	width := max(bits.Len(uint(size-1))+7, 8) / 8
	dst = append(dst, byte(8*width))
	if size == 1 {
		dst = append(binary.AppendUvarint(dst, uint64(rows)<<1), 0)
		return dst
	}
	groups := (rows + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
	start := len(dst)
	dst = slices.Grow(dst, groups*8*width)[:start+groups*8*width]
	out := dst[start:]
	clear(out[rows*width:])
	keys = keys[:rows]
	switch {
	case width == 1 && table == nil:
		for i, k := range keys {
			out[i] = byte(k)
		}
	case width == 1:
		for i, k := range keys {
			out[i] = byte(table[k])
		}
	case width == 2 && table == nil:
		for i, k := range keys {
			binary.LittleEndian.PutUint16(out[2*i:], uint16(k))
		}
	case width == 2:
		for i, k := range keys {
			binary.LittleEndian.PutUint16(out[2*i:], uint16(table[k]))
		}
	default:
		for i, k := range keys {
			if table != nil {
				k = table[k]
			}
			for b := range width {
				out[width*i+b] = byte(k >> (8 * b))
			}
		}
	}
	return dst
}

// appendLevels appends encoded levels as data pages have them.
func appendLevels(dst, levels []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(levels))), levels...)
}

// constantLevel encodes a level that all values have.
func constantLevel(dst []byte, values int, level byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(values)<<1), level)
}

// packLevels encodes levels of 1 or 2 bits.
func packLevels(dst, levels []byte, width int) []byte {
	groups := (len(levels) + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
	at := len(dst)
	dst = append(dst, make([]byte, groups*width)...)
	i := 0
	for ; width == 1 && i+8 <= len(levels); i += 8 {
		// The product has the lowest bit of each byte, in their order, in its highest byte.
		dst[at+i/8] = byte(binary.LittleEndian.Uint64(levels[i:]) * 0x0102040810204080 >> 56)
	}
	for ; i < len(levels); i++ {
		level, bit := levels[i], i*width
		dst[at+bit/8] |= level << (bit % 8)
	}
	return dst
}
