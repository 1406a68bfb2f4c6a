// Package convert writes traces in other formats.
//
// Two kinds of writers share it. Some take the blocks of a trace, and show its
// records one by one, in the order in which the blocks come:
//
//	YAML         trace YAML, as llvm-xray writes it
//	TraceEvents  Chrome trace_event JSON in the shape that llvm-xray gives it
//
// The others are sinks of reader/calls, and show calls with their durations, in
// the order in which the calls end:
//
//	Perfetto     a protobuf trace for Perfetto
//	Chrome       Chrome trace_event JSON for Perfetto and its like, and for vizviewer
//	Speedscope   a profile of each thread for speedscope
//	Firefox      a profile for the Firefox Profiler
//	Pprof        a profile for pprof: self time and calls of every call path
//	Callgrind    a profile for KCachegrind: self time and calls of every function
//	CSV          a row for each call
//	JSONLines    a JSON object for each call
//
// All but Pprof, Callgrind, Speedscope and Firefox stream: they hold one buffer, what they
// keep per thread, and the rendered names of a bounded number of functions. Every
// writer but Pprof and Callgrind must be closed, which ends the output and flushes it, and leaves the
// [io.Writer] open. Errors of the io.Writer are returned by the call that meets
// them and by every one after it. Writers are not safe for concurrent use.
//
// Times are converted from ticks to whole nanoseconds exactly, see package
// clock. Where the frequency of a trace's clock is unknown, times stay in
// ticks, and every format that has a place for it says so.
package convert

import (
	"io"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Options of all writers. The zero value is usable.
type Options struct {
	// Header is that of the trace, or of the first of several.
	Header reader.Header
	// Names are the functions' names. Without them, the formats of llvm-xray
	// show the decimal id, as it does unless it is told to symbolise, and all
	// others "#id".
	Names symbolize.Names
	// Base is the TSC that becomes time 0 in the formats that rebase times:
	// Chrome, CSV and JSONLines. Earlier times are negative.
	Base uint64
	// Epoch is the time at Base in nanoseconds since 1970; 0 when it is not known.
	// Chrome tells it.
	Epoch uint64
	// Absolute makes CSV and JSONLines count times from 1970 on instead of from
	// Base. It needs an Epoch and a known frequency.
	Absolute bool
	// Shortest makes Perfetto, Chrome, Speedscope and Firefox leave out calls of fewer ticks.
	Shortest uint64
	// LeftOut says which calls these are, for the same formats to show; they then also
	// show where runs of such calls are, and leave out the events in them. "" for neither.
	LeftOut string
	// LeftOutEvery is how long the spans are, in ticks, for each of which Perfetto and
	// Chrome show how many calls of a thread were left out; 0 for none. Only with LeftOut.
	LeftOutEvery uint64
	// Caveats, where it is set, says in sentences what the trace does not have. It is asked
	// when a writer of Perfetto, Chrome, Speedscope or Firefox is closed, and when a
	// Pprof or Callgrind is written. Other formats have no place for that.
	Caveats func() []string
	// Lost, which may be nil, is asked when a Perfetto or Firefox is closed how many records
	// of the trace could not be read.
	Lost func() int64
	// Source, which may be nil, returns the text of a file of source code, which VizTracer's
	// viewer and the Firefox Profiler show then. Files that cannot be read stay empty, and so
	// do further ones once there are 32 MB. Memory also grows with the functions that have a
	// file.
	Source func(path string) ([]byte, error)
	// Files are the names of the traces, by reader.Thread.File. They are shown
	// where there is more than one.
	Files []string
	// Threads makes Pprof keep threads apart, by labels.
	Threads bool
	// Inlines makes Pprof show the inlined functions that calls were made from, where
	// symbolize.CallFrames knows them, and the lines of calls.
	Inlines bool
	// ThreadName and ProcessName give threads and their processes names, in Chrome
	// and Pprof; "" for none. They may be nil.
	ThreadName, ProcessName func(reader.Thread) string
}

// caveats are what Caveats says, behind what is left out.
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

// nameOf is what name, one of the two above, calls a thread.
func nameOf(name func(reader.Thread) string, t reader.Thread) string {
	if name == nil {
		return ""
	}
	return name(t)
}

// file names the trace a thread is of; "" unless there are several.
func (o *Options) file(t reader.Thread) string {
	if len(o.Files) < 2 || int(t.File) >= len(o.Files) {
		return ""
	}
	return o.Files[t.File]
}

// output collects what is written.
type output struct {
	w   io.Writer
	buf []byte
	err error
}

// flushSize is what a write to the io.Writer carries at least.
const flushSize = 64 << 10

func newOutput(w io.Writer) output {
	return output{w: w, buf: make([]byte, 0, flushSize+4096)}
}

// spill writes the buffer out when there is enough in it, and returns what is
// left: most often buf itself, which the caller goes on appending to.
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
