package sql

import (
	"database/sql/driver"
	"fmt"
	"io"
	"math"
	"strconv"

	"modernc.org/sqlite/vtab"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

func (o *Options) label(id reader.FuncID) string { return symbolize.Label(o.Names, id) }

// module makes the virtual tables.
type module struct {
	db    *DB
	table *Table
}

// Create implements [vtab.Module].
func (m module) Create(ctx vtab.Context, _ []string) (vtab.Table, error) {
	if err := ctx.Declare(m.table.declaration()); err != nil {
		return nil, err
	}
	switch m.table.Name {
	case "calls":
		return callTable{db: m.db}, nil
	case "events":
		return eventTable{db: m.db}, nil
	}
	return &listTable{db: m.db, table: m.table}, nil
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

// threadInfo has the columns of a thread, ready for SQLite.
type threadInfo struct{ trace, process, thread, name driver.Value }

func (db *DB) threadInfo(t reader.Thread) threadInfo {
	info := threadInfo{process: int64(t.Process), thread: int64(t.Thread)}
	if int(t.File) < len(db.opts.Files) {
		info.trace = db.opts.Files[t.File]
	}
	if db.opts.ThreadName != nil {
		if name := db.opts.ThreadName(t); name != "" {
			info.name = name
		}
	}
	return info
}

func (i *threadInfo) column(n int) driver.Value {
	switch n {
	case colTrace:
		return i.trace
	case colProcess:
		return i.process
	case colThread:
		return i.thread
	}
	return i.name
}

func (db *DB) threadValue(t reader.Thread, column int) driver.Value {
	info := db.threadInfo(t)
	return info.column(column)
}

// row is a call as a cursor shows it.
type row struct {
	calls.Call
	index  int // of the thread
	args   []calls.Arg
	thread *threadInfo

	result       uint64
	hasResult    bool
	off, selfOff calls.Off // in all of the call, and in itself alone
}

// value returns a column.
func (db *DB) value(r *row, column int) driver.Value {
	switch column {
	case colTrace, colProcess, colThread, colThreadName:
		return r.thread.column(column)
	case colStart:
		return db.at(r.Start)
	case colDuration:
		return signed(db.opts.Clock.Nanos(r.Duration))
	case colSelf:
		return signed(db.opts.Clock.Nanos(r.Self))
	case colDepth:
		return int64(r.Depth)
	case colFunctionID:
		return int64(r.Func)
	case colFunction:
		return db.names.of(r.Func).name
	case colFile:
		return db.names.of(r.Func).file
	case colLine:
		return db.names.of(r.Func).line
	case colDurationTicks:
		return signed(r.Duration)
	case colSelfTicks:
		return signed(r.Self)
	case colArguments:
		return argsText(r.args)
	case colResult:
		if r.hasResult {
			return int64(r.result) // -1 is an error
		}
		return nil
	case colEnded:
		return endings[r.Ending()]
	case colPath:
		return int64(r.Path)
	case colCallerID, colCaller:
		switch {
		case r.Caller == 0:
			return nil
		case column == colCallerID:
			return int64(r.Caller)
		}
		return db.names.of(r.Caller).name
	case colCPU, colBlocked, colQueued, colRecorder:
		return db.off(column-colCPU, r.Duration, r.off)
	case colSelfCPU, colSelfBlocked, colSelfQueued, colSelfRecorder:
		return db.off(column-colSelfCPU, r.Self, r.selfOff)
	}
	return nil
}

// off returns the part of a time on the CPU (0), blocked (1), queued (2) or blocked by the
// recorder (3).
func (db *DB) off(part int, ticks uint64, off calls.Off) driver.Value {
	switch {
	case !db.opts.OffCPU:
		return nil
	case part == 0:
		ticks -= min(ticks, off.Sum())
	case part == 1:
		ticks = off.Blocked
	case part == 2:
		ticks = off.Queued
	default:
		ticks = off.Recorder
	}
	return signed(db.opts.Clock.Nanos(ticks))
}

// signed returns a number for SQLite, which has no larger ones.
func signed(n uint64) driver.Value { return int64(min(n, math.MaxInt64)) }

// endings are the names of the results of calls.Call.Ending.
var endings = func() (list [calls.Endings]driver.Value) {
	for e := range list {
		list[e] = calls.End(e).String()
	}
	return list
}()

// at returns the time of a TSC. db.base is known.
func (db *DB) at(tsc uint64) driver.Value {
	if tsc < *db.base {
		return -int64(min(db.opts.Clock.Nanos(*db.base-tsc), math.MaxInt64))
	}
	return signed(db.opts.Clock.Nanos(tsc - *db.base))
}

func argsText(args []calls.Arg) driver.Value {
	if len(args) == 0 {
		return nil
	}
	b := []byte{'['}
	for i, a := range args {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, a.Value, 10)
	}
	return string(append(b, ']'))
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
	return c.db.value(&c.row, n), nil
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
	threads []*threadInfo // by index; nil until it appears
	thread  *threadInfo
}

// pass starts a pass for a plan.
func (db *DB) pass(p *plan, filter calls.Filter) (*passReader, error) {
	w := wants{
		calls: true, args: p.uses(colArguments), results: p.uses(colResult), paths: p.uses(colPath),
		waits: db.opts.OffCPU && p.used>>colCPU&(1<<(colSelfRecorder-colCPU+1)-1) != 0,
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
		r.at, r.args, r.results, r.waits = 0, r.chunk.args, r.chunk.results, r.chunk.waits
		for r.chunk.index >= len(r.threads) {
			r.threads = append(r.threads, nil)
		}
		slot := &r.threads[r.chunk.index]
		if *slot == nil {
			info := r.db.threadInfo(r.chunk.thread)
			*slot = &info
		}
		r.thread = *slot
	}
	out.Call = r.chunk.calls[r.at]
	out.thread, out.index = r.thread, r.chunk.index
	if out.Args && r.stream.wants.args {
		out.args, r.args = argsOf(r.args, r.at)
	} else {
		out.args = nil
	}
	if r.stream.wants.results {
		var list []calls.Arg
		list, r.results = argsOf(r.results, r.at)
		if out.hasResult = len(list) > 0; out.hasResult {
			out.result = list[0].Value
		}
	}
	if r.stream.wants.waits {
		out.off, out.selfOff, r.waits = offOf(r.waits, r.at)
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
