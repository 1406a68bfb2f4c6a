package sql

import (
	"fmt"
	"io"
	"strings"

	"github.com/xray-tools/xray/tables/parquetfile"
)

const (
	// groupRows and groupBytes are the rows, and the bytes of their texts, at which a row group
	// of a result ends.
	groupRows  = 1 << 16
	groupBytes = 32 << 20
)

// WriteParquet writes the remaining rows as a Parquet file, with these names of columns. All
// columns can be null.
//
// A SQLite column may have values of several types, but a Parquet column has one type. The first
// row group decides: integers, floating-point numbers if there are any, texts, or bytes. Without
// values, the declared type of the column decides. A value that does not fit is an error.
func (r *Rows) WriteParquet(w io.Writer, createdBy string, names []string) error {
	p := &resultFile{w: w, createdBy: createdBy, columns: make([]resultColumn, len(names))}
	declared, err := r.rows.ColumnTypes()
	if err != nil {
		return err
	}
	for i, name := range names {
		p.columns[i] = resultColumn{name: name, declared: declared[i].DatabaseTypeName()}
	}
	for {
		row, err := r.Next()
		if err != nil {
			return err
		}
		if row == nil {
			return p.close()
		}
		if err := p.add(row); err != nil {
			return err
		}
	}
}

// resultFile is a Parquet file of a result. It keeps a row group in memory.
type resultFile struct {
	w         io.Writer
	createdBy string
	columns   []resultColumn
	file      *parquetfile.File // nil before the first row group
	encoder   *parquetfile.Encoder
	group     parquetfile.Group
	done      int // rows in the file
	rows      int // of the row group
	bytes     int // of its texts
}

type resultColumn struct {
	name     string
	declared string
	kind     parquetfile.Kind
	values   []any // of the row group
}

func (p *resultFile) add(row []any) error {
	for i, v := range row {
		c := &p.columns[i]
		if b, ok := v.([]byte); ok {
			v = string(b)
			c.values = append(c.values, blob(v.(string)))
		} else {
			c.values = append(c.values, v)
		}
		if s, ok := v.(string); ok {
			p.bytes += len(s)
		}
	}
	p.rows++
	if p.rows == groupRows || p.bytes >= groupBytes {
		return p.flush()
	}
	return nil
}

// blob tells bytes from texts.
type blob string

// begin begins the file.
func (p *resultFile) begin() (err error) {
	list := make([]parquetfile.Column, len(p.columns))
	for i := range p.columns {
		c := &p.columns[i]
		c.kind = c.kindOf()
		list[i] = parquetfile.Column{Name: c.name, Kind: c.kind, Optional: true}
	}
	p.encoder = parquetfile.NewDenseEncoder(list)
	p.file, err = parquetfile.NewFile(p.w, "result", p.createdBy, list, nil)
	return err
}

// kindOf returns the type of a column by its values.
func (c *resultColumn) kindOf() parquetfile.Kind {
	kind, known := parquetfile.String, false
	for _, v := range c.values {
		switch v.(type) {
		case int64:
			if !known {
				kind = parquetfile.Int64
			}
		case float64:
			kind = parquetfile.Double
		case string:
			return parquetfile.String
		case blob:
			return parquetfile.Bytes
		}
		known = known || v != nil
	}
	if known {
		return kind
	}
	switch strings.ToUpper(c.declared) {
	case "INTEGER":
		return parquetfile.Int64
	case "REAL":
		return parquetfile.Double
	case "BLOB":
		return parquetfile.Bytes
	}
	return parquetfile.String
}

// flush writes a row group.
func (p *resultFile) flush() error {
	if p.file == nil {
		if err := p.begin(); err != nil {
			return err
		}
	}
	p.encoder.Begin(&p.group, p.rows)
	for i := range p.columns {
		c := &p.columns[i]
		if row, err := c.encode(p.encoder); err != nil {
			return fmt.Errorf("column %s: row %d has %w", c.name, p.done+row+1, err)
		}
		clear(c.values)
		c.values = c.values[:0]
	}
	p.done, p.rows, p.bytes = p.done+p.rows, 0, 0
	return p.file.Append(&p.group)
}

func (p *resultFile) close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.file.Close()
}

// encode encodes the values. With an error, it returns the row that has it.
func (c *resultColumn) encode(e *parquetfile.Encoder) (row int, err error) {
	null := make([]bool, len(c.values))
	switch c.kind {
	case parquetfile.Int64:
		list := make([]int64, len(c.values))
		for i, v := range c.values {
			var ok bool
			if list[i], ok = v.(int64); !ok && v != nil {
				return i, c.misfit(v)
			}
			null[i] = v == nil
		}
		e.Nullable(list, null)
	case parquetfile.Double:
		list := make([]float64, len(c.values))
		for i, v := range c.values {
			switch v := v.(type) {
			case float64:
				list[i] = v
			case int64:
				if list[i] = float64(v); v > 1<<53 || v < -1<<53 {
					return i, c.misfit(v)
				}
			case nil:
				null[i] = true
			default:
				return i, c.misfit(v)
			}
		}
		e.Doubles(list, null)
	default:
		return c.encodeTexts(e)
	}
	return 0, nil
}

// encodeTexts encodes texts or bytes by a dictionary.
func (c *resultColumn) encodeTexts(e *parquetfile.Encoder) (row int, err error) {
	keys, index := make([]uint32, len(c.values)), make(map[string]uint32)
	var list []string
	for i, v := range c.values {
		var text string
		fits := false
		switch v := v.(type) {
		case nil:
			keys[i] = parquetfile.Absent
			continue
		case string:
			text, fits = strings.ToValidUTF8(v, "\ufffd"), c.kind == parquetfile.String
		case blob:
			text, fits = string(v), c.kind == parquetfile.Bytes
		}
		if !fits {
			return i, c.misfit(v)
		}
		at, ok := index[text]
		if !ok {
			at = uint32(len(list))
			index[text] = at
			list = append(list, text)
		}
		keys[i] = at
	}
	e.StringOf(parquetfile.Keyed{Keys: keys, Gaps: true}, list)
	return 0, nil
}

// misfit says that a value is of another type than the column.
func (c *resultColumn) misfit(v any) error {
	what := "a text"
	switch v.(type) {
	case int64:
		what = "an integer"
	case float64:
		what = "a floating-point number"
	case blob:
		what = "bytes"
	}
	return fmt.Errorf("%s, but a Parquet column has one type, here %v: use CAST in the query", what, c.kind)
}
