package sql

import (
	"database/sql/driver"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"modernc.org/sqlite/vtab"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
)

// listTable is a table that fits into memory: one of functions, paths, threads and traces.
type listTable struct {
	noRelease
	db      *DB
	table   *tables.Table
	columns []tables.Column
	rows    [][]any // nil until they are needed
	index   []map[driver.Value][]int32
	loaded  bool
}

// BestIndex looks rows up by one column if it can. The index of a column is made when it is
// first used.
func (t *listTable) BestIndex(info *vtab.IndexInfo) error {
	const rows = 1000
	info.IdxNum, info.EstimatedRows, info.EstimatedCost = -1, rows, rows
	for i := range info.Constraints {
		c := &info.Constraints[i]
		if c.Usable && c.Op == vtab.OpEQ && c.Column >= 0 && !t.lazy(c.Column) {
			c.ArgIndex = 0
			info.IdxNum, info.EstimatedRows, info.EstimatedCost = int64(c.Column), 1, 2
			return nil
		}
	}
	return nil
}

// lazy reports whether a column is not kept, because call paths are long.
func (t *listTable) lazy(column int) bool {
	return t.table.Name == "paths" && column == colStack
}

// Open implements [vtab.Table].
func (t *listTable) Open() (vtab.Cursor, error) { return &listCursor{t: t}, nil }

// load makes the rows.
func (t *listTable) load() error {
	if t.loaded {
		return nil
	}
	var err error
	if t.rows, err = t.db.listRows(t.table.Name); err != nil {
		return t.db.fail(err)
	}
	t.index = make([]map[driver.Value][]int32, len(t.columns))
	t.loaded = true
	return nil
}

// with returns the rows that have a value in a column.
func (t *listTable) with(column int, v driver.Value) []int32 {
	if t.index[column] == nil {
		m := make(map[driver.Value][]int32)
		for i, r := range t.rows {
			m[r[column]] = append(m[r[column]], int32(i))
		}
		t.index[column] = m
	}
	return t.index[column][v]
}

// listCursor reads a listTable.
type listCursor struct {
	t      *listTable
	chosen []int32 // nil for all rows
	at     int
}

// Filter implements [vtab.Cursor].
func (c *listCursor) Filter(column int, _ string, args []vtab.Value) error {
	if err := c.t.load(); err != nil {
		return err
	}
	c.at, c.chosen = 0, nil
	if column < 0 || len(args) == 0 {
		return nil
	}
	// SQLite may convert other values before it compares them.
	_, text := args[0].(string)
	_, integer := args[0].(int64)
	want := c.t.columns[column].SQL()
	if text && want == tables.SQLText || integer && want == tables.SQLInteger {
		c.chosen = c.t.with(column, args[0])
		if c.chosen == nil {
			c.chosen = []int32{}
		}
	}
	return nil
}

// Next implements [vtab.Cursor].
func (c *listCursor) Next() error { c.at++; return nil }

// Eof implements [vtab.Cursor].
func (c *listCursor) Eof() bool {
	if c.chosen != nil {
		return c.at >= len(c.chosen)
	}
	return c.at >= len(c.t.rows)
}

// row is the number of the current row.
func (c *listCursor) row() int {
	if c.chosen != nil {
		return int(c.chosen[c.at])
	}
	return c.at
}

// Column implements [vtab.Cursor].
func (c *listCursor) Column(n int) (vtab.Value, error) {
	if c.t.lazy(n) {
		if c.t.rows[c.row()][colPathDepth].(int64) >= tables.DeepestStack {
			return nil, nil
		}
		return c.t.db.stack(calls.PathID(c.row() + 1)), nil
	}
	return c.t.rows[c.row()][n], nil
}

// Rowid implements [vtab.Cursor].
func (c *listCursor) Rowid() (int64, error) { return int64(c.row()) + 1, nil }

// Close implements [vtab.Cursor].
func (c *listCursor) Close() error { return nil }

// listRows makes the rows of a table.
func (db *DB) listRows(table string) ([][]any, error) {
	switch table {
	case "traces":
		return db.traceRows()
	case "paths":
		return db.pathRows()
	}
	if err := db.count(); err != nil {
		return nil, err
	}
	if table == "threads" {
		return db.threadRows()
	}
	return db.functionRows()
}

// census is the functions and threads that occur in a trace.
type census struct {
	functions map[reader.FuncID]bool
	threads   []*tables.Thread // by index; nil for those without a call and an event
	source    *tables.Source
}

// Calls implements [calls.Sink].
func (c *census) Calls(b *calls.Batch) error {
	if len(b.Calls) == 0 && len(b.Events) == 0 {
		return nil
	}
	for b.Index >= len(c.threads) {
		c.threads = append(c.threads, nil)
	}
	t := c.threads[b.Index]
	if t == nil {
		info := c.source.ThreadOf(b.Thread)
		t = &info
		c.threads[b.Index] = t
	}
	var last reader.FuncID
	for i := range b.Calls {
		call := &b.Calls[i]
		t.Count(call)
		if call.Func != last {
			last = call.Func
			c.functions[last] = true
		}
	}
	return nil
}

// count reads the trace for the census.
func (db *DB) count() error {
	if db.counts != nil {
		return nil
	}
	c := &census{functions: make(map[reader.FuncID]bool), source: &db.opts.Source}
	if err := db.opts.Pass(PassOptions{}, c); err != nil {
		return err
	}
	db.counts = c
	return nil
}

