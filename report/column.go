package report

import (
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
)

// kind is the type of a column's cells.
type kind uint8

const (
	text kind = iota
	count
	number
	share
	duration
	mean
	moment
	size
	flag
	function
	path
	namePath
	thread
	value
	rows
)

// column is the part of a column that is the same for all rows.
type column struct {
	key, title string
	kind       kind
	people     bool // in text, Markdown and HTML
	programs   bool // in JSON and CSV
	optional   bool // omitted from text if the terminal is narrow
	least      bool // omitted before other optional columns
	place      bool // also shows a function's file and line
	signed     bool // positive numbers have a sign for people
	nested     bool // not in CSV
	flat       bool // not in JSON
	interval   bool // there are two values, the lower and the upper end
	right      bool // values are numbers
}

// cell is one value.
type cell struct {
	missing, about bool
	n, high        uint64  // high is the upper half of sums
	f, to          float64 // to is the upper end of an interval
	s              string
	path           []reader.FuncID
	names          []string
	thread         reader.Thread
	rows           *TableNode
	v              any
}

// Column is a column of a table whose rows are of type T.
type Column[T any] struct {
	column
	value   func(*T) cell
	high    func(*T) float64
	missing func(*T) bool
	about   func(*T) bool
}

func newColumn[T any](key string, k kind, value func(*T) cell) Column[T] {
	return Column[T]{column: column{key: key, title: titleOf(key), kind: k, people: true, programs: true}, value: value}
}

// Titled changes the column's title. The default is the key with spaces for underscores.
func (c Column[T]) Titled(title string) Column[T] { c.title = title; return c }

// ForPeople omits the column from JSON and CSV.
func (c Column[T]) ForPeople() Column[T] { c.programs = false; return c }

// ForPrograms omits the column from text, Markdown and HTML.
func (c Column[T]) ForPrograms() Column[T] { c.people = false; return c }

// Flat omits the column from JSON, which has the same data in another form.
func (c Column[T]) Flat() Column[T] { c.flat = true; return c }

// Optional lets text omit the column if the terminal is too narrow. Text omits the last
// optional column first.
func (c Column[T]) Optional() Column[T] { c.optional = true; return c }

// Least is [Column.Optional] for a column that text omits before other optional columns.
func (c Column[T]) Least() Column[T] { c.optional, c.least = true, true; return c }

// Missing selects the rows that have no value: "-" for people, empty in CSV, null in JSON. NaN is
// always missing. So is infinity in CSV and JSON. People do not see a column that has no
// values.
func (c Column[T]) Missing(f func(*T) bool) Column[T] { c.missing = f; return c }

// About marks approximate values with "~", for people.
func (c Column[T]) About(f func(*T) bool) Column[T] { c.about = f; return c }

// Signed writes "+" before positive numbers, for people. Use it for changes, in columns of
// [Number], [Share] and [Mean].
func (c Column[T]) Signed() Column[T] { c.signed = true; return c }

// To turns a column of [Number], [Share] or [Mean] into intervals, with the keys KEY_low
// and KEY_high: "1.2us to 1.5us" for people.
func (c Column[T]) To(high func(*T) float64) Column[T] { c.interval, c.high = true, high; return c }

// When omits the column unless ok is true.
func (c Column[T]) When(ok bool) Column[T] {
	c.people, c.programs = c.people && ok, c.programs && ok
	return c
}

// WithLocation adds the file and line of the function: a column "location" in text, and a
// key "location", or KEY_location if the key is not "function".
func (c Column[T]) WithLocation() Column[T] { c.place = true; return c }

// String is a column of text.
func String[T any](key string, f func(*T) string) Column[T] {
	return newColumn(key, text, func(r *T) cell { return cell{s: f(r)} })
}

// Count is a column of integers.
func Count[T any](key string, f func(*T) uint64) Column[T] {
	return newColumn(key, count, func(r *T) cell { return cell{n: f(r)} })
}

