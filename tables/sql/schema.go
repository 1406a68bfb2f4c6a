package sql

import "strings"

// Column is a column of a table.
type Column struct {
	Name string
	Type string // as SQLite declares it: INTEGER or TEXT
	Text string // what it holds
}

// Table is a table that queries can read.
type Table struct {
	Name    string
	Text    string // what a row is
	Columns []Column
}

// The columns of calls, by number.
const (
	colTrace = iota
	colProcess
	colThread
	colThreadName
	colStart
	colDuration
	colSelf
	colDurationTicks
	colSelfTicks
	colDepth
	colFunctionID
	colFunction
	colFile
	colLine
	colCallerID
	colCaller
	colPath
	colArguments
	colResult
	colEnded
	colCPU
	colBlocked
	colQueued
	colRecorder
	colSelfCPU
	colSelfBlocked
	colSelfQueued
	colSelfRecorder
	callColumns
)

// The columns of events after those of the thread, by number.
const (
	colTime = colThreadName + 1 + iota
	colKind
	colEventType
	colEventCPU
	colEventDepth
	colEventFunctionID
	colEventFunction
	colEventPath
	colText
	colRequest
	colData
)

// Columns of paths, by number.
const (
	colPathDepth = 2
	colStack     = 5
)

const (
	integers = "INTEGER"
	texts    = "TEXT"
	blobs    = "BLOB"
)

var ofThread = []Column{
	{"trace", texts, "name of the trace file"},
	{"process", integers, "process ID"},
	{"thread", integers, "thread ID"},
	{"thread_name", texts, "name of the thread"},
}

// Tables are all tables, in the order in which documents list them. Their columns have the
// names and the meaning of those that convert -f parquet writes.
var Tables = []Table{
	{"calls", "a call", append(ofThread[:4:4],
		Column{"start", integers, "ns from the first record of the trace to the entry"},
		Column{"duration", integers, "ns from entry to exit"},
		Column{"self", integers, "`duration` without callees"},
		Column{"duration_ticks", integers, "`duration` as recorded, in ticks"},
		Column{"self_ticks", integers, "`self` as recorded, in ticks"},
		Column{"depth", integers, "number of calls that were open at entry"},
		Column{"function_id", integers, "XRay function ID"},
		Column{"function", texts, "name of the function, or `#ID` without a map"},
		Column{"file", texts, "source file of the function"},
		Column{"line", integers, "line of the function in `file`"},
		Column{"caller_id", integers, "`function_id` of the caller; NULL for outermost calls"},
		Column{"caller", texts, "`function` of the caller"},
		Column{"path", integers, "call path, in the table `paths`"},
		Column{"arguments", texts, "logged arguments as a JSON array; NULL if there are none"},
		Column{"result", integers, "recorded result of a call of the C library, as a signed number"},
		Column{"ended", texts, "how the call ended: exited, tail-exited, continued, inferred, truncated or left; after `earlier`, if it began before the trace or before `--from`"},
		Column{"cpu", integers, "`duration` without `blocked`, `queued` and `recorder`; NULL if the trace has no off-CPU times"},
		Column{"blocked", integers, "ns in which the thread slept or waited, including callees"},
		Column{"queued", integers, "ns in which the thread was runnable but not running"},
		Column{"recorder", integers, "ns in which the recorder blocked the thread"},
		Column{"self_cpu", integers, "`self` without `self_blocked`, `self_queued` and `self_recorder`"},
		Column{"self_blocked", integers, "part of `blocked` without callees"},
		Column{"self_queued", integers, "part of `queued` without callees"},
		Column{"self_recorder", integers, "part of `recorder` without callees"},
	)},
	{"functions", "a function that was called, or that the maps list", []Column{
		{"function_id", integers, "XRay function ID"},
		{"function", texts, "name of the function, or `#ID` without a map"},
		{"linkage", texts, "name in the symbol table"},
		{"file", texts, "source file of the function"},
		{"line", integers, "line of the function in `file`"},
		{"address", integers, "address in its object file"},
		{"object", texts, "program or shared object that has the function"},
	}},
	{"paths", "a call path", []Column{
		{"path", integers, "ID of the path"},
		{"parent", integers, "path of the caller; NULL for outermost calls"},
		{"depth", integers, "number of functions before the last"},
		{"function_id", integers, "XRay function ID of the last function"},
		{"function", texts, "name of the last function"},
		{"stack", texts, "names of all functions, outermost first, joined by `;`; NULL if there are more than 256"},
	}},
	{"threads", "a thread that has calls or events", append(ofThread[:4:4],
		Column{"process_name", texts, "name of the process"},
		Column{"calls", integers, "number of its calls"},
		Column{"first_start", integers, "`start` of the first of these calls"},
		Column{"last_end", integers, "latest end of these calls"},
	)},
	{"events", "a custom or typed event, or a mark", append(ofThread[:4:4],
		Column{"time", integers, "ns since the first record of the trace"},
		Column{"kind", texts, "custom, typed or mark"},
		Column{"type", integers, "type of a typed event"},
		Column{"cpu", integers, "CPU that the event was recorded on"},
		Column{"depth", integers, "number of open calls"},
		Column{"function_id", integers, "`function_id` of the innermost open call"},
		Column{"function", texts, "`function` of that call"},
		Column{"path", integers, "path of that call, in the table `paths`"},
		Column{"text", texts, "payload, if it is text; the text of a mark"},
		Column{"request", integers, "for a request mark: the request ID, or 0 where the thread stops working on a request"},
		Column{"data", blobs, "payload"},
	)},
	{"traces", "a trace file", []Column{
		{"trace", texts, "name of the trace file"},
		{"unit", texts, "unit of times: ns, or ticks if the clock frequency is unknown"},
		{"frequency", integers, "ticks per second"},
		{"started", integers, "wall-clock time of the first record, in ns since 1970"},
		{"host", texts, "name of the machine"},
		{"process", integers, "ID of the process that was recorded"},
		{"program", texts, "its executable"},
		{"build_id", texts, "build ID of the executable"},
		{"command", texts, "its command line as a JSON array"},
		{"off_processor", texts, "why off-CPU times are unknown; NULL if they are known"},
	}},
}

// declaration is the CREATE TABLE statement that SQLite gets.
func (t *Table) declaration() string {
	var b strings.Builder
	b.WriteString("CREATE TABLE " + t.Name + "(")
	for i, c := range t.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.Name + " " + c.Type)
	}
	return b.String() + ")"
}
