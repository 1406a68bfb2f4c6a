package sql

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// A query from a stranger may ask for any amount of memory. SQLite's own has one limit, which includes
// its aggregates. What this package keeps for a query has others.
const (
	// mostHeap is the most memory that SQLite takes, in bytes.
	mostHeap = 256 << 20
	// mostOthers is the maximum number of values with a fraction or a sign in all quantiles.
	mostOthers = 4 << 20
	// mostPattern is the maximum size of a regular expression, in instructions, and mostPatterns that
	// of all that are kept. An instruction takes some 60 bytes.
	mostPattern, mostPatterns = 1 << 16, 1 << 18
)

// countHeap makes SQLite count its memory, which the driver's build does not. It is possible only before
// the first database is open.
var countHeap = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	args := libc.NewVaList(int32(1))
	defer libc.Xfree(tls, args)
	if code := sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_MEMSTATUS, args); code != sqlite3.SQLITE_OK {
		return fmt.Errorf("SQLite cannot limit its memory: error %d", code)
	}
	return nil
})

// limitHeap sets the limit for all databases.
func (db *DB) limitHeap() error {
	return db.exec(context.Background(), fmt.Sprintf("PRAGMA hard_heap_limit = %d", mostHeap))
}

var errHeap = fmt.Errorf("the query needs more than %d MB of memory: aggregate fewer or shorter texts", mostHeap>>20)

// isNoMemory reports whether SQLite has reached its limit.
func isNoMemory(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_NOMEM
}

// patterns are compiled regular expressions. A query has few of them.
type patterns struct {
	compiled map[string]*regexp.Regexp
	size     int // instructions of all
}

func (p *patterns) get(text string) (*regexp.Regexp, error) {
	if re := p.compiled[text]; re != nil {
		return re, nil
	}
	size, err := patternSize(text)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	if p.size += size; p.compiled == nil || p.size > mostPatterns {
		p.compiled, p.size = make(map[string]*regexp.Regexp), size
	}
	p.compiled[text] = re
	return re, nil
}

// patternSize returns the number of instructions of a regular expression, and those for its text. It
// returns an error if there are too many.
func patternSize(text string) (int, error) {
	large := func() (int, error) {
		return 0, fmt.Errorf("the regular expression %.40q... is too large", text)
	}
	const perInstruction = 60
	if len(text) > mostPattern {
		return large()
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, err
	}
	if len(prog.Inst) > mostPattern {
		return large()
	}
	return len(prog.Inst) + len(text)/perInstruction + 16, nil
}
