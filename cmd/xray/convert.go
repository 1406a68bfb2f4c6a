package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/stack"
)

func (a *app) convertCommand() *cobra.Command {
	c := conversion{app: a, format: "raw"}
	cmd := &cobra.Command{
		Use:   "convert TRACE...",
		Short: "Write a trace in another format",
		Long: `convert writes the records of a trace, or its calls, in another format.

Formats of records:
  raw          a basic log of version 3
  fdr          a flight data recorder log of version 5
  yaml         trace YAML, which llvm-xray and xray read
  trace_event  Chrome JSON in the shape that llvm-xray gives it

Formats of calls:
  perfetto     a protobuf trace for Perfetto
  chrome       Chrome JSON for Perfetto, chrome://tracing and the like
  viztracer    Chrome JSON with the place of each function, for vizviewer
  speedscope   a profile of each thread for speedscope, calls in their order
  firefox      a profile for the Firefox Profiler, calls in their order
  pprof        a profile for go tool pprof, by self time and by calls
  callgrind    a profile for KCachegrind and callgrind_annotate
  folded       folded stacks of self time for flame graph tools
  csv          a row for each call
  json         a line with a JSON object for each call`,
		Example: `  xray convert -f chrome -m ./server -o trace.json trace.xray
  xray convert -f pprof -m ./server -o profile.pb.gz trace.xray
  xray convert -f yaml trace.xray | less`,
		Args: operands("a TRACE", 1, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			s, err := a.open(cmd, &c.flags, args)
			if err != nil {
				return err
			}
			defer s.close()
			if !c.symbols {
				s.names = nil
			}
			return c.run(s)
		},
	}
	f := cmd.Flags()
	c.flags.add(f)
	c.flags.paths.add(f)
	addChoice(f, &c.format, "format", "f", "what to write",
		"raw", "fdr", "yaml", "trace_event", "perfetto", "chrome", "viztracer", "speedscope", "firefox", "pprof", "callgrind", "folded", "csv", "json")
	addCount(f, &c.most, "max-calls", "", 1, "perfetto, chrome, viztracer, speedscope, firefox: keep the `N` longest calls at most")
	addSize(f, &c.size, "max-size", "like --max-calls, but so many that the output has at most `SIZE` bytes, as 20M")
	c.sourceFlags.add(f, "viztracer, firefox: with the source code of functions, where its files are on this machine")
	f.BoolVar(&c.perThread, "per-thread", false, "pprof, folded: keep threads apart")
	f.BoolVar(&c.inlines, "inlines", false, "pprof: show the inlined functions that calls were made from, and the lines of calls")
	f.BoolVar(&c.absolute, "absolute", false, "csv, json: times since 1970, where the trace tells them")
	f.BoolVarP(&c.sort, "sort", "s", true, "raw, yaml, trace_event: merge threads by time; =false writes one after the other")
	f.BoolVarP(&c.symbols, "symbolize", "y", true, "show names, when there is a map")
	c.flags.addDemangle(f)
	addOutput(f, &c.output)
	spellings(f, map[string]string{"output-format": "format"})
	return cmd
}

// conversion is one run of convert.
type conversion struct {
	app   *app
	flags traceFlags
	sourceFlags
	sources   *sources // nil where none are wanted
	format    string
	output    string
	sort      bool
	symbols   bool
	perThread bool
	inlines   bool
	absolute  bool
	most      int   // 0 for all calls
	size      int64 // 0 for all calls
}

func (c *conversion) ofRecords() bool {
	switch c.format {
	case "raw", "fdr", "yaml", "trace_event":
		return true
	}
	return false
}

// ofTimeline reports whether the format shows each call at its time.
func (c *conversion) ofTimeline() bool {
	switch c.format {
	case "perfetto", "chrome", "viztracer", "speedscope", "firefox":
		return true
	}
	return false
}

// check refuses what makes no sense before any work is done.
func (c *conversion) check() error {
	switch c.format {
	case "raw", "fdr", "perfetto", "pprof":
		if err := c.app.refuseTerminal(c.output, c.format); err != nil {
			return err
		}
	}
	f := &c.flags.filter
	if (c.most > 0 || c.size > 0) && !c.ofTimeline() {
		return usagef("--max-calls and --max-size are for the timelines: -f perfetto, chrome, viztracer, speedscope and firefox")
	}
	if c.inlines && (c.format != "pprof" || c.flags.group) {
		return usagef("--inlines is for -f pprof, without --group-templates")
	}
	if err := c.sourceFlags.check(); err != nil {
		return err
	}
	if c.source && c.format != "viztracer" && c.format != "firefox" {
		return usagef("--source is for -f viztracer and firefox")
	}
	if c.ofRecords() && c.flags.group {
		return usagef("-f %s writes records as they are: --group-templates does not apply", c.format)
	}
	if c.ofRecords() && f.minDuration != "" {
		return usagef("-f %s writes the records of a call before it knows how long the call takes: --min-duration does not apply", c.format)
	}
	return nil
}

