package sql

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Function is a function that queries have besides those of SQLite.
type Function struct {
	Name  string
	Usage string
	Text  string // what it returns
	args  int32
	call  func(*DB, []driver.Value) (driver.Value, error) // nil for aggregates
	sum   func(*DB) sqlite.AggregateFunction
}

// Functions are all functions, in the order in which documents list them.
var Functions = []Function{
	{"quantile", "quantile(X, Q)", "the quantile Q, from 0 to 1, of the values of X, as `xray account` computes it; an aggregate", 2, nil,
		func(db *DB) sqlite.AggregateFunction { return &sample{db: db} }},
	{"histogram", "histogram(X)", "the number of values of X from each power of two to the next, as JSON: `{\"0\":3,\"1\":2,\"2\":9,\"4\":1}`; an aggregate", 1, nil,
		func(db *DB) sqlite.AggregateFunction { return &octaves{} }},
	{"regexp", "X REGEXP P", "1 if the regular expression P matches a part of X", 2, matches, nil},
	{"stack", "stack(PATH)", "the names of the functions of a call path, as in the table `paths`", 1, stackOf, nil},
	{"path_has", "path_has(PATH, P)", "1 if the regular expression P matches the name of a function of the call path", 2, pathHas, nil},
	{"path_from", "path_from(PATH, P)", "the names of the functions of the call path, starting with the first that P matches; NULL if P matches none", 2, pathFrom, nil},
	{"path_at", "path_at(PATH, N)", "function N of the call path: 1 is the outermost, -1 the innermost", 2, pathAt, nil},
	{"short", "short(NAME)", "the name of a function as reports show it: without parameters and template arguments", 1, shorten, nil},
	{"ns", "ns(TEXT)", "a duration such as '1.5ms' in nanoseconds", 1, nanos, nil},
	{"human", "human(NS)", "nanoseconds as readable text, such as 1.500ms", 1, human, nil},
}

func (db *DB) addFunctions(d *sqlite.Driver) error {
	for _, f := range Functions {
		impl := &sqlite.FunctionImpl{NArgs: f.args, Deterministic: true}
		if f.call != nil {
			impl.Scalar = func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
				if slices.Contains(args, nil) {
					return nil, nil
				}
				return f.call(db, args)
			}
		} else {
			impl.MakeAggregate = func(sqlite.FunctionContext) (sqlite.AggregateFunction, error) { return f.sum(db), nil }
		}
		if err := d.RegisterFunction(f.Name, impl); err != nil {
			return err
		}
	}
	return nil
}

// RelativeError bounds the error of a quantile that is approximate.
const RelativeError = quantile.RelativeError

// errNoWindow means that an aggregate was used over a window that moves.
var errNoWindow = errors.New("cannot be used over a window whose start moves: use it in a query with GROUP BY")

// sample is quantile(X, Q).
type sample struct {
	db     *DB
	whole  quantile.Sample // of integers from 0 on
	others []float64
	q      float64
	given  bool
}

// Step implements [sqlite.AggregateFunction].
func (s *sample) Step(_ *sqlite.FunctionContext, args []driver.Value) error {
	if !s.given {
		q, ok := number(args[1])
		if !ok || q < 0 || q > 1 {
			return fmt.Errorf("quantile: the second argument must be a number from 0 to 1, such as 0.99, not %v", args[1])
		}
		s.q, s.given = q, true
	}
	switch v := args[0].(type) {
	case nil:
		return nil
	case int64:
		if v >= 0 {
			s.whole.Add(uint64(v))
			return nil
		}
		return s.other(float64(v))
	case float64:
		return s.other(v)
	}
	return fmt.Errorf("quantile: %q is not a number", fmt.Sprint(args[0]))
}

func (s *sample) other(v float64) error {
	if s.db.others == mostOthers {
		return fmt.Errorf("quantile: there are more than %d values with a fraction or a sign: use whole numbers, for example with round() and CAST", mostOthers)
	}
	s.others = append(s.others, v)
	s.db.others++
	return nil
}

// WindowInverse implements [sqlite.AggregateFunction].
func (s *sample) WindowInverse(*sqlite.FunctionContext, []driver.Value) error {
	return fmt.Errorf("quantile %w", errNoWindow)
}

// WindowValue implements [sqlite.AggregateFunction].
func (s *sample) WindowValue(*sqlite.FunctionContext) (driver.Value, error) {
	n := s.whole.Count()
	if len(s.others) == 0 {
		if n == 0 {
			return nil, nil
		}
		if s.whole.Approximate() {
			s.db.About++
		}
		return int64(s.whole.Quantile(s.q)), nil
	}
	// Values with a fraction are few, so the others count with them.
	if n > mostOthers {
		return nil, fmt.Errorf("quantile: %d values are whole numbers and others are not: use one kind", n)
	}
	if s.whole.Approximate() {
		s.db.About++
	}
	all := slices.Clone(s.others)
	for v, count := range s.whole.All() {
		for range count {
			all = append(all, float64(v))
		}
	}
	slices.Sort(all)
	return all[min(int(s.q*float64(len(all))), len(all)-1)], nil
}

// Final implements [sqlite.AggregateFunction].
func (s *sample) Final(*sqlite.FunctionContext) {
	s.db.others -= len(s.others)
	s.others = nil
}

// octaves is histogram(X).
type octaves struct {
	whole quantile.Sample
}

// Step implements [sqlite.AggregateFunction].
func (o *octaves) Step(_ *sqlite.FunctionContext, args []driver.Value) error {
	switch v := args[0].(type) {
	case nil:
		return nil
	case int64:
		if v >= 0 {
			o.whole.Add(uint64(v))
			return nil
		}
	}
	return fmt.Errorf("histogram: %v is not a whole number of at least 0", args[0])
}

