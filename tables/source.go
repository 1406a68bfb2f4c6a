package tables

import (
	"math"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// Source has what values are computed from, beside the calls, events and threads of a trace. It is
// not safe for concurrent use.
type Source struct {
	Names symbolize.Names // may be nil
	// Clock is the trace's clock, and Base the tick that becomes time 0.
	Clock reader.Clock
	Base  uint64
	// OffCPU says that the trace has off-CPU times.
	OffCPU bool
	// Files are the names of the traces, by reader.Thread.File.
	Files []string
	// ThreadName and ProcessName return the names of a thread and of its process, or "". They may
	// be nil.
	ThreadName, ProcessName func(reader.Thread) string
	// Values are the recorded arguments and results, or nil. They need calls without calls.Options.Alias.
	Values *calls.Expressions

	functions *FunctionCache
}

// Time converts a time of the trace's clock to nanoseconds since Base.
func (s *Source) Time(tsc uint64) int64 {
	if tsc < s.Base {
		return -Saturated(s.Clock.Nanos(s.Base - tsc))
	}
	return Saturated(s.Clock.Nanos(tsc - s.Base))
}

// Saturated returns v, or the largest int64 if v is larger.
func Saturated(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

// orNull returns the value of an optional column: nil, which is null, for "".
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Function has the values that are the same in all rows of a function.
type Function struct {
	ID               reader.FuncID
	name, file, line any
}

// Name, File and Line are the values as they are; the last two are empty if unknown.
func (f *Function) Name() string { return f.name.(string) }

// File is the source file, or "".
func (f *Function) File() string { s, _ := f.file.(string); return s }

// Line is the line in File, or 0.
func (f *Function) Line() int32 { n, _ := f.line.(int64); return int32(n) }

// FunctionCache remembers functions. It has a fixed size, because IDs of a damaged trace are
// arbitrary.
type FunctionCache struct {
	names symbolize.Names
	slots []*Function
}

const functionSlots = 1 << 16

// NewFunctionCache returns a cache of functions with these names.
func NewFunctionCache(names symbolize.Names) *FunctionCache {
	return &FunctionCache{names: names, slots: make([]*Function, functionSlots)}
}

// Of returns a function.
func (c *FunctionCache) Of(id reader.FuncID) *Function {
	slot := &c.slots[(uint32(id)^uint32(id)>>24*0x9E37)%functionSlots]
	if *slot == nil || (*slot).ID != id {
		f := &Function{ID: id, name: symbolize.Label(c.names, id)}
		if c.names != nil {
			if s, ok := c.names.Func(id); ok && s.File != "" {
				f.file = s.File
				if s.Line > 0 {
					f.line = int64(s.Line)
				}
			}
		}
		*slot = f
	}
	return *slot
}

// Function returns a function.
func (s *Source) Function(id reader.FuncID) *Function {
	if s.functions == nil {
		s.functions = NewFunctionCache(s.Names)
	}
	return s.functions.Of(id)
}

// symbol returns what names tell about a function, or an empty Symbol.
func (s *Source) symbol(f *Function) symbolize.Symbol {
	if s.Names == nil {
		return symbolize.Symbol{}
	}
	sym, _ := s.Names.Func(f.ID)
	return sym
}

// Stack returns the names of functions, joined by ";".
func (s *Source) Stack(frames []reader.FuncID) string {
	var b strings.Builder
	for i, id := range frames {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(s.Function(id).Name())
	}
	return b.String()
}

// DeepestStack is the length of the longest call path whose names are in the table paths. Without
// a limit, deep recursion would make the table huge.
const DeepestStack = 256

// PathTree is a tree of call paths.
type PathTree interface {
	Len() int
	Parent(calls.PathID) calls.PathID
	Func(calls.PathID) reader.FuncID
}

// Path is a call path.
type Path struct {
	ID, Parent calls.PathID
	Func       reader.FuncID
	Depth      int
	Stack      any // names, or nil
}

// EachPath calls add for each path of a tree, without its Stack. Parents come before children.
func EachPath(t PathTree, add func(*Path) error) error {
	depths := make([]int32, t.Len())
	for id := calls.PathID(1); int(id) < t.Len(); id++ {
		p := Path{ID: id, Parent: t.Parent(id), Func: t.Func(id)}
		if p.Parent != 0 {
			depths[id] = depths[p.Parent] + 1
		}
		p.Depth = int(depths[id])
		if err := add(&p); err != nil {
			return err
		}
	}
	return nil
}

// Thread is a thread, and what is known of its calls.
type Thread struct {
	reader.Thread
	trace, process, id, name, processName any

	calls       int64
	first, last uint64
}

// ThreadOf returns a thread without calls.
func (s *Source) ThreadOf(t reader.Thread) Thread {
	named := func(name func(reader.Thread) string) any {
		if name == nil {
			return nil
		}
		return orNull(name(t))
	}
	out := Thread{Thread: t, process: int64(t.Process), id: int64(t.Thread), name: named(s.ThreadName), processName: named(s.ProcessName)}
	if int(t.File) < len(s.Files) {
		out.trace = s.Files[t.File]
	}
	return out
}

// Name is the name of the thread, or "".
func (t *Thread) Name() string { s, _ := t.name.(string); return s }

// Count adds a call.
func (t *Thread) Count(c *calls.Call) {
	end := c.Start + min(c.Duration, math.MaxUint64-c.Start)
	if t.calls == 0 {
		t.first, t.last = c.Start, end
	}
	t.first, t.last = min(t.first, c.Start), max(t.last, end)
	t.calls++
}

// Values are recorded arguments and results as JSON, or "".
type Values struct{ Args, Results string }

// ValuesOf returns the values of call i of a batch. Scratch may be nil, and is returned for the next call.
func (s *Source) ValuesOf(b *calls.Batch, i int, scratch []calls.Recorded) (v Values, again []calls.Recorded) {
	scratch = s.Values.Of(b, i, scratch[:0])
	if len(scratch) > 0 {
		v.Args, v.Results = string(calls.AppendValues(nil, scratch, false)), string(calls.AppendValues(nil, scratch, true))
	}
	return v, scratch
}

// Call is a call of a query.
type Call struct {
	calls.Call
	Thread       *Thread
	Args         []calls.Arg
	Result       uint64
	HasResult    bool
	Values       Values
	Off, SelfOff calls.Off // in all of the call, and in itself alone
}

// Event is an event of a thread.
type Event struct {
	*calls.Event
	Thread *Thread
}

// Trace is a trace.
type Trace struct {
	Name         string
	Started      int64           // nanoseconds since 1970; 0 if unknown
	Process      *reader.Process // nil if unknown
	OffProcessor string          // why off-CPU times are unknown; "" if they are known
	// The others are known when the trace was read, and are in files alone.
	Stats               *calls.Stats
	Last                uint64 // tick of the last record
	Rows                int64  // of the table calls
	Threads             int    // number of threads in the trace
	Losses, LostRecords int64
	Caveats             []string
}
