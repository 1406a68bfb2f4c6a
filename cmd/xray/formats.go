package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/stack"
)

// traceFormat is a format that convert writes. To add one, write a file in package convert, and
// add a line to traceFormats.
type traceFormat struct {
	name, about string
	kind        formatKind
	binary      bool // not for terminals
	compressed  bool // by the writer itself
	sources     bool // can show source code
	inlines     bool // can show inlined functions
	byThread    bool // each thread has its own blocks, so threads are not merged
	caveats     bool // the output includes the recorder's warnings about a single trace
	// viewer is the program that opens the format. mostBytes is the largest file that it handles
	// well.
	viewer    string
	mostBytes int64
	// perCall is the memory of the writer for each call, in bytes, or 0 if it keeps no calls.
	perCall int64
	// write writes a trace, and returns the run over its calls.
	write formatWriter
	// tables writes a trace as files in a directory, instead of write.
	tables func(c *conversion, s *session.Session, opts convert.Options) (*session.Run, error)
}

// formatWriter writes a trace to w. The caveats are known only after all calls were read, and
// the caller prints them. opts.Caveats is for formats that have a place for them.
type formatWriter func(c *conversion, s *session.Session, opts convert.Options, w io.Writer) (*session.Run, error)

// formatKind says what a format contains.
type formatKind uint8

const (
	ofRecords  formatKind = iota // the records, without calls
	ofCalls                      // each call in a row
	ofTimeline                   // each call at its time
	ofSums                       // times by function or call path
)

var traceFormats = []traceFormat{
	{name: "raw", about: "a basic log of version 3", kind: ofRecords, binary: true, write: records(newBasic)},
	{name: "fdr", about: "a flight data recorder log of version 5", kind: ofRecords, binary: true, byThread: true, caveats: true, write: records(newFDR)},
	{name: "plain", about: "the trace unchanged, but uncompressed", kind: ofRecords, binary: true, write: plainBytes},
	{name: "yaml", about: "trace YAML for llvm-xray and xray", kind: ofRecords, write: records(whole(convert.NewYAML))},
	{name: "trace_event", about: "Chrome JSON as llvm-xray writes it", kind: ofRecords, write: records(whole(convert.NewTraceEvents))},
	{name: "perfetto", about: "a protobuf trace for Perfetto", kind: ofTimeline, binary: true,
		viewer: "the Perfetto UI", mostBytes: 500e6, write: opening(convert.NewPerfetto)},
	{name: "chrome", about: "Chrome JSON for Perfetto, chrome://tracing and similar tools", kind: ofTimeline,
		viewer: "the Perfetto UI", mostBytes: 500e6, write: ending(convert.NewChrome)},
	{name: "viztracer", about: "Chrome JSON with source locations, for vizviewer", kind: ofTimeline, sources: true,
		viewer: "vizviewer", mostBytes: 500e6, write: ending(convert.NewVizTracer)},
	{name: "speedscope", about: "a profile per thread for speedscope, with calls in time order", kind: ofTimeline,
		viewer: "speedscope", mostBytes: 250e6, perCall: convert.SpeedscopeBytes, write: opening(convert.NewSpeedscope)},
	{name: "firefox", about: "a profile for the Firefox Profiler, with calls in time order", kind: ofTimeline, sources: true,
		viewer: "the Firefox Profiler", mostBytes: 400e6, perCall: convert.FirefoxBytes, write: opening(convert.NewFirefox)},
	{name: "pprof", about: "a profile of self time and calls for go tool pprof", kind: ofSums, binary: true, compressed: true, inlines: true, write: fewerPaths(adding(calls.Options{Paths: true}, convert.NewPprof))},
	{name: "callgrind", about: "a profile for KCachegrind and callgrind_annotate", kind: ofSums, write: shortAfter(adding(calls.Options{Opens: true}, convert.NewCallgrind))},
	{name: "folded", about: "folded stacks of self time for flame graph tools", kind: ofSums, write: foldedStacks},
	{name: "csv", about: "one row per call", kind: ofCalls, write: ending(convert.NewCSV)},
	{name: "json", about: "one JSON object per line, one per call", kind: ofCalls, write: ending(convert.NewJSONLines)},
	{name: "parquet", about: "a directory of tables for DuckDB, Spark, ClickHouse and similar engines", kind: ofCalls, tables: parquetTables},
}

// traceFormatNames returns the names of the formats for which ok is true, or of all.
func traceFormatNames(ok func(*traceFormat) bool) []string {
	var names []string
	for i := range traceFormats {
		if f := &traceFormats[i]; ok == nil || ok(f) {
			names = append(names, f.name)
		}
	}
	return names
}

func traceFormatNamed(name string) *traceFormat {
	for i := range traceFormats {
		if traceFormats[i].name == name {
			return &traceFormats[i]
		}
	}
	return nil
}

