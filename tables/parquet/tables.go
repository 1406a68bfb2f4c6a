package parquet

import "github.com/xray-tools/xray/tables/parquetfile"

// Version is the version of the tables. It increases when a column is removed or changes its
// type or meaning, but not when a column is added.
const Version = 1

// Table is a table of the output.
type Table struct {
	Name, About string
	Columns     []Column
}

// Column is a column of a table, with its meaning.
type Column struct {
	parquetfile.Column
	Unit, About string
}

// Type is the type of the column in the documentation of the tables.
func (c *Column) Type() string {
	if c.List {
		return "LIST<" + c.Kind.String() + ">"
	}
	return c.Kind.String()
}

// Null is the column's entry under "null" in that documentation: "yes" if it may be null, or "".
func (c *Column) Null() string {
	if c.Optional || c.List {
		return "yes"
	}
	return ""
}

const (
	required = false
	optional = true
)

func column(name string, kind parquetfile.Kind, null bool, unit, about string) Column {
	return Column{Column: parquetfile.Column{Name: name, Kind: kind, Optional: null}, Unit: unit, About: about}
}

func list(name string, kind parquetfile.Kind, about string) Column {
	return Column{Column: parquetfile.Column{Name: name, Kind: kind, List: true}, About: about}
}

// Kinds of values, for brevity.
const (
	int32s  = parquetfile.Int32
	int64s  = parquetfile.Int64
	uint64s = parquetfile.Uint64
	texts   = parquetfile.String
	blobs   = parquetfile.Bytes
)

// Tables are the tables of the output. Engines add a column trace, from the names of folders.
var Tables = []Table{callsTable, functionsTable, pathsTable, threadsTable, eventsTable, tracesTable}

// Columns of several tables.
var (
	processColumn      = column("process", int32s, required, "", "process ID")
	threadColumn       = column("thread", int32s, required, "", "thread ID")
	threadNameColumn   = column("thread_name", texts, optional, "", "name of the thread")
	functionIDColumn   = column("function_id", int32s, required, "", "XRay function ID")
	functionNameColumn = column("function", texts, required, "", "name of the function, or `#ID` without a map")
	fileColumn         = column("file", texts, optional, "", "source file of the function")
	lineColumn         = column("line", int32s, optional, "", "line of the function in `file`")
)

var callsTable = Table{"calls", "A row for each call.", []Column{
	processColumn,
	threadColumn,
	threadNameColumn,
	column("start", int64s, required, "ns", "entry, since the first record of the trace"),
	column("duration", int64s, required, "ns", "time from entry to exit"),
	column("self", int64s, required, "ns", "`duration` without callees"),
	column("duration_ticks", int64s, required, "ticks", "`duration` as recorded, in ticks"),
	column("self_ticks", int64s, required, "ticks", "`self` as recorded, in ticks"),
	column("depth", int32s, required, "", "number of calls that were open at entry"),
	functionIDColumn,
	functionNameColumn,
	fileColumn,
	lineColumn,
	column("caller_id", int32s, optional, "", "`function_id` of the caller; null for outermost calls"),
	column("caller", texts, optional, "", "`function` of the caller"),
	column("path", int32s, required, "", "call path, in the table `paths`"),
	list("arguments", uint64s, "logged arguments; null if there are none"),
	column("result", uint64s, optional, "", "recorded result of a call of the C library"),
	column("ended", texts, required, "", "how the call ended: exited, tail-exited, continued, inferred, truncated or left; after `earlier`, if it began before the trace or before `--from`"),
	column("cpu", int64s, optional, "ns", "`duration` without `blocked`, `queued` and `recorder`; null if the trace has no off-CPU times"),
	column("blocked", int64s, optional, "ns", "time in which the thread slept or waited, including callees"),
	column("queued", int64s, optional, "ns", "time in which the thread was runnable but not running"),
	column("recorder", int64s, optional, "ns", "time in which the recorder blocked the thread"),
	column("self_cpu", int64s, optional, "ns", "`self` without `self_blocked`, `self_queued` and `self_recorder`"),
	column("self_blocked", int64s, optional, "ns", "part of `blocked` without callees"),
	column("self_queued", int64s, optional, "ns", "part of `queued` without callees"),
	column("self_recorder", int64s, optional, "ns", "part of `recorder` without callees"),
}}

var functionsTable = Table{"functions", "A row for each function that was called, by ID.", []Column{
	functionIDColumn,
	functionNameColumn,
	column("linkage", texts, optional, "", "name in the symbol table"),
	fileColumn,
	lineColumn,
	column("address", uint64s, optional, "", "address in its object file"),
	column("object", texts, optional, "", "program or shared object that has the function"),
}}