func (c *conversion) run(s *session) error {
	if c.source {
		var err error
		if c.sources, err = s.sources(&c.sourceFlags); err != nil {
			return err
		}
		defer c.sources.tell()
	}
	opts, err := c.options(s)
	if err != nil {
		return err
	}
	if c.ofRecords() {
		return c.records(s, opts)
	}
	switch c.format {
	case "pprof":
		sink, stats, err := analyse(s, calls.Options{Paths: true}, func() *convert.Pprof { return convert.NewPprof(opts) })
		if err != nil {
			return err
		}
		s.summary(stats)
		sink.Comments = s.caveats(stats)
		c.app.tellCaveats(sink.Comments)
		return c.app.writeData(c.output, sink.Write)
	case "callgrind":
		opts.Shortest, s.filter.MinDuration = s.filter.MinDuration, 0
		var caveats []string
		opts.Caveats = func() []string { return caveats }
		sink, stats, err := analyse(s, calls.Options{Opens: true}, func() *convert.Callgrind { return convert.NewCallgrind(opts) })
		if err != nil {
			return err
		}
		s.summary(stats)
		caveats = s.caveats(stats)
		c.app.tellCaveats(caveats)
		return c.writeText(sink.Write)
	case "folded":
		report, stats, err := s.stacks(c.perThread)
		if err != nil {
			return err
		}
		s.summary(stats)
		c.app.tellCaveats(s.caveats(stats))
		return c.writeText(func(w io.Writer) error {
			return report.WriteFolded(w, s.names, stack.FoldedView{})
		})
	}
	return c.writeText(func(w io.Writer) error { return c.calls(s, opts, w) })
}

// writeText writes what is not compressed by itself; it is, if the name of the file
// says so.
func (c *conversion) writeText(f func(io.Writer) error) error {
	return c.app.writeData(c.output, func(w io.Writer) error {
		if !strings.HasSuffix(c.output, ".gz") {
			return f(w)
		}
		z := gzip.NewWriter(w)
		return errors.Join(f(z), z.Close())
	})
}

// options are those of the trace. They take passes over it.
func (c *conversion) options(s *session) (convert.Options, error) {
	opts := convert.Options{
		Header: s.trace.Header(0), Names: s.names, Files: s.trace.Files(), Threads: c.perThread, Inlines: c.inlines, Absolute: c.absolute,
		ThreadName: s.trace.ThreadName, ProcessName: s.trace.ProcessName,
	}
	opts.Header.CycleFrequency = s.clock.Frequency
	var err error
	switch c.format {
	case "perfetto", "chrome", "viztracer", "speedscope", "firefox", "csv", "json":
		if opts.Base, err = s.start(); err != nil {
			return opts, err
		}
		if r := s.trace.Recording(0); r != nil {
			opts.Epoch, _ = r.Clock.Realtime(opts.Base)
		}
		if opts.Absolute && opts.Epoch == 0 {
			return opts, fmt.Errorf("--absolute: %s does not say what time it was: only traces of xray's own recorder do", opts.Files[0])
		}
	}
	if c.ofTimeline() {
		opts, err = c.chooseCalls(s, opts)
	}
	return opts, err
}

// calls writes calls one by one, and says what there is to say of them.
func (c *conversion) calls(s *session, opts convert.Options, w io.Writer) error {
	var written counter
	stats, err := c.write(s, opts, io.MultiWriter(&written, w))
	if err != nil {
		return err
	}
	s.summary(stats)
	c.app.tellCaveats(s.caveats(stats))
	if advice := adviseOnSize(c.format, int64(written)); advice != "" {
		fmt.Fprintf(c.app.stderr, "xray: %s\n", advice)
	}
	return nil
}

