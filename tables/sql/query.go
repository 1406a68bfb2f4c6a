// Package sql answers SQL over the calls of a trace. SQLite runs the queries. The tables
// are virtual: reading one reads the trace, so there is nothing to load, and conditions on
// threads, times, functions and durations reach the reader.
//
//	db, err := sql.Open(opts)
//	rows, err := db.Query(ctx, "SELECT function, count(*) FROM calls GROUP BY 1")
//
// Queries can only read. A query from a stranger can take time and temporary space, but it
// cannot write files or open others.
package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
)

// Options say what a DB reads.
type Options struct {
	tables.Source // without Base

	// Pass feeds the calls of the trace to a sink, in an order that depends on the trace
	// alone. It may be called while another pass is under way. It returns the error of the
	// sink.
	Pass func(PassOptions, calls.Sink) error
	// Memory limits tables whose size depends on the trace, in bytes. 0 is no limit.
	Memory int64
	// Start returns the time that becomes 0, in ticks.
	Start func() (uint64, error)
	// Functions are the functions that the instrumentation maps have.
	Functions []reader.FuncID
	// Traces returns the rows of the table traces, one for each file.
	Traces func() []tables.Trace
}

// PassOptions say what a pass needs.
type PassOptions struct {
	Filter calls.Filter
	Paths  bool // call paths, with the same numbers in each pass
	OffCPU bool // times off the CPU
}

// Restarter is a sink of a pass that may begin again, because there are more call paths than fit.
// Only the first pass with paths can do so, and its sink is a Restarter.
type Restarter interface{ Restart() }

// DB is a database whose tables are those of [tables.All]. It is not safe for concurrent use.
type DB struct {
	opts  Options
	db    *sql.DB
	conn  *sql.Conn
	based bool // Base is known

	counts *census   // nil until it is known
	paths  *pathTree // nil until it is known
	stacks []pathText

	expressions patterns
	others      int // values in all samples; see mostOthers
	matches     map[*regexp.Regexp]*pathMatches
	failed      error // of a pass

	// About counts the quantiles that are approximate, since the last query began.
	About int
}

// maxLength is the largest text or row that a query may build, in bytes.
const maxLength = 64 << 20

// Open makes a database that queries can read. It reads nothing yet.
func Open(opts Options) (*DB, error) {
	db := &DB{opts: opts, stacks: make([]pathText, pathSlots), matches: make(map[*regexp.Regexp]*pathMatches)}
	if err := countHeap(); err != nil {
		return nil, err
	}
	d := &sqlite.Driver{}
	for _, t := range tables.All {
		if err := d.RegisterModule("xray_"+t.Name, module{db, t}); err != nil {
			return nil, err
		}
	}
	if err := db.addFunctions(d); err != nil {
		return nil, err
	}
	db.db = sql.OpenDB(connector{d})
	var err error
	if db.conn, err = db.db.Conn(context.Background()); err == nil {
		err = errors.Join(db.prepare(), db.restrict())
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Close releases the database. It does not close the trace.
func (db *DB) Close() error {
	if db.conn != nil {
		db.conn.Close()
	}
	return db.db.Close()
}

type connector struct{ d *sqlite.Driver }

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.d.Open(":memory:") }
func (c connector) Driver() driver.Driver                        { return c.d }

// prepare makes the tables.
func (db *DB) prepare() error {
	// Sorting takes this much memory, and temporary files beyond it.
	statements := []string{"PRAGMA cache_size = -16384", "PRAGMA temp_store = FILE"}
	for _, t := range tables.All {
		statements = append(statements, fmt.Sprintf("CREATE VIRTUAL TABLE temp.%s USING xray_%s", t.Name, t.Name))
	}
	return db.exec(context.Background(), statements...)
}

// exec runs statements.
func (db *DB) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		db.failed = nil
		if _, err := db.conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, db.cause(err))
		}
	}
	return nil
}

// restrict limits what queries can do.
func (db *DB) restrict() error {
	if err := db.limitHeap(); err != nil {
		return err
	}
	if _, err := sqlite.Limit(db.conn, sqlite3.SQLITE_LIMIT_LENGTH, maxLength); err != nil {
		return err
	}
	return db.conn.Raw(func(c any) error { return c.(sqlite.AuthorizerRegisterer).RegisterAuthorizer(onlyRead) })
}

// onlyRead is the authorizer of all queries.
func onlyRead(action sqlite.AuthorizerActionCode, _, _, _, _ string) sqlite.AuthorizerReturnCode {
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRead, sqlite.AuthFunction, sqlite.AuthRecursive:
		return sqlite.AuthorizerOK
	}
	return sqlite.AuthorizerDeny
}

// start0 returns the time that is 0 in all tables.
func (db *DB) start0() (uint64, error) {
	if !db.based {
		base, err := db.opts.Start()
		if err != nil {
			return 0, err
		}
		db.opts.Base, db.based = base, true
	}
	return db.opts.Base, nil
}
