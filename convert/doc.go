// Package convert writes traces in other formats.
//
// It has two kinds of writers. Some take the blocks of a trace, and show its records one by
// one, in the order of the blocks:
//
//	YAML         trace YAML, as llvm-xray writes it
//	TraceEvents  Chrome trace_event JSON in the same form as llvm-xray's
//
// The others are sinks of reader/calls, and show calls with their durations, in the order
// in which the calls end:
//
//	Perfetto     a protobuf trace for Perfetto
//	Chrome       Chrome trace_event JSON for Perfetto and similar viewers, and for vizviewer
//	Speedscope   a profile of each thread for speedscope
//	Firefox      a profile for the Firefox Profiler
//	Pprof        a profile for pprof: self time and calls of every call path
//	Callgrind    a profile for KCachegrind: self time and calls of every function
//	CSV          a row for each call
//	JSONLines    a JSON object for each call
//
// All except Pprof, Callgrind, Speedscope and Firefox stream: they hold one buffer, some
// state per thread, and the rendered names of a limited number of functions. Every writer
// except Pprof and Callgrind must be closed, which ends the output and flushes it, and
// leaves the [io.Writer] open. The call that meets an error of the io.Writer returns it,
// and so does every later call. Writers are not safe for concurrent use.
//
// Times are converted exactly from ticks to whole nanoseconds, see [reader.Clock]. If the
// frequency of a trace's clock is unknown, times stay in ticks, and every format that can
// says so.
package convert

import (
	"io"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/sched"
	"github.com/xray-tools/xray/symbolize"
)

// Options of all writers. The zero value is usable.
type Options struct {
	// Header is the header of the trace, or of the first of several.
	Header reader.Header
	// Names are the functions' names. Without them, the formats of llvm-xray show the
	// decimal ID, as it does unless told to symbolize, and all others "#id".
	Names symbolize.Names
	// Base is the TSC that becomes time 0 in the formats that rebase times:
	// Chrome, CSV and JSONLines. Earlier times are negative.
	Base uint64
	// Epoch is the time at Base in nanoseconds since 1970, or 0 if it is unknown. Chrome
	// shows it.
	Epoch uint64
	// Absolute makes CSV and JSONLines count times from 1970 instead of from Base. It needs
	// an Epoch and a known frequency.
	Absolute bool
	// Shortest makes Perfetto, Chrome, Speedscope and Firefox omit calls of fewer ticks.
	Shortest uint64
	// LeftOut describes these calls, for the same formats to show. They then also show
	// where runs of such calls are, and omit the events in them. "" for neither.
	LeftOut string
	// LeftOutEvery is the length of time spans, in ticks. For each, Perfetto and Chrome
	// show how many calls of a thread were left out. 0 for none. Only with LeftOut.
	LeftOutEvery uint64
	// OffCPU, if not nil, makes Pprof, Perfetto, Chrome and Firefox show when threads were
	// off CPU. Pass it to calls.Options, too.
	OffCPU *reader.Clock
	// Sched has the scheduler's events of each file, or nil for none. With OffCPU, Perfetto,
	// Chrome and Firefox show off-CPU times as exactly as these say, and Perfetto
	// names what ran instead of a thread, and what woke it.
	Sched []*sched.Log
	// Windows has the windows of each file's recording, which Perfetto shows, or nil for none.
	Windows [][]reader.RecordedWindow
	// Caveats, if not nil, returns sentences about what the trace lacks. It is called when
	// a writer of Perfetto, Chrome, Speedscope or Firefox is closed, and when a Pprof or
	// Callgrind is written. Other formats cannot contain them.
	Caveats func() []string
	// Lost, if not nil, returns how many records of the trace could not be read. It is
	// called when a Perfetto or Firefox is closed.
	Lost func() int64
	// Source, if not nil, returns the text of a source file, for VizTracer's viewer and the
	// Firefox Profiler. Files that cannot be read are empty, and so are further ones after
	// 32 MB. Memory also grows with the functions that have a file.
	Source func(path string) ([]byte, error)
	// Files are the names of the traces, by reader.Thread.File. They are shown if there is
	// more than one.
	Files []string
	// Threads makes Pprof keep threads apart, by labels.
	Threads bool
	// Inlines makes Pprof show the inlined functions that calls were made from, if
	// symbolize.CallFrames knows them, and the lines of calls.
	Inlines bool
	// ThreadName and ProcessName return names of threads and of their processes, for Chrome
	// and Pprof, or "". They may be nil.
	ThreadName, ProcessName func(reader.Thread) string
}

// caveats returns the description of what is left out, followed by Caveats.
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

// nameOf returns the result of name, one of the two above, for a thread.
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

// output collects the output.
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

// spill writes the buffer if it is large enough, and returns the remainder. This is usually buf
// itself, to which the caller continues to append.
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
