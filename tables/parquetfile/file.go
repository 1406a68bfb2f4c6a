package parquetfile

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const magic = "PAR1"

var compact thrift.CompactProtocol

// File writes a table to an io.Writer. It keeps the description of each row group until it is
// closed: some kilobytes for two dozen columns. It is not safe for concurrent use.
type File struct {
	w       io.Writer
	columns []Column
	meta    format.FileMetaData
	offset  int64
	// checksums are those of the page headers of all columns
	checksums []byte
}

// NewFile begins a file of a table. metadata are pairs of keys and values.
func NewFile(w io.Writer, table, createdBy string, columns []Column, metadata [][2]string) (*File, error) {
	f := &File{w: w, columns: columns}
	f.meta = format.FileMetaData{Version: 2, Schema: schemaOf(table, columns), CreatedBy: createdBy}
	for _, kv := range metadata {
		f.meta.KeyValueMetadata = append(f.meta.KeyValueMetadata, format.KeyValue{Key: kv[0], Value: kv[1]})
	}
	for range columns {
		f.meta.ColumnOrders = append(f.meta.ColumnOrders, format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
	}
	return f, f.write([]byte(magic))
}

func (f *File) write(p []byte) error {
	n, err := f.w.Write(p)
	f.offset += int64(n)
	return err
}

// Rows returns the number of rows written.
func (f *File) Rows() int64 { return f.meta.NumRows }

// Append writes a row group, which it does not retain. Empty row groups are left out.
func (f *File) Append(g *Group) error {
	if len(g.chunks) != len(f.columns) {
		return fmt.Errorf("parquetfile: row group of %d columns in a table of %d", len(g.chunks), len(f.columns))
	}
	if g.rows == 0 {
		return nil
	}
	group := format.RowGroup{
		NumRows: int64(g.rows), FileOffset: f.offset, TotalCompressedSize: int64(len(g.data)),
		Ordinal: int16(len(f.meta.RowGroups)),
	}
	for i := range g.chunks {
		meta := g.chunks[i]
		meta.PathInSchema = f.columns[i].path()
		if meta.DictionaryPageOffset >= 0 {
			meta.DictionaryPageOffset += f.offset
		} else {
			meta.DictionaryPageOffset = 0
		}
		meta.DataPageOffset += f.offset
		group.TotalByteSize += meta.TotalUncompressedSize
		f.checksums = appendChecksum(f.checksums, g.headers[i])
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: meta})
	}
	f.meta.RowGroups = append(f.meta.RowGroups, group)
	f.meta.NumRows += int64(g.rows)
	return f.write(g.data)
}

// Close writes the end of the file, and leaves the io.Writer open.
func (f *File) Close() error {
	f.SetMetadata(checksumsKey, noChecksum+string(f.checksums))
	footer, err := thrift.Marshal(&compact, &f.meta)
	if err != nil {
		return err
	}
	sealFooter(footer, f.checksums)
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	return f.write(append(footer, magic...))
}
