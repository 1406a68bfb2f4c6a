package parquetfile

import (
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// listElements describes to readers a list of structures with this many fields.
func listElements(name string, fields int32) []format.SchemaElement {
	list := format.SchemaElement{
		Name: name, RepetitionType: thrift.New(format.Required), NumChildren: thrift.New(int32(1)),
		ConvertedType: thrift.New(listType), LogicalType: format.LogicalType{Value: &format.ListType{}},
	}
	repeated := format.SchemaElement{Name: "list", RepetitionType: thrift.New(format.Repeated), NumChildren: thrift.New(int32(1))}
	element := format.SchemaElement{Name: "element", RepetitionType: thrift.New(format.Required), NumChildren: thrift.New(fields)}
	return []format.SchemaElement{list, repeated, element}
}

// NewDenseEncoder returns an encoder of a table that compresses better than that of
// [NewEncoder], and more slowly.
func NewDenseEncoder(columns []Column) *Encoder { return &Encoder{columns: columns, zstd: dense()} }

// dense is shared: it encodes pages concurrently.
var dense = sync.OnceValue(func() *zstd.Encoder { return newZstd(zstd.SpeedDefault, runtime.GOMAXPROCS(0)) })

func newZstd(level zstd.EncoderLevel, concurrency int) *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(concurrency), zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(false),
		// Times hardly repeat, but their bytes are not equally frequent. The fastest level would
		// leave pages without repetitions as they are.
		zstd.WithAllLitEntropyCompression(true))
	if err != nil {
		panic(err) // the options are right
	}
	return z
}

// Nullable encodes a value for each row, except rows whose null is set. If null is nil, all
// rows have values.
func (e *Encoder) Nullable(values []int64, null []bool) {
	c := e.column(Int32, Int64)
	k := e.begin(c)
	there := values
	if null != nil {
		there = make([]int64, 0, len(values))
		for i, v := range values {
			if !null[i] {
				there = append(there, v)
			}
		}
	}
	k.Statistics.NullCount = int64(len(values) - e.optional(c, len(values), null))
	e.integers(k, c.Kind, there, len(values))
}

// optional begins a page with which values of a column are null, if it may have nulls. It
// returns the number of others.
func (e *Encoder) optional(c *Column, n int, null []bool) (there int) {
	levels := make([]byte, n)
	for i := range levels {
		if null == nil || !null[i] {
			levels[i] = 1
			there++
		}
	}
	e.page = e.page[:0]
	switch {
	case !c.Optional:
	case there == 0, there == n:
		e.page = appendLevels(e.page, constantLevel(nil, n, byte(min(there, 1))))
	default:
		e.page = appendLevels(e.page, packLevels(nil, levels, 1))
	}
	return there
}

// maxDictionary is the size up to which a dictionary of integers is tried.
const maxDictionary = 1 << 13

// integers writes integers after the levels in e.page, as differences or with a dictionary,
// whichever is smaller. n is the number of values with nulls.
func (e *Encoder) integers(k *format.ColumnMetaData, kind Kind, values []int64, n int) {
	e.bound(k, kind, values)
	levels := len(e.page)
	e.page = e.appendDelta(e.page, kind, values)
	distinct, indices := dictionaryOf(values)
	if len(distinct) <= 1 || len(distinct)*4 > len(values) {
		e.dataPage(k, format.DeltaBinaryPacked, n)
		return
	}
	var dictionary []byte
	for _, v := range distinct {
		if kind == Int32 {
			dictionary = le.AppendUint32(dictionary, uint32(v))
		} else {
			dictionary = le.AppendUint64(dictionary, uint64(v))
		}
	}
	byIndex := appendIndices(slices.Clone(e.page[:levels]), indices, nil, len(indices), len(distinct))
	size := func(page []byte) int {
		e.packed = e.zstd.EncodeAll(page, e.packed[:0])
		return len(e.packed)
	}
	if size(e.page) <= size(dictionary)+size(byIndex) {
		e.dataPage(k, format.DeltaBinaryPacked, n)
		return
	}
	e.page = append(e.page[:0], dictionary...)
	e.dictionaryPage(k, len(distinct))
	e.page = append(e.page[:0], byIndex...)
	e.dataPage(k, format.RLEDictionary, n)
}

// dictionaryOf returns the distinct values in ascending order, and the index of each value.
// If there are too many, it returns nil.
func dictionaryOf(values []int64) (distinct []int64, indices []uint32) {
	index := make(map[int64]uint32)
	last, known := int64(0), false
	for _, v := range values {
		if known && v == last {
			continue
		}
		if last, known = v, true; len(index) > maxDictionary {
			return nil, nil
		}
		index[v] = 0
	}
	distinct = slices.Sorted(maps.Keys(index))
	for i, v := range distinct {
		index[v] = uint32(i)
	}
	indices = make([]uint32, len(values))
	for i, v := range values {
		indices[i] = index[v]
	}
	return distinct, indices
}

// appendDelta encodes integers by their differences.
func (e *Encoder) appendDelta(dst []byte, kind Kind, values []int64) []byte {
	var err error
	if kind == Int32 {
		short := make([]int32, len(values))
		for i, v := range values {
			short[i] = int32(v)
		}
		e.packed, err = e.delta.EncodeInt32(e.packed[:0], short)
	} else {
		e.packed, err = e.delta.EncodeInt64(e.packed[:0], values)
	}
	if err != nil {
		panic(err) // it has none
	}
	return append(dst, e.packed...)
}

// bound states minimum and maximum.
func (e *Encoder) bound(k *format.ColumnMetaData, kind Kind, values []int64) {
	if len(values) == 0 {
		return
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, v := range values {
		least, most = min(least, v), max(most, v)
	}
	k.Statistics.MinValue, k.Statistics.MaxValue = plain64(least), plain64(most)
	if kind == Int32 {
		k.Statistics.MinValue, k.Statistics.MaxValue = le.AppendUint32(nil, uint32(least)), le.AppendUint32(nil, uint32(most))
	}
}

// Sorted encodes strings, each by how it differs from the one before. It suits strings in
// order. They must be UTF-8.
func (e *Encoder) Sorted(values []string) {
	k := e.begin(e.column(String))
	prefixes, lengths := make([]int64, len(values)), make([]int64, len(values))
	last := ""
	var suffixes []byte
	for i, v := range values {
		n := 0
		for n < len(v) && n < len(last) && v[n] == last[n] {
			n++
		}
		prefixes[i], lengths[i] = int64(n), int64(len(v)-n)
		suffixes = append(suffixes, v[n:]...)
		last = v
	}
	e.page = e.appendDelta(e.page[:0], Int32, prefixes)
	e.page = e.appendDelta(e.page, Int32, lengths)
	e.page = append(e.page, suffixes...)
	e.dataPage(k, format.DeltaByteArray, len(values))
}

// Structs encodes a field of structures in lists. counts has the length of each row's list,
// whose values follow each other.
func (e *Encoder) Structs(counts []uint32, values []int64) {
	c := e.column(Int32, Int64)
	k := e.begin(c)
	slots := e.listLevels(k, counts, 1)
	e.integers(k, c.Kind, values, slots)
}

// SetMetadata adds a pair of key and value before the file is closed.
func (f *File) SetMetadata(key, value string) {
	f.meta.KeyValueMetadata = append(f.meta.KeyValueMetadata, format.KeyValue{Key: key, Value: value})
}
