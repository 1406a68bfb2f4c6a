// Package convert writes traces in other formats.
//
// It has two kinds of writers. Some take the blocks of a trace and write its records one by
// one, in the order of the blocks:
//
//	YAML         trace YAML, as llvm-xray writes it
//	TraceEvents  Chrome trace_event JSON, in llvm-xray's form
//
// The others are sinks of reader/calls and write calls with their durations, in the order
// in which the calls end:
//
//	Perfetto     a protobuf trace for Perfetto
//	Chrome       Chrome trace_event JSON for Perfetto and similar viewers, and for vizviewer
//	Speedscope   a profile of each thread for speedscope
//	Firefox      a profile for the Firefox Profiler
//	Pprof        a profile for pprof: self time and number of calls by call path
//	Callgrind    a profile for KCachegrind: self time and number of calls by function
//	CSV          a row for each call
//	JSONLines    a JSON object for each call
//
// All except Pprof, Callgrind, Speedscope and Firefox stream: they hold one buffer, some
// state per thread, and the rendered names of a limited number of functions. Every writer
// except Pprof and Callgrind must be closed. Close ends and flushes the output, but does not
// close the [io.Writer]. If the io.Writer fails, that call and all later ones return the
// error. Writers are not safe for concurrent use.
//
// Times are converted exactly from ticks to whole nanoseconds, see [reader.Clock]. If the
// frequency of a trace's clock is unknown, times stay in ticks, and the output says so if its
// format allows it.
package convert

import (
	"io"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/sched"
	"github.com/xray-tools/xray/symbolize"
)

// Options of all writers. The zero value is usable.
type Options struct {
	// Header is the header of the trace, or of the first of several.
	Header reader.Header
	// Names are the functions' names. Without them, the formats of llvm-xray show the
	// decimal ID, as llvm-xray does without -symbolize, and all others "#id".
	Names symbolize.Names
	// Base is the TSC that becomes time 0 in Perfetto, Chrome, Speedscope, Firefox, CSV and
	// JSONLines. Earlier times are negative, except in Perfetto, where they become 0.
	Base uint64
	// Epoch is the time at Base in nanoseconds since 1970, or 0 if it is unknown. Perfetto,
	// Chrome and Firefox show it.
	Epoch uint64
	// Absolute makes CSV and JSONLines count times from 1970 instead of from Base. It needs
	// an Epoch and a known frequency.
	Absolute bool
	// Shortest makes Perfetto, Chrome, Speedscope, Firefox and Callgrind omit calls of fewer
	// ticks.
	Shortest uint64
	// LeftOut describes the omitted calls. If it is not "", these formats except Callgrind
	// show it, and where runs of such calls are. Perfetto and Chrome then omit the events in
	// the calls.
	LeftOut string
	// LeftOutEvery is the length of time spans, in ticks. For each span, Perfetto and Chrome
	// show how many calls of a thread were omitted. 0 shows none. It needs LeftOut.
	LeftOutEvery uint64
	// OffCPU, if not nil, makes Pprof, Perfetto, Chrome and Firefox show when threads were
	// off CPU. Pass it to calls.Options as well.
	OffCPU *reader.Clock
	// Sched has the scheduler events of each file, or nil for none. With OffCPU, Perfetto,
	// Chrome and Firefox take exact off-CPU times from them, and Perfetto shows what ran
	// instead of a thread and what woke it. Perfetto also writes the events from the TSC From, or
	// Base if that is later, until before To, if that is not 0.
	Sched    []*sched.Log
	From, To uint64
	// Windows has the windows of each file's recording, for Perfetto, or nil for none.
	Windows [][]reader.RecordedWindow
	// Caveats, if not nil, returns sentences about what the trace lacks. Close of Perfetto,
	// Chrome, Speedscope and Firefox calls it, as does Write of Pprof and Callgrind. Other
	// formats cannot contain caveats.
	Caveats func() []string
	// Lost, if not nil, returns how many records of the trace could not be read. Close of
	// Perfetto and Firefox calls it.
	Lost func() int64
	// Source, if not nil, returns the text of a source file, for VizTracer's viewer and the
	// Firefox Profiler. A file has no text if it cannot be read, or if the total would exceed
	// 32 MB. With sources, memory also grows with the functions whose file is known.
	Source func(path string) ([]byte, error)
	// Files are the names of the traces, by reader.Thread.File. Most formats show them only
	// if there are several.
	Files []string
	// Threads makes Pprof separate threads, by labels.
	Threads bool
	// Inlines makes Pprof show the inlined functions that calls were made from, if
	// symbolize.CallFrames knows them, and the lines of calls.
	Inlines bool
	// ThreadName and ProcessName return the names of threads and of their processes, or "".
	// Perfetto, Chrome, Speedscope and Firefox use both, Pprof only ThreadName. They may be
	// nil.
	ThreadName, ProcessName func(reader.Thread) string
	// Values are the recorded arguments and results that CSV, JSONLines, Chrome, Perfetto and Firefox
	// show. It may be nil. It needs calls without calls.Options.Alias.
	Values *calls.Expressions
}

// caveats returns the description of the omitted calls, followed by Caveats.
func (o *Options) caveats() []string {
	var list []string
	if o.LeftOut != "" {
		list = append(list, o.LeftOut)
	}
	if o.Caveats != nil {
		list = append(list, o.Caveats()...)
	}
	return list
}

// nameOf returns what name, ThreadName or ProcessName, returns for a thread, or "" if it is nil.
func nameOf(name func(reader.Thread) string, t reader.Thread) string {
	if name == nil {
		return ""
	}
	return name(t)
}

// file returns the name of a thread's trace, or "" unless there are several.
func (o *Options) file(t reader.Thread) string {
	if len(o.Files) < 2 || int(t.File) >= len(o.Files) {
		return ""
	}
	return o.Files[t.File]
}

// output buffers the output and keeps the first error of w.
type output struct {
	w   io.Writer
	buf []byte
	err error
}

// flushSize is the minimum size of a write to the io.Writer.
const flushSize = 64 << 10

func newOutput(w io.Writer) output {
	return output{w: w, buf: make([]byte, 0, flushSize+4096)}
}

// spill writes buf if it is large enough. It returns the buffer to append to: buf, or an empty one
// with the same memory.
func (o *output) spill(buf []byte) []byte {
	if len(buf) < flushSize {
		return buf
	}
	return o.flush(buf)
}

func (o *output) flush(buf []byte) []byte {
	if o.err == nil {
		_, o.err = o.w.Write(buf)
	}
	return buf[:0]
}

// finish appends the end of the output and writes all of it.
func (o *output) finish(end string) error {
	o.buf = o.flush(append(o.buf, end...))
	return o.err
}