// Number is a column of numbers that may have a fraction or a sign.
func Number[T any](key string, f func(*T) float64) Column[T] {
	return newColumn(key, number, func(r *T) cell { return cell{f: f(r)} })
}

// Share is a column of parts of a whole, which is 1.
func Share[T any](key string, f func(*T) float64) Column[T] {
	return newColumn(key, share, func(r *T) cell { return cell{f: f(r)} })
}

// Time is a column of durations, in ticks.
func Time[T any](key string, f func(*T) uint64) Column[T] {
	return newColumn(key, duration, func(r *T) cell { return cell{n: f(r)} })
}

// Sum is a column of sums of durations, in ticks, which may exceed 64 bits.
func Sum[T any](key string, f func(*T) quantile.Sum) Column[T] {
	return newColumn(key, duration, func(r *T) cell {
		s := f(r)
		return cell{n: s.Lo, high: s.Hi}
	})
}

// Mean is a column of durations, in ticks, that may have a fraction or a sign: means and
// differences.
func Mean[T any](key string, f func(*T) float64) Column[T] {
	return newColumn(key, mean, func(r *T) cell { return cell{f: f(r)} })
}

// Moment is a column of points in time, as TSCs. They are relative to [Doc.Start].
func Moment[T any](key string, f func(*T) uint64) Column[T] {
	return newColumn(key, moment, func(r *T) cell { return cell{n: f(r)} })
}

// Bytes is a column of sizes.
func Bytes[T any](key string, f func(*T) uint64) Column[T] {
	return newColumn(key, size, func(r *T) cell { return cell{n: f(r)} })
}

// Flag is a column of truth values: "yes" or nothing for people.
func Flag[T any](key string, f func(*T) bool) Column[T] {
	return newColumn(key, flag, func(r *T) cell { return truth(f(r)) })
}

func truth(ok bool) cell {
	if ok {
		return cell{n: 1}
	}
	return cell{}
}

// Function is a column of functions, with the keys KEY, for the name, and KEY_id.
func Function[T any](key string, f func(*T) reader.FuncID) Column[T] {
	return newColumn(key, function, func(r *T) cell { return cell{n: uint64(uint32(f(r)))} })
}

// Path is a column of call paths, the outermost function first, with the keys KEY, for the
// names, and KEY_ids. In CSV, names are separated by " > " and IDs by spaces. People see
// the last functions of long paths.
func Path[T any](key string, f func(*T) []reader.FuncID) Column[T] {
	return newColumn(key, path, func(r *T) cell { return cell{path: f(r)} })
}

// NamePath is a column of call paths whose functions have only names. It is written like
// [Path], without IDs.
func NamePath[T any](key string, f func(*T) []string) Column[T] {
	return newColumn(key, namePath, func(r *T) cell { return cell{names: f(r)} })
}

// Thread is a column of threads, with the keys file (from 1), process, thread and
// thread_name. If the key is not "thread", it precedes them: KEY_file and so on.
func Thread[T any](key string, f func(*T) reader.Thread) Column[T] {
	return newColumn(key, thread, func(r *T) cell { return cell{thread: f(r)} })
}

// Value is a column of values of any type, as a database returns them: nil, int64, float64,
// string or []byte. numbers aligns them as numbers.
func Value[T any](key string, numbers bool, f func(*T) any) Column[T] {
	c := newColumn(key, value, func(r *T) cell { return cell{v: f(r)} })
	c.title, c.right = key, numbers
	return c
}

// Rows is a column of tables: arrays in JSON. People and CSV get words instead. If words is
// nil, they do not have the column.
func Rows[T any](key string, f func(*T) *TableNode, words func(*T) string) Column[T] {
	c := newColumn(key, rows, func(r *T) cell {
		if words == nil {
			return cell{rows: f(r)}
		}
		return cell{rows: f(r), s: words(r)}
	})
	c.people, c.nested = words != nil, words == nil
	return c
}