// WindowInverse implements [sqlite.AggregateFunction].
func (o *octaves) WindowInverse(*sqlite.FunctionContext, []driver.Value) error {
	return fmt.Errorf("histogram %w", errNoWindow)
}

// WindowValue implements [sqlite.AggregateFunction].
func (o *octaves) WindowValue(*sqlite.FunctionContext) (driver.Value, error) {
	var parts []string
	for bits, n := range o.whole.Octaves() {
		if n > 0 {
			low := uint64(0)
			if bits > 0 {
				low = 1 << (bits - 1)
			}
			parts = append(parts, fmt.Sprintf("\"%d\":%d", low, n))
		}
	}
	return "{" + strings.Join(parts, ",") + "}", nil
}

// Final implements [sqlite.AggregateFunction].
func (*octaves) Final(*sqlite.FunctionContext) {}

// expression compiles a regular expression.
func (db *DB) expression(v driver.Value) (*regexp.Regexp, error) {
	return db.expressions.get(fmt.Sprint(v))
}

func matches(db *DB, args []driver.Value) (driver.Value, error) {
	re, err := db.expression(args[0])
	if err != nil {
		return nil, err
	}
	text, ok := args[1].(string)
	if !ok {
		text = fmt.Sprint(args[1])
	}
	return re.MatchString(text), nil
}

// pathOf returns the functions of the path with an ID; nil if there is none.
func (db *DB) pathOf(v driver.Value) ([]reader.FuncID, error) {
	tree, err := db.pathTree()
	if err != nil {
		return nil, err
	}
	id, ok := v.(int64)
	if !ok || id <= 0 || id >= int64(len(tree.funcs)) {
		return nil, nil
	}
	return tree.frames(calls.PathID(id)), nil
}

// pathMatches remembers where a regular expression matches call paths.
type pathMatches struct {
	re *regexp.Regexp
	at []int32 // by path: 1 for the outermost function and so on, -1 for none, 0 if unknown
}

// mostExpressions is the maximum number of remembered expressions.
const mostExpressions = 16

// firstMatch is the position of the first function of a path that an expression matches: 1 is the
// outermost, and 0 means none.
func (db *DB) firstMatch(args []driver.Value) (calls.PathID, int, error) {
	re, err := db.expression(args[1])
	if err != nil {
		return 0, 0, err
	}
	tree, err := db.pathTree()
	if err != nil {
		return 0, 0, db.fail(err)
	}
	n, ok := args[0].(int64)
	if !ok || n <= 0 || n >= int64(len(tree.funcs)) {
		return 0, 0, nil
	}
	m := db.matches[re]
	if m == nil {
		if len(db.matches) >= mostExpressions {
			clear(db.matches)
		}
		m = &pathMatches{re, make([]int32, len(tree.funcs))}
		m.at[0] = -1
		db.matches[re] = m
	}
	id := calls.PathID(n)
	return id, int(max(m.of(db, tree, id), 0)), nil
}

// of returns the element of m.at for a path.
func (m *pathMatches) of(db *DB, tree *pathTree, id calls.PathID) int32 {
	var unknown []calls.PathID
	for ; m.at[id] == 0; id = tree.parents[id] {
		unknown = append(unknown, id)
	}
	at, depth := m.at[id], int32(0)
	if at < 0 {
		for up := id; up != 0; up = tree.parents[up] {
			depth++
		}
	}
	for _, id := range slices.Backward(unknown) {
		depth++
		if at < 0 && m.re.MatchString(db.opts.Function(tree.funcs[id]).Name()) {
			at = depth
		}
		m.at[id] = at
	}
	return at
}

func stackOf(db *DB, args []driver.Value) (driver.Value, error) {
	path, err := db.pathOf(args[0])
	if err != nil || path == nil {
		return nil, err
	}
	return db.opts.Stack(path), nil
}

func pathHas(db *DB, args []driver.Value) (driver.Value, error) {
	_, at, err := db.firstMatch(args)
	return at > 0, err
}

func pathFrom(db *DB, args []driver.Value) (driver.Value, error) {
	id, at, err := db.firstMatch(args)
	if err != nil || at == 0 {
		return nil, err
	}
	return db.opts.Stack(db.paths.frames(id)[at-1:]), nil
}

func pathAt(db *DB, args []driver.Value) (driver.Value, error) {
	path, err := db.pathOf(args[0])
	n, ok := args[1].(int64)
	if err != nil || !ok {
		return nil, err
	}
	if n > 0 {
		n--
	} else {
		n += int64(len(path))
	}
	if n < 0 || n >= int64(len(path)) {
		return nil, nil
	}
	return db.opts.Function(path[n]).Name(), nil
}

func shorten(_ *DB, args []driver.Value) (driver.Value, error) {
	return symbolize.Shorten(fmt.Sprint(args[0])), nil
}

func nanos(_ *DB, args []driver.Value) (driver.Value, error) {
	d, err := time.ParseDuration(fmt.Sprint(args[0]))
	if err != nil {
		return nil, fmt.Errorf("ns: %q is not a duration: write '1.5ms' or '300us'", fmt.Sprint(args[0]))
	}
	return int64(d), nil
}

func human(_ *DB, args []driver.Value) (driver.Value, error) {
	n, ok := number(args[0])
	if !ok {
		return nil, fmt.Errorf("human: %q is not a number", fmt.Sprint(args[0]))
	}
	c := reader.Clock{Frequency: 1e9}
	if n < 0 {
		return "-" + c.Format(uint64(min(-n, math.MaxInt64))), nil
	}
	return c.Format(uint64(min(n, math.MaxInt64))), nil
}