func (db *DB) threadRows() (rows [][]any, err error) {
	if _, err := db.start0(); err != nil {
		return nil, err
	}
	for _, t := range db.counts.threads {
		if t != nil {
			rows = append(rows, tables.Threads.Row(&db.opts.Source, t, tables.Queries))
		}
	}
	return rows, nil
}

func (db *DB) functionRows() (rows [][]any, err error) {
	all := maps.Clone(db.counts.functions)
	for _, id := range db.opts.Functions {
		all[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, tables.Functions.Row(&db.opts.Source, db.opts.Function(id), tables.Queries))
	}
	return rows, nil
}

// pathSink keeps the tree of call paths.
type pathSink struct{ tree pathTree }

// Restart implements [Restarter].
func (s *pathSink) Restart() { s.tree = pathTree{} }

// Calls implements [calls.Sink].
func (s *pathSink) Calls(b *calls.Batch) error {
	if b.Paths != nil {
		s.tree.grow(b.Paths)
	}
	return nil
}

// pathTree reads the trace for the tree of all call paths.
func (db *DB) pathTree() (*pathTree, error) {
	if db.paths == nil {
		var s pathSink
		if err := db.opts.Pass(PassOptions{Paths: true}, &s); err != nil {
			return nil, err
		}
		db.paths = &s.tree
	}
	return db.paths, nil
}

// pathRows has no stacks, which are made when they are needed.
func (db *DB) pathRows() (rows [][]any, err error) {
	tree, err := db.pathTree()
	if err != nil {
		return nil, err
	}
	err = tables.EachPath(tree, func(p *tables.Path) error {
		rows = append(rows, tables.Paths.Row(&db.opts.Source, p, tables.Queries))
		return nil
	})
	return rows, err
}

func (db *DB) traceRows() (rows [][]any, err error) {
	list := db.opts.Traces()
	for i := range list {
		row := tables.Traces.Row(&db.opts.Source, &list[i], tables.Queries)
		for n, v := range row {
			if words, ok := v.([]string); ok {
				row[n] = jsonOf(words)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// jsonOf returns a list as JSON, or nil if it is empty.
func jsonOf(list []string) any {
	text, err := json.Marshal(list)
	if err != nil || len(list) == 0 {
		return nil
	}
	return string(text)
}

// eventTable is the table events.
type eventTable struct {
	noRelease
	db *DB
}

// BestIndex implements [vtab.Table].
func (eventTable) BestIndex(info *vtab.IndexInfo) error {
	p := plan{used: info.ColUsed}
	args := 0
	for i := range info.Constraints {
		if c := &info.Constraints[i]; c.Usable && c.Op == vtab.OpEQ && c.Column >= colTrace && c.Column <= colThreadName {
			c.ArgIndex = args
			args++
			p.conds = append(p.conds, condition{c.Column, c.Op})
		}
	}
	info.IdxStr = p.String()
	info.EstimatedRows, info.EstimatedCost = typicalCalls/100, 0.2*typicalCalls
	return nil
}

// Open implements [vtab.Table].
func (t eventTable) Open() (vtab.Cursor, error) { return &eventCursor{db: t.db}, nil }

// eventCursor reads the table events.
type eventCursor struct {
	db     *DB
	stream *stream
	chunk  *chunk
	at     int
	number int64
	thread tables.Thread
}

// Filter implements [vtab.Cursor].
func (c *eventCursor) Filter(_ int, text string, args []vtab.Value) error {
	c.Close()
	p, err := parsePlan(text)
	if err != nil {
		return err
	}
	filter, err := c.db.filter(&p, args)
	if err != nil {
		return err
	}
	if _, err := c.db.start0(); err != nil {
		return c.db.fail(err)
	}
	w := wants{events: true, paths: p.uses(colEventPath)}
	if c.stream, err = c.db.start(PassOptions{Filter: filter}, w); err != nil {
		return c.db.fail(err)
	}
	c.chunk, c.at, c.number = nil, -1, 0
	return c.Next()
}

// Next implements [vtab.Cursor].
func (c *eventCursor) Next() (err error) {
	c.at++
	c.number++
	if c.chunk == nil && c.number > 1 {
		return io.ErrUnexpectedEOF
	}
	if c.chunk == nil || c.at == len(c.chunk.events) {
		if c.chunk, err = c.stream.next(c.chunk); err != nil {
			return c.db.fail(err)
		}
		c.at = 0
		if c.chunk != nil {
			c.thread = c.db.opts.ThreadOf(c.chunk.thread)
		}
	}
	return nil
}

// Eof implements [vtab.Cursor].
func (c *eventCursor) Eof() bool { return c.chunk == nil }

// Column implements [vtab.Cursor].
func (c *eventCursor) Column(n int) (vtab.Value, error) {
	e := tables.Event{Event: &c.chunk.events[c.at], Thread: &c.thread}
	return tables.Events.Value(&c.db.opts.Source, &e, n), nil
}

// Rowid implements [vtab.Cursor].
func (c *eventCursor) Rowid() (int64, error) { return c.number, nil }

// Close implements [vtab.Cursor].
func (c *eventCursor) Close() error {
	if c.stream != nil {
		c.stream.stop()
		c.stream = nil
	}
	return nil
}
