package parquet

import (
	"fmt"
	"io"

	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// rows writes a small table row by row.
type rows struct {
	file    *parquetfile.File
	closer  io.Closer
	columns []parquetfile.Column
	encoder *parquetfile.Encoder
	group   parquetfile.Group
	cells   []cells // by column
	n, size int
}

// cells has the values of a column that are not written yet. Only one of ints and texts is used.
type cells struct {
	keys   []uint32
	ints   []int64
	texts  []string
	counts []uint32 // of lists
}

// groupRows and groupBytes limit a row group, the latter by the length of its texts. valueBytes does so for the
// arguments and results of calls, of which there are many groups at a time.
const (
	groupRows  = 1 << 17
	groupBytes = 16 << 20
	valueBytes = 4 << 20
)

func (w *Writer) newRows(t *tables.Table) (*rows, error) {
	file, closer, err := w.create(t, 0)
	if err != nil {
		return nil, err
	}
	columns := t.InFiles()
	return &rows{
		file: file, closer: closer, columns: columns, encoder: parquetfile.NewEncoder(columns), cells: make([]cells, len(columns)),
	}, nil
}

// add adds a row of values as [tables.Of] has them.
func (r *rows) add(values []any) error {
	for i, v := range values {
		c := &r.cells[i]
		key := uint32(len(c.ints) + len(c.texts))
		switch v := v.(type) {
		case nil:
			key = parquetfile.Absent
			c.counts = append(c.counts, 0)
		case int64:
			c.ints = append(c.ints, v)
		case string:
			c.texts = append(c.texts, valid(v))
			r.size += len(v)
		case []byte:
			c.texts = append(c.texts, string(v))
			r.size += len(v)
		case []string:
			for _, s := range v {
				c.texts = append(c.texts, valid(s))
			}
			c.counts = append(c.counts, uint32(len(v)))
		default:
			return fmt.Errorf("column %s: unexpected type %T", r.columns[i].Name, v)
		}
		c.keys = append(c.keys, key)
	}
	if r.n++; r.n < groupRows && r.size < groupBytes {
		return nil
	}
	return r.flush()
}

func (r *rows) flush() error {
	if r.n == 0 {
		return nil
	}
	r.encoder.Begin(&r.group, r.n)
	for i := range r.cells {
		c := &r.cells[i]
		of := parquetfile.Keyed{Keys: c.keys, Gaps: true}
		switch column := &r.columns[i]; {
		case column.List:
			r.encoder.StringLists(c.counts, c.texts)
		case column.Kind == parquetfile.String, column.Kind == parquetfile.Bytes:
			r.encoder.StringOf(of, c.texts)
		case column.Kind == parquetfile.Int32:
			r.encoder.Int32Of(of, narrow(c.ints))
		case column.Kind == parquetfile.Uint64:
			r.encoder.Uint64Of(of, unsigned(c.ints))
		default:
			r.encoder.Int64Of(of, c.ints)
		}
		c.keys, c.ints, c.texts, c.counts = c.keys[:0], c.ints[:0], c.texts[:0], c.counts[:0]
	}
	r.n, r.size = 0, 0
	return r.file.Append(&r.group)
}

func narrow(values []int64) []int32 {
	list := make([]int32, len(values))
	for i, v := range values {
		list[i] = int32(v)
	}
	return list
}

func unsigned(values []int64) []uint64 {
	list := make([]uint64, len(values))
	for i, v := range values {
		list[i] = uint64(v)
	}
	return list
}

// close ends the file.
func (r *rows) close() error {
	err := r.flush()
	if err == nil {
		err = r.file.Close()
	}
	if closed := r.closer.Close(); err == nil {
		err = closed
	}
	return err
}
