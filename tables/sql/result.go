package sql

import (
	"fmt"

	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// mostRows limits the rows for people, and mostText their texts in bytes. Other formats have all rows.
const (
	mostRows = 10_000
	mostText = 64 << 20
)

// Caveats returns a note about the number of quantiles that are estimates. It is for the time after all rows
// were read.
func (db *DB) Caveats() []string {
	if db.About == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s of quantile() may be off by %.2g%% because there are many different values.",
		label.Count(uint64(db.About), "value", "values"), 100*RelativeError)}
}

// Result makes a report of rows, which it reads once.
type Result struct {
	rows  *Rows
	short bool
	now   []any
	err   error
}

// NewResult reports rows. If short is set, names of functions are shortened. The caller closes the rows.
func NewResult(rows *Rows, short bool) *Result { return &Result{rows: rows, short: short} }

// Body reads the first rows, and describes them for people.
func (r *Result) Body() ([]report.Node, error) {
	list, more, err := r.first()
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return []report.Node{report.Paragraph("The result has no rows.")}, nil
	}
	nodes := []report.Node{report.Table("rows", list, r.columns(list)...)}
	if more {
		nodes = append(nodes, report.Notes{fmt.Sprintf("These are the first %s. To see others, use LIMIT and OFFSET, or -f csv or json for all rows.", label.Count(uint64(len(list)), "row", "rows"))})
	}
	return nodes, nil
}

// Streamed describes all rows for programs. They are read when the report is written. Err says then whether
// that failed.
func (r *Result) Streamed() []report.Node {
	return []report.Node{report.Streamed("rows", r.next, r.columns(nil)...)}
}

// Err is the error that ended the rows, or nil.
func (r *Result) Err() error { return r.err }

// next returns the next row, or nil at the end or at an error, which err keeps.
func (r *Result) next() *[]any {
	if r.now, r.err = r.rows.Next(); r.now == nil {
		return nil
	}
	return &r.now
}

// first returns the first rows, and whether there are more.
func (r *Result) first() (list [][]any, more bool, err error) {
	size := 0
	for row := r.next(); row != nil; row = r.next() {
		if len(list) == mostRows || size > mostText {
			return list, true, nil
		}
		for _, v := range *row {
			switch v := v.(type) {
			case string:
				size += len(v)
			case []byte:
				size += len(v)
			}
		}
		list = append(list, append([]any(nil), *row...))
	}
	return list, false, r.err
}

// names are the names of the columns. Columns of the same name are numbered.
func (r *Result) names() []string {
	var names []string
	used := make(map[string]bool)
	for _, name := range r.rows.Columns() {
		key := name
		for n := 2; used[key]; n++ {
			key = fmt.Sprintf("%s_%d", name, n)
		}
		used[key] = true
		names = append(names, key)
	}
	return names
}

// columns returns the columns of the result. If the rows are known, it aligns numbers.
func (r *Result) columns(list [][]any) []report.Column[[]any] {
	var columns []report.Column[[]any]
	for i, key := range r.names() {
		numbers := true
		for _, row := range list {
			switch row[i].(type) {
			case string, []byte:
				numbers = false
			}
		}
		short := r.short && r.rows.Names()[i]
		columns = append(columns, report.Value(key, numbers, func(row *[]any) any {
			if name, ok := (*row)[i].(string); ok && short {
				return symbolize.Shorten(name)
			}
			return (*row)[i]
		}))
	}
	return columns
}
