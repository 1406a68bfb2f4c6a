package tables

import (
	"slices"
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// Calls has the values of queries. tables/parquet encodes columns of many calls at once instead, in
// the order of this table, because that is several times as fast.
var Calls = table("calls", "A row for each call.", slices.Concat(ofThread(func(c *Call) *Thread { return c.Thread }), []column[Call]{
	{col("start", int64s, required, "ns", "entry, since the first record of the trace"),
		func(s *Source, c *Call) any { return s.Time(c.Start) }},
	{col("duration", int64s, required, "ns", "time from entry to exit"),
		func(s *Source, c *Call) any { return Saturated(s.Clock.Nanos(c.Duration)) }},
	{col("self", int64s, required, "ns", "`duration` without callees"),
		func(s *Source, c *Call) any { return Saturated(s.Clock.Nanos(c.Self)) }},
	{col("duration_ticks", int64s, required, "ticks", "`duration` as recorded, in ticks"),
		func(_ *Source, c *Call) any { return Saturated(c.Duration) }},
	{col("self_ticks", int64s, required, "ticks", "`self` as recorded, in ticks"),
		func(_ *Source, c *Call) any { return Saturated(c.Self) }},
	{col("depth", int32s, required, "", "number of calls that were open at entry"),
		func(_ *Source, c *Call) any { return int64(c.Depth) }},
	{functionIDColumn, func(_ *Source, c *Call) any { return int64(c.Func) }},
	{functionNameColumn, func(s *Source, c *Call) any { return s.Function(c.Func).name }},
	{fileColumn, func(s *Source, c *Call) any { return s.Function(c.Func).file }},
	{lineColumn, func(s *Source, c *Call) any { return s.Function(c.Func).line }},
	{col("caller_id", int32s, optional, "", "`function_id` of the caller; null for outermost calls"),
		func(_ *Source, c *Call) any {
			if c.Caller == 0 {
				return nil
			}
			return int64(c.Caller)
		}},
	{col("caller", texts, optional, "", "`function` of the caller"),
		func(s *Source, c *Call) any {
			if c.Caller == 0 {
				return nil
			}
			return s.Function(c.Caller).name
		}},
	{col("path", int32s, required, "", "call path, in the table `paths`"),
		func(_ *Source, c *Call) any { return int64(c.Path) }},
	{list("arguments", uint64s, "logged arguments; null if there are none"),
		func(_ *Source, c *Call) any { return argsText(c.Args) }},
	{col("result", uint64s, optional, "", "recorded result of a call of the C library"),
		func(_ *Source, c *Call) any {
			if !c.HasResult {
				return nil
			}
			return int64(c.Result)
		}},
	{col("args", texts, optional, "", "arguments that `xray record --args` recorded, as a JSON object by expression; null if there are none"),
		func(_ *Source, c *Call) any { return orNull(c.Values.Args) }},
	{col("results", texts, optional, "", "results that `xray record --results` recorded, as a JSON object by expression; null if there are none"),
		func(_ *Source, c *Call) any { return orNull(c.Values.Results) }},
	{col("ended", texts, required, "", "how the call ended: exited, tail-exited, continued, inferred, truncated or left; after `earlier`, if it began before the trace or before `--from`"),
		func(_ *Source, c *Call) any { return endings[c.Ending()] }},
	onCPU("cpu", "`duration` without `blocked`, `queued` and `recorder`; null if the trace has no off-CPU times", whole),
	offCPU("blocked", "time in which the thread slept or waited, including callees", whole, blocked),
	offCPU("queued", "time in which the thread was runnable but not running", whole, queued),
	offCPU("recorder", "time in which the recorder blocked the thread", whole, inRecorder),
	onCPU("self_cpu", "`self` without `self_blocked`, `self_queued` and `self_recorder`", itself),
	offCPU("self_blocked", "part of `blocked` without callees", itself, blocked),
	offCPU("self_queued", "part of `queued` without callees", itself, queued),
	offCPU("self_recorder", "part of `recorder` without callees", itself, inRecorder),
})...)

// whole and itself return the time of a call, with callees and without.
func whole(c *Call) (uint64, *calls.Off)  { return c.Duration, &c.Off }
func itself(c *Call) (uint64, *calls.Off) { return c.Self, &c.SelfOff }

func blocked(o *calls.Off) uint64    { return o.Blocked }
func queued(o *calls.Off) uint64     { return o.Queued }
func inRecorder(o *calls.Off) uint64 { return o.Recorder }

func onCPU(name, about string, of func(*Call) (uint64, *calls.Off)) column[Call] {
	return column[Call]{col(name, int64s, optional, "ns", about), func(s *Source, c *Call) any {
		if !s.OffCPU {
			return nil
		}
		ticks, off := of(c)
		return Saturated(s.Clock.Nanos(ticks - min(ticks, off.Sum())))
	}}
}

func offCPU(name, about string, of func(*Call) (uint64, *calls.Off), part func(*calls.Off) uint64) column[Call] {
	return column[Call]{col(name, int64s, optional, "ns", about), func(s *Source, c *Call) any {
		if !s.OffCPU {
			return nil
		}
		_, off := of(c)
		return Saturated(s.Clock.Nanos(part(off)))
	}}
}

// endings are the names of the results of calls.Call.Ending.
var endings = func() (list [calls.Endings]any) {
	for e := range list {
		list[e] = calls.End(e).String()
	}
	return list
}()

// argsText returns arguments as a JSON array, or nil if there are none.
func argsText(args []calls.Arg) any {
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

// Functions has a row for each function.
var Functions = table("functions", "A row for each function that was called, by ID. In SQL, functions that only the maps list have rows, too.",
	column[Function]{functionIDColumn, func(_ *Source, f *Function) any { return int64(f.ID) }},
	column[Function]{functionNameColumn, func(_ *Source, f *Function) any { return f.name }},
	column[Function]{col("linkage", texts, optional, "", "name in the symbol table"),
		func(s *Source, f *Function) any { return orNull(s.symbol(f).Linkage) }},
	column[Function]{fileColumn, func(_ *Source, f *Function) any { return f.file }},
	column[Function]{lineColumn, func(_ *Source, f *Function) any { return f.line }},
	column[Function]{col("address", uint64s, optional, "", "address in its object file"),
		func(s *Source, f *Function) any {
			if at := s.symbol(f).Address; at != 0 {
				return int64(at)
			}
			return nil
		}},
	column[Function]{col("object", texts, optional, "", "program or shared object that has the function"),
		func(s *Source, f *Function) any {
			if s.Names == nil {
				return nil
			}
			return orNull(symbolize.ObjectName(s.Names, f.ID))
		}},
)

// Paths has a row for each call path.
var Paths = table("paths", "A row for each call path. Parents have smaller IDs than their children.",
	column[Path]{col("path", int32s, required, "", "ID of the path in this trace"), func(_ *Source, p *Path) any { return int64(p.ID) }},
	column[Path]{col("parent", int32s, optional, "", "path of the caller; null for outermost calls"),
		func(_ *Source, p *Path) any {
			if p.Parent == 0 {
				return nil
			}
			return int64(p.Parent)
		}},
	column[Path]{col("depth", int32s, required, "", "number of functions before the last"), func(_ *Source, p *Path) any { return int64(p.Depth) }},
	column[Path]{functionIDColumn, func(_ *Source, p *Path) any { return int64(p.Func) }},
	column[Path]{functionNameColumn, func(s *Source, p *Path) any { return s.Function(p.Func).name }},
	column[Path]{col("stack", texts, optional, "", "names of all functions, outermost first, joined by `;`; null if there are more than 256"),
		func(_ *Source, p *Path) any { return p.Stack }},
)

// Threads has a row for each thread.
var Threads = table("threads", "A row for each thread that has calls or events in the tables.",
	slices.Concat(ofThread(func(t *Thread) *Thread { return t }), []column[Thread]{
		{col("process_name", texts, optional, "", "name of the process"), func(_ *Source, t *Thread) any { return t.processName }},
		{col("calls", int64s, required, "", "number of the thread's rows in `calls`"), func(_ *Source, t *Thread) any { return t.calls }},
		{col("first_start", int64s, optional, "ns", "start of the first of these calls"),
			func(s *Source, t *Thread) any { return t.time(s, t.first) }},
		{col("last_end", int64s, optional, "ns", "latest end of these calls"),
			func(s *Source, t *Thread) any { return t.time(s, t.last) }},
	})...)

// time returns a time of the thread's calls, or nil if it has none.
func (t *Thread) time(s *Source, tsc uint64) any {
	if t.calls == 0 {
		return nil
	}
	return s.Time(tsc)
}

// Events has a row for each event.
var Events = table("events", "A row for each custom or typed event, and each mark.", slices.Concat(ofThread(func(e *Event) *Thread { return e.Thread }), []column[Event]{
	{col("time", int64s, required, "ns", "time since the first record of the trace"), func(s *Source, e *Event) any { return s.Time(e.TSC) }},
	{col("kind", texts, required, "", "custom, typed or mark"),
		func(_ *Source, e *Event) any {
			switch _, mark := e.Mark(); {
			case mark:
				return "mark"
			case e.Kind == reader.Typed:
				return "typed"
			}
			return "custom"
		}},
	{col("type", int32s, optional, "", "type of a typed event"),
		func(_ *Source, e *Event) any {
			if e.Kind != reader.Typed {
				return nil
			}
			return int64(e.Type)
		}},
	{col("cpu", int32s, required, "", "CPU that the event was recorded on"), func(_ *Source, e *Event) any { return int64(e.CPU) }},
	{col("depth", int32s, required, "", "number of open calls"), func(_ *Source, e *Event) any { return int64(e.Depth) }},
	{col("function_id", int32s, optional, "", "`function_id` of the innermost open call"),
		inCall(func(_ *Source, e *Event) any { return int64(e.Func) })},
	{col("function", texts, optional, "", "`function` of that call"),
		inCall(func(s *Source, e *Event) any { return s.Function(e.Func).name })},
	{col("path", int32s, optional, "", "path of that call, in the table `paths`"),
		inCall(func(_ *Source, e *Event) any { return int64(e.Path) })},
	{col("text", texts, optional, "", "payload, if it is text; the text of a mark"),
		func(_ *Source, e *Event) any {
			if mark, ok := e.Mark(); ok {
				return orNull(mark.Text)
			}
			if e.IsText() {
				return string(e.Data)
			}
			return nil
		}},
	{col("request", uint64s, optional, "", "for a request mark: the request ID, or 0 where the thread stops working on a request"),
		func(_ *Source, e *Event) any {
			if mark, ok := e.Mark(); ok && mark.Request {
				return int64(mark.ID)
			}
			return nil
		}},
	{col("data", blobs, required, "", "payload"), func(_ *Source, e *Event) any { return e.Data }},
})...)

// inCall returns a value of events inside of calls, which is nil for others.
func inCall(value func(*Source, *Event) any) func(*Source, *Event) any {
	return func(s *Source, e *Event) any {
		if e.Func == 0 {
			return nil
		}
		return value(s, e)
	}
}

// Traces has a row for each trace.
var Traces = table("traces", "A row for each trace. In files, it is written last. Queries have the columns that need no pass over the trace.", []column[Trace]{
	{traceColumn, func(_ *Source, t *Trace) any { return t.Name }},
	file("name", texts, required, "", "file that was converted", func(_ *Source, t *Trace) any { return t.Name }),
	file("schema", int32s, required, "", "version of these tables", func(*Source, *Trace) any { return int64(Version) }),
	{col("unit", texts, required, "", "unit of times: ns, or ticks if the clock frequency is unknown"), func(s *Source, _ *Trace) any { return s.Clock.Unit() }},
	{col("frequency", int64s, optional, "ticks/s", "frequency of the clock"),
		func(s *Source, _ *Trace) any {
			if !s.Clock.Known() {
				return nil
			}
			return Saturated(s.Clock.Frequency)
		}},
	{col("started", int64s, optional, "ns", "wall-clock time of the first record, since 1970; only traces of xray's recorder have it"),
		func(_ *Source, t *Trace) any {
			if t.Started == 0 {
				return nil
			}
			return t.Started
		}},
	file("first_tick", uint64s, required, "ticks", "time of the first record on the clock of the trace", func(s *Source, _ *Trace) any { return int64(s.Base) }),
	file("last_tick", uint64s, required, "ticks", "time of the last record", func(_ *Source, t *Trace) any { return int64(t.Last) }),
	file("length", int64s, required, "ns", "time from the first to the last record", func(s *Source, t *Trace) any { return s.Time(max(s.Base, t.Last)) }),
	file("records", int64s, required, "", "records with a time, on the selected threads", func(_ *Source, t *Trace) any { return int64(t.Stats.Events) }),
	file("calls", int64s, required, "", "number of rows in `calls`", func(_ *Source, t *Trace) any { return t.Rows }),
	file("all_calls", int64s, required, "", "number of calls of these threads, including calls that the conversion's flags dropped", func(_ *Source, t *Trace) any { return int64(t.Stats.Calls) }),
	file("threads", int32s, required, "", "number of threads in the trace", func(_ *Source, t *Trace) any { return int64(t.Threads) }),
	file("inferred_calls", int64s, required, "", "of `all_calls`, those without an exit record", func(_ *Source, t *Trace) any { return int64(t.Stats.Inferred) }),
	file("truncated_calls", int64s, required, "", "of `all_calls`, those still open at the end", func(_ *Source, t *Trace) any { return int64(t.Stats.Truncated) }),
	file("left_calls", int64s, required, "", "of `all_calls`, those that an exception or longjmp left", func(_ *Source, t *Trace) any { return int64(t.Stats.Left) }),
	file("unmatched_exits", int64s, required, "", "exits that match no call", func(_ *Source, t *Trace) any { return int64(t.Stats.Unmatched) }),
	file("losses", int64s, required, "", "places where the trace is damaged or incomplete", func(_ *Source, t *Trace) any { return t.Losses }),
	file("lost_records", int64s, required, "", "records that could not be read", func(_ *Source, t *Trace) any { return t.LostRecords }),
	{col("host", texts, optional, "", "name of the machine"), ofProcess(func(p *reader.Process) any { return orNull(p.Host) })},
	{col("process", int32s, optional, "", "ID of the process that was recorded"), ofProcess(func(p *reader.Process) any { return int64(p.PID) })},
	{col("program", texts, optional, "", "executable of the process"), ofProcess(func(p *reader.Process) any { return orNull(p.Exe) })},
	{col("build_id", texts, optional, "", "build ID of the executable"), ofProcess(func(p *reader.Process) any { return orNull(p.BuildID) })},
	{list("command", texts, "command line of the process"), ofProcess(func(p *reader.Process) any { return p.Argv })},
	{col("off_processor", texts, optional, "", "why off-CPU times are unknown; null if they are known"), func(_ *Source, t *Trace) any { return orNull(t.OffProcessor) }},
	file("off_unknown", int64s, required, "", "number of off-CPU periods of unknown length, which count as CPU time", func(_ *Source, t *Trace) any { return int64(t.Stats.Off.Unknown) }),
	file("off_unqueued", int64s, required, "", "number of off-CPU periods for which the kernel did not report the run-queue time; `blocked` includes it", func(_ *Source, t *Trace) any { return int64(t.Stats.Off.Unqueued) }),
	{list("caveats", texts, "what is missing or uncertain, in sentences").onlyIn(Files), func(_ *Source, t *Trace) any { return t.Caveats }},
}...)

// file returns a column of traces that files alone have.
func file(name string, kind parquetfile.Kind, null bool, unit, about string, value func(*Source, *Trace) any) column[Trace] {
	return column[Trace]{col(name, kind, null, unit, about).onlyIn(Files), value}
}

// ofProcess returns a value of the process, which is nil if that is unknown.
func ofProcess(value func(*reader.Process) any) func(*Source, *Trace) any {
	return func(_ *Source, t *Trace) any {
		if t.Process == nil {
			return nil
		}
		return value(t.Process)
	}
}
