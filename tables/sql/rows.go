package sql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"modernc.org/sqlite"
)

// Rows is the result of a query.
type Rows struct {
	db      *DB
	rows    *sql.Rows
	columns []string
	scan    []any
	values  []any
	names   []bool
}

// Query runs a query, until ctx is done. The caller must close the result before the next query.
func (db *DB) Query(ctx context.Context, query string) (*Rows, error) {
	db.About, db.failed = 0, nil
	if err := single(query); err != nil {
		return nil, err
	}
	rows, err := db.conn.QueryContext(ctx, query)
	if err != nil {
		return nil, db.explain(query, err)
	}
	r := &Rows{db: db, rows: rows}
	if r.columns, err = rows.Columns(); err != nil {
		rows.Close()
		return nil, err
	}
	if r.names, err = db.nameColumns(query, len(r.columns)); err != nil {
		rows.Close()
		return nil, err
	}
	r.values = make([]any, len(r.columns))
	for i := range r.values {
		r.scan = append(r.scan, &r.values[i])
	}
	return r, nil
}

// Columns are the names of the columns.
func (r *Rows) Columns() []string { return r.columns }

// Names says which columns have names of functions, as the table calls has them.
func (r *Rows) Names() []bool { return r.names }

// Next returns the next row, or nil at the end. Values are nil, int64, float64, string or
// []byte, and valid until the next call.
func (r *Rows) Next() ([]any, error) {
	if !r.rows.Next() {
		return nil, r.db.cause(r.rows.Err())
	}
	if err := r.rows.Scan(r.scan...); err != nil {
		return nil, err
	}
	return r.values, nil
}

// Close ends the query.
func (r *Rows) Close() error { return r.rows.Close() }

// fail remembers an error of a pass, because SQLite keeps only its text.
func (db *DB) fail(err error) error {
	db.failed = err
	return err
}

// cause is the error of a pass, if that is why a query failed.
func (db *DB) cause(err error) error {
	if isNoMemory(err) {
		return errHeap
	}
	if err != nil && db.failed != nil {
		return db.failed
	}
	return err
}

// nameColumns finds the columns of a query that are names of functions.
func (db *DB) nameColumns(query string, n int) ([]bool, error) {
	names := make([]bool, n)
	err := db.conn.Raw(func(c any) error {
		about, ok := c.(interface {
			ColumnInfo(string) ([]sqlite.ColumnInfo, error)
		})
		if !ok {
			return nil
		}
		list, err := about.ColumnInfo(query)
		for i := range list {
			names[i] = list[i].OriginName == "function" || list[i].OriginName == "caller"
		}
		return err
	})
	return names, err
}

// errSeveral means that a query has several statements.
var errSeveral = errors.New("give one query at a time")

// single returns an error if a text has more than one statement. SQLite would answer only
// the last one.
func single(query string) error {
	ended := false
	for text := query; text != ""; {
		skip := 1
		switch {
		case strings.HasPrefix(text, "--"):
			skip = len(text)
			if at := strings.IndexByte(text, '\n'); at >= 0 {
				skip = at
			}
		case strings.HasPrefix(text, "/*"):
			skip = len(text)
			if at := strings.Index(text[2:], "*/"); at >= 0 {
				skip = at + 4
			}
		case text[0] == ';':
			ended = true
		case slices.Contains([]byte(" \t\r\n\f"), text[0]):
		case ended:
			return &Error{Text: errSeveral.Error()}
		case strings.IndexByte("'\"`[", text[0]) >= 0:
			end := text[0]
			if end == '[' {
				end = ']'
			}
			skip = len(text)
			if at := strings.IndexByte(text[1:], end); at >= 0 {
				skip = at + 2
			}
		}
		text = text[skip:]
	}
	return nil
}