var pathsTable = Table{"paths", "A row for each call path. Parents have smaller IDs than their children.", []Column{
	column("path", int32s, required, "", "ID of the path in this trace"),
	column("parent", int32s, optional, "", "path of the caller; null for outermost calls"),
	column("depth", int32s, required, "", "number of functions before the last"),
	functionIDColumn,
	functionNameColumn,
	column("stack", texts, optional, "", "names of all functions, outermost first, joined by `;`; null if there are more than 256"),
}}

var threadsTable = Table{"threads", "A row for each thread that has calls or events in the tables.", []Column{
	processColumn,
	threadColumn,
	threadNameColumn,
	column("process_name", texts, optional, "", "name of the process"),
	column("calls", int64s, required, "", "number of the thread's rows in `calls`"),
	column("first_start", int64s, optional, "ns", "start of the first of these calls"),
	column("last_end", int64s, optional, "ns", "latest end of these calls"),
}}

var eventsTable = Table{"events", "A row for each custom or typed event, and each mark.", []Column{
	processColumn,
	threadColumn,
	threadNameColumn,
	column("time", int64s, required, "ns", "time since the first record of the trace"),
	column("kind", texts, required, "", "custom, typed or mark"),
	column("type", int32s, optional, "", "type of a typed event"),
	column("cpu", int32s, required, "", "CPU that the event was recorded on"),
	column("depth", int32s, required, "", "number of open calls"),
	column("function_id", int32s, optional, "", "`function_id` of the innermost open call"),
	column("function", texts, optional, "", "`function` of that call"),
	column("path", int32s, optional, "", "path of that call, in the table `paths`"),
	column("text", texts, optional, "", "payload, if it is text; the text of a mark"),
	column("request", uint64s, optional, "", "for a request mark: the request ID, or 0 where the thread stops working on a request"),
	column("data", blobs, required, "", "payload"),
}}

var tracesTable = Table{"traces", "A row for each trace. It is written last.", []Column{
	column("name", texts, required, "", "file that was converted"),
	column("schema", int32s, required, "", "version of these tables"),
	column("unit", texts, required, "", "unit of times: ns, or ticks if the clock frequency is unknown"),
	column("frequency", int64s, optional, "ticks/s", "frequency of the clock"),
	column("started", int64s, optional, "ns", "wall-clock time of the first record, since 1970; only traces of xray's recorder have it"),
	column("first_tick", uint64s, required, "ticks", "time of the first record on the clock of the trace"),
	column("last_tick", uint64s, required, "ticks", "time of the last record"),
	column("length", int64s, required, "ns", "time from the first to the last record"),
	column("records", int64s, required, "", "records with a time, on the selected threads"),
	column("calls", int64s, required, "", "number of rows in `calls`"),
	column("all_calls", int64s, required, "", "number of calls of these threads, including calls that the conversion's flags dropped"),
	column("threads", int32s, required, "", "number of threads in the trace"),
	column("inferred_calls", int64s, required, "", "of `all_calls`, those without an exit record"),
	column("truncated_calls", int64s, required, "", "of `all_calls`, those still open at the end"),
	column("left_calls", int64s, required, "", "of `all_calls`, those that an exception or longjmp left"),
	column("unmatched_exits", int64s, required, "", "exits that match no call"),
	column("losses", int64s, required, "", "places where the trace is damaged or incomplete"),
	column("lost_records", int64s, required, "", "records that could not be read"),
	column("host", texts, optional, "", "name of the machine"),
	column("process", int32s, optional, "", "ID of the process that was recorded"),
	column("program", texts, optional, "", "executable of the process"),
	column("build_id", texts, optional, "", "build ID of the executable"),
	list("command", texts, "command line of the process"),
	column("off_processor", texts, optional, "", "why off-CPU times are unknown; null if they are known"),
	column("off_unknown", int64s, required, "", "number of off-CPU periods of unknown length, which count as CPU time"),
	column("off_unqueued", int64s, required, "", "number of off-CPU periods for which the kernel did not report the run-queue time; `blocked` includes it"),
	list("caveats", texts, "what is missing or uncertain, in sentences"),
}}

// columns returns the columns of the table in a file.
func (t *Table) columns() []parquetfile.Column {
	var list []parquetfile.Column
	for i := range t.Columns {
		list = append(list, t.Columns[i].Column)
	}
	return list
}
