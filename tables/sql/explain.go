package sql

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/tables"
)

// Error explains why a query cannot run.
type Error struct {
	Line, Column int // from 1, in characters; 0 if unknown
	Text         string
	Near         []string // names of tables, columns or functions that the user may have meant
}

// Error says where the mistake is, and what the user may have meant.
func (e *Error) Error() string {
	text := e.Text
	if e.Line > 0 {
		text = fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, text)
	}
	if len(e.Near) > 0 {
		text += "; the nearest names are " + strings.Join(e.Near, ", ")
	}
	return text
}

// errOnlyRead is SQLite's message for everything that [onlyRead] forbids.
const errOnlyRead = "queries can only read: SELECT, VALUES and WITH"

// explain makes an Error from SQLite's message about a refused query.
func (db *DB) explain(query string, err error) error {
	if cause := db.cause(err); cause != err {
		return cause
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	text := plainText(e.Error())
	out := &Error{Text: text}
	if e.Code()&0xff == sqlite3.SQLITE_AUTH {
		out.Text = errOnlyRead
		return out
	}
	at := db.offset()
	if m := unknown.FindStringSubmatch(text); at < 0 && m != nil && strings.Count(query, m[2]) == 1 {
		at = strings.Index(query, m[2])
	}
	if at >= 0 && at <= len(query) {
		before := query[:at]
		out.Line = 1 + strings.Count(before, "\n")
		out.Column = 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	}
	if of := tablesWith(text); len(of) > 0 {
		out.Text += ", which is a column of " + strings.Join(of, ", ") + ": name that table in FROM or JOIN"
		return out
	}
	out.Near = near(text)
	return out
}

// tablesWith returns the tables with the column that a message calls unknown: the query lacks them.
func tablesWith(text string) (names []string) {
	m := unknown.FindStringSubmatch(text)
	if m == nil || m[1] != "column" {
		return nil
	}
	column := strings.ToLower(m[2][strings.LastIndexByte(m[2], '.')+1:])
	for _, t := range tables.All {
		for _, c := range t.Of(tables.Queries) {
			if c.Name == column {
				names = append(names, t.Name)
			}
		}
	}
	return names
}

// plainText returns SQLite's message without the driver's additions.
func plainText(text string) string {
	text = strings.TrimPrefix(text, "SQL logic error: ")
	return regexp.MustCompile(` \(\d+\)$`).ReplaceAllString(text, "")
}

// offset is where in the query SQLite found the last error, in bytes, or -1 if it does not
// say. The driver does not report it, but its connection has the handle that SQLite needs.
func (db *DB) offset() (at int) {
	at = -1
	_ = db.conn.Raw(func(c any) error {
		v := reflect.ValueOf(c)
		if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
			return nil
		}
		handle, tls := v.Elem().FieldByName("db"), v.Elem().FieldByName("tls")
		if handle.Kind() == reflect.Uintptr && tls.Type() == reflect.TypeFor[*libc.TLS]() {
			at = int(sqlite3.Xsqlite3_error_offset((*libc.TLS)(unsafe.Pointer(tls.Pointer())), uintptr(handle.Uint())))
		}
		return nil
	})
	return at
}

// unknown matches messages about names.
var unknown = regexp.MustCompile(`^no such (table|column|function): (.*)$`)

// near returns the names similar to the unknown one in a message.
func near(text string) []string {
	m := unknown.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	name := strings.ToLower(m[2][strings.LastIndexByte(m[2], '.')+1:])
	var known []string
	switch m[1] {
	case "table":
		for _, t := range tables.All {
			known = append(known, t.Name)
		}
	case "function":
		for _, f := range Functions {
			known = append(known, f.Name)
		}
	default:
		for _, t := range tables.All {
			for _, c := range t.Of(tables.Queries) {
				known = append(known, c.Name)
			}
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	distance := func(s string) int {
		if strings.Contains(s, name) || strings.Contains(name, s) {
			return 1
		}
		return label.Distance(name, s)
	}
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	if at := slices.IndexFunc(known, func(s string) bool { return 2*distance(s) > len(name)+1 }); at >= 0 && m[1] != "table" {
		known = known[:at]
	}
	return known[:min(len(known), mostNear)]
}

// mostNear is how many names are suggested. It is as many as there are tables.
const mostNear = 6
