package sql

import (
	"slices"
	"strings"

	"github.com/xray-tools/xray/tables"
)

// Columns of calls that plans treat apart, by number.
var (
	colTrace, colProcess   = ofCalls("trace"), ofCalls("process")
	colThread              = ofCalls("thread")
	colThreadName          = ofCalls("thread_name")
	colStart, colDuration  = ofCalls("start"), ofCalls("duration")
	colSelf, colDepth      = ofCalls("self"), ofCalls("depth")
	colFunctionID          = ofCalls("function_id")
	colFunction            = ofCalls("function")
	colCallerID, colCaller = ofCalls("caller_id"), ofCalls("caller")
	colPath                = ofCalls("path")
	colEventPath           = columnOf(&tables.Events.Table, "path")
	colPathDepth, colStack = columnOf(&tables.Paths.Table, "depth"), columnOf(&tables.Paths.Table, "stack")
)

func ofCalls(name string) int { return columnOf(&tables.Calls.Table, name) }

// columnOf returns the number of a column of queries.
func columnOf(t *tables.Table, name string) int {
	return slices.IndexFunc(t.Of(tables.Queries), func(c tables.Column) bool { return c.Name == name })
}

// declaration is the CREATE TABLE statement that SQLite gets.
func declaration(t *tables.Table) string {
	var list []string
	for _, c := range t.Of(tables.Queries) {
		list = append(list, c.Name+" "+c.SQL())
	}
	return "CREATE TABLE " + t.Name + "(" + strings.Join(list, ", ") + ")"
}