// listFormats returns the part of convert's help that lists some formats.
func listFormats(of func(*traceFormat) bool) string {
	var b strings.Builder
	for i := range traceFormats {
		if f := &traceFormats[i]; of(f) {
			fmt.Fprintf(&b, "  %-12s %s\n", f.name, f.about)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func isOfRecords(f *traceFormat) bool { return f.kind == ofRecords }
func isOfCalls(f *traceFormat) bool   { return f.kind != ofRecords }
func isTimeline(f *traceFormat) bool  { return f.kind == ofTimeline }
func hasSources(f *traceFormat) bool  { return f.sources }

// opening is for writers that write a call at its entry, before its duration is known. ending is
// for writers that write a call when it ends.
func opening[W convert.CallWriter](newWriter func(io.Writer, convert.Options) W) formatWriter {
	return streaming(calls.Options{Shards: 1, Opens: true}, newWriter)
}

func ending[W convert.CallWriter](newWriter func(io.Writer, convert.Options) W) formatWriter {
	return streaming(calls.Options{Shards: 1}, newWriter)
}

func streaming[W convert.CallWriter](how calls.Options, newWriter func(io.Writer, convert.Options) W) formatWriter {
	return func(c *conversion, s *session.Session, opts convert.Options, w io.Writer) (*session.Run, error) {
		out := newWriter(w, opts)
		how.OffCPU = opts.OffCPU
		_, run, err := session.Analyze(s, c.scope, how, func() session.Streamed { return session.Streamed{Sink: out} })
		if err != nil {
			return nil, err
		}
		c.caveats = s.Caveats(run)
		return run, out.Close()
	}
}

// shortAfter is for writers that drop short calls themselves, because they need to see the calls
// around them.
func shortAfter(write formatWriter) formatWriter {
	return func(c *conversion, s *session.Session, opts convert.Options, w io.Writer) (*session.Run, error) {
		opts.Shortest = c.scope.MinDuration
		c.scope = c.scope.OfAnyDuration()
		return write(c, s, opts, w)
	}
}

// pprofPathCost is the memory for a path relative to other commands.
const pprofPathCost = 1 + convert.PprofPathBytes/session.BytesPerPath

// fewerPaths is for the profile of pprof.
func fewerPaths(write formatWriter) formatWriter {
	return func(c *conversion, s *session.Session, opts convert.Options, w io.Writer) (*session.Run, error) {
		s.MaxPaths = (s.MaxPaths + pprofPathCost - 1) / pprofPathCost
		return write(c, s, opts, w)
	}
}

// mergedAtLast is an analysis that is written after all calls were read.
type mergedAtLast[S any] interface {
	calls.Analysis[S]
	Write(io.Writer) error
}

func adding[S mergedAtLast[S]](how calls.Options, newSink func(convert.Options) S) formatWriter {
	return func(c *conversion, s *session.Session, opts convert.Options, w io.Writer) (*session.Run, error) {
		if err := s.NeedCalls("per-thread", c.perThread); err != nil {
			return nil, err
		}
		how.OffCPU = opts.OffCPU
		sink, run, err := session.Analyze(s, c.scope, how, func() S { return newSink(opts) })
		if err != nil {
			return nil, err
		}
		c.caveats = s.Caveats(run)
		return run, sink.Write(w)
	}
}

func foldedStacks(c *conversion, s *session.Session, _ convert.Options, w io.Writer) (*session.Run, error) {
	report, run, err := stacks(s, c.perThread, false, nil)
	if err != nil {
		return nil, err
	}
	return run, report.WriteFolded(w, s.FullNames(), stack.FoldedView{})
}

// plainBytes copies a trace and decompresses it.
func plainBytes(c *conversion, s *session.Session, _ convert.Options, w io.Writer) (*session.Run, error) {
	f := &c.scope.Filter
	switch {
	case len(s.Trace.Files()) != 1:
		return nil, cli.Usagef("-f plain copies one trace")
	case f.From > 0 || f.To > 0 || len(c.scope.Spans) > 1 || f.Thread != nil || f.Func != nil || f.MaxDepth > 0:
		return nil, cli.Usagef("-f plain copies the whole trace: use xray slice to select part of it")
	}
	if _, err := io.Copy(w, s.Trace.Bytes(0)); err != nil {
		return nil, err
	}
	s.Summary(nil)
	return nil, nil
}

// recordWriter makes a writer of records. The second result is a function that returns, at the
// end, what the format could not represent.
type recordWriter func(s *session.Session, opts convert.Options, w io.Writer) (convert.RecordWriter, func() []string, error)

// whole is for formats that can represent everything.
func whole[W convert.RecordWriter](newWriter func(io.Writer, convert.Options) W) recordWriter {
	return func(_ *session.Session, opts convert.Options, w io.Writer) (convert.RecordWriter, func() []string, error) {
		return newWriter(w, opts), func() []string { return nil }, nil
	}
}

func newBasic(_ *session.Session, opts convert.Options, w io.Writer) (convert.RecordWriter, func() []string, error) {
	basic := tracewrite.NewBasic(w, opts.Header)
	return basic, func() []string { return missing("raw", basic.Dropped, 0) }, nil
}

func newFDR(s *session.Session, opts convert.Options, w io.Writer) (convert.RecordWriter, func() []string, error) {
	own := tracewrite.Options{Processes: new(tracewrite.Processes)}
	var err error
	if own.Recording = s.SingleRecording(); own.Recording == nil || s.Scope.From > 0 || s.Scope.To > 0 {
		if own.Recording, err = convert.CutRecording(s.Trace, own.Processes); err != nil {
			return nil, nil, err
		}
	}
	if own.Recording != nil {
		if own.First, err = s.Start(); err != nil {
			return nil, nil, err
		}
	}
	fdr := tracewrite.NewFDR(w, opts.Header, own)
	return fdr, func() []string { return missing("fdr", fdr.Dropped, fdr.TruncatedIDs) }, nil
}