// write writes calls one by one.
func (c *conversion) write(s *session, opts convert.Options, w io.Writer) (*calls.Stats, error) {
	type writer interface {
		calls.Sink
		Close() error
	}
	var out writer
	var read func(path string) ([]byte, error)
	if c.sources != nil {
		read = c.sources.text
	}
	callOpts := calls.Options{Shards: 1}
	var caveats []string
	opts.Caveats = func() []string { return caveats }
	switch c.format {
	case "perfetto", "speedscope", "firefox":
		// Entries are written before it is known how long a call takes.
		callOpts.Opens = true
		lost := func() int64 { return s.trace.Losses().Records() }
		switch c.format {
		case "speedscope":
			out = convert.NewSpeedscope(w, opts)
		case "firefox":
			out = convert.NewFirefox(w, opts, lost, read)
		default:
			out = convert.NewPerfetto(w, opts, lost)
		}
	case "viztracer":
		out = convert.NewVizTracer(w, opts, read)
	case "csv":
		out = convert.NewCSV(w, opts)
	case "json":
		out = convert.NewJSONLines(w, opts)
	default:
		out = convert.NewChrome(w, opts)
	}
	_, stats, err := analyse(s, callOpts, func() streamed { return streamed{out} })
	if err != nil {
		return nil, err
	}
	caveats = s.caveats(stats)
	return stats, out.Close()
}

// records writes records as they are.
func (c *conversion) records(s *session, opts convert.Options) error {
	var fdrOpts tracewrite.Options
	if len(opts.Files) == 1 && c.format == "fdr" {
		if fdrOpts.Recording = s.trace.Recording(0); fdrOpts.Recording != nil {
			var err error
			if fdrOpts.First, err = s.start(); err != nil {
				return err
			}
		}
	}
	return c.writeText(func(w io.Writer) error {
		var out blockWriter
		left := func() []string { return nil }
		switch c.format {
		case "yaml":
			out = convert.NewYAML(w, opts)
		case "trace_event":
			out = convert.NewTraceEvents(w, opts)
		case "fdr":
			fdr := tracewrite.NewFDR(w, opts.Header, fdrOpts)
			out, left = fdr, func() []string { return missing(c.format, fdr.Dropped, fdr.TruncatedIDs) }
		default:
			basic := tracewrite.NewBasic(w, opts.Header)
			out, left = basic, func() []string { return missing(c.format, basic.Dropped, 0) }
		}
		stop := c.app.progress(s.name, s.trace)
		err := s.write(out, c.order())
		stop()
		if err != nil {
			return err
		}
		if err := s.checkStrict(&firstUnmatched{}); err != nil {
			return err
		}
		if lines := left(); s.strict && len(lines) > 0 {
			return errors.New(strings.Join(lines, "; "))
		}
		s.summary(nil)
		if fdrOpts.Recording == nil { // which the output has too
			c.app.tellCaveats(s.caveats(nil))
		}
		for _, line := range left() {
			fmt.Fprintf(c.app.stderr, "xray: %s\n", line)
		}
		return nil
	})
}

// missing says what of the trace a format of records could not hold.
func missing(format string, dropped, truncatedIDs int64) []string {
	var lines []string
	if dropped > 0 {
		lines = append(lines, fmt.Sprintf("%s of the trace left out, which the format %s cannot hold",
			plural(dropped, "event or argument", "events and arguments"), format))
	}
	if truncatedIDs > 0 {
		lines = append(lines, plural(truncatedIDs, "record has an id", "records have ids")+" of more than 28 bits, which FDR logs cut off: "+
			"functions of shared objects from the 16th on look like those of others; -f raw keeps ids whole")
	}
	return lines
}

func (c *conversion) order() reader.Order {
	// Each thread of an FDR log has its own blocks, so that merging them would
	// be in vain.
	if c.sort && c.format != "fdr" {
		return reader.TimeOrder
	}
	return reader.ThreadOrder
}

// blockWriter is a writer of records.
type blockWriter interface {
	Block(*reader.Block) error
	Close() error
}

// sortedWriter is one that can put all of a trace in order by itself.
type sortedWriter interface {
	blockWriter
	Sorted(t *reader.Trace, n int, edit func(*reader.Block) *reader.Block) error
}

// write writes the records that the command line chose.
func (s *session) write(w blockWriter, order reader.Order) error {
	edit := convert.ChooseRecords(s.filter)
	if sorted, ok := w.(sortedWriter); ok && order == reader.TimeOrder {
		if err := sorted.Sorted(s.trace, runtime.GOMAXPROCS(0), edit); err != nil {
			return err
		}
		return w.Close()
	}
	for b, err := range s.trace.Blocks(order) {
		if err == nil {
			if edit != nil {
				b = edit(b)
			}
			err = w.Block(b)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}
