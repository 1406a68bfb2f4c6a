// Package tables describes calls as tables, once for all that writes or queries them: their columns,
// what these mean, and how a value is computed from a call, an event, a thread or a trace. [All] lists
// the tables. tables/sql queries them, and tables/parquet writes them. docs/tables.md is made of them.
package tables

import (
	"strings"

	"github.com/xray-tools/xray/tables/parquetfile"
)

// Version is the version of the tables in files. It increases when a column is removed or changes
// its type or meaning, but not when a column is added.
const Version = 1

// Table is a table.
type Table struct {
	Name, About string
	Columns     []Column
}

// Column is a column of a table, with its meaning.
type Column struct {
	parquetfile.Column
	Unit, About string
	only        Output // that has it; 0 for all
}

// Output is where tables are.
type Output uint8

const (
	Queries Output = 1 + iota // of xray sql
	Files                     // of convert -f parquet
)

func (c *Column) in(o Output) bool { return c.only == 0 || c.only == o }

// All has all tables, in the order in which documents list them.
var All = []*Table{&Calls.Table, &Functions.Table, &Paths.Table, &Threads.Table, &Events.Table, &Traces.Table}

// Of is a table with the values of its columns, each computed from an R.
type Of[R any] struct {
	Table
	values []func(*Source, *R) any
}

// column is a column of a table whose rows are made of an R.
type column[R any] struct {
	Column
	value func(*Source, *R) any
}

func table[R any](name, about string, columns ...column[R]) Of[R] {
	t := Of[R]{Table: Table{Name: name, About: about}}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
		t.values = append(t.values, c.value)
	}
	return t
}

// Value returns the value of a column: nil, int64, string, []byte or []string. An unsigned number has
// its bits in an int64.
func (t *Of[R]) Value(s *Source, r *R, column int) any { return t.values[column](s, r) }

// Row returns the values of the columns of an output.
func (t *Of[R]) Row(s *Source, r *R, o Output) []any {
	row := make([]any, 0, len(t.values))
	for i, value := range t.values {
		if t.Columns[i].in(o) {
			row = append(row, value(s, r))
		}
	}
	return row
}

// Of returns the columns of an output.
func (t *Table) Of(o Output) (list []Column) {
	for _, c := range t.Columns {
		if c.in(o) {
			list = append(list, c)
		}
	}
	return list
}

// InFiles returns the columns of a file.
func (t *Table) InFiles() (list []parquetfile.Column) {
	for _, c := range t.Of(Files) {
		list = append(list, c.Column)
	}
	return list
}

// The types of columns in SQLite.
const (
	SQLInteger = "INTEGER"
	SQLText    = "TEXT"
	sqlBlob    = "BLOB"
)

// SQL is the type of the column in SQLite. Lists are texts, in JSON.
func (c *Column) SQL() string {
	switch {
	case c.List, c.Kind == texts:
		return SQLText
	case c.Kind == blobs:
		return sqlBlob
	}
	return SQLInteger
}

// Type is the type of the column in Parquet's documentation.
func (c *Column) Type() string {
	if c.List {
		return "LIST<" + c.Kind.String() + ">"
	}
	return c.Kind.String()
}

// Null is "yes" if the column may be null, or "".
func (c *Column) Null() string {
	if c.Optional || c.List {
		return "yes"
	}
	return ""
}

// Kinds of values, for brevity.
const (
	int32s  = parquetfile.Int32
	int64s  = parquetfile.Int64
	uint64s = parquetfile.Uint64
	texts   = parquetfile.String
	blobs   = parquetfile.Bytes
)

const (
	required = false
	optional = true
)

func col(name string, kind parquetfile.Kind, null bool, unit, about string) Column {
	return Column{Column: parquetfile.Column{Name: name, Kind: kind, Optional: null}, Unit: unit, About: about}
}

func list(name string, kind parquetfile.Kind, about string) Column {
	return Column{Column: parquetfile.Column{Name: name, Kind: kind, List: true}, About: about}
}

// onlyIn returns the column as one of a single output.
func (c Column) onlyIn(o Output) Column {
	c.only = o
	return c
}

// Columns of several tables. Files have the name of the trace in the names of their folders.
var (
	traceColumn        = col("trace", texts, required, "", "name of the trace file; in files, from the name of the folder").onlyIn(Queries)
	functionIDColumn   = col("function_id", int32s, required, "", "XRay function ID")
	functionNameColumn = col("function", texts, required, "", "name of the function, or `#ID` without a map")
	fileColumn         = col("file", texts, optional, "", "source file of the function")
	lineColumn         = col("line", int32s, optional, "", "line of the function in `file`")
)

// ofThread returns the columns that say which thread a row is of.
func ofThread[R any](thread func(*R) *Thread) []column[R] {
	return []column[R]{
		{traceColumn, func(_ *Source, r *R) any { return thread(r).trace }},
		{col("process", int32s, required, "", "process ID"), func(_ *Source, r *R) any { return thread(r).process }},
		{col("thread", int32s, required, "", "thread ID"), func(_ *Source, r *R) any { return thread(r).id }},
		{col("thread_name", texts, optional, "", "name of the thread"), func(_ *Source, r *R) any { return thread(r).name }},
	}
}

// describe returns the description of all tables in Markdown.
func describe() string {
	var b strings.Builder
	for _, t := range All {
		b.WriteString("\n## " + t.Name + "\n\n" + t.About + "\n\n| column | SQL | Parquet | null | unit | meaning |\n|---|---|---|---|---|---|\n")
		for i := range t.Columns {
			c := &t.Columns[i]
			query, file := c.SQL(), c.Type()
			if !c.in(Queries) {
				query = ""
			}
			if !c.in(Files) {
				file = ""
			}
			b.WriteString("| `" + strings.Join([]string{c.Name + "`", query, file, c.Null(), c.Unit, c.About}, " | ") + " |\n")
		}
	}
	return b.String()
}
