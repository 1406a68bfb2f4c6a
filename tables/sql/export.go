package sql

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Export writes the tables to a SQLite database in a file, which must be empty. Calls and
// events refer to functions, paths and threads by foreign keys. Views of the names calls and
// events have the columns of [Tables], so that queries can be the same.
func Export(ctx context.Context, opts Options, file string) error {
	db, err := open(opts, "file:"+(&url.URL{Path: file}).EscapedPath())
	if err != nil {
		return err
	}
	return errors.Join(db.exec(ctx, exportStatements()...), db.Close())
}

// derived are the columns of views that come from the tables that rows refer to.
var derived = map[string]string{
	"trace": "t.trace", "process": "t.process", "thread": "t.thread", "thread_name": "t.thread_name",
	"function": "f.function", "file": "f.file", "line": "f.line", "caller": "g.function",
}

// references are the foreign keys of rows.
var references = map[string]string{
	threadKey: "threads", "function_id": "functions", "caller_id": "functions", "path": "paths", "parent": "paths", "trace": "traces",
}

// keys are the primary keys of the tables that rows refer to.
var keys = map[string]string{"functions": "function_id", "paths": "path", "threads": threadKey, "traces": "trace"}

func exportStatements() []string {
	list := []string{
		// The file is new, and goes away if anything fails.
		"PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA locking_mode = EXCLUSIVE", "PRAGMA cache_size = -16384",
		"BEGIN",
	}
	byName := make(map[string]*Table)
	for i := range Tables {
		byName[Tables[i].Name] = &Tables[i]
	}
	for _, name := range []string{"traces", "functions", "paths", "threads"} {
		list = append(list, copied(byName[name], name, false)...)
	}
	// A path may have a function without calls.
	list = append(list, "INSERT OR IGNORE INTO main.functions(function_id, function) SELECT function_id, function FROM main.paths")
	for _, name := range []string{"calls", "events"} {
		list = append(list, copied(byName[name], strings.TrimSuffix(name, "s")+"_rows", true)...)
		list = append(list, view(byName[name]))
	}
	return append(list,
		"CREATE INDEX main.call_rows_by_function ON call_rows(function_id, duration)",
		"CREATE INDEX main.call_rows_by_caller ON call_rows(caller_id)",
		"CREATE INDEX main.call_rows_by_path ON call_rows(path)",
		"CREATE INDEX main.call_rows_by_thread ON call_rows(thread_key, start)",
		"CREATE INDEX main.call_rows_by_start ON call_rows(start)",
		"CREATE INDEX main.event_rows_by_thread ON event_rows(thread_key, time)",
		"CREATE INDEX main.functions_by_name ON functions(function)",
		"PRAGMA analysis_limit = 1000", "ANALYZE main",
		"COMMIT")
}

// copied are the statements that make a table of the database and fill it. With rows, the table
// omits the derived columns.
func copied(t *Table, name string, rows bool) []string {
	var columns, names []string
	add := func(column, kind string) {
		if rows && derived[column] != "" {
			return
		}
		line := column + " " + kind
		if keys[name] == column {
			line += " PRIMARY KEY"
		} else if to := references[column]; to != "" {
			line += fmt.Sprintf(" REFERENCES %s(%s)", to, keys[to])
		}
		columns, names = append(columns, line), append(names, column)
	}
	if t.hasThreads() {
		add(threadKey, integers)
	}
	for _, c := range t.Columns {
		add(c.Name, c.Type)
	}
	list := strings.Join(names, ", ")
	insert := "INSERT"
	if t.Name == "traces" {
		insert = "INSERT OR IGNORE" // a file may be named twice
	}
	return []string{
		fmt.Sprintf("CREATE TABLE main.%s(\n  %s\n)", name, strings.Join(columns, ",\n  ")),
		fmt.Sprintf("%s INTO main.%s(%s) SELECT %s FROM temp.%s", insert, name, list, list, t.Name),
	}
}

// view is the statement that makes a view of the rows of a table, with the columns that
// others have.
func view(t *Table) string {
	var columns []string
	from := fmt.Sprintf("%s_rows r JOIN threads t ON t.%s = r.%[2]s LEFT JOIN functions f ON f.function_id = r.function_id",
		strings.TrimSuffix(t.Name, "s"), threadKey)
	for _, c := range t.Columns {
		source := derived[c.Name]
		if source == "" {
			source = "r." + c.Name
		}
		if c.Name == "caller" {
			from += " LEFT JOIN functions g ON g.function_id = r.caller_id"
		}
		columns = append(columns, source+" AS "+c.Name)
	}
	return fmt.Sprintf("CREATE VIEW main.%s AS\nSELECT %s\nFROM %s", t.Name, strings.Join(columns, ", "), from)
}
