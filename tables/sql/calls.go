package sql

import (
	"fmt"
	"io"

	"modernc.org/sqlite/vtab"

	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
)

// module makes the virtual tables.
type module struct {
	db    *DB
	table *tables.Table
}

// Create implements [vtab.Module].
func (m module) Create(ctx vtab.Context, _ []string) (vtab.Table, error) {
	if err := ctx.Declare(declaration(m.table)); err != nil {
		return nil, err
	}
	switch m.table.Name {
	case "calls":
		return callTable{db: m.db}, nil
	case "events":
		return eventTable{db: m.db}, nil
	}
	return &listTable{db: m.db, table: m.table, columns: m.table.Of(tables.Queries)}, nil
}

// Connect implements [vtab.Module].
func (m module) Connect(ctx vtab.Context, args []string) (vtab.Table, error) {
	return m.Create(ctx, args)
}

// noRelease is a table without anything to release.
type noRelease struct{}

func (noRelease) Disconnect() error { return nil }
func (noRelease) Destroy() error    { return nil }

// callTable is the table calls.
type callTable struct {
	noRelease
	db *DB
}

func (t callTable) BestIndex(info *vtab.IndexInfo) error { return bestIndex(info) }
func (t callTable) Open() (vtab.Cursor, error)           { return &callCursor{db: t.db}, nil }

// row is a call as a cursor shows it.
type row struct {
	tables.Call
	index int // of the thread
}

// callReader gives the rows of a pass, or of a part of a [bucketList].
type callReader interface {
	// next fills in the row, or returns io.EOF.
	next(*row) error
	stop()
}

// callCursor reads the table calls.
type callCursor struct {
	db     *DB
	reader callReader
	row    row
	number int64
	eof    bool

	text   string // of plan
	plan   plan
	looker looker
}

// Filter implements [vtab.Cursor]. SQLite calls it again for each row of an outer table.
func (c *callCursor) Filter(_ int, text string, args []vtab.Value) error {
	c.close()
	c.number, c.eof = 0, false
	if text != c.text {
		p, err := parsePlan(text)
		if err != nil {
			return err
		}
		c.text, c.plan, c.looker = text, p, looker{}
	}
	if c.plan.uses(colStart) {
		if _, err := c.db.start0(); err != nil {
			return err
		}
	}
	var err error
	if c.reader, err = c.looker.read(c.db, &c.plan, args); err != nil {
		return err
	}
	return c.Next()
}

// Next implements [vtab.Cursor].
func (c *callCursor) Next() error {
	c.number++
	switch err := c.reader.next(&c.row); err {
	case nil:
		return nil
	case io.EOF:
		c.eof = true
		return nil
	default:
		c.db.failed = err
		return err
	}
}

// Eof implements [vtab.Cursor].
func (c *callCursor) Eof() bool { return c.eof }

// Column implements [vtab.Cursor].
func (c *callCursor) Column(n int) (vtab.Value, error) {
	if !c.plan.uses(n) {
		return nil, fmt.Errorf("column %d was not requested", n)
	}
	return tables.Calls.Value(&c.db.opts.Source, &c.row.Call, n), nil
}

// Rowid implements [vtab.Cursor].
func (c *callCursor) Rowid() (int64, error) { return c.number, nil }

// Close implements [vtab.Cursor].
func (c *callCursor) Close() error {
	c.close()
	c.looker.close()
	return nil
}

func (c *callCursor) close() {
	if c.reader != nil {
		c.reader.stop()
		c.reader = nil
	}
}

// passReader gives the calls of a pass as they come.
type passReader struct {
	db      *DB
	stream  *stream
	chunk   *chunk
	at      int // next call of the chunk
	args    []calls.Arg
	results []calls.Arg
	waits   []calls.Wait
	values  []callValues
	threads []*tables.Thread // by index; nil until it appears
	thread  *tables.Thread
}

// pass starts a pass for a plan.
func (db *DB) pass(p *plan, filter calls.Filter) (*passReader, error) {
	f := p.fields()
	w := wants{
		calls: true, args: f&fieldArgs != 0, results: f&fieldResult != 0, paths: f&fieldPath != 0, values: f&fieldValues != 0,
		waits: db.opts.OffCPU && f&(fieldOff|fieldSelfOff) != 0,
	}
	s, err := db.start(PassOptions{Filter: filter}, w)
	if err != nil {
		return nil, err
	}
	return &passReader{db: db, stream: s}, nil
}

func (r *passReader) next(out *row) error {
	for r.chunk == nil || r.at == len(r.chunk.calls) {
		var err error
		if r.chunk, err = r.stream.next(r.chunk); err != nil {
			return err
		}
		if r.chunk == nil {
			return io.EOF
		}
		r.at, r.args, r.results, r.waits, r.values = 0, r.chunk.args, r.chunk.results, r.chunk.waits, r.chunk.values
		for r.chunk.index >= len(r.threads) {
			r.threads = append(r.threads, nil)
		}
		slot := &r.threads[r.chunk.index]
		if *slot == nil {
			info := r.db.opts.ThreadOf(r.chunk.thread)
			*slot = &info
		}
		r.thread = *slot
	}
	out.Call.Call = r.chunk.calls[r.at]
	out.Thread, out.index = r.thread, r.chunk.index
	if out.Call.Call.Args && r.stream.wants.args {
		out.Args, r.args = argsOf(r.args, r.at)
	} else {
		out.Args = nil
	}
	if r.stream.wants.results {
		var list []calls.Arg
		list, r.results = argsOf(r.results, r.at)
		if out.HasResult = len(list) > 0; out.HasResult {
			out.Result = list[0].Value
		}
	}
	if r.stream.wants.values {
		out.Values = tables.Values{}
		if len(r.values) > 0 && r.values[0].call == r.at {
			out.Values, r.values = r.values[0].Values, r.values[1:]
		}
	}
	if r.stream.wants.waits {
		out.Off, out.SelfOff, r.waits = offOf(r.waits, r.at)
	}
	r.at++
	return nil
}

// argsOf returns the arguments of a call, and those after them.
func argsOf(list []calls.Arg, call int) (args, rest []calls.Arg) {
	for len(list) > 0 && list[0].Call < call {
		list = list[1:]
	}
	n := 0
	for n < len(list) && list[n].Call == call {
		n++
	}
	return list[:n], list[n:]
}

// offOf returns the time of a call off the CPU, and the times of the calls after it.
func offOf(list []calls.Wait, call int) (off, self calls.Off, rest []calls.Wait) {
	for len(list) > 0 && list[0].Call < call {
		list = list[1:]
	}
	if len(list) > 0 && list[0].Call == call {
		return list[0].Total, list[0].Self, list[1:]
	}
	return calls.Off{}, calls.Off{}, list
}

func (r *passReader) stop() { r.stream.stop() }
