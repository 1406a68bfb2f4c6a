// Package parquetfile writes and reads Parquet files column by column.
//
// It is for tables with many rows whose writer knows more about a column than a library can:
// that its values are those of a few hundred functions, for example. An [Encoder] encodes the
// columns of a row group, each as one dictionary page and one data page of version 1,
// compressed by zstd, with its minimum and maximum. Row groups may be encoded concurrently,
// each by an Encoder of its own. A [File] writes them one after the other. The encodings are
// those that readers have long understood: plain, dictionary and delta.
//
// Metadata and the delta encoding are those of github.com/parquet-go/parquet-go, whose own
// writer takes each value of a column in a structure, and looks each string up in a
// dictionary: with it, a row of 17 columns took six times as long.
//
// Output depends only on what is written.
//
// A [Reader] reads files of any program, with [Pages] of each column. It decodes them with bounded
// memory, and does not trust the sizes that they claim. The library does neither.
package parquetfile

import (
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Kind is the type of a column's values.
type Kind uint8

// The kinds of values.
const (
	Int32 Kind = iota
	Int64
	Uint64
	String // UTF-8
	Bytes
)

// String returns the name of the type in Parquet's documentation.
func (k Kind) String() string {
	return [...]string{"INT32", "INT64", "UINT_64", "STRING", "BYTE_ARRAY"}[k]
}

// Column describes a column.
type Column struct {
	Name string
	Kind Kind
	// Optional columns may be null. Lists always are optional, and their elements are not.
	Optional, List bool
	// In is the list of structures that the column is a field of, or "". The fields of a list
	// follow each other.
	In string
}

const listType = deprecated.List

func (k Kind) physical() format.Type {
	switch k {
	case Int32:
		return format.Int32
	case String, Bytes:
		return format.ByteArray
	}
	return format.Int64
}

// element describes a value to readers.
func (k Kind) element(name string, repetition format.FieldRepetitionType) format.SchemaElement {
	e := format.SchemaElement{
		Name: name, Type: thrift.New(k.physical()), RepetitionType: thrift.New(repetition),
	}
	switch k {
	case Uint64:
		e.ConvertedType = thrift.New(deprecated.Uint64)
		e.LogicalType.Value = &format.IntType{BitWidth: 64}
	case String:
		e.ConvertedType = thrift.New(deprecated.UTF8)
		e.LogicalType.Value = &format.StringType{}
	}
	return e
}

// elements describes a column to readers.
func (c *Column) elements() []format.SchemaElement {
	if !c.List {
		repetition := format.Required
		if c.Optional {
			repetition = format.Optional
		}
		return []format.SchemaElement{c.Kind.element(c.Name, repetition)}
	}
	list := format.SchemaElement{
		Name: c.Name, RepetitionType: thrift.New(format.Optional), NumChildren: thrift.New(int32(1)),
		ConvertedType: thrift.New(listType), LogicalType: format.LogicalType{Value: &format.ListType{}},
	}
	repeated := format.SchemaElement{Name: "list", RepetitionType: thrift.New(format.Repeated), NumChildren: thrift.New(int32(1))}
	return []format.SchemaElement{list, repeated, c.Kind.element("element", format.Required)}
}

// path is the column's path in the schema.
func (c *Column) path() []string {
	if c.In != "" {
		return []string{c.In, "list", "element", c.Name}
	}
	if c.List {
		return []string{c.Name, "list", "element"}
	}
	return []string{c.Name}
}

func schemaOf(name string, columns []Column) []format.SchemaElement {
	list := []format.SchemaElement{{Name: name}}
	children := int32(0)
	for i := range columns {
		in := columns[i].In
		if in == "" || i == 0 || columns[i-1].In != in {
			children++
		}
		if in != "" && (i == 0 || columns[i-1].In != in) {
			fields := int32(1)
			for k := i + 1; k < len(columns) && columns[k].In == in; k++ {
				fields++
			}
			list = append(list, listElements(in, fields)...)
		}
		list = append(list, columns[i].elements()...)
	}
	list[0].NumChildren = thrift.New(children)
	return list
}
